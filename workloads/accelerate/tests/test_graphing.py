"""A network whose passes are recorded as graphs is the network; what cannot be recorded is refused."""

import copy

import pytest
import torch
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.graphing import graph_training


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 2, 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs are recorded on one")
def test_a_recorded_network_is_the_network():
    plain = make().cuda()
    recorded = copy.deepcopy(plain)
    images = torch.rand(2, 1, 8, 8, 8, device="cuda")
    graph_training(recorded, images, None)
    for number in range(3):
        given = images + number
        found = []
        for network in (plain, recorded):
            out = network(given)
            found.append([out, *torch.autograd.grad(out.square().sum(), [*network.parameters()])])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    assert torch.equal(recorded[1].num_batches_tracked, plain[1].num_batches_tracked)
    recorded.eval()
    assert recorded(torch.rand(1, 1, 4, 6, 8, device="cuda")).shape == (1, 2, 4, 6, 8)


def test_a_network_that_does_not_train_is_refused():
    with pytest.raises(ValueError, match=r"of a network in training; call its train\(\) first"):
        graph_training(make().eval(), torch.rand(1, 1, 4, 4, 4), None)


def test_an_example_on_a_processor_is_refused():
    with pytest.raises(ValueError, match="graphs are recorded on a GPU; the example is on cpu"):
        graph_training(make(), torch.rand(1, 1, 4, 4, 4), None)


def test_graphs_without_an_example_are_refused_and_without_a_gpu_left_out():
    with pytest.raises(ValueError, match="graphs are recorded of an example; give a batch"):
        accelerate(make(), graphs=True)
    if not torch.cuda.is_available():
        network = nn.Sequential(nn.Conv3d(1, 2, 1))  # nothing that has a kernel on a processor
        assert not accelerate(network, torch.rand(1, 1, 2, 2, 2), graphs=True, precision=None).graphed
