"""Lightning: `Trainer(callbacks=[marking_callback(quality="val_acc")], …)`.

An epoch lasts from the begin of training to the end of its validation, which in Lightning lies within the training epoch.
"""

from typing import Any

from speedproof import marks


def marking_callback(quality: str | None = None) -> Any:
    """Return a callback that marks each epoch, its validation, and the logged metric that is called `quality`."""
    from lightning.pytorch import Callback

    class MarkingCallback(Callback):
        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            marks.mark("epoch-begins")

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.sanity_checking:
                marks.validation()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            if quality in trainer.callback_metrics:
                marks.quality(float(trainer.callback_metrics[quality]))
            marks.mark("epoch-ends")

    return MarkingCallback()
