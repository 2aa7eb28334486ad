"""Which process group each collective of a torch.profiler trace belongs to, and which rank of the run recorded it.

PyTorch writes both as arguments: of the communication kernel, or, in versions before 2.3, of the operator
`record_param_comms` that launches it. The name of a group alone does not tell groups apart: each rank counts its own.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import make_raw_table

_OPERATOR = "record_param_comms"
_COLLECTIVE, _GROUP, _MEMBERS, _SIZE = "Collective name", "Process Group Name", "Process Group Ranks", "Group size"
_EXTERNAL = "External id"
_KERNEL = re.compile(r"nccl", re.IGNORECASE)
_DISTRIBUTED = re.compile(r'"distributedInfo"\s*:\s*')
_RANKS = re.compile(r"\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]")
_MOST_RANKS = 1_000_000


class RankInfo(NamedTuple):
    """Which rank recorded a trace, and of how many; None: the trace does not tell."""

    rank: int | None = None
    ranks: int | None = None


class _Call(NamedTuple):
    """What PyTorch writes of one collective."""

    name: str
    group: str
    members: str
    size: object


class Collectives:
    """The communication kernels of a trace, with what PyTorch reports of each."""

    def __init__(self) -> None:
        self._kernels: list[tuple[Mapping[str, Any], _Call | None, object]] = []
        self._operators: dict[object, _Call] = {}

    def add(self, table: str, values: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        """Take an event of a table, with the values of its columns."""
        if table == "kernels" and (_COLLECTIVE in arguments or _KERNEL.search(values["name"])):
            self._kernels.append((values, _read_call(arguments), arguments.get(_EXTERNAL)))
        elif table == "operators" and values["name"] == _OPERATOR and (call := _read_call(arguments)) is not None:
            self._operators[str(arguments.get(_EXTERNAL))] = call

    def make_table(self, info: RankInfo, kernels: pa.Table) -> pa.Table:
        """Return the raw table of collectives; `kernels` lacks those that have no time."""
        rows = []
        first_ns = pc.min(kernels["start_ns"]).as_py()
        for values, own, external in self._kernels:
            call = own or self._operators.get(str(external))
            if call is not None and first_ns is not None and values["start_ns"] >= first_ns:
                place = {name: values[name] for name in ("start_ns", "device", "stream")}
                rows.append(place | {"name": call.name, "group": call.group, "members": _list_members(call, info)})
        names = ("start_ns", "device", "stream", "name", "group", "members")
        return make_raw_table("collectives", {name: [row[name] for row in rows] for name in names}, len(rows))


def read_rank(head: str) -> RankInfo:
    """Return which rank recorded a trace, by what stands before its events."""
    given: object = None
    with suppress(ValueError, RecursionError):
        if found := _DISTRIBUTED.search(head):
            given, _ = json.JSONDecoder().raw_decode(head, found.end())
    if not isinstance(given, dict):
        return RankInfo()
    rank, ranks = given.get("rank"), given.get("world_size")
    if type(rank) is int and type(ranks) is int and 0 <= rank < ranks <= _MOST_RANKS:
        return RankInfo(rank, ranks)
    return RankInfo()


def _read_call(arguments: Mapping[str, Any]) -> _Call | None:
    if _GROUP not in arguments and _MEMBERS not in arguments:
        return None
    name, group, members = (str(arguments.get(key, "")) for key in (_COLLECTIVE, _GROUP, _MEMBERS))
    return _Call(name.lower().strip("_"), group, members, arguments.get(_SIZE))


def _list_members(call: _Call, info: RankInfo) -> str:
    """Return the ranks of a group, as numbers with blanks between; empty if they are unknown, as those of long lists are."""
    if _RANKS.fullmatch(call.members.strip()):
        return " ".join(map(str, sorted({int(rank) for rank in re.findall(r"\d+", call.members)})))
    if info.ranks is not None and call.size == info.ranks:
        return " ".join(map(str, range(info.ranks)))
    return ""
