"""Every idle gap of the GPU inside the epochs, and its causes.

A *stretch* is a maximal time in one part of an epoch with no kernel on any device of the loop: either nothing at all
happens, or memory is copied and nothing is computed. The second kind explains itself (:data:`COPYING`).

The first kind gets its causes from evidence. Each kind of evidence is a set of intervals; a nanosecond that several cover
counts for the first of :data:`CAUSES` alone. So a stretch is split: each part of it goes to what was at work then, and of a
cause to what its detail names.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from speedproof.trace.cause_evidence import gather_evidence
from speedproof.trace.causes import CAUSES, COPYING, UNEXPLAINED, CauseEvidence, Labels, Topic
from speedproof.trace.events import Names, Trace, join_names, make_names
from speedproof.trace.intervals import Intervals, difference, first_come, holder, intersection, overlap, total, union
from speedproof.trace.loop import Loop

# Of all idle time: functions and operators that fill less are not named one by one, nor are smaller terms of the account.
_NAMED_FROM, _TERM_FROM = 0.001, 0.01

_NAMELESS = make_names(np.zeros(1, int), [""])


def find_idle_gaps(trace: Trace, loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return every part of the epochs in which no kernel runs.

    Returns:
        start_ns, end_ns, cause, detail, topic, term, stretch, epoch, part. One row per piece of an idle gap with one cause and
        detail; `stretch` numbers the gaps, `topic` is one of :data:`Topic` or empty, and `term` is what the account calls it.
        No rows without a GPU.

    """
    if activity.empty:
        return pd.DataFrame(columns=["start_ns", "end_ns", "cause", "detail", "topic", "term", "stretch", "epoch", "part"])
    start, end, copies = activity["start_ns"].to_numpy(), activity["end_ns"].to_numpy(), ~activity["kernel"].to_numpy()
    parts = loop.parts
    copying = difference(union(start[copies], end[copies]), union(start[~copies], end[~copies]))
    moved = overlap(parts.spans.start, parts.spans.end, copying)
    moving = Intervals(moved.start, moved.end)
    idle = difference(parts.spans, union(start, end))
    copied = CauseEvidence(COPYING, moving, _label_copies(activity), most=True)
    idle_gaps = _join([_split(moving, copied), *_explain(idle, gather_evidence(trace, loop, activity, idle))])
    begin = idle_gaps["start_ns"].to_numpy()
    stretch = np.where(idle_gaps["cause"] == COPYING, holder(moving, begin), len(moving) + holder(idle, begin))
    return idle_gaps.assign(stretch=stretch.astype(np.int32), **parts.place(holder(parts.spans, begin)))


def _label_copies(activity: pd.DataFrame) -> Labels:
    copies = activity[~activity["kernel"]]
    pageable: dict[str, Topic] = dict.fromkeys(map(str, copies["name"][copies["pageable"]].unique()), "pageable memory")
    return Labels(copies["start_ns"].to_numpy(), copies["end_ns"].to_numpy(), copies["name"].array, pageable)


def _explain(idle: Intervals, evidence: Iterator[CauseEvidence]) -> Iterator[pd.DataFrame]:
    """Assign each part of an idle gap to the first evidence that covers it; yield each cause's pieces."""
    unclaimed, whole_ns = idle, total(idle)
    for one in evidence:
        claimed = intersection(unclaimed, one.covers)
        if not len(claimed):
            continue
        pieces = _split(claimed, one)
        if one.labels and one.labels.terms:
            pieces = _leave_out_small(pieces, "detail", _NAMED_FROM * whole_ns, "")
            pieces = _leave_out_small(pieces, "term", _TERM_FROM * whole_ns, one.cause)
        yield pieces
        unclaimed = difference(unclaimed, one.covers)
        if not len(unclaimed):
            return  # other evidence is not gathered
    yield _split(unclaimed, CauseEvidence(UNEXPLAINED, unclaimed))


def _split(pieces: Intervals, evidence: CauseEvidence) -> pd.DataFrame:
    """Return pieces of one cause, cut where their detail changes; of labels that overlap the first to begin counts."""
    labels = evidence.labels
    if labels is None or not len(pieces):
        detail = _NAMELESS.repeat(len(pieces))
    elif evidence.most:
        detail = _most_of(pieces, labels)
    else:
        named, owner = first_come(labels.start, labels.end)
        met, rest = overlap(pieces.start, pieces.end, named), difference(pieces, named)
        codes = np.append(labels.name.codes[owner][met.right], np.full(len(rest), -1, np.int32))
        detail = join_names([_NAMELESS, make_names(codes, labels.name.categories)])[1:].fillna("")
        pieces = Intervals(np.append(met.start, rest.start), np.append(met.end, rest.end))
        del met, rest, codes  # of millions of pieces
    of_cause = make_names(np.full(len(pieces), list(CAUSES).index(evidence.cause), np.int8), CAUSES)
    topics, terms = (labels.topics, labels.terms) if labels else ({}, {})
    topic, term = _look_up(detail, topics, ""), _look_up(detail, terms, evidence.cause)
    bounds = {"start_ns": pieces.start, "end_ns": pieces.end}
    return pd.DataFrame({**bounds, "cause": of_cause, "detail": detail, "topic": topic, "term": term})


def _look_up(names: Names, values: Mapping[str, str], default: str) -> Names:
    """Return what each name stands for."""
    codes, distinct = pd.factorize(np.array([values.get(str(name), default) for name in names.categories], object))
    return make_names(np.append(codes, -1)[names.codes], distinct)


def _leave_out_small(pieces: pd.DataFrame, column: str, least_ns: float, instead: str) -> pd.DataFrame:
    """Return pieces under another name if all pieces of their name together are shorter than this."""
    names = pieces[column].array
    filled = np.bincount(names.codes, pieces["end_ns"] - pieces["start_ns"], minlength=len(names.categories))
    large = {str(name): str(name) for name, ns in zip(names.categories, filled, strict=True) if ns >= least_ns}
    return pieces.assign(**{column: _look_up(names, large, instead)})


def _join(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    names = {column: join_names([one[column].array for one in pieces]) for column in ("detail", "topic", "term")}
    return pd.concat([one.drop(columns=[*names]) for one in pieces], ignore_index=True).assign(**names)


def _most_of(spans: Intervals, labels: Labels) -> Names:
    """Return, for each span, the name that overlaps it longest; empty where none does."""
    met = overlap(labels.start, labels.end, spans)
    lengths = pd.DataFrame({"span": met.right, "code": labels.name.codes[met.left], "length": met.length})
    lengths = lengths[lengths["code"] >= 0].groupby(["span", "code"], sort=True)["length"].sum().reset_index()
    longest = lengths.sort_values("length", kind="stable").drop_duplicates("span", keep="last")
    codes = np.full(len(spans), -1, np.int32)
    codes[longest["span"]] = longest["code"]
    # A range without a name of its own has an empty one, too.
    return join_names([_NAMELESS, make_names(codes, labels.name.categories)])[1:].fillna("")
