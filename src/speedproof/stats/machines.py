"""On which machines experiments ran: a number of one machine holds there, one of three or more for their model of GPU."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from speedproof.results.comparison_rows import Scope
from speedproof.results.folder import MeasuredRun
from speedproof.stats.estimates import LEAST_HOSTS

HOSTS_UNKNOWN = "machines are told apart by their GPUs alone, since these experiments do not say on which host they ran"


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
    """Return of which experiments of these runs numbers are formed.

    Three hosts or more with one model of GPU give one number for it together; with fewer, each experiment gives its own, and
    they are not averaged. Without a GPU hosts cannot be told apart.
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
