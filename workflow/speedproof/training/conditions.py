"""What else than the variant could make two runs differ: GPU, versions, dataset, image, code."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path

import psutil
import torch

from speedproof.environment import COMMIT_VARIABLE
from speedproof.errors import TrainingError
from speedproof.profiling.gpu_monitor import describe_gpu
from speedproof.records.dataset import Dataset
from speedproof.records.run import Conditions
from speedproof.sources import digest_sources

PACKAGES = ["torch", "monai", "numpy", "nibabel", "nvtx"]

# Set by the workflow where a job runs inside a container.
IMAGE_DIGEST_VARIABLE = "SPEEDPROOF_IMAGE_DIGEST"


def choose_device(wanted: str) -> torch.device:
    """Return the device that `auto`, `cuda` or `cpu` stands for here.

    Raises:
        TrainingError: `cuda` was asked for and torch sees no GPU.
    """
    visible = torch.cuda.is_available()
    if wanted == "cuda" and not visible:
        raise TrainingError("measurement.device is `cuda`, but torch sees no GPU; run `nvidia-smi`, or set it to `auto`")
    return torch.device("cuda:0" if visible and wanted != "cpu" else "cpu")


def describe_conditions(device: torch.device, dataset: Dataset) -> Conditions:
    """Return the conditions under which a run on `device` over `dataset` takes place now, in this process."""
    cudnn = torch.backends.cudnn.version() if device.type == "cuda" else None
    return Conditions(
        gpu=describe_gpu() if device.type == "cuda" else None,
        cpu=_processor_name(),
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in PACKAGES},
        cuda=torch.version.cuda,
        cudnn=str(cudnn) if cudnn else None,
        dataset=dataset.digest,
        dataset_name=f"{dataset.name} {dataset.version}",
        synthetic_data=dataset.synthetic,
        image=os.environ.get(IMAGE_DIGEST_VARIABLE) or None,
        git_commit=os.environ.get(COMMIT_VARIABLE) or None,
        sources=digest_sources("block"),
    )


def seconds_since_process_start() -> float:
    """Return how long this process has lived: the system's start time of it, good to some 10 ms."""
    return time.time() - psutil.Process().create_time()


def _processor_name() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
