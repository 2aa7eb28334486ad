"""TensorFlow's sides: where they are refused, and, where an interpreter has TensorFlow, that they train and mark."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from speedproof.sides.read_marks import read_marks
from speedproof.sides.working_folder import providing_marks
from speedproof_polyp import keras_train
from speedproof_polyp.pairs import list_pairs, read_image, read_mask

FOLDER = Path(__file__).parents[1]
PYTHON = os.environ.get("SPEEDPROOF_TENSORFLOW_PYTHON")
needs_tensorflow = pytest.mark.skipif(
    not PYTHON, reason="needs TensorFlow: set SPEEDPROOF_TENSORFLOW_PYTHON to an interpreter that has it"
)


@pytest.mark.parametrize("side", keras_train.SIDES)
def test_without_tensorflow_a_side_ends_in_one_line(side, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        keras_train.main(["--side", side, "--data", "/nowhere"])
    assert "has no TensorFlow; set SPEEDPROOF_TENSORFLOW_PYTHON" in str(caught.value.code)
    assert "\n" not in str(caught.value.code)


def test_the_plain_sides_sequence_is_in_order_and_blue_first(tiny_pairs):
    class Sequence:
        """In place of Keras' own."""

    class Keras:
        utils = type("Utils", (), {"Sequence": Sequence})

    batches = keras_train.load_sequence(Keras, tiny_pairs / "train", 16)
    pairs = list_pairs(tiny_pairs / "train")
    assert len(batches) == 2
    images, masks = batches[1]
    assert (images.shape, masks.shape) == ((2, 16, 16, 3), (2, 16, 16, 1))
    assert np.array_equal(images[1], read_image(pairs[9].image, 16)[..., ::-1])
    assert np.array_equal(masks[1], read_mask(pairs[9].mask, 16))


def test_the_interpreter_that_is_named_runs_the_side(tmp_path):
    script = ["sh", str(FOLDER / "tensorflow.sh"), "-c", "import sys; print(sys.executable, sys.argv[1])", "a b"]
    environ = {**os.environ, "SPEEDPROOF_TENSORFLOW_PYTHON": sys.executable}
    assert subprocess.run(script, env=environ, capture_output=True, text=True).stdout == f"{sys.executable} a b\n"


def train(side, folder, pairs, **variables):
    """Start a side as the instrument does, on tiny pairs and with a small network."""
    words = ["--side", side, "--replicas", "2", "--data", str(pairs), "--pixels", "16", "--filters", "2"]
    environ = {"PATH": os.environ["PATH"], "SPEEDPROOF_RUN": str(folder), "SPEEDPROOF_EPOCHS": "2", **variables}
    return subprocess.Popen([PYTHON, "-m", "speedproof_polyp.keras_train", *words], env=environ, cwd=folder)


@needs_tensorflow
@pytest.mark.parametrize(("side", "workers"), [("plain", 1), ("optimised", 1), ("mirrored", 1), ("multi_worker", 2)])
def test_a_side_trains_and_marks_what_it_does(side, workers, tiny_pairs, tmp_path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1] - 1), "WORLD_SIZE": str(workers)}
    with providing_marks() as marks:
        path = os.pathsep.join([str(marks), str(FOLDER)])
        started = [train(side, tmp_path, tiny_pairs, PYTHONPATH=path, RANK=str(rank), **place) for rank in range(workers)]
        assert [one.wait(timeout=900) for one in started] == [0] * workers
    found = read_marks(tmp_path / "marks.jsonl")
    assert [(epoch.samples, (epoch.validation_s or 0) > 0) for epoch in found.epochs] == [(10, True)] * 2
    assert all(0 < (epoch.quality or 0) < 1 for epoch in found.epochs)
