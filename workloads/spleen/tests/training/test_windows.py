"""The sliding window in plain torch gives what MONAI's gives, in batches of one size, and without asking the device."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from monai.data.utils import dense_patch_slices
from monai.inferers import sliding_window_inference
from torch import nn

from speedproof_spleen.segmentation.windows import list_starts, predict_volumes

WINDOW = (8, 6, 7)


def predict_one(network, volume, window, overlap, batch):
    (logits,) = predict_volumes(network, [volume], window, overlap, batch)
    return logits


class PlaceDependent(nn.Module):
    """Two classes whose logits depend on where in its window a voxel lies: the mean over windows is then no window's own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv3d(1, 2, 3, padding=1)
        self.place = nn.Parameter(torch.randn(WINDOW))
        self.batches = []

    def forward(self, windows):
        self.batches.append(len(windows))
        return self.convolution(windows) + self.place


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)


def by_monai(volume, overlap, batch):
    return sliding_window_inference(volume[None, None], WINDOW, batch, PlaceDependent(), overlap)[0]


@torch.no_grad()
@pytest.mark.parametrize(
    "shape",
    [(8, 6, 7), (20, 17, 15), (9, 6, 30), (3, 20, 7), (5, 5, 5), (1, 13, 2), (14, 12, 13)],
    ids=lambda shape: "x".join(map(str, shape)),
)
@pytest.mark.parametrize(("overlap", "batch"), [(0.25, 4), (0.5, 3), (0.0, 1), (0.9, 16)])
def test_logits_are_those_of_monais_window(shape, overlap, batch):
    volume = torch.randn(shape)
    ours = predict_one(PlaceDependent(), volume, WINDOW, overlap, batch)
    assert ours.shape == (2, *shape)
    torch.testing.assert_close(ours, by_monai(volume, overlap, batch), atol=1e-6, rtol=0)


@torch.no_grad()
def test_volumes_share_batches_of_one_size_and_come_in_order():
    shapes = [(20, 17, 15), (3, 5, 7), (8, 6, 7), (1, 13, 2), (9, 20, 11)]
    volumes = [torch.randn(shape) for shape in shapes]
    network = PlaceDependent()
    ours = list(predict_volumes(network, volumes, WINDOW, 0.25, 4))
    for volume, logits in zip(volumes, ours, strict=True):
        torch.testing.assert_close(logits, by_monai(volume, 0.25, 4), atol=1e-6, rtol=0)
    # Windows along each axis, 6, 4 and 5 voxels apart: 3·4·3, 1, 1, 3 and 2·5·2 of them, 61 in all.
    assert network.batches == [4] * 16


@torch.no_grad()
def test_a_volume_comes_as_soon_as_its_windows_are_computed():
    network = PlaceDependent()
    predictions = predict_volumes(network, [torch.randn(WINDOW), torch.randn(8, 6, 47)], WINDOW, 0.25, 2)
    assert network.batches == []
    next(predictions)
    assert network.batches == [2]
    next(predictions)
    assert network.batches == [2] * 5  # 1 window and 9: at 0, 5, ..., 40
    assert next(predictions, None) is None


def test_of_no_volumes_nothing_comes():
    assert list(predict_volumes(PlaceDependent(), [], WINDOW, 0.25, 2)) == []


def test_a_voxel_in_two_windows_is_their_mean_worked_out_by_hand():
    # Windows of 4 begin at 0, 2 and 3; each answers with its number, counted from 1, and 4 is what fills the last batch.
    numbers = iter([1.0, 2.0, 3.0, 4.0])

    def count(windows):
        return torch.stack([torch.full((1, 4, 1, 1), next(numbers)) for _ in windows])

    logits = predict_one(count, torch.zeros(7, 1, 1), (4, 1, 1), 0.5, 2)
    assert logits.flatten().tolist() == [1.0, 1.0, 1.5, 2.0, 2.5, 2.5, 3.0]


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(0, 120), st.floats(0, 0.99))
def test_windows_begin_where_monais_do(window, more, overlap):
    size = window + more
    interval = window if more == 0 else max(int(window * (1 - overlap)), 1)
    assert list_starts(size, window, overlap) == [part[0].start for part in dense_patch_slices([size], [window], [interval])]


@torch.no_grad()
def test_half_precision_is_summed_in_float32():
    volume = torch.randn(20, 17, 15).half()
    network = PlaceDependent().half()
    ours = predict_one(network, volume, WINDOW, 0.25, 4)
    assert ours.dtype == torch.float32
    theirs = sliding_window_inference(volume[None, None].float(), WINDOW, 4, lambda windows: network(windows.half()), 0.25)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@torch.no_grad()
def test_nothing_is_read_from_the_device():
    # On torch's `meta` device there is nothing to read: whoever asks for a value fails.
    with torch.device("meta"):
        volumes, network = [torch.empty(20, 17, 15, dtype=torch.float16), torch.empty(3, 20, 7)], nn.Conv3d(1, 2, 1)
    ours = list(predict_volumes(lambda windows: network(windows.float()), volumes, WINDOW, 0.25, 4))
    assert [logits.shape for logits in ours] == [(2, 20, 17, 15), (2, 3, 20, 7)]
    assert all(logits.is_meta for logits in ours)


def test_counts_of_inference_mode_serve_outside_of_it_too():
    volume, network = torch.randn(21, 17, 16), PlaceDependent()
    with torch.inference_mode():
        predict_one(network, volume, WINDOW, 0.25, 4)
    predict_one(network, volume, WINDOW, 0.25, 4).sum().backward()
    assert network.place.grad is not None
