"""When the timed rounds of an experiment end: once what was asked is decided, cannot be, or the budget would be overrun."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from speedproof.config.model import Measurement
from speedproof.results.claim import read_claim
from speedproof.results.experiment import LOOKS, PlannedRun, RunPlace, Stopped, place_runs
from speedproof.results.files import digest_of
from speedproof.results.quality import Quality
from speedproof.stats.estimates import LEAST_PAIRS, Slack, find_slack, mean_slack
from speedproof.stats.order_profit import estimate_profit, order_round
from speedproof.stats.sequential import LEAST_CHANCE, Question, count_rounds, pool_noise
from speedproof.stats.stopping_rules import STOPPING_RULES, RoundsSoFar, Standing


@dataclass(frozen=True)
class RunValue:
    """What a timed run measured of its variant."""

    cost: float | None  # a time, or one over a rate, by which it is compared; None: it has none
    resolution: float = 0.0  # by which share the cost may be off, since it was printed with few digits
    quality: float | None = None


# In 240 simulated proofs without drift (differences of 0 to 50 %, noise of 0.5 to 30 %) 64 % of 1,494 forecasts were within a
# third of the rounds that were left. Of the first look that would decide if nothing changed, 40 % of 738 were.
_LEAST_SURE = 2 / 3
_Round = Mapping[str, RunValue]  # by variant


class Watch:
    """The state of an experiment's timed rounds, and whether they continue.

    It receives all runs in the plan's order, kept ones as well as new ones, so that an interrupted experiment stops as it
    would have stopped.
    """

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self.metric = measurement.metric
        self._size = len(measurement.all_variants()) + measurement.control
        self._rounds: list[_Round] = []  # those that are whole
        self._lasted_s: list[float] = []
        self._order: list[PlannedRun] = []  # all timed runs so far
        self._round: list[tuple[PlannedRun, RunValue, float]] = []
        self.stopped: Stopped | None = None

    def add(self, planned: PlannedRun, found: RunValue, seconds: float) -> None:
        """Note what a timed run found, and how long it took; after a round's last one, decide whether to go on."""
        if self._measurement.until is None:
            return
        self._order.append(planned)
        self._round.append((planned, found, seconds))
        if len(self._round) < self._size:
            return
        self._rounds.append({run.variant: own for run, own, _ in self._round if not run.control})
        self._lasted_s.append(sum(lasted for *_, lasted in self._round))
        self._round = []
        self.stopped = self._look()

    def _look(self) -> Stopped | None:
        measurement, count = self._measurement, len(self._rounds)
        budget_min = measurement.budget_min
        last_look = find_last_look(self._lasted_s, measurement.rounds, budget_min)
        asked = [Asking(self._rounds, self._order, pair, measurement) for pair in measurement.compared() if count in LOOKS]
        standings = [one.judge(last_look) for one in asked]
        rounds = RoundsSoFar(
            count=count,
            most=measurement.rounds,
            last_look=last_look,
            overruns=budget_min is not None and overruns(self._lasted_s, budget_min),
            standings=standings if count in LOOKS else None,
        )
        reason = next((name for name, rule in STOPPING_RULES.items() if rule.ends(rounds)), None)
        if reason is None:
            return None
        futile = [one for one, standing in zip(asked, standings, strict=True) if standing == "futile"]
        return Stopped(
            rounds=count,
            most=measurement.rounds,
            reason=reason,
            budget_min=budget_min,
            fixed=count_fixed(self._rounds, measurement.compared(), measurement.equivalence_margin, measurement.comparisons),
            reachable=last_look if reason == "futile" else None,
            needed=_count_needed(futile) if reason == "futile" else None,
            asked=digest_asked(measurement),
        )

    def forecast_end(self) -> int | None:
        """Return after how many rounds they likely end, if those to come vary as those so far; None: unknown.

        It is known if, by its chance, two times in three it is within a third of the rounds that will be left.
        """
        count = len(self._rounds)
        if self.stopped is not None or count < 2:
            return count if self.stopped else None
        last = find_last_look(self._lasted_s, self._measurement.rounds, self._measurement.budget_min)
        looks = [look for look in LOOKS if count < look <= last]
        if not looks:
            return None
        asked = [Asking(self._rounds, self._order, pair, self._measurement) for pair in self._measurement.compared()]
        by_look = [math.prod(chances) for chances in zip(*(one.list_chances(looks) for one in asked), strict=True)]
        by_look[-1] = 1.0  # there they end in any case
        chances = {look: chance - before for look, chance, before in zip(looks, by_look, [0.0, *by_look], strict=False)}

        def chance_near(look: int) -> float:
            near = [end for end in looks if abs(look - end) * 3 <= end - count]
            return sum(chances[end] for end in near)

        likely = max(looks, key=lambda look: (chance_near(look), chances[look]))
        return likely if chance_near(likely) >= _LEAST_SURE else None


def digest_asked(measurement: Measurement) -> str:
    """Return a digest of what decides when rounds end: who asks for more goes on with the rounds that there are."""
    names = {"rounds", "budget_min", "claim", "metric", "equivalence_margin"}
    rule = measurement.quality.rule.model_dump(mode="json")
    return digest_of([measurement.model_dump(mode="json", include=names), rule])


class Asking:
    """What is asked of one pair of variants: where its ratio lies and, if that needs one, its quality."""

    def __init__(
        self, rounds: Sequence[_Round], order: Sequence[PlannedRun], pair: tuple[str, str], measurement: Measurement
    ) -> None:
        self._rounds, self._order, self._pair, self._measurement = rounds, order, pair, measurement
        logs = _list_logs(rounds, *pair)
        self._margin = math.log1p(measurement.equivalence_margin)
        self._speed = None
        if len(logs) == len(rounds):  # else some run did not tell, and rounds go on
            slack = mean_slack([[[self._find_slack(found) for found in rounds]]])
            regions = list_regions(measurement.claim, measurement.equivalence_margin)
            self._speed = Question(logs, regions, measurement.comparisons, slack)
        self._quality = None if self._speed is None else self._ask_quality(self._speed)

    def judge(self, reachable: int) -> Standing:
        """Return whether it is decided now, or plausibly will be at the last `reachable` look."""
        if self._speed is None:
            return "open"
        question = self._find_open()
        if question is None:
            return "open" if self._rests_on_order(self._speed.values) else "decided"
        return "open" if question.chance_at(reachable) >= LEAST_CHANCE else "futile"

    def list_chances(self, looks: Sequence[int]) -> list[float]:
        """Return how likely it is decided, or given up, at each of some later looks or before."""
        if self._speed is None or self._rests_on_order(self._speed.values):
            return [0.0] * len(looks)
        question = self._find_open()
        if question is None or question.chance_at(looks[-1]) < LEAST_CHANCE:
            return [1.0] * len(looks)
        return list(accumulate((question.chance_at(look) for look in looks), max))

    def count_needed(self) -> int | None:
        """Return how many rounds, fixed beforehand, would decide what is open; None: more than a thousand."""
        question = self._find_open()
        return question.count_fixed() if question else None

    def _find_open(self) -> Question | None:
        """Return what is not decided yet, the ratio before the quality."""
        return next((question for question in (self._speed, self._quality) if question and question.answer is None), None)

    def _rests_on_order(self, logs: Sequence[float]) -> bool:
        """Return whether most of a gain seems to be one of runs that follow the other variant; more rounds tell.

        The check of the order at the end is a test, which a few rounds seldom fail: benchmarks/simulate_orders.py.
        """
        if abs(fmean(logs)) <= self._margin:
            return False
        names, sign = (self._pair[::-1], 1.0) if fmean(logs) > 0 else (self._pair, -1.0)
        places: dict[tuple[int, str], RunPlace] = {
            (run.round, run.variant): place
            for run, place in zip(self._order, place_runs(self._order), strict=True)
            if not run.control
        }
        profit = estimate_profit(
            [
                order_round(names, (places[number, names[0]], places[number, names[1]]), sign * log)
                for number, log in enumerate(logs)
            ]
        )
        return profit is not None and profit.is_most

    def _find_slack(self, found: _Round) -> Slack:
        one, other = (found[name].resolution for name in self._pair)
        return find_slack(one, other)

    def _ask_quality(self, speed: Question) -> Question | None:
        """Return what is asked of the quality; None if it changes nothing, or if no number of rounds would tell.

        A ratio that is shown counts only at no worse a quality of the variant that is judged: of a claim of a least speedup
        the second, else the faster.
        """
        rule, measurement = self._measurement.quality, self._measurement
        claim = read_claim(measurement.claim) if measurement.claim else None
        shown = (1, 2) if claim is None else (0,)
        if speed.answer not in shown or rule.margin is None:
            return None
        second_is_judged = (claim is not None and claim.high is None) or sum(speed.values) >= 0
        other, judged = self._pair if second_is_judged else reversed(self._pair)
        qualities = [(found[judged].quality, found[other].quality) for found in self._rounds]
        pairs = [(own, others) for own, others in qualities if own is not None and others is not None]
        if len(pairs) < len(self._rounds) or not _tells_quality(pairs, rule):
            return None
        sign = 1.0 if rule.better == "higher" else -1.0
        regions = [(-rule.margin, math.inf), (-math.inf, -rule.margin)]
        return Question([sign * (own - others) for own, others in pairs], regions, measurement.comparisons)


def list_regions(claim_text: str | None, equivalence_margin: float) -> list[tuple[float, float]]:
    """Return where a log ratio may lie: equivalent, faster or slower; of a claim where it holds, and where it fails."""
    if claim_text is None:
        margin = math.log1p(equivalence_margin)
        return [(-margin, margin), (0.0, math.inf), (-math.inf, 0.0)]
    claim = read_claim(claim_text)
    above, below = (math.log(claim.value), math.inf), (-math.inf, math.log(claim.value))
    return [above, below] if claim.high is None else [below, above]


def _count_needed(futile: Sequence[Asking]) -> int | None:
    """Return how many rounds would decide all that is open; None: more than a thousand."""
    counts = [one.count_needed() for one in futile]
    return None if None in counts else max((count for count in counts if count), default=None)


def _tells_quality(pairs: Sequence[tuple[float, float]], rule: Quality) -> bool:
    """Return whether more seeds would tell more: not if no variant's quality varies, or if neither has learnt enough."""
    varies = all(len(set(values)) > 1 for values in zip(*pairs, strict=True))
    slower = sum(other for _, other in pairs) / len(pairs)
    return varies and (rule.judged_above is None or not rule.reaches(rule.judged_above, slower))


def count_fixed(
    rounds: Sequence[_Round], compared: Sequence[tuple[str, str]], difference: float, comparisons: int = 1
) -> int | None:
    """Return how many rounds find a difference in every pair nine times in ten, by the noise of the first four; None: unknown.

    It is the number that a plan would have fixed after a pilot of four rounds.
    """
    counts = []
    for one, other in compared:
        pilot = _list_logs(rounds[:LEAST_PAIRS], one, other)
        noise = pool_noise([pilot]) if len(pilot) == LEAST_PAIRS else None
        counts.append(count_rounds(difference, noise.limit, comparisons) if noise else None)
    return max((count for count in counts if count), default=None) if None not in counts else None


def _list_logs(rounds: Sequence[_Round], one: str, other: str) -> list[float]:
    pairs = [(found[one].cost, found[other].cost) for found in rounds]
    return [math.log(above / below) for above, below in pairs if above and below]


def overruns(lasted_s: Sequence[float], budget_min: float) -> bool:
    """Return whether one more round, as long as the longest so far, would go beyond the budget."""
    return sum(lasted_s) + max(lasted_s) > 60 * budget_min


def find_last_look(lasted_s: Sequence[float], most: int, budget_min: float | None) -> int:
    """Return at which look rounds end at the latest, if those to come are as short as the shortest so far; or that of now."""
    rounds = len(lasted_s)
    if budget_min is not None:
        left_s, each_s = 60 * budget_min - sum(lasted_s), min(lasted_s)
        most = min(most, rounds + math.floor(left_s / each_s)) if each_s > 0 else most
    return max((look for look in LOOKS if rounds <= look <= most), default=rounds)
