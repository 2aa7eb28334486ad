"""Several processes that train one network, a GPU each: who each is, its share of the cases, and what all of them agree on.

A process started by torchrun finds its place in the environment; any other trains alone, and then nothing here does
anything. Gradients are averaged by torch's DistributedDataParallel, or by the step itself (averaging.py), over NCCL between
GPUs and gloo between processors. Batch norm normalises by each rank's own batch; the running statistics, which only
validation uses, are averaged over the ranks before each validation.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from speedproof.api import TrainingError, rank_folder
from speedproof_accelerate.ranks import joined_group
from speedproof_spleen.variant import SpleenVariant

if TYPE_CHECKING:
    from speedproof_spleen.training.loop import EpochResult

Item = TypeVar("Item")

# Seeds of rounds count up by one: those of the ranks stay clear of them.
_SEED_STEP = 1_000_000
# A rank may fill its cache for long while another waits; torchrun, not this limit, finds a rank that died.
_PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Ranks:
    """A process' place among those that train: one of `size`, the `local`-th of its node."""

    rank: int = 0
    size: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Return whether this process writes what is the whole run's."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Return whether there are others."""
        return self.size > 1

    def folder(self, run: Path) -> Path:
        """Return where this process' own files go."""
        return rank_folder(run, self.rank) if self.several else run

    def seed(self, seed: int) -> int:
        """Return this rank's seed: crops and dropout differ from rank to rank. Rank 0's is that of a process alone."""
        return seed + _SEED_STEP * self.rank

    def share_evenly(self, items: Sequence[Item]) -> list[Item]:
        """Return this rank's share of the items, as many as any other's: where they do not divide, the first ones come again.

        So every rank takes as many steps, as torch's DistributedSampler has it.
        """
        whole = -(-len(items) // self.size) * self.size
        return list(islice(cycle(items), whole))[self.rank :: self.size]

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Return this rank's share of the items, each of which is in one share; shares differ by one item at most."""
        return list(items[self.rank :: self.size])

    def distribute(self, network: nn.Module, device: torch.device) -> nn.Module:
        """Return the network as a training step calls it: rank 0's weights on all ranks, gradients their mean."""
        if not self.several:
            return network
        devices = [device] if device.type == "cuda" else None
        with warnings.catch_warnings():
            # torch 2.13 renames it to `forward_sync_buffers`, which older ones do not know.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            return DistributedDataParallel(network, devices, broadcast_buffers=False, gradient_as_bucket_view=True)

    def copy_weights(self, network: nn.Module) -> None:
        """Give all ranks rank 0's weights."""
        for weight in network.parameters() if self.several else ():
            whole = weight.detach().contiguous()
            dist.broadcast(whole, 0)
            weight.detach().copy_(whole)

    def average_buffers(self, network: nn.Module) -> None:
        """Give all ranks the mean of the network's running statistics, of which each has kept its own."""
        buffers = [buffer for buffer in network.buffers() if buffer.is_floating_point()]
        if not self.several or not buffers:
            return
        means = torch.cat([buffer.detach().flatten() for buffer in buffers])
        dist.all_reduce(means)
        means /= self.size
        for buffer, mean in zip(buffers, means.split([buffer.numel() for buffer in buffers]), strict=True):
            buffer.copy_(mean.view_as(buffer))

    def meet(self) -> None:
        """Wait for all ranks, so that what one did before, such as writing a log, does not count in the others' epochs."""
        if self.several:
            dist.barrier()

    def merge(self, own: "EpochResult") -> "EpochResult":
        """Return the epoch of all ranks together, the same on each; until all have come here none goes on."""
        if not self.several:
            return own
        results: list[Any] = [None] * self.size
        dist.all_gather_object(results, own)
        return merge_epochs(results)


def read_ranks(environ: Mapping[str, str], name: str, variant: SpleenVariant) -> Ranks:
    """Return this process' place, from torchrun's variables.

    Raises:
        TrainingError: the variant of this name needs another number of processes than were started.
    """
    ranks = Ranks(*(int(environ.get(key, alone)) for key, alone in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))))
    if (ranks.size, int(environ.get("LOCAL_WORLD_SIZE", "1"))) != (variant.ranks, variant.gpus):
        raise TrainingError(
            f"variant `{name}` has `gpus: {variant.gpus}`, `nodes: {variant.nodes}`, but {ranks.size} processes were started; "
            f"use `torchrun --nnodes={variant.nodes} --nproc-per-node={variant.gpus} -m speedproof_spleen train …`"
        )
    return ranks


@contextmanager
def joined(ranks: Ranks, device: torch.device) -> Iterator[None]:
    """Join the other processes while the block runs; where it raises, the others learn it from this process' end."""
    if not ranks.several:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with joined_group(device, timeout=_PATIENCE, device_id=device if device.type == "cuda" else None):
        yield


def merge_epochs(results: Sequence["EpochResult"]) -> "EpochResult":
    """Return one epoch of all ranks: times are the slowest rank's, samples add up, the loss is the mean over ranks.

    Peak memory is that of the rank that needed most; Dice is every rank's already.
    """
    first = results[0]
    train_s = max(result.train_s for result in results)
    validations_s = [result.validation_s for result in results if result.validation_s is not None]
    return replace(
        first,
        train_s=train_s,
        validation_s=max(validations_s, default=None),
        loss=sum(result.loss for result in results) / len(results),
        samples_per_s=sum(result.samples_per_s * result.train_s for result in results) / train_s,
        peak_memory_mib=max(result.peak_memory_mib for result in results),
    )
