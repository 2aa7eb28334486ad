"""One run of a program that knows nothing of speedproof: started, watched from outside, and its record written."""

import os
import shlex
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from speedproof.children import run_child
from speedproof.config.model import Config, Side
from speedproof.config.workload import Workload
from speedproof.environment import LAUNCHED_VARIABLE
from speedproof.errors import RecordError, TrainingError
from speedproof.marks import EPOCHS_VARIABLE, FOLDER_VARIABLE, MARKS_FILE, SEED_VARIABLE
from speedproof.records.files import write_json
from speedproof.records.run import RUN_FILE, TITLE, Arm, Backend, Conditions, Outcome, Run, write_epochs
from speedproof.sides.read_marks import Marks, read_marks
from speedproof.signals import StoppedError, raising_when_stopped


@dataclass(frozen=True)
class Request:
    """Which run this is."""

    side: str
    arm: Arm
    repeat: int
    seed: int
    profiler: Backend


def program_command(workload: Workload, side: Side) -> list[str]:
    """Return the words of a side's command; `{workload}` is the workload's folder, `{python}` this interpreter."""
    places = {"{workload}": str(workload.folder), "{python}": sys.executable}
    words = shlex.split(side.command or "")
    for place, value in places.items():
        words = [word.replace(place, value) for word in words]
    return words


def run_program(config: Config, workload: Workload, conditions: Conditions, request: Request, folder: Path) -> Run:
    """Run a side's program in an empty working folder of its own, and leave the run's record in `folder`.

    The program sees SPEEDPROOF_RUN (where its marks go), SPEEDPROOF_SEED and SPEEDPROOF_EPOCHS. Its output is ours.

    Raises:
        TrainingError: it did not end well, or its marks are not those of as many epochs as were asked for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKS_FILE).unlink(missing_ok=True)
    side, epochs = config.sides[request.side], config.epochs_of(request.side)
    variables = {FOLDER_VARIABLE: str(folder.absolute()), SEED_VARIABLE: str(request.seed), EPOCHS_VARIABLE: str(epochs)}
    started, launched_s = _now(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="speedproof-run-") as place:
        outcome, reason = _run_in(place, program_command(workload, side), {**os.environ, **side.environment, **variables})
        ended_s = time.monotonic()
    marks = Marks()
    if outcome == "completed":
        outcome, reason, marks = _read_progress(folder, epochs)
    best = _find_best(config, marks)
    run = Run(
        run=folder.name,
        case=config.workload_name,
        variant=request.side,
        arm=request.arm,
        profiler=request.profiler,
        repeat=request.repeat,
        seed=request.seed,
        epochs=epochs,
        validate_every=config.validate_every_of(request.side),
        techniques={TITLE: side.title, **side.settings},
        workload=config.shared,
        gpu_samples_per_s=config.profiling.gpu_samples_per_s,
        traced=[*config.profiling.trace] if request.profiler == "nsys" else [],
        conditions=conditions,
        warnings=[],
        command=shlex.split(side.command or ""),
        started=started,
        ended=_now(),
        clock="launcher",
        start_up_s=marks.epochs[0].begins_s - launched_s if marks.epochs else 0.0,
        cache_fill_s=0.0,
        warm_up_s=None,
        training_s=sum(epoch.train_s + (epoch.validation_s or 0.0) for epoch in marks.epochs),
        process_s=ended_s - launched_s,
        best_quality=best[1] if best else None,
        best_quality_epoch=best[0] if best else None,
        best_quality_s=best[2] - launched_s if best else None,
        outcome=outcome,
        reason=reason,
    )
    _write_epochs(folder, marks)
    write_json(folder / RUN_FILE, run)
    if outcome != "completed":
        raise TrainingError(f"{folder.name}: {outcome.replace('_', ' ')}: {reason}")
    return run


def _run_in(place: str, command: list[str], environment: dict[str, str]) -> tuple[Outcome, str]:
    """Run the program, and return how it ended and, in one line, why."""
    try:
        with raising_when_stopped():
            status = run_child(["env", f"--chdir={place}", *command], sys.stdout.fileno(), environment, LAUNCHED_VARIABLE)
    except StoppedError as error:
        return "stopped", f"received {error}"
    if status == -signal.SIGKILL:
        return "failed", "killed (SIGKILL), as the system does when memory runs out"
    if status < 0:
        return "failed", f"ended by {signal.Signals(-status).name}"
    if status == 127:
        return "failed", f"{command[0]}: no such program; correct the side's `command`"
    return ("completed", "") if status == 0 else ("failed", f"exit status {status}")


def _read_progress(folder: Path, epochs: int) -> tuple[Outcome, str, Marks]:
    """Return how the run ended by its marks, and these."""
    try:
        marks = read_marks(folder / MARKS_FILE)
    except RecordError as error:
        return "failed", str(error), Marks()
    if len(marks.epochs) != epochs:
        return (
            "failed",
            f"marked {len(marks.epochs)} whole epochs of {epochs} (SPEEDPROOF_EPOCHS); see speedproof/marks.py",
            marks,
        )
    return "completed", "", marks


def _find_best(config: Config, marks: Marks) -> tuple[int, float, float] | None:
    """Return epoch, value and moment of the best quality, the first of equal ones."""
    sign = 1 if config.measurement.quality.better == "higher" else -1
    return max(marks.qualities, key=lambda one: (sign * one[1], -one[2]), default=None)


def _write_epochs(folder: Path, marks: Marks) -> None:
    rows: list[dict[str, float | None]] = [
        {
            "epoch": number,
            "train_s": epoch.train_s,
            "validation_s": epoch.validation_s,
            "loss": None,
            "quality": epoch.quality,
            "steps": None,
            "samples_per_s": epoch.samples / epoch.train_s if epoch.samples is not None and epoch.train_s else None,
            "peak_memory_mib": None,
        }
        for number, epoch in enumerate(marks.epochs, start=1)
    ]
    write_epochs(folder, rows)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
