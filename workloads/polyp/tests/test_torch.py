"""PyTorch's variants, in this process, on tiny pairs and a small network: what they read, compute and mark."""

import random

import pytest
import torch
from PIL import Image

from speedproof_polyp import torch_train
from speedproof_polyp.pairs import LayoutError, list_pairs, read_image, read_mask
from speedproof_polyp.torch_train import Patience, dice, load
from tests.instrument import read_marks

CPU = torch.device("cpu")


@pytest.fixture
def train(tiny_pairs, tmp_path, monkeypatch, capsys):
    """Trains a variant on the tiny pairs; returns its marks and the losses that it says."""

    def run(variant, epochs=2, seed=0):
        folder = tmp_path / f"{variant}-{seed}-{epochs}"
        folder.mkdir(exist_ok=True)
        for name, value in {"RUN": folder, "EPOCHS": epochs, "SEED": seed}.items():
            monkeypatch.setenv(f"SPEEDPROOF_{name}", str(value))
        # With fewer filters, oneDNN 3.12 writes past the end of a gradient on processors with AVX2 and no AVX-512.
        small = ["--pixels", "16", "--filters", "8", "--workers", "0"]
        torch_train.main(["--variant", variant, "--data", str(tiny_pairs), *small])
        said = capsys.readouterr().out.splitlines()
        return read_marks(folder / "marks.jsonl"), [float(line.split()[3].rstrip(",")) for line in said]

    return run


@pytest.mark.parametrize("variant", torch_train.VARIANTS)
def test_a_variant_trains_and_marks_what_it_does(train, variant):
    marks, losses = train(variant)
    samples = 8 if variant == "torch_plain" else 10
    assert [(epoch.samples, epoch.validation_s > 0) for epoch in marks.epochs] == [(samples, True)] * 2
    assert all(0 < epoch.quality < 1 for epoch in marks.epochs)
    assert all(0 < loss < 1 for loss in losses)
    assert losses[1] != losses[0]
    assert train(variant)[1] == losses
    assert train(variant, seed=1, epochs=1)[1] != losses[:1]


def test_the_plain_variant_reads_in_order_and_blue_first(tiny_pairs):
    pairs = list_pairs(tiny_pairs / "train")
    for variant, colours in (("torch_plain", slice(None, None, -1)), ("torch_fast", slice(None))):
        batches = load(variant, tiny_pairs, 16, CPU, 0)
        image, mask = next(iter(batches["valid"]))
        first = list_pairs(tiny_pairs / "valid")[0]
        assert torch.equal(image[0].permute(1, 2, 0), torch.from_numpy(read_image(first.image, 16)[..., colours].copy()))
        assert torch.equal(mask[0].permute(1, 2, 0), torch.from_numpy(read_mask(first.mask, 16)))
    image, _ = next(iter(load("torch_plain", tiny_pairs, 16, CPU, 0)["train"]))
    assert len(image) == 8
    assert torch.equal(image[7], torch.from_numpy(read_image(pairs[7].image, 16)[..., ::-1].copy()).permute(2, 0, 1))


def test_the_plain_variant_draws_the_order_of_its_batches_but_not_what_is_in_them(tiny_pairs):
    pairs = (list_pairs(tiny_pairs / "train") * 5)[:44]  # five batches, and four pairs that fill none
    random.seed(0)
    kept, drawn = (list(torch_train.Sequential(pairs, 16, shuffled)) for shuffled in (False, True))
    sums = [[float(images.sum()) for images, _ in batches] for batches in (kept, drawn)]
    assert [len(images) for images, _ in drawn] == [8] * 5
    assert sums[0] != sums[1]
    assert sorted(sums[0]) == sorted(sums[1])


def test_a_shuffled_epoch_has_each_pair_once_in_a_new_order(tiny_pairs):
    for variant in ("torch_loader", "torch_fast"):
        batches = load(variant, tiny_pairs, 16, CPU, 0)["train"]
        torch.manual_seed(0)
        epochs = [torch.cat([image for image, _ in batches]).sum((1, 2, 3)) for _ in range(2)]
        assert len(epochs[0]) == 10
        assert not torch.equal(*epochs)
        assert torch.equal(epochs[0].sort().values, epochs[1].sort().values)


def test_resizing_is_bilinear_between_neighbours_as_documented(tmp_path):
    """Of 4 grey columns 0, 80, 160, 240 two points lie at columns 0.5 and 2.5: 40 and 200."""
    image = Image.new("L", (4, 4))
    image.putdata([0, 80, 160, 240] * 4)
    image.save(tmp_path / "ramp.png")
    assert (read_mask(tmp_path / "ramp.png", 2) * 255).round().flatten().tolist() == [40, 200, 40, 200]
    assert read_image(tmp_path / "ramp.png", 2).shape == (2, 2, 3)


def test_the_dice_coefficient_is_smoothed_by_one():
    """(2 · 1.5 + 1) / (2 + 2 + 1) = 0.8; of nothing at all it is 1."""
    probability, mask = torch.tensor([1.0, 0.5, 0.5, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert dice(probability, mask).item() == pytest.approx(0.8)
    assert dice(torch.zeros(4), torch.zeros(4)).item() == 1


def test_the_rate_falls_and_training_ends_as_documented():
    """After 5 epochs without a lower loss a tenth, after 10 the end; the rate does not fall below 1e-6."""
    optimizer = torch.optim.NAdam([torch.nn.Parameter(torch.zeros(1))], 1e-4)
    patience = Patience(optimizer, ends=True)
    rates = []
    for _ in patience.epochs(100):
        patience.see(0.5)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-4] * 5 + [1e-5] * 5 + [1e-6])
    patience = Patience(optimizer, ends=False)
    assert len([patience.see(0.5) for _ in patience.epochs(30)]) == 30
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-6)


@pytest.mark.parametrize("spoil", ["empty", "no mask"])
def test_a_folder_of_another_layout_ends_a_variant_in_one_line(tmp_path, spoil):
    if spoil == "no mask":
        (tmp_path / "train/images").mkdir(parents=True)
        (tmp_path / "train/images/a.jpg").touch()
    with pytest.raises(LayoutError, match=r"no images/\*\.jpg" if spoil == "empty" else r"a\.jpg has no image or no mask"):
        list_pairs(tmp_path / "train")
    with pytest.raises(SystemExit) as caught:
        torch_train.main(["--variant", "torch_plain", "--data", str(tmp_path)])
    assert str(tmp_path / "train") in str(caught.value.code)
