"""What torchrun starts twice: runs of the workflow's own training, and what each rank had at the end of each.

Arguments: the configuration, a JSON list of the files, the variants; the runs' folders have their names. Of the variant
`failing` one rank runs out of memory.
"""

import json
import os
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn

from speedproof.api import Dataset, TrainingError
from speedproof_accelerate.averaging import Share, add_shares, begin_to_add, collect_from, collect_gradients
from speedproof_spleen.config import load_config
from speedproof_spleen.segmentation.dice import DeviceDice
from speedproof_spleen.training import loop
from speedproof_spleen.training import run as training_run
from speedproof_spleen.training.ranks import Ranks

RANK = int(os.environ["RANK"])
# Dice of the foreground: 1, 2 / 3 and 0; of the background 1, 4 / 5 and 0.
VOLUMES = [([1, 0, 0, 0], [1, 0, 0, 0]), ([1, 1, 0, 0], [1, 0, 0, 0]), ([1, 1, 0, 0], [0, 0, 1, 1])]
DATASET = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])


def average_gradients(ranks: Ranks, overlap: float | None) -> dict[str, Any]:
    """Return a small network's gradient on this rank's batch alone, its mean over ranks, and what was sent when.

    `overlap`: averaged in pieces, with a weight that takes no part; None: by the distributed network.
    """
    torch.manual_seed(RANK)  # the weights differ until the network is distributed: rank 0's count
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    pieces = overlap is not None
    if pieces:
        network.append(nn.Identity())[-1].unused = nn.Parameter(torch.ones(3))
        ranks.copy_weights(network)
    distributed = network if pieces else ranks.distribute(network, torch.device("cpu"))
    batch = torch.randn(5, 3, generator=torch.Generator().manual_seed(100 + RANK), dtype=torch.double)
    used = list(network.parameters())[:4]
    own = torch.autograd.grad(network(batch).square().mean(), used)
    begun, sent = [], []

    def note(shares: list[Share]) -> list[Share]:
        sent.append(([parameter.grad is not None for parameter in used], [share.values.numel() for share in shares]))
        return shares

    def send(leaves: list[torch.Tensor]) -> None:
        begun.extend(begin_to_add(note(collect_gradients(leaves))))

    loss = distributed(batch).square().mean()
    if pieces:
        add_shares(note(collect_from(loss.backward, list(network.parameters()), overlap, send)), begun)
    else:
        loss.backward()
    averaged = [parameter.grad for parameter in used]
    return {
        "own": torch.cat([gradient.flatten() for gradient in own]),
        "averaged": torch.cat([gradient.flatten() for gradient in averaged]),
        "sent": sent,
    }


def score(volumes: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    """Return what the metric on the device gives over all ranks' volumes; these are this rank's, (prediction, label)."""
    metric = DeviceDice(2)
    for prediction, label in volumes:
        metric([torch.tensor(prediction)], [torch.tensor(label)])
    return metric.aggregate()


def list_cases(loader) -> list[str]:
    """Return the images that a loader takes patches of; of resident volumes nobody knows."""
    return [item["image"] for item in loader.dataset.data] if hasattr(loader, "dataset") else []


def run_and_keep(variant, training, *arguments):
    """Train, and keep what this rank had at the end."""
    if variant == "failing" and RANK == 1:
        raise torch.OutOfMemoryError("no memory is left for this rank")
    order = []
    with (
        patch.object(dist, "barrier", lambda: (order.append("meet"), barrier())),
        patch.object(loop, "read_clock", lambda device: (order.append("clock"), read_clock(device))[1]),
    ):
        run_epochs(training, *arguments)
    kept = {
        "order": order,
        "weights": training.network.state_dict(),
        "gradients": {overlap: average_gradients(training.ranks, overlap) for overlap in (None, 0.0, 0.2, 0.95)},
        "dice": score(VOLUMES[RANK::2]),
        "seen": list_cases(training.training_loader),
        "validated": list_cases(training.validation_loader),
        "random": torch.rand(1),
    }
    torch.save(kept, Path(f"{variant}-kept{RANK}.pt"))


run_epochs, barrier, read_clock = training_run.run_epochs, dist.barrier, loop.read_clock
config, files = load_config(Path(sys.argv[1])), json.loads(Path(sys.argv[2]).read_text())
# Ranks that joined each other once stay so for all runs.
dist.init_process_group, dist.destroy_process_group = cache(dist.init_process_group), lambda: None
for variant in sys.argv[3:]:
    training_run.run_epochs = partial(run_and_keep, variant)
    try:
        training_run.run_training(config, DATASET, files, training_run.Request(variant, "timed", 0, 0, "none"), Path(variant))
    except TrainingError as error:
        sys.exit(str(error))
