"""Proofs of the same commands: how many there were here, and the seed that draws the order of each one's runs."""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from speedproof.config.base import Seed
from speedproof.results.evidence_archive import EXPERIMENTS_FOLDER
from speedproof.results.experiment import RUNS_FOLDER, read_experiment
from speedproof.results.files import digest_of, read_record, write_json, write_text
from speedproof.results.folder import list_experiments
from speedproof.results.run_record import PROGRAMS, RUN_FILE, read_run
from speedproof.run.proof.find import RESULTS
from speedproof.run.proof.left_files import DIGESTS
from speedproof.util.errors import RecordError
from speedproof.util.sources import digest_files

ATTEMPTS_FILE = "attempts.jsonl"  # in a proof's folder, a line for each proof that ended or was interrupted in it


@dataclass(frozen=True)
class Attempt:
    """One proof: a digest of its commands, when its first run began, and the how-manieth of these commands it was."""

    commands: str
    began: str
    number: int | None = None  # not noted of an interrupted one, nor by earlier versions


def note_attempt(out: Path, results: Path, commands: Sequence[str]) -> int:
    """Note the proof in `out`, and return the how-manieth of the same commands it is, of those in it and beside it.

    A proof that goes on, or is asked again of the same runs, is the same one, and keeps its number.
    """
    experiment = list_experiments(results)[0]
    began = read_run(experiment / RUNS_FOLDER / read_experiment(experiment).runs[0]).started
    own = _digest_commands(commands)
    kept = list(_read_attempts(out / ATTEMPTS_FILE))
    for one in kept:
        if one.began == began and one.number is not None:
            return one.number
    beside = [one for path in out.absolute().parent.glob(f"*/{ATTEMPTS_FILE}") for one in _read_attempts(path)]
    number = len({began, *(one.began for one in beside if one.commands == own)})
    lines = [json.dumps(asdict(one)) for one in [*kept, Attempt(own, began, number)]]
    write_text(out / ATTEMPTS_FILE, "\n".join([*lines, ""]))
    return number


def note_interrupted_attempt(out: Path, commands: Sequence[str]) -> None:
    """Note the proof in `out` if its first run has ended but the proof has not.

    Its runs were seen, so it counts even if other runs replace them. If it is resumed, it stays the same proof.
    """
    began = []
    for record in out.glob(f"{RESULTS}/{EXPERIMENTS_FOLDER}/*/{RUNS_FOLDER}/*/{RUN_FILE}"):
        with suppress(RecordError):
            began.append(read_run(record.parent).started)
    kept = list(_read_attempts(out / ATTEMPTS_FILE))
    if began and min(began) not in {one.began for one in kept}:
        lines = [json.dumps(asdict(one)) for one in [*kept, Attempt(_digest_commands(commands), min(began))]]
        write_text(out / ATTEMPTS_FILE, "\n".join([*lines, ""]))


def _digest_commands(commands: Sequence[str]) -> str:
    return digest_of(sorted({" ".join(command.split()) for command in commands}))


def _read_attempts(path: Path) -> Iterator[Attempt]:
    """Yield what a file notes; lines that cannot be read are none of ours."""
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                found = json.loads(line)
                yield Attempt(str(found["commands"]), str(found["began"]), found.get("number"))


ORDER_FILE = "order.json"


class _DrawnOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seed: Seed
    measured: str  # digest of what decides what is measured


def draw_order_seed(out: Path, decides: Sequence[Any]) -> int:
    """Return the order's seed: that of an earlier call if commands and files are the same, else a new one, which is kept.

    `decides` holds what decides what is measured besides the copy of the working folder in `out`.
    """
    measured = digest_of([*decides, digest_files(out / PROGRAMS, [DIGESTS])])
    try:
        kept = read_record(out / ORDER_FILE, _DrawnOrder)
        if kept.measured == measured:
            return kept.seed
    except RecordError:
        pass
    drawn = _DrawnOrder(seed=secrets.randbelow(2**31), measured=measured)
    write_json(out / ORDER_FILE, drawn)
    return drawn.seed
