"""How long a run takes from its process' start to its first training step, and where that time goes.

`python workloads/spleen/benchmarks/start_up.py --size full` prints two tables, medians of several fresh processes whose
files the system has in memory: what imports and reading take by themselves, and whole starts as the runs' own records have
them. Trained is almost nothing: small patches and a small network, for one epoch; with `--train`, for which there should be a
GPU, the real ones, so that the first step holds what it holds in a real run. Then `turbo` also starts as it did before one or
both of: kernels compiled ahead by other processes, and volumes read without taking Python's lock for each chunk.

Starts alternate. A cold one has an empty folder for kernels. `--logs` prints how the last of each went.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
IMPORTS = {
    "`import torch`": "import torch",
    "`import monai`": "import monai",
    "what `speedproof_spleen train` imports": "import speedproof_spleen.cli, speedproof_spleen.training.run",
}
READ = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import nibabel, numpy
from speedproof_spleen.data.nifti import read_nifti
readers = {"ours": read_nifti, "nibabel": lambda path: numpy.asanyarray(nibabel.load(path).dataobj)}
start = time.perf_counter()
with ThreadPoolExecutor(os.cpu_count()) as threads:
    list(threads.map(readers[sys.argv[1]], map(Path, json.loads(sys.argv[2]))))
print(time.perf_counter() - start)
"""


TRAIN = "from speedproof_spleen.cli import main; main()"
SELF = "import speedproof_spleen.training.compiling as ahead; ahead.begin_compiling = lambda *_: ahead.Compiling(); "
CHUNKS = "import speedproof_spleen.data.nifti as module; module._decompress_at_once = lambda _: None; "


@dataclass(frozen=True)
class Start:
    """How a run starts: its variant, and the program that starts it."""

    variant: str
    program: str = TRAIN


STARTS = {
    "`fast`": Start("fast"),
    "`turbo`, cold": Start("turbo"),
    "`turbo`, prepared volumes": Start("turbo_kept"),
}
FORMER_STARTS = {
    "`turbo`, cold, kernels by its own threads": Start("turbo", SELF + TRAIN),
    "`turbo`, cold, read in chunks": Start("turbo", CHUNKS + TRAIN),
    "`turbo`, cold, both": Start("turbo", SELF + CHUNKS + TRAIN),
}


def measure_s(repeats: int, command: Sequence[str]) -> float:
    """Return the median time of a command, after one that counts for nothing."""

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start

    return _median(repeats, run)


def measure_reading_s(repeats: int, reader: str, files: Sequence[str]) -> float:
    """Return the median time of reading files by a thread for each core, imports left out."""
    command = [sys.executable, "-c", READ, reader, json.dumps(files)]
    return _median(repeats, lambda: float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _median(repeats: int, run: Callable[[], float]) -> float:
    return statistics.median([run() for _ in range(repeats + 1)][1:])


def write_config(folder: Path, size: str, trains: bool) -> Path:
    """Write what lies over config.yaml, and return its path."""
    small = {} if trains else {"network": {"channels": [4, 8]}}
    plain = {} if trains else {"kernels": [], "launch": "operations"}
    workload = {} if trains else {"patch_size": [16, 16, 16], "patches_per_volume": 1}
    values = {
        "data": {"source": "phantom", "folder": str(folder), "phantom": {"size": size}},
        "workload": {"validation_cases": 2, **workload},
        "measurement": {"variants": ["fast", "turbo"], "epochs": 1, "validate_every": 2},
        "variants": {
            "fast": small,
            "turbo": small | plain,
            "turbo_kept": {
                "extends": "turbo",
                "title": "Turbo (ours) on prepared volumes",
                "prepared_folder": str(folder / "prepared"),
            },
        },
    }
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return path


def start_run(config: Path, dataset: Path, start: Start) -> tuple[dict[str, float], str]:
    """Train in a fresh process and return its record and its log."""
    with tempfile.TemporaryDirectory() as out:
        options = [
            f"--config={ROOT / 'config.yaml'}",
            f"--config={config}",
            f"--dataset={dataset}",
            f"--variant={start.variant}",
        ]
        kept = start.variant == "turbo_kept"
        kernels = {"TRITON_CACHE_DIR": str(config.parent / "kernels" if kept else Path(out) / "kernels")}
        command = [sys.executable, "-c", start.program, "train", *options, f"--out={out}"]
        subprocess.run(command, check=True, env=os.environ | kernels)
        record: dict[str, float] = json.loads((Path(out) / "run.json").read_text())
        return record, (Path(out) / "log.txt").read_text()


def print_row(*cells: str | float) -> None:
    """Print a row of a table, numbers as seconds."""
    print("|", " | ".join(cell if isinstance(cell, str) else f"{cell:.2f} s" for cell in cells), "|", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="medium", choices=["tiny", "small", "medium", "full"], help="of the phantom")
    parser.add_argument("--folder", type=Path, help="Folder of the phantom, made if it is missing. Default: a temporary one")
    parser.add_argument("--repeats", type=int, default=5, help="processes that each median is of")
    parser.add_argument("--train", action="store_true", help="with the real patches and network")
    parser.add_argument("--logs", action="store_true", help="print the log of each start's last run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        config, dataset = write_config(folder, options.size, options.train), folder / "dataset.json"
        configs = [f"--config={ROOT / 'config.yaml'}", f"--config={config}"]
        subprocess.run([sys.executable, "-m", "speedproof_spleen", "data", *configs, f"--out={dataset}"], check=True)
        described = json.loads(dataset.read_text())
        files = [
            str(dataset.parent / described["folder"] / case[kind]) for case in described["cases"] for kind in ("image", "label")
        ]

        print_row(f"{len(files) // 2} volumes of the {options.size} phantom, {os.cpu_count()} cores", "median")
        print_row("---", "---")
        for name, program in IMPORTS.items():
            print_row(name, measure_s(options.repeats, [sys.executable, "-c", program]))
        for reader in ("ours", "nibabel"):
            print_row(f"reading, {reader}", measure_reading_s(options.repeats, reader, files))

        print()
        print_row("process start to …", "loop", "of which volumes", "of which the rest", "first step done")
        print_row(*["---"] * 5)
        starts = STARTS | (FORMER_STARTS if options.train else {})
        rounds = [
            {name: start_run(config, dataset, start) for name, start in starts.items()} for _ in range(options.repeats + 1)
        ]
        for name in starts:
            records = [runs[name][0] for runs in rounds[1:]]
            loop, volumes, step = (
                statistics.median(record[key] for record in records) for key in ("start_up_s", "cache_fill_s", "warm_up_s")
            )
            print_row(name, loop, volumes, loop - volumes, loop + step)
        for name, (_, log) in rounds[-1].items() if options.logs else ():
            print(f"\n{name}\n{log}")


if __name__ == "__main__":
    main()
