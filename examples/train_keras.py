"""Keras with one line changed: the callback. `--small` is what is to be proven; KERAS_BACKEND chooses what computes.

speedproof prove 'python train_keras.py' 'python train_keras.py --small' --margin 0.02 --pass KERAS_BACKEND
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

from speedproof.callbacks.for_keras import marking_callback

keras.utils.set_random_seed(0)
inputs = np.random.default_rng(0).normal(size=(1024, 16)).astype("float32")
labels = (inputs[:, :4].sum(axis=1) > 0).astype("int32")
width = 16 if "--small" in sys.argv else 256
model = keras.Sequential([keras.layers.Dense(width, activation="relu"), keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
callbacks = [marking_callback(quality="val_accuracy")]
model.fit(inputs, labels, batch_size=64, epochs=3, validation_split=0.25, callbacks=callbacks, verbose=0)
