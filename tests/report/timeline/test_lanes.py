"""Events in lanes, and lanes as bytes: whatever goes in comes out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speedproof.report.timeline.collect import LaneRow, Timeline, stack_events
from speedproof.report.timeline.pftrace import encode_numbers, encode_timeline
from tests.report.timeline.unpack import decode_timeline, list_events, read_numbers

NAMES = ["", "epoch", "Ünïcode \u202e", "</script><b>", "k" * 400]
TIMES = st.integers(0, 2**53)
EVENTS = st.lists(
    st.tuples(TIMES, st.integers(0, 2**40) | st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), max_size=30
)


def stack(events):
    start, length, name, note = (np.array(column, np.int64) for column in (zip(*events, strict=True) if events else ([],) * 4))
    return stack_events(start, start + length, name, note)


@given(EVENTS | st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4)), max_size=30))
def test_no_event_is_lost_and_none_begins_before_the_one_before_it_has_ended(events):
    lanes = stack(events)
    found = [
        row
        for lane in lanes
        for row in zip(
            lane.start.tolist(), (lane.end - lane.start).tolist(), lane.name.tolist(), lane.note.tolist(), strict=True
        )
    ]
    assert sorted(found) == sorted(events)
    for lane in lanes:
        assert (lane.start[1:] >= lane.end[:-1]).all()


def test_what_nests_lies_below_what_holds_it():
    #              epoch    dataload  LoadImage  forward  a mark    the next epoch
    lanes = stack([(0, 10, 1, 0), (0, 4, 2, 0), (1, 2, 3, 0), (4, 3, 4, 0), (5, 0, 3, 0), (10, 5, 1, 0)])
    assert [lane.start.tolist() for lane in lanes] == [[0, 10], [0, 4], [1, 5]]


def test_what_overlaps_without_nesting_takes_the_uppermost_lane_that_is_free():
    # B begins in A and outlasts it; C begins when A's lane is free again.
    lanes = stack([(0, 10, 1, 0), (5, 15, 2, 0), (12, 3, 3, 0)])
    assert [lane.name.tolist() for lane in lanes] == [[1, 3], [2]]


@given(st.lists(st.lists(EVENTS, max_size=2), max_size=3))
def test_a_timeline_comes_back_as_it_was(rows):
    rows = [
        LaneRow(f"row {number}", "ranges", [lane for events in one for lane in stack(events)])
        for number, one in enumerate(rows)
    ]
    timeline = Timeline("a <b>title</b>", 5, 2**50, NAMES, ["", "", "g", "", "h"], rows, ["2 ranges never ended"])
    back = decode_timeline(encode_timeline(timeline))
    assert list_events(back) == list_events(timeline)
    assert (back.title, back.start_ns, back.end_ns, back.remarks) == ("a <b>title</b>", 5, 2**50, ["2 ranges never ended"])
    assert [row.kind for row in back.rows] == [row.kind for row in rows]


@given(st.lists(st.integers(0, 2**62) | st.sampled_from([0, 127, 128, 2**14 - 1, 2**14, 2**63 - 1])))
def test_numbers_of_any_size_are_written_as_leb128(numbers):
    assert list(read_numbers(encode_numbers(np.array(numbers, np.int64)))) == numbers


def test_leb128_by_hand():
    assert encode_numbers(np.array([0, 127, 128, 300])) == bytes([0, 127, 128, 1, 0b10101100, 0b10])
