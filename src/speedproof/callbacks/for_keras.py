"""Keras, whatever its backend: `model.fit(…, callbacks=[marking_callback(quality="val_accuracy")])`.

An epoch's validation lies within it, as in Keras.
"""

from typing import Any

from speedproof import marks


def marking_callback(quality: str | None = None) -> Any:
    """Return a callback that marks each epoch, its validation, and the metric of its logs that is called `quality`."""
    import keras

    class MarkingCallback(keras.callbacks.Callback):
        in_epoch = False

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            marks.mark("epoch-begins")
            self.in_epoch = True

        def on_test_begin(self, logs: Any = None) -> None:
            if self.in_epoch:
                marks.validation()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if quality in (logs or {}):
                marks.quality(float(logs[quality]))
            marks.mark("epoch-ends")
            self.in_epoch = False

    return MarkingCallback()
