"""What speaks against a ratio: a check that it did not pass, or a condition that its reader must know.

Here it is data; `report/objection_phrases.py` puts it into words.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ObjectionKind = Literal["left processes", "carried over", "warm caches", "changed packages"]


class Objection(BaseModel):
    """One reason to doubt a ratio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ObjectionKind
    variant: str | None = Field(None, description="Whose runs it is about; null: both")
    blocks: bool = Field(description="Whether the outcome is inconclusive for it; else it is a condition")
    values: dict[str, float] = Field({}, description="The numbers that it rests on, by name")
    names: list[str] = Field([], description="The files, variables or processes that it is about")
