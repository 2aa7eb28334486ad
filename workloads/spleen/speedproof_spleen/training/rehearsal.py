"""Doing a step on a throwaway network while files are read: kernels are compiled and loaded in time that would be lost."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from speedproof.api import available_cores
from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.kernels import reference
from speedproof_accelerate.resident import PatchLoader, ResidentVolumes, Volume
from speedproof_accelerate.step import Precision, Step
from speedproof_spleen.segmentation import Case
from speedproof_spleen.training.compiling import Compiling
from speedproof_spleen.training.fused_network import (
    Operations,
    find_strided_channels,
    find_transposed_channels,
    fuse,
    has_kernel,
    keeps_input,
)
from speedproof_spleen.training.techniques import (
    apply_kernels,
    apply_memory_format,
    build_copies,
    build_objective,
    build_optimizer,
    build_precision,
    image_precision,
)
from speedproof_spleen.variant import SpleenVariant

log = logging.getLogger("speedproof")

Task = Callable[[], Tensor | tuple[Tensor, ...]]


def rehearse(case: Case, variant: SpleenVariant, device: torch.device, ahead: Compiling | None = None) -> None:
    """Take one step of random patches, and predict one batch of random windows; nothing of it stays.

    Our kernels are compiled by a thread for each core of this rank, while this one lets the library choose and load its own;
    or loaded, once they are compiled `ahead`.
    On a GPU and with a resident cache only: other caches are filled by the processor's own work, which this would slow down.
    """
    if device.type != "cuda" or variant.cache != "resident":
        return
    start = time.perf_counter()
    if variant.kernels:
        _begin_digest()
    kind = image_precision(variant, device)
    precision = build_precision(variant, device)
    with torch.random.fork_rng([device]):
        patches = (variant.batch_size * case.patches_per_volume(), 1, *case.patch_size())
        windows = (case.window_batch(), 1, *case.window_size())
        images, volumes = (torch.rand(shape, device=device, dtype=kind) for shape in (patches, windows))
        network = case.network()
        kernels = _list_kernels(list_kernel_tasks(variant, network, precision.half or kind, device), device)
        # With more threads than cores, compiling takes twice the processor's time.
        with ThreadPoolExecutor(max(available_cores() // variant.gpus, 1)) as threads:
            compiling = [] if ahead else [threads.submit(_on_device, kernel, device) for kernel in kernels]
            if "norm" in variant.kernels:
                passing = fuse(network, _PASSING, direct="convolutions" in variant.kernels)
                _use(apply_memory_format(variant, passing), lambda y: y.float().mean(), images, volumes, precision)
                network = case.network()
            if ahead:
                ahead.wait()
                compiling = [threads.submit(_on_device, kernel, device) for kernel in kernels]
            for one in compiling:
                one.result()
        network = apply_memory_format(variant, apply_kernels(variant, network, device))
        copies = build_copies(variant, network, precision)
        objective = build_objective(variant, copies or network, case.loss(), device)
        step = Step(objective, build_optimizer(variant, network, copies), precision)
        step.forward(images, (images > 0.5).byte())
        step.backward()
        step.update()
        _predict(network, volumes, precision)
    torch.cuda.synchronize(device)
    log.info("rehearsed in %.1f s", time.perf_counter() - start)


@dataclass(frozen=True)
class _Inputs:
    """Makes small inputs of kernels.

    Attributes:
        kind: precision of volumes.
        weight_kind: precision of weights.
        device: of the inputs.
    """

    kind: torch.dtype
    weight_kind: torch.dtype
    device: torch.device

    def volume(self, channels: int, side: int = 16) -> Tensor:
        made = torch.rand((2, channels, side, side, side), device=self.device)
        return made.to(self.kind, memory_format=torch.channels_last_3d).requires_grad_()

    def weights(self, *shape: int) -> Tensor:
        made = torch.rand((*shape, 3, 3, 3), device=self.device)
        return made.to(self.weight_kind, memory_format=torch.channels_last_3d).requires_grad_()

    def values(self, count: int) -> Tensor:
        return torch.rand(count, device=self.device, requires_grad=True)


def list_kernel_tasks(
    variant: SpleenVariant, network: nn.Module, kind: torch.dtype, device: torch.device, images: torch.dtype | None = None
) -> list[Task]:
    """Return calls of all kernels that the variant trains by, on small volumes: each is compiled on its first call.

    `kind` is the precision of volumes in the network, `images` that of patches. Default: as on the device.
    """
    inputs = _Inputs(kind, kind if "adam" in variant.kernels else torch.float32, device)
    tasks: list[Task] = []
    if "convolutions" in variant.kernels:
        tasks += _list_convolutions(network, variant.network.channels[0], inputs)
    if "norm" in variant.kernels:
        tasks += _list_norms(max(variant.network.channels), inputs)
    if "loss" in variant.kernels:
        tasks.append(partial(_lose, inputs))
    if "adam" in variant.kernels:
        tasks.append(partial(_update, inputs, variant.precision == "fp16"))  # only then is the loss scaled
    if "crops" in variant.kernels:
        tasks.append(partial(_crop, images or image_precision(variant, device), device))
    return tasks


def _list_convolutions(network: nn.Module, channels: int, inputs: _Inputs) -> list[Task]:
    """Return calls of the convolutions that a network has; `channels` are those of its first level."""
    from speedproof_accelerate.kernels.concat_channels import concat_channels, split_channels
    from speedproof_accelerate.kernels.conv3d import conv3d, conv3d_and_input, conv3d_plus_input
    from speedproof_accelerate.kernels.conv3d_strided import conv3d_strided_pair
    from speedproof_accelerate.kernels.conv_transpose3d import conv_transpose3d_pair

    volume, weights = inputs.volume, inputs.weights

    def convolve_strided(full: int, half: int) -> tuple[Tensor, Tensor]:
        x = volume(full).detach() if full == 1 else volume(full)  # an image needs no gradient
        return conv3d_strided_pair(x, weights(half, full), weights(half, full))

    def convolve_transposed(half: int, full: int) -> Tensor:
        return conv_transpose3d_pair(volume(half), volume(half), weights(2 * half, full))

    modules = list(network.modules())
    keeping = [cast(Any, unit).conv[0].conv for unit in modules if keeps_input(unit)]
    inner = {one.in_channels for one in modules if has_kernel(one) and one not in keeping}
    return [
        *(partial(lambda n: conv3d(volume(n), weights(n, n)), size) for size in inner),
        *(partial(lambda n: conv3d_and_input(volume(n), weights(n, n)), size) for size in {one.in_channels for one in keeping}),
        lambda: split_channels(concat_channels(volume(channels), volume(channels))),
        *(partial(convolve_transposed, *found) for found in set(filter(None, map(find_transposed_channels, modules)))),
        *(partial(convolve_strided, *found) for found in set(filter(None, map(find_strided_channels, modules)))),
        lambda: conv3d_plus_input(volume(2), weights(2, 2), inputs.values(2)),
    ]


def _list_norms(widest: int, inputs: _Inputs) -> list[Task]:
    """Return calls of batch norm: few and many channels are summed by different kernels, and a residual is added by another.

    Two channels are those of the network's last norm.
    """
    from speedproof_accelerate.kernels.batch_norm_prelu import batch_norm_prelu

    def norm(channels: int, others: int) -> Tensor:
        slope, bias = inputs.values(1), inputs.values(channels)
        residual = (inputs.volume(channels), bias)[:others]
        return batch_norm_prelu(inputs.volume(channels), nn.BatchNorm3d(channels).to(inputs.device), slope, bias, *residual)

    return [partial(norm, 2, 0), partial(norm, widest, 1), partial(norm, widest, 2)]


def _lose(inputs: _Inputs) -> Tensor:
    from speedproof_accelerate.kernels.dice_ce_loss import dice_ce_loss

    return dice_ce_loss(inputs.volume(2), (inputs.volume(1) > 0.5).byte(), 1e-5, 1.0)


def _update(inputs: _Inputs, scaled: bool) -> Tensor:
    from speedproof_accelerate.kernels.fused_adam import FusedAdam

    copies = WeightCopies(nn.Conv3d(1, 1, 3, device=inputs.device), inputs.kind)
    for pair in copies.pair_weights():
        pair.leaf.grad = torch.zeros_like(pair.leaf)
    optimizer = FusedAdam(copies, 1e-3, (0.9, 0.999))
    if scaled:
        optimizer.find_overflow(torch.zeros((), device=inputs.device))
    optimizer.step()
    return copies.like.detach()


def _crop(kind: torch.dtype, device: torch.device) -> Tensor:
    from speedproof_accelerate.kernels.random_crop import CROPS

    image = torch.rand((8, 8, 8), device=device).half()
    resident = ResidentVolumes([Volume(image, (image > 0.5).byte())], (8, 8, 8), CROPS)
    return next(iter(PatchLoader(resident, 1, 1, kind)))["image"]


def _list_kernels(tasks: list[Task], device: torch.device) -> list[Callable[[], object]]:
    """Return what makes the kernels ready that the tasks and their gradients take."""
    if not tasks:
        return []
    from speedproof_accelerate.kernels.precompile import collect_kernels

    with torch.cuda.device(device), _using_one_thread():
        return collect_kernels(partial(pass_both_ways, task) for task in tasks)


@contextmanager
def _using_one_thread() -> Iterator[None]:
    """Let torch compute on the processor by this thread alone: for small tables its others would spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _begin_digest() -> None:
    from speedproof_accelerate.kernels.precompile import begin_digest

    begin_digest()


def _on_device(call: Callable[[], object], device: torch.device) -> None:
    with torch.cuda.device(device):
        call()


def pass_both_ways(task: Task) -> None:
    """Call a task, and compute its gradients."""
    made = task()
    for one in made if isinstance(made, tuple) else (made,):
        if one.requires_grad:  # patches do not
            one.float().sum().backward(retain_graph=True)


def _use(network: nn.Module, lose: Callable[[Tensor], Tensor], images: Tensor, volumes: Tensor, precision: Precision) -> None:
    with precision.autocast():
        loss = lose(network(images))
    loss.backward()
    _predict(network, volumes, precision)


def _predict(network: nn.Module, volumes: Tensor, precision: Precision) -> None:
    network.eval()
    with torch.no_grad(), precision.autocast():
        network(volumes)


def _pass_on(x: Tensor, _norm: object, slope: Tensor, *others: Tensor | None) -> Tensor:
    return x * slope.to(x.dtype)


def _halve(x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    items, _, *sides = x.shape
    made = (x.new_empty((items, first.shape[0], *(side // 2 for side in sides))) for _ in range(2))
    halves = [one.contiguous(memory_format=torch.channels_last_3d) * first.to(x.dtype).sum() for one in made]
    return halves[0], halves[1]


def _double(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    return nn.functional.interpolate((first + second)[:, : weight.shape[1]], scale_factor=2)


# In the places of our kernels something of the right shape: what is left of the network is the library's.
_PASSING = Operations(
    batch_norm_prelu=_pass_on,
    conv3d_strided_pair=_halve,
    conv3d_plus_input=lambda x, _weight, _bias: x,
    conv_transpose3d_pair=_double,
    conv3d=lambda x, weight: x * weight.sum().to(x.dtype),
    conv3d_and_input=lambda x, weight: (x * weight.sum().to(x.dtype), x),
    concat_channels=reference.concat_channels,
    split_channels=reference.split_channels,
)
