"""How many epochs `turbo` needs to a Dice with other rates, schedules and batch sizes. One process, volumes prepared once.

    python workloads/spleen/benchmarks/convergence.py --dataset dataset.json --tries tries.yaml [--seeds 0 1] [--out FILE]

`tries.yaml` lists what differs from `turbo`, a mapping of keys each; `epochs` and `validate_every` are among them. Times are of
the training clock: without what a process needs before it trains.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from speedproof.api import Dataset, Ranges, read_record
from speedproof_accelerate.resident import PatchLoader
from speedproof_spleen.config import SpleenConfig, load_config
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training.loaders import Loaders, build_loaders
from speedproof_spleen.training.loop import EpochResult, NotANumberError, run_epochs
from speedproof_spleen.training.ranks import Ranks
from speedproof_spleen.training.run import build_training
from speedproof_spleen.training.techniques import fix_randomness
from speedproof_spleen.variant import SpleenVariant


class Watch:
    """An observer that keeps epochs and scores."""

    def __init__(self) -> None:
        self.epochs: list[EpochResult] = []

    def on_step(self, *_: Any) -> None:
        """Nothing to keep."""

    def on_first_step(self, _seconds: float) -> None:
        """Nothing to keep."""

    def on_validation(self, _epoch: int, _dice: float, _network: object) -> None:
        """Nothing to keep: the epoch's result has it."""

    def on_epoch(self, result: EpochResult, _own: EpochResult) -> None:
        """Keep an epoch."""
        self.epochs.append(result)


def _train(config: SpleenConfig, loaders: Loaders, variant: SpleenVariant, seed: int, device: torch.device) -> Watch | None:
    """Train once, and return the epochs; None: it diverged."""
    fix_randomness(variant, seed)
    case = build_case(config.case, config.workload, variant, device)
    volumes = loaders.training
    batches = PatchLoader(volumes._volumes, variant.batch_size, case.patches_per_volume(), volumes._room[0].dtype)
    own = replace(loaders, training=batches)
    training = build_training(case, variant, own, variant.epochs, device, Ranges(variant.range_style, None), Ranks())
    watch = Watch()
    try:
        run_epochs(training, variant.epochs, variant.validate_every, watch)
    except NotANumberError as error:
        print(f"seed {seed}: {error}", flush=True)
    return watch if len(watch.epochs) == variant.epochs else None


def _summarize(watch: Watch, target: float) -> dict[str, Any]:
    scored = [epoch for epoch in watch.epochs if epoch.quality is not None]
    reached = next((epoch.epoch for epoch in scored if epoch.quality >= target), None)
    clock = sum(epoch.train_s + (epoch.validation_s or 0) for epoch in watch.epochs if reached and epoch.epoch <= reached)
    return {
        "reached": reached,
        "clock_s": round(clock, 2),
        "best": max((epoch.quality for epoch in scored), default=0.0),
        "curve": [round(epoch.quality, 3) for epoch in scored],
        "train_ms": statistics.median(epoch.train_s for epoch in watch.epochs[1:]) * 1e3,
        "validation_ms": statistics.median(epoch.validation_s for epoch in scored[1:]) * 1e3,
    }


def main() -> None:
    """Run all tries with all seeds, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, nargs="+", default=[Path("config.yaml")])
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--tries", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--target", type=float, default=0.94)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    config = load_config(*options.config)
    dataset = read_record(options.dataset, Dataset)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    turbo = config.variants["turbo"]
    start = time.perf_counter()
    case = build_case(config.case, config.workload, turbo, device)
    files = case.split_files(dataset.files(options.dataset))
    loaders = build_loaders(case, turbo, *files, device)
    print(f"volumes ready after {time.perf_counter() - start:.1f} s", flush=True)
    found = []
    for number, changes in enumerate(yaml.safe_load(options.tries.read_text())):
        variant = SpleenVariant.model_validate(turbo.model_dump(mode="json") | changes)
        runs = ((seed, _train(config, loaders, variant, seed, device)) for seed in options.seeds)
        rows = [{"seed": seed, **_summarize(watch, options.target)} for seed, watch in runs if watch is not None]
        found.append({"changes": changes, "runs": rows})
        if not rows:
            continue
        last = rows[-1]
        print(
            f"{number:2d} {json.dumps(changes)}\n   reached {[row['reached'] for row in rows]} after "
            f"{[row['clock_s'] for row in rows]} s; best {[round(row['best'], 4) for row in rows]}; "
            f"{last['train_ms']:.1f} + {last['validation_ms']:.1f} ms; {last['curve']}",
            flush=True,
        )
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
