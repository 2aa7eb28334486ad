"""The variants, in this process, on tiny images and a small network: what they compute, and in which ranges."""

import json

import pytest
import torch

from speedproof_classifier import fast, loop, resident, train, train_nvtx, train_profiler
from speedproof_classifier.images import Files, Resident, decode, list_splits
from speedproof_classifier.resnet import resnet50
from tests.instrument import read_marks

CPU = torch.device("cpu")


@pytest.fixture
def program(tiny_images, tmp_path, monkeypatch, capsys):
    """Runs a variant's `main` on the tiny images, with a small network; returns its marks, losses and words."""
    monkeypatch.setattr(loop, "resnet50", lambda: resnet50(((8, 1), (8, 1), (16, 1), (16, 1)), 10))
    monkeypatch.setattr(loop, "SAID_EVERY", 1)
    monkeypatch.setattr("speedproof_classifier.images.WORKERS", 0)
    monkeypatch.setattr("speedproof_classifier.images.count_cores", lambda: 0)  # no processes
    monkeypatch.setattr("sys.argv", ["variant", str(tiny_images)])
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.chdir(tmp_path)

    def run(main, epochs=2, seed=0):
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, value in {"RUN": folder, "EPOCHS": epochs, "SEED": seed}.items():
            monkeypatch.setenv(f"SPEEDPROOF_{name}", str(value))
        main()
        said = capsys.readouterr().out
        losses = [float(line.rpartition(" ")[2]) for line in said.splitlines() if line.startswith("step ")]
        return read_marks(folder / "marks.jsonl"), losses, said

    return run


def test_the_network_has_the_published_number_of_weights():
    """25,557,032, as torchvision documents of its ResNet-50."""
    network = resnet50()
    assert sum(weights.numel() for weights in network.parameters()) == 25_557_032
    assert network.eval()(torch.zeros(1, 3, 16, 16)).shape == (1, 1000)


def test_an_image_is_normalised_as_documented(tiny_images):
    images = list_splits(tiny_images)["train"]
    bytes_, label = Files(images, normalised=False)[30]
    image, _ = Files(images)[30]
    assert (bytes_.dtype, bytes_.shape, label) == (torch.uint8, (3, 16, 16), 1)
    for colour, (mean, deviation) in enumerate([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]):
        expected = (bytes_[colour, 3, 5].item() / 255 - mean) / deviation
        assert image[colour, 3, 5].item() == pytest.approx(expected, abs=1e-6)


def test_resident_images_come_as_a_loader_brings_them(tiny_images):
    """The same batches in the same order for the same seed, so that variants differ in speed alone."""
    from torch.utils.data import DataLoader

    images = list_splits(tiny_images)["train"]
    for seed in (0, 1):
        torch.manual_seed(seed)
        loaded = list(DataLoader(Files(images), 64, shuffle=True))
        after = torch.rand(1)
        torch.manual_seed(seed)
        kept = list(Resident(*decode(images, CPU), shuffled=True))
        assert torch.rand(1) == after
        assert [len(labels) for _, labels in kept] == [64, 8]
        for (image, label), (other, number) in zip(loaded, kept, strict=True):
            assert torch.equal(image, other)
            assert torch.equal(label, number)


def test_variants_train_alike_and_mark_what_they_do(program):
    """What differs is how they are watched, and where images come from; of the same seed they have the same losses."""
    marks, losses, said = program(train.main)
    assert len(losses) == 4  # two epochs of 64 + 8 images
    assert [(epoch.samples, epoch.quality is not None) for epoch in marks.epochs] == [(72, True), (72, True)]
    assert all(epoch.validation_s > 0 for epoch in marks.epochs)
    assert "test images" in said
    assert losses[3] != losses[0]
    assert program(resident.main)[1] == losses
    assert program(train_nvtx.main)[1] == losses
    assert program(fast.main)[1] == pytest.approx(losses, rel=1e-3)
    assert program(train.main, seed=1)[1] != losses


def test_they_train_as_many_epochs_as_documented_or_as_wanted(program):
    for variant, wanted, epochs in ((train.main, "", 2), (train_nvtx.main, "", 5), (train.main, 3, 3)):
        marks, _, _ = program(variant, epochs=wanted)
        assert len(marks.epochs) == epochs


def test_the_profilers_variant_writes_its_trace(program, tmp_path):
    marks, losses, said = program(train_profiler.main, epochs=1)
    assert (len(marks.epochs), len(losses)) == (1, 2)
    assert "Self CPU" in said
    events = json.loads((tmp_path / train_profiler.TRACE_FILE).read_text())["traceEvents"]
    assert any(event["name"] == "aten::conv2d" and "Input Dims" in event["args"] for event in events if "args" in event)


def test_nvtx_ranges_are_named_and_nested_as_documented(program, monkeypatch):
    entered, depth = [], []

    class Range:
        def __init__(self, name, color):
            self.name = name

        def __enter__(self):
            entered.append((len(depth), self.name))
            depth.append(self)

        def __exit__(self, *_):
            assert depth.pop() is self

    monkeypatch.setattr("nvtx.annotate", Range)
    program(train_nvtx.main, epochs=1)
    step = ["Copy to device", "Forward Pass", "Backward Pass", "Optimizer step"]
    assert entered == [pair for batch in ("Batch0", "Batch1") for pair in [(0, batch), *((1, name) for name in step)]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_that_are_replayed_train_as_those_that_are_launched_one_by_one(monkeypatch):
    """A batch of 8 among them, which the recorded step is not of."""

    def losses_of(eager_steps):
        monkeypatch.setattr(fast, "EAGER_STEPS", eager_steps)
        said = []
        monkeypatch.setattr(fast, "say", lambda number, loss: said.append(loss.item()))
        torch.manual_seed(0)
        device = torch.device("cuda")
        network = resnet50(((8, 1), (8, 1), (16, 1), (16, 1)), 10).to(device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
        training = loop.Training(network, optimizer, torch.nn.CrossEntropyLoss(), {}, device)
        step = fast.FastStep()
        for number, size in enumerate([64, 64, 64, 64, 8, 64, 64]):
            step(training, number, torch.randn(size, 3, 16, 16, device=device), torch.randint(0, 10, (size,), device=device))
        assert (step.graph is not None) == (eager_steps < 6)
        return said

    assert losses_of(3) == pytest.approx(losses_of(99), rel=1e-2)


@pytest.mark.parametrize("words", [[], ["/nowhere"], ["a", "b"]])
def test_a_folder_that_is_none_of_images_ends_a_variant_in_one_line(monkeypatch, words):
    monkeypatch.setattr("sys.argv", ["variant", *words])
    with pytest.raises(SystemExit) as caught:
        train.main()
    assert "train/ and val/" in str(caught.value.code)
    assert "\n" not in str(caught.value.code)
