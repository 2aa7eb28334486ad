"""Ignite, and trainers built on it: `attach_marks(trainer, evaluator, quality="accuracy")`.

An evaluator runs in a handler of the trainer's epoch end, so an epoch is marked as ended when the next one begins, or all end.
"""

from typing import Any

from speedproof import marks


def attach_marks(trainer: Any, evaluator: Any = None, quality: str | None = None) -> None:
    """Have an engine mark its epochs, the runs of its `evaluator` as validation, and the metric that is called `quality`."""
    from ignite.engine import Events

    is_open = False

    def end_epoch() -> None:
        nonlocal is_open
        if is_open:
            marks.mark("epoch-ends")
        is_open = False

    def begin_epoch() -> None:
        nonlocal is_open
        end_epoch()
        marks.mark("epoch-begins")
        is_open = True

    def tell_quality() -> None:
        if is_open and quality in evaluator.state.metrics:
            marks.quality(float(evaluator.state.metrics[quality]))

    trainer.add_event_handler(Events.EPOCH_STARTED, begin_epoch)
    trainer.add_event_handler(Events.COMPLETED, end_epoch)
    if evaluator is not None:
        evaluator.add_event_handler(Events.STARTED, lambda: marks.validation() if is_open else None)
        evaluator.add_event_handler(Events.COMPLETED, tell_quality)
