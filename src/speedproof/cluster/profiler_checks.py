"""Whether Nsight Systems works here: its version, its permissions, and whether it records a range of this Python."""

import os
import subprocess
from pathlib import Path

from speedproof.cluster.check_answer import CheckAnswer
from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import Capabilities, read_capabilities
from speedproof.profilers.nsys_switches import GPU_METRICS, refused
from speedproof.profilers.selection import prove_nsys
from speedproof.util.errors import ProfilingError

# Up to this level the kernel lets nsys sample processes of its own user.
SAMPLING_LEVEL = 2
_ANSWER_LIMIT_S = 30


def check_profiler(profiling: Profiling) -> CheckAnswer:
    """Trace a small Python program with an NVTX range and find that range in the export."""
    if profiling.backend == "kineto":
        found = "kineto (torch.profiler), set by profiling.backend"
        return CheckAnswer("notice", found, "set profiling.backend to auto to trace with nsys")
    try:
        nsys = prove_nsys(profiling.nsys)
    except ProfilingError as error:
        return CheckAnswer(
            "problem" if profiling.backend == "nsys" else "notice",
            f"{error}; {'nothing' if profiling.backend == 'nsys' else 'kineto (torch.profiler)'} is used instead",
            "run in the container, which has nsys, `module load` Nsight Systems, or set profiling.nsys to its path",
        )
    return CheckAnswer("good", f"nsys {nsys.version}: records an NVTX range of this Python")


def check_sampling(profiling: Profiling, level_file: Path = Path("/proc/sys/kernel/perf_event_paranoid")) -> CheckAnswer:
    """Check whether the kernel lets nsys sample CPUs; traces need that only for profiling.cpu_samples."""
    level = int(level_file.read_text(encoding="utf-8")) if level_file.exists() else None
    if level is not None and (level <= SAMPLING_LEVEL or os.geteuid() == 0):
        return CheckAnswer("good", f"allowed (perf_event_paranoid {level})")
    asked = profiling.cpu_samples
    return CheckAnswer(
        "problem" if asked else "absent",
        f"not allowed (perf_event_paranoid {'unknown' if level is None else level}); "
        + ("profiling.cpu_samples needs it" if asked else "traces work without it"),
        f"for call stacks, run `sysctl kernel.perf_event_paranoid={SAMPLING_LEVEL}` as root"
        + (", or set profiling.cpu_samples to false" if asked else ""),
    )


def check_gpu_metrics(profiling: Profiling) -> CheckAnswer:
    """Ask nsys whether it may sample the GPU's counters here; a problem if profiling.gpu_metrics_per_s needs them."""
    asked = profiling.gpu_metrics_per_s is not None
    try:
        nsys = read_capabilities(profiling.nsys)
        switch = next((name for name in GPU_METRICS if name in nsys.switches), None)
        reason = (
            f"nsys {nsys.version} does not support {next(iter(GPU_METRICS))}"
            if switch is None
            else _ask_for_metrics(nsys, switch)
        )
    except ProfilingError as error:
        reason = str(error)
    if reason is None:
        return CheckAnswer("good", "nsys may sample SMs, tensor cores and memory (gpu_metrics_per_s)")
    hint = "traces work without; for counters, ask the cluster to load the driver with NVreg_RestrictProfilingToAdminUsers=0"
    return CheckAnswer(
        "problem" if asked else "absent",
        f"nsys cannot sample them: {reason}",
        "set profiling.gpu_metrics_per_s to null, or run as a user who may read counters" if asked else hint,
    )


def _ask_for_metrics(nsys: Capabilities, switch: str) -> str | None:
    """Return why nsys cannot sample metrics of any GPU; None if it can."""
    ended = subprocess.run(
        [nsys.program, "profile", f"{switch}=help"], capture_output=True, text=True, errors="replace", timeout=_ANSWER_LIMIT_S
    )
    return refused(ended.stdout + ended.stderr)


def check_environment(program: str) -> CheckAnswer:
    """Report the checks that fail in `nsys status -e`."""
    try:
        said = subprocess.run([program, "status", "-e"], capture_output=True, text=True, errors="replace", timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        found = f"{program} does not answer"
        return CheckAnswer("absent", found, "see the finding `profiler`")
    failed = failed_checks(said)
    if failed:
        hint = "CUDA and NVTX traces work without; for CPU sampling see `nsys status -e`"
        return CheckAnswer("absent", "; ".join(failed), hint)
    return CheckAnswer("good", "all checks pass")


def failed_checks(said: str) -> list[str]:
    """Return the lines of `nsys status -e` whose answer is Fail."""
    return [" ".join(line.split()) for line in said.splitlines() if line.rstrip().endswith(": Fail")]
