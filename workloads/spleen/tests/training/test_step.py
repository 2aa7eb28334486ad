"""A step does what the plain loop does; launched as graphs it does the same, and the kernels' references stand in on a CPU."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from speedproof.api import Ranges, TrainingError
from speedproof_accelerate import averaging
from speedproof_accelerate import step as step_module
from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.kernels import reference
from speedproof_accelerate.optimizer import Scaler
from speedproof_accelerate.resident import PatchLoader, ResidentVolumes, Volume, VolumeLoader
from speedproof_accelerate.step import GraphedStep, Precision, Step
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.segmentation.unet import ResidualUNet
from speedproof_spleen.training.fused_network import FUSED_OPERATIONS, Operations, fuse
from speedproof_spleen.training.loaders import Loaders
from speedproof_spleen.training.ranks import Ranks
from speedproof_spleen.training.rehearsal import list_kernel_tasks, rehearse
from speedproof_spleen.training.run import build_training
from speedproof_spleen.training.schedule import set_rate
from speedproof_spleen.training.techniques import (
    apply_kernels,
    build_objective,
    build_optimizer,
    build_precision,
    build_step,
    choose_crops,
)
from speedproof_spleen.variant import SpleenVariant
from tests.support import require
from workloads.spleen.tests.training.kernel_checks import TURBO

CPU, GPU = torch.device("cpu"), torch.device("cuda")
# In half precision `turbo` goes by all kernels.
HALF = {"precision": "fp16", "memory_format": "channels_last", "kernels": [*TURBO["kernels"], "adam"]}


@pytest.fixture
def gpu():
    """A GPU whose work goes on the stream that it was on before, once a test is over."""
    require("gpu", torch.cuda.is_available(), "no GPU: CUDA graphs are recorded on one")
    before = torch.cuda.current_stream()
    yield GPU
    torch.cuda.synchronize()
    torch.cuda.set_stream(before)


def small_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv3d(1, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU(), nn.Conv3d(8, 2, 3, padding=1))


def batches(count, items=(2,)):
    """Return batches of random images and what they are to become, of these numbers of items by turns."""
    torch.manual_seed(1)
    sizes = [items[number % len(items)] for number in range(count)]
    return [(torch.rand(size, 1, 4, 6, 8), torch.rand(size, 2, 4, 6, 8)) for size in sizes]


def take(step, images, labels):
    """Take a step as the loop does, and return its loss."""
    loss = step.forward(images, labels).detach().clone()
    step.backward()
    step.update()
    return loss


def squared_error(network):
    return lambda images, labels: nn.functional.mse_loss(network(images), labels)


def test_steps_are_those_of_the_plain_loop_to_the_last_bit():
    networks = [small_network(), small_network()]
    plain, ours = (torch.optim.Adam(network.parameters(), 0.01) for network in networks)
    step = Step(squared_error(networks[1]), ours, Precision(CPU, None, None))
    for images, labels in batches(3):
        plain.zero_grad()
        loss = squared_error(networks[0])(images, labels)
        loss.backward()
        plain.step()
        assert torch.equal(take(step, images, labels), loss.detach())
    assert all(torch.equal(one, other) for one, other in zip(*(network.parameters() for network in networks), strict=True))


def test_a_scaled_gradient_is_the_scales_multiple_and_the_step_is_taken_without_it():
    """One weight: of 3w the gradient is 3; scaled by 2^16 it is 196608, and plain descent at a rate of ½ goes 1½ down."""
    weight = nn.Parameter(torch.tensor([10.0]))
    optimizer = torch.optim.SGD([weight], 0.5)
    step = Step(
        lambda images, _: (weight * images).sum(), optimizer, Precision(CPU, torch.bfloat16, torch.amp.GradScaler("cpu"))
    )
    assert float(step.forward(torch.tensor([3.0]), torch.tensor(0)).detach()) == 30
    step.backward()
    assert weight.grad.item() == 3 * 2**16
    step.update()
    assert weight.item() == 8.5


def test_half_precision_is_that_of_the_forward_pass_alone():
    network = nn.Linear(4, 2)
    seen = []

    def objective(images, _labels):
        made = network(images)
        seen.append(made.dtype)
        return made.float().sum()

    step = Step(objective, torch.optim.SGD(network.parameters(), 1e-3), Precision(CPU, torch.bfloat16, None))
    step.forward(torch.rand(3, 4), torch.rand(3))
    step.backward()
    assert seen == [torch.bfloat16]
    assert network.weight.grad.dtype == torch.float32


def test_without_a_gpu_graphs_are_operations_and_kernels_their_references(full_config):
    """The same loss and gradients as without kernels, by operations one after another."""
    variant = SpleenVariant.model_validate(TURBO)
    case = build_case("spleen", full_config.workload, variant, CPU)
    images, labels = torch.rand(2, 1, 16, 32, 16), torch.randint(0, 2, (2, 1, 16, 32, 16)).byte()
    results = []
    for keys in ({}, {"kernels": [], "launch": "operations"}):
        one = SpleenVariant.model_validate(TURBO | keys)
        torch.manual_seed(0)
        network = apply_kernels(one, case.network(), CPU)
        optimizer = build_optimizer(one, network)
        objective = build_objective(one, network, case.loss(), CPU)
        step = build_step(one, objective, optimizer, build_precision(one, CPU))
        assert type(step) is Step
        loss = step.forward(images, labels).detach()
        step.backward()
        # A bias before a norm has a gradient of 0 but for rounding, and none where the norm takes it over.
        gradients = [one.grad if one.grad is not None else torch.zeros_like(one) for one in network.parameters()]
        results.append([loss, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_without_triton_a_gpu_says_so_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "speedproof_accelerate.kernels.batch_norm_prelu", raising=False)
    with pytest.raises(TrainingError, match=r"^`kernels` need the package `triton`, which is not installed; install it$"):
        apply_kernels(SpleenVariant.model_validate(TURBO), nn.Identity(), GPU)


def test_on_a_cpu_nothing_is_rehearsed():
    state = torch.get_rng_state()
    rehearse(None, SpleenVariant.model_validate(TURBO), CPU)  # whoever touched the case would fail
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("channels", [(8, 16, 32, 32), (16, 16), (16, 32)])
def test_what_is_rehearsed_are_the_kernels_of_the_network(monkeypatch, channels):
    """The last network transposes a volume of 16 channels and one of 32, for which there is no kernel."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    modules = [import_module(f"speedproof_accelerate.kernels.{name}") for name in FUSED_OPERATIONS]

    def noting(name, calls):
        def call(*inputs):
            calls.append((name, *[tuple(one.shape[:2]) for one in inputs]))  # of a volume: patches and channels
            return getattr(reference, name)(*inputs)

        return call

    names = [name for name in Operations.__dataclass_fields__ if name != "batch_norm_prelu"]
    rehearsed, called = [], []
    for name in names:
        (module,) = (one for one in modules if hasattr(one, name))
        monkeypatch.setattr(module, name, noting(name, rehearsed))
    variant = SpleenVariant.model_validate(TURBO | {"kernels": ["norm", "convolutions"], "network": {"channels": channels}})
    network = ResidualUNet(1, 2, channels)
    for task in list_kernel_tasks(variant, network, torch.float32, CPU)[:-3]:  # the last ones are the norm's
        task()
    noted = SimpleNamespace(**{name: noting(name, called) for name in names})
    fuse(network, Operations.of(noted, reference), direct=True)(torch.rand(2, 1, 8, 8, 8))
    convolved, convolving = ({call for call in calls if call[0].startswith("convolve")} for calls in (rehearsed, called))
    assert convolved == convolving
    # One kernel joins any number of channels, and one splits them; they are rehearsed whether a network needs them or not.
    assert {name for name, *_ in called} <= {name for name, *_ in rehearsed}


@pytest.mark.parametrize("channels", [(16, 32), (16, 64, 256), (64, 64)])
def test_what_is_rehearsed_are_the_norms_of_the_network(monkeypatch, channels):
    """Up to 32 channels, above, with a residual, with its bias, and without: the kernels that differ."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    from speedproof_accelerate.kernels import batch_norm_prelu

    kinds = []

    def note(x, module, slope, conv_bias, residual=None, residual_bias=None):
        kinds.append({x.shape[1] <= batch_norm_prelu._FEW_CHANNELS, (residual is not None, residual_bias is not None)})
        return reference.batch_norm_prelu(x, module, slope, conv_bias, residual, residual_bias)

    monkeypatch.setattr(batch_norm_prelu, "batch_norm_prelu", note)
    variant = SpleenVariant.model_validate(TURBO | {"kernels": ["norm"], "network": {"channels": channels}})
    network = ResidualUNet(1, 2, channels)
    for task in list_kernel_tasks(variant, network, torch.float32, CPU):
        task()
    rehearsed = set().union(*kinds)
    kinds.clear()
    operations = {name: getattr(reference, name) for name in Operations.__dataclass_fields__} | {"batch_norm_prelu": note}
    fuse(network, Operations(**operations), direct=False)(torch.rand(2, 1, 8, 8, 8))
    assert set().union(*kinds) <= rehearsed


def test_a_rehearsal_leaves_no_trace_in_the_random_numbers(gpu, ci_config):
    variant = SpleenVariant.model_validate(TURBO | HALF)
    states = torch.get_rng_state(), torch.cuda.get_rng_state(gpu)
    rehearse(build_case("spleen", ci_config.workload, variant, gpu), variant, gpu)
    assert all(torch.equal(*pair) for pair in zip(states, (torch.get_rng_state(), torch.cuda.get_rng_state(gpu)), strict=True))


def graphed_and_plain(device, scaled=False):
    """Return the same step twice, with its network and optimizer: launched as graphs, and one operation after another."""
    made = []
    for kind in (GraphedStep, Step):
        network = small_network().to(device)
        rate = torch.tensor(0.01, device=device)  # where a schedule has it
        optimizer = torch.optim.Adam(network.parameters(), rate, fused=True, capturable=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0) if scaled else None
        precision = Precision(device, torch.float16 if scaled else None, scaler)
        made.append((kind(squared_error(network), optimizer, precision), network, optimizer))
    return made


@pytest.mark.parametrize("in_place", [False, True], ids=["each batch elsewhere", "all batches in one place"])
def test_graphs_do_what_operations_do(gpu, monkeypatch, in_place):
    """Over batches of two sizes by turns, at a rate that changes: some steps before each size is recorded, and some after."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    variants = graphed_and_plain(gpu)
    places = {}
    for number, (images, labels) in enumerate(batches(14, items=(2, 3))):
        batch = images.to(gpu), labels.to(gpu)
        if in_place:
            batch = [place.copy_(one) for place, one in zip(places.setdefault(len(images), batch), batch, strict=True)]
        losses = []
        for step, _, optimizer in variants:
            set_rate(optimizer, 0.01 / (1 + number))
            losses.append(take(step, *batch))
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for one, other in zip(*(network.state_dict().values() for _, network, _ in variants), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


class _Slow(torch.autograd.Function):
    """Passes gradients on after the GPU was busy for a millisecond."""

    @staticmethod
    def forward(_ctx, values):
        return values.view_as(values)

    @staticmethod
    def backward(_ctx, gradients):
        torch.cuda._sleep(2_000_000)  # cycles
        return gradients


class Slow(nn.Module):
    def forward(self, values):
        return _Slow.apply(values)


def add_to_its_like(share, async_op=False):
    """Add up the shares of two ranks with the same gradients, as NCCL does: behind what the stream has to do, whenever."""
    share.mul_(2)
    done = torch.cuda.Event()
    done.record()
    return done


def test_graphs_send_gradients_once_they_are_there(gpu, monkeypatch):
    """The last layer's within the pass, the others behind it; before either the pass takes its time."""
    monkeypatch.setattr(averaging, "dist", SimpleNamespace(get_world_size=lambda: 2, all_reduce=add_to_its_like))
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)

    def collect_late(leaves):
        torch.cuda._sleep(8_000_000)  # the pass has ended meanwhile, but their memory is not used again
        return averaging.collect_gradients(leaves)

    monkeypatch.setattr(step_module, "collect_gradients", collect_late)
    variants = graphed_and_plain(gpu)
    for _, network, _ in variants:
        network.insert(3, Slow()).append(Slow())
    graphed, network, _ = variants[0]
    graphed.averaged, graphed.overlap = list(network.parameters()), 0.65  # its last layer has 434 of 666 values
    for images, labels in batches(8):
        losses = [take(step, images.to(gpu), labels.to(gpu)) for step, _, _ in variants]
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    (recording,) = graphed._recordings.values()
    assert [sum(share.values.numel() for share in shares) for shares in (recording.early, recording.late)] == [434, 232]


def test_graphs_leave_out_a_step_whose_gradients_overflow(gpu):
    (step, network, _), _ = graphed_and_plain(gpu, scaled=True)
    for images, labels in batches(6):
        take(step, images.to(gpu), labels.to(gpu))
    weight = network[0].weight
    before = weight.detach().clone()
    take(step, images.to(gpu), torch.full_like(labels, torch.inf).to(gpu))
    assert torch.equal(weight, before)
    take(step, images.to(gpu), labels.to(gpu))
    assert not torch.equal(weight, before)


def test_graphs_leave_out_a_step_with_our_adam_too(gpu):
    """Its gradients lie elsewhere in each recording; a scaler halves its factor, and copies stay the weights'."""
    network = small_network().to(gpu)
    copies = WeightCopies(network, torch.float16)
    from speedproof_accelerate.kernels.fused_adam import FusedAdam

    precision = Precision(gpu, torch.float16, Scaler("cuda", init_scale=256.0))
    step = GraphedStep(squared_error(copies), FusedAdam(copies, 0.01, (0.9, 0.999)), precision)
    losses = [take(step, images.to(gpu), labels.to(gpu)) for images, labels in batches(12, items=(2, 3)) for _ in range(2)]
    assert sum(losses[-2:]) < sum(losses[:2])
    (images, labels), before = batches(1)[0], network[0].weight.detach().clone()
    take(step, images.to(gpu), torch.full_like(labels, torch.inf).to(gpu))
    assert torch.equal(network[0].weight, before)
    take(step, images.to(gpu), labels.to(gpu))
    assert not torch.equal(network[0].weight, before)
    assert all(torch.equal(pair.leaf, pair.weight.to(pair.leaf.dtype)) for pair in copies.pair_weights())


def test_nothing_in_steps_and_validation_waits_for_the_gpu(gpu, ci_config):
    variant = SpleenVariant.model_validate(TURBO | HALF)
    case = build_case("spleen", ci_config.workload, variant, gpu)
    shape = (40, 36, 48)
    volumes = [Volume(torch.rand(shape, device=gpu).half(), torch.randint(2, shape, device=gpu).byte()) for _ in range(8)]
    resident = ResidentVolumes(volumes, case.patch_size(), choose_crops(variant, gpu))
    batches = PatchLoader(resident, variant.batch_size, case.patches_per_volume(), torch.float16)
    loaders = Loaders(batches, VolumeLoader(volumes, torch.float16, together=True), len(volumes) * case.patches_per_volume())
    training = build_training(case, variant, loaders, 2, gpu, Ranges(variant.range_style, None), Ranks())

    def do_epoch():
        training.network.train()
        for batch in training.training_loader:
            training.step.forward(batch["image"], batch["label"])
            training.step.backward()
            training.step.update()
            training.schedule.step()
        training.network.eval()
        metric = case.metric()
        with torch.no_grad(), training.precision.autocast():
            for batch in training.validation_loader:
                predictions, references = case.discretize(case.predict(training.network, batch["image"]), batch["label"])
                metric(y_pred=predictions, y=references)
        return metric.aggregate()

    do_epoch()  # kernels are compiled, and the fourth step is recorded
    torch.cuda.set_sync_debug_mode("error")
    try:
        scores = do_epoch()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(scores).all()
