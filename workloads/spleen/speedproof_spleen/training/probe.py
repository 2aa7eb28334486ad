"""Probes of what this machine does, by trying it: its rates, and what its torch does badly."""

import statistics
from collections.abc import Callable

import torch
from torch import nn

from speedproof.api import Rates

# torch 2.9 was seen to run 3-D convolutions under autocast about four times slower than in fp32 (pytorch's issue tracker);
# half of that is well above what noise and small shapes make of a healthy one, which is faster under autocast.
SLOW_RATIO = 2.0


def slow_autocast_warning(device: torch.device) -> str | None:
    """Return a warning if 3-D convolutions are slow under autocast on this GPU; None if they are not."""
    if device.type != "cuda":
        return None
    convolution = nn.Conv3d(16, 32, 3, padding=1).to(device)
    images = torch.randn(8, 16, 64, 64, 64, device=device)
    plain_ms = _median_step_ms(convolution, images, autocast=False)
    autocast_ms = _median_step_ms(convolution, images, autocast=True)
    if autocast_ms < SLOW_RATIO * plain_ms:
        return None
    return (
        f"a 3-D convolution takes {autocast_ms:.2f} ms under autocast and {plain_ms:.2f} ms in fp32: this torch "
        f"({torch.__version__}) slows mixed precision down; use another release"
    )


def measure_rates(device: torch.device) -> Rates | None:
    """Return what this GPU does in large matrix products and copies, in half a second; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.empty_cache()
    side = 8192  # large enough that launching costs nothing, small enough for any GPU: 128 MiB a matrix
    left, right = (torch.randn(side, side, device=device, dtype=torch.float16) for _ in range(2))
    product_ms = median_ms(lambda: left @ right)
    source = torch.empty(2**29, device=device, dtype=torch.uint8)  # ten times what caches hold
    target = torch.empty_like(source)
    copy_ms = median_ms(lambda: target.copy_(source))
    return Rates(flop_per_s=2 * side**3 / product_ms * 1e3, bytes_per_s=2 * source.numel() / copy_ms * 1e3)


def _median_step_ms(convolution: nn.Module, images: torch.Tensor, *, autocast: bool) -> float:
    """Return the median time of forward and backward, in milliseconds."""

    def step() -> None:
        with torch.autocast("cuda", enabled=autocast):
            output = convolution(images)
        output.float().sum().backward()

    return median_ms(step)


def median_ms(work: Callable[[], object], warm_ups: int = 3, repeats: int = 7) -> float:
    """Return the median time of some work on the GPU, in milliseconds, by device events after warm-ups."""
    times = []
    for _ in range(warm_ups + repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[warm_ups:])
