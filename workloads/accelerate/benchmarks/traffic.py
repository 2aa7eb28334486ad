"""The FLOP and the memory traffic of a training step: a lower bound of its time. It needs no GPU.

    python workloads/accelerate/benchmarks/traffic.py [--terabytes 4.8] [--teraflops 989]          the networks of networks.py
    python workloads/accelerate/benchmarks/traffic.py PLANS.json … [--configuration 2d]            nnU-Net's, by its plans

A convolution computes its output, the gradient of its weights and, if it does not read the network's input, the gradient of its
own input. Each reads or writes its input and its output once. A norm with its activation reads its input twice and writes once;
backward, it reads two tensors twice and writes one. Tensors are of half precision. Not counted: weights, loss, optimizer,
additions, concatenations, interpolation, augmentation.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
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
_NORMS = nn.InstanceNorm2d | nn.InstanceNorm3d | nn.BatchNorm2d | nn.BatchNorm3d | nn.GroupNorm


@dataclass(frozen=True)
class Work:
    """The FLOP and the traffic of one operation, forward and backward."""

    flop: int
    moved: int  # bytes

    def bound_s(self, flop_per_s: float, bytes_per_s: float) -> float:
        """Return the least time: computing and moving may overlap."""
        return max(self.flop / flop_per_s, self.moved / bytes_per_s)


def count_convolution(module: Any, taken: Tensor, made: Tensor, *, first: bool) -> Work:
    """Return the work of a convolution; one that reads the network's input needs no gradient of it."""
    passes = 2 if first else 3
    meeting = taken if isinstance(module, _TRANSPOSED) else made  # each of its voxels meets each weight once
    products = meeting.numel() // meeting.shape[1] * module.weight.numel()
    return Work(2 * products * passes, (taken.numel() + made.numel()) * passes * _HALF_BYTES)


def count_work(network: nn.Module, shape: Sequence[int]) -> tuple[list[Work], list[Work]]:
    """Return the work of a network's convolutions and of its norms, for a batch of this shape; the network is on no device."""
    convolutions: list[Work] = []
    norms: list[Work] = []
    batch = torch.empty(*shape, device="meta")

    def note(module: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        if isinstance(module, _CONVOLUTIONS):
            convolutions.append(count_convolution(module, given[0], made, first=given[0] is batch))
        else:
            norms.append(Work(0, _NORM_PASSES * made.numel() * _HALF_BYTES))

    for module in network.modules():
        if isinstance(module, _CONVOLUTIONS | _NORMS):
            module.register_forward_hook(note)
    network(batch)
    return convolutions, norms


def make_planned(plans: Path, configuration: str) -> tuple[nn.Module, list[int]]:
    """Return the network that nnU-Net has planned, for one channel and two classes, and the shape of its batches."""
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

    planned = json.loads(plans.read_text())["configurations"][configuration]
    form = planned["architecture"]
    names = form["network_class_name"], form["arch_kwargs"], form["_kw_requires_import"]
    network = get_network_from_plans(*names, 1, 2, allow_init=False, deep_supervision=True)
    return network.to("meta"), [planned["batch_size"], 1, *planned["patch_size"]]


def list_networks() -> Iterator[tuple[str, nn.Module, Sequence[int]]]:
    """Yield the title, the network and the batch's shape of each setting of networks.py."""
    from networks import SETTINGS

    for setting in SETTINGS.values():
        yield setting.title, setting.make().to("meta"), setting.shape


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("plans", type=Path, nargs="*", help="nnU-Net's plans. Default: the networks of networks.py")
    parser.add_argument("--configuration", default="3d_fullres", help="of the plans. Default: %(default)s")
    parser.add_argument("--terabytes", type=float, default=3.35, help="memory bandwidth in TB/s. Default: an H100 SXM's")
    parser.add_argument("--teraflops", type=float, default=989, help="rate of tensor cores in TFLOP/s. Default: an H100 SXM's")
    parser.add_argument("--reached", type=float, default=440, help="TFLOP/s that convolutions reach. Default: %(default)s")
    asked = parser.parse_args()
    planned = ((plans.stem, *make_planned(plans, asked.configuration)) for plans in asked.plans)
    titles = ["network", "batch", "TFLOP", "convolution traffic", "norm traffic", "lower bound"]
    titles.append(f"at {asked.reached:g} TFLOP/s")
    print("| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles))
    for title, network, shape in planned if asked.plans else list_networks():
        convolutions, norms = count_work(network, shape)
        moved = [sum(one.moved for one in some) / 1e9 for some in (convolutions, norms)]
        bound = partial(Work.bound_s, bytes_per_s=asked.terabytes * 1e12)
        least_ms = [
            1e3 * sum(bound(one, teraflops * 1e12) for one in (*convolutions, *norms))
            for teraflops in (asked.teraflops, asked.reached)
        ]
        batch = f"{shape[0]} × {'×'.join(map(str, shape[2:]))}"
        flop = sum(one.flop for one in convolutions) / 1e12
        print(f"| {title} | {batch} | {flop:.2f} | {moved[0]:.2f} GB | {moved[1]:.2f} GB |", end="")
        print(f" {least_ms[0]:.2f} ms | {least_ms[1]:.2f} ms |")


if __name__ == "__main__":
    main()
