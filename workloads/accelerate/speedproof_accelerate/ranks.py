"""The processes that train together."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
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
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)
    yield
    gc.collect()  # what trained holds the group, and itself in circles
    dist.destroy_process_group()
