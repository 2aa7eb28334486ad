"""The forest plot: each ratio, its interval and the documented range on one logarithmic axis, for the page and as an SVG."""

import html
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from jinja2 import Template

from speedproof.report.document import Badge, Band, Forest, ForestRow, VariantName, Words
from speedproof.report.headlines import badge_verdict
from speedproof.report.prose import make_environment
from speedproof.report.ratio_phrases import badge_claimed, describe_state, name_mode
from speedproof.report.scope import name_found_place
from speedproof.results.folder import Results
from speedproof.stats.finding import RatioFinding
from speedproof.stats.main_ratios import Answer
from speedproof.stats.pair_ratios import list_pair_ratios
from speedproof.util.numbers import format_ratio
from speedproof.util.text import printable

_Range = tuple[float | None, float | None]
_Axis = tuple[float, float]  # logarithms of its ends

_TICKS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30,
    50, 70, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000,
)  # fmt: skip
_WIDEST = (_TICKS[0], _TICKS[-1])  # an interval of two pairs may span many powers of ten
_ROOM = 0.06  # beside what is drawn, of the axis
_APART = 24.0  # percent of the axis that ticks are apart: on a page it is some 140 pixels long, a text 30


def draw_forest(answer: Answer, results: Results | None = None) -> Forest | None:
    """Return the plot of the main findings, with the first variant against itself below them; None if there is none.

    A proof's claim is drawn like a documented number. Each pair of runs is drawn if the `results` are given.
    """
    if not answer.mains:
        return None
    rows = [*answer.mains, *([answer.noise] if answer.noise else [])]
    claimed = any(found.claim for found in rows)
    ends = [1.0, *(end for found in rows for end in found.ends if end is not None)]
    ends += [end for found in rows for band, _ in _list_bands(found) for end in band if end is not None]
    pairs = [list_pair_ratios(results, found) if results else [] for found in rows]
    ends += [ratio for ratios in pairs for ratio in ratios]
    low, high = (math.log(min(max(end, _WIDEST[0]), _WIDEST[1])) for end in (min(ends), max(ends)))
    room = _ROOM * max(high - low, 0.1)
    axis = (low - room, high + room)
    kinds, of_times = {found.kind for found in rows}, all(found.is_of_times for found in rows)
    if "scaling" in kinds:
        meaning = "throughput per GPU, against fewer GPUs"
    else:  # a container's rows name their ratio
        meaning = f"{'times as fast' if 'container' not in kinds and of_times else 'ratio'}, logarithmic"
    return Forest(
        rows=[_draw_row(found, ratios, axis) for found, ratios in zip(rows, pairs, strict=True)],
        ticks=_choose_ticks(axis),
        one=_place(1.0, axis),
        shaded="claimed" if claimed else "documented",
        meaning=meaning,
    )


def _name_compared(found: RatioFinding) -> list[str]:
    """Return the names of what a ratio compares, its subject first."""
    subject, against = VariantName(found.subject.title), VariantName(found.against.title)
    match found.kind:
        case "ratio":
            return [subject, " against ", against]
        case "scaling":
            return [subject, f" ({found.ranks[0] if found.ranks else 1} GPUs) against ", against]
        case "container":
            return [subject, ": times as long inside the container as outside"]
        case _:
            return [subject, " against itself (noise floor)"]


def _draw_row(found: RatioFinding, pairs: Sequence[float], axis: _Axis) -> ForestRow:
    value, interval = format_ratio(*found.ends, *found.bounds)
    left, right = (None if end is None else _place(end, axis) for end in found.ends[1:])
    place = found.place if found.others else replace(found.place, experiment=None)  # others may have measured the same ratio
    title = name_found_place(found.full_title, place) if found.place.experiment else found.full_title
    return ForestRow(
        what=f"{title}{name_mode(found)}",
        variants=_name_compared(found),
        value=value,
        interval=interval if found.has_interval else "no interval",
        said=Badge("noise", "plain") if found.kind == "noise" else describe_state(found),
        judged=_judge_stated(found),
        centre=_place(found.centre, axis),
        left=left,
        width=None if left is None or right is None else right - left,
        bands=[_make_band(ends, text, axis) for ends, text in _list_bands(found)],
        pairs=[
            (round(_place(ratio, axis), 1), round(100 * number / (len(pairs) + 1), 1)) for number, ratio in enumerate(pairs, 1)
        ],
    )


def _judge_stated(found: RatioFinding) -> Badge | None:
    """Return the outcome of what is claimed or documented of a ratio; None if nothing is."""
    if found.claim:
        return badge_claimed(found)
    experiment = found.place.experiment or ""
    verdicts = list(dict.fromkeys(one.by_experiment.get(experiment, one.verdict) for one in found.documented))
    return badge_verdict(verdicts[0], f"documented: {' / '.join(verdicts)}") if verdicts else None


def _list_bands(found: RatioFinding) -> list[tuple[_Range, str]]:
    """Return the documented and claimed ranges of a ratio, each with its caption."""
    bands: list[tuple[_Range, str]] = [
        ((one.ratio.low, one.ratio.high) if one.ratio else (None, None), f"documented {one.documented}")
        for one in found.documented
    ]
    return [*bands, *([((found.claim.low, found.claim.high), f"claimed {found.claim.text}")] if found.claim else [])]


def _make_band(ends: _Range, text: str, axis: _Axis) -> Band:
    low, high = ends
    left, right = (0.0 if low is None else _place(low, axis)), (100.0 if high is None else _place(high, axis))
    return Band(left, right - left, text, "left" if low is None else "right" if high is None else "")


def _place(value: float, axis: _Axis) -> float:
    low, high = axis
    return round(100 * min(max((math.log(max(value, _WIDEST[0])) - low) / (high - low), 0.0), 1.0), 3)


def _choose_ticks(axis: _Axis) -> list[tuple[float, str]]:
    """Return positions and texts of ticks that stand well apart, 1 always among them."""
    chosen = [(_place(1.0, axis), "1×")]
    inside = [value for value in _TICKS if axis[0] <= math.log(value) <= axis[1]]
    for value in sorted(inside, key=lambda value: (abs(math.log10(value)) % 1 != 0, -abs(math.log(value)))):
        place = _place(value, axis)
        if all(abs(place - other) >= _APART for other, _ in chosen):
            chosen.append((place, f"{value:g}×"))
    return sorted(chosen)


_AXIS = (390, 630)  # where the axis lies, in pixels
_LINES = {"": (17, 38), "s": (14, 55), "f": (14, 110)}  # size of a line in pixels, and its characters, by its kind
_SMALLEST = 11  # size of a line with more characters


def draw_forest_picture(forest: Forest, where: Words) -> str:
    """Return the plot as SVG, on a ground of its own, so that it is legible whatever lies around it.

    It travels alone: `where` says on which machine, when and with which data it was measured.
    """
    return _load_template().render(forest=forest, where=where, right_of_axis=_AXIS[1] + 24)


@cache
def _load_template() -> Template:
    environment = make_environment(keep_trailing_newline=True)
    environment.filters.update(across=_across, line=_fit_words)
    return environment.get_template("forest.svg.j2")


def _across(percent: float) -> float:
    """Return where a share of the axis lies."""
    return round(_AXIS[0] + percent / 100 * (_AXIS[1] - _AXIS[0]), 1)


def _fit_words(words: Words, kind: str = "") -> tuple[str, float | None]:
    """Return words as a line of a kind takes them, and the smaller size that they need; None: the kind's own."""
    text = printable(words if isinstance(words, str) else "".join(map(str, words)))  # type: ignore[arg-type]
    size, characters = _LINES[kind]
    if len(text) <= characters:
        return html.escape(text), None
    most = characters * size // _SMALLEST
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(text), round(size * characters / len(text), 1)
