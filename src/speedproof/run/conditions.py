"""What else than the variant could make two runs differ, as far as the instrument can see it by itself, from outside."""

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from speedproof.cluster.gpu_monitor import describe_gpu, list_gpu_uuids
from speedproof.results.dataset import Dataset
from speedproof.results.run_record import Conditions
from speedproof.util.environment import (
    COMMIT_VARIABLE,
    IMAGE_DIGEST_VARIABLE,
    SCRATCH_VARIABLE,
    SOURCES_VARIABLE,
    available_cores,
)
from speedproof.util.errors import TrainingError

# 122 random bits that a kernel draws when it starts: the same in all containers of a host, and no name of anything. A name of
# the host could be guessed from its digest, and an image may bring its own name and /etc/machine-id along.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_HOST_SALT = "speedproof, a host from one start to the next: "


def describe_conditions(wanted: str, gpus: int, dataset: Dataset, packages: Iterable[str] = ()) -> Conditions:
    """Return the conditions under which a program runs here now; `wanted` is `measurement.device`.

    Of `packages` those that this interpreter has are recorded with their versions.

    Raises:
        TrainingError: `cuda` is wanted and NVML sees no GPU, or fewer than `gpus`.
    """
    gpu = None if wanted == "cpu" else describe_gpu()
    uuids = list_gpu_uuids() if gpu else []
    if wanted == "cuda" and gpu is None:
        raise TrainingError("measurement.device is `cuda`, but NVML sees no GPU; run `nvidia-smi`, or set it to `auto`")
    if gpu and gpus > len(uuids):
        raise TrainingError(f"a variant runs on {gpus} GPUs, but {len(uuids)} are visible; lower its `gpus`, or ask for more")
    return Conditions(
        gpu=gpu,
        gpu_uuids=uuids,
        packages=dict(_find_versions(packages)),
        cuda=None,
        cudnn=None,
        **describe_surroundings(dataset),
    )


def _find_versions(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in packages:
        with suppress(PackageNotFoundError):
            yield name, version(name)


def describe_surroundings(dataset: Dataset) -> dict[str, Any]:
    """Return those of the conditions that a process sees whatever it trains with: host, processor, data, image, code."""
    return {
        "host": digest_host(),
        "cpu": name_processor(),
        "cores": available_cores(),
        "python": platform.python_version(),
        "dataset": dataset.digest,
        "dataset_name": f"{dataset.name} {dataset.version}".strip(),
        "synthetic_data": dataset.synthetic,
        "image": os.environ.get(IMAGE_DIGEST_VARIABLE) or None,
        "scratch": SCRATCH_VARIABLE in os.environ,
        "git_commit": os.environ.get(COMMIT_VARIABLE) or None,
        "sources": os.environ.get(SOURCES_VARIABLE, ""),
    }


def digest_host() -> str | None:
    """Return an anonymous id of this host, the same until it restarts; None if its kernel has none."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return hashlib.sha256(f"{_HOST_SALT}{boot}".encode()).hexdigest()[:16] if boot else None


def name_processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
