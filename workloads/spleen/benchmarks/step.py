"""How long a training step of `turbo` takes on this GPU, technique by technique, and which layers take it. Synthetic data.

    python workloads/spleen/benchmarks/step.py [--patches 32] [--precision fp16] [--layers] [--kernels] [--out DIR]

Medians of device events after warm-ups; one process, so ratios are of one GPU in one state.
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
from monai.losses import DiceCELoss
from torch import Tensor, nn
from torch.nn import functional

from speedproof_accelerate import resident
from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.kernels import reference
from speedproof_accelerate.kernels.dice_ce_loss import dice_ce_loss
from speedproof_accelerate.kernels.fused_adam import FusedAdam
from speedproof_accelerate.kernels.random_crop import CROPS
from speedproof_accelerate.optimizer import Optimizer, Scaler
from speedproof_accelerate.step import GraphedStep, Precision, Step
from speedproof_spleen.segmentation.unet import ResidualUNet
from speedproof_spleen.training.fused_network import CONV3D_CHANNELS, FUSED_OPERATIONS, Operations, fuse
from speedproof_spleen.training.probe import median_ms

CHANNELS_LAST = torch.channels_last_3d
KERNELS = Operations.of(*(import_module(f"speedproof_accelerate.kernels.{name}") for name in FUSED_OPERATIONS))
REFERENCES = Operations.of(reference)


def build_network() -> nn.Module:
    """Return the network of the documented pair."""
    torch.manual_seed(0)
    return ResidualUNet(1, 2, (16, 32, 64, 128, 256)).cuda()


def time_layers(patches: int, half: torch.dtype) -> list[dict[str, object]]:
    """Return the time of each convolution's forward, data gradient and weight gradient by cuDNN, channels last."""
    network = build_network()
    shapes: dict[str, tuple[torch.Size, nn.Module]] = {}
    hooks = [
        module.register_forward_hook(lambda m, i, o, name=name: shapes.update({name: (i[0].shape, m)}))
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv3d | nn.ConvTranspose3d)
    ]
    network(torch.rand(1, 1, 96, 96, 96, device="cuda"))
    for hook in hooks:
        hook.remove()
    rows = []
    for name, (shape, module) in shapes.items():
        transposed = isinstance(module, nn.ConvTranspose3d)
        x = torch.randn(patches, *shape[1:], device="cuda").to(half).contiguous(memory_format=CHANNELS_LAST).requires_grad_()
        weight = module.weight.detach().to(half).contiguous(memory_format=CHANNELS_LAST).requires_grad_()

        def forward(x=x, weight=weight, module=module, transposed=transposed) -> Tensor:
            if transposed:
                return functional.conv_transpose3d(x, weight, None, 2, 1, 1)
            return functional.conv3d(x, weight, None, module.stride, module.padding)

        y = forward()
        gradient = torch.randn_like(y)
        row: dict[str, object] = {"layer": name, "in": list(shape[1:]), "out": list(y.shape[1:])}
        row["bound_ms"] = (x.numel() + y.numel()) * 2 / 4e12 * 1e3
        row["forward_ms"] = median_ms(forward)
        if shape[1] > 1:
            row["data_ms"] = median_ms(lambda y=y, x=x, g=gradient: torch.autograd.grad(y, x, g, retain_graph=True))
        row["weight_ms"] = median_ms(lambda y=y, w=weight, g=gradient: torch.autograd.grad(y, w, g, retain_graph=True))
        rows.append(row)
        print(
            f"{name[-60:]:60s} {list(shape[1:])!s:22s} "
            + " ".join(f"{row.get(key, 0):7.3f}" for key in ("bound_ms", "forward_ms", "data_ms", "weight_ms"))
        )
    return rows


def time_in_graph(work: Callable[[], object], calls: int = 10) -> float:
    """Return the milliseconds of a call, launched with others as one CUDA graph: the processor's time for it does not count."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(calls):
            work()
    return median_ms(graph.replay) / calls


def time_direct(patches: int, half: torch.dtype) -> dict[str, float]:
    """Return the times of our kernels, forward and both ways; those of the norm and of crops beside torch's."""
    found = {}

    def both(name: str, inputs: list[Tensor], work: Callable[[], Tensor | tuple[Tensor, ...]]) -> None:
        out = work()
        gradients = [torch.randn_like(one) for one in (out if isinstance(out, tuple) else (out,))]
        needed = [one for one in inputs if one.requires_grad]

        def both_ways() -> None:
            made = work()
            torch.autograd.grad(made, needed, gradients)

        for key, timed in (("forward", work), ("both ways", both_ways)):
            found[f"{name} {key}"] = time_in_graph(timed)
            print(f"{name + ' ' + key:40s} {found[f'{name} {key}']:.4f} ms", flush=True)

    def volume(channels: int, side: int) -> Tensor:
        made = torch.randn(patches, channels, side, side, side, device="cuda", dtype=half)
        return made.contiguous(memory_format=CHANNELS_LAST)

    def weights(*shape: int) -> Tensor:
        return torch.randn(*shape, 3, 3, 3, device="cuda").requires_grad_()

    images, first, second = volume(1, 96), weights(16, 1), weights(16, 1)
    both("conv3d_strided_pair 1→16+16", [first, second], lambda: KERNELS.conv3d_strided_pair(images, first, second))
    x, weight, bias = volume(2, 96).requires_grad_(), weights(2, 2), torch.randn(2, device="cuda").requires_grad_()
    both("conv3d_plus_input 2→2", [x, weight, bias], lambda: KERNELS.conv3d_plus_input(x, weight, bias))
    pair = [volume(16, 48).requires_grad_() for _ in range(2)]
    pair_weight = weights(32, 2)
    both("conv_transpose3d_pair 16+16→2", [*pair, pair_weight], lambda: KERNELS.conv_transpose3d_pair(*pair, pair_weight))
    inner, halved = volume(16, 48).requires_grad_(), [weights(32, 16) for _ in range(2)]
    kept, doubled = [volume(32, 24).requires_grad_() for _ in range(2)], weights(64, 16)
    for name, who in (("", KERNELS), ("torch's ", REFERENCES)):
        both(
            f"{name}conv3d_strided_pair 16→32+32@48",
            [inner, *halved],
            lambda who=who, x=inner: who.conv3d_strided_pair(x, *(one.to(half) for one in halved)),
        )
        both(
            f"{name}conv_transpose3d_pair 32+32→16@24",
            [*kept, doubled],
            lambda who=who: who.conv_transpose3d_pair(*kept, doubled.to(half)),
        )
    for channels, side in ((16, 48), (8, 48), (32, 24), (64, 12)):
        inner, inner_weight = volume(channels, side).requires_grad_(), weights(channels, channels)
        prefix, who = ("", KERNELS) if channels in CONV3D_CHANNELS else ("torch's ", REFERENCES)
        both(
            f"{prefix}conv3d {channels}@{side}",
            [inner, inner_weight],
            lambda x=inner, w=inner_weight, convolve=who.conv3d: convolve(x, w.to(half)),
        )
    for channels, side in ((16, 48), (2, 96), (32, 24), (256, 6)):
        layer = nn.BatchNorm3d(channels).cuda()
        slope = torch.full((1,), 0.25, device="cuda").requires_grad_()
        y, residual, zeros = (
            volume(channels, side).requires_grad_(),
            volume(channels, side),
            torch.zeros(channels, device="cuda"),
        )
        both(
            f"batch_norm_prelu {channels}@{side}",
            [y, layer.weight, slope],
            lambda y=y, layer=layer, slope=slope, r=residual, z=zeros: KERNELS.batch_norm_prelu(y, layer, slope, z, r, z),
        )
        both(
            f"torch's batch_norm_prelu {channels}@{side}",
            [y, layer.weight, slope],
            lambda y=y, layer=layer, slope=slope, r=residual, z=zeros: REFERENCES.batch_norm_prelu(y, layer, slope, z, r, z),
        )
    logits, labels = volume(2, 96).requires_grad_(), torch.randint(0, 2, (patches, 1, 96, 96, 96), device="cuda").byte()
    both("loss", [logits], lambda: dice_ce_loss(logits, labels, 1e-5, 1.0))
    cases = [resident.Volume(torch.rand(200, 210, 220, device="cuda").half(), labels.new_ones(200, 210, 220)) for _ in range(8)]
    for name, who in (("crops", CROPS), ("torch's crops", resident.TORCH)):
        volumes = resident.ResidentVolumes(cases, (96, 96, 96), who)
        chosen = torch.arange(patches, device="cuda") % len(cases)
        corners = volumes.draw_corners(chosen)
        room = volumes.empty_patches(patches, half)
        found[name] = time_in_graph(lambda v=volumes, n=chosen, c=corners, room=room: v.gather(n, c, *room))
        found[f"{name}, placed"] = time_in_graph(lambda v=volumes, n=chosen: v.draw_corners(n))
        print(f"{name:40s} {found[name]:.4f} ms, placed in {found[f'{name}, placed']:.4f} ms", flush=True)
    return found


def time_steps(patches: int, half: torch.dtype, out: Path | None) -> dict[str, float]:
    """Return the time of whole steps, each with one technique more."""
    monai_loss = DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True, smooth_nr=1e-5, smooth_dr=1e-5)
    images = torch.rand(patches, 1, 96, 96, 96, device="cuda", dtype=half)
    labels = torch.randint(0, 2, (patches, 1, 96, 96, 96), device="cuda", dtype=torch.uint8)
    scores: dict[str, float] = {}
    for name in ("channels last", "+ fused norm", "+ direct convolutions", "+ fused loss", "+ graph", "+ Adam in one kernel"):
        torch.cuda.empty_cache()
        network = build_network()
        if name != "channels last":
            network = fuse(network, KERNELS, direct=name != "+ fused norm")
        network.to(memory_format=CHANNELS_LAST)
        graph = name in ("+ graph", "+ Adam in one kernel")
        fused_loss = graph or name == "+ fused loss"
        optimizer: Optimizer = torch.optim.Adam(network.parameters(), 1e-3, fused=True, capturable=graph)
        forward: Callable[[Tensor], Tensor] = network
        if name == "+ Adam in one kernel":
            forward = copies = WeightCopies(network, half)
            optimizer = FusedAdam(copies, 1e-3, (0.9, 0.999))

        def objective(images: Tensor, labels: Tensor, network=forward, fused_loss=fused_loss) -> Tensor:
            logits = network(images)
            return dice_ce_loss(logits, labels, 1e-5, 1.0) if fused_loss else monai_loss(logits, labels)

        scaler = Scaler("cuda") if half is torch.float16 else None
        precision = Precision(torch.device("cuda"), half, scaler)
        start = time.perf_counter()
        step = (GraphedStep if graph else Step)(objective, optimizer, precision)

        def whole(step=step) -> None:
            step.forward(images, labels)
            step.backward()
            step.update()

        for _ in range(4):
            whole()
        torch.cuda.synchronize()
        first_s = time.perf_counter() - start
        scores[name] = median_ms(whole, repeats=15)
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"{name:24s} {scores[name]:8.2f} ms a step  ({first_s:5.1f} s for the first four, {peak:.1f} GiB)", flush=True)
        if fused_loss and out:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(3):
                    whole()
                torch.cuda.synchronize()
            table = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=110)
            (out / f"kernels_{name.removeprefix('+ ').replace(' ', '_')}.txt").write_text(table)
    return scores


def main() -> None:
    """Print the tables, and leave them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, default=32)
    parser.add_argument("--precision", choices=("fp16", "bf16"), default="fp16")
    parser.add_argument("--layers", action="store_true", help="also each convolution by cuDNN")
    parser.add_argument("--kernels", action="store_true", help="also each kernel of ours")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    half = torch.float16 if options.precision == "fp16" else torch.bfloat16
    torch.backends.cudnn.benchmark = True
    torch.cuda.set_stream(torch.cuda.Stream())  # graphs are recorded on one of their own, where all that they touch was made
    result: dict[str, object] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "precision": options.precision,
    }
    if options.kernels:
        result["direct"] = time_direct(options.patches, half)
    result["steps"] = time_steps(options.patches, half, options.out)
    if options.layers:
        result["layers"] = time_layers(options.patches, half)
    if options.out:
        (options.out / f"step_{options.precision}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
