"""Probes of what this machine's torch does badly, by trying it: versions tell less than a measurement."""

import statistics

import torch
from torch import nn

# torch 2.9 was seen to run 3-D convolutions under autocast about four times slower than in fp32 (pytorch's issue tracker);
# half of that is well above what noise and small shapes make of a healthy one, which is faster under autocast.
SLOW_RATIO = 2.0


def slow_autocast_warning(device: torch.device) -> str | None:
    """Return a warning where 3-D convolutions are slow under autocast on this GPU; None where they are not."""
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


def _median_step_ms(
    convolution: nn.Module, images: torch.Tensor, *, autocast: bool, warm_ups: int = 3, repeats: int = 7
) -> float:
    """Return the median time of forward and backward, in milliseconds, by device events after warm-ups."""
    times = []
    for _ in range(warm_ups + repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        with torch.autocast("cuda", enabled=autocast):
            output = convolution(images)
        output.float().sum().backward()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[warm_ups:])
