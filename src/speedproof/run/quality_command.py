"""The quality of a run by a command of the user's own, which judges what the run left; the program has no part in it."""

import math
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from speedproof.config.evaluation import Evaluation
from speedproof.config.model import Config, Variant
from speedproof.config.workload import Workload
from speedproof.marks import SEED_VARIABLE
from speedproof.results.files import sha256_of
from speedproof.run.command_words import enter_image, program_command
from speedproof.run.noted_reads import noting_reads
from speedproof.run.program_variables import without_dropped
from speedproof.run.read_lines import read_number
from speedproof.run.whole_numbers import find_number
from speedproof.run.working_folder import program_environment, providing_marks, working_folder
from speedproof.util.child_processes import raising_when_stopped, run_child
from speedproof.util.errors import RecordError

FileState = tuple[int, int, int, int]
_MOST_READ = 2**20  # bytes of what it prints: the number comes last


def list_artifacts(evaluation: Evaluation, place: Path) -> dict[str, dict[str, FileState]]:
    """Return the files below `place` that each pattern of artifacts matches, with their states; of a folder all of its files.

    A state holds the time of the last change, which no program can set.
    """
    found: dict[str, dict[str, FileState]] = {}
    for pattern in evaluation.artifacts:
        matched = list(place.glob(pattern.removeprefix("{run}/")))
        paths = [inner for path in matched for inner in ([path] if path.is_file() else path.rglob("*")) if inner.is_file()]
        found[pattern] = {path.relative_to(place).as_posix(): _read_state(path) for path in sorted(paths)}
    return found


def _read_state(path: Path) -> FileState:
    state = path.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_ctime_ns


def check_artifacts(before: Mapping[str, Mapping[str, FileState]], after: Mapping[str, Mapping[str, FileState]]) -> None:
    """Check that a run wrote its artifacts itself.

    Raises :class:`RecordError` if a pattern matches nothing, or what lay there before the run, as an earlier run leaves it in a
    folder that is linked.
    """
    for pattern, files in after.items():
        if not files:
            name = pattern.removeprefix("{run}/")
            raise RecordError(f"--artifact: it left no {name} in {{run}}; have the program write it, or correct the pattern")
        if older := [name for name, state in files.items() if before[pattern].get(name) == state]:
            raise RecordError(
                f"--artifact: {older[0]}, which {pattern} matches, was there before the run, and it did not write it; remove "
                "it from the folder, or name what this run writes"
            )


@dataclass(frozen=True)
class Judge:
    """What judges a run, made before the run starts: whose run it is, where it works, and what lies there already."""

    evaluation: Evaluation
    config: Config
    workload: Workload
    variant: Variant
    place: Path
    seed: int
    environ: Mapping[str, str]
    before: Mapping[str, Mapping[str, FileState]]


def find_judge(
    config: Config, workload: Workload, variant: Variant, place: Path, seed: int, environ: Mapping[str, str]
) -> Judge | None:
    """Return what will judge a run of `variant` that is about to work in `place` and to see `environ`; None if nothing does."""
    if variant.evaluation is None:
        return None
    before = list_artifacts(variant.evaluation, place)
    return Judge(variant.evaluation, config, workload, variant, place, seed, environ, before)


@dataclass(frozen=True)
class MeasuredQuality:
    """What a quality command found of a run, how long it took, and which of the files that runs changed it read."""

    quality: float
    seconds: float
    read: Sequence[Path]


def measure_quality(judge: Judge, changed: Iterable[Path] = ()) -> MeasuredQuality:
    """Return the quality that the command prints for a run that has ended, and which of the `changed` files it reads.

    It sees what the program saw and SPEEDPROOF_SEED, but nothing of its marks, and works in a copy of its own.

    Raises:
        RecordError: an artifact is missing, or the command was changed, took too long, ended badly, or printed no number.
        StoppedError: a stop signal came.
    """
    evaluation, workload = judge.evaluation, judge.workload
    check_artifacts(judge.before, list_artifacts(evaluation, judge.place))
    own = judge.variant.model_copy(
        update={
            "command": evaluation.command,
            "tree": evaluation.tree,
            "linked": evaluation.linked,
            "place": None,
            "caches": None,  # the run's private folders are still there
        }
    )
    with working_folder(workload, own) as stands, providing_marks() as marks:
        _check_files(evaluation, stands)
        environment = {
            **program_environment(without_dropped(own, judge.environ), [marks], workload.own_folders),
            **own.environment,
            SEED_VARIABLE: str(judge.seed),
        }
        entered = enter_image(judge.config, own, stands, [stands, marks, judge.place])
        words = program_command(workload, own, None, judge.place)
        with noting_reads(changed) as read:
            begun_s = time.monotonic()
            output = _run_to_end(["env", f"--chdir={stands}", *entered, *words], environment, evaluation.limit_s)
            seconds = time.monotonic() - begun_s
    return MeasuredQuality(find_quality(output, evaluation.quality), seconds, read)


def _run_to_end(command: list[str], environment: dict[str, str], limit_s: int) -> str:
    """Run a command and return what it printed; raise :class:`RecordError` if it does not end, or not well."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            with raising_when_stopped():
                status = run_child(command, output.fileno(), environment, errors=errors.fileno(), limit_s=limit_s)
        except subprocess.TimeoutExpired:
            raise RecordError(
                f"--quality-command: did not end within {limit_s} s, and was killed; --timeout allows more"
            ) from None
        if status:
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            last = [line for line in (_read_end(output) + _read_end(errors)).splitlines() if line.strip()][-1:]
            raise RecordError(f"--quality-command: {how}{f' (last line: {last[0].strip():.200})' if last else ''}")
        return _read_end(output)


def find_quality(output: str, pattern: str | None) -> float:
    """Return the number in the output of a quality command: the last that the pattern finds, else the last line that is one.

    Raises :class:`RecordError` if there is none, or it is not finite.
    """
    if pattern:
        found = list(re.finditer(pattern, output, re.MULTILINE))
        if not found:
            raise RecordError(f"--quality-command: nothing that it printed matches {pattern!r}; correct --quality")
        return read_number(find_number(found[-1], "--quality-command"), "--quality-command", found[-1][0])
    numbers = [number for number in map(_read_whole_line, output.splitlines()) if number is not None]
    if not numbers:
        raise RecordError(
            "--quality-command: no line that it printed is a number; print the quality on a line of its own, or name a pattern "
            "(--quality)"
        )
    if not math.isfinite(numbers[-1]):
        raise RecordError(f"--quality-command: printed {numbers[-1]:g}, which is not finite; see what it computed")
    return numbers[-1]


def _read_whole_line(line: str) -> float | None:
    try:
        return float(line) if "_" not in line else None
    except ValueError:
        return None


def _read_end(file: IO[bytes]) -> str:
    size = file.seek(0, 2)
    file.seek(max(0, size - _MOST_READ))
    return file.read().decode("utf-8-sig", "replace")


def _check_files(evaluation: Evaluation, stands: Path) -> None:
    """Check that the files that the command names are those of the plan; raise :class:`RecordError` if one is not."""
    for word, digest in evaluation.files.items():
        path = stands / word
        if not path.is_file() or _digest_unchanged(path, _read_state(path)) != digest:
            raise RecordError(f"--quality-command: {word} changed after it was pinned; restore it, and prove again")


@lru_cache(maxsize=64)
def _digest_unchanged(path: Path, _: FileState) -> str:
    """Return a file's checksum; of a file in one state it is computed once."""
    return sha256_of(path)
