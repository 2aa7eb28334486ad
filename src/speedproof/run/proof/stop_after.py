"""When the programs of a proof are ended before their own end: what `--stop-after` asks, and when it is proposed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speedproof.run.printed_times import read_time
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_duration, format_value

_LEAST_EPOCHS = 2  # the first warms up
# Runs may take longer than the warm-up, and rounds end once another one like the longest would overrun the budget: of the four
# that a verdict needs, one more is counted.
_SPARE = (LEAST_PAIRS + 1) / LEAST_PAIRS


@dataclass(frozen=True)
class StopAfter:
    """After how many epochs, or seconds of the warm-up, programs are ended; neither: they end by themselves."""

    epochs: int | None = None
    seconds: float | None = None

    def __bool__(self) -> bool:
        return bool(self.epochs or self.seconds)


def read_stop(text: str) -> StopAfter:
    """Read `10`, which are epochs, or a time such as `60s`. Raises ValueError of anything else."""
    try:
        time = read_time(text, "", None)
    except RecordError:
        time = None
    if text.strip().isdecimal() and 0 < int(text) <= 10**6:
        return StopAfter(epochs=int(text))
    if time is None or not time.named or not 0 < time.seconds <= 10**7:
        raise ValueError(f"{text!r:.40}: write a number of epochs, such as 10, or a time, such as 60s or 5min")
    return StopAfter(seconds=time.seconds)


def count_round_s(process_s: Mapping[str, float], control: bool) -> float:
    """Return how long a round takes by the warm-ups, whose first is the reference: with a control it runs twice."""
    return sum(process_s.values()) + (next(iter(process_s.values())) if control else 0.0)


def propose_stop(
    process_s: Mapping[str, float], epochs: Mapping[str, int], budget_min: float | None, control: bool
) -> str | None:
    """Return which option lets four rounds fit into the budget if runs as long as the warm-ups do not; None if they do."""
    least_s = LEAST_PAIRS * count_round_s(process_s, control)
    if budget_min is None or least_s <= 60 * budget_min:
        return None
    fitting = math.floor(min(epochs.values(), default=0) * 60 * budget_min / (_SPARE * least_s))
    if fitting < _LEAST_EPOCHS:
        return None
    return (
        f"four rounds of whole runs do not fit into the budget of {budget_min:g} min: --stop-after {fitting} ends each run "
        f"after {fitting} epochs, or --budget {math.ceil(_SPARE * least_s / 60)} allows whole runs"
    )


def question_budget(process_s: Mapping[str, float], budget_min: float | None, control: bool) -> str | None:
    """Return that the budget is too short for the rounds that a verdict needs, by the warm-up, and which is not."""
    least_s = LEAST_PAIRS * count_round_s(process_s, control)
    if budget_min is None or least_s <= 60 * budget_min:
        return None
    return (
        f"budget: {LEAST_PAIRS} rounds, which a verdict needs, take about {format_duration(least_s)}, more than the budget of "
        f"{format_value(budget_min, 'min')}; --budget {math.ceil(_SPARE * least_s / 60)} holds them"
    )


@dataclass(frozen=True)
class WarmUpLimit:
    """What a warm-up may take if the rounds that a verdict needs are to fit into the budget."""

    budget_min: float | None
    runs: int  # of a round
    reads_epochs: bool  # whether a source of them is named, which --stop-after needs

    def describe(self, name: str, warmed_s: Sequence[float], seconds: float) -> str:
        """Return that a warm-up goes on, and what to do if it is too long: runs not in `warmed_s` count as long as this one."""
        running = f"warm-up: {name} running, {seconds:.0f} s"
        least_s = LEAST_PAIRS * (sum(warmed_s) + (self.runs - len(warmed_s)) * seconds)
        if self.budget_min is None or least_s <= 60 * self.budget_min:
            return running
        remedy = f"use --budget {math.ceil(_SPARE * least_s / 60)} or shorter runs"
        fitting_s = math.floor(60 * self.budget_min / (_SPARE * LEAST_PAIRS * self.runs))
        if self.reads_epochs and fitting_s:
            remedy = f"add --stop-after {fitting_s}s"
        return f"{running}. Interrupt and {remedy}: {LEAST_PAIRS} rounds would exceed {self.budget_min:g} min"
