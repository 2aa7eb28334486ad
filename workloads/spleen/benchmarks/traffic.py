"""What a training step of `turbo` must read and write, stage by stage, and what each stage takes in a recorded trace.

    python workloads/spleen/benchmarks/traffic.py RUN/trace [--patches 8] [--terabytes 4.8] [--teraflops 990]

A stage is a convolution, with the residual one beside it, and the norm behind it. Batch norm needs a sum over all of a volume
before it can be applied, forward and backward, so its input must lie in memory, and all else can be fused: whoever reads it
normalises it, whoever writes it sums it up. Bytes are of half precision; weights, sums and labels are free. It needs no GPU.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from speedproof_spleen.segmentation.unet import ResidualUNet

_HALF_BYTES = 2
_UPDATE = "adam_update"  # a step's last kernel
_SIDE = 96


@dataclass(frozen=True)
class Stage:
    """Values of a stage, each a volume's: its input's, its convolution's result's, its residual convolution's."""

    name: str
    taken: int
    made: int
    residual: int
    summed: int  # volumes that its input is the sum of, where nothing is written that can be read again
    added: bool  # whether a residual is added behind its norm
    branches: bool  # whether the gradient of its input comes from two places
    normalised: bool
    returns: bool  # whether its input has a gradient
    flop: int  # of its products, forward and backward

    @property
    def now(self) -> int:
        """Return what `turbo`'s kernels read and write: a norm in two passes forward and two backward, each gradient in one."""
        norm = (self.made + 2 * self.made + self.made * self.added) + (2 * self.made + 3 * self.made)
        forward = self.taken + self.made + self.residual
        gradients = 1 + self.returns  # of the weights, and of the input
        backward = gradients * (self.made + self.residual + self.taken) + 3 * self.taken * self.branches
        return forward + norm * self.normalised + backward

    @property
    def fused(self) -> int:
        """Return the same where norms, sums and additions happen in the convolutions, and one kernel gives both gradients."""
        forward = self.summed * self.taken + self.made + self.residual
        backward = self.made * (1 + self.normalised) + self.residual + self.summed * self.taken + self.taken * self.returns
        return forward + backward


def _list_convolutions() -> list[tuple[str, nn.Module, int, int, tuple[int, ...]]]:
    """Return each convolution in order: name, module, values of its input and of its result, the result's channels and size."""
    network = ResidualUNet(1, 2, (16, 32, 64, 128, 256)).to("meta")
    seen: list[tuple[str, nn.Module, int, int, tuple[int, ...]]] = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv3d | nn.ConvTranspose3d):
            module.register_forward_hook(
                lambda m, i, o, name=name: seen.append((name, m, i[0].numel(), o.numel(), tuple(o.shape[1:3])))
            )
    network(torch.empty(1, 1, _SIDE, _SIDE, _SIDE, device="meta"))
    return seen


def list_stages() -> list[Stage]:
    """Return the stages of the documented network, in order, of one patch."""
    seen = _list_convolutions()
    residuals = {(taken, made): module for name, module, taken, made, _ in seen if "residual" in name}
    stages: list[Stage] = []
    convolutions = [one for one in seen if "residual" not in one[0]]
    for number, (_, module, taken, made, (channels, side)) in enumerate(convolutions, start=1):
        transposed = isinstance(module, nn.ConvTranspose3d)
        beside = None if transposed else residuals.get((taken, made))
        enters, first = beside is not None, number == 1  # the first of a unit with a convolution beside it
        # Each input value of a transposed convolution, each result of another meets each weight of its channel once.
        weights = [next(one.parameters()) for one in (module, beside) if one is not None]
        products = sum((taken if transposed else made) // weight.shape[0] * weight.numel() for weight in weights)
        stages.append(
            Stage(
                name=f"{number}: {'up to ' if transposed else ''}{channels}@{side}",
                taken=taken,
                made=made,
                residual=made if enters else 0,
                summed=2 if (enters or transposed) and not first else 1,
                added=not enters and not transposed,
                branches=enters and not first,
                normalised=number < len(convolutions),
                returns=not first,
                flop=2 * products * (2 if first else 3),
            )
        )
    return stages


def read_steps(trace: Path, stages: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the median µs of each stage forward and backward, and of the whole of a typical step.

    A stage's kernels end with its norm forward, and begin with its norm's gradient backward.
    """
    kernels = pd.read_parquet(trace / "kernels.parquet").sort_values("start_ns", ignore_index=True)
    ends = kernels.index[kernels["name"] == _UPDATE].to_numpy()
    lengths = np.diff(ends)
    if not len(lengths):
        raise SystemExit(f"{trace}: is not a trace of `turbo`")
    typical = np.bincount(lengths).argmax()
    steps = [kernels.iloc[end + 1 - typical : end + 1] for end in ends[1:][lengths == typical]]
    medians = np.median([_split(step) for step in steps], axis=0) / 1e3
    whole = np.median([step["end_ns"].iloc[-1] - step["start_ns"].iloc[0] for step in steps]) / 1e3
    return medians[:stages], medians[:stages:-1], float(whole)


def _split(step: pd.DataFrame) -> list[int]:
    """Return ns from one boundary of a step to the next: each stage forward, the loss, each stage backward from the last."""
    start, end = step["start_ns"].to_numpy(), step["end_ns"].to_numpy()
    places = {name: np.flatnonzero(step["name"] == name) for name in step["name"].unique()}
    bounds = [
        start[places["weights_spread"][0]],
        *end[places["norm_apply"]],
        start[places["dice_ce_sum_terms"][0]],
        end[places["dice_ce_pass_gradient"][0]],
        *start[places["norm_sum_gradients"]],
        end[places["weights_gather"][-1]],
    ]
    return np.diff(bounds).tolist()


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--patches", type=int, default=8)
    parser.add_argument("--terabytes", type=float, default=4.8, help="a second, of the GPU's memory (an H200's data sheet)")
    parser.add_argument("--teraflops", type=float, default=990, help="of the GPU's tensor cores, dense, in half precision")
    asked = parser.parse_args()
    stages = list_stages()
    forward, backward, whole = read_steps(asked.trace, len(stages))
    titles = ["stage", "MB now", "MB fused", "moved, µs", "products, µs", "forward, µs", "backward, µs"]
    print("| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles))
    table = []
    for stage, there, back in zip(stages, forward, backward, strict=True):
        now, fused = (moved * asked.patches * _HALF_BYTES / 1e6 for moved in (stage.now, stage.fused))
        products = stage.flop * asked.patches / asked.teraflops / 1e6
        table.append([now, fused, fused / asked.terabytes, products, there, back])
        print(f"| {stage.name} | " + " | ".join(f"{value:.1f}" for value in table[-1]) + " |")
    print("| all | " + " | ".join(f"{value:.0f}" for value in np.sum(table, axis=0)) + " |")
    least = np.array(table)[:, 2:4].max(axis=1).sum()
    print(f"\nA step takes {whole:.0f} µs; moved or multiplied, whichever is longer in each stage, at least {least:.0f} µs.")


if __name__ == "__main__":
    main()
