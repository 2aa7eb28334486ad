"""Which blocks may have run on one host, by what they wrote down."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Stay:
    """A block's stay on its machine."""

    block: str
    started: str  # of its first run, ISO 8601 in UTC
    ended: str  # of its last run
    gpu_uuids: frozenset[str]
    host: str | None  # digest; None where the block does not say


def group_by_host(stays: Sequence[Stay]) -> list[list[str]]:
    """Return the names of blocks, in order, those that may have run on one host together.

    They may where they saw the same GPU or tell the same host. Where one does not tell its host, and they ran at the same time,
    nothing says that they did not share one.
    """
    groups = [[stay] for stay in stays]
    for one, other in combinations(stays, 2):
        if _may_share(one, other):
            first, second = (next(group for group in groups if stay in group) for stay in (one, other))
            if first is not second:
                first += second
                groups.remove(second)
    return [[stay.block for stay in group] for group in groups]


def _may_share(one: Stay, other: Stay) -> bool:
    if one.gpu_uuids & other.gpu_uuids:
        return True
    if one.host is not None and other.host is not None:
        return one.host == other.host
    return one.started < other.ended and other.started < one.ended
