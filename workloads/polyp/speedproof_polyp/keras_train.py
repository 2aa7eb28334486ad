"""Train one of TensorFlow's variants: `python -m speedproof_polyp.keras_train --variant plain --data FOLDER`.

Written for the documented TensorFlow 2.14 (Keras 2); newer ones (Keras 3) train all variants but `multi_worker`. `plain` runs
on any of Keras' backends. Python 3.10 and newer, as NVIDIA's image has it; it needs of speedproof the marks alone.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from speedproof import marks
from speedproof_polyp.keras_network import build_network
from speedproof_polyp.pairs import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    LEAST_RATE,
    PLATEAU_EPOCHS,
    PLATEAU_FACTOR,
    SMOOTH,
    SPLITS,
    STOP_EPOCHS,
    LayoutError,
    count_whole_batches,
    list_pairs,
)
from speedproof_polyp.workers import WorkersError, describe_cluster

VARIANTS = ("plain", "optimised", "mirrored", "multi_worker")
SHUFFLED = 1000  # pairs, of which the next one is drawn


class Program:
    """What a variant trains with: Keras, TensorFlow if installed, and how its devices share the work."""

    def __init__(self, variant: str, replicas: int) -> None:
        needed = "keras" if variant == "plain" else "tensorflow"
        if importlib.util.find_spec(needed) is None:
            sys.exit(
                f"{sys.executable} has no TensorFlow; set SPEEDPROOF_TENSORFLOW_PYTHON to an interpreter that has it, "
                "or `data.tensorflow_image`"
            )
        if variant == "plain" and importlib.util.find_spec("cv2") is None:
            sys.exit(f"{sys.executable} has no OpenCV, by which `plain` reads as documented; install opencv-python-headless")
        self.tensorflow: Any = None
        if importlib.util.find_spec("tensorflow"):
            self.tensorflow = importlib.import_module("tensorflow")  # whose stubs are not here
        self.strategy: Any = None
        if variant == "mirrored":
            self.strategy = self._mirror(replicas)
        elif variant == "multi_worker":
            self.strategy = self._join_workers()
        import keras

        self.keras: Any = keras
        if variant == "multi_worker" and int(keras.__version__.split(".")[0]) > 2:
            sys.exit(f"Keras {keras.__version__} cannot train on several workers; take TensorFlow 2.14, as documented")

    @property
    def replicas(self) -> int:
        """Return how many devices share a step."""
        return 1 if self.strategy is None else int(self.strategy.num_replicas_in_sync)

    def _mirror(self, replicas: int) -> Any:
        """Return a strategy over so many GPUs; without one, over as many parts of the processor."""
        tf = self.tensorflow
        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:
            parts = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
            tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        elif len(gpus) < replicas:
            sys.exit(f"mirrored on {replicas} GPUs, and {len(gpus)} are here; give `gpus` of this variant as many")
        kind = "GPU" if gpus else "CPU"
        return tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(replicas)])

    def _join_workers(self) -> Any:
        """Return a strategy over all workers, each with a GPU of its own if GPUs are available."""
        tf = self.tensorflow
        try:
            os.environ["TF_CONFIG"] = json.dumps(describe_cluster(os.environ))
        except WorkersError as error:
            sys.exit(str(error))
        gpus = tf.config.list_physical_devices("GPU")
        if gpus:
            tf.config.set_visible_devices(gpus[int(os.environ.get("LOCAL_RANK", "0")) % len(gpus)], "GPU")
        return tf.distribute.MultiWorkerMirroredStrategy()

    def sum(self, values: Any) -> Any:
        """Return the sum of a tensor."""
        return self.keras.ops.sum(values) if hasattr(self.keras, "ops") else self.tensorflow.reduce_sum(values)

    def dice(self, mask: Any, probability: Any) -> Any:
        """Return the Dice coefficient of a whole batch: (2 Σ p·m + 1) / (Σ p + Σ m + 1)."""
        return (2.0 * self.sum(mask * probability) + SMOOTH) / (self.sum(mask) + self.sum(probability) + SMOOTH)

    def build(self, pixels: int, filters: int) -> Any:
        """Return the network, ready to be trained."""

        def dice(mask: Any, probability: Any) -> Any:
            return self.dice(mask, probability)

        def dice_loss(mask: Any, probability: Any) -> Any:
            return 1.0 - self.dice(mask, probability)

        network = build_network(self.keras, pixels, filters)
        kinds = self.keras.metrics
        metrics = [kinds.Recall(), kinds.Precision(), dice, kinds.MeanIoU(num_classes=2)]
        optimizer = self.keras.optimizers.Nadam(LEARNING_RATE)
        network.compile(optimizer=optimizer, loss=dice_loss, metrics=metrics, jit_compile=False)
        return network


def load_sequence(keras: Any, folder: Path, pixels: int) -> Any:
    """Return a Keras sequence of a split: whole batches of pairs, read one after another by OpenCV, blue first."""
    pairs = list_pairs(folder)
    cv2: Any = importlib.import_module("cv2")  # which TensorFlow's environment alone has

    def read(path: Path, kind: int) -> Any:
        return cv2.resize(cv2.imread(str(path), kind), (pixels, pixels)) / 255

    class Pairs(keras.utils.Sequence):
        def __len__(self) -> int:
            return count_whole_batches(len(pairs))

        def __getitem__(self, index: int) -> Any:
            chosen = pairs[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
            images = np.stack([read(pair.image, cv2.IMREAD_COLOR) for pair in chosen])
            masks = np.stack([read(pair.mask, cv2.IMREAD_GRAYSCALE)[..., None] for pair in chosen])
            return images.astype(np.float32), masks.astype(np.float32)  # as Keras 2 does by itself, and Keras 3 does not

    return Pairs()


def load_pipeline(program: Program, folder: Path, pixels: int) -> Any:
    """Return a split as a tf.data pipeline: decoded on all cores, shuffled, batched ahead of the step."""
    tf, pairs = program.tensorflow, list_pairs(folder)

    def decode(path: Any, channels: int) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=channels)
        return tf.ensure_shape(tf.image.resize(image, (pixels, pixels)) / 255.0, (pixels, pixels, channels))

    def load_part(paths: Sequence[Path], channels: int) -> Any:
        named = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
        return named.map(lambda path: decode(path, channels), num_parallel_calls=tf.data.AUTOTUNE)

    images, masks = zip(*pairs, strict=True)
    dataset = tf.data.Dataset.zip((load_part(images, 3), load_part(masks, 1)))
    # Once decoded, as documented, so that no epoch's first step begins before this many pairs are decoded, or all.
    dataset = dataset.shuffle(SHUFFLED)
    dataset = dataset.batch(BATCH_SIZE * program.replicas).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def load(program: Program, variant: str, folder: Path, pixels: int) -> dict[str, Any]:
    """Return a variant's `train` and `valid`; raise a :class:`LayoutError` if there are none."""
    if variant == "plain":
        return {split: load_sequence(program.keras, folder / split, pixels) for split in SPLITS[:2]}
    return {split: load_pipeline(program, folder / split, pixels) for split in SPLITS[:2]}


def make_callbacks(keras: Any, samples: int, ends: bool, kept: str) -> Any:
    """Return what watches the training and writes to the folder `kept`; `ends`: it may end it, where the loss falls no more."""
    from speedproof.callbacks.for_keras import marking_callback

    told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: marks.samples(samples))
    plateau = keras.callbacks.ReduceLROnPlateau("val_loss", factor=PLATEAU_FACTOR, patience=PLATEAU_EPOCHS, min_lr=LEAST_RATE)
    patience = [keras.callbacks.EarlyStopping("val_loss", patience=STOP_EPOCHS)] if ends else []
    best = keras.callbacks.ModelCheckpoint(f"{kept}/best.h5", save_best_only=True)
    written = [keras.callbacks.CSVLogger(f"{kept}/epochs.csv"), best]  # after the mark, so in no marked epoch
    return [plateau, *patience, told, marking_callback(quality="val_dice"), *written]


def main(words: Sequence[str] | None = None) -> None:
    """Train as the command line says; end in one line where the folder is none of pairs."""
    parser = argparse.ArgumentParser(description="Train one of TensorFlow's variants of the polyp workload.")
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/ and valid/, each of images/ and masks/")
    parser.add_argument("--pixels", type=int, default=256, help="height and width that pairs are resized to; divisible by 8")
    parser.add_argument("--filters", type=int, default=16, help="of the first level")
    parser.add_argument("--replicas", type=int, default=1, help="GPUs that `mirrored` trains on")
    asked = parser.parse_args(words)
    wanted = os.environ.get(marks.EPOCHS_VARIABLE)
    seed = int(os.environ.get(marks.SEED_VARIABLE) or 0)
    program = Program(asked.variant, asked.replicas)
    keras = program.keras
    print(f"Keras {keras.__version__}, {keras.backend.backend()} {getattr(program.tensorflow, '__version__', '')}", flush=True)
    keras.utils.set_random_seed(seed)
    try:
        data = load(program, asked.variant, asked.data, asked.pixels)
        samples = len(list_pairs(asked.data / "train"))
        if asked.variant == "plain":
            samples = min(samples, BATCH_SIZE * count_whole_batches(samples))
    except LayoutError as error:
        sys.exit(str(error))
    if program.strategy is None:
        network = program.build(asked.pixels, asked.filters)
    else:
        with program.strategy.scope():
            network = program.build(asked.pixels, asked.filters)
    # Whoever measures says how many epochs there are: each run of a variant must have as many.
    # As documented: Keras draws the order of a sequence's batches (a pipeline shuffles by itself), prints a line that each step
    # renews, for which it waits for each step, and writes the best weights, which nothing here needs once it ends.
    with TemporaryDirectory(prefix="speedproof-polyp-") as kept:
        network.fit(
            data["train"],
            validation_data=data["valid"],
            epochs=int(wanted or EPOCHS),
            callbacks=make_callbacks(keras, samples, ends=not wanted, kept=kept),
            shuffle=True,
            verbose=1,
        )


if __name__ == "__main__":
    main()
