"""Steps of `turbo` on several GPUs: what averaging gradients costs after and during the backward pass. Synthetic data.

    torchrun --nproc-per-node=2 workloads/spleen/benchmarks/averaging.py [--overlap 0 0.9 0.995] [--steps 16] [--side 96]

Each process first steps alone: before it joins the others, after it, and with gradients that are packed but not sent. Then all
average. Prints rank 0's medians over rounds of so many steps, which all ranks begin together.
"""

import argparse
import os
import statistics
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist

from speedproof_accelerate import averaging
from speedproof_accelerate.step import Step
from speedproof_spleen.config import load_config
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training.loop import read_clock
from speedproof_spleen.training.ranks import Ranks
from speedproof_spleen.training.run import build_training_step
from speedproof_spleen.training.techniques import image_precision

ALONE = Ranks()
ROUNDS = 24
WARM_UPS = 8  # steps; the fourth is recorded as graphs
# What adds up nothing, in no time.
SILENT = SimpleNamespace(get_world_size=lambda: 2, all_reduce=lambda values, async_op=False: SimpleNamespace(wait=lambda: None))


class Bench:
    """Batches of `turbo`'s size, of random patches of this size, and steps on them."""

    def __init__(self, device: torch.device, side: int) -> None:
        """Make the batch."""
        config = load_config(Path(__file__).parents[3] / "config.yaml")
        self.device, self.variant = device, config.variants["turbo"]
        self.case = build_case(config.case, config.workload, self.variant, device)
        shape = (self.variant.batch_size * self.case.patches_per_volume(), 1, side, side, side)
        self.images = torch.rand(shape, device=device, dtype=image_precision(self.variant))
        self.labels = (self.images > 0.9).byte()

    def measure(self, what: str, steps: int, ranks: Ranks = ALONE, overlap: float = 0.0) -> None:
        """Print how long so many steps take of one of so many ranks, which sends this share of its gradients early."""
        torch.manual_seed(0)
        several = {"gpus": ranks.size, "overlap": overlap}
        _, step = build_training_step(self.case, self.variant.model_copy(update=several), self.device, ranks)
        for _ in range(WARM_UPS):
            self._take(step)
        rounds_ms = []
        for _ in range(ROUNDS):
            if dist.is_initialized():
                dist.barrier()
            start = read_clock(self.device)
            for _ in range(steps):
                self._take(step)
            rounds_ms.append((read_clock(self.device) - start) * 1e3)
        if os.environ["RANK"] == "0":
            print(
                f"{what:44s} {statistics.median(rounds_ms):8.2f} ms for {steps} steps, least {min(rounds_ms):.2f}", flush=True
            )

    def _take(self, step: Step) -> None:
        step.forward(self.images, self.labels)
        step.backward()
        step.update()


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--overlap", type=float, nargs="+", default=[0.0, 0.9, 0.995])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--side", type=int, default=96, help="voxels of a patch along each axis")
    options = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    bench = Bench(device, options.side)
    ranks = Ranks(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
    bench.measure("alone", options.steps)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    bench.measure("alone, beside a communicator", options.steps)
    with patch.object(averaging, "dist", SILENT):
        bench.measure("put together, not sent", options.steps, ranks, max(options.overlap))
    for overlap in options.overlap:
        bench.measure(f"averaged, overlap {overlap:g}", options.steps, ranks, overlap)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
