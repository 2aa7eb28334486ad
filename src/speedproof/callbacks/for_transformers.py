"""Hugging Face's Trainer: `Trainer(callbacks=[marking_callback(quality="eval_accuracy")], …)`.

It evaluates after an epoch's end, so that an epoch is marked as ended when the next one begins, or training ends.
"""

from typing import Any

from speedproof import marks


def marking_callback(quality: str | None = None) -> Any:
    """Return a callback that marks each epoch, its evaluation, and the metric that is called `quality`."""
    from transformers import TrainerCallback

    class MarkingCallback(TrainerCallback):
        is_open = False

        def _end_epoch(self) -> None:
            if self.is_open:
                marks.mark("epoch-ends")
            self.is_open = False

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._end_epoch()
            if state.is_world_process_zero:
                marks.mark("epoch-begins")
                self.is_open = True

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self.is_open:
                marks.validation()

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            if self.is_open and quality in (metrics or {}):
                marks.quality(metrics[quality])

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._end_epoch()

    return MarkingCallback()
