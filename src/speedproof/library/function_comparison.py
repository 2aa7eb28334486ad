"""What `speedproof.compare` found of two functions, as an object."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NoReturn

import pandas as pd

from speedproof.library.comparing import TimedRound
from speedproof.library.function_timing import Function
from speedproof.library.guest import as_guest
from speedproof.library.html_table import write_html
from speedproof.report.trace_listings import Listing
from speedproof.results.claim import read_claim
from speedproof.results.experiment import StopReason
from speedproof.run.paired_rounds import PairedRounds
from speedproof.stats.estimates import LEAST_PAIRS, Interval, judge_within_margin
from speedproof.stats.proof_claim import Proof
from speedproof.stats.sequential import find_latest_look, repeat_interval
from speedproof.util.numbers import format_count, format_duration, format_ratio, format_value
from speedproof.util.text import plain


@dataclass(frozen=True, repr=False)
class FunctionComparison:
    """What was found of two functions. A notebook shows it as its sentence and a table."""

    outcome: Proof
    ratio: float  # how many times as fast the new function is as the old one
    interval: tuple[float, float] | None  # 95 %; None: fewer than four pairs
    pairs: int
    claim: str | None
    old_s: float  # seconds per call
    new_s: float
    clock: str
    stopped: StopReason
    sentence: str
    rounds: Sequence[TimedRound]

    @property
    def holds(self) -> bool:
        """Return whether the claim holds; without a claim, whether the new function is faster."""
        return self.outcome == ("faster" if self.claim is None else "claim holds")

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each round: seconds per call of both functions, and their ratio."""
        with as_guest():
            rows = [(number, one.old_s, one.new_s, one.old_s / one.new_s) for number, one in enumerate(self.rounds, start=1)]
            return pd.DataFrame(rows, columns=["round", "old_s", "new_s", "ratio"])

    def __bool__(self) -> NoReturn:
        raise TypeError("a comparison is neither true nor false; assert its `.holds`")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        ratio, interval = _format_ratio(self.ratio, self.interval)
        row = [format_value(self.old_s, "s"), format_value(self.new_s, "s"), ratio, interval, str(self.pairs), self.outcome]
        columns = [">old, per call", ">new, per call", ">ratio", ">95 % interval", ">pairs", "outcome"]
        return write_html([self.sentence], Listing("", columns, [row]))


def describe_comparison(
    functions: tuple[Function, Function],
    claim: str | None,
    margin: float,
    budget_s: float,
    rounds: Sequence[TimedRound],
    measured: PairedRounds,
    clock: str,
) -> FunctionComparison:
    """Return the result of measured rounds; its ratio and interval are those of the latest look."""
    pairs = find_latest_look(len(measured.logs)) or len(measured.logs)
    logs = measured.logs[:pairs]
    ratio, of_logs = math.exp(fmean(logs)), repeat_interval(logs)
    found = None if of_logs is None else of_logs.exponential
    interval = None if found is None else (found.low, found.high)
    outcome = _judge(found, claim, margin)
    old, new = _name_functions(*functions)
    value, ends = _format_ratio(ratio, interval)
    spread = f"95 % interval {ends}, " if interval else ""
    verb = "is" if outcome != "inconclusive" else "measured"
    sentence = f"{_begin(outcome, claim)}{new} {verb} {value} as fast as {old} ({spread}{format_count(pairs, 'pair')})."
    if outcome == "inconclusive":
        sentence += f" {_advise(pairs, budget_s, measured.stopped)}"
    old_s, new_s = (fmean(times) for times in ([one.old_s for one in rounds], [one.new_s for one in rounds]))
    return FunctionComparison(
        outcome, ratio, interval, pairs, claim, old_s, new_s, clock, measured.stopped, plain(sentence), tuple(rounds)
    )


def _judge(interval: Interval | None, claim: str | None, margin: float) -> Proof:
    if interval is None:
        return "inconclusive"
    if claim is not None:
        return read_claim(claim).judge(interval.low, interval.high)
    outcome = judge_within_margin(interval, margin)
    return "inconclusive" if outcome == "no verdict" else outcome


def _begin(outcome: Proof, claim: str | None) -> str:
    what = f", {claim!r}" if claim else ""
    match outcome:
        case "claim holds" | "claim fails" | "inconclusive" | "equivalent":
            return f"{outcome.capitalize()}{what}: "
        case _:
            return ""


def _advise(pairs: int, budget_s: float, stopped: StopReason) -> str:
    if stopped != "budget":
        return "More rounds are unlikely to decide it; raise budget_s for longer rounds, or claim less."
    if pairs < LEAST_PAIRS:
        return f"The budget of {format_duration(budget_s)} ended before {LEAST_PAIRS} rounds; raise budget_s."
    return f"The budget of {format_duration(budget_s)} is spent; raise budget_s."


def _format_ratio(ratio: float, interval: tuple[float, float] | None) -> tuple[str, str]:
    value, ends = format_ratio(ratio, *(interval or (None, None)))
    return value, ends if interval else ""


def _name_functions(old: Function, new: Function) -> tuple[str, str]:
    """Return what two functions are called, or `old` and `new` if their names do not tell them apart."""
    names = [getattr(function, "__name__", "") for function in (old, new)]
    distinct = all(names) and names[0] != names[1] and "<lambda>" not in names
    return (names[0], names[1]) if distinct else ("old", "new")
