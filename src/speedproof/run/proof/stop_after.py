"""When the programs of a proof are ended before their own end: what `--stop-after` asks, and when it is proposed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from speedproof.run.printed_times import read_time
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.util.errors import RecordError

_LEAST_EPOCHS = 2  # the first warms up


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


def propose_stop(process_s: Mapping[str, float], epochs: Mapping[str, int], budget_min: float | None) -> str | None:
    """Return which option lets four rounds fit into the budget if runs as long as the warm-ups do not; None if they do."""
    least_s = LEAST_PAIRS * sum(process_s.values())
    if budget_min is None or least_s <= 60 * budget_min:
        return None
    fitting = math.floor(min(epochs.values(), default=0) * 60 * budget_min / least_s)
    if fitting < _LEAST_EPOCHS:
        return None
    return (
        f"four rounds of whole runs do not fit into the budget of {budget_min:g} min: --stop-after {fitting} ends each run "
        f"after {fitting} epochs, or --budget {-(-least_s // 60):.0f} allows whole runs"
    )


def describe_warm_up(name: str, variants: int, budget_min: float | None, seconds: float) -> str:
    """Return that a warm-up goes on, and what to do about one that is too long for the budget of so many variants."""
    fitting_s = math.inf if budget_min is None else 60 * budget_min / (LEAST_PAIRS * variants)
    if seconds <= fitting_s:
        return f"warm-up: {name} running, {seconds:.0f} s"
    return f"warm-up: {name} running, too long for the budget: interrupt, add --stop-after {fitting_s:.0f}s, {seconds:.0f} s"
