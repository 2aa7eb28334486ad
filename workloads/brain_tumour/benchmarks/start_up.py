"""How long it takes until all cases' voxels are on the device, beside what decompression alone would allow.

`python start_up.py [--cases 8] [--rounds 3] [--resident]` makes that many cases of the real size and reads them by turns:
decompressed alone, as `turbo` does, and as the documented cache does, by MONAI in four threads. What both do next is the
device's work. All files are in memory then, so that no disk counts. With `--resident` all 388 cases that train are then read
once, the files over and over, and stay on the device as `turbo` keeps them: 29 GiB.
"""

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from monai.transforms import LoadImaged

from speedproof.api import available_cores
from speedproof_brain_tumour import phantom
from speedproof_brain_tumour.cases import Case
from speedproof_brain_tumour.chains import BOTH, training_chain
from speedproof_brain_tumour.resident import ResidentCases, read_volume
from speedproof_brain_tumour.variants import VARIANTS

_TRAINING_CASES = 388  # of the Decathlon's 484
_DOCUMENTED_THREADS = 4
CORES = available_cores()


def make_cases(folder: Path, count: int) -> list[Case]:
    """Write so many cases of the real size."""
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir()
    with ProcessPoolExecutor(CORES) as processes:
        list(processes.map(partial(phantom.write_case, folder, "few", 0), range(count)))
    files = zip(*(sorted((folder / name).iterdir()) for name in ("imagesTr", "labelsTr")), strict=True)
    return [{"image": str(image), "label": str(label)} for image, label in files]


def run_all(call: Callable[[Case], Any], cases: list[Case], threads: int) -> list[Any]:
    """Return what a call makes of each case, in so many threads."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, cases))


def time_s(call: Callable[[], object], device: torch.device) -> float:
    """Return how long a call takes, and the device with what it was given."""
    begun = time.perf_counter()
    kept = call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    taken = time.perf_counter() - begun
    del kept
    return taken


def keep_all(cases: list[Case], device: torch.device) -> ResidentCases:
    """Return as many cases as train, which these are over and over, as `turbo` keeps them."""
    variant = VARIANTS["turbo"]
    chain = training_chain(variant, variant.crop, device)
    many = [cases[number % len(cases)] for number in range(_TRAINING_CASES)]
    return ResidentCases(many, chain, device, torch.float16, bits=True, kernels=False)


def decompress(case: Case) -> int:
    """Return how many bytes come out of a case's files."""
    return sum(len(gzip.decompress(Path(path).read_bytes())) for path in case.values())


def main() -> None:
    """Measure, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resident", action="store_true")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        cases = make_cases(Path(folder), asked.cases)
        load = LoadImaged(BOTH)
        ways: dict[str, Callable[[], object]] = {
            "decompressed alone": lambda: run_all(decompress, cases, CORES),
            "turbo": lambda: run_all(lambda case: [read_volume(case[key], device) for key in BOTH], cases, CORES),
            "documented": lambda: run_all(
                lambda case: [load(case)[key].to(device) for key in BOTH], cases, _DOCUMENTED_THREADS
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(asked.rounds):
            for name, read in list(ways.items())[:: -1 if turn % 2 else 1]:
                seconds[name].append(time_s(read, device))
        least = statistics.median(seconds["decompressed alone"])
        print(f"{asked.cases} cases, {sum(map(decompress, cases)) / 2**20:.0f} MiB, {CORES} cores, {device}")
        for name, found in seconds.items():
            middle = statistics.median(found)
            whole = f"{middle / asked.cases * _TRAINING_CASES:6.1f} s for {_TRAINING_CASES} cases"
            print(f"{name:20} {middle:6.2f} s  {middle / least:5.2f} of decompression's  {whole}")
        if asked.resident:
            taken, share = time_s(lambda: keep_all(cases, device), device), asked.cases / _TRAINING_CASES / least
            print(f"{'all, on the device':20} {taken:6.2f} s  {taken * share:5.2f} of decompression's")


if __name__ == "__main__":
    main()
