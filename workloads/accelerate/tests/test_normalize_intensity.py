"""A crop by the kernels is the one that torch cuts, flips, normalises, scales and shifts."""

import pytest
import torch

from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close

pytestmark = pytest.mark.usefixtures("interpreted")


def normalise_as_torch(volume, place, flipped, scale, offset):
    crop = volume[(slice(None), *place)].double().flip(flipped)
    out = torch.empty_like(crop)
    for channel, values in enumerate(crop):
        there = values != 0
        deviation = values[there].std(correction=0) if there.any() else torch.tensor(0.0)
        apart = torch.where(there, values - values[there].mean(), 0.0)
        out[channel] = apart / (1.0 if deviation == 0 else deviation) * scale + offset
    return out


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
@pytest.mark.parametrize("flipped", [(), (1,), (2, 3), (1, 2, 3)], ids=str)
def test_a_crop_is_torchs(flipped, kind, tolerance):
    from speedproof_accelerate.kernels.normalize_intensity import normalize_crop

    torch.manual_seed(0)
    volumes = (100 * torch.rand(2, 3, 9, 8, 13) * (torch.rand(2, 3, 9, 8, 13) > 0.4)).to(kind)
    volumes[1, 2] = 7  # without a deviation
    volumes[1, 1] = 0
    place = (slice(1, 8), slice(0, 8), slice(3, 10))
    found = normalize_crop(volumes.to(DEVICE)[1], place, flipped, 1.1, -0.05)
    assert found.dtype == kind
    assert found.stride()[0] == 1
    assert_close([found], [normalise_as_torch(volumes[1], place, flipped, 1.1, -0.05)], tolerance)


def test_a_crop_worked_out_by_hand():
    """Of 0, 1 and 3: mean 2 and deviation 1 of what is not 0; flipped, twice as large, shifted by 5. A second channel of 4s."""
    from speedproof_accelerate.kernels.normalize_intensity import normalize_crop

    volume = torch.tensor([[0.0, 1.0, 3.0], [4.0, 4.0, 0.0]], device=DEVICE).view(2, 3, 1, 1).half()
    out = normalize_crop(volume, (slice(0, 3), slice(0, 1), slice(0, 1)), (1,), 2.0, 5.0)
    assert out.flatten(1).tolist() == [[7.0, 3.0, 5.0], [5.0, 5.0, 5.0]]
