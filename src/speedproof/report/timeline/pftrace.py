"""A timeline in Perfetto's own format: every event of every row, to be asked in SQL or seen in a Perfetto page.

Each trace is a group of its own, with its rows below it in the order of the page; of two traces the loops begin at one time.
Events that nest share a track; others have a track for each lane, which Perfetto shows as one.
"""

import gzip
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speedproof.report.timeline.collect import NAMELESS, Lane, LaneKind, LaneRow, Timeline
from speedproof.results.files import replacing
from speedproof.trace.intervals import Array
from speedproof.util.errors import ConfigError, advise_install

PERFETTO_FILE = "trace.pftrace"

_SEQUENCE = 1  # all packets are of one writer, whose names they share
_AT_ONCE = 50_000  # packets that are held in memory
# What an event's note says: of a kernel the phase that caused it, of an idle stretch more about its cause.
_NOTES: dict[LaneKind, str] = {"stream": "phase", "idle": "detail"}
_GROUP = "group"


def write_perfetto(timelines: Sequence[Timeline], path: Path) -> None:
    """Write timelines as one file that Perfetto opens; the same ones give the same bytes.

    Raises :class:`speedproof.util.errors.ConfigError` where the package `perfetto` is missing.
    """
    encoder = _Encoder(timelines)
    with replacing(path) as temporary, temporary.open("wb") as file:
        for part in encoder.encode():
            file.write(part)


class _Encoder:
    """Turns timelines into parts of one file. Names are written once and have numbers, from 1."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        self._classes = _load_classes()
        self._timelines = timelines
        texts = (text for timeline in timelines for text in (*timeline.names, *timeline.groups))
        self._texts = _number(texts)
        self._kinds = _number(row.kind for timeline in timelines for row in timeline.rows)
        self._labels = _number([*_NOTES.values(), _GROUP])
        self._tracks = count(1)
        # Where the loops of all begin; a trace alone keeps its times. Perfetto has none below zero.
        self._zero_ns = max((timeline.start_ns - min(0, _find_first(timeline)) for timeline in timelines), default=0)

    def encode(self) -> Iterator[bytes]:
        """Yield the file's parts, one behind the other."""
        yield self._encode_names()
        for rank, timeline in enumerate(self._timelines):
            yield from self._encode_timeline(rank, timeline)

    def _encode_names(self) -> bytes:
        trace = self._classes.Trace()
        cleared = self._classes.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        data = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE, sequence_flags=cleared).interned_data
        for text, number in self._texts.items():
            data.event_names.add(iid=number, name=text)
            data.debug_annotation_string_values.add(iid=number, str=text.encode())
        for kind, number in self._kinds.items():
            data.event_categories.add(iid=number, name=kind)
        for label, number in self._labels.items():
            data.debug_annotation_names.add(iid=number, name=label)
        return trace.SerializeToString()

    def _encode_timeline(self, rank: int, timeline: Timeline) -> Iterator[bytes]:
        variant = next(self._tracks)
        explicit = self._classes.TrackDescriptor.EXPLICIT
        remarks = "; ".join(timeline.remarks)
        yield self._describe_track(
            variant, name=timeline.title, description=remarks, sibling_order_rank=rank, child_ordering=explicit
        )
        by_key = self._classes.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY
        for place, row in enumerate(timeline.rows):
            for lanes in [row.lanes] if _nest(row.lanes) else [[lane] for lane in row.lanes]:
                track = next(self._tracks)
                yield self._describe_track(
                    track,
                    parent_uuid=variant,
                    name=row.label,
                    sibling_order_rank=place,
                    sibling_merge_behavior=by_key,
                    sibling_merge_key_int=place,
                )
                yield from self._encode_events(timeline, row, lanes, track)

    def _describe_track(self, number: int, **values: Any) -> bytes:
        trace = self._classes.Trace()
        trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor.MergeFrom(
            self._classes.TrackDescriptor(uuid=number, **values)
        )
        return trace.SerializeToString()

    def _encode_events(self, timeline: Timeline, row: LaneRow, lanes: list[Lane], track: int) -> Iterator[bytes]:
        classes, kind, note_label = self._classes, self._kinds[row.kind], self._labels[_NOTES.get(row.kind, _GROUP)]
        begin, end = classes.TrackEvent.TYPE_SLICE_BEGIN, classes.TrackEvent.TYPE_SLICE_END
        needs, group_label = classes.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE, self._labels[_GROUP]
        texts = [self._texts.get(name, 0) for name in timeline.names]
        groups = [self._texts.get(group, 0) for group in timeline.groups]
        times, begins, names, notes = (column.tolist() for column in _order_edges(lanes))
        offset = self._zero_ns - timeline.start_ns
        for first in range(0, len(times), _AT_ONCE):
            trace = classes.Trace()
            for edge in range(first, min(first + _AT_ONCE, len(times))):
                packet = trace.packet.add(
                    timestamp=times[edge] + offset, trusted_packet_sequence_id=_SEQUENCE, sequence_flags=needs
                )
                event = packet.track_event
                event.track_uuid = track
                if not begins[edge]:
                    event.type = end
                    continue
                name, note = names[edge], notes[edge]
                event.type = begin
                event.name_iid = texts[name]
                event.category_iids.append(kind)
                if groups[name]:
                    event.debug_annotations.add(name_iid=group_label, string_value_iid=groups[name])
                if note != NAMELESS:
                    event.debug_annotations.add(name_iid=note_label, string_value_iid=texts[note])
            yield trace.SerializeToString()


def _load_classes() -> Any:
    """Return the protocol's classes, which the package `perfetto` has."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except Exception as error:  # protobuf's own, if it is older than these classes
        why = "is missing" if isinstance(error, ModuleNotFoundError) else f"cannot be used ({error})"
        raise ConfigError(f"{PERFETTO_FILE}: the package perfetto {why}; {advise_install('perfetto')}") from None
    return perfetto_trace_pb2


def _number(texts: Iterable[str]) -> dict[str, int]:
    """Return each text once with its number; the empty one has none."""
    return {text: number for number, text in enumerate(dict.fromkeys(filter(None, texts)), 1)}


def _find_first(timeline: Timeline) -> int:
    return min((int(lane.start[0]) for row in timeline.rows for lane in row.lanes), default=0)


def _nest(lanes: Sequence[Lane]) -> bool:
    """Return whether each event lies on one of the lane above."""
    for above, lane in pairwise(lanes):
        holder = np.searchsorted(above.start, lane.start, side="right") - 1
        if not ((holder >= 0) & (lane.end <= above.end[holder])).all():
            return False
    return True


def _order_edges(lanes: Sequence[Lane]) -> tuple[Array, Array, Array, Array]:
    """Return when events begin or end, in order: times, whether each begins, its name and its note (2n each).

    At one time, those end that began before, the innermost first; then others begin, the outermost first; what lasts no time
    ends last.
    """
    start, end, name, note = (
        np.concatenate([getattr(lane, column) for lane in lanes]) for column in ("start", "end", "name", "note")
    )
    depth = np.repeat(np.arange(len(lanes)), [len(lane) for lane in lanes])
    begins = np.repeat([1, 0], len(start))
    turn = np.concatenate([np.ones_like(start), np.where(end > start, 0, 2)])
    times = np.concatenate([start, end])
    order = np.lexsort((np.concatenate([depth, -depth]), turn, times))
    return times[order], begins[order], np.tile(name, 2)[order], np.tile(note, 2)[order]


_BITS, _MORE = 7, 0x80
_LEVEL = 9


def encode_timeline(timeline: Timeline) -> bytes:
    """Return the timeline as bytes; the same one gives the same bytes."""
    order, number = _rank_names(timeline)
    header = {
        "title": timeline.title,
        "start": timeline.start_ns,
        "end": timeline.end_ns,
        "names": [timeline.names[name] for name in order],
        "groups": [timeline.groups[name] for name in order],
        "rows": [{"label": row.label, "kind": row.kind, "lanes": [len(lane) for lane in row.lanes]} for row in timeline.rows],
        "remarks": timeline.remarks,
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    columns = (encode_numbers(column) for row in timeline.rows for lane in row.lanes for column in _columns_of(lane, number))
    return gzip.compress(b"".join([struct.pack("<I", len(text)), text, *columns]), _LEVEL, mtime=0)


def _columns_of(lane: Lane, number: Array) -> Iterable[Array]:
    waited = lane.start - np.append(0, lane.end[:-1])
    return waited, lane.end - lane.start, number[lane.name], number[lane.note]


def _rank_names(timeline: Timeline) -> tuple[Array, Array]:
    """Return the names' numbers, the most frequent first after the empty one, and each name's place among them."""
    used = np.zeros(len(timeline.names), np.int64)
    for row in timeline.rows:
        for lane in row.lanes:
            used += np.bincount(lane.name, minlength=len(used)) + np.bincount(lane.note, minlength=len(used))
    used[NAMELESS] = np.iinfo(np.int64).max
    order = np.argsort(-used, kind="stable")
    return order, np.argsort(order)


def encode_numbers(numbers: Array) -> bytes:
    """Return numbers that are not negative (n, int64) as LEB128."""
    numbers = np.asarray(numbers, np.int64)
    length = np.ones(len(numbers), np.int64)
    for bits in range(_BITS, 63, _BITS):
        length += numbers >> bits > 0
    first = np.cumsum(length) - length
    out: NDArray[np.uint8] = np.zeros(int(length.sum()), np.uint8)
    for place in range(int(length.max(initial=0))):
        these = length > place
        group = (numbers[these] >> (_BITS * place)) & (_MORE - 1)
        out[first[these] + place] = group | np.where(length[these] > place + 1, _MORE, 0)
    return out.tobytes()
