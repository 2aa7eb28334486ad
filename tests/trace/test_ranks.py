"""Two ranks' traces written by hand; each test works its numbers out. Times are given in microseconds.

A communication kernel is launched in `backward`, starts when its rank has computed, and ends, on all ranks, when the slowest
has come, too.
"""

from contextlib import contextmanager

import pytest

from speedproof.report.ranks_section import describe_ranks
from speedproof.trace.rank_waits import NO_COMMUNICATION, NO_GPU_COMMUNICATION, summarize_ranks
from speedproof.util.errors import RecordError
from tests.trace.handmade import AUTOGRAD, TraceBuilder

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
US = 1e-6
STREAM, COMMUNICATION_STREAM = 7, 20


class RankTrace:
    """One rank's trace: a compute kernel each step, then a communication kernel."""

    def __init__(self):
        self.trace, self.correlation = TraceBuilder(), 0

    def epoch(self, start, end):
        self.trace.range("epoch", start, end)

    def launch(self, at, start, end, name, stream):
        self.correlation += 1
        self.trace.call("cudaLaunchKernel", at, at + 1, self.correlation, thread=AUTOGRAD)
        self.trace.kernel(start, end, self.correlation, name=name, stream=stream)

    def step(self, start, computed, met, end):
        """A step whose compute ends at `computed`, and whose collective ends, on all ranks, at `met`."""
        self.trace.range("forward", start, start + 10)
        self.trace.range("backward", start + 10, start + 40)
        self.trace.range("update", start + 40, end)
        self.launch(start + 12, start + 12, computed, "wgrad", STREAM)
        self.launch(start + 14, computed, met, NCCL, COMMUNICATION_STREAM)

    def write(self, folder):
        return self.trace.write(folder)


def two_steps(tmp_path, computed):
    """Two steps of 100 µs on two ranks; `computed[rank][step]` is when the rank has computed."""
    folders = []
    for rank, (first, second) in enumerate(computed):
        trace = RankTrace()
        trace.epoch(0, 200)
        met = [max(computed[0][step], computed[1][step]) + 5 for step in range(2)]
        trace.step(0, first, met[0], 100)
        trace.step(100, second, met[1], 200)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    return folders


def test_the_slowest_rank_is_waited_for_in_every_step(tmp_path):
    # Step 1: rank 0 computes 50, rank 1 70; they meet at 75. Step 2: rank 0 computes 160 - 75 = 85, rank 1 150 - 75 = 75.
    summary = summarize_ranks(two_steps(tmp_path, [(50, 160), (70, 150)]))
    assert summary.basis == "communication kernels"
    found = {(wait.step, wait.rank): (wait.compute_s, wait.waited_s, wait.slowest) for wait in summary.waits}
    assert found == {
        (1, 0): pytest.approx((50 * US, 20 * US, 1)),
        (1, 1): pytest.approx((70 * US, 0, 1)),
        (2, 0): pytest.approx((85 * US, 0, 0)),
        (2, 1): pytest.approx((75 * US, 10 * US, 0)),
    }
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([20 * US, 10 * US])
    assert {(wait.epoch, wait.part) for wait in summary.waits} == {(1, "training")}
    assert summary.notes == []
    # Rank 0 communicates 25 and 5, rank 1 5 and 15, beside nothing.
    assert describe_ranks("Two", summary).replace("\N{NO-BREAK SPACE}", " ") == (
        "Two: rank 0 loses 20.0 µs per epoch (10 %) to imbalance, 20.0 µs of it in training; most of the waiting there is "
        "for rank 1, and in turn rank 1 waits 10.0 µs for rank 0. On rank 0, communication, including waiting inside it, takes "
        "30.0 µs per epoch; 30.0 µs of it is exposed."
    )


def test_clocks_of_ranks_need_not_agree(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    late = RankTrace()
    late.epoch(5000, 5200)
    late.step(5000, 5070, 5075, 5100)
    late.step(5100, 5150, 5165, 5200)
    assert summarize_ranks([folders[0], late.write(tmp_path / "late")]).waits == summarize_ranks(folders).waits


def test_communication_is_hidden_while_another_kernel_runs(tmp_path):
    # Rank 0 communicates from 50 to 75 and from 160 to 165. A kernel of its own runs from 60 to 70: 10 of 30 are hidden.
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    trace = RankTrace()
    trace.epoch(0, 200)
    trace.step(0, 50, 75, 100)
    trace.launch(16, 60, 70, "dgrad", STREAM)
    trace.step(100, 160, 165, 200)
    first, second = summarize_ranks([trace.write(tmp_path / "overlapping"), folders[1]]).ranks
    assert (first.communication_s, first.exposed_s, first.hidden_s) == pytest.approx((30 * US, 20 * US, 10 * US))
    # Rank 1 communicates from 70 to 75 and from 150 to 165, beside nothing.
    assert (second.communication_s, second.exposed_s, second.hidden_s) == pytest.approx((20 * US, 20 * US, 0))


def test_buckets_of_one_step_add_up(tmp_path):
    # Two collectives in a step. Rank 0: 30, then 70 - 35 = 35; rank 1: 25, then 80 - 35 = 45; they meet at 35 and 85.
    folders = []
    for rank, (one, two) in enumerate([(30, 70), (25, 80)]):
        trace = RankTrace()
        trace.epoch(0, 100)
        trace.step(0, one, 35, 100)
        trace.launch(16, two, 85, NCCL, COMMUNICATION_STREAM)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    waits = summarize_ranks(folders).waits
    assert [(wait.step, wait.compute_s, wait.waited_s) for wait in waits] == [
        pytest.approx((1, 65 * US, 10 * US)),  # it waits in the second, for 10
        pytest.approx((1, 70 * US, 5 * US)),  # and rank 1 in the first, for 5
    ]


def test_what_a_validation_waits_has_no_step(tmp_path):
    # After the step, which all finish at 80, rank 0 validates until 120, rank 1 until 150; they gather until 155.
    folders = []
    for rank, validated in enumerate([120, 150]):
        trace = RankTrace()
        trace.epoch(0, 200)
        trace.step(0, 60, 80, 90)
        trace.trace.range("sliding window", 90, validated)
        trace.launch(validated - 5, validated, 155, "ncclDevKernel_AllGather_RING_LL", COMMUNICATION_STREAM)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    waits = [wait for wait in summarize_ranks(folders).waits if wait.part == "validation"]
    assert [(wait.step, wait.compute_s, wait.waited_s, wait.slowest) for wait in waits] == [
        (None, pytest.approx(40 * US), pytest.approx(30 * US), 1),
        (None, pytest.approx(70 * US), 0, 1),
    ]


def test_the_first_of_three_epochs_warms_up(tmp_path):
    # Rank 0 waits 40 in the first epoch, 20 and 10 in the later ones: 15 an epoch.
    folders = []
    for rank, computed in enumerate([(20, 120, 230), (60, 140, 240)]):
        trace = RankTrace()
        for number, (one, met) in enumerate(zip(computed, (65, 145, 245), strict=True)):
            trace.epoch(100 * number, 100 * number + 100)
            trace.step(100 * number, one, met, 100 * number + 100)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    summary = summarize_ranks(folders)
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([15 * US, 0])
    assert [rank.epoch_s for rank in summary.ranks] == pytest.approx([100 * US, 100 * US])


def phases_alone(folder, forward_ends):
    """A step without a GPU: its backward ends at 80 on every rank, since gradients are averaged in it."""
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("forward", 0, forward_ends)
    trace.range("backward", forward_ends, 80)
    trace.range("update", 80, 90)
    return trace.write(folder)


def test_without_gpu_communication_it_says_so_instead_of_zero(tmp_path):
    summary = summarize_ranks([phases_alone(tmp_path / "0", 20), phases_alone(tmp_path / "1", 50)])
    assert summary.basis == "backward phase"
    assert summary.notes == [NO_GPU_COMMUNICATION]
    assert "no GPU communication in this trace" in NO_GPU_COMMUNICATION
    assert [(rank.communication_s, rank.exposed_s, rank.hidden_s) for rank in summary.ranks] == [(None, None, None)] * 2
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([30 * US, 0])
    assert "rank 0 loses" in describe_ranks("Two", summary) and "rank 1" in describe_ranks("Two", summary)


def test_epochs_whose_collectives_differ_are_left_out_and_named(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    trace = RankTrace()
    trace.epoch(0, 200)
    trace.step(0, 50, 75, 100)
    summary = summarize_ranks([folders[0], trace.write(tmp_path / "shorter")])
    assert summary.waits == []
    assert (summary.unmatched, summary.waited_for) == ([1], [])
    note = "waiting is not counted in 1 of 1 epochs, in which the ranks show different collectives (1)"
    assert summary.notes == [note]
    # Nothing is known of waiting, rather than that there is none.
    assert [rank.waited_s for rank in summary.ranks] == [None, None]
    assert describe_ranks("Two", summary) == f"Two: {note}."


def test_traces_are_opened_one_after_the_other(tmp_path):
    """64 exports are never unpacked side by side."""
    open_now, most = [], []

    @contextmanager
    def open_trace(name):
        open_now.append(name)
        most.append(len(open_now))
        yield name
        open_now.remove(name)

    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    assert summarize_ranks(folders, open_trace) == summarize_ranks(folders)
    assert most == [1, 1]


def test_one_ranks_epochs_may_leave_gaps_where_the_others_leave_none(tmp_path):
    # Of 250 us rank 0's ranges fill 93 %; rank 1's, 80 %: alone, its epochs would last from start to start, and be one.
    folders = []
    for rank, (begins, computed) in enumerate([(118, (50, 200)), (150, (70, 190))]):
        trace = RankTrace()
        for start, end, one, met in ((0, 100, computed[0], 75), (begins, 250, computed[1], 205)):
            trace.epoch(start, end)
            trace.step(start, one, met, end)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    waited = {(wait.epoch, wait.rank): round(wait.waited_s / US) for wait in summarize_ranks(folders).waits}
    assert waited == {(1, 0): 20, (1, 1): 0, (2, 0): 0, (2, 1): 42}


def test_traces_of_different_runs_are_refused(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    trace = RankTrace()
    for start in (0, 100):
        trace.epoch(start, start + 100)
        trace.step(start, start + 50, start + 75, start + 100)
    with pytest.raises(RecordError, match="give the traces of one run"):
        summarize_ranks([folders[0], trace.write(tmp_path / "longer")])


def in_one_file(tmp_path):
    """The ranks' traces as one, with a process and a GPU each."""
    whole = TraceBuilder()
    for rank, (first, second) in enumerate([(50, 160), (70, 150)]):
        trace = RankTrace()
        trace.epoch(0, 200)
        for start, computed, met in ((0, first, 75), (100, second, 165)):
            trace.step(start, computed, met, start + 100)
        for table, rows in trace.trace.rows.items():
            for row in rows:
                moved = {"process": rank, "device": rank, "thread": row.get("thread"), "end_thread": row.get("end_thread")}
                for name in ("thread", "end_thread"):
                    moved[name] = None if moved[name] is None else moved[name] + 10 * rank
                whole.rows[table].append(row | {key: value for key, value in moved.items() if key in row})
    return whole.write(tmp_path / "whole")


def test_one_trace_of_several_processes_is_a_run(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    apart, together = summarize_ranks(folders), summarize_ranks([in_one_file(tmp_path)])
    assert together == apart


def test_a_trace_of_one_process_has_no_ranks(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    with pytest.raises(RecordError, match="1 process with a GPU, not several ranks"):
        summarize_ranks(folders[:1])


def without_communication(folder, kernel="gemm"):
    trace = RankTrace()
    trace.epoch(0, 100)
    trace.trace.range("backward", 10, 90)
    trace.launch(12, 12, 80, kernel, STREAM)
    return trace.write(folder)


def test_where_nothing_communicates_nothing_is_said_of_waiting(tmp_path):
    summary = summarize_ranks([without_communication(tmp_path / "0"), without_communication(tmp_path / "1")])
    assert (summary.waits, summary.notes) == ([], [NO_COMMUNICATION])
    assert [rank.waited_s for rank in summary.ranks] == [None, None]
    assert describe_ranks("Two", summary) == f"Two: {NO_COMMUNICATION}."


def test_unrelated_runs_are_refused(tmp_path):
    folders = two_steps(tmp_path, [(50, 160), (70, 150)])
    with pytest.raises(RecordError, match="rank 1 is of another run: it has 0 of 2 kinds of kernels in common"):
        summarize_ranks([folders[0], without_communication(tmp_path / "other")])
    with pytest.raises(RecordError, match="only one of it and rank 0 shows communication"):
        summarize_ranks([folders[0], without_communication(tmp_path / "alone", kernel="wgrad")])


def test_epochs_that_do_not_count_take_no_part_in_the_mean(tmp_path):
    # Four epochs of 100 us; rank 0 waits 20 in each. In the third rank 1 shows another collective, and the first warms up.
    folders = []
    for rank, computed in enumerate([50, 70]):
        trace = RankTrace()
        for number in range(4):
            at = 100 * number
            trace.epoch(at, at + 100)
            trace.step(at, at + computed, at + 75, at + 100)
            if rank and number == 2:
                trace.launch(at + 16, at + 80, at + 85, NCCL, COMMUNICATION_STREAM)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    summary = summarize_ranks(folders)
    assert summary.unmatched == [3]
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([20 * US, 0])
    assert [(pair.rank, pair.slowest, pair.waited_s) for pair in summary.waited_for] == [(0, 1, pytest.approx(20 * US))]
    assert describe_ranks("Two", summary, noted=True).endswith(
        "exposed. Note: waiting is not counted in 1 of 4 epochs, in which the ranks show different collectives (3)."
    )


def test_ranks_wait_in_turn_for_each_other(tmp_path):
    # Of two collectives of a step rank 0 is last to one, rank 1 to the other: 30 against 25, then 35 against 45.
    folders = []
    for rank, (one, two) in enumerate([(30, 70), (25, 80)]):
        trace = RankTrace()
        trace.epoch(0, 100)
        trace.step(0, one, 35, 100)
        trace.launch(16, two, 85, NCCL, COMMUNICATION_STREAM)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    summary = summarize_ranks(folders)
    pairs = [(pair.rank, pair.slowest, round(pair.waited_s / US)) for pair in summary.waited_for]
    assert pairs == [(0, 1, 10), (1, 0, 5)]
    assert "for rank 1, and in turn rank 1 waits" in describe_ranks("Two", summary)


@pytest.mark.parametrize("lead", [0, 19_000])
def test_ranks_of_hosts_that_run_ahead_are_compared_step_by_step(tmp_path, lead):
    """Two ranks in lockstep at 44 ms a step, of eight collectives; rank 0's host passes a step in 34 ms, and began earlier."""
    folders = []
    for rank, (host, computes, begins) in enumerate([(34_000, 3000, 0), (44_000, 4200, lead)]):
        trace = RankTrace()
        for step in range(5):
            trace.trace.range(f"ProfilerStep#{step + 5}", begins + host * step, begins + host * (step + 1) - 10)
            for bucket in range(8):
                launched = begins + host * step + host // 8 * bucket + 100
                met = lead + 44_000 * step + 5500 * (bucket + 1)
                trace.launch(launched, met - 5200, met - 5200 + computes, "gemm", STREAM)
                trace.launch(launched + 20, met - 5200 + computes, met, NCCL, COMMUNICATION_STREAM)
        folders.append(trace.write(tmp_path / f"rank{rank}"))
    summary = summarize_ranks(folders)
    assert (summary.unit, summary.unmatched) == ("step", [])
    assert [rank.epoch_s for rank in summary.ranks] == pytest.approx([0.044, 0.044], rel=1e-3)
    # Eight times 1200 us.
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([9600 * US, 0])
