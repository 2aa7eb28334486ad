"""Each operation of `accelerate` on the GPU: how far its results and gradients are from torch's, and how long both take.

    python workloads/accelerate/benchmarks/operations.py --out FOLDER [--operation NAME ...]

Writes operations.json and operations.txt to the folder, one line per case, as they come. A time is forward and backward, the
best of three rounds of ten calls. `same` means: at most twice as far from fp64 (large volumes: fp32) as torch's own, plus one
rounding.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from speedproof_accelerate import parts, resampling
from speedproof_accelerate.kernels import reference
from speedproof_accelerate.kernels.channels_last import as_channels_last

DEVICE = torch.device("cuda")
HALF = torch.float16
_ROUNDING = {torch.float32: 2e-5, HALF: 2.0**-11, torch.bfloat16: 2.0**-8}  # of each value, once
_EXACT_VALUES = 5e6  # of an input; above, fp64 takes minutes

Compute = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """An operation at one shape.

    Attributes:
        title: what distinguishes it from the operation's other cases.
        ours: computes it by kernels.
        torchs: computes it by torch, of the same inputs, in any precision.
        inputs: of both; gradients are taken of those that require one.
        kind: precision of the volumes.
    """

    title: str
    ours: Compute
    torchs: Compute
    inputs: list[Tensor]
    kind: torch.dtype = HALF


def _draw(*shape: int, kind: torch.dtype = HALF, differentiated: bool = True) -> Tensor:
    x = torch.randn(shape, device=DEVICE) + 0.5
    return as_channels_last(x.to(kind)).requires_grad_(differentiated)


def _draw_weights(*shape: int) -> Tensor:
    return (torch.rand(*shape, 3, 3, 3, device=DEVICE) / 8).requires_grad_()


def _case_of(
    title: str, own: nn.Module, make: Callable[[], parts.Part], shape: tuple[int, ...], kind: torch.dtype = HALF
) -> Case:
    """Return the case of a part of a network beside torch's own module."""
    own.to(DEVICE)
    for parameter in own.parameters():
        nn.init.uniform_(parameter, 0.1, 0.5)
    names, part = [name for name, _ in own.named_parameters()], make()

    def torchs(x: Tensor, *parameters: Tensor) -> Tensor:
        buffers = {name: one.to(x.dtype) if x.dtype == torch.float64 else one for name, one in own.named_buffers()}
        return functional_call(own, {**buffers, **dict(zip(names, parameters, strict=True))}, (x,))

    def ours(x: Tensor, *_: Tensor) -> Tensor:
        if reason := part.find_misfit(x):
            raise ValueError(f"does not fit: {reason}")
        return part.compute(x)

    return Case(title, ours, torchs, [_draw(*shape, kind=kind), *own.parameters()], kind)


def list_group_norm() -> Iterator[Case]:
    """Yield group, instance and batch norm with activations."""

    def norm(title: str, one: nn.Module, act: nn.Module | None, *shape: int, kind: torch.dtype = HALF) -> Case:
        own = one if act is None else nn.Sequential(one, act)
        return _case_of(title, own, lambda: parts.NormActivation(one, act), shape, kind)

    for kind in (HALF, torch.bfloat16, torch.float32):
        yield norm("group norm, ReLU, odd sizes", nn.GroupNorm(8, 16), nn.ReLU(), 2, 16, 33, 17, 21, kind=kind)
        instance = nn.InstanceNorm3d(20, affine=True)
        yield norm("instance norm, leaky ReLU, odd sizes", instance, nn.LeakyReLU(), 2, 20, 9, 17, 21, kind=kind)
        yield norm("batch norm, PReLU, images", nn.BatchNorm2d(24), nn.PReLU(), 3, 24, 65, 33, kind=kind)
    for channels, sides in ((16, (224, 224, 144)), (32, (112, 112, 72)), (128, (28, 28, 18))):
        yield norm("group norm, ReLU", nn.GroupNorm(8, channels), nn.ReLU(), 1, channels, *sides)
    yield norm("instance norm, leaky ReLU", nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU(), 1, 32, 128, 128, 128)
    yield norm("instance norm, leaky ReLU", nn.InstanceNorm3d(320, affine=True), nn.LeakyReLU(), 2, 320, 4, 10, 10)
    yield norm("instance norm, PReLU", nn.InstanceNorm3d(16), nn.PReLU(), 4, 16, 48, 48, 48)
    yield norm("batch norm, PReLU", nn.BatchNorm3d(16), nn.PReLU(), 8, 16, 48, 48, 48)
    yield norm("batch norm, PReLU", nn.BatchNorm3d(2), nn.PReLU(), 8, 2, 96, 96, 96)
    yield norm("batch norm alone", nn.BatchNorm3d(256), None, 8, 256, 6, 6, 6)


def list_group_norm_residual() -> Iterator[Case]:
    """Yield instance norm with a residual and a leaky ReLU, as in nnU-Net's residual encoder."""
    kernels = parts.load("group_norm_residual")
    for shape in ((2, 32, 128, 128, 128), (2, 64, 64, 64, 64), (2, 320, 4, 4, 4), (2, 20, 9, 17, 21), (12, 32, 512, 512)):
        kind, own = kernels.Norm(1, False, 1e-5), (nn.InstanceNorm3d if len(shape) == 5 else nn.InstanceNorm2d)(shape[1])
        weight, bias = (torch.rand(shape[1], device=DEVICE).requires_grad_() for _ in range(2))

        def torchs(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, own: Any = own) -> Tensor:
            y = nn.functional.instance_norm(x, weight=weight.to(x.dtype), bias=bias.to(x.dtype), eps=own.eps)
            return nn.functional.leaky_relu(y + residual, 0.01)

        def ours(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, kind: Any = kind) -> Tensor:
            return kernels.group_norm_residual(x, residual, kind, weight, bias, slope=0.01)  # type: ignore[no-any-return]

        yield Case("leaky ReLU", ours, torchs, [_draw(*shape), _draw(*shape), weight, bias])


def list_batch_norm_prelu() -> Iterator[Case]:
    """Yield batch norm with PReLU and a residual."""
    kernels = parts.load("batch_norm_prelu")
    for channels, side in ((2, 96), (16, 48), (256, 6)):
        norm, bias = nn.BatchNorm3d(channels).to(DEVICE), torch.zeros(channels, device=DEVICE)

        def torchs(x: Tensor, residual: Tensor, slope: Tensor, norm: nn.BatchNorm3d = norm, bias: Tensor = bias) -> Tensor:
            return reference.batch_norm_prelu(x, norm.double() if x.dtype == torch.float64 else norm, slope, bias, residual)

        def ours(x: Tensor, residual: Tensor, slope: Tensor, norm: nn.BatchNorm3d = norm, bias: Tensor = bias) -> Tensor:
            return kernels.batch_norm_prelu(x, norm, slope, bias, residual)  # type: ignore[no-any-return]

        slope = torch.full((1,), 0.25, device=DEVICE).requires_grad_()
        yield Case("", ours, torchs, [_draw(8, channels, side, side, side), _draw(8, channels, side, side, side), slope])


def list_conv3d() -> Iterator[Case]:
    """Yield convolutions of stride 1, with and without their input added, and with few input channels."""
    for channels, sides in ((2, (96,) * 3), (4, (96,) * 3), (8, (128,) * 3), (16, (224, 224, 144)), (32, (112, 112, 72))):
        own = nn.Conv3d(channels, channels, 3, padding=1, bias=False)
        yield _case_of("", own, lambda own=own: parts.FewChannelConvolution(own), (1, channels, *sides))
    own = nn.Conv3d(16, 16, 3, padding=1)
    yield _case_of("bias, odd sides", own, lambda: parts.FewChannelConvolution(own), (2, 16, 19, 23, 13))
    for inputs, outputs, stride, sides in ((4, 16, 1, (224, 224, 144)), (1, 32, 1, (128,) * 3), (1, 16, 2, (96,) * 3)):
        padded = nn.Conv3d(inputs, outputs, 3, stride, 1)
        yield _case_of(
            f"input padded, stride {stride}", padded, lambda padded=padded: parts.PaddedConvolution(padded), (1, inputs, *sides)
        )
    kernels = parts.load("conv3d")
    bias = torch.rand(2, device=DEVICE).requires_grad_()
    inputs_of = [_draw(8, 2, 96, 96, 96), _draw_weights(2, 2), bias]
    yield Case("plus its input", kernels.conv3d_plus_input, reference.conv3d_plus_input, inputs_of)
    inputs_of = [_draw(8, 16, 48, 48, 48), _draw_weights(16, 16)]
    yield Case("and its input", kernels.conv3d_and_input, reference.conv3d_and_input, inputs_of)


def list_conv3d_strided() -> Iterator[Case]:
    """Yield pairs of strided convolutions, by each implementation."""
    compute = parts.load("conv3d_strided").conv3d_strided_pair
    for full, half, side in ((16, 32, 48), (1, 16, 96), (1, 32, 96)):
        x = _draw(8, full, side, side, side, differentiated=full > 1)
        inputs = [x, *(_draw_weights(half, full) for _ in range(2))]
        yield Case(f"{full} to {half}+{half}", compute, reference.conv3d_strided_pair, inputs)


def list_conv_transpose3d() -> Iterator[Case]:
    """Yield transposed convolutions of two volumes, by each implementation."""
    compute = parts.load("conv_transpose3d").conv_transpose3d_pair
    for half, full, side in ((32, 16, 24), (16, 2, 48), (32, 2, 48)):
        inputs = [*(_draw(8, half, side, side, side) for _ in range(2)), _draw_weights(2 * half, full)]
        yield Case(f"{half}+{half} to {full}", compute, reference.conv_transpose3d_pair, inputs)


def list_pointwise_conv() -> Iterator[Case]:
    """Yield convolutions of 1 × 1 × 1 to few results."""
    for channels, results, sides in ((16, 3, (224, 224, 144)), (32, 2, (128,) * 3)):
        own = nn.Conv3d(channels, results, 1)
        yield _case_of(f"to {results}", own, lambda own=own: parts.PointwiseConvolution(own), (1, channels, *sides))


def list_concat_channels() -> Iterator[Case]:
    """Yield two volumes' channels put together."""
    compute = parts.load("concat_channels").concat_channels
    for channels, side in ((16, 96), (64, 24)):
        inputs = [_draw(4, channels, side, side, side) for _ in range(2)]
        yield Case("", compute, reference.concat_channels, inputs)


def list_trilinear_upsample() -> Iterator[Case]:
    """Yield enlargements by two."""
    own = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)
    for title, shape, kind in (
        ("odd sides", (2, 5, 9, 7, 3), torch.float32),
        ("", (1, 16, 112, 112, 72), HALF),
        ("", (1, 64, 28, 28, 18), HALF),
    ):
        yield _case_of(title, own, lambda: resampling.TrilinearUpsample(own), shape, kind)


def list_avg_pool() -> Iterator[Case]:
    """Yield averages of windows beside each other."""
    for title, window, shape, kind in (
        ("odd sides", (1, 2, 3), (2, 24, 3, 10, 9), torch.float32),
        ("one plane", (1, 2, 2), (2, 32, 80, 256, 256), HALF),
        ("", (2, 2, 2), (2, 64, 80, 128, 128), HALF),
    ):
        own = nn.AvgPool3d(window, window)
        yield _case_of(title, own, lambda own=own: resampling.Pool(own), shape, kind)


def list_max_pool() -> Iterator[Case]:
    """Yield maxima of windows beside each other."""
    for title, window, shape, kind in (
        ("odd sides", (1, 2, 3), (2, 24, 3, 10, 9), torch.float32),
        ("", (2, 2, 2), (4, 32, 96, 96, 96), HALF),
        ("", (2, 2, 2), (4, 128, 12, 12, 12), HALF),
        ("images", (2, 2), (16, 64, 256, 256), HALF),
    ):
        own = (nn.MaxPool3d if len(window) == 3 else nn.MaxPool2d)(window)
        yield _case_of(title, own, lambda own=own: resampling.Pool(own), shape, kind)


def list_dice_ce_loss() -> Iterator[Case]:
    """Yield Dice with cross entropy of two classes."""
    from monai.losses import DiceCELoss

    compute = parts.load("dice_ce_loss").dice_ce_loss
    monais = DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True, smooth_nr=1e-5, smooth_dr=1e-5)
    for sides in ((33, 17, 9), (96, 96, 96)):
        labels = torch.randint(0, 2, (8, 1, *sides), device=DEVICE, dtype=torch.uint8)
        yield Case(
            "",
            lambda logits, labels=labels: 65536 * compute(logits, labels, 1e-5, 1.0),
            lambda logits, labels=labels: 65536 * monais(logits, labels),
            [_draw(8, 2, *sides)],
        )


def list_dice_focal_loss() -> Iterator[Case]:
    """Yield Dice with focal loss of three regions."""
    from monai.losses import DiceFocalLoss

    compute = parts.load("dice_focal_loss").dice_focal_loss
    monais = DiceFocalLoss(smooth_nr=1e-5, smooth_dr=1e-5, squared_pred=True, sigmoid=True, batch=True)
    for sides in ((33, 17, 9), (224, 224, 144)):
        bits = torch.randint(0, 8, (1, 1, *sides), device=DEVICE, dtype=torch.uint8)
        regions = torch.cat([bits >> number & 1 for number in range(3)], dim=1).float()
        yield Case(
            "",
            lambda logits, bits=bits: 65536 * compute(logits, bits, 1e-5),
            lambda logits, regions=regions: 65536 * monais(logits, regions.to(logits.dtype)),
            [_draw(1, 3, *sides)],
        )


def list_normalize_intensity() -> Iterator[Case]:
    """Yield a crop, flipped, normalized by channel over its nonzero voxels, scaled and shifted."""
    compute = parts.load("normalize_intensity").normalize_crop
    place, flipped = (slice(4, 228), slice(8, 232), slice(2, 146)), (1, 3)

    def torchs(volume: Tensor) -> Tensor:
        crop = volume[(slice(None), *place)].flip(flipped).float()
        rows = []
        for channel in crop:
            values = channel[channel != 0]
            rows.append(torch.where(channel != 0, (channel - values.mean()) / values.std(correction=0), 0.0))
        return (torch.stack(rows) * 1.1 + 0.1).to(volume.dtype)

    volume = torch.rand(4, 240, 240, 155, device=DEVICE).mul_(2).sub_(1).clamp_(min=0).half()
    yield Case("", lambda volume: compute(volume, place, flipped, 1.1, 0.1), torchs, [volume])


OPERATIONS: dict[str, Callable[[], Iterator[Case]]] = {
    "group_norm": list_group_norm,
    "group_norm_residual": list_group_norm_residual,
    "batch_norm_prelu": list_batch_norm_prelu,
    "conv3d": list_conv3d,
    "conv3d_strided": list_conv3d_strided,
    "conv_transpose3d": list_conv_transpose3d,
    "pointwise_conv": list_pointwise_conv,
    "concat_channels": list_concat_channels,
    "trilinear_upsample": list_trilinear_upsample,
    "avg_pool": list_avg_pool,
    "max_pool": list_max_pool,
    "dice_ce_loss": list_dice_ce_loss,
    "dice_focal_loss": list_dice_focal_loss,
    "normalize_intensity": list_normalize_intensity,
}


def _differentiate(compute: Compute, inputs: list[Tensor], above: list[Tensor]) -> list[Tensor]:
    """Return results, and the gradients of the inputs that require one; `above`: the gradients of the results."""
    found = compute(*inputs)
    outs = list(found) if isinstance(found, tuple) else [found]
    needed = [one for one in inputs if one.requires_grad]
    given = [a.to(o.dtype) for a, o in zip(above, outs, strict=True)]
    gradients = torch.autograd.grad(outs, needed, given) if needed else ()
    return [*(one.detach() for one in outs), *gradients]


def _off(found: list[Tensor], expected: list[Tensor]) -> list[float]:
    pairs = zip(found, expected, strict=True)
    return [float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-12)) for a, b in pairs]


def time_ms(call: Callable[[], object]) -> float:
    """Return how long a call takes, of ten one behind the other; the shortest of three rounds."""
    for _ in range(4):
        call()
    found = []
    for _ in range(3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 10)
    return min(found)


def compare(case: Case) -> dict[str, Any]:
    """Return how far ours and torch's are from torch in fp64 or fp32, and the times of both."""
    half = case.kind != torch.float32
    with torch.autocast(DEVICE.type, dtype=case.kind if half else HALF, enabled=half):
        with torch.no_grad():
            outs = case.torchs(*case.inputs)
        above = [torch.randn_like(one).half() for one in (outs if isinstance(outs, tuple) else (outs,))]
        ours, theirs = (_differentiate(one, case.inputs, above) for one in (case.ours, case.torchs))
        times = [time_ms(lambda one=one: _differentiate(one, case.inputs, above)) for one in (case.ours, case.torchs)]
    exact_kind = torch.float64 if case.inputs[0].numel() < _EXACT_VALUES else torch.float32
    inputs = [one.detach().to(exact_kind).requires_grad_(one.requires_grad) for one in case.inputs]
    exact = _differentiate(case.torchs, inputs, above)
    off = {"ours": _off(ours, exact), "torch": _off(theirs, exact)}
    same = all(a <= 2 * b + _ROUNDING[case.kind] for a, b in zip(off["ours"], off["torch"], strict=True))
    return {"ours_ms": times[0], "torch_ms": times[1], "off": off, "same": same}


def _measure(operation: str, case: Case) -> dict[str, Any]:
    try:
        found = compare(case)
    except Exception as error:  # a kernel that fails leaves the others
        found = {"error": f"{type(error).__name__}: {error}"[:600]}
    shape = list(case.inputs[0].shape)
    return {"operation": operation, "title": case.title, "shape": shape, "kind": str(case.kind), **found}


def describe(found: dict[str, Any]) -> str:
    """Return a line: whether results are the same, ms of ours and of torch, their ratio, and how far both are off."""
    name = f"{found['operation']:18} {found['title']:36} {'×'.join(map(str, found['shape'])):20} {found['kind'][6:]:9}"
    if "error" in found:
        return f"{name} {found['error'].splitlines()[0]}"
    off = " ".join(f"{a:.0e}/{b:.0e}" for a, b in zip(found["off"]["ours"], found["off"]["torch"], strict=True))
    ours, theirs = found["ours_ms"], found["torch_ms"]
    return f"{name} {'same' if found['same'] else 'OFF '} {ours:7.3f} {theirs:7.3f} ms {theirs / ours:5.2f}  {off}"


def main() -> None:
    """Take the options, and write what is found as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--operation", nargs="+", choices=OPERATIONS, default=list(OPERATIONS), help="default: all")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    found, begun = [], time.perf_counter()
    for operation in given.operation:
        torch.manual_seed(0)
        for case in OPERATIONS[operation]():
            found.append(_measure(operation, case))
            lines = [*map(describe, found), f"{time.perf_counter() - begun:.0f} s"]
            (given.out / "operations.json").write_text(json.dumps(found, indent=1))
            (given.out / "operations.txt").write_text("\n".join(lines) + "\n")
            print(lines[-2], flush=True)


if __name__ == "__main__":
    main()
