"""The timeline as a piece of a page: markup, data, style and script in one, which needs nothing else of the page."""

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from speedproof.report.prose import make_environment
from speedproof.report.timeline.collect import COPY, ITERATION, WAIT, Timeline, read_timeline
from speedproof.report.timeline.pftrace import encode_timeline
from speedproof.results.summary import name_several
from speedproof.trace.causes import CAUSES
from speedproof.trace.iterations import Choice
from speedproof.trace.loop import CHOOSES_NOTHING
from speedproof.trace.roles import TRAINING_PHASES, VALIDATION_PHASES
from speedproof.util.numbers import format_count, format_value

_GAPS_IN_WORDS = 10  # of each trace, in the table below the canvas
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


@dataclass(frozen=True)
class TracedVariant:
    """A trace to be shown: its title, its folder, and the user's choice of its loop."""

    title: str
    trace: Path
    choice: Choice = CHOOSES_NOTHING


@dataclass(frozen=True)
class ShownGap:
    """A stretch in which no kernel runs, in words."""

    length: str
    start: str
    cause: str  # the one that fills the largest part of it
    share: str  # of it that this cause fills


def render_timeline(variants: Sequence[TracedVariant]) -> str:
    """Return the timeline of one trace, or of several below one another, as HTML to be placed inside of a page's body.

    Raises :class:`speedproof.util.errors.RecordError` where a trace cannot be read.
    """
    return render_timelines([read_timeline(variant.title, variant.trace, variant.choice) for variant in variants])


def render_timelines(timelines: Sequence[Timeline]) -> str:
    """Return timelines as HTML; the same ones give the same bytes."""
    environment = make_environment("speedproof.report.timeline", ".", autoescape=True)
    units = {timeline.unit for timeline in timelines}
    unit = units.pop() if len(units) == 1 else "iteration"
    settings = {
        "unit": unit,
        "units": name_several(unit),
        "phases": [*TRAINING_PHASES, *VALIDATION_PHASES],
        "causes": list(CAUSES),
        "meanings": CAUSES,
        "copy": COPY,
        "wait": WAIT,
        "iteration": ITERATION,
    }
    variants = [_describe_variant(number, timeline) for number, timeline in enumerate(timelines)]
    return environment.get_template("timeline.html.j2").render(variants=variants, settings=settings)


def list_shown_gaps(timeline: Timeline, most: int) -> list[ShownGap]:
    """Return the longest stretches in which no kernel runs; pieces of different causes that touch are one.

    The script counts them in the same order.
    """
    lanes = [lane for row in timeline.rows if row.kind == "idle" for lane in row.lanes]
    if not lanes:
        return []
    (lane,) = lanes
    first = np.flatnonzero(np.append(True, lane.start[1:] != lane.end[:-1]))
    last = np.append(first[1:], len(lane)) - 1
    length = lane.end[last] - lane.start[first]
    gaps = []
    for number in np.lexsort((lane.start[first], -length))[:most].tolist():
        pieces = slice(first[number], last[number] + 1)
        causes = Counter[tuple[int, int]]()
        for name, note, time in zip(lane.name[pieces], lane.note[pieces], (lane.end - lane.start)[pieces], strict=True):
            causes[name, note] += time
        [(cause, filled)] = causes.most_common(1)
        why = ": ".join(filter(None, (timeline.names[part] for part in cause)))
        start_ns = int(lane.start[first[number]]) - timeline.start_ns
        share = format_value(filled / length[number], "%")
        gaps.append(ShownGap(describe_time(int(length[number])), describe_time(start_ns), why, share))
    return gaps


def describe_time(time_ns: int) -> str:
    """Return a time in the unit that fits, with three digits: 42.0 ms, 3.61 µs."""
    scale, unit = next((one for one in _UNITS if abs(time_ns) >= one[0] * 0.9995), _UNITS[-1])
    value = time_ns / scale
    digits = 0 if unit == "ns" or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}\N{NO-BREAK SPACE}{unit}"


def _describe_variant(number: int, timeline: Timeline) -> dict[str, Any]:
    rows = format_count(len(timeline.rows), "row")
    return {
        "number": number,
        "title": timeline.title,
        "text": f"{timeline.events} events in {rows}, {describe_time(timeline.end_ns - timeline.start_ns)} of the loop",
        "remarks": timeline.remarks,
        "gaps": list_shown_gaps(timeline, _GAPS_IN_WORDS),
        "data": base64.b64encode(encode_timeline(timeline)).decode(),
    }
