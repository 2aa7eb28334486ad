"""An accelerated network is the network: values, gradients, states and names; and the report says what was done."""

import copy
import re
from pathlib import Path

import pytest
import torch
from monai.data import MetaTensor
from monai.networks.blocks import Convolution
from monai.networks.blocks.dynunet_block import UnetBasicBlock
from monai.networks.nets import BasicUNet, DynUNet, SegResNet, UNet
from torch import nn
from torch.nn.utils import parametrizations

from speedproof_accelerate import accelerate, blocks, parts
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close, differentiate

NETWORKS = {
    "unet, instance norm": (lambda: UNet(3, 1, 2, (2, 4), (2,), num_res_units=1), (2, 1, 4, 6, 4)),
    "unet, batch norm, images": (lambda: UNet(2, 1, 2, (2, 4), (2,), norm="batch"), (2, 1, 10, 6)),
    "basicunet": (lambda: basicunet(3), (1, 1, 16, 16, 16)),
    "basicunet, images of odd sizes": (lambda: basicunet(2), (2, 1, 18, 31)),
    "dynunet": (lambda: dynunet(res_block=False), (1, 1, 8, 4, 4)),
    "segresnet": (lambda: SegResNet(3, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)), (1, 1, 4, 2, 6)),
}


def dynunet(**settings):
    return DynUNet(3, 1, 2, (3, 3, 3), (1, 2, 2), (2, 2), filters=(2, 2, 4), **settings)


def basicunet(axes):
    return BasicUNet(axes, 1, 2, (8,) * 6, norm=("group", {"num_groups": 2}))


def vary(network):
    """Give norms, slopes and biases values of their own."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


@pytest.mark.usefixtures("interpreted", "full_products")
@pytest.mark.parametrize("name", NETWORKS)
def test_an_accelerated_network_is_the_network(name):
    make, shape = NETWORKS[name]
    plain = vary(make())
    fast = vary(make()).to(DEVICE)
    report = accelerate(fast, precision=None)
    assert report.bound is None
    assert report.replaced
    assert list(fast.state_dict()) == list(plain.state_dict())
    fast = copy.deepcopy(fast)
    fast.load_state_dict(plain.state_dict())
    images = torch.randn(shape)
    outs, gradients, states = [], [], []
    for network, given in ((plain.double(), images.double()), (fast, images.to(DEVICE))):
        out = network(given)
        torch.manual_seed(1)
        out.backward(torch.randn(out.shape).to(out))
        outs.append([out])
        gradients.append([parameter.grad for parameter in network.parameters()])
        states.append([values for key, values in network.named_buffers() if "running" in key])
    assert_close(outs[1], outs[0], 16 * FP32)
    assert_close(gradients[1], gradients[0], 16 * FP32 * max(float(one.abs().max()) for one in gradients[0]))
    assert_close(states[1], states[0], FP32)
    plain.eval()
    fast.eval()
    with torch.no_grad():
        assert_close([fast(images.to(DEVICE))], [plain(images.double())], 16 * FP32)


@pytest.mark.usefixtures("interpreted")
def test_in_half_precision_a_segresnets_convolutions_go_by_kernels():
    """Its first one widened, those of its blocks with the block's input added, its last one to few results."""
    shape, kind = (1, 2, 4, 6, 4), torch.float16
    fast = vary(SegResNet(3, 8, 2, 3, blocks_down=(1, 1), blocks_up=(1,))).to(DEVICE, kind)
    plain = copy.deepcopy(fast).cpu().double()
    report = accelerate(fast, precision=kind)
    kinds = {type(part) for part in fast.modules()}
    assert {parts.WidenedConvolution, blocks.ResidualBlock, parts.FewChannelConvolution, parts.PointwiseConvolution} <= kinds
    assert "ResBlock: its input added in the passes of others (down_layers.0.1 and 2 more)" in str(report)

    def find_largest_error(seed):
        images = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(kind)
        found = differentiate([fast(images.to(DEVICE))], list(fast.parameters()))
        expected = differentiate([plain(images.double())], list(plain.parameters()))
        return max(float((x.cpu().double() - y).norm() / y.norm()) for x, y in zip(found, expected, strict=True))

    # Some twenty roundings to 11 bits in a row. In some batches, one moves a value across the corner of a ReLU, whichever
    # kernels compute it: another batch may do.
    assert any(find_largest_error(seed) < 0.02 for seed in range(3))


def test_optimizers_and_checkpoints_know_the_parameters():
    network = NETWORKS["segresnet"][0]()
    before = dict(network.named_parameters())
    accelerate(network)
    after = dict(network.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_all_is_torchs_own_and_the_report_says_so():
    network = vary(NETWORKS["dynunet"][0]())
    images = torch.randn(NETWORKS["dynunet"][1])
    expected = network(images)
    lines = str(accelerate(network, images, graphs=True)).splitlines()
    assert lines[:4] == [
        "All is computed by torch: no NVIDIA GPU is visible.",
        "Nothing was compared: no NVIDIA GPU is visible.",
        "No graphs were recorded: no NVIDIA GPU is visible.",
        "would be replaced where kernels run: 23",
    ]
    assert not any(line.startswith("replaced") for line in lines)
    torch.testing.assert_close(network(images), expected)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_nobody_is_told_to_install_triton(monkeypatch):
    monkeypatch.setattr(parts, "_has_triton", lambda: False)
    for interpret in ("0", "1"):
        monkeypatch.setenv("TRITON_INTERPRET", interpret)
        assert accelerate(nn.Conv3d(1, 1, 3)).bound == "no NVIDIA GPU is visible"


@pytest.mark.usefixtures("no_gpu")
def test_the_readmes_example_runs(capsys):
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    exec(re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1], {})
    assert capsys.readouterr().out.startswith("All is computed by torch: no NVIDIA GPU is visible.")


def test_the_report_names_what_was_replaced_what_was_not_and_why():
    text = str(accelerate(UNet(3, 1, 2, (16, 32), (2,), num_res_units=2, norm="batch", dropout=0.1)))
    assert "BatchNorm3d: with its dropout and activation (model.0.conv.unit0.adn.N and 4 more)" in text
    assert "Conv3d: by a kernel for few channels (model.0.conv.unit1.conv and 2 more)" in text
    assert "Conv3d: its input padded to 8 channels (model.0.conv.unit0.conv" in text  # it halves the resolution
    assert "ConvTranspose3d: cuDNN's own serves it (model.2.0.conv)" in text


def test_a_block_that_stands_in_two_places_is_exchanged_in_both():
    network = dynunet()
    accelerate(network)
    assert isinstance(network.skip_layers.upsample, blocks.ConcatUpBlock)
    assert network.skip_layers.upsample in list(network.upsamples)


def test_an_activation_shared_with_a_sum_stays():
    """DynUNet's residual block calls one activation behind its first norm, and behind its sum."""
    network = dynunet(res_block=True)
    accelerate(network)
    assert isinstance(network.input_block.lrelu, nn.LeakyReLU)


class Doubled(nn.Conv3d):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked(module):
    module.register_forward_hook(lambda _module, _given, out: 2 * out)
    return module


ALTERED = {
    "subclass": (lambda: Doubled(2, 2, 3, padding=1), "a subclass of torch's"),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Conv3d(2, 2, 3, padding=1)), "has modules of its own"),
    "hooked convolution": (lambda: hooked(nn.Conv3d(2, 2, 3, padding=1)), "has hooks"),
    "hooked norm": (lambda: hooked(nn.BatchNorm3d(2)), "has hooks"),
    "hooked activation": (lambda: hooked(nn.ReLU()), "has hooks"),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", ALTERED)
def test_what_is_not_exactly_torchs_own_stays(name, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the layouts' algorithms round apart
    make, reason = ALTERED[name]
    altered = make()
    plain = nn.Sequential(nn.InstanceNorm3d(2, affine=True), altered, nn.ReLU()).to(DEVICE)
    fast = copy.deepcopy(plain)
    report = accelerate(fast)
    assert [entry.note for entry in report.kept if entry.name == "1"] == [reason]
    assert type(fast[1]) is type(altered)
    assert list(fast.state_dict()) == list(plain.state_dict())
    x = torch.randn(2, 2, 3, 4, 5, device=DEVICE)
    torch.testing.assert_close(fast(x), plain(x), rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("containers", [False, True], ids=["leaves", "containers"])
@pytest.mark.parametrize("name", NETWORKS)
def test_hooks_are_called_as_before(name, containers):
    make, shape = NETWORKS[name]
    network, calls = make().to(DEVICE), []
    for place, module in network.named_modules():
        if bool(module._modules) == containers:
            module.register_forward_pre_hook(lambda *_, place=place: calls.append(place))
    images = torch.randn(shape, device=DEVICE)
    network(images)
    expected = list(calls)
    calls.clear()
    accelerate(network, precision=None)
    network(images)
    assert sorted(calls) == sorted(expected)


def repeat_convolution():
    conv = nn.Conv2d(8, 8, 3, padding=1)
    return nn.Sequential(conv, nn.BatchNorm2d(8), conv, nn.ReLU()), (2, 8, 6, 6)


def repeat_norm_and_activation():
    norm, act = nn.BatchNorm2d(4), nn.ReLU()
    return nn.Sequential(norm, act, nn.Conv2d(4, 4, 1), act, norm, nn.Conv2d(4, 4, 1), norm, act), (2, 4, 6, 6)


def repeat_norm_of_block():
    """The block's activation is computed by its norms, of which one stands elsewhere, too."""
    block = UnetBasicBlock(3, 2, 2, 3, 1, "instance")
    return nn.Sequential(block.norm1, block, block), (1, 2, 4, 4, 4)


@pytest.mark.usefixtures("interpreted", "full_products")
@pytest.mark.parametrize("make", [repeat_convolution, repeat_norm_and_activation, repeat_norm_of_block])
def test_a_module_may_stand_in_several_places(make):
    network, shape = make()
    plain = vary(network).to(DEVICE)
    fast = copy.deepcopy(plain)
    assert accelerate(fast, precision=None).replaced
    assert list(fast.state_dict()) == list(plain.state_dict())
    x = torch.randn(shape, device=DEVICE)
    for _ in range(2):
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-4, atol=1e-4)
    plain.eval()
    fast.eval()
    with torch.no_grad():
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-4, atol=1e-4)


REFUSED = {
    "batch norm": ([nn.BatchNorm3d(4)], (2, 6, 3, 4, 5)),
    "batch norm of images": ([nn.BatchNorm3d(4)], (2, 4, 3, 4)),
    "group norm": ([nn.GroupNorm(2, 4)], (2, 8, 3, 4, 5)),
    "slopes": ([nn.BatchNorm3d(4), nn.PReLU(3)], (2, 4, 3, 4, 5)),
    "convolution": ([nn.Conv3d(4, 4, 3, padding=1)], (2, 2, 3, 4, 5)),
    "convolution, padded": ([nn.Conv3d(3, 16, 3, stride=2, padding=1)], (2, 1, 3, 4, 5)),
    "convolution, widened": ([nn.Conv3d(3, 16, 3, padding=1)], (2, 1, 3, 4, 5)),
    "convolution to few results": ([nn.Conv3d(16, 2, 1)], (2, 8, 3, 4, 5)),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", REFUSED)
def test_shapes_that_torch_refuses_are_refused(name):
    modules, shape = REFUSED[name]
    plain = nn.Sequential(*modules).to(DEVICE)
    fast = copy.deepcopy(plain)
    assert accelerate(fast).replaced
    x = torch.randn(shape, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.float16):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            plain(x)
        with pytest.raises(expected.type, match=re.escape(str(expected.value))):
            fast(x)


@pytest.mark.usefixtures("interpreted")
def test_a_norm_writes_nothing_beyond_its_statistics():
    norm, memory = nn.BatchNorm3d(4).to(DEVICE), torch.zeros(8, device=DEVICE)
    norm.running_mean = memory[:4]
    network = nn.Sequential(norm)
    accelerate(network)
    with pytest.raises(RuntimeError, match="running_mean should contain 6 elements not 4"):
        network(torch.randn(2, 6, 3, 4, 5, device=DEVICE) + 5)
    assert not memory.any()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    "module",
    [nn.InstanceNorm3d(4), nn.Conv3d(4, 4, 3, padding=1), Convolution(3, 4, 4)],
    ids=["norm", "convolution", "unit"],
)
def test_a_single_volume_is_torchs(module):
    plain = nn.Sequential(module).to(DEVICE)
    fast = copy.deepcopy(plain)
    assert accelerate(fast).replaced
    x = torch.randn(4, 3, 4, 5, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.float16):
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    "module",
    [
        nn.InstanceNorm3d(2),
        nn.Conv3d(2, 2, 3, padding=1),
        nn.Conv3d(2, 3, 1),
        nn.Upsample(scale_factor=2, mode="trilinear"),
    ],
    ids=["norm", "convolution", "few results", "enlargement"],
)
def test_gradients_of_gradients_are_refused(module):
    network = nn.Sequential(copy.deepcopy(module)).to(DEVICE)
    assert accelerate(network).replaced
    x = torch.randn(1, 2, 3, 4, 5, device=DEVICE, requires_grad=True)
    with torch.autocast(DEVICE.type, torch.float16):
        out = network(x)
    with pytest.raises(RuntimeError, match="gradients of gradients are not computed by kernels"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_statistics_that_are_no_longer_tracked_are_used_as_torch_does(training):
    plain = nn.Sequential(nn.BatchNorm3d(2), nn.ReLU()).to(DEVICE).train(training)
    plain[0].running_mean += 1
    plain[0].track_running_stats = False
    fast = copy.deepcopy(plain)
    accelerate(fast)
    x = torch.randn(2, 2, 3, 4, 5, device=DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-4, atol=1e-4)
    assert fast[0].running_mean.tolist() == [1, 1]


class Mixed(nn.Module):
    """Convolutions of images and of volumes, a parameter of images' dimensions, and results in a dictionary."""

    def __init__(self):
        super().__init__()
        self.images, self.volumes = nn.Conv2d(2, 2, 3, padding=1), nn.Conv3d(2, 2, 3, padding=1)
        self.places = nn.Parameter(torch.randn(1, 2, 3, 4))

    def forward(self, x):
        y = self.volumes(x)
        return {"volumes": y, "images": [self.images(y[..., 0]) + self.places.view(1, 2, 3, 4)]}


@pytest.mark.usefixtures("interpreted")
def test_each_convolution_is_laid_out_by_its_own_dimensions():
    network = Mixed().to(DEVICE)
    accelerate(network, torch.randn(1, 2, 3, 4, 5, device=DEVICE), compare=False)
    assert network.volumes.weight.is_contiguous(memory_format=torch.channels_last_3d)
    assert network.images.weight.is_contiguous(memory_format=torch.channels_last)
    assert network.places.is_contiguous()


@pytest.mark.parametrize(
    ("norm", "reason"),
    [
        (nn.InstanceNorm3d(4, track_running_stats=True), "an instance norm with running statistics has no kernel"),
        (nn.BatchNorm3d(4, momentum=None), "a batch norm that averages all batches has no kernel"),
    ],
    ids=["running", "averaging"],
)
def test_a_norm_without_a_kernel_is_kept(norm, reason):
    report = accelerate(nn.Sequential(nn.Conv3d(1, 4, 3), norm, nn.ReLU()))
    assert [entry.note for entry in report.kept if entry.name == "1"] == [reason]


@pytest.mark.usefixtures("interpreted", "full_products")
@pytest.mark.parametrize(("name", "precision"), [*((name, torch.float16) for name in NETWORKS), ("segresnet", None)])
def test_metadata_of_the_input_is_that_of_the_output(name, precision):
    """As MONAI's SaveImage needs it, for the file's name and its spacing."""
    make, shape = NETWORKS[name]
    network = vary(make()).to(DEVICE).eval()
    images = MetaTensor(torch.randn(shape), affine=torch.diag(torch.tensor([0.5, 0.5, 2.0, 1.0])), meta={"case": "1"})
    outs = []
    for change in (lambda: None, lambda: accelerate(network, precision=precision)):
        change()
        with torch.no_grad(), torch.autocast(DEVICE.type, dtype=precision, enabled=precision is not None):
            outs.append(network(images.to(DEVICE)))
    plain, fast = outs
    assert type(fast) is type(plain) is MetaTensor
    assert fast.meta["case"] == "1"
    assert torch.equal(fast.affine, plain.affine)
    assert_close([fast.as_tensor()], [plain.as_tensor()], 2e-2 if precision else 16 * FP32)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("shape", [(8, 3, 2, 5), (8, 2, 5), (4, 3, 2, 5)], ids=["volumes", "images", "by torch"])
def test_joined_channels_are_concatenated_ones(shape):
    volumes = [torch.randn(2, *shape, device=DEVICE, requires_grad=True) for _ in range(2)]
    above = torch.randn(2, 2 * shape[0], *shape[1:], device=DEVICE)
    found, expected = blocks.concat_channels(*volumes), torch.cat(volumes, dim=1)
    assert torch.equal(found, expected)
    assert all(map(torch.equal, torch.autograd.grad(found, volumes, above), torch.autograd.grad(expected, volumes, above)))


class Reading(nn.Module):
    """Calls modules by keyword, and reads their attributes."""

    def __init__(self):
        super().__init__()
        self.norm, self.pool = nn.BatchNorm2d(8), nn.AvgPool2d(2)

    def forward(self, x):
        return self.pool(input=self.norm(input=x)) * self.pool.kernel_size + self.norm.eps


@pytest.mark.usefixtures("interpreted", "full_products")
def test_a_network_may_read_attributes_and_call_by_keyword():
    plain, images = Reading(), torch.randn(2, 8, 4, 4)
    fast = copy.deepcopy(plain).to(DEVICE)
    assert len(accelerate(fast, precision=None).replaced) == 2
    torch.testing.assert_close(fast(images.to(DEVICE)).cpu(), plain(images), rtol=1e-3, atol=1e-3)
    with pytest.raises(AttributeError, match="'BatchNorm2d' object has no attribute 'unknown'"):
        fast.norm.unknown  # noqa: B018


@pytest.mark.usefixtures("interpreted")
def test_a_network_that_returns_no_tensors_is_refused_by_what_it_returns():
    class Silent(Reading):
        def forward(self, x):
            return {self.norm(x).mean().item()}

    with pytest.raises(ValueError, match="it returns set, not tensors, or lists or dictionaries of them"):
        accelerate(Silent().to(DEVICE), torch.randn(2, 8, 4, 4, device=DEVICE), precision=None)
