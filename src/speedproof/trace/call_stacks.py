"""Who called whom on the CPU: operators and functions of Python by thread, and what to call a moment after."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.trace.events import Names, bounds_of, cover_events, make_names
from speedproof.trace.intervals import Array, Intervals, coverage, find_parents, holder, innermost

Flags = NDArray[np.bool_]

_CODE = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
# The files that torch.compile writes have a hash for a name.
_COMPILED_FILE = re.compile(r"(?<![a-z0-9])(c[a-z2-7]{7})[a-z2-7]{44}(?=\.py\()")
# Torch and Python themselves: of what these do, a reader wants to know which function of the program asked for it.
_NOT_THE_PROGRAM = frozenset({"torch", *sys.stdlib_module_names})
# What writes for people; whatever it calls in turn is the same.
_WRITES = re.compile(
    r"<built-in function print>|<built-in method (write|flush) of .*|logging/__init__\.py\(.*"
    r"|(.*/)?(tensorboard|tensorboardX|wandb|mlflow)/.*"
)


@dataclass(frozen=True)
class CallStacks:
    """Calls of some threads, and the pieces of time in which each is the innermost of its thread."""

    calls: pd.DataFrame  # start_ns, end_ns, process, thread, kind, name; by thread, then by start, the longer first
    parent: Array  # the row of each call's caller; the number of calls if it has none
    pieces: pd.DataFrame  # start_ns, end_ns, thread, row: of the innermost call; of one thread disjoint and in order

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def is_operator(self) -> Flags:
        return (self.calls["kind"] == "operator").to_numpy()

    def named(self, wanted: Callable[[str], object]) -> Flags:
        """Return which calls have a name that is wanted."""
        names = self.calls["name"].array
        return np.array([*(bool(wanted(str(name))) for name in names.categories), False])[names.codes]

    def cover(self, calls: Flags) -> Intervals:
        return cover_events(self.calls[calls])

    def nearest(self, wanted: Flags) -> Array:
        """Return for each call, and for no call, the row of the innermost wanted one around it, itself included."""
        rows = np.append(np.where(wanted, np.arange(len(self)), self.parent), len(self))
        while True:  # doubles the length of what is passed with each turn
            further = rows[rows]
            if (further == rows).all():
                return rows
            rows = further

    def above(self, wanted: Flags) -> Array:
        """Return for each call, and for no call, the row of the innermost wanted one around it, itself excluded."""
        return self.nearest(wanted)[np.append(self.parent, len(self))]

    def outermost(self, wanted: Flags) -> Array:
        """Return for each call, and for no call, the row of the outermost wanted one around it, itself included."""
        rows, above = self.nearest(wanted), self.above(wanted)
        top = np.where(above < len(self), above, np.arange(len(self) + 1))
        while True:
            further = top[top]
            if (further == top).all():
                return top[rows]
            top = further

    def find_at(self, thread: Array, moment: Array) -> Array:
        """Return the row of the innermost call of each thread at a moment; the number of calls if there is none."""
        found = np.full(len(moment), len(self))
        for number in np.unique(thread):
            mine = self.pieces[self.pieces["thread"] == number]
            asked = np.flatnonzero(thread == number)
            at = holder(Intervals(*bounds_of(mine)), moment[asked])
            found[asked] = np.append(mine["row"].to_numpy(), len(self))[at]
        return found

    def pieces_in(self, idle: Intervals) -> pd.DataFrame:
        return self.pieces[coverage(idle, *bounds_of(self.pieces)) > 0]


def find_stacks(calls: pd.DataFrame) -> CallStacks:
    """Find the caller of each call."""
    calls = calls[calls["start_ns"] < calls["end_ns"]]
    order = np.lexsort((-calls["end_ns"].to_numpy(), calls["start_ns"].to_numpy(), calls["thread"].to_numpy()))
    calls = calls.iloc[order].reset_index(drop=True)
    threads, first, count = np.unique(calls["thread"].to_numpy(), return_index=True, return_counts=True)
    parent, tables = np.full(len(calls), len(calls)), []
    for thread, begin, end in zip(threads.tolist(), first, first + count, strict=True):
        bounds = bounds_of(calls.iloc[begin:end])
        within = find_parents(*bounds)
        parent[begin:end] = np.where(within < end - begin, within + begin, len(calls))
        pieces, row = innermost(*bounds)
        tables.append(pd.DataFrame({"start_ns": pieces.start, "end_ns": pieces.end, "thread": thread, "row": row + begin}))
    empty = pd.DataFrame({name: np.zeros(0, np.int64) for name in ("start_ns", "end_ns", "thread", "row")})
    return CallStacks(calls, parent, pd.concat(tables, ignore_index=True) if tables else empty)


class CallNamer:
    """Names calls after the program's function in which they are, the outermost operator, and their own."""

    def __init__(self, stacks: CallStacks) -> None:
        none = len(stacks)
        names = stacks.calls["name"].array
        self._texts = np.array([*(_COMPILED_FILE.sub(r"\1…", str(name)) for name in names.categories), ""], object)
        codes = np.append(names.codes.astype(np.int64), len(names.categories))
        function, code = stacks.nearest(stacks.named(_is_of_program)), stacks.nearest(stacks.named(_CODE.fullmatch))
        self.function = np.where(function < none, function, code)  # rows, as the following
        self.operator = stacks.outermost(stacks.is_operator)
        writes = stacks.outermost(stacks.named(_WRITES.fullmatch))
        self.writes = writes < none
        self.own = np.where(self.writes, writes, np.arange(none + 1))
        self._codes = codes

    def name(self, rows: Array, own: "Names | None" = None) -> Names:
        """Return e.g. `train.py(12): step > aten::item > cudaStreamSynchronize`; `own` stands in place of the calls' names."""
        texts = self._texts if own is None else np.append(self._texts, np.array([*map(str, own.categories)], object))
        last = self._codes[self.own[rows]] if own is None else len(self._texts) + own.codes.astype(np.int64)
        parts = [self._codes[self.function[rows]], self._codes[self.operator[rows]], last]
        joined, distinct = pd.factorize(parts[0] * len(texts) + parts[1])
        joined, both = pd.factorize(joined * len(texts) + parts[2])
        heads = [(*divmod(int(distinct[one // len(texts)]), len(texts)), int(one % len(texts))) for one in both]
        return _collect([" > ".join(dict.fromkeys(filter(None, texts[list(head)]))) for head in heads], joined)

    def name_function(self, rows: Array) -> Names:
        return _collect([*map(str, self._texts)], self._codes[self.function[rows]])

    def name_term(self, rows: Array) -> Names:
        """Return what a call is in any version of a program: its outermost operator, else its function, without the line."""
        operator = self._codes[self.operator[rows]]
        none = len(self._texts) - 1
        code = np.where(operator < none, operator, self._codes[self.function[rows]])
        code = np.where(code < none, code, self._codes[self.own[rows]])
        return _collect([_without_line(str(text)) for text in self._texts], code)


def _is_of_program(name: str) -> bool:
    found = _CODE.fullmatch(name)
    if not found or found["file"].startswith("<"):
        return False
    return re.split(r"[/.\\]", found["file"], maxsplit=1)[0] not in _NOT_THE_PROGRAM


def _without_line(name: str) -> str:
    found = _CODE.fullmatch(name)
    return f"{found['file']}: {found['function']}" if found else name


def _collect(texts: list[str], codes: Array) -> Names:
    """Return the texts with these numbers; equal ones become one."""
    same, distinct = pd.factorize(np.array(texts, object)) if texts else (np.zeros(0, np.int64), np.zeros(0, object))
    return make_names(np.append(same, -1)[codes], distinct)
