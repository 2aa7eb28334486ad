"""What `accelerate` cannot take is refused, or left as it was, and said."""

import re

import pytest
import torch
from monai.networks.nets import UNet
from torch import nn

from speedproof_accelerate import accelerate
from workloads.spleen.tests.training.kernel_checks import DEVICE


class Viewing(nn.Module):
    """Reads what a convolution gives as if it lay channel by channel."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU())

    def forward(self, x):
        return self.parts(x).view(len(x), -1)


@pytest.mark.usefixtures("interpreted")
def test_a_network_that_fails_with_its_parts_stays_as_it_was():
    network, images = Viewing().to(DEVICE), torch.randn(2, 1, 4, 4, 4, device=DEVICE)
    report = accelerate(network, images)
    assert report.replaced == []
    assert str(report).startswith("Nothing was replaced: with its parts, channels last, the network fails:")
    assert [type(one) for one in network.parts] == [nn.Conv3d, nn.BatchNorm3d, nn.ReLU]
    network(images)
    with pytest.raises(ValueError, match="the network, which stays as it was, does not take the example"):
        accelerate(network, images[:, :, 0])
    assert type(network.parts[1]) is nn.BatchNorm3d


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_nothing_is_laid_out_anew():
    network = Viewing()
    accelerate(network)
    network(torch.randn(2, 1, 4, 4, 4))


@pytest.mark.usefixtures("interpreted")
def test_in_double_precision_all_is_torchs_and_the_report_says_so():
    assert accelerate(Viewing().double().to(DEVICE)).bound == "the network is in torch.float64"


def test_a_second_call_says_what_is_there():
    network = UNet(3, 1, 2, (2, 4), (2,), num_res_units=1)
    accelerate(network)
    assert re.search(r"^\d+ parts of an earlier call stay as they are\.$", str(accelerate(network)), re.MULTILINE)


def test_replicas_are_refused():
    network = nn.Sequential(nn.Conv3d(1, 4, 3), nn.BatchNorm3d(4))
    accelerate(network)
    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        network[1]._replicate_for_data_parallel()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"network": "unet"}, TypeError, "the network is str, not a torch.nn.Module"),
        ({"network": torch.jit.script(nn.Sequential(nn.ReLU()))}, TypeError, "a network of TorchScript"),
        ({"network": nn.DataParallel(nn.ReLU())}, TypeError, "DataParallel copies its network in each pass"),
        ({"example": {"image": torch.zeros(1)}}, TypeError, "the example is dict: give a batch as one tensor"),
        ({"precision": torch.int8}, ValueError, "precision is torch.int8: give torch.float16"),
        ({"graphs": True}, ValueError, "graphs are recorded of an example"),
    ],
)
def test_what_is_none_of_what_is_asked_for_is_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        accelerate(**{"network": nn.Sequential(nn.ReLU())} | arguments)


def test_an_example_elsewhere_is_refused():
    with pytest.raises(ValueError, match="the example is on meta, the network on cpu"):
        accelerate(nn.Conv3d(1, 1, 3), torch.empty(1, 1, 4, 4, 4, device="meta"))
