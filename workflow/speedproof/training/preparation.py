"""Filling the memory of the device: cases are read in parallel, preprocessed there, and may be kept on disk for later runs."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speedproof.records.files import digest_of, replacing
from speedproof.training.resident import Volume

log = logging.getLogger("speedproof")

# Counts up where the same settings would give other volumes.
FORMAT = 1

Case = Mapping[str, str]
Read = Callable[[Case], Any]
Transform = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Store:
    """Prepared volumes on disk, each under a key of all that made it: its files' checksums, the settings, the packages."""

    folder: Path
    settings: Mapping[str, Any]
    checksums: Mapping[str, str]  # of the files, by path

    def path_of(self, case: Case) -> Path:
        """Return where a prepared case is kept."""
        key = digest_of([FORMAT, dict(self.settings), self.checksums[case["image"]], self.checksums[case["label"]]])
        return self.folder / f"{key}.pt"

    def count_lacking(self, cases: Sequence[Case]) -> int:
        """Return how many of the cases are not kept."""
        return sum(not self.path_of(case).exists() for case in cases)

    def read(self, case: Case, device: torch.device) -> Volume | None:
        """Return a prepared case; None where it is not kept, or where the file is not what was written."""
        path = self.path_of(case)
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            image, label = kept["image"].to(device), kept["label"].to(device)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, KeyError, EOFError) as error:
            log.warning("%s: not readable (%s): prepared again", path, " ".join(str(error).split())[:200])
            return None
        return Volume(image, label)

    def write(self, case: Case, volume: Volume) -> None:
        """Keep a prepared case. Of two writers the later one wins, with the same content; a full disk costs only a warning."""
        path = self.path_of(case)
        try:
            with replacing(path) as temporary:
                torch.save({"image": volume.image.cpu(), "label": volume.label.cpu()}, temporary)
        except (OSError, RuntimeError) as error:
            log.warning("%s: not kept (%s): later runs prepare it again", path, " ".join(str(error).split())[:200])


@dataclass(frozen=True)
class Prepared:
    """Volumes in the order of their cases, and how many of them came from the store."""

    volumes: list[Volume]
    from_store: int


def prepare_volumes(
    cases: Sequence[Case],
    read: Read,
    build_transform: Callable[[], Transform],
    device: torch.device,
    store: Store | None = None,
) -> Prepared:
    """Return all cases on the device, by as many threads as there are cores.

    Args:
        cases: paths of `image` and `label` of each.
        read: gives what the files of a case hold. The largest are read first, so that no thread is left alone with one.
        build_transform: gives what makes of that tensors of shape (1, x, y, z), intensities in [0, 1]. It is called where
            a volume is missing only, while files are read: what it imports may take as long as that.
        device: where the volumes shall be.
        store: where they are kept from run to run.
    """
    with ThreadPoolExecutor(max_workers=min(len(cases), os.cpu_count() or 1)) as threads:
        kept = list(threads.map(store.read, cases, repeat(device))) if store else [None] * len(cases)
        missing = [case for case, volume in zip(cases, kept, strict=True) if volume is None]

        def make(case: Case, reading: Future[Any], transform: Transform) -> Volume:
            made = transform(reading.result())
            volume = Volume(_plain(made["image"]).to(device, torch.float16), _plain(made["label"]).to(device, torch.uint8))
            if store:
                store.write(case, volume)
            return volume

        made = iter(_make_volumes(missing, read, build_transform, make, threads) if missing else [])
        volumes = [next(made) if volume is None else volume for volume in kept]
    return Prepared(volumes, len(cases) - len(missing))


def _make_volumes(
    cases: Sequence[Case],
    read: Read,
    build_transform: Callable[[], Transform],
    make: Callable[[Case, Future[Any], Transform], Volume],
    threads: Executor,
) -> list[Volume]:
    """Return the volumes of cases that are read, all of them, while the transform is built: the largest first."""
    order = sorted(range(len(cases)), key=lambda number: _bytes_of(cases[number]), reverse=True)
    readings = {number: threads.submit(read, cases[number]) for number in order}
    transform = build_transform()
    # Taken out of `readings`, so that what was read goes as soon as its volume is made.
    makings = {number: threads.submit(make, cases[number], readings.pop(number), transform) for number in order}
    return [makings[number].result() for number in range(len(cases))]


def _bytes_of(case: Case) -> int:
    """Return the size of a case's image on disk; 0 where there is none: whoever reads it will say so."""
    path = Path(case["image"])
    return path.stat().st_size if path.exists() else 0


def _plain(tensor: Tensor) -> Tensor:
    """Return a volume's own tensor, without MONAI's metadata and without the channel."""
    return tensor.as_tensor()[0].contiguous() if hasattr(tensor, "as_tensor") else tensor[0].contiguous()
