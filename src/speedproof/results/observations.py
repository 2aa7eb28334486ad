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
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None  # of all its processes that ended; None: not known
    read_bytes: Count | None = None  # that these read in all, from files in memory, pipes and sockets too; None: not known
    storage_bytes: Count | None = None  # of those, from storage
    gpus: Count | None = None  # that it computed on, by NVML; None: not known
