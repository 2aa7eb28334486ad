"""Tiles of the convolutions of one and two channels, of the norm and of Adam, at the shapes of a step of 8 patches of 96³.

    python workloads/accelerate/benchmarks/tile_sizes.py [--out FILE]

A line a layer and candidate: µs, how much of the layer's first, and how far its results are from that one's, relative to
the largest. Each is launched ten times in a CUDA graph, volumes as warm in the cache as the call before left them; medians of
50. A candidate that fails leaves a line with its error; after one that breaks the device's context the rest is done by a new
process.
"""

import argparse
import copy
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.kernels import batch_norm_prelu as norm
from speedproof_accelerate.kernels import conv3d, fused_adam
from speedproof_accelerate.kernels import conv3d_strided_generic as generic
from speedproof_accelerate.kernels import conv3d_strided_vectorized as vectorized
from speedproof_accelerate.kernels.conv3d_strided import build_matrices, convolve, transpose
from speedproof_accelerate.kernels.precompile import collect_kernels
from speedproof_accelerate.kernels.weight_matrices import gather, spread

HALF, LAST = torch.float16, torch.channels_last_3d
_CALLS, _REPEATS = 10, 50
_ROUNDING = 2.0**-9  # of the largest result: half precision's, and that of sums in another order


@dataclass(frozen=True)
class Candidate:
    """A way to compute a layer: constants of a module, and the call that goes by them. A layer's first is the measure."""

    layer: str
    title: str
    call: Callable[[], Any]
    module: Any = None
    constants: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> list[Tensor]:
        """Return the results."""
        with ExitStack() as stack:
            for name, value in self.constants.items():
                stack.enter_context(patch.object(self.module, name, value))
            found = self.call()
        return list(found) if isinstance(found, tuple | list) else [found]


def list_candidates(device: torch.device, items: int = 8, side: int = 96) -> Iterator[Candidate]:
    """Yield all candidates, those of a layer one behind the other."""
    torch.manual_seed(0)

    def volume(channels: int, sides: int) -> Tensor:
        return torch.randn(items, channels, *[sides] * 3, device=device, dtype=HALF).contiguous(memory_format=LAST)

    def weights(*shape: int) -> Tensor:
        return (torch.randn(*shape, 3, 3, 3, device=device) / 8).to(HALF, memory_format=LAST)

    def vary(layer: str, call: Callable[[], Any], module: Any, names: str, *values: tuple[Any, ...]) -> Iterator[Candidate]:
        for one in values:
            constants = dict(zip(names.split(), one, strict=True))
            title = " ".join(f"{name.strip('_').lower()} {value}" for name, value in constants.items())
            yield Candidate(layer, title, call, module, constants)

    tiles, summed = "_CELLS _WARPS _BESIDE", "_SUMMED_CELLS _SUMMED_STAGES"
    fitting = [(64, 4, (4, 128)), (64, 4, (3, 168)), (64, 4, (2, 255)), (64, 4, (5, 96)), (128, 8, (1, 255))]
    convolving = [(cells, warps, dict.fromkeys((1, 2), one)) for cells, warps, one in fitting]
    summing = [(64, 3), (64, 4), (64, 2), (32, 5), (128, 2)]
    one, two, halves = volume(1, side), volume(2, side), [volume(16, side // 2) for _ in range(2)]

    for x, given in ((one, [weights(16, 1) for _ in range(2)]), (two, [weights(32, 2)])):
        of_generic, of_vectorized = (build_matrices(one, given, True, HALF, both=False)[1] for one in (generic, vectorized))
        layer = f"strided {x.shape[1]} to 16+16"
        yield Candidate(layer, "generic", partial(convolve, generic, x, of_generic, 16))
        yield from vary(layer, partial(convolve, vectorized, x, of_vectorized, 16), vectorized, tiles, *convolving)
        layer += ", weights"

        def differentiate(kernels: Any, x: Tensor = x, given: list[Tensor] = given) -> list[Tensor]:
            layout, *_ = build_matrices(kernels, given, True, HALF, both=False)
            return gather(kernels.sum_weight_gradients(x, halves), layout, given)

        yield Candidate(layer, "generic", partial(differentiate, generic))
        yield from vary(layer, partial(differentiate, vectorized), vectorized, summed, *summing)

    layer, weight = "transposed 16+16 to 2", weights(32, 2)
    of_generic, of_vectorized = (build_matrices(one, [weight], True, HALF, both=True)[2] for one in (generic, vectorized))
    yield Candidate(layer, "generic", partial(transpose, generic, halves, of_generic, 2))
    transposing = [(64, 5, 96), (64, 4, 128), (64, 6, 80), (128, 3, 168), (128, 4, 128)]
    names = "_CELLS _DOUBLED_BESIDE _DOUBLED_REGISTERS"
    yield from vary(layer, partial(transpose, vectorized, halves, of_vectorized, 2), vectorized, names, *transposing)

    for channels, x in ((2, two), (16, halves[0])):
        inner, bias = weights(channels, channels), torch.rand(channels, device=device)
        biases, layout = [bias] * (channels == 2), conv3d._layout(channels, True, channels == 2, device)
        plain, mirrored = spread([inner], layout, HALF)
        add = (bias, x) if biases else ()
        layer = f"conv3d {channels}"
        above = partial(conv3d._convolve, x, plain, *add)
        below = partial(conv3d._convolve, x, mirrored, residual=x)
        for title, call in ((layer, above), (f"{layer}, data", below)):
            yield from vary(title, call, conv3d, "_CELLS _WARPS", (128, 4), (64, 4), (256, 4), (256, 8))
        small = x / 1024  # so that sums do not overflow
        sums = partial(conv3d._differentiate_weights, x, small, [inner, *biases], layout)
        yield from vary(f"{layer}, weights", sums, conv3d, "_SUMMED_CELLS _STAGES", (64, 3), (64, 2), (32, 4), (32, 6))

    for channels, x in ((2, two), (16, halves[0]), (64, volume(64, side // 8)), (256, volume(256, side // 16))):
        leaf, module = x.detach().requires_grad_(), nn.BatchNorm3d(channels).to(device)
        slope, zeros = torch.full((1,), 0.25, device=device).requires_grad_(), torch.zeros(channels, device=device)

        def both_ways(
            leaf: Tensor = leaf, module: nn.BatchNorm3d = module, slope: Tensor = slope, zeros: Tensor = zeros
        ) -> Any:
            with torch.enable_grad():
                out = norm.batch_norm_prelu(leaf, module, slope, zeros)
                return out, *torch.autograd.grad(out, [leaf, module.weight, module.bias, slope], leaf.detach())

        layer = f"batch_norm_prelu {channels}, both ways"
        yield from vary(
            layer, both_ways, norm, "_STAGES _ROWS _PROGRAMS", (3, 8, 1024), (1, 8, 1024), (2, 8, 1024), (3, 4, 1024)
        )


def list_adams(device: torch.device) -> Iterator[Candidate]:
    """Yield those of Adam, of about as many weights as the documented network has, and as many tensors of weights."""
    sizes = [(16, 2), (32, 16), (32, 32), (64, 32), (64, 64), (128, 64), (128, 128), (256, 128), (256, 256), (384, 64)]
    network = nn.Sequential(*[nn.Conv3d(taken, made, 3) for made, taken in [*sizes, *sizes[5:7], (256, 128)]]).to(device)
    for one in [(512, 4), (2048, 4), (1024, 8), (512, 2), (256, 2)]:
        constants = dict(zip(("_BLOCK", "_WARPS"), one, strict=True))
        with patch.multiple(fused_adam, **constants):
            optimizer = fused_adam.FusedAdam(WeightCopies(copy.deepcopy(network), HALF), 1e-3, (0.9, 0.95))
        for weight in optimizer._pairs:
            weight.leaf.grad = torch.ones_like(weight.leaf)
        optimizer.note_gradients()

        def update(optimizer: fused_adam.FusedAdam = optimizer) -> list[Tensor]:
            overflow = torch.zeros((), device=device)
            optimizer.find_overflow(overflow)
            optimizer.step()
            return [overflow + 1]  # means go on from call to call

        yield Candidate("Adam", f"block {one[0]} warps {one[1]}", update, fused_adam, constants)


def time_us(work: Callable[[], object]) -> float:
    """Return the median µs of a call, launched with others as one CUDA graph."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(_CALLS):
            work()
    found = []
    for _ in range(_REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e3 / _CALLS)
    return median(found)


def measure_apart(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return how far results are from those expected, relative to the largest of each tensor."""
    pairs = zip(found, expected, strict=True)
    return max(float((one.float() - other.float()).abs().max() / other.float().abs().max()) for one, other in pairs)


def compile_side_by_side(candidates: list[Candidate]) -> None:
    """Compile all kernels in threads. A kernel that does not compile fails again when it is timed."""

    def note(one: Candidate) -> None:
        try:
            one()
        except Exception as error:
            print(f"{one.layer:32} {one.title}: {describe(error)}", flush=True)

    noted = collect_kernels([partial(note, one) for one in candidates])
    print(f"{len(noted)} kernels", flush=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for made in [threads.submit(kernel) for kernel in noted]:
            made.exception()


def describe(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {str(error).strip() or '-'}".splitlines()[0][:200]


def main() -> None:
    """Print the table, and append it to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)  # of a process that goes on
    given = parser.parse_args()
    torch.cuda.set_stream(torch.cuda.Stream())

    def tell(line: str) -> None:
        print(line, flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(f"{line}\n")

    device = torch.device("cuda")
    candidates = [*list_candidates(device), *list_adams(device)]
    presents = {one.layer: one for one in reversed(candidates)}
    todo = candidates[given.first :]
    with torch.no_grad():
        compile_side_by_side([*todo, *presents.values()] if given.first else todo)
        if not given.first:
            tell(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
            tell(f"{'layer':32} {'candidate':56} {'µs':>8} {'share':>6}  off")
        expected: dict[str, tuple[list[Tensor], float]] = {}
        for number, one in enumerate(todo, start=given.first):
            try:
                if one.layer not in expected:
                    present = presents[one.layer]
                    expected[one.layer] = [result.clone() for result in present()], time_us(present)
                results, unit = expected[one.layer]
                apart = measure_apart(one(), results)
                taken = time_us(one)
                said = f"{apart:.0e}" + ("" if apart < _ROUNDING else " WRONG")
                tell(f"{one.layer:32} {one.title:56} {taken:8.1f} {taken / unit:6.2f}  {said}")
            except Exception as error:
                tell(f"{one.layer:32} {one.title:56} {describe(error)}")
                try:
                    torch.cuda.synchronize()
                except Exception:  # the context is lost
                    sys.stdout.flush()
                    rest = ["--first", str(number + 1)] + (["--out", str(given.out)] if given.out else [])
                    os.execv(sys.executable, [sys.executable, __file__, *rest])


if __name__ == "__main__":
    main()
