"""Which experiments may have run on one host: their numbers count as those of one machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from speedproof.results.run_record import Run


@dataclass(frozen=True)
class _Stay:
    """An experiment's stay on its machine."""

    experiment: str
    started: str  # of its first run, ISO 8601 in UTC
    ended: str  # of its last run
    gpu_uuids: frozenset[str]
    host: str | None  # digest; None if the experiment did not record it


def group_by_host(experiments: Mapping[str, Sequence[Run]]) -> list[list[str]]:
    """Return the names of experiments in groups, in order: each group may have run on one host.

    Two may have shared a host if they saw the same GPU or recorded the same host. They may also have shared one if they ran at
    the same time and one of them did not record its host.
    """
    stays = [
        _Stay(
            experiment=experiment,
            started=min(run.started for run in own),
            ended=max(run.ended for run in own),
            gpu_uuids=frozenset().union(*(run.conditions.seen_gpus() for run in own)),
            host=own[0].conditions.host,
        )
        for experiment, own in experiments.items()
    ]
    groups = [[stay] for stay in stays]
    for one, other in combinations(stays, 2):
        if _may_share(one, other):
            first, second = (next(group for group in groups if stay in group) for stay in (one, other))
            if first is not second:
                first += second
                groups.remove(second)
    return [[stay.experiment for stay in group] for group in groups]


def _may_share(one: _Stay, other: _Stay) -> bool:
    if one.gpu_uuids & other.gpu_uuids:
        return True
    if one.host is not None and other.host is not None:
        return one.host == other.host
    return one.started < other.ended and other.started < one.ended
