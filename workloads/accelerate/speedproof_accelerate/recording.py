"""Launches recorded as a CUDA graph."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def make_streams(device: torch.device | None = None) -> tuple[Any, Any]:
    """Return a stream for recordings, and a second one of lower priority, whose kernels use what the first leaves idle."""
    return torch.cuda.Stream(device, priority=-1), torch.cuda.Stream(device)


@contextmanager
def recording(graph: Any, **options: Any) -> Iterator[None]:
    """Record what is launched as a graph. Other threads go on, such as those that pin memory or watch NCCL's collectives.

    Python's garbage collector waits meanwhile. It might free an earlier graph, which spoils the recording, and with it torch's
    random numbers for the rest of the process.

    Args:
        graph: the `torch.cuda.CUDAGraph`.
        options: further ones of `torch.cuda.graph`: its pool and its stream.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local", **options):
            yield
    finally:
        if collects:
            gc.enable()
