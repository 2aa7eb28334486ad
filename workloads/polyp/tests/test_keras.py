"""TensorFlow's variants: where they are refused, and, where an interpreter has TensorFlow, that they train and mark."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from speedproof_polyp import keras_train
from speedproof_polyp.pairs import count_whole_batches
from tests.instrument import providing_marks, read_marks

FOLDER = Path(__file__).parents[1]
PYTHON = os.environ.get("SPEEDPROOF_TENSORFLOW_PYTHON")
needs_tensorflow = pytest.mark.skipif(
    not PYTHON, reason="needs TensorFlow: set SPEEDPROOF_TENSORFLOW_PYTHON to an interpreter that has it"
)


@pytest.mark.parametrize("variant", keras_train.VARIANTS)
def test_without_tensorflow_a_variant_ends_in_one_line(variant, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        keras_train.main(["--variant", variant, "--data", "/nowhere"])
    assert "has no TensorFlow; set SPEEDPROOF_TENSORFLOW_PYTHON" in str(caught.value.code)
    assert "\n" not in str(caught.value.code)


def test_without_opencv_the_plain_variant_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "cv2" else "found")
    with pytest.raises(SystemExit) as caught:
        keras_train.main(["--variant", "plain", "--data", "/nowhere"])
    assert "has no OpenCV" in str(caught.value.code)
    assert "\n" not in str(caught.value.code)


class OpenCV:
    """In place of OpenCV: of each file the number in its name, as bytes of a size that it has; resized, of another."""

    IMREAD_GRAYSCALE, IMREAD_COLOR = 0, 1

    @staticmethod
    def imread(path, kind):
        return np.full((5, 7, 3) if kind else (5, 7), int(Path(path).stem.removeprefix("polyp_")), np.uint8)

    @staticmethod
    def resize(image, size):
        return np.full((*size, *image.shape[2:]), image.flat[0], np.uint8)


def test_the_plain_variants_sequence_has_whole_batches_in_the_files_order_read_by_opencv(tiny_pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", OpenCV)
    keras = SimpleNamespace(utils=SimpleNamespace(Sequence=object))
    batches = keras_train.load_sequence(keras, tiny_pairs / "train", 16)
    assert len(batches) == 1  # of ten pairs
    images, masks = batches[0]
    assert (images.shape, masks.shape) == ((8, 16, 16, 3), (8, 16, 16, 1))
    for part in (images, masks):
        assert np.allclose(part.mean((1, 2, 3)), np.arange(8) / 255)


def test_a_pipeline_shuffles_what_is_decoded_whether_it_trains_or_not(tiny_pairs):
    for split in ("train", "valid"):
        tf = MagicMock()
        keras_train.load_pipeline(SimpleNamespace(tensorflow=tf, replicas=2), tiny_pairs / split, 16)
        assert tf.data.Dataset.from_tensor_slices.return_value.map.call_count == 2  # images, masks
        zipped = tf.data.Dataset.zip.return_value
        assert [name for name, *_ in zipped.mock_calls[:3]] == ["shuffle", "shuffle().batch", "shuffle().batch().prefetch"]
        zipped.shuffle.assert_called_once_with(1000)
        zipped.shuffle.return_value.batch.assert_called_once_with(16)


def test_what_fills_no_batch_is_left_out_unless_it_is_all():
    assert [count_whole_batches(pairs) for pairs in (800, 100, 8, 2)] == [100, 12, 1, 1]


def test_the_interpreter_that_is_named_runs_the_variant(tmp_path):
    script = ["sh", str(FOLDER / "tensorflow.sh"), "-c", "import sys; print(sys.executable, sys.argv[1])", "a b"]
    environ = {**os.environ, "SPEEDPROOF_TENSORFLOW_PYTHON": sys.executable}
    assert subprocess.run(script, env=environ, capture_output=True, text=True).stdout == f"{sys.executable} a b\n"


def train(variant, folder, pairs, **variables):
    """Start a variant as the instrument does, on tiny pairs and with a small network."""
    words = ["--variant", variant, "--replicas", "2", "--data", str(pairs), "--pixels", "16", "--filters", "2"]
    environ = {"PATH": os.environ["PATH"], "SPEEDPROOF_RUN": str(folder), "SPEEDPROOF_EPOCHS": "2", **variables}
    return subprocess.Popen([PYTHON, "-m", "speedproof_polyp.keras_train", *words], env=environ, cwd=folder)


@needs_tensorflow
@pytest.mark.parametrize(("variant", "workers"), [("plain", 1), ("optimised", 1), ("mirrored", 1), ("multi_worker", 2)])
def test_a_variant_trains_and_marks_what_it_does(variant, workers, tiny_pairs, tmp_path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1] - 1), "WORLD_SIZE": str(workers)}
    with providing_marks() as marks:
        path = os.pathsep.join([str(marks), str(FOLDER)])
        started = [train(variant, tmp_path, tiny_pairs, PYTHONPATH=path, RANK=str(rank), **place) for rank in range(workers)]
        assert [one.wait(timeout=900) for one in started] == [0] * workers
    found = read_marks(tmp_path / "marks.jsonl")
    samples = 8 if variant == "plain" else 10
    assert [(epoch.samples, (epoch.validation_s or 0) > 0) for epoch in found.epochs] == [(samples, True)] * 2
    assert all(0 < (epoch.quality or 0) < 1 for epoch in found.epochs)
