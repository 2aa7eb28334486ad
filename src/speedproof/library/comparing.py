"""`speedproof.compare`: two functions of one process, timed in turns until their ratio is decided."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from speedproof.library.function_timing import (
    CudaClock,
    Function,
    LoopClock,
    WallClock,
    calibrate_calls,
    find_cuda,
    without_collector,
)
from speedproof.results.claim import read_claim
from speedproof.util.errors import ConfigError

if TYPE_CHECKING:
    from speedproof.library.function_comparison import FunctionComparison

# A round's time is the median of many short loops. On two cores beside four other programs, the ratios of rounds of 167 ms vary
# by 0.6 % if a loop takes 2 ms, by 10 % if it takes 32 ms, and by 30 % if means are compared.
_LOOP_S = 0.002
_LEAST_LOOPS = 5  # of each function in a round, if its calls are short enough
_SHARE = 0.8  # of the budget, for the loops of all rounds; the rest is for the garbage collector and the warm-up


@dataclass(frozen=True)
class TimedRound:
    """How long a call of each function took in a round."""

    old_s: float
    new_s: float


def compare(
    old: Function, new: Function, claim: str | None = None, *, budget_s: float = 10.0, margin: float = 0.02
) -> "FunctionComparison":
    """Test whether the function `new` is faster than `old`, both called without arguments in this process.

    Rounds of both, in random order, end once the claim is decided, or when the budget is spent. The ratio is old's time over
    new's. The first call of each is not counted, nor its time.

    Args:
        old: the reference
        new: the candidate
        claim: the ratio to test, such as '>= 1.1'; None asks whether there is any difference
        budget_s: seconds that all rounds may take
        margin: without a claim, ratios within this fraction of 1 are equivalent

    Raises:
        SpeedproofError: the claim or the budget cannot be understood
    """
    from speedproof.library.function_comparison import describe_comparison
    from speedproof.run.paired_rounds import measure_rounds
    from speedproof.run.stopping import list_regions
    from speedproof.stats.sequential import MOST_PAIRS

    _check_arguments(old, new, claim, budget_s, margin)
    old(), new()
    round_s = _SHARE * budget_s / (2 * MOST_PAIRS)
    clock, take_round = _prepare_rounds(old, new, round_s)
    rounds: list[TimedRound] = []

    def measure() -> float:
        rounds.append(take_round())
        return math.log(rounds[-1].old_s / rounds[-1].new_s)

    measured = measure_rounds(measure, list_regions(claim, margin), budget_s)
    return describe_comparison((old, new), claim, margin, budget_s, rounds, measured, clock.title)


def _check_arguments(old: object, new: object, claim: str | None, budget_s: float, margin: float) -> None:
    for name, function in (("old", old), ("new", new)):
        if not callable(function):
            raise ConfigError(f"compare: {name}: {function!r:.60} is not a function; pass one without calling it")
    for name, value in (("budget_s", budget_s), ("margin", margin)):
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ConfigError(f"compare: {name}: {value!r:.40}: write a number above 0")
    if claim is not None:
        try:
            read_claim(claim)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"compare: claim: {error}") from None


def _prepare_rounds(old: Function, new: Function, round_s: float) -> tuple[LoopClock, Callable[[], TimedRound]]:
    """Return the clock that fits, and what measures a round in which each function is called for about `round_s`."""
    cuda = find_cuda()
    clock: LoopClock = WallClock() if cuda is None else CudaClock(cuda)
    loop_s = min(_LOOP_S, round_s / _LEAST_LOOPS)
    with without_collector():
        calibrated = [calibrate_calls(clock, function, loop_s) for function in (old, new)]
    if isinstance(clock, CudaClock) and clock.misses_work:
        clock = WallClock(cuda.synchronize, "wall clock, since GPU work runs beside the current stream")
    longest_s = max(calls * each_s for calls, each_s in calibrated)
    loops = max(1, int(round_s / longest_s))
    asked = [(old, calibrated[0][0]), (new, calibrated[1][0])]
    order = random.Random()  # of its own: a test's random numbers stay as they are

    def take_round() -> TimedRound:
        took_s: tuple[list[float], list[float]] = ([], [])
        with without_collector():
            for _ in range(loops):
                for which in order.sample((0, 1), 2):
                    took_s[which].append(clock.time_calls(*asked[which]))
        old_s, new_s = (median(times) / calls for times, (_, calls) in zip(took_s, asked, strict=True))
        return TimedRound(old_s, new_s)

    return clock, take_round
