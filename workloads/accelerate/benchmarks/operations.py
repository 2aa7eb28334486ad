"""Each kernel of `accelerate` on the GPU: what it computes beside torch's own, and how long both take.

`python kernels.py --out FOLDER` writes FOLDER/kernels.json and kernels.txt, a line a kernel and shape, as they come.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from speedproof_accelerate import parts

HALF = torch.float16
# Each value rounded once to this precision: under autocast torch's own may answer in a higher one.
_ROUNDING = {torch.float32: 2e-5, HALF: 2.0**-11, torch.bfloat16: 2.0**-8}


def _cases() -> Iterator[tuple[str, nn.Module, Callable[[], parts.Part], tuple[int, ...], torch.dtype]]:
    """Yield title, torch's own module, the part in its place, the shape of its input and its precision."""

    def norm(title: str, one: nn.Module, act: nn.Module | None, *shape: int, kind: torch.dtype = HALF) -> Any:
        own = one if act is None else nn.Sequential(one, act)
        return title, own, lambda: parts.NormActivation(one, act), shape, kind

    for kind in (HALF, torch.bfloat16, torch.float32):
        yield norm("group norm, ReLU, odd sides", nn.GroupNorm(8, 16), nn.ReLU(), 2, 16, 33, 17, 21, kind=kind)
        yield norm(
            "instance norm, leaky, odd sides", nn.InstanceNorm3d(20, affine=True), nn.LeakyReLU(), 2, 20, 9, 17, 21, kind=kind
        )
        yield norm("batch norm, PReLU, images", nn.BatchNorm2d(24), nn.PReLU(), 3, 24, 65, 33, kind=kind)
    yield norm("group norm, ReLU", nn.GroupNorm(8, 16), nn.ReLU(), 1, 16, 224, 224, 144)
    yield norm("group norm, ReLU", nn.GroupNorm(8, 32), nn.ReLU(), 1, 32, 112, 112, 72)
    yield norm("group norm, ReLU", nn.GroupNorm(8, 128), nn.ReLU(), 1, 128, 28, 28, 18)
    yield norm("instance norm, leaky", nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU(), 1, 32, 128, 128, 128)
    yield norm("instance norm, leaky", nn.InstanceNorm3d(320, affine=True), nn.LeakyReLU(), 2, 320, 4, 10, 10)
    yield norm("instance norm, PReLU", nn.InstanceNorm3d(16), nn.PReLU(), 4, 16, 48, 48, 48)
    yield norm("batch norm, PReLU", nn.BatchNorm3d(16), nn.PReLU(), 8, 16, 48, 48, 48)
    yield norm("batch norm, PReLU", nn.BatchNorm3d(2), nn.PReLU(), 8, 2, 96, 96, 96)
    yield norm("batch norm alone", nn.BatchNorm3d(256), None, 8, 256, 6, 6, 6)
    for channels, sides in (
        (2, (96, 96, 96)),
        (4, (96, 96, 96)),
        (8, (128, 128, 128)),
        (16, (224, 224, 144)),
        (32, (112, 112, 72)),
    ):
        convolution = nn.Conv3d(channels, channels, 3, padding=1, bias=False)
        yield "convolution", convolution, lambda c=convolution: parts.FewChannelConvolution(c), (1, channels, *sides), HALF
    convolution = nn.Conv3d(16, 16, 3, padding=1)
    yield (
        "convolution, bias, odd sides",
        convolution,
        lambda: parts.FewChannelConvolution(convolution),
        (2, 16, 19, 23, 13),
        HALF,
    )
    for inputs, outputs, stride, sides in ((4, 16, 1, (224, 224, 144)), (1, 32, 1, (128, 128, 128)), (1, 16, 2, (96, 96, 96))):
        padded = nn.Conv3d(inputs, outputs, 3, stride, 1)
        yield "convolution, input padded", padded, lambda c=padded: parts.PaddedConvolution(c), (1, inputs, *sides), HALF
    enlarging = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)
    yield "enlargement, odd sides", enlarging, lambda: parts.TrilinearUpsample(enlarging), (2, 5, 9, 7, 3), torch.float32
    yield "enlargement", enlarging, lambda: parts.TrilinearUpsample(enlarging), (1, 16, 112, 112, 72), HALF
    yield "enlargement", enlarging, lambda: parts.TrilinearUpsample(enlarging), (1, 64, 28, 28, 18), HALF


def _differentiate(compute: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor, above: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    inputs = [x, *module.parameters()]
    y = compute(x)
    return [y.detach(), *torch.autograd.grad(y, inputs, above.to(y.dtype))]


def _off(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-12))


def _time_ms(call: Callable[[], object]) -> float:
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


def compare(own: nn.Module, part: parts.Part, shape: tuple[int, ...], kind: torch.dtype) -> dict[str, Any]:
    """Return how far torch's own and the part are from torch in fp64 or fp32, and their times, forward and backward."""
    torch.manual_seed(0)
    own.cuda()
    for parameter in own.parameters():
        nn.init.uniform_(parameter, 0.1, 0.5)
    order = torch.channels_last_3d if len(shape) == 5 else torch.channels_last
    x = (torch.randn(shape, device="cuda") + 0.5).to(kind).contiguous(memory_format=order)
    half = kind != torch.float32
    with torch.autocast("cuda", dtype=kind if half else HALF, enabled=half):
        reason = part.find_misfit(x)
        if reason:
            return {"error": f"does not fit: {reason}"}
        above = torch.randn_like(part.compute(x)).float()
        ours = _differentiate(part.compute, own, x, above)
        theirs = _differentiate(own, own, x, above)
        inputs = [x.requires_grad_(), *own.parameters()]

        def both_ways(compute: Callable[[Tensor], Tensor]) -> Callable[[], object]:
            def call() -> object:
                y = compute(x)
                return torch.autograd.grad(y, inputs, above.to(y.dtype))

            return call

        times = {"ours_ms": _time_ms(both_ways(part.compute)), "torch_ms": _time_ms(both_ways(own))}
    # Convolutions in fp64 take minutes at these sizes.
    exact_kind = torch.float64 if x.numel() < 5e6 else torch.float32
    exact = _differentiate(own.to(exact_kind), own, x.detach().to(exact_kind), above.to(exact_kind))
    own.float()
    off = {
        "ours": [_off(a, b) for a, b in zip(ours, exact, strict=True)],
        "torch": [_off(a, b) for a, b in zip(theirs, exact, strict=True)],
    }
    same = all(a <= 2 * b + _ROUNDING[kind] for a, b in zip(off["ours"], off["torch"], strict=True))
    return {**times, "off": off, "same": same}


def compare_losses(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the same of Dice with focal loss of three regions, beside MONAI's."""
    from monai.losses import DiceFocalLoss

    from speedproof_accelerate.kernels.dice_focal_loss import dice_focal_loss

    torch.manual_seed(0)
    logits = torch.randn((1, 3, *shape), device="cuda", dtype=HALF).contiguous(memory_format=torch.channels_last_3d)
    bits = torch.randint(0, 8, (1, 1, *shape), device="cuda", dtype=torch.uint8)
    regions = torch.cat([bits >> number & 1 for number in range(3)], dim=1).float()
    monais = DiceFocalLoss(smooth_nr=1e-5, smooth_dr=1e-5, squared_pred=True, sigmoid=True, batch=True)
    scale = 65536.0
    logits.requires_grad_()

    def ours() -> list[Tensor]:
        loss = dice_focal_loss(logits, bits, 1e-5)
        return [loss.detach(), *torch.autograd.grad(scale * loss, logits)]

    def theirs() -> list[Tensor]:
        with torch.autocast("cuda", dtype=HALF):
            loss = monais(logits, regions)
        return [loss.detach(), *torch.autograd.grad(scale * loss, logits)]

    exact_logits = logits.detach().double().requires_grad_()
    loss = monais(exact_logits, regions.double())
    exact = [loss.detach(), *torch.autograd.grad(scale * loss, exact_logits)]
    off = {
        "ours": [_off(a, b) for a, b in zip(ours(), exact, strict=True)],
        "torch": [_off(a, b) for a, b in zip(theirs(), exact, strict=True)],
    }
    same = all(a <= 2 * b + _ROUNDING[HALF] for a, b in zip(off["ours"], off["torch"], strict=True))
    return {"ours_ms": _time_ms(ours), "torch_ms": _time_ms(theirs), "off": off, "same": same}


def main() -> None:
    """Take the options, and write what is found as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--losses", action="store_true", help="these alone")
    given = parser.parse_args()
    out = given.out
    out.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    found, lines, begun = [], [], time.perf_counter()
    comparisons = [
        (title, shape, kind, lambda own=own, make=make, shape=shape, kind=kind: compare(own, make(), shape, kind))
        for title, own, make, shape, kind in _cases()
    ]
    comparisons += [
        ("Dice and focal loss", sides, HALF, lambda sides=sides: compare_losses(sides))
        for sides in ((33, 17, 9), (224, 224, 144))
    ]
    if given.losses:
        comparisons = [one for one in comparisons if "loss" in one[0]]
    for title, shape, kind, make_comparison in comparisons:
        try:
            one = make_comparison()
        except Exception as error:  # one kernel that fails leaves the others
            one = {"error": f"{type(error).__name__}: {error}"[:600]}
        found.append({"title": title, "shape": shape, "kind": str(kind), **one})
        name = f"{title:34} {'×'.join(map(str, shape)):22} {str(kind)[6:]:9}"
        if "error" in one:
            lines.append(f"{name} {one['error'].splitlines()[0]}")
        else:
            off = " ".join(f"{a:.0e}/{b:.0e}" for a, b in zip(one["off"]["ours"], one["off"]["torch"], strict=True))
            ours, theirs = one["ours_ms"], one["torch_ms"]
            said = "same" if one["same"] else "OFF "
            lines.append(f"{name} {said} {ours:7.3f} {theirs:7.3f} ms {theirs / ours:5.2f}  {off}")
        (out / "kernels.json").write_text(json.dumps(found, indent=1))
        (out / "kernels.txt").write_text("\n".join([*lines, f"{time.perf_counter() - begun:.0f} s"]) + "\n")
        print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
