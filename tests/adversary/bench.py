"""A pair of programs on trial: drawn, timed from outside, and given to `speedproof prove`, in a home of its own."""

import functools
import itertools
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.adversary.children import end_marked, remove_named, run_command_line, time_program
from tests.session_folders import make_session_folder

_SERVER = multiprocessing.get_context("forkserver")
# What a proof imports, once for all proofs of a test process.
_SERVER.set_forkserver_preload(
    [
        "speedproof.cli.application",
        "speedproof.run.proof.executor",
        "speedproof.report.figures.draw",
        "tests.adversary.children",
    ]
)
PROOF = ("--rounds", "4", "--device", "cpu", "--name", "A", "--name", "B", "--json", "--quiet")
_LONGEST_S = 120.0


@dataclass(frozen=True)
class Interval:
    """Of a ratio: 95 %, from pairs of runs."""

    low: float
    high: float

    def meets(self, other: "Interval") -> bool:
        return self.low <= other.high and other.low <= self.high


@dataclass
class Place:
    """Where a pair lives: its programs, an interpreter's environment, a home, a temporary folder."""

    top: Path
    tag: str
    variables: dict[str, str] = field(default_factory=dict)
    given: dict[Path, bytes] = field(default_factory=dict)  # files that are there before each run

    @property
    def work(self) -> Path:
        return self.top / "work"

    def environ(self) -> dict[str, str]:
        """Return the variables of whatever runs here."""
        path = os.pathsep.join([str(self.top / "env/bin"), os.environ["PATH"]])
        own = {"HOME": str(self.top / "home"), "TMPDIR": str(self.top / "tmp"), "PATH": path}
        return {**own, "LANG": "C.UTF-8", "PAIR": self.tag, **self.variables}

    def refresh(self) -> None:
        """Give it a home and a temporary folder in which nothing ran yet; also elsewhere nothing may be left."""
        for name in ("home", "tmp", "shared"):
            shutil.rmtree(self.top / name, ignore_errors=True)
            (self.top / name).mkdir()
        remove_named(self.tag)
        for path, content in self.given.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@contextmanager
def placing(variables: Mapping[str, str] | None = None) -> Iterator[Place]:
    """Yield a place; afterwards nothing of it is left: no file, no process."""
    place = Place(make_session_folder("p-"), f"pair-{uuid.uuid4().hex[:12]}", dict(variables or {}))
    place.work.mkdir()
    place.refresh()
    make_environment(place.top / "env")
    try:
        yield place
    finally:
        end_marked(f"PAIR={place.tag}")
        remove_named(place.tag)
        shutil.rmtree(place.top, ignore_errors=True)


def find_interpreter() -> Path:
    """Return the Python that our environment was made of."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def make_environment(folder: Path) -> None:
    """Make an environment of the interpreter without any package: what programs leave there is nobody else's."""
    (folder / "bin").mkdir(parents=True)
    (folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {find_interpreter().parent}\n")
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(find_interpreter())


@functools.cache
def _prepare_server() -> None:
    """Have the server's socket lie in a folder of the session: its own would go at exit, when the temporary folder has gone."""
    multiprocessing.current_process()._config["tempdir"] = str(make_session_folder("pymp-"))  # type: ignore[attr-defined]


def _in_own_process(target: Callable[..., None], *arguments: object) -> int:
    """Run a function in a process that has imported what a proof needs, and return its exit status."""
    _prepare_server()
    process = _SERVER.Process(target=target, args=arguments)
    process.start()
    process.join(_LONGEST_S)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode or 0


def time_outside(place: Place, command: Sequence[str], folder: Path, whole_tree: bool = True) -> tuple[float, int, str]:
    """Return how long a program takes in a copy of `folder`, with its exit status and what it prints.

    `whole_tree`: until all that it started has ended, too.
    """
    copy = place.top / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    place.refresh()
    receiver, sender = _SERVER.Pipe(duplex=False)
    _in_own_process(time_program, sender, list(command), copy, place.environ(), whole_tree)
    sender.close()
    try:
        seconds, status, printed = receiver.recv()
    except EOFError:
        raise AssertionError(f"{' '.join(command)}: it did not end") from None
    end_marked(f"PAIR={place.tag}")
    shutil.rmtree(copy)
    return seconds, status, printed


@dataclass(frozen=True)
class Outside:
    """How many times as fast the second of two programs is by a clock outside of both."""

    ratio: float
    interval: Interval

    def meets(self, low: float, high: float) -> bool:
        """Tell whether the ratio lies within, as far as this clock can tell."""
        return self.interval.meets(Interval(low, high))


def compare_outside(
    place: Place, commands: Sequence[Sequence[str]], starts: Sequence[Sequence[str]] = (), whole_tree: bool = True
) -> Iterator[Outside]:
    """Yield the ratio of two programs' times, from the second round on after each: runs take turns.

    Each program's shortest run counts, less what its command in `starts` takes, which is of no interest.
    """
    timed = [*commands, *starts]
    seconds: list[list[float]] = [[] for _ in timed]
    for number in itertools.count():
        for which in range(len(timed))[:: 1 if number % 2 == 0 else -1]:
            took_s, status, printed = time_outside(place, timed[which], place.work, whole_tree)
            assert status == 0, printed
            seconds[which].append(took_s)
        if number:
            yield relate_shortest([sorted(one) for one in seconds])


def relate_shortest(seconds: Sequence[Sequence[float]]) -> Outside:
    """Return the ratio of two programs' shortest runs, less those of their starts; each is known to how far the next is off."""
    least = 1e-4
    shortest = [one[0] for one in seconds]
    unsure = [one[1] - one[0] for one in seconds]
    first, second = (shortest[which] - sum(shortest[2 + which : 3 + which]) for which in (0, 1))
    off = [unsure[which] + sum(unsure[2 + which : 3 + which]) for which in (0, 1)]
    low = max(least, first - off[0]) / max(least, second + off[1])
    high = max(least, first + off[0]) / max(least, second - off[1])
    return Outside(max(least, first) / max(least, second), Interval(low, high))


@dataclass(frozen=True)
class Proof:
    """What `speedproof prove --json` ended with."""

    status: int
    said: str  # one sentence
    verdict: dict[str, Any]
    printed: str

    @property
    def ratio(self) -> float | None:
        return self.verdict["candidates"][0]["ratio"] if self.verdict.get("candidates") else None

    @property
    def interval(self) -> Interval | None:
        one = self.verdict["candidates"][0] if self.verdict.get("candidates") else {"low": None}
        return None if one["low"] is None else Interval(one["low"], one["high"])

    @property
    def objections(self) -> list[dict[str, Any]]:
        return [one for candidate in self.verdict.get("candidates", []) for one in candidate["objections"]]


def prove(place: Place, commands: Sequence[str], options: Sequence[str]) -> Proof:
    """Have two commands compared in a fresh home, by the command line."""
    place.refresh()
    written = place.top / "proof"
    environ = place.environ() | {"SPEEDPROOF_LOCKS": place.tag}  # proofs of several tests do not wait for each other
    status = _in_own_process(run_command_line, ["prove", *commands, *options, *PROOF], place.work, environ, written)
    printed = written.with_suffix(".out").read_text() + written.with_suffix(".err").read_text()
    try:
        verdict = json.loads(written.with_suffix(".out").read_text())
    except ValueError:
        verdict = {}
    said = verdict.get("message") or " ".join(one["sentence"] for one in verdict.get("candidates", [])) or printed.strip()
    return Proof(status, said, verdict, printed)


def keep_history(folder: Path) -> None:
    """Make a folder a git repository: what it ignores is linked into runs, not copied."""
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def draw_numbers(rng: random.Random) -> dict[str, int | float]:
    """Return how many epochs a pair has, how long they take, and by which factor the adversary cheats."""
    return {
        "EPOCHS": rng.randint(5, 6),
        "EPOCH_S": rng.randint(18, 26) / 1000,
        "FACTOR": rng.randint(18, 40) / 10,
        "LOOPS": rng.randint(250, 350),
    }
