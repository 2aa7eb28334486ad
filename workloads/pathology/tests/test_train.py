"""Variants train an epoch and validate, in this process, on tiny slides with a network of the real kind."""

import json
import shutil
import sys

import pytest
import torch
from torch import nn

from speedproof import marks
from speedproof_pathology import chains, train
from speedproof_pathology.variants import VARIANTS


def small_network():
    layers = [nn.Conv2d(3, 4, 8, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 1, 1)]
    return nn.Sequential(*layers)


@pytest.fixture
def run(tiny_slides, tmp_path, monkeypatch):
    """Run the program here as the instrument does; return its marks and the names of its NVTX ranges."""
    for flag in ("benchmark", "deterministic"):
        monkeypatch.setattr(torch.backends.cudnn, flag, False)  # put back afterwards
    monkeypatch.chdir(tmp_path)  # where the weights go
    monkeypatch.setattr(train, "make_network", lambda *_: small_network())

    def train_variant(name, epochs=1, folder=tiny_slides, workers=0):
        told = {marks.FOLDER_VARIABLE: tmp_path, marks.SEED_VARIABLE: 0, marks.EPOCHS_VARIABLE: epochs}
        for variable, value in told.items():
            monkeypatch.setenv(variable, str(value))
        shared = ["--reader=tiles", "--region=96", "--patch=32", "--batch=4", f"--workers={workers}"]
        monkeypatch.setattr(sys, "argv", ["train", "--variant", name, "--data", str(folder), *shared])
        (tmp_path / marks.MARKS_FILE).unlink(missing_ok=True)
        train.main()
        return [json.loads(line) for line in (tmp_path / marks.MARKS_FILE).read_text().splitlines()]

    return train_variant


@pytest.mark.parametrize("name", ["baseline", "batched"])
def test_a_variant_trains_an_epoch_and_tells_of_it(run, name, tmp_path, capsys):
    told = run(name)
    assert [mark["mark"] for mark in told] == ["epoch-begins", "samples", "validation", "quality", "epoch-ends"]
    assert told[1]["value"] == 6 and 0 <= told[3]["value"] <= 1
    assert torch.backends.cudnn.deterministic == (name == "baseline")
    assert (tmp_path / "model_epoch_1.pt").is_file()
    said = capsys.readouterr().out
    assert run(name)[3]["value"] == told[3]["value"] and capsys.readouterr().out == said  # one seed, one result


def test_ranges_are_named_and_nested_as_published(run, monkeypatch):
    entered, depth = [], []

    class Range:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append((len(depth), self.name))
            depth.append(self)

        def __exit__(self, *_):
            assert depth.pop() is self

    monkeypatch.setattr("nvtx.annotate", Range)
    run("baseline")
    # After the transforms of the batch that is looked at before anything trains.
    ours = entered[entered.index((0, "Training Epoch")) :]
    assert [pair for pair in ours if pair[0] < 2] == [
        (0, "Training Epoch"), (1, "Step"), (1, "Step"), (0, "Validation"), (1, "Validation Step"),
    ]  # fmt: skip
    own = [
        "ToTensord",
        "ColorJitter",
        "ToNumpyd",
        "RandomFlip",
        "RandomRotate90",
        "CastToTyped",
        "RandomZoom",
        "ScaleIntensity",
    ]
    first = ours[2 : 3 + 9 * 9]  # 9 transforms of a region, each of its 9 patches
    assert first[0] == (2, "Data Loading")
    assert first[1:] == [(3, name) for name in [*own, "ToTensord"] for _ in range(9)]


def test_the_network_is_documented_and_its_head_fits_the_patch():
    """11,177,025: torchvision documents 11,689,512 of its ResNet-18, of which 513,000 are of 1000 classes; ours has 513."""
    network = train.make_network(224, None)
    assert sum(weights.numel() for weights in network.parameters()) == 11_689_512 - 513_000 + 513
    assert train.make_network(32, None)(torch.zeros(2, 3, 32, 32)).shape == (2, 1, 1, 1)


def test_the_networks_first_weights_are_torchvisions():
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed here")
    torch.manual_seed(3)
    expected = list(models.resnet18().state_dict().values())[:-2]
    torch.manual_seed(3)
    for ours, theirs in zip(train.make_network(224, None).state_dict().values(), expected, strict=False):
        assert torch.equal(ours, theirs)


def test_weights_to_begin_with_are_read_as_torchvision_names_them(tmp_path):
    body = train.resnet18(spatial_dims=2, n_input_channels=3, num_classes=1000, conv1_t_stride=2, bias_downsample=False)
    names = list(body.state_dict())
    assert names[:2] == ["conv1.weight", "bn1.weight"] and "layer2.0.downsample.1.running_mean" in names and "fc.bias" in names
    torch.save(body.state_dict(), tmp_path / "resnet18.pth")
    network = train.make_network(224, tmp_path / "resnet18.pth")
    assert torch.equal(next(network.parameters()), next(body.parameters()))


def test_a_batch_is_transformed_picture_by_picture():
    torch.manual_seed(0)
    pictures = torch.full((64, 3, 32, 32), 100, dtype=torch.uint8)
    pictures[:, 0, :16, :8] = 250  # red in a corner: eight places that flips and turns can take it to
    done = chains.augment_batch(pictures, share=0.5)
    assert done.shape == pictures.shape and done.dtype == torch.float32 and done.min() >= -1 and done.max() < 1.001
    corners = [tuple(int(one) for one in (picture[0] > picture[1] + 0.2)[::31, ::31].flatten()) for picture in done]
    assert len(set(corners)) == 4
    assert torch.allclose(chains.scale_batch(torch.tensor([0, 255], dtype=torch.uint8)), torch.tensor([-1.0, 1.0]))


def test_a_zoomed_edge_goes_on():
    pictures = torch.full((32, 3, 8, 8), 7.0)
    assert torch.allclose(chains.zoom_batch(pictures, share=1.0), pictures)


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.transforms == "cucim"])
def test_a_variant_that_cannot_run_here_says_so_in_one_line(run, name, monkeypatch):
    monkeypatch.setattr(chains, "find_spec", lambda package: None)
    said = (
        rf"^variant `{name}` transforms by cuCIM on a GPU and lacks cucim and cupy here; "
        r"measure `baseline` and `batched` instead$"
    )
    with pytest.raises(SystemExit, match=said):
        run(name)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_slide_that_is_cut_off_ends_a_variant_in_one_line(run, tiny_slides, tmp_path, workers):
    """In this process, and in a worker, whose traceback comes before."""
    mine = tmp_path / "mine"
    shutil.copytree(tiny_slides, mine)
    slide = mine / "training/images/tumor_001.tif"
    data = slide.read_bytes()
    slide.write_bytes(data[:8] + bytes(len(data) - 1008) + data[-1000:])  # its tags are at its end
    with pytest.raises(SystemExit, match=r"^\S+tumor_001\.tif: tile \d+ cannot be decoded; get it again$"):
        run("baseline", folder=mine, workers=workers)


def test_a_folder_without_lists_is_refused_in_one_line(run, tmp_path):
    with pytest.raises(
        SystemExit, match=r"training\.csv: cannot be read; name a folder with training\.csv and validation\.csv$"
    ):
        run("baseline", folder=tmp_path)
