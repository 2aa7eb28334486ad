"""The GPU, its driver, clocks and counters; cores and memory."""

import os
import shutil
from pathlib import Path

import psutil
import pynvml

from speedproof.cluster.check_answer import CheckAnswer
from speedproof.cluster.gpu_monitor import describe_gpu
from speedproof.results.diagnosis import Software
from speedproof.results.run_record import Gpu
from speedproof.util.units import GIB

# torch's data loaders pass samples through shared memory; a container's default of 64 MiB is too small for them.
WANTED_SHARED_GIB = 1


def check_gpu(device: str, software: Software | None) -> CheckAnswer:
    """Find the GPU that a workload's programs would use; `device` is the configuration's."""
    gpu = describe_gpu()
    if gpu and (software is None or software.gpu):
        return CheckAnswer("good", f"{gpu.name}, {gpu.memory_mib} MiB, driver {gpu.driver}")
    if software and software.gpu:
        return CheckAnswer(
            "notice",
            f"{software.framework} sees {software.gpu}, NVML does not answer: no clocks, power or utilisation samples",
            "make the driver's libnvidia-ml visible here (in a container: --nv), and check that `nvidia-smi` works",
        )
    if gpu and software:
        return CheckAnswer(
            "problem",
            f"{gpu.name} is present, but {software.framework} (CUDA {software.cuda}) does not see it",
            "install a build for a CUDA version that the driver supports, or set CUDA_VISIBLE_DEVICES to a GPU of this job",
        )
    return CheckAnswer(
        "problem" if device == "cuda" else "absent",
        "none: training runs on the CPU, and the numbers do not apply to a GPU",
        "request one from Slurm (resources.experiment.gpus, or `prove --gpus`), or use a machine where `nvidia-smi` lists one",
    )


def check_cuda(software: Software | None, driver: tuple[int, int] | None) -> CheckAnswer:
    """Compare the CUDA version of a framework's build with the newest one that the driver supports, (major, minor)."""
    if software is None:
        return CheckAnswer(
            "absent",
            "unknown: no workload reports its framework's CUDA version",
            "name a workload with `--config config.yaml`; the `software` command in its workload.yaml reports the version",
        )
    built_for = software.cuda
    if built_for is None:
        return CheckAnswer(
            "absent",
            f"{software.framework} is built without CUDA",
            "run in the container (--use-singularity), or install a build with CUDA",
        )
    if driver is None:
        return CheckAnswer(
            "absent",
            f"{software.framework} is built for CUDA {built_for}; no driver found",
            "run on a GPU node; if you start the container yourself, pass --nv",
        )
    wanted = tuple(int(part) for part in built_for.split(".")[:2])
    found = f"{software.framework} is built for CUDA {built_for}, the driver supports up to {driver[0]}.{driver[1]}"
    if wanted[0] > driver[0]:
        hint = f"set container.base to an image with CUDA {driver[0]}, or update the driver"
        return CheckAnswer("problem", found, hint)
    if wanted > driver:
        hint = "kernels compiled at run time (by Triton) may fail: update the driver, or use an older container.base"
        return CheckAnswer("notice", found, hint)
    return CheckAnswer("good", found)


def read_driver_cuda() -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports; None without a driver."""
    try:
        pynvml.nvmlInit()
        number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    except pynvml.NVMLError:
        return None
    return number // 1000, number % 1000 // 10


def check_clocks(gpu: Gpu | None) -> CheckAnswer:
    """Check whether the GPU's clock is fixed: otherwise it drops with heat and power, and times rise."""
    if gpu is None or gpu.max_sm_clock_mhz is None:
        return CheckAnswer(
            "absent",
            "not reported by NVML",
            "nothing to do without a GPU; otherwise ask the cluster whether clocks are locked",
        )
    applied = gpu.application_sm_clock_mhz
    if applied is not None and applied < gpu.max_sm_clock_mhz:
        return CheckAnswer("good", f"set to {applied} of {gpu.max_sm_clock_mhz} MHz")
    return CheckAnswer(
        "notice",
        f"not locked, up to {gpu.max_sm_clock_mhz} MHz: heat and power limits change them during training",
        "ratios within an experiment even this out; to quote times, lock the clocks with `nvidia-smi --lock-gpu-clocks`",
    )


def check_counters(parameters: Path = Path("/proc/driver/nvidia/params")) -> CheckAnswer:
    """Check whether the driver lets users other than root read the GPU's hardware counters."""
    text = parameters.read_text(encoding="utf-8") if parameters.exists() else ""
    if "RmProfilingAdminOnly: 0" in text or (text and os.geteuid() == 0):
        return CheckAnswer("good", "readable")
    if not text:
        found = "unknown: no NVIDIA driver found"
        return CheckAnswer("absent", found, "check on a GPU node; traces work without counters")
    return CheckAnswer(
        "absent",
        "restricted to root: tensor core activity and memory bandwidth are not measured",
        "ask the cluster to load the driver with NVreg_RestrictProfilingToAdminUsers=0; traces work without counters",
    )


def check_cores(cores: int, wanted: int) -> CheckAnswer:
    """Compare the number of cores that this process may use with how many a workload's programs use."""
    if cores >= wanted:
        return CheckAnswer("good", str(cores))
    return CheckAnswer(
        "notice",
        f"{cores}, but the workload's programs use {wanted}",
        "request more from Slurm: resources.experiment.cores in config.yaml",
    )


def check_memory(shared: Path = Path("/dev/shm")) -> CheckAnswer:
    """Check main memory, and the shared memory through which data loaders pass samples."""
    available_gib = psutil.virtual_memory().available / GIB
    shared_gib = shutil.disk_usage(shared).total / GIB if shared.is_dir() else 0
    found = f"{available_gib:.0f} GiB free, {shared_gib:.2g} GiB of shared memory"
    if shared_gib >= WANTED_SHARED_GIB:
        return CheckAnswer("good", found)
    return CheckAnswer(
        "notice", found, "data loader workers may crash: give shared memory (/dev/shm) at least 1 GiB (Docker: --ipc=host)"
    )
