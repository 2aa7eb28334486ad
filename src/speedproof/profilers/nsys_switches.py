"""What nsys can record beyond calls, kernels and ranges: each a setting of `profiling`, as switches of `nsys profile`.

They cost time, and a machine may refuse them: `speedproof doctor` says which, docs/nsys-switches.md what each costs.
"""

import re
from collections.abc import Mapping

from speedproof.config.profiling import CUDA_PROFILER_API, Profiling
from speedproof.marks import CAPTURE_RANGE, CAPTURE_VARIABLE
from speedproof.profilers.nsys import Capabilities
from speedproof.util.errors import ProfilingError

# One switch under the names that versions give it, the newest first.
GPU_METRICS = {"--gpu-metrics-devices": "cuda-visible", "--gpu-metrics-device": "all"}
# A range is found by its text, too, not only by a registered string's handle.
_ANY_TEXT = "NSYS_NVTX_PROFILER_REGISTER_ONLY=0"


def list_switches(profiling: Profiling, nsys: Capabilities) -> list[str]:
    """Return the switches that record what the configuration asks for besides `trace`.

    Raises:
        ProfilingError: this version of nsys knows none of that kind

    """
    wanted: list[tuple[str, Mapping[str, str]]] = []
    if profiling.gpu_metrics_per_s is not None:
        wanted.append(("gpu_metrics_per_s", GPU_METRICS))
        wanted.append(("gpu_metrics_per_s", {"--gpu-metrics-frequency": str(profiling.gpu_metrics_per_s)}))
    if profiling.memory_usage:
        wanted.append(("memory_usage", {"--cuda-memory-usage": "true"}))
    if profiling.cpu_samples:
        wanted.append(("cpu_samples", {"--sample": "process-tree"}))
    if profiling.python_samples:
        wanted.append(("python_samples", {"--python-sampling": "true"}))
    if profiling.capture is not None:
        kind = "cudaProfilerApi" if profiling.capture == CUDA_PROFILER_API else "nvtx"
        wanted.append(("capture", {"--capture-range": kind}))
        wanted.append(("capture", {"--capture-range-end": "stop"}))  # by default the program is killed then
        if kind == "nvtx":
            wanted.append(("capture", {"--nvtx-capture": captured_range(profiling) or ""}))
            wanted.append(("capture", {"--env-var": _ANY_TEXT}))
    return [_spell(setting, names, nsys) for setting, names in wanted]


def _spell(setting: str, names: Mapping[str, str], nsys: Capabilities) -> str:
    for name, value in names.items():
        if name in nsys.switches:
            return f"{name}={value}"
    switch = next(iter(names))
    raise ProfilingError(
        f"profiling.{setting}: nsys {nsys.version} does not support {switch}; set profiling.nsys to a newer one, or leave "
        "the setting out"
    )


def captured_range(profiling: Profiling) -> str | None:
    """Return the NVTX range that is traced; None for the whole run, or between calls of CUDA's profiler API."""
    if profiling.capture is None or profiling.capture == CUDA_PROFILER_API:
        return None
    return CAPTURE_RANGE if profiling.captured_epochs else profiling.capture


def capture_variables(profiling: Profiling) -> dict[str, str]:
    """Return the variables that tell a program which of its epochs are traced."""
    epochs = profiling.captured_epochs
    return {CAPTURE_VARIABLE: f"{epochs[0]}-{epochs[1]}"} if epochs else {}


def explain_no_report(profiling: Profiling) -> str:
    """Return what may have kept nsys from writing a report although the program ended well; empty where nothing is known."""
    if profiling.capture is None:
        return ""
    if profiling.captured_epochs:
        return (
            f"; profiling.capture: {profiling.capture}, and nothing opened these epochs: does the program have so many, and "
            "mark them (`marks.epochs`)?"
        )
    return f"; profiling.capture: `{profiling.capture}` never began in the program"


def refused(said: str) -> str | None:
    """Return the reason that nsys gives for sampling no GPU metrics in `--gpu-metrics-devices=help`; None: it samples them."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [
        line for line in lines if re.search(r"not available|not found|insufficient|permission|not supported|ERR_", line, re.I)
    ]
    return " ".join(reasons) or None
