"""What was observed of a run from outside, whatever its program reports."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.quality import Finite

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]

# Whether our clock saw each epoch end. If not, why:
# together: several reports came in one read, or faster than the epochs that they report can have taken
# file: the file was written at once, or is of a format whose rows are not appended
# replaced: the program put a file of its own in the place of the pipe for its marks
# none: there are fewer than two epochs, or no report of their ends reached us
Arrivals = Literal["seen", "together", "file", "replaced", "none"]
# Why it did not, as results name it. none: fewer than two epochs; silent: more, and no report of their ends reached us
Unseen = Literal["together", "file", "replaced", "none", "silent"]
_LEAST_ENDS = 2

# The share of the cores that other programs take on a machine that is not quiet any more. On an idle one of 16 cores it was at
# most 0.4 % of a second (32 runs: one core busy, all busy in NumPy, files written, asleep), which is 3 % of two cores; beside
# other work on two cores, 60 to 100 %.
BUSY_FROM = 0.05
MOST_CHANGED = 40  # files that a record names
# How the names of files outside of the working folder begin; the last two in records, which keep no machine's paths.
TEMPORARY, ELSEWHERE = "<tmp>/", "<path>/"
OUTSIDE = ("/", "~", TEMPORARY, ELSEWHERE)


def name_unseen(arrivals: Arrivals, epochs: int) -> Unseen | None:
    """Return why our clock did not see so many epochs end; None if it did."""
    if arrivals == "seen":
        return None
    return "silent" if arrivals == "none" and epochs >= _LEAST_ENDS else arrivals


class RunWithout(BaseModel):
    """One more run of a variant, just before the timed ones, which did not see files that warm-ups created elsewhere."""

    model_config = ConfigDict(extra="forbid")

    process_s: Duration
    epoch_s: Duration | None = None  # its average epoch; None: it reports no epochs
    names: list[str]  # what it did not see
    own: bool  # whether its own warm-up created them: that did not see them, either

    def hides(self, name: str) -> bool:
        """Return whether it did not see a file, or the folder in which it lies."""
        return any(f"{name}/".startswith(f"{hidden}/") for hidden in self.names)


class CountedFlop(BaseModel):
    """What torch's counter saw a variant compute in one discarded run."""

    model_config = ConfigDict(extra="forbid")

    of: Literal["epoch", "process"]  # process: our clock did not see its epochs end
    device: str  # kind of device: cuda, cpu
    flop: dict[str, Count]  # by type of the numbers; empty: nothing was counted
    # The share of that epoch or process that its reported times covered in this run: a program may time its training alone.
    reported_share: Annotated[float, Field(gt=0, le=1)] | None = None  # None: it reports no times

    @property
    def total(self) -> int:
        return sum(self.flop.values())


class WarmUpObserved(BaseModel):
    """What we saw of a variant's warm-up, with which its timed runs are compared."""

    model_config = ConfigDict(extra="forbid")

    process_s: Duration
    epoch_s: Duration | None = None  # as the metric training_epoch_s has it; None: it reports no epochs
    typical_epoch_s: Duration | None = None  # the median, which a few epochs that compile do not change; None: not recorded
    shortest_epoch_s: Duration | None = None  # of several
    began_unix_ns: Count | None = None  # None: not recorded
    # Printed lines that count up, by a digest of their words: how many, which of their numbers counts, and its first value.
    steps: dict[str, list[Count]] = {}
    watched_s: Duration | None = None  # the process of the last one, which saw us; None: timed runs see us, too
    changed: list[str] = []  # files that later runs see
    changed_code: list[str] = []  # of these, modules of the interpreter's packages
    kept_caches: Count = 0  # files of compile caches that each run finds as the warm-up left them
    without: list[RunWithout] = []  # none: no warm-up that it came after, nor its own, created files elsewhere
    not_hidden: list[str] = []  # what earlier warm-ups of others changed and nothing can be run without
    own_not_hidden: list[str] = []  # what its own created and nothing can be run without
    flop: CountedFlop | None = None  # None: not asked for
    spoilt: list[str] = []  # linked files and packages that earlier warm-ups of others removed, or changed before it read them


class MachineLoad(BaseModel):
    """What else the machine did during a run. None: the system does not tell."""

    model_config = ConfigDict(extra="forbid")

    cores: Annotated[int, Field(ge=1)]  # that the run may use
    seconds: Duration  # for which the machine was watched
    load: Duration | None = None  # average of the last minute, when the run began
    others_cpu_s: Duration | None = None  # CPU time that other programs took on these cores
    stolen_s: Duration | None = None  # in which the hypervisor gave these cores to others
    quota_throttled_s: Duration | None = None  # in which a CPU quota held the run back, all cores together
    thermal_events: Count | None = None  # in which heat held a core's clock down
    clock_mhz: Duration | None = None  # of the first cores, mean over the run
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
    left_cpu_s: Duration | None = None  # that these had used by then; None: not known
    arrivals: Arrivals = "none"
    ranks: Annotated[int, Field(ge=1)] = 1  # that its program starts itself, each of which may report an epoch
    rates: bool = False  # whether its epochs are printed rates: one sample each
    start_up_s: Duration | None = None  # from the launch to the first epoch, by our clock; None: not seen
    after_s: Duration | None = None  # from the last epoch's end until the program and its children had ended; None: not seen
    changed: list[str] = []  # files that later runs see, at most :data:`MOST_CHANGED`
    changed_code: list[str] = []  # of these, modules of the interpreter's packages
    warm_up: WarmUpObserved | None = None  # None: there was none
    qualities: Count | None = None  # of how many its best one is: those it reported, or one that was measured; None: not known
    quality: Finite | None = None  # of what it left, by the quality command; None: there is no such command
    judging_s: Duration | None = None  # how long the quality command took; None: there is none, or it was not recorded
    # Files outside of its folder that the quality command read, and that it or an earlier run of any variant changed.
    judged_by: list[str] = []
    cpu_s: Duration | None = None  # of all its processes that ended; None: not known
    read_bytes: Count | None = None  # that these read in all, from files in memory, pipes and sockets too; None: not known
    storage_bytes: Count | None = None  # of those, from storage
    gpus: Count | None = None  # that it computed on, by NVML; None: not known
    machine: MachineLoad | None = None  # None: in records of before it was observed
    epochs_ended_unix_ns: list[Count] = []  # of a profiled run: when each epoch's line or mark came, on the system's clock
