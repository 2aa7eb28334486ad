"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class WarmUpTimes(BaseModel):
    """How long the discarded runs of a program took before its timed ones."""

    model_config = ConfigDict(extra="forbid")

    process_s: Duration
    shortest_epoch_s: Duration | None = None  # of several
    watched_s: Duration | None = None  # the process of the last one, which saw us; None: timed runs see us, too


class Observations(BaseModel):
    """What we saw of one run of a program."""

    model_config = ConfigDict(extra="forbid")

    left_processes: Count = 0  # that still ran when the program had ended, and were ended then
    warm_up: WarmUpTimes | None = None  # None: there was none
