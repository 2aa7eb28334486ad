from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speedproof.report.figures.timeline_figure import busy_shares, run_lengths

INTERVALS = st.lists(st.tuples(st.integers(-20, 120), st.integers(0, 40)), max_size=30)


def test_shares_of_overlapping_intervals_by_hand():
    # 0–4 and 2–6 together cover 0–6, 10–11 lies alone: bins 0–5, 5–10, 10–15 are covered 5, 1 and 1 of 5.
    shares = busy_shares(np.array([2, 0, 10]), np.array([6, 4, 11]), np.array([0, 5, 10, 15]))
    assert shares.tolist() == [1.0, 0.2, 0.2]


@given(INTERVALS)
def test_shares_equal_a_count_of_covered_unit_cells(intervals):
    starts = np.array([start for start, _ in intervals], dtype=np.int64)
    ends = np.array([start + length for start, length in intervals], dtype=np.int64)
    covered = np.array([any(start <= cell < start + length for start, length in intervals) for cell in range(100)])
    expected = covered.reshape(20, 5).mean(axis=1)
    np.testing.assert_allclose(busy_shares(starts, ends, np.arange(0, 101, 5)), expected)


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=50))
def test_runs_of_equal_labels_put_the_labels_together_again(labels):
    runs = run_lengths(np.array(labels))
    assert [label for label, _, length in runs for _ in range(length)] == labels
    assert all(left[0] != right[0] for left, right in pairwise(runs))
