"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.quality import Finite

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# Whether our clock saw each epoch end. If not, why:
# together: several reports came in one read, or faster than the epochs that they report can have taken
# file: the file was written at once, or is of a format whose rows are not appended
# replaced: the program put a file of its own in the place of the pipe for its marks
# none: there are fewer than two epochs
Arrivals = Literal["seen", "together", "file", "replaced", "none"]


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
    arrivals: Arrivals = "none"
    rates: bool = False  # whether its epochs are printed rates: one sample each
    start_up_s: _Seconds | None = None  # from the launch to the first epoch, by our clock; None: not seen
    after_s: _Seconds | None = None  # from the last epoch's end until the program and its children had ended; None: not seen
    warm_up: WarmUpTimes | None = None  # None: there was none
    quality: Finite | None = None  # of what it left, by the quality command; None: there is no such command
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None  # of all its processes that ended; None: not known
    read_bytes: Count | None = None  # that these read in all, from files in memory, pipes and sockets too; None: not known
    storage_bytes: Count | None = None  # of those, from storage
    gpus: Count | None = None  # that it computed on, by NVML; None: not known
