"""The forest plot: where each ratio, its interval and what is documented lie on one logarithmic axis."""

import math
from collections.abc import Sequence

from speedproof.report.answer import name_mode
from speedproof.report.document import Badge, Band, Forest, ForestRow, Tone, VariantName
from speedproof.report.scope import name_place
from speedproof.results.asked import Asked, Claim
from speedproof.results.claim_results import ClaimResult
from speedproof.results.comparison import Comparison, ContainerCost, NoiseFloor, Ratio, Scaling
from speedproof.results.quality import Quality
from speedproof.stats.main_ratios import MainRatio, State, find_noise, judge_row
from speedproof.stats.proof_claim import Proof, judge_ratio
from speedproof.util.numbers import format_ratio

_TICKS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30,
    50, 70, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000,
)  # fmt: skip
_WIDEST = (_TICKS[0], _TICKS[-1])  # an interval of two pairs may span many powers of ten
_ROOM = 0.06  # beside what is drawn, of the axis
_APART = 24.0  # percent of the axis that ticks are apart: on a page it is some 140 pixels long, a text 30

_TONES: dict[State, Tone] = {"shown": "good", "equivalent": "plain", "withheld": "bad"}
CLAIM_TONES: dict[Proof, Tone] = {
    "claim holds": "good",
    "claim fails": "bad",
    "inconclusive": "open",
    "worse quality": "bad",
    "quality not established": "open",
}
_CLAIM_WORDS: dict[Proof, str] = {"claim holds": "holds", "claim fails": "fails"}  # after the claim itself
VERDICT_TONES: dict[str, Tone] = {
    "reproduced": "good",
    "exceeded": "good",
    "not reproduced here": "bad",
    "inconclusive": "open",
}


def describe_state(main: MainRatio) -> Badge:
    """Return what is known of a ratio, in a word or two."""
    if main.state == "shown" and isinstance(main.row, Ratio) and main.row.unequal:
        return Badge(f"{'faster' if main.interval[0] >= 1 else 'slower'}, of unequal work", "open")
    if main.state == "withheld":
        return Badge("withheld: worse quality", "bad")
    if main.state == "contested":
        return Badge("inconclusive", "open")
    if main.state == "one pair":
        return Badge("no verdict: one pair", "open")
    if main.state == "shown":
        more = main.interval[0] >= 1
        match main.row:
            case Ratio():
                return Badge("faster" if more else "slower", "good" if more else "bad")
            case Scaling():
                return Badge("no loss shown" if more else "loss shown", "good" if more else "open")
            case ContainerCost():
                return Badge("cost shown" if more else "gain shown", "open" if more else "good")
    return Badge(main.state, _TONES.get(main.state, "open"))


def judge_claimed(row: object, asked: Asked | None, rule: Quality) -> tuple[Claim, Proof] | None:
    """Return what a proof claims of a ratio, and what became of it; None where it claims nothing of this one."""
    if asked is None or asked.claim is None or not isinstance(row, Ratio):
        return None
    of_it = (row.metric, row.mode, row.target) == (asked.metric, "timed", None)
    return (asked.claim, judge_ratio(row, asked.claim, rule)) if of_it else None


def describe_claimed(outcome: Proof) -> str:
    """Return what became of a claim, as it stands behind it."""
    return _CLAIM_WORDS.get(outcome, outcome)


def list_bounds(claim: Claim | None) -> list[float]:
    """Return what a claim compares a ratio with."""
    return [] if claim is None else [claim.value]


def draw_forest(mains: Sequence[MainRatio], comparison: Comparison, asked: Asked | None = None) -> Forest | None:
    """Return the plot of the main ratios, with the first variant against itself below them; None where there is none.

    What a proof claims, as it was `asked`, is drawn as what is documented is.
    """
    if not mains:
        return None
    noise = find_noise(comparison, metric) if (metric := getattr(mains[0].row, "metric", None)) else None
    rows = [*mains, *([MainRatio(noise, judge_row(noise))] if noise else [])]
    ends = [end for main in rows for end in main.interval if end is not None]
    ends += [end for main in mains for claim in main.claims for end in _documented(claim) if end is not None]
    claims = [found[0] for main in mains if (found := judge_claimed(main.row, asked, comparison.quality))]
    ends += [bound for claim in claims[:1] for bound in list_bounds(claim)]
    low, high = (math.log(min(max(end, _WIDEST[0]), _WIDEST[1])) for end in (min(1.0, *ends), max(1.0, *ends)))
    room = _ROOM * max(high - low, 0.1)
    axis = (low - room, high + room)
    kinds = {type(main.row) for main in mains}
    if Scaling in kinds:
        meaning = "work done by each GPU, against fewer GPUs"
    else:  # a container's rows say of what they are a ratio
        meaning = f"{'ratio' if ContainerCost in kinds else 'times as fast'}, logarithmic"
    return Forest(
        rows=[_draw_row(main, comparison, axis, asked) for main in rows],
        ticks=_choose_ticks(axis),
        one=_place(1.0, axis),
        shaded="claimed" if claims else "documented",
        meaning=meaning,
    )


def name_compared(main: MainRatio, comparison: Comparison) -> list[str]:
    """Return what a ratio is of, the variant that it speaks for first."""
    row = main.row
    match row:
        case Ratio():
            first, second = (comparison.variants[name] for name in main.variants)
            return [VariantName(first), " against ", VariantName(second)]
        case Scaling():
            return [VariantName(row.larger_title), f" ({row.larger_ranks} GPUs) against ", VariantName(row.smaller_title)]
        case ContainerCost():
            return [VariantName(row.title), ": times as long inside the container as outside"]
        case NoiseFloor():
            return [VariantName(row.title), " against itself (noise floor)"]


def _draw_row(main: MainRatio, comparison: Comparison, axis: tuple[float, float], asked: Asked | None) -> ForestRow:
    centre, low, high = main.interval
    claimed = judge_claimed(main.row, asked, comparison.quality)
    value, interval = format_ratio(centre, low, high, *list_bounds(claimed[0] if claimed else None))
    left, right = (None if end is None else _place(end, axis) for end in (low, high))
    row = main.row
    metric = getattr(row, "metric", None)
    what = f"{row.kind} scaling" if isinstance(row, Scaling) else comparison.title_of(str(metric))
    target = f" ({row.target:g})" if isinstance(row, Ratio) and row.target is not None else ""
    target += name_mode(main)
    said = describe_state(main)
    if main.claims:
        words = list(
            dict.fromkeys(
                claim.by_experiment.get(getattr(row, "experiment", None) or "", claim.verdict) for claim in main.claims
            )
        )
        said = Badge(f"claim {' / '.join(words)}", VERDICT_TONES.get(words[0], "open"))
    elif isinstance(row, NoiseFloor):
        said = Badge("noise", "plain")
    if claimed:
        said = Badge(f"claim {describe_claimed(claimed[1])}", CLAIM_TONES[claimed[1]])
    return ForestRow(
        what=f"{name_place(what, row, comparison)}{target}"
        if len(comparison.experiments) > 1 and row.experiment
        else f"{what}{target}",
        variants=name_compared(main, comparison),
        value=value,
        interval="no interval" if low is None else interval,
        said=said,
        centre=_place(centre, axis),
        left=left,
        width=None if left is None or right is None else right - left,
        bands=[
            *(_draw_band(claim, axis) for claim in main.claims),
            *([_draw_claimed(claimed[0], axis)] if claimed else []),
        ],
    )


def _draw_band(claim: ClaimResult, axis: tuple[float, float]) -> Band:
    return _make_band(_documented(claim), f"documented {claim.documented}", axis)


def _draw_claimed(claim: Claim, axis: tuple[float, float]) -> Band:
    """Return where a ratio is claimed to lie."""
    return _make_band((claim.low, claim.high), f"claimed {claim.text}", axis)


def _make_band(ends: tuple[float | None, float | None], text: str, axis: tuple[float, float]) -> Band:
    low, high = ends
    left, right = (0.0 if low is None else _place(low, axis)), (100.0 if high is None else _place(high, axis))
    return Band(left, right - left, text, "left" if low is None else "right" if high is None else "")


def _documented(claim: ClaimResult) -> tuple[float | None, float | None]:
    return (claim.ratio.low, claim.ratio.high) if claim.ratio else (None, None)


def _place(value: float, axis: tuple[float, float]) -> float:
    low, high = axis
    return round(100 * min(max((math.log(max(value, _WIDEST[0])) - low) / (high - low), 0.0), 1.0), 3)


def _choose_ticks(axis: tuple[float, float]) -> list[tuple[float, str]]:
    """Return positions and texts of ticks that stand well apart, 1 always among them."""
    chosen = [(_place(1.0, axis), "1×")]
    inside = [value for value in _TICKS if axis[0] <= math.log(value) <= axis[1]]
    for value in sorted(inside, key=lambda value: (abs(math.log10(value)) % 1 != 0, -abs(math.log(value)))):
        place = _place(value, axis)
        if all(abs(place - other) >= _APART for other, _ in chosen):
            chosen.append((place, f"{value:g}×"))
    return sorted(chosen)
