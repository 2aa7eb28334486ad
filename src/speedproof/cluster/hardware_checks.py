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
from speedproof.util.units import GIB, MIB

# torch's loaders hand volumes over in shared memory; a container's default of 64 MiB breaks them.
WANTED_SHARED_MIB = 1024


def check_gpu(device: str, software: Software | None) -> CheckAnswer:
    """Find the GPU that a workload's programs would use; `device` is what the configuration asks for."""
    gpu = describe_gpu()
    if gpu and (software is None or software.gpu):
        return CheckAnswer("good", f"{gpu.name}, {gpu.memory_mib} MiB, driver {gpu.driver}")
    if software and software.gpu:
        return CheckAnswer(
            "notice",
            f"{software.framework} sees {software.gpu}, NVML does not answer: no clocks, power or utilisation samples",
            "make libnvidia-ml of the driver visible here (in a container: --nv), and see that `nvidia-smi` works",
        )
    if gpu and software:
        return CheckAnswer(
            "problem",
            f"{gpu.name} is there, but {software.framework} (CUDA {software.cuda}) does not see it",
            "install one built for CUDA no newer than the driver's, or set CUDA_VISIBLE_DEVICES to a GPU of this job",
        )
    return CheckAnswer(
        "problem" if device == "cuda" else "absent",
        "none: training runs on the processor, and no number says anything about a GPU",
        "ask Slurm for one (resources.experiment.gpus, --gpus of `prove`), or run where `nvidia-smi` lists one",
    )


def check_cuda(software: Software | None, driver: tuple[int, int] | None) -> CheckAnswer:
    """Compare the CUDA version that a framework was built for with the newest one that the driver takes, (major, minor)."""
    if software is None:
        return CheckAnswer(
            "absent",
            "not known: no workload says what its framework was built for",
            "the command `software` of a workload.yaml tells it; `--config config.yaml` names the workload",
        )
    built_for = software.cuda
    if built_for is None:
        return CheckAnswer(
            "absent",
            f"{software.framework} is built without CUDA",
            "run in the container (--use-singularity), or install one with CUDA",
        )
    if driver is None:
        return CheckAnswer(
            "absent",
            f"{software.framework} is built for CUDA {built_for}; no driver answers",
            "run on a GPU node; in a container by hand, pass --nv",
        )
    wanted = tuple(int(part) for part in built_for.split(".")[:2])
    found = f"{software.framework} is built for CUDA {built_for}, the driver takes up to {driver[0]}.{driver[1]}"
    if wanted[0] > driver[0]:
        cure = f"set container.base to an image of CUDA {driver[0]}, or update the driver"
        return CheckAnswer("problem", found, cure)
    if wanted > driver:
        cure = "kernels made at run time (Triton's) may fail: update the driver, or take an older container.base"
        return CheckAnswer("notice", found, cure)
    return CheckAnswer("good", found)


def read_driver_cuda() -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver takes; None without a driver."""
    try:
        pynvml.nvmlInit()
        number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    except pynvml.NVMLError:
        return None
    return number // 1000, number % 1000 // 10


def check_clocks(gpu: Gpu | None) -> CheckAnswer:
    """Say whether the GPU's clock is fixed: where it is not, it falls with heat and power, and times rise with it."""
    if gpu is None or gpu.max_sm_clock_mhz is None:
        return CheckAnswer(
            "absent",
            "not reported by NVML",
            "none is needed where there is no GPU; else ask the cluster whether clocks are locked",
        )
    applied = gpu.application_sm_clock_mhz
    if applied is not None and applied < gpu.max_sm_clock_mhz:
        return CheckAnswer("good", f"set to {applied} of {gpu.max_sm_clock_mhz} MHz")
    return CheckAnswer(
        "notice",
        f"free up to {gpu.max_sm_clock_mhz} MHz: heat and power limits change them while training runs",
        "ratios are formed within an experiment, which evens this out; for times, lock the clocks: "
        "`nvidia-smi --lock-gpu-clocks`",
    )


def check_counters(parameters: Path = Path("/proc/driver/nvidia/params")) -> CheckAnswer:
    """Say whether the driver lets users other than root read the GPU's hardware counters."""
    text = parameters.read_text(encoding="utf-8") if parameters.exists() else ""
    if "RmProfilingAdminOnly: 0" in text or (text and os.geteuid() == 0):
        return CheckAnswer("good", "readable")
    if not text:
        found = "no NVIDIA driver's parameters here"
        return CheckAnswer("absent", found, "run on a GPU node to know; traces need no counters")
    return CheckAnswer(
        "absent",
        "for root only: tensor core activity and memory bandwidth are not measured",
        "ask the cluster to load the driver with NVreg_RestrictProfilingToAdminUsers=0; traces need no counters",
    )


def check_cores(cores: int, wanted: int) -> CheckAnswer:
    """Judge the number of cores this process may use by what a workload's programs make use of."""
    if cores >= wanted:
        return CheckAnswer("good", str(cores))
    return CheckAnswer(
        "notice",
        f"{cores}, and the workload's programs make use of {wanted}",
        "ask Slurm for more: resources.experiment.cores in config.yaml",
    )


def check_memory(shared: Path = Path("/dev/shm")) -> CheckAnswer:
    """Judge main memory and the shared memory through which loaders hand over volumes."""
    available_gib = psutil.virtual_memory().available / GIB
    shared_mib = shutil.disk_usage(shared).total / MIB if shared.is_dir() else 0
    found = f"{available_gib:.0f} GiB free, {shared_mib:.0f} MiB of it may be shared"
    if shared_mib >= WANTED_SHARED_MIB:
        return CheckAnswer("good", found)
    return CheckAnswer("notice", found, "loader workers may die: give /dev/shm 1 GiB and more (Docker: --ipc=host)")
