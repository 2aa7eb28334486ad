"""Filling the memory of the device: cases are read in parallel, preprocessed there, and may be kept on disk for later runs."""

import logging
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speedproof.api import StorageError, available_cores, digest_of, replacing
from speedproof_accelerate.resident import Volume
from speedproof_spleen.data.nifti import read_case
from speedproof_spleen.training.reading import Case, Readings, sort_by_size

log = logging.getLogger("speedproof")

# Counts up where the same settings would give other volumes.
FORMAT = 2

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
        """Return a prepared case; None if it is not kept, or if its file has changed, which is then removed."""
        path = self.path_of(case)
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            volume = Volume(kept["image"], kept["label"])
            if kept["checksum"] != _checksum_of(volume):
                raise ValueError("other content than was written")
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            log.warning("%s: not readable (%s): prepared again", path, " ".join(str(error).split())[:200])
            with suppress(OSError):
                path.unlink()
            return None
        return Volume(volume.image.to(device), volume.label.to(device))

    def write(self, case: Case, volume: Volume) -> None:
        """Keep a prepared case. Of two writers the later one wins, with the same content; a full disk costs only a warning."""
        path = self.path_of(case)
        try:
            with replacing(path) as temporary:
                volume = Volume(volume.image.cpu(), volume.label.cpu())
                torch.save({"image": volume.image, "label": volume.label, "checksum": _checksum_of(volume)}, temporary)
        except (OSError, StorageError, RuntimeError) as error:
            log.warning("%s: not kept (%s): later runs prepare it again", path, " ".join(str(error).split())[:200])


@dataclass(frozen=True)
class Prepared:
    """Volumes in the order of their cases, and how many of them came from the store."""

    volumes: list[Volume]
    from_store: int


def prepare_volumes(
    cases: Sequence[Case],
    build_transform: Callable[[], Transform],
    device: torch.device,
    store: Store | None = None,
    readings: Readings | None = None,
) -> Prepared:
    """Return all cases on the device, by as many threads as there are cores.

    Args:
        cases: paths of `image` and `label` of each.
        build_transform: returns what turns a case that was read into tensors of shape (1, x, y, z), with intensities in [0, 1].
            It is called only if a volume is missing, while files are read, so its imports cost no time of their own.
        device: of the volumes.
        store: keeps them from run to run.
        readings: cases whose reading has begun.
    """
    if readings is None:
        readings = Readings(partial(read_case, digests=store.checksums if store else None))
    with ThreadPoolExecutor(max_workers=min(len(cases), available_cores())) as threads:
        kept = list(threads.map(store.read, cases, repeat(device))) if store else [None] * len(cases)
        volumes = {case["image"]: volume for case, volume in zip(cases, kept, strict=True) if volume is not None}
        missing = list({case["image"]: case for case in cases if case["image"] not in volumes}.values())
        if missing:
            readings.begin(missing)
            transform = build_transform()

            def make(case: Case) -> tuple[str, Volume]:
                made = transform(readings.take(case))
                volume = Volume(_plain(made["image"]).to(device, torch.float16), _plain(made["label"]).to(device, torch.uint8))
                if store:
                    store.write(case, volume)
                return case["image"], volume

            volumes.update(threads.map(make, sort_by_size(missing)))
    return Prepared([volumes[case["image"]] for case in cases], len(cases) - len(missing))


def _checksum_of(volume: Volume) -> int:
    return zlib.crc32(volume.label.numpy().data, zlib.crc32(volume.image.numpy().data))


def _plain(tensor: Tensor) -> Tensor:
    """Return a volume's own tensor, without MONAI's metadata and without the channel."""
    return tensor.as_tensor()[0].contiguous() if hasattr(tensor, "as_tensor") else tensor[0].contiguous()
