"""A checkpoint: what a run's folder held after an epoch, from which a run that was killed goes on.

Each is a folder `checkpoints/<epoch>/`, whole or not there, with `checkpoint.json` (:class:`Checkpoint`), `state.pt` (networks,
optimizer, schedule, random states), and the run's `epochs.csv` and `best.pt` of that moment. Checksums stand in the
first: a flipped bit of `state.pt` would train on to other weights, without a word.
"""

import logging
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.results.files import digest_of, read_record, sha256_of, write_json
from speedproof.results.run_record import RUN_FILE, Part, RunOutcome, read_run
from speedproof.util.errors import RecordError

CHECKPOINTS_FOLDER = "checkpoints"
CHECKPOINT_FILE = "checkpoint.json"
STATE_FILE = "state.pt"

log = logging.getLogger("speedproof")

# How a run that goes on may have ended: from outside. What it did to itself it would do again.
_FROM_OUTSIDE: set[RunOutcome] = {"stopped", "worker_died"}


class BestQuality(BaseModel):
    """The best quality so far, its epoch, and when it was reached."""

    model_config = ConfigDict(extra="forbid")

    quality: float
    epoch: int
    at_s: float


class Checkpoint(BaseModel):
    """`checkpoint.json`. Seconds count over all processes of the run, each up to the checkpoint that was continued."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[2] = 2
    fingerprint: str  # of the run: what decides what it measures
    epoch: int
    at_s: float
    best: BestQuality | None
    parts: list[Part]
    digests: dict[str, str] = {}  # SHA-256 of the files beside it, by name, and of the rest of this one, by its own

    def digest_itself(self) -> str:
        """Return a digest of all but the digests."""
        return digest_of(self.model_dump(mode="json", exclude={"digests"}))


def list_checkpoints(run_folder: Path) -> list[Path]:
    """Return the folders of a run's checkpoints, the newest first."""
    folders = (run_folder / CHECKPOINTS_FOLDER).glob("*")
    return sorted((folder for folder in folders if folder.name.isdigit()), key=lambda folder: -int(folder.name))


def seal_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the `checkpoint.json` of a folder that holds all else, with their checksums."""
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    digests[CHECKPOINT_FILE] = checkpoint.digest_itself()
    write_json(folder / CHECKPOINT_FILE, checkpoint.model_copy(update={"digests": digests}))


def find_checkpoint(run_folder: Path, fingerprint: str) -> Path | None:
    """Return the folder of the checkpoint from which a run of this fingerprint resumes; None if it starts again.

    It starts again if it measured something else or ended by itself, or if all its checkpoints were changed (which is logged).
    """
    if _ended_by_itself(run_folder):
        return None
    for folder in list_checkpoints(run_folder):
        try:
            checkpoint = read_checkpoint(folder)
        except RecordError as error:
            log.warning("%s; the run goes on from an older checkpoint, or starts again", error)
            continue
        if checkpoint.fingerprint == fingerprint:
            return folder
    return None


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint's `checkpoint.json`.

    Raises:
        RecordError: it, or a file beside it, is not what was written.
    """
    checkpoint = read_record(folder / CHECKPOINT_FILE, Checkpoint)
    files = {path.name: path for path in folder.iterdir()}
    for name in sorted({*files, *checkpoint.digests, CHECKPOINT_FILE}):
        found = checkpoint.digest_itself() if name == CHECKPOINT_FILE else sha256_of(files[name]) if name in files else None
        if found is None or found != checkpoint.digests.get(name):
            raise RecordError(f"{folder / name}: damaged, not what was written")
    return checkpoint


def describe_end(run_folder: Path) -> str:
    """Return why the last process of a run ended, in one line: one that was killed could not say."""
    try:
        return read_run(run_folder).reason
    except RecordError:
        return "killed without a word, as a memory limit does"


def _ended_by_itself(run_folder: Path) -> bool:
    try:
        return (run_folder / RUN_FILE).exists() and read_run(run_folder).outcome not in _FROM_OUTSIDE
    except RecordError:
        return True
