"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.quality import Finite

Count = Annotated[int, Field(ge=0)]


class Observations(BaseModel):
    """What we saw of one run of a program."""

    model_config = ConfigDict(extra="forbid")

    left_processes: Count = 0  # that still ran when the program had ended, and were ended then
    quality: Finite | None = None  # of what it left, by the quality command; None: there is no such command
