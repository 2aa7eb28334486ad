"""A block: one job on a GPU or several, a randomised order of runs that was written down before the first of them began."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.errors import RecordError
from speedproof.records.files import read_record, sha256_of
from speedproof.records.run import Arm, Conditions

PLAN_FILE = "plan.json"
PREPARED_FOLDER = "prepared"
PREPARED_FILE = "prepared.json"
BLOCK_FILE = "block.json"
RUNS_FOLDER = "runs"


class Quality(BaseModel):
    """What counts as equal quality, fixed before the first run. Dice is the foreground's, by validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dice_targets: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [0.80, 0.90, 0.92, 0.94], description="The time to each of these Dice is measured"
    )
    dice_margin: float = Field(
        0.01, ge=0, lt=1, description="A speedup whose Dice is lower than the other side's by more than this is withheld"
    )
    judged_above: float = Field(
        0.90, ge=0, lt=1, description="Dice of the other side from which on that is judged: below, neither has learnt enough"
    )


class PlannedRun(BaseModel):
    """One run of a block's order."""

    model_config = ConfigDict(extra="forbid")

    variant: str
    arm: Arm
    repeat: int
    seed: int
    control: bool = False  # the first variant once more, to see how far it differs from itself


class Plan(BaseModel):
    """`plan.json`: the order, the ladder and the rule of quality, committed before the first run."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    block: str
    order: list[PlannedRun]
    ladder: list[str] = []
    quality: Quality = Quality()

    def folders(self) -> list[str]:
        """Return the name of each run's folder, `<nn>-<variant>-<arm>` or `<nn>-<variant>-control`, in order."""
        return [
            f"{number:02d}-{run.variant}-{'control' if run.control else run.arm}"
            for number, run in enumerate(self.order, start=1)
        ]


class PreparedFolder(BaseModel):
    """What filling a variant's `prepared_folder` took, in a process of its own before the block's first run."""

    model_config = ConfigDict(extra="forbid")

    variant: str
    seconds: float  # from the start of the process until every volume was kept
    volumes: int  # training and validation
    from_store: int  # of those, kept already by an earlier block or attempt


class Block(BaseModel):
    """`block.json`: written when every run of the plan is whole, or by closing the block; downstream steps start from it."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    block: str
    variants: list[str]  # as configured: the one that the others are compared with first
    pairs: list[tuple[str, str]] = []  # of variants that are compared besides
    ladder: list[str] = []  # variants, each one technique further than the one before
    quality: Quality = Quality()
    order: list[PlannedRun]
    runs: list[str]
    prepared: list[PreparedFolder] = []  # of each variant that has one: all its runs find every volume prepared
    kept: list[str]  # runs kept from an interrupted attempt on the same GPU
    left_out: list[str] = []  # profiled runs that a record leaves out to stay small
    undone: dict[str, str] = {}  # of a closed block: the planned runs that it lacks, in order, and how each ended
    conditions: Conditions
    digests: dict[str, str]  # SHA-256 of every table a later step reads, by path relative to the block


def read_block(folder: Path) -> Block:
    """Read a block's `block.json`."""
    return read_record(folder / BLOCK_FILE, Block)


def check_digests(folder: Path) -> None:
    """Check that every file of a finished block which a later step reads is what its `block.json` vouches for.

    Raises:
        RecordError: one is missing, or was changed

    """
    for name, digest in read_block(folder).digests.items():
        path = folder / name
        if not path.exists():
            raise RecordError(f"{path}: is missing, though its block had it; copy the whole block again, or run it again")
        if sha256_of(path) != digest:
            raise RecordError(f"{path}: was changed after its block ended; run the block again")
