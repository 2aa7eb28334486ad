"""What Perfetto is given, read back with the protocol's own classes."""

import builtins
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from speedproof.report.timeline.collect import LaneRow, Timeline, read_timeline, stack_events
from speedproof.report.timeline.pftrace import write_perfetto
from speedproof.util.errors import ConfigError
from tests.report.timeline.unpack import list_events
from tests.trace.handmade import US, two_epochs


def read_back(path):
    """Each track's descriptor, and the slices on it as `(start, end, name, kind, notes)`, by the rules of the format alone."""
    trace = Trace.FromString(path.read_bytes())
    tracks, names, slices, open_slices = {}, {}, defaultdict(list), defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in tracks
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for field, entries in packet.interned_data.ListFields():
            names[field.name] = {entry.iid: getattr(entry, "name", None) or entry.str.decode() for entry in entries}
        if not packet.HasField("track_event"):
            continue
        event, opened = packet.track_event, open_slices[packet.track_event.track_uuid]
        assert packet.sequence_flags == TracePacket.SEQ_NEEDS_INCREMENTAL_STATE and not event.name
        if event.type == TrackEvent.TYPE_SLICE_END:
            start, *rest = opened.pop()
            slices[event.track_uuid].append((start, packet.timestamp, *rest))
            continue
        notes = {
            names["debug_annotation_names"][note.name_iid]: names["debug_annotation_string_values"][note.string_value_iid]
            for note in event.debug_annotations
        }
        (kind,) = (names["event_categories"][iid] for iid in event.category_iids)
        opened.append((packet.timestamp, names["event_names"].get(event.name_iid, ""), kind, notes))
    assert not any(open_slices.values())
    return tracks, slices


def of_row(read, label):
    tracks, slices = read
    (track,) = (uuid for uuid, track in tracks.items() if track.name == label)
    return sorted((start // US, end // US, *rest) for start, end, *rest in slices[track])


def test_a_trace_is_read_back_with_its_ranges_kernels_and_causes(tmp_path):
    timeline = read_timeline("two epochs", two_epochs().write(tmp_path / "trace"))
    write_perfetto([timeline], tmp_path / "trace.pftrace")
    read = tracks, slices = read_back(tmp_path / "trace.pftrace")
    variant, *rows = tracks.values()
    assert variant.name == "two epochs" and not variant.parent_uuid
    assert [(row.name, row.parent_uuid, row.sibling_order_rank) for row in rows] == [
        (row.label, variant.uuid, rank) for rank, row in enumerate(timeline.rows)
    ]
    assert sum(map(len, slices.values())) == timeline.events
    # In microseconds, as `two_epochs` is written.
    assert of_row(read, "loop's thread: ranges")[:3] == [
        (0, 4000, "dataload", "ranges", {}),
        (0, 10_000, "epoch", "ranges", {"group": "iteration"}),
        (500, 3500, "LoadImage", "ranges", {}),
    ]
    assert of_row(read, "GPU 0, stream 7")[1:3] == [
        (5600, 7600, "cudnn::cnn::wgrad_alg0_engine", "stream", {"group": "convolution weight gradient", "phase": "backward"}),
        (7700, 7800, "DtoH, pageable", "stream", {"group": "copy or fill", "phase": "update"}),
    ]
    assert of_row(read, "no kernel runs")[1] == (500, 3500, "transforms on the CPU", "idle", {"detail": "LoadImage"})


def test_of_a_pair_the_loops_begin_at_one_time(tmp_path):
    def make(title, start_ns):
        start = np.array([start_ns])
        row = LaneRow("epochs", "iterations", stack_events(start, start + 50, np.array([1])))
        return Timeline(title, start_ns, start_ns + 50, ["", "epoch 1"], ["", ""], [row], ["1 range never ended"])

    early, late = make("early", 100), make("late", 7000)
    write_perfetto([early, late], tmp_path / "trace.pftrace")
    tracks, slices = read_back(tmp_path / "trace.pftrace")
    assert [(track.name, track.description) for track in tracks.values() if not track.parent_uuid] == [
        ("early", "1 range never ended"),
        ("late", "1 range never ended"),
    ]
    assert list(slices.values()) == [[(7000, 7050, "epoch 1", "iterations", {})]] * 2


TIMES = st.integers(0, 12) | st.integers(-(2**53), 2**53)
EVENTS = st.lists(st.tuples(TIMES, st.integers(0, 5) | st.integers(0, 2**40), st.integers(0, 3), st.integers(0, 3)), min_size=1)


@given(EVENTS)
def test_whatever_goes_in_comes_out(tmp_path_factory, events):
    start, length, name, note = (np.array(column, np.int64) for column in zip(*events, strict=True))
    row = LaneRow("row", "idle", stack_events(start, start + length, name, note))
    timeline = Timeline("t", 0, 1, ["", "a", "Ünïcode \\u202e", "b" * 400], ["", "", "g", "h"], [row], [])
    path = tmp_path_factory.getbasetemp() / "any.pftrace"
    write_perfetto([timeline], path)
    tracks, slices = read_back(path)
    assert {track.sibling_merge_key_int for track in tracks.values()} == {0}
    shift = -min(0, int(start.min()))
    expected = [
        (int(begin) + shift, int(end) + shift, name, "idle", {"group": group, "detail": note})
        for _, _, begin, end, (name, group), note in list_events(timeline)
    ]
    told = [(*rest, {"group": "", "detail": ""} | notes) for each in slices.values() for *rest, notes in each]
    assert sorted(map(str, told)) == sorted(map(str, expected))


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    find = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("perfetto"):
            raise ModuleNotFoundError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        ConfigError,
        match=r"trace.pftrace: the package perfetto is missing; in the repository .+ pip install '\.\[perfetto\]'",
    ):
        write_perfetto([], tmp_path / "trace.pftrace")
