import pytest
import torch
from torch import nn

from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training.probe import measure_rates
from speedproof_spleen.training.work import count_work


def test_the_work_of_a_convolution_is_what_it_is_by_hand():
    network = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.PReLU(), nn.Conv3d(4, 2, 3, padding=1))
    work = count_work(network, (8, 8, 8), patches=10)
    voxels = 8**3
    first, second = 2 * voxels * 27 * 1 * 4, 2 * voxels * 27 * 4 * 2
    # Forward, the gradient of the weights, and that of the data, which the first layer has no use for.
    assert work.flop_per_epoch == 10 * (2 * first + 3 * second)
    assert work.bytes_per_epoch == 10 * 3 * 2 * voxels * ((1 + 4) + (4 + 2))
    assert next(network.parameters()).device.type == "cpu"


def test_the_documented_network_needs_what_was_counted_elsewhere(full_config):
    # DESIGN.md: 30.5 GFLOP a patch of 96³, forward and backward.
    case = build_case("spleen", full_config.workload, full_config.variants["baseline"], torch.device("cpu"))
    assert count_work(case.network(), case.patch_size(), 1).flop_per_epoch == pytest.approx(30.5e9, rel=0.005)


def test_a_cpu_has_no_rates():
    assert measure_rates(torch.device("cpu")) is None
