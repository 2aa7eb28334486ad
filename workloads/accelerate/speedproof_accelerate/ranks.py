"""The processes that train together."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Before any group is made: imported later, as DistributedDataParallel does, its functions' defaults would hold the group.
import torch.distributed.nn.functional


@contextmanager
def joined_group(device: torch.device, **options: Any) -> Iterator[None]:
    """Join the other processes while the block runs, over NCCL between GPUs and gloo between processors.

    Options are those of torch's `init_process_group`.
    The group ends with the block, and its threads with it: one that outlives the interpreter may abort the process. Where the
    block raises, the group is left to the process' end, since to leave it could wait for a rank that is gone.
    """
    if device.type == "cuda":
        _separate_compiler_caches(device.index)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)
    yield
    gc.collect()  # what trained holds the group, and itself in circles
    dist.destroy_process_group()


def _separate_compiler_caches(local_rank: int) -> None:
    """Let each process of a node keep Triton's files in a folder of its own.

    Python finds an extension module that it has loaded by the number of its file (inode). In a shared folder, another process
    may replace a file between Python's look at it and its load. The number is then free for another kernel's launcher, and
    Python takes the wrong one for it: "function takes exactly 28 arguments (19 given)".
    """
    shared = os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton/cache"
    os.environ["TRITON_CACHE_DIR"] = str(Path(shared) / f"rank{local_rank}")
