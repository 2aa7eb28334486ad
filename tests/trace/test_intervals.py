"""Interval algebra against a brute-force bitmap of 40 moments."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speedproof.trace.intervals import (
    coverage,
    difference,
    first_come,
    holder,
    innermost,
    intersection,
    outermost,
    overlap,
    total,
    union,
)

MOMENTS = 40
spans = st.lists(st.tuples(st.integers(0, MOMENTS), st.integers(0, MOMENTS)).map(sorted), max_size=12)
proper_spans = st.lists(
    st.tuples(st.integers(0, MOMENTS - 1), st.integers(1, 9)).map(lambda s: (s[0], s[0] + s[1])), max_size=12
)


def arrays(pairs):
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def bitmap(start, end):
    """Each moment's number of intervals that hold it."""
    return [sum(s <= moment < e for s, e in zip(start, end, strict=True)) for moment in range(MOMENTS + 10)]


def covered(start, end):
    return [count > 0 for count in bitmap(start, end)]


def assert_disjoint_and_ascending(some):
    assert (some.start < some.end).all()
    assert (some.start[1:] >= some.end[:-1]).all()


@given(spans)
def test_union_covers_what_any_covers_in_maximal_pieces(pairs):
    merged = union(*arrays(pairs))
    assert covered(merged.start, merged.end) == covered(*arrays(pairs))
    assert (merged.start[1:] > merged.end[:-1]).all()
    assert total(merged) == sum(covered(*arrays(pairs)))


@given(spans, spans)
def test_intersection_and_difference_split_the_first_list(some, others):
    a, b = union(*arrays(some)), union(*arrays(others))
    both, rest = intersection(a, b), difference(a, b)
    in_a, in_b = covered(a.start, a.end), covered(b.start, b.end)
    assert covered(both.start, both.end) == [x and y for x, y in zip(in_a, in_b, strict=True)]
    assert covered(rest.start, rest.end) == [x and not y for x, y in zip(in_a, in_b, strict=True)]
    assert_disjoint_and_ascending(both)
    assert_disjoint_and_ascending(rest)


@given(spans, spans)
def test_coverage_and_overlap_count_the_moments_of_each_window(some, windows):
    a, (start, end) = union(*arrays(some)), arrays(windows)
    in_a = covered(a.start, a.end)
    expected = [sum(in_a[s:e]) for s, e in windows]
    assert coverage(a, start, end).tolist() == expected
    met = overlap(start, end, a)
    assert np.bincount(met.left, met.length, minlength=len(windows)).tolist() == expected
    assert (met.length > 0).all()


@given(spans)
def test_holder_finds_the_interval_around_a_moment(pairs):
    a, moments = union(*arrays(pairs)), np.arange(MOMENTS)
    found = holder(a, moments)
    for moment, index in zip(moments, found, strict=True):
        holding = [i for i in range(len(a)) if a.start[i] <= moment < a.end[i]]
        assert [index] == (holding or [-1])


@given(proper_spans)
def test_first_come_gives_each_moment_to_the_earliest_started(pairs):
    start, end = arrays(pairs)
    pieces, owner = first_come(start, end)
    assert_disjoint_and_ascending(pieces)
    assert covered(pieces.start, pieces.end) == covered(start, end)
    assert ((start[owner] <= pieces.start) & (pieces.end == end[owner])).all()
    # Whoever comes late waits exactly until all who came first have ended.
    for piece, interval in zip(pieces.start, owner, strict=True):
        earlier = end[(start < start[interval]) | ((start == start[interval]) & (end > end[interval]))]
        assert piece == max([start[interval], *earlier[earlier > start[interval]]])


def test_first_come_worked_by_hand():
    # A [0, 10), B [2, 15), C [3, 5): B waits for A, C lies wholly in A.
    pieces, owner = first_come(*arrays([(2, 15), (0, 10), (3, 5)]))
    assert list(zip(pieces.start.tolist(), pieces.end.tolist(), owner.tolist(), strict=True)) == [(0, 10, 1), (10, 15, 0)]


def test_innermost_worked_by_hand():
    # A [0, 20) holds B [2, 8), which holds C [4, 5), and D [10, 12); E [30, 31) stands alone.
    pieces, owner = innermost(*arrays([(0, 20), (2, 8), (4, 5), (10, 12), (30, 31)]))
    assert "".join("ABCDE"[o] for o in owner) == "ABCBADAE"
    assert pieces.start.tolist() == [0, 2, 4, 5, 8, 10, 12, 30]
    assert pieces.end.tolist() == [2, 4, 5, 8, 10, 12, 20, 31]


@given(proper_spans)
def test_innermost_covers_the_union_once_even_where_intervals_cross(pairs):
    start, end = arrays(pairs)
    pieces, owner = innermost(start, end)
    assert_disjoint_and_ascending(pieces)
    assert covered(pieces.start, pieces.end) == covered(start, end)
    assert ((start[owner] <= pieces.start) & (pieces.end <= end[owner])).all()


def test_outermost_skips_what_begins_inside_another():
    assert outermost(*arrays([(5, 6), (0, 10), (10, 12), (2, 11)])).tolist() == [1]
    assert outermost(*arrays([(5, 6), (0, 10), (10, 12)])).tolist() == [1, 2]
