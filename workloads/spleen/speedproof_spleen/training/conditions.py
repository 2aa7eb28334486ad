"""What else than the variant could make two runs differ: GPU, versions, dataset, image, code."""

import os
import time
from importlib import metadata

import psutil
import torch

from speedproof.api import (
    LAUNCHED_VARIABLE,
    Clock,
    Conditions,
    Dataset,
    Gpu,
    Software,
    TrainingError,
    describe_gpu,
    describe_surroundings,
    list_gpu_uuids,
)

PACKAGES = ["torch", "monai", "numpy", "nibabel", "nvtx"]


def choose_device(wanted: str, gpus: int = 1, local_rank: int = 0) -> torch.device:
    """Return the device that `auto`, `cuda` or `cpu` stands for here, for one of `gpus` processes.

    Raises:
        TrainingError: `cuda` was asked for and torch sees no GPU, or a GPU each and torch sees fewer.
    """
    visible = torch.cuda.is_available()
    if wanted == "cuda" and not visible:
        raise TrainingError("measurement.device is `cuda`, but torch sees no GPU; run `nvidia-smi`, or set it to `auto`")
    if not visible or wanted == "cpu":
        return torch.device("cpu")
    if gpus > torch.cuda.device_count():
        raise TrainingError(
            f"a variant trains on {gpus} GPUs, but torch sees {torch.cuda.device_count()}; lower its `gpus`, or ask for more "
            "(resources.experiment.gpus, CUDA_VISIBLE_DEVICES)"
        )
    return torch.device("cuda", local_rank)


def describe_conditions(device: torch.device, dataset: Dataset) -> Conditions:
    """Return the conditions under which a run on `device` over `dataset` takes place now, in this process."""
    cudnn = torch.backends.cudnn.version() if device.type == "cuda" else None
    return Conditions(
        gpu=(describe_gpu() or _describe_by_torch(device)) if device.type == "cuda" else None,
        gpu_uuids=list_gpu_uuids() if device.type == "cuda" else [],
        packages={name: metadata.version(name) for name in PACKAGES},
        cuda=torch.version.cuda,
        cudnn=str(cudnn) if cudnn else None,
        **describe_surroundings(dataset),
    )


def describe_software() -> Software:
    """Return what torch sees of the GPU."""
    visible = torch.cuda.is_available()
    return Software(
        framework=f"torch {torch.__version__}",
        cuda=torch.version.cuda,
        gpu=torch.cuda.get_device_name() if visible else None,
    )


def find_clock() -> Clock:
    """Return who tells when this process was launched."""
    return "launcher" if LAUNCHED_VARIABLE in os.environ else "system"


def seconds_since_process_start() -> float:
    """Return how long ago this process was launched, by :func:`find_clock`."""
    launched = os.environ.get(LAUNCHED_VARIABLE)
    return time.monotonic() - float(launched) if launched else time.time() - psutil.Process().create_time()


def _describe_by_torch(device: torch.device) -> Gpu:
    """Return what torch reports about a GPU that NVML does not describe, so that its runs do not count as runs on a CPU."""
    about = torch.cuda.get_device_properties(device)
    return Gpu(name=about.name, uuid=f"GPU-{about.uuid}", driver="unknown", memory_mib=about.total_memory >> 20)
