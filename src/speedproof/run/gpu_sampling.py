"""A run's GPUs, sampled by the process that started it: the program that is measured has no part in it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from speedproof.cluster.gpu_monitor import GpuMonitor
from speedproof.results.files import write_json, write_text
from speedproof.results.observations import MachineLoad, Observations
from speedproof.results.run_record import GPU_FILE, NOT_ALONE, RUN_FILE, Run, read_run


@contextmanager
def sampling_gpus(
    folders: Sequence[Path], samples_per_s: int, environ: Mapping[str, str], before_s: float = 0.0
) -> Iterator[list[GpuMonitor]]:
    """Sample the GPUs that CUDA sees under `environ` while the block runs, the k-th into `gpu.csv` of the k-th folder.

    Afterwards the monitors say what is missing. A run's clock begins here. Of one that goes on from a checkpoint `before_s`
    seconds have passed, and later samples go.
    """
    origin_s = time.perf_counter() - before_s
    with ExitStack() as stack:
        monitors = []
        for number, folder in enumerate(folders):
            _forget_later(folder / GPU_FILE, before_s)
            monitors.append(stack.enter_context(GpuMonitor(folder / GPU_FILE, samples_per_s, origin_s, environ, number)))
        yield monitors


def note_problems(
    folder: Path,
    monitors: Sequence[GpuMonitor],
    others: Sequence[str] = (),
    *,
    beside: bool = False,
    machine: MachineLoad | None = None,
) -> Run:
    """Return the record of a run that has ended; among its warnings what its samples lack, and who else was on the machine.

    `others` were on its GPU; `beside`: another experiment measured on the machine when it began or ended. What else the
    `machine` did goes into what was observed of the run.
    """
    run = read_run(folder)
    problems = [monitor.problem for monitor in monitors if monitor.problem]
    if others:
        problems.append(f"other processes were on the GPU when it began: {', '.join(others)}")
    if beside:
        problems.append(NOT_ALONE)
    if run.conditions.gpu and not all(monitor.sees_gpu for monitor in monitors):
        problems.append("NVML sees no GPU: it is not sampled")
    observed = run.observed
    if machine is not None:
        everybody = list(dict.fromkeys([*others, *machine.gpu_processes]))
        machine = machine.model_copy(update={"gpu_processes": everybody})
        observed = (observed or Observations()).model_copy(update={"machine": machine})
    if problems or machine is not None:
        run = run.model_copy(update={"warnings": [*run.warnings, *problems], "observed": observed})
        write_json(folder / RUN_FILE, run)
    return run


def _forget_later(path: Path, before_s: float) -> None:
    """Remove the samples after a moment of a run, and what a killed process left of a line."""
    if not path.exists():
        return
    header, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) or [""]
    kept = [line for line in lines if line.endswith("\n") and _time_of(line) <= before_s]
    write_text(path, "".join([header, *kept]) if header.endswith("\n") else "")


def _time_of(line: str) -> float:
    try:
        return float(line.partition(",")[0])
    except ValueError:
        return float("inf")
