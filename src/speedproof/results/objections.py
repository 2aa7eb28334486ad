"""What speaks against a ratio: a check that it did not pass, or a condition that its reader must know.

Here it is data; `report/objection_phrases.py` puts it into words.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ObjectionKind = Literal[
    "left processes",
    "clocks", "unsupported", "outside", "unobserved", "direction", "claimed ratio",
    "warm-up differs", "watched run differs", "watched run", "slowed", "may be slowed", "spoilt", "helped",
    "carried over", "warm caches", "changed packages", "changed links", "changed test data", "works when judged",
    "cores", "bytes read", "gpus",
    "order", "trend",
    "noise", "busy machine", "shared gpu", "stolen time", "cpu quota", "heat", "gpu clocks", "gpu still busy",
]  # fmt: skip
# What a user's own reason to trust reported times turns into conditions.
OF_REPORTED_TIMES: tuple[ObjectionKind, ...] = (
    "clocks", "unsupported", "outside", "unobserved", "direction", "claimed ratio",
)  # fmt: skip
MACHINE_KINDS: frozenset[ObjectionKind] = frozenset({"noise", "busy machine", "shared gpu", "stolen time", "cpu quota", "heat"})


class Objection(BaseModel):
    """One reason to doubt a ratio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ObjectionKind
    variant: str | None = Field(None, description="Whose runs it is about; null: both")
    blocks: bool = Field(description="Whether the outcome is inconclusive for it; else it is a condition")
    values: dict[str, float] = Field({}, description="The numbers that it rests on, by name")
    names: list[str] = Field([], description="The files, variables, processes or causes that it is about")


def list_leading(objections: Sequence[Objection], is_open: bool) -> list[Objection]:
    """Return the objections that a sentence begins with: those that block and, if its outcome `is_open`, why noise hides it."""
    noisy = is_open and any(one.kind == "noise" for one in objections)
    return [one for one in objections if one.blocks or (noisy and one.kind in MACHINE_KINDS)]
