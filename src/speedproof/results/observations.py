"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# The share of the cores that other programs take on a machine that is not quiet any more. On an idle one of 16 cores it was at
# most 0.4 % of a second (32 runs: one core busy, all busy in NumPy, files written, asleep), which is 3 % of two cores; beside
# other work on two cores, 60 to 100 %.
BUSY_FROM = 0.05


class MachineLoad(BaseModel):
    """What else the machine did during a run. None: the system does not tell."""

    model_config = ConfigDict(extra="forbid")

    cores: Annotated[int, Field(ge=1)]  # that the run may use
    seconds: _NotNegative  # for which the machine was watched
    load: _NotNegative | None = None  # average of the last minute, when the run began
    others_cpu_s: _NotNegative | None = None  # CPU time that other programs took on these cores
    stolen_s: _NotNegative | None = None  # in which the hypervisor gave these cores to others
    quota_throttled_s: _NotNegative | None = None  # in which a CPU quota held the run back, all cores together
    thermal_events: Count | None = None  # in which heat held a core's clock down
    clock_mhz: _NotNegative | None = None  # of the first cores, mean over the run
    gpu_processes: list[str] = []  # of others, on the run's GPUs

    @property
    def others_share(self) -> float | None:
        """Return which share of the cores other programs took; None if that is not known."""
        core_s = self.cores * self.seconds
        return self.others_cpu_s / core_s if self.others_cpu_s is not None and core_s else None

    @property
    def others_cores(self) -> float:
        """Return how many cores other programs took, as far as is known."""
        return self.cores * (self.others_share or 0.0)

    @property
    def is_busy(self) -> bool:
        """Return whether other programs took so much that times suffer."""
        return (self.others_share or 0.0) > BUSY_FROM


class Observations(BaseModel):
    """What we saw of one run of a program."""

    model_config = ConfigDict(extra="forbid")

    left_processes: Count = 0  # that still ran when the program had ended, and were ended then
    machine: MachineLoad | None = None  # None: in records of before it was observed
    epochs_ended_unix_ns: list[Count] = []  # of a profiled run: when each epoch's line or mark came, on the system's clock
