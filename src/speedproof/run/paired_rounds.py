"""Rounds of one pair, measured by a function until their ratio is decided: the rules of an experiment without its processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speedproof.results.experiment import LOOKS, StopReason
from speedproof.run.stopping import find_last_look, overruns
from speedproof.stats.sequential import LEAST_CHANCE, MOST_PAIRS, Question
from speedproof.stats.stopping_rules import STOPPING_RULES, RoundsSoFar, Standing


@dataclass(frozen=True)
class PairedRounds:
    """The log ratio of each round, and why rounds ended."""

    logs: Sequence[float]
    stopped: StopReason


def measure_rounds(measure: Callable[[], float], regions: Sequence[tuple[float, float]], budget_s: float) -> PairedRounds:
    """Call `measure`, which returns a round's log ratio, until the ratio lies in a region or more rounds would not help."""
    logs: list[float] = []
    lasted_s: list[float] = []
    while True:
        begun_s = time.perf_counter()
        logs.append(measure())
        lasted_s.append(time.perf_counter() - begun_s)
        last_look = find_last_look(lasted_s, MOST_PAIRS, budget_s / 60)
        rounds = RoundsSoFar(
            count=len(logs),
            most=MOST_PAIRS,
            last_look=last_look,
            overruns=overruns(lasted_s, budget_s / 60),
            standings=[_judge(Question(logs, regions), last_look)] if len(logs) in LOOKS else None,
        )
        for reason, rule in STOPPING_RULES.items():
            if rule.ends(rounds):
                return PairedRounds(logs, reason)


def _judge(question: Question, last_look: int) -> Standing:
    if question.answer is not None:
        return "decided"
    return "open" if question.chance_at(last_look) >= LEAST_CHANCE else "futile"
