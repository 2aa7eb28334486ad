"""All checks, one after the other; a failing one does not stop the others."""

import os
from collections.abc import Callable

from speedproof.cluster.check_answer import CheckAnswer
from speedproof.cluster.gpu_monitor import describe_gpu
from speedproof.cluster.hardware_checks import (
    check_clocks,
    check_cores,
    check_counters,
    check_cuda,
    check_gpu,
    check_memory,
    read_driver_cuda,
)
from speedproof.cluster.place_checks import check_container, check_isolation, check_scratch, check_slurm
from speedproof.cluster.profiler_checks import check_environment, check_gpu_metrics, check_profiler, check_sampling
from speedproof.config.profiling import Profiling
from speedproof.results.diagnosis import Diagnosis, Finding, Software
from speedproof.util.environment import available_cores
from speedproof.util.scrub import scrub_text

SIGNS = {"good": "+", "notice": "!", "absent": "-", "problem": "x"}


def diagnose(
    profiling: Profiling | None, device: str, scratch: str | None = None, software: Software | None = None, cores: int = 1
) -> Diagnosis:
    """Run every check; takes a few seconds, most of them for the profiler.

    `profiling`, `device` and `scratch` come from the configuration: if this machine lacks what they require, that is a
    problem. Without `profiling`, no run is profiled and the profilers are not checked.
    `software` is what the workload reports about its framework (None: not asked); `cores` is how many its programs use.
    """
    checks: dict[str, Callable[[], CheckAnswer]] = {
        "GPU": lambda: check_gpu(device, software),
        "CUDA": lambda: check_cuda(software, read_driver_cuda()),
        "GPU clocks": lambda: check_clocks(describe_gpu()),
        "GPU counters": check_counters,
        **(_list_profiler_checks(profiling) if profiling else {}),
        "container": lambda: check_container(os.environ),
        "isolation": check_isolation,
        "Slurm": lambda: check_slurm(os.environ),
        "scratch": lambda: check_scratch(scratch, os.environ),
        "cores": lambda: check_cores(available_cores(), cores),
        "memory": check_memory,
    }
    return Diagnosis(findings=[_ask(subject, check) for subject, check in checks.items()])


def _list_profiler_checks(profiling: Profiling) -> dict[str, Callable[[], CheckAnswer]]:
    return {
        "profiler": lambda: check_profiler(profiling),
        "nsys status": lambda: check_environment(profiling.nsys),
        "CPU sampling": lambda: check_sampling(profiling),
        "GPU metrics": lambda: check_gpu_metrics(profiling),
    }


def describe_findings(diagnosis: Diagnosis) -> list[str]:
    """Return the findings as text, two lines for each with a hint, and a sentence on what they come to."""
    lines = []
    for finding in diagnosis.findings:
        lines.append(f"{SIGNS[finding.state]} {finding.subject}: {finding.found}")
        if finding.hint:
            lines.append(f"    {finding.hint}")
    return [*lines, summarize_findings(diagnosis)]


def summarize_findings(diagnosis: Diagnosis) -> str:
    """Return in a sentence what this machine can do, and what not."""
    if problems := diagnosis.select("problem"):
        return f"This machine cannot run what is asked: see {', '.join(one.subject for one in problems)}."
    states = {one.subject: one.state for one in diagnosis.findings}
    if states.get("GPU") not in ("good", "notice"):
        return "This machine can time programs; it cannot trace a GPU, because it has none."
    if "profiler" not in states:
        return "This machine can time programs on its GPU."
    if states["profiler"] == "good":
        return "This machine can time programs and trace its GPU."
    return "This machine can time programs; it can trace its GPU only for programs that use torch."


def _ask(subject: str, check: Callable[[], CheckAnswer]) -> Finding:
    """Return a check's finding, without host names and paths; a crash of the check is a finding too."""
    try:
        answer = check()
    except Exception as error:
        hint = "nothing depends on this check; please report the message"
        answer = CheckAnswer("absent", f"the check failed ({error})", hint)
    return Finding(subject=subject, state=answer.state, found=" ".join(scrub_text(answer.found).split()), hint=answer.hint)
