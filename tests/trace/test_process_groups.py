"""Ranks in several process groups, as torch.profiler writes them: each test works its numbers out. Times are in microseconds.

Four ranks: 0 and 1, 2 and 3 share a layer (tensor parallel), 0 and 2, 1 and 3 the gradients (data parallel). In a step of 1000
a rank computes, meets its tensor group, computes, and meets its data group.
"""

import json
import logging

import pytest

from speedproof.profilers.convert import convert_input, trace_folder
from speedproof.report.ranks_section import describe_ranks
from speedproof.results.trace_tables import read_table, read_trace_info
from speedproof.trace.process_groups import APART, NOT_GIVEN
from speedproof.trace.rank_waits import summarize_ranks
from speedproof.util.errors import RecordError

PID, ZERO = 77, 1000
TENSOR, DATA = [(0, 1), (2, 3)], [(0, 2), (1, 3)]
STREAMS = {"tensor": 20, "data": 24}
# When each rank has computed; its tensor group meets 10 later than the later one, and so does its data group.
FIRST, SECOND = (100, 160, 300, 240), (500, 520, 560, 600)


def meet(ends, groups):
    return [max(ends[one] for group in groups if rank in group for one in group) + 10 for rank in range(4)]


def describe_group(kind, members, name=None, ranks=None):
    return {
        "Collective name": "allreduce",
        "Process Group Name": name or kind,
        "Process Group Ranks": ranks or json.dumps(list(members)),
        "Group size": len(members),
    }


def rank_events(rank, steps=4, describe=describe_group, offset=0, first=FIRST, second=SECOND, name_in_kernel=True):
    """One rank's events: a step begins when all have finished the one before it."""
    events, correlation = [], 0

    def add(category, name, at, end, **args):
        place = {"pid": 0, "tid": args.get("stream", 0)} if category == "kernel" else {"pid": PID, "tid": PID}
        times = {"ts": ZERO + offset + at, "dur": end - at}
        events.append({"ph": "X", "cat": category, "name": name, "args": args, **place, **times})

    def launch(name, called, at, end, stream, described=None):
        nonlocal correlation
        correlation += 1
        described = described or {}
        if described and not name_in_kernel:
            add("cpu_op", "record_param_comms", called - 1, called + 3, **{"External id": correlation} | described)
            described = {}
        add("cuda_runtime", "cudaLaunchKernel", called, called + 2, correlation=correlation)
        known = {"device": 0, "stream": stream, "correlation": correlation, "External id": correlation}
        add("kernel", name, at, end, **known | described)

    met = {"tensor": meet(first, TENSOR), "data": meet(second, DATA)}
    for step in range(steps):
        at = 1000 * step
        add("user_annotation", f"ProfilerStep#{step + 3}", at, at + 995)
        begin = 10
        for number, (kind, groups, computed) in enumerate((("tensor", TENSOR, first), ("data", DATA, second))):
            members = next(group for group in groups if rank in group)
            launch(f"gemm{kind}", at + 5 + 20 * number, at + begin, at + computed[rank], 7)
            meeting = at + computed[rank], at + met[kind][rank]
            described = describe(kind, members) if describe else None
            launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 12 + 20 * number, *meeting, STREAMS[kind], described)
            begin = met[kind][rank]
    return events


def write_rank(folder, rank, numbered=True, world=4, **given):
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}]}
    if numbered:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    path = folder / f"rank{rank}.json"
    path.write_text(json.dumps(head | {"traceEvents": rank_events(rank, **given)}))
    return path


def summarize(paths, tmp_path):
    return summarize_ranks(paths, lambda path: trace_folder(path, tmp_path / "exports"))


def in_us(summary):
    return {(pair.rank, pair.slowest): round(1e6 * pair.waited_s) for pair in summary.waited_for}


# In the tensor groups 0 waits 60 for 1, and 3 waits 60 for 2. In the data groups 0 has computed at 500 and 2 at 560, so that 0
# waits 60; 1 at 520 and 3 at 600: 1 waits 80.
EXPECTED = {(0, 1): 60, (3, 2): 60, (0, 2): 60, (1, 3): 80}


@pytest.mark.parametrize("name_in_kernel", [True, False])
def test_ranks_are_compared_within_their_groups_whatever_the_order(tmp_path, name_in_kernel):
    paths = [write_rank(tmp_path, rank, offset=7 * rank, name_in_kernel=name_in_kernel) for rank in (2, 0, 3, 1)]
    summary = summarize(paths, tmp_path)
    assert in_us(summary) == EXPECTED
    assert [round(1e6 * rank.waited_s) for rank in summary.ranks] == [120, 80, 0, 60]
    assert {wait.group for wait in summary.waits} == {"tensor (0 1)", "tensor (2 3)", "data (0 2)", "data (1 3)"}
    (note,) = summary.notes
    assert note.startswith("ranks are compared within each of 4 process groups")
    # Of the waiting of rank 0, as much is for rank 1 as for rank 2; none is for rank 3.
    assert "most of the waiting there is for rank 1;" not in describe_ranks("Four", summary)
    assert "for rank 3" not in describe_ranks("Four", summary)


def test_a_file_says_whose_it_is(tmp_path):
    convert_input(write_rank(tmp_path, 2), tmp_path / "trace")
    info = read_trace_info(tmp_path / "trace")
    assert (info.rank, info.ranks) == (2, 4)
    rows = read_table(tmp_path / "trace", "collectives").to_pylist()
    assert [(row["name"], row["group"], row["members"], row["stream"]) for row in rows[:2]] == [
        ("allreduce", "tensor", "2 3", 20),
        ("allreduce", "data", "0 2", 24),
    ]


def test_groups_of_which_one_rank_was_given_are_not_counted(tmp_path):
    paths = [write_rank(tmp_path, rank) for rank in (0, 1)]
    summary = summarize(paths, tmp_path)
    assert in_us(summary) == {(0, 1): 60}
    assert summary.notes == [
        "not counted: 2 process groups of which only one rank's trace was given",
        NOT_GIVEN,
    ]


def test_a_rank_without_a_partner_has_no_number(tmp_path):
    # Of 0, 1 and 3, rank 0 and 3 share no group; rank 3 shares one with rank 1.
    summary = summarize([write_rank(tmp_path, rank) for rank in (0, 3)], tmp_path)
    assert [rank.waited_s for rank in summary.ranks] == [None, None]
    assert describe_ranks("Two", summary).startswith("Two: not counted: 4 process groups of which")


def test_groups_of_unknown_ranks_are_not_counted(tmp_path):
    def describe(kind, members):
        return describe_group(kind, members, ranks="[0, 1, ..., 63]" if kind == "data" else None)

    summary = summarize([write_rank(tmp_path, rank, describe=describe) for rank in range(4)], tmp_path)
    assert in_us(summary) == {(0, 1): 60, (3, 2): 60}
    assert summary.notes[0] == "not counted: 16 communication kernels for which the traces do not show the ranks that take part"


def test_a_long_list_of_all_ranks_is_cut_off_and_yet_known(tmp_path):
    def describe(kind, members):
        return describe_group(kind, range(4), name="world", ranks="[0, 1, ...]")

    second = tuple(FIRST[rank] + 300 for rank in range(4))
    paths = [write_rank(tmp_path, rank, describe=describe, second=second) for rank in range(4)]
    convert_input(paths[0], tmp_path / "trace")
    assert {row["members"] for row in read_table(tmp_path / "trace", "collectives").to_pylist()} == {"0 1 2 3"}


@pytest.mark.parametrize("numbered", [True, False])
def test_unnamed_groups_are_refused_where_they_do_not_meet(tmp_path, numbered):
    paths = [write_rank(tmp_path, rank, describe=None, numbered=numbered) for rank in range(4)]
    summary = summarize(paths, tmp_path)
    assert (summary.notes, summary.waits, summary.waited_for) == ([APART], [], [])
    assert describe_ranks("Four", summary) == f"Four: {APART}."


def test_unnamed_groups_that_end_together_are_one(tmp_path, caplog):
    # Two ranks of one group: 0 waits 60 for 1 in both, 20 of it in the second (520 - 170 against 500 - 170).
    paths = [write_rank(tmp_path, rank, describe=None, world=2, second=(500, 520, 510, 530)) for rank in (0, 1)]
    for path in paths:  # the second collective ends together, too
        content = json.loads(path.read_text())
        for event in content["traceEvents"]:
            if event["args"].get("stream") == STREAMS["data"]:
                event["dur"] = 540 - (event["ts"] - ZERO) % 1000
        path.write_text(json.dumps(content))
    with caplog.at_level(logging.INFO):
        assert in_us(summarize(paths, tmp_path)) == {(0, 1): 80}


def test_the_same_rank_twice_is_refused(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    paths = [write_rank(one, 1), write_rank(other, 1, offset=9)]
    with pytest.raises(RecordError, match="given twice, as rank 0 and rank 1"):
        summarize([paths[0], paths[0]], tmp_path)
    with pytest.raises(RecordError, match=r"rank1.json: holds the same kernels as the trace of rank 0; give each rank once"):
        summarize(paths, tmp_path)
    paths[1] = write_rank(other, 1, first=(100, 150, 300, 240))
    with pytest.raises(RecordError, match=r"is of rank 1, as .*one/rank1.json is; give each rank once"):
        summarize(paths, tmp_path)


def test_the_order_of_ranks_is_checked_by_their_groups(tmp_path):
    paths = [write_rank(tmp_path, rank, numbered=False) for rank in range(4)]
    assert in_us(summarize(paths, tmp_path)) == EXPECTED
    with pytest.raises(RecordError, match=r"rank2.json: communicates among ranks 2 3, not as rank 1; give all traces in the"):
        summarize([paths[0], paths[2], paths[1], paths[3]], tmp_path)


def test_other_steps_and_runs_are_refused(tmp_path):
    paths = [write_rank(tmp_path, rank) for rank in (0, 1)]
    shorter = write_rank(tmp_path, 2, steps=3)
    with pytest.raises(RecordError, match="it holds 3 steps, the trace of rank 0 4; give the traces of one run, of the same"):
        summarize([*paths, shorter], tmp_path)
    paths[1].write_text(
        paths[1].read_text().replace("ProfilerStep#6", "ProfilerStep#7").replace("ProfilerStep#5", "ProfilerStep#6")
    )
    with pytest.raises(RecordError, match="it holds step 6 where the trace of rank 0 holds step 5"):
        summarize(paths, tmp_path)
    other = write_rank(tmp_path, 3, world=8)
    with pytest.raises(RecordError, match="is of another run: its run has 8 ranks, rank 0's 4"):
        summarize([paths[0], other], tmp_path)


def test_sends_and_receives_are_named_and_not_counted(tmp_path):
    def describe(kind, members):
        return describe_group(kind, members) | ({"Collective name": "send"} if kind == "data" else {})

    summary = summarize([write_rank(tmp_path, rank, describe=describe) for rank in range(4)], tmp_path)
    assert in_us(summary) == {(0, 1): 60, (3, 2): 60}
    assert summary.notes[0] == "not counted: 16 kernels that send or receive between two ranks"


def test_collectives_of_another_kind_are_not_matched(tmp_path):
    paths = [write_rank(tmp_path, rank) for rank in range(4)]
    text = paths[1].read_text()
    paths[1].write_text(text.replace('"Collective name": "allreduce"', '"Collective name": "_allgather_base"', 1))
    summary = summarize(paths, tmp_path)
    assert summary.unmatched == [1]
    assert in_us(summary) == EXPECTED  # the first step warms up
