"""On which machines experiments ran: a number of one machine holds there, one of three or more for their model of GPU."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median
from typing import TYPE_CHECKING, TypedDict

from speedproof.results.comparison_rows import Objection, ObjectionKind, Scope
from speedproof.results.folder import MeasuredRun
from speedproof.results.observations import BUSY_FROM, MachineLoad
from speedproof.stats.comparability import HEAT_REASONS, SLOWING_REASONS, list_throttle_reasons
from speedproof.stats.estimates import LEAST_HOSTS
from speedproof.stats.metrics import METRICS

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


HOSTS_UNKNOWN = "machines are identified by their GPUs only, because these experiments do not record their host"


class Stated(TypedDict):
    """Which machines a number is of."""

    scope: Scope
    experiment: str | None
    hosts: int
    runs_beside: int


@dataclass(frozen=True)
class Sample:
    """The experiments that one number is of: one, or those of three or more hosts with one model of GPU."""

    scope: Scope
    hosts: list[list[str]]  # names of experiments, by host
    runs_beside: int = 0  # runs beside which another experiment measured on the machine

    @property
    def experiment(self) -> str | None:
        """Return the only experiment; None of several hosts'."""
        return self.hosts[0][0] if self.scope == "here" else None

    @property
    def stated(self) -> Stated:
        """Return how a record's row says which machines its number is of."""
        return {
            "scope": self.scope,
            "experiment": self.experiment,
            "hosts": len(self.hosts),
            "runs_beside": self.runs_beside,
        }

    @property
    def experiments(self) -> set[str]:
        return {experiment for host in self.hosts for experiment in host}


def list_samples(runs: Sequence[MeasuredRun]) -> list[Sample]:
    """Return the groups of experiments that give a number each.

    Three hosts or more with one model of GPU give one number for it together; with fewer, each experiment gives its own, and
    they are not averaged. Without a GPU, hosts cannot be identified.
    """
    models: dict[str | None, dict[str, str]] = {}  # of each model its experiments, and each experiment's host
    beside = Counter(run.experiment for run in runs if run.had_company)
    for run in runs:
        gpu = run.run.conditions.gpu
        models.setdefault(gpu.name if gpu else None, {}).setdefault(run.experiment, run.host)
    samples: list[Sample] = []
    for model, host_of in models.items():
        hosts = [[experiment for experiment, own in host_of.items() if own == host] for host in dict.fromkeys(host_of.values())]
        if model is not None and len(hosts) >= LEAST_HOSTS:
            samples.append(Sample("model", hosts, sum(beside[experiment] for experiment in host_of)))
        else:
            samples += [Sample("here", [[experiment]], beside[experiment]) for experiment in host_of]
    return samples


def hosts_are_known(runs: Sequence[MeasuredRun]) -> bool:
    """Return whether every run says on which host it ran."""
    return all(run.run.conditions.host is not None for run in runs)


# Of the cores: 0.2 % at most in 32 runs of a second on a virtual machine of 16 cores, 0.1 % in eight on one of two.
_STOLEN_FROM = 0.01
_QUOTA_FROM = 0.01  # of the runs' time: without a quota it is exactly 0
# Of the samples in which the GPU was not idle: in the timed runs of all records at most 2.6 %, none of it by heat.
_HELD_MORE_BY = 0.05
_MOST_NAMED = 3
# Of the cores: a program whose threads take as many as the machine has is held up by any other program.
_MOST_CORES = 0.75


def check_machine(examined: "Examined") -> list[Objection]:
    """Object to what the machine did besides during a ratio's runs; of records that do not tell, to nothing."""
    runs = [run for pair in examined.pairs for run in pair]
    loads = [run.run.observed.machine for run in runs if run.run.observed and run.run.observed.machine]
    if len(loads) < len(runs):
        return []
    return [*_find_noise(examined), *_find_company(loads), *_find_held_cores(loads), *_find_held_gpu(examined)]


def _find_company(loads: Sequence[MachineLoad]) -> Iterator[Objection]:
    """Yield that other programs took the cores, or were on the GPU."""
    watched_s, cores = sum(load.seconds for load in loads), max(load.cores for load in loads)
    others_s = _total(loads, lambda load: load.others_cpu_s)
    if watched_s and others_s > BUSY_FROM * cores * watched_s:
        yield _condition("busy machine", others_cores=others_s / watched_s, cores=cores)
    on_gpu = list(dict.fromkeys(name for load in loads for name in load.gpu_processes))
    if on_gpu:
        yield Objection(kind="shared gpu", blocks=False, values={"processes": len(on_gpu)}, names=on_gpu[:_MOST_NAMED])


def _find_held_cores(loads: Sequence[MachineLoad]) -> Iterator[Objection]:
    """Yield that the hypervisor, a quota or heat held the cores back."""
    watched_s, cores = sum(load.seconds for load in loads), max(load.cores for load in loads)
    stolen_s = _total(loads, lambda load: load.stolen_s)
    if watched_s and stolen_s > _STOLEN_FROM * cores * watched_s:
        yield _condition("stolen time", stolen_cores=stolen_s / watched_s, cores=cores)
    held_s = _total(loads, lambda load: load.quota_throttled_s)
    if held_s > _QUOTA_FROM * watched_s:
        yield _condition("cpu quota", held_s=held_s, watched_s=watched_s)
    if events := _total(loads, lambda load: load.thermal_events):
        yield _condition("heat", events=events)


def _find_noise(examined: "Examined") -> Iterator[Objection]:
    """Yield that runs of one variant differ by more than the variants do, if which is faster is open."""
    if examined.outcome != "inconclusive":
        return
    spread = max(_typical_difference(values) for values in zip(*examined.values, strict=True))
    effect = abs(math.log(examined.centre))
    if spread > effect:
        yield _condition("noise", spread=math.expm1(spread), effect=math.expm1(effect), **_find_all_cores(examined))


def _find_all_cores(examined: "Examined") -> dict[str, float]:
    """Return how many cores the busier variant uses, if that is nearly all of several: its threads wait for each other's."""
    seen = [[one.run.observed for one in runs if one.run.observed] for runs in zip(*examined.pairs, strict=True)]
    cores = max(one.machine.cores for of_variant in seen for one in of_variant if one.machine)
    used = max(
        median((one.cpu_s or 0.0) / one.machine.seconds for one in of_variant if one.machine and one.machine.seconds)
        for of_variant in seen
    )
    return {"used_cores": used, "cores": float(cores)} if cores > 1 and used >= _MOST_CORES * cores else {}


def _typical_difference(values: Sequence[float]) -> float:
    """Return by how much two runs of one variant differ: the median over all pairs of them, as a logarithm."""
    differences = [abs(math.log(one / other)) for one, other in combinations(values, 2)]
    return median(differences) if differences else 0.0


@dataclass(frozen=True)
class _GpuClocks:
    """How a variant's GPUs were clocked while they worked."""

    held: float  # share of the samples in which they were held down
    hot: float  # the same, by heat or a power brake
    mean_mhz: float


def _find_held_gpu(examined: "Examined") -> Iterator[Objection]:
    """Yield that the GPU's clocks were held down in the runs of one variant more than in the other's.

    It blocks if heat did so and the lower clock explains the gain. A power cap does not block: a program that draws more
    power is held down more, on any such GPU.
    """
    if not METRICS[examined.metric].lower_is_better:
        return
    first, second = (_read_clocks(runs) for runs in zip(*examined.pairs, strict=True))
    if first is None or second is None or abs(first.held - second.held) <= _HELD_MORE_BY:
        return
    whose, gain = examined.reference, examined.centre
    if second.held > first.held:
        whose, gain, first, second = examined.candidate, 1 / examined.centre, second, first
    ratio = second.mean_mhz / first.mean_mhz
    if ratio < 1 + examined.equivalence_margin:  # too little to change an outcome
        return
    explains = 1 < gain <= ratio * (1 + examined.equivalence_margin)
    values = {"held": first.held, "other_held": second.held, "clock_ratio": ratio}
    yield Objection(kind="gpu clocks", variant=whose, blocks=explains and first.hot - second.hot > _HELD_MORE_BY, values=values)


def _read_clocks(runs: Sequence[MeasuredRun]) -> _GpuClocks | None:
    """Return how the GPUs of a variant's runs were clocked; None if no sample tells."""
    reasons = [found for run in runs for found in list_throttle_reasons(run)]
    clocks = [clock for run in runs for clock in _list_busy_clocks(run)]
    if not reasons or not clocks:
        return None
    held = fmean(bool(found & SLOWING_REASONS) for found in reasons)
    return _GpuClocks(held, fmean(bool(found & HEAT_REASONS) for found in reasons), fmean(clocks))


def _list_busy_clocks(run: MeasuredRun) -> list[float]:
    """Return the clock in each sample of a run in which its GPUs were not idle."""
    if "busy clocks" not in run.derived:  # each metric asks
        found: list[float] = []
        for table in run.gpu_samples:
            reasons = table["throttle_reasons"]
            busy = reasons.notna() & ~reasons.astype(str).str.contains("gpu idle", regex=False)
            found += table["sm_clock_mhz"][busy & (table["sm_clock_mhz"] > 0)].tolist()
        run.derived["busy clocks"] = found
    return list(run.derived["busy clocks"])


def _total(loads: Sequence[MachineLoad], read: Callable[[MachineLoad], float | None]) -> float:
    return sum(read(load) or 0.0 for load in loads)


def _condition(kind: ObjectionKind, **values: float) -> Objection:
    return Objection(kind=kind, blocks=False, values=values)
