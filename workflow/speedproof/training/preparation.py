"""Filling the memory of the device: cases are read in parallel, preprocessed there, and may be kept on disk for later runs."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speedproof.records.files import digest_of, replacing
from speedproof.training.resident import Volume

log = logging.getLogger("speedproof")

# Counts up where the same settings would give other volumes.
FORMAT = 1

Transform = Callable[[dict[str, str]], Mapping[str, Any]]


@dataclass(frozen=True)
class Store:
    """Prepared volumes on disk, each under a key of all that made it: its files' checksums, the settings, the packages."""

    folder: Path
    settings: Mapping[str, Any]
    checksums: Mapping[str, str]  # of the files, by path

    def path_of(self, case: Mapping[str, str]) -> Path:
        """Return where a prepared case is kept."""
        key = digest_of([FORMAT, dict(self.settings), self.checksums[case["image"]], self.checksums[case["label"]]])
        return self.folder / f"{key}.pt"

    def read(self, case: Mapping[str, str], device: torch.device) -> Volume | None:
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

    def write(self, case: Mapping[str, str], volume: Volume) -> None:
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
    cases: Sequence[dict[str, str]], transform: Transform, device: torch.device, store: Store | None = None
) -> Prepared:
    """Return all cases on the device, read by as many threads as there are cores.

    `transform` takes `{"image": path, "label": path}` and gives tensors of shape (1, x, y, z); intensities lie in [0, 1].
    """

    def prepare(case: dict[str, str]) -> tuple[Volume, bool]:
        kept = store.read(case, device) if store else None
        if kept is not None:
            return kept, True
        made = transform(case)
        volume = Volume(_plain(made["image"]).to(device, torch.float16), _plain(made["label"]).to(device, torch.uint8))
        if store:
            store.write(case, volume)
        return volume, False

    with ThreadPoolExecutor(max_workers=min(len(cases), os.cpu_count() or 1)) as threads:
        found = list(threads.map(prepare, cases))
    return Prepared([volume for volume, _ in found], sum(kept for _, kept in found))


def _plain(tensor: Tensor) -> Tensor:
    """Return a volume's own tensor, without MONAI's metadata and without the channel."""
    return tensor.as_tensor()[0].contiguous() if hasattr(tensor, "as_tensor") else tensor[0].contiguous()
