"""The FLOP and the memory traffic of a training iteration of nnU-Net's networks: a lower bound of its time. It needs no GPU.

    python workloads/nnunet/benchmarks/traffic.py PLANS.json … [--configuration 2d] [--terabytes 3.35] [--teraflops 989]

A convolution computes its output, the gradient of its weights and, but for the network's first, the gradient of its input. Each
reads or writes its input and its output once. A norm with its activation reads its input twice and writes once; backward, it
reads two tensors twice and writes one. Tensors are of half precision. Not counted: weights, loss, optimizer, additions,
concatenations, augmentation.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_HALF_BYTES = 2
_NORM_PASSES = 3 + 5  # forward and backward
_TRANSPOSED = nn.ConvTranspose2d | nn.ConvTranspose3d
_CONVOLUTIONS = nn.Conv2d | nn.Conv3d | _TRANSPOSED
_NORMS = nn.InstanceNorm2d | nn.InstanceNorm3d


@dataclass(frozen=True)
class Work:
    """The FLOP and the traffic of one operation, forward and backward."""

    flop: int
    moved: int  # bytes

    def bound_s(self, flop_per_s: float, bytes_per_s: float) -> float:
        """Return the least time: computing and moving may overlap."""
        return max(self.flop / flop_per_s, self.moved / bytes_per_s)


def count_convolution(module: Any, taken: Tensor, made: Tensor, *, first: bool) -> Work:
    """Return the work of a convolution; the network's first needs no gradient of its input."""
    passes = 2 if first else 3
    meeting = taken if isinstance(module, _TRANSPOSED) else made  # each of its voxels meets each weight once
    products = meeting.numel() // meeting.shape[1] * module.weight.numel()
    return Work(2 * products * passes, (taken.numel() + made.numel()) * passes * _HALF_BYTES)


def count_work(network: nn.Module, shape: Sequence[int]) -> tuple[list[Work], list[Work]]:
    """Return the work of a network's convolutions and of its norms, for a batch of this shape; the network is on no device."""
    convolutions: list[Work] = []
    norms: list[Work] = []

    def note(module: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        if isinstance(module, _CONVOLUTIONS):
            convolutions.append(count_convolution(module, given[0], made, first=not convolutions))
        else:
            norms.append(Work(0, _NORM_PASSES * made.numel() * _HALF_BYTES))

    for module in network.modules():
        if isinstance(module, _CONVOLUTIONS | _NORMS):
            module.register_forward_hook(note)
    network(torch.empty(*shape, device="meta"))
    return convolutions, norms


def make_planned(plans: Path, configuration: str) -> tuple[nn.Module, list[int]]:
    """Return the network that nnU-Net has planned, for one channel and two classes, and the shape of its batches."""
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

    planned = json.loads(plans.read_text())["configurations"][configuration]
    form = planned["architecture"]
    names = form["network_class_name"], form["arch_kwargs"], form["_kw_requires_import"]
    network = get_network_from_plans(*names, 1, 2, allow_init=False, deep_supervision=True)
    return network.to("meta"), [planned["batch_size"], 1, *planned["patch_size"]]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("plans", type=Path, nargs="+", help="nnU-Net's plans")
    parser.add_argument("--configuration", default="3d_fullres", help="of the plans; default: %(default)s")
    parser.add_argument("--terabytes", type=float, default=3.35, help="memory bandwidth in TB/s; default: an H100 SXM")
    parser.add_argument("--teraflops", type=float, default=989, help="rate of tensor cores in TFLOP/s; default: its own")
    parser.add_argument("--reached", type=float, default=440, help="TFLOP/s that convolutions reach; default: %(default)s")
    asked = parser.parse_args()
    titles = ["plans", "batch", "TFLOP", "convolution traffic", "norm traffic", "lower bound", f"at {asked.reached:g} TFLOP/s"]
    print("| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles))
    for plans in asked.plans:
        network, shape = make_planned(plans, asked.configuration)
        convolutions, norms = count_work(network, shape)
        moved = [sum(one.moved for one in some) / 1e9 for some in (convolutions, norms)]
        bound = partial(Work.bound_s, bytes_per_s=asked.terabytes * 1e12)
        least_ms = [
            1e3 * sum(bound(one, teraflops * 1e12) for one in (*convolutions, *norms))
            for teraflops in (asked.teraflops, asked.reached)
        ]
        batch = f"{shape[0]} × {'×'.join(map(str, shape[2:]))}"
        flop = sum(one.flop for one in convolutions) / 1e12
        print(f"| {plans.stem} | {batch} | {flop:.1f} | {moved[0]:.1f} GB | {moved[1]:.1f} GB |", end="")
        print(f" {least_ms[0]:.0f} ms | {least_ms[1]:.0f} ms |")


if __name__ == "__main__":
    main()
