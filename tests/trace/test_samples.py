"""Traces that others recorded, against plain SQL on the exports themselves.

Each test's query is the check: it joins tables row by row and knows nothing of interval algebra. Lengths may be added up
because each process used one stream: nothing overlaps, but for one pair on one GPU, which its query takes off.
"""

import sqlite3
import statistics
from contextlib import closing

import pytest

from speedproof.profilers.nsys_export import convert_export
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace

T4 = "power_iteration__baseline.sqlite"
BEFORE, AFTER = "mfu_2gpu_before.sqlite", "mfu_2gpu_after.sqlite"

# Names of ranges stand in the event or in the table of strings.
RANGES = "(SELECT start, end, globalTid, coalesce(text, value) AS name FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId)"
ACTIVITY = """
    (SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET)
"""
T4_ACTIVITY = ACTIVITY.replace("UNION ALL SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET", "")  # it has none
MARKED = f"(SELECT start, end, row_number() OVER (ORDER BY start) AS number FROM {RANGES} WHERE name LIKE 'Step % to %')"
# The GPU is behind the host: a step ends when the last kernel that it launched ends, and the next one begins there.
ENDED = f"""
    (SELECT number, step.start AS start, max(step.end, coalesce(max(kernel.end), 0)) AS end FROM {MARKED} step
    LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME call ON call.start >= step.start AND call.start < step.end
    LEFT JOIN CUPTI_ACTIVITY_KIND_KERNEL kernel ON kernel.correlationId = call.correlationId GROUP BY number)
"""
STEPS = f"(SELECT number, max(start, lag(end, 1, 0) OVER (ORDER BY number)) AS start, end FROM {ENDED})"


@pytest.fixture(scope="module")
def summaries(samples, tmp_path_factory):
    found = {}
    for name in (T4, BEFORE, AFTER):
        folder = tmp_path_factory.mktemp("trace")
        convert_export(samples / "traces" / name, folder)
        found[name] = analyze_trace(folder)
        if name != T4:
            found[name, "whole"] = analyze_trace(folder, whole=True)
    return found


@pytest.fixture
def ask(samples):
    """Ask an export a question in SQL; return the rows."""

    def execute(name, query, *values):
        with closing(sqlite3.connect(f"file:{samples / 'traces' / name}?mode=ro&immutable=1", uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    return execute


def test_t4_steps_are_the_epochs(summaries, ask):
    ((count, length),) = ask(T4, f"SELECT count(*), sum(end - start) FROM {STEPS}")
    assert (count, length) == (44, 1_787_790_430)
    assert len(summaries[T4].epochs) == count
    assert sum(epoch.end_ns - epoch.start_ns for epoch in summaries[T4].epochs) == length


def test_t4_kernels_fill_the_steps_as_a_join_says(summaries, ask):
    query = f"""
        SELECT sum(min(kernel.end, step.end) - max(kernel.start, step.start))
        FROM CUPTI_ACTIVITY_KIND_KERNEL kernel JOIN {STEPS} step ON kernel.end > step.start AND kernel.start < step.end
    """
    ((busy,),) = ask(T4, query)
    measured = sum(share.total_ns for share in summaries[T4].account if share.kind == "gpu")
    assert measured == busy == 1_129_090_520


def test_t4_phases_are_those_below_the_steps(summaries, ask):
    query = f"SELECT count(*), sum(end - start) FROM {RANGES} WHERE name GLOB ? || ' [0-9]*'"
    for phase in summaries[T4].phases:
        ((calls, wall),) = ask(T4, query, phase.name.removesuffix(" #"))
        assert (phase.calls, round(phase.wall_s * 1e9)) == (calls, wall)
    assert [phase.name for phase in summaries[T4].phases] == ["Compute & Residual #", "Copy #", "IO #", "Compute #"]


def test_t4_phases_cause_what_a_join_by_correlation_says(summaries, ask):
    # Kernels whose launching call lies within a range of the phase: no kernel overlaps another, so lengths just add up.
    query = f"""
        SELECT sum(kernel.end - kernel.start)
        FROM CUPTI_ACTIVITY_KIND_KERNEL kernel JOIN CUPTI_ACTIVITY_KIND_RUNTIME call USING (correlationId)
        JOIN {RANGES} phase ON phase.name GLOB ? || ' [0-9]*' AND phase.globalTid = call.globalTid
        AND call.start >= phase.start AND call.start < phase.end
    """
    for phase in summaries[T4].phases:
        ((busy,),) = ask(T4, query, phase.name.removesuffix(" #"))
        assert round(phase.kernel_busy_s * 1e9) == (busy or 0)


def test_t4_waits_while_the_program_writes_files(summaries):
    # Its author's own reading: the GPU idles while each step writes its result, in the ranges `IO`, 644 ms in all.
    longest = summaries[T4].idle_gaps[0]
    assert (longest.cause, longest.detail, longest.count) == ("unknown host time in a phase", "IO #", 44)
    assert longest.total_s <= 0.644241
    idle = sum(idle_gap.total_s for idle_gap in summaries[T4].idle_gaps)
    assert longest.total_s / idle > 0.95
    calls = {idle_gap.detail for idle_gap in summaries[T4].idle_gaps if idle_gap.cause == "operating system call"}
    assert calls == {"open64", "write", "close", "stat64", "fstat64"}


def test_t4_streams_are_busy_as_a_join_says(summaries, ask):
    # Nothing overlaps, so lengths within a step just add up.
    work = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_{kind}"
        for kind in ("KERNEL", "MEMCPY")
    )
    query = f"""
        SELECT number, deviceId, streamId, kind, sum(min(work.end, step.end) - max(work.start, step.start))
        FROM ({work}) work JOIN {STEPS} step ON work.end > step.start AND work.start < step.end
        GROUP BY 1, 2, 3, 4
    """
    expected = {(epoch, device, stream, kind): length for epoch, device, stream, kind, length in ask(T4, query)}
    streams = [one for one in summaries[T4].streams if one.stream is not None]
    measured = {
        (one.epoch, one.device, one.stream, kind): round(1e9 * seconds)
        for one in streams
        for kind, seconds in (("KERNEL", one.kernel_busy_s), ("MEMCPY", one.copy_busy_s))
    }
    assert measured == expected
    assert len(measured) == 2 * 44
    # One stream: the whole GPU is it.
    whole = [one.model_copy(update={"stream": 7}) for one in summaries[T4].streams if one.stream is None]
    assert whole == streams


def test_t4_ideal_step_is_the_mean_of_its_busy_time(summaries, ask):
    query = f"""
        SELECT sum(min(work.end, step.end) - max(work.start, step.start)) FROM {T4_ACTIVITY} work
        JOIN {STEPS} step ON work.end > step.start AND work.start < step.end GROUP BY number ORDER BY number
    """
    _, *busy_ns = [length for (length,) in ask(T4, query)]  # the first step warms up
    assert summaries[T4].ideal_epoch_s == pytest.approx(statistics.fmean(busy_ns) / 1e9, abs=1e-12)
    assert summaries[T4].overlapped_epoch_s == summaries[T4].ideal_epoch_s  # it names no phase that loads data


def test_t4_idle_time_is_split_as_a_join_says(summaries, ask):
    # Gaps between consecutive kernels and copies, cut at the steps, as far as `IO` covers them; the first step does not count.
    query = f"""
        WITH gap AS (SELECT end AS start, ifnull(lead(start) OVER (ORDER BY start), 1e18) AS end FROM {T4_ACTIVITY}),
        idle AS (SELECT max(gap.start, step.start) AS start, min(gap.end, step.end) AS end FROM gap JOIN {STEPS} step
                 ON gap.end > step.start AND gap.start < step.end AND number > 1)
        SELECT sum(min(io.end, idle.end) - max(io.start, idle.start)) FROM idle JOIN {RANGES} io ON io.name LIKE 'IO %'
        AND io.end > idle.start AND io.start < idle.end
    """
    ((length,),) = ask(T4, query)
    in_io = [one for one in summaries[T4].idle_gaps if one.detail == "IO #" or one.cause == "operating system call"]
    assert round(1e9 * 43 * sum(idle_gap.seconds_per_epoch for idle_gap in in_io)) == length == 629_919_254
    (advice,) = summaries[T4].advice
    assert advice.rule == "host code"


@pytest.mark.parametrize("name", [T4, BEFORE, AFTER])
def test_kernels_sum_to_what_sql_says(summaries, ask, name):
    query = """
        SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName
        GROUP BY value
    """
    measured = {kernel.name: (kernel.calls, round(kernel.total_s * 1e9)) for kernel in summaries[name].kernels}
    assert measured == {kernel: (calls, length) for kernel, calls, length in ask(name, query)}


@pytest.mark.parametrize("name", [T4, BEFORE, AFTER, (BEFORE, "whole")])
def test_account_sums_to_the_epochs(summaries, name):
    epochs = sum(epoch.end_ns - epoch.start_ns for epoch in summaries[name].epochs)
    assert sum(share.total_ns for share in summaries[name].account) == epochs


@pytest.mark.parametrize(("name", "device"), [(BEFORE, 0), (AFTER, 1)])
def test_two_gpu_program_is_told_by_its_busier_process(summaries, ask, name, device):
    # The two processes have a GPU each.
    busiest, length = ask(name, f"SELECT deviceId, sum(end - start) FROM {ACTIVITY} GROUP BY deviceId ORDER BY 2 DESC")[0]
    query = f"""
        SELECT ifnull(sum(min(one.end, other.end) - other.start), 0) FROM {ACTIVITY} one JOIN {ACTIVITY} other
        ON one.deviceId = ? AND other.deviceId = ? AND other.start > one.start AND other.start < one.end
    """
    ((twice,),) = ask(name, query, device, device)
    assert busiest == device
    whole = summaries[name, "whole"]
    (epoch,) = whole.epochs
    (gpu,) = [stream for stream in whole.streams if stream.stream is None]
    assert (gpu.device, round(gpu.gpu_busy_s * 1e9)) == (device, length - twice)
    assert f"this is process {1 - device}, with 51% of the GPU time" in whole.warnings[0]
    (mine,) = [process for process in whole.processes if process.summarized]
    assert (mine.devices, round(mine.gpu_busy_s * 1e9)) == ([device], length - twice)
    assert epoch.gpu_busy_fraction * epoch.duration_s == pytest.approx(gpu.gpu_busy_s)


@pytest.mark.parametrize(("name", "device"), [(BEFORE, 0), (AFTER, 1)])
def test_what_repeats_in_a_trimmed_trace_launches_as_many_kernels_each_time(summaries, ask, name, device):
    # No range repeats around the work: a second of a transformer's layers, cut out of a step.
    query = """
        SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL kernel JOIN CUPTI_ACTIVITY_KIND_RUNTIME call
        ON call.correlationId = kernel.correlationId AND call.globalTid / 16777216 = kernel.globalPid / 16777216
        WHERE deviceId = ? AND call.start >= ? AND call.start < ?
    """
    ((zero,),) = ask(name, f"""SELECT min(start) FROM (SELECT start FROM {RANGES} UNION ALL SELECT start FROM {ACTIVITY}
        UNION ALL SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME)""")  # fmt: skip
    found = summaries[name]
    assert (found.found.by, len(found.epochs)) == ("repetition", {BEFORE: 16, AFTER: 15}[name])
    bounds = [(epoch.start_ns + zero, epoch.end_ns + zero) for epoch in found.epochs]
    assert {ask(name, query, device, *bound)[0][0] for bound in bounds} == {119}


def test_before_and_after_differ_by_their_terms(summaries):
    difference = compare_summaries(summaries[BEFORE], summaries[AFTER], (BEFORE, AFTER))
    explained = sum(term.seconds_per_epoch for term in difference.terms)
    assert explained + difference.residual_s == pytest.approx(difference.total_s, abs=1e-12)


def test_t4_longest_gaps_are_where_the_profiler_shows_them(summaries, ask):
    # A gap: what lies between a kernel's end and the next one's start, cut at the bounds of the step that it is in.
    gaps = ask(
        T4,
        f"""
        WITH kernels AS (
            SELECT end AS opens, lead(start) OVER (ORDER BY start) AS closes FROM CUPTI_ACTIVITY_KIND_KERNEL)
        SELECT max(opens, start) / 1e9, (min(closes, end) - max(opens, start)) / 1e9
        FROM kernels JOIN {STEPS} ON opens < end AND closes > start ORDER BY 2 DESC LIMIT 10
        """,
    )
    assert [(gap.start_s, gap.duration_s) for gap in summaries[T4].gaps[:10]] == [*map(pytest.approx, gaps)]
