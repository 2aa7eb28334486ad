"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MOST_CHANGED = 40  # files that a record names


class WarmUpObserved(BaseModel):
    """What we saw of a variant's warm-up, beside which its runs stand."""

    model_config = ConfigDict(extra="forbid")

    process_s: Duration
    epoch_s: Duration | None = None  # as the metric training_epoch_s has it; None: it reports no epochs
    changed: list[str] = []  # files that later runs see
    changed_code: list[str] = []  # of these, modules of the interpreter's packages
    kept_caches: Count = 0  # files of compile caches that each run finds as the warm-up left them


class Observations(BaseModel):
    """What we saw of one run of a program."""

    model_config = ConfigDict(extra="forbid")

    left_processes: Count = 0  # that still ran when the program had ended, and were ended then
    changed: list[str] = []  # files that later runs see, at most :data:`MOST_CHANGED`
    changed_code: list[str] = []  # of these, modules of the interpreter's packages
    warm_up: WarmUpObserved | None = None  # None: there was none
