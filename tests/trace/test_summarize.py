import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedproof.cli.application import app
from speedproof.results.summary import read_summary
from speedproof.stats.run_values import gpu_busy_fraction
from speedproof.trace.summarize import analyze_trace, write_summary
from speedproof.util.errors import RecordError
from tests.trace.handmade import AUTOGRAD, LOADER, MAIN, TraceBuilder, two_epochs
from tests.trace.readings import account_of, idle_gaps_of, phases_of, us


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    return analyze_trace(two_epochs().write(tmp_path_factory.mktemp("trace")))


def test_an_epochs_training_part_ends_where_its_validation_begins(summary):
    first, second = summary.epochs
    assert (first.index, first.start_ns, first.end_ns, us(first.duration_s)) == (1, 0, 10_000_000, 10_000)
    assert (us(first.training_s), first.validates) == (10_000, False)
    assert (us(second.training_s), second.validates) == (2500, True)


def test_busy_fractions_are_of_unions(summary):
    first, second = summary.epochs
    # Kernels [4200, 5200) and [5600, 7600): 3000 of 10,000 us; a copy of 100 more.
    assert first.kernel_busy_fraction == pytest.approx(0.30)
    assert first.gpu_busy_fraction == pytest.approx(0.31)
    # Three kernels of 15 us.
    assert second.kernel_busy_fraction == second.gpu_busy_fraction == pytest.approx(0.0045)


def test_phases_own_what_they_launched(summary):
    phases = phases_of(summary)
    assert list(phases) == [
        ("dataload", "training"),
        ("forward", "training"),
        ("backward", "training"),
        ("update", "training"),
        ("validation dataload", "validation"),
        ("sliding window", "validation"),
    ]
    forward, backward = phases["forward", "training"], phases["backward", "training"]
    assert (forward.calls, us(forward.wall_s), us(forward.kernel_busy_s), forward.method) == (2, 2000, 1000, "own_thread")
    # Launched by another thread while the main thread was in `backward`.
    assert (us(backward.wall_s), us(backward.gpu_busy_s), backward.method) == (2000, 2000, "main_thread_window")
    update = phases["update", "training"]
    assert (us(update.gpu_busy_s), us(update.kernel_busy_s), us(update.copy_busy_s)) == (100, 0, 100)
    window = phases["sliding window", "validation"]
    # Kernels [15025, 15040), [15075, 15090), [15125, 15140): 45 us of work within 115 us.
    assert (us(window.gpu_busy_s), us(window.projected_s)) == (45, 115)
    assert phases["dataload", "training"].method == "none"
    assert summary.unattributed_fraction == 0


def test_idle_gaps_are_split_among_their_causes(summary):
    assert idle_gaps_of(summary) == {
        # [0, 4200): the transform covers [500, 3500) of `dataload`, which ends at 4000.
        ("transforms on the CPU", "LoadImage"): (1, 3000),
        ("batches made on the CPU", "dataload"): (1, 1000),
        # [4000, 4100): then [4100, 4110) it launches, and until 4200 the kernel is queued. [10000, 11000) of the second epoch.
        ("unknown host time in a phase", "forward"): (2, 100 + 1000),
        ("launch-bound", "forward"): (1, 10),
        ("queued, not started", "forward"): (1, 90),
        # [5200, 5600): until 5500, when another thread launches for it until 5510.
        ("unknown host time in a phase", "backward"): (1, 300),
        ("launch-bound", "backward"): (1, 10),
        ("queued, not started", "backward"): (1, 90),
        # [7600, 7700) and [7800, 7900): inside the copy's call, which stages pageable memory.
        ("synchronising call", "cudaMemcpyAsync (pageable memory)"): (2, 200),
        ("copying", "DtoH, pageable"): (1, 100),
        # [7900, 8000) and [11000, 12500); in no phase until 10000.
        ("unknown host time in a phase", "update"): (2, 100 + 1500),
        ("unknown host time in no range", ""): (2, 2000 + 1000),
        # [12500, 15000): another process transforms until 14800.
        ("waiting for data", "Spacing"): (1, 2500),
        # Each kernel is launched within 10 us, and starts 15 us later. Between two launches 40 us pass; the last is at 15110.
        ("launch-bound", "sliding window"): (3, 10 + 20 + 20),
        ("queued, not started", "sliding window"): (3, 45),
        ("unknown host time in a phase", "sliding window"): (1, 19_000 - 15_140),
    }


def test_account_gives_every_nanosecond_to_one_term(summary):
    assert account_of(summary) == {
        ("training", "gpu", "forward"): 1000,
        ("training", "gpu", "backward"): 2000,
        ("training", "idle", "transforms on the CPU"): 3000,
        ("training", "idle", "batches made on the CPU"): 1000,
        ("training", "idle", "unknown host time in a phase"): 1100 + 300 + 1600,
        ("training", "idle", "unknown host time in no range"): 2000,
        ("training", "idle", "launch-bound"): 20,
        ("training", "idle", "queued, not started"): 180,
        ("training", "idle", "synchronising call"): 200,
        ("training", "idle", "copying"): 100,
        ("validation", "gpu", "sliding window"): 45,
        ("validation", "idle", "waiting for data"): 2500,
        ("validation", "idle", "launch-bound"): 50,
        ("validation", "idle", "queued, not started"): 45,
        ("validation", "idle", "unknown host time in a phase"): 3860,
        ("validation", "idle", "unknown host time in no range"): 1000,
    }
    for epoch in summary.epochs:
        shares = [share.total_ns for share in summary.account if share.epoch == epoch.index]
        assert sum(shares) == epoch.end_ns - epoch.start_ns
        assert shares == sorted(shares, reverse=True)


def test_ideal_epochs_are_means_of_training_parts(summary):
    # GPU busy within the training parts: 3100 and 0; data time: 4000 (dataload) and 0; the greater: 4000 and 0.
    assert us(summary.ideal_epoch_s) == 1550
    assert us(summary.overlapped_epoch_s) == 2000


def test_transforms_and_kernels_are_summed_by_name(summary):
    assert {t.name: (t.calls, us(t.wall_s), us(t.in_epochs_s), us(t.on_main_thread_s)) for t in summary.transforms} == {
        "LoadImage": (1, 3000, 3000, 3000),
        "Spacing": (1, 2300, 2300, 0),
    }
    assert [(k.group, k.calls, us(k.total_s), k.tensor_cores) for k in summary.kernels] == [
        ("convolution weight gradient", 1, 2000, None),
        ("convolution forward", 1, 1000, True),
        ("elementwise", 3, 45, None),
    ]


def test_advice_names_what_would_save_most_first(summary):
    assert [(advice.rule, us(advice.seconds_per_epoch)) for advice in summary.advice] == [
        ("low utilisation", (20_000 - 3045 - 100) / 2),
        ("host code", (1100 + 300 + 1600 + 3860) / 2),
        ("transforms", 1500),
        ("unmarked code", 1500),
        ("data wait", 1250),
        ("batches", 500),
        ("pageable copies", 150),
    ]


def test_streams_say_what_overlaps_in_each_epoch(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 48)
    trace.range("epoch", 48, 100)
    trace.kernel(10, 40)
    trace.kernel(30, 50, stream=8)
    trace.copy(45, 60, None, "HtoD", "pinned", "device")
    # Kernels [10, 50) on streams 7 and 8, copies [45, 60) on stream 7: 5 us at once, 3 of them in the first epoch.
    assert [
        (s.epoch, s.stream, *map(us, (s.kernel_busy_s, s.copy_busy_s, s.overlap_s, s.gpu_busy_s)))
        for s in analyze_trace(trace.write(tmp_path)).streams
    ] == [
        (1, None, 38, 3, 3, 38),
        (1, 7, 30, 3, 0, 33),
        (1, 8, 18, 0, 0, 18),
        (2, None, 2, 12, 2, 12),
        (2, 7, 0, 12, 0, 12),
        (2, 8, 2, 0, 0, 2),
    ]


def test_streams_at_rest_have_no_row_and_gpus_are_told_apart(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("epoch", 100, 200)
    trace.kernel(0, 60)
    trace.kernel(30, 90, device=1)
    streams = analyze_trace(trace.write(tmp_path)).streams
    assert [(s.epoch, s.device, s.stream, us(s.gpu_busy_s)) for s in streams] == [
        (1, 0, None, 60), (1, 0, 7, 60), (1, 1, None, 60), (1, 1, 7, 60), (2, 0, None, 0), (2, 1, None, 0),
    ]  # fmt: skip


def warming_up():
    """Three epochs of 1000, 300 and 500 us that wait for data 900, 200 and 300 us; the rest of each is one kernel."""
    trace = TraceBuilder()
    for number, (start, wait, end) in enumerate([(0, 900, 1000), (1000, 1200, 1300), (1300, 1600, 1800)]):
        trace.range("epoch", start, end)
        trace.range("dataload", start, wait)
        trace.call("cudaLaunchKernel", wait, wait, number)
        trace.kernel(wait, end, number)
    return trace


def test_an_epoch_that_warms_up_counts_in_no_mean(tmp_path):
    summary = analyze_trace(warming_up().write(tmp_path))
    (wait,) = summary.idle_gaps
    assert (wait.cause, us(wait.total_s), us(wait.seconds_per_epoch)) == ("waiting for data", 1400, 250)
    assert [(advice.rule, us(advice.seconds_per_epoch)) for advice in summary.advice] == [
        ("data wait", 250), ("low utilisation", 250),
    ]  # fmt: skip


def test_validation_that_loads_under_the_training_name_is_told_apart_by_time(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    for name, start, end in [("dataload", 0, 10), ("update", 10, 20), ("dataload", 30, 40), ("sliding window", 40, 90)]:
        trace.range(name, start, end)
    phases = phases_of(analyze_trace(trace.write(tmp_path)))
    assert us(phases["dataload", "training"].wall_s) == us(phases["dataload", "validation"].wall_s) == 10


def test_cpu_only_trace_has_wall_times_and_no_idle_gaps(tmp_path):
    trace = two_epochs()
    for table in ("kernels", "copies", "api"):
        trace.rows[table].clear()
    summary = analyze_trace(trace.write(tmp_path))
    assert (summary.has_gpu, summary.devices, summary.idle_gaps, summary.kernels, summary.advice) == (False, [], [], [], [])
    assert {epoch.gpu_busy_fraction for epoch in summary.epochs} == {0.0}
    assert us(phases_of(summary)["dataload", "training"].wall_s) == 4000
    assert phases_of(summary)["forward", "training"].gpu_busy_s == 0
    assert summary.ideal_epoch_s is None
    assert account_of(summary) == {
        ("training", "cpu", "dataload"): 4000,
        ("training", "cpu", "forward"): 2000,
        ("training", "cpu", "backward"): 2000,
        ("training", "cpu", "update"): 2500,
        ("training", "residual", "in no phase"): 2000,
        ("validation", "cpu", "validation dataload"): 2500,
        ("validation", "cpu", "sliding window"): 4000,
        ("validation", "residual", "in no phase"): 1000,
    }


def test_kernels_of_no_phase_count_by_group_if_they_are_most(tmp_path):
    """The range of the optimizer is the only one, as in a file of torch.profiler without marks of its own."""
    trace = TraceBuilder()
    trace.range("epoch", 0, 100)
    trace.range("update", 70, 90)
    for number, (name, start, end) in enumerate(
        (("ampere_sgemm_128x64_nn", 10, 60), ("vectorized_elementwise_kernel", 80, 90))
    ):
        trace.call("cudaLaunchKernel", start - 5, start - 4, number + 1)
        trace.kernel(start, end, number + 1, name=name)
    account = account_of(analyze_trace(trace.write(tmp_path)))
    assert account["training", "gpu", "kernels: matrix product"] == 50
    assert account["training", "gpu", "update"] == 10
    assert ("training", "residual", "in no phase") not in account


def test_kernels_count_by_group_if_the_iteration_is_the_only_phase(tmp_path):
    """A program marks its steps, and nothing in them."""
    trace = TraceBuilder()
    for step in range(4):
        begun = 100 * step
        trace.range(f"step {step}", begun, begun + 100)
        for number, (name, start, end) in enumerate(
            (("ampere_sgemm_128x64_nn", 10, 60), ("vectorized_elementwise_kernel", 70, 80))
        ):
            trace.call("cudaLaunchKernel", begun + start - 4, begun + start - 3, 2 * step + number)
            trace.kernel(begun + start, begun + end, 2 * step + number, name=name)
    account = account_of(analyze_trace(trace.write(tmp_path)))
    assert {key: length for key, length in account.items() if key[1] != "idle"} == {
        ("training", "gpu", "kernels: matrix product"): 4 * 50,
        ("training", "gpu", "kernels: elementwise"): 4 * 10,
    }


def test_cache_fill_is_no_part_of_the_epochs(tmp_path):
    trace = TraceBuilder()
    trace.range("Spacing", 0, 70, thread=LOADER)
    trace.range("epoch", 100, 200)
    trace.range("dataload", 100, 150)
    trace.range("Spacing_2", 110, 120)
    (spacing,) = analyze_trace(trace.write(tmp_path)).transforms
    # MONAI numbers the second transform of a class: it is the same transform.
    assert (spacing.name, spacing.calls, us(spacing.wall_s), us(spacing.in_epochs_s)) == ("Spacing", 2, 80, 10)


def test_strangers_epochs_are_named_or_found(tmp_path):
    trace = TraceBuilder()
    trace.range("main", 0, 1000)
    for number in range(5):
        trace.range(f"step {number}", 200 * number, 200 * number + 190)
        trace.range(f"io {number}", 200 * number, 200 * number + 50)
        trace.range(f"compute {number}", 200 * number + 60, 200 * number + 180)
        trace.range("inner", 200 * number + 70, 200 * number + 80)
        trace.range("aten::add, seq = 3, op_id = 4", 200 * number + 90, 200 * number + 95)
    folder = trace.write(tmp_path)
    found = analyze_trace(folder)
    assert len(found.epochs) == 5
    assert {name: us(phase.wall_s) for (name, _), phase in phases_of(found).items()} == {"io #": 250, "compute #": 600}
    assert [epoch.start_ns // 1000 for epoch in analyze_trace(folder, r"step [13]").epochs] == [200, 600]
    with pytest.raises(RecordError, match="no range matches the epoch pattern `step`"):
        analyze_trace(folder, "step")
    with pytest.raises(RecordError, match="not a valid regular expression"):
        analyze_trace(folder, "(")


def test_trace_without_epochs_counts_as_one(tmp_path):
    trace = TraceBuilder()
    trace.kernel(10, 20)
    summary = analyze_trace(trace.write(tmp_path))
    assert us(summary.epochs[0].duration_s) == 10
    assert "whole trace" in summary.warnings[0]


def test_empty_trace_is_refused(tmp_path):
    with pytest.raises(RecordError, match="holds no ranges"):
        analyze_trace(TraceBuilder().write(tmp_path))


def test_an_empty_trace_that_may_be_is_told_and_counts_for_nothing(tmp_path, capsys):
    """So a variant without GPU and NVTX stops no workflow."""
    TraceBuilder().write(tmp_path / "trace")
    app(["trace", "analyze", str(tmp_path / "trace"), f"--out={tmp_path}", "--may-be-empty"], standalone_mode=False)
    summary = read_summary(tmp_path)
    assert (summary.epochs, summary.has_gpu, gpu_busy_fraction(summary)) == ([], False, None)
    assert "it holds no ranges, kernels or calls" in summary.warnings[0]
    assert "it holds no ranges" in capsys.readouterr().out


def test_trace_of_one_moment_is_refused(tmp_path):
    trace = TraceBuilder()
    trace.range("epoch", 10, 10)
    with pytest.raises(RecordError, match="no epoch has a duration above 0"):
        analyze_trace(trace.write(tmp_path))


def test_ranges_that_never_ended_are_left_out_and_told(tmp_path):
    trace = two_epochs()
    trace.range("epoch", 20_000, None)
    summary = analyze_trace(trace.write(tmp_path))
    assert len(summary.epochs) == 2
    assert summary.warnings == ["1 ranges never ended"]


def test_other_processes_gpus_do_not_count(tmp_path):
    trace = two_epochs()
    trace.kernel(0, 20_000, device=1, process=1)
    assert [us(epoch.kernel_busy_fraction) for epoch in analyze_trace(trace.write(tmp_path)).epochs] == [us(0.3), us(0.0045)]


def two_ranks():
    """Two processes with a GPU each: the first trains two epochs, the second one longer epoch on a busier GPU."""
    trace = two_epochs()
    trace.range("epoch", 0, 18_000, thread=LOADER, process=1)
    trace.range("forward", 0, 1000, thread=LOADER, process=1)
    trace.call("cudaLaunchKernel", 500, 501, 1, thread=LOADER, process=1)
    trace.kernel(600, 9745, 1, device=1, process=1)
    return trace


def test_the_busiest_process_is_summarised_and_the_others_are_told(tmp_path):
    summary = analyze_trace(two_ranks().write(tmp_path))
    # 9145 us against kernels of 3045 and a copy of 100 us, of 12,290 in all.
    assert [(p.process, p.summarized, p.devices, us(p.gpu_busy_s)) for p in summary.processes] == [
        (0, False, [0], 3145), (1, True, [1], 9145),
    ]  # fmt: skip
    assert [round(process.gpu_share, 4) for process in summary.processes] == [0.2559, 0.7441]
    assert [us(epoch.duration_s) for epoch in summary.epochs] == [18_000]
    assert summary.warnings == [
        "2 processes used a GPU: this is process 1, with 74% of the GPU time; process 0 used the rest (option --process)"
    ]


def test_a_process_can_be_chosen(tmp_path, summary):
    folder = two_ranks().write(tmp_path)
    chosen = analyze_trace(folder, process=0)
    assert chosen.account == summary.account
    assert [process.summarized for process in chosen.processes] == [True, False]
    with pytest.raises(RecordError, match="no process 3; the trace has 0, 1"):
        analyze_trace(folder, process=3)


def test_a_chosen_process_without_epochs_counts_as_one(tmp_path):
    trace = two_epochs()
    trace.kernel(100, 300, device=1, process=1)
    chosen = analyze_trace(trace.write(tmp_path), process=1)
    # From its kernel's start to the end of its `Spacing`.
    assert [us(epoch.duration_s) for epoch in chosen.epochs] == [14_700]
    assert "whole trace" in chosen.warnings[0]


def test_a_lone_process_needs_no_word(summary):
    assert [(process.process, process.gpu_share) for process in summary.processes] == [(0, 1.0)]
    assert summary.warnings == []


def test_written_tables_say_what_the_summary_says(summary, tmp_path):
    write_summary(summary, tmp_path / "out")
    assert read_summary(tmp_path / "out") == summary
    assert json.loads((tmp_path / "out/summary.json").read_text())["schema_version"] == 4
    idle_gaps = pd.read_csv(tmp_path / "out/idle_gaps.csv", keep_default_na=False)
    assert idle_gaps["total_s"].sum() == pytest.approx(sum(idle_gap.total_s for idle_gap in summary.idle_gaps))
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "summary.json", "epochs.csv", "phases.csv", "idle_gaps.csv", "kernels.csv", "kernels.json",
    }  # fmt: skip


moments = st.integers(0, 300)
spans = st.tuples(moments, moments).map(sorted).filter(lambda span: span[0] < span[1])
names = st.sampled_from(["dataload", "forward", "backward", "update", "validation dataload", "sliding window", "Spacing"])


@st.composite
def traces(draw):
    """Two epochs and any ranges, calls, kernels and copies in and around them, overlapping as they like."""
    trace = TraceBuilder()
    trace.range("epoch", 10, 150)
    trace.range("epoch", 150, 280)
    for span in draw(st.lists(spans, max_size=8)):
        trace.range(draw(names), *span, thread=draw(st.sampled_from([MAIN, LOADER])))
    for correlation, span in enumerate(draw(st.lists(spans, max_size=8))):
        name = draw(st.sampled_from(["cudaMemsetAsync", "cudaStreamSynchronize", "cudaMemcpyAsync"]))
        trace.call(name, *span, correlation, thread=draw(st.sampled_from([MAIN, AUTOGRAD, LOADER])))
    for span in draw(st.lists(spans, max_size=8)):
        trace.kernel(*span, draw(st.integers(0, 9)), stream=draw(st.integers(7, 8)))
    for span in draw(st.lists(spans, max_size=4)):
        trace.copy(*span, draw(st.integers(0, 9)), "HtoD", draw(st.sampled_from(["pageable", "pinned"])), "device")
    return trace


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces())
def test_busy_and_idle_fill_the_epochs_whatever_the_trace(tmp_path, trace):
    summary = analyze_trace(trace.write(tmp_path))
    length = sum(us(epoch.duration_s) for epoch in summary.epochs)
    assert sum(account_of(summary).values()) == pytest.approx(length)
    if not summary.has_gpu:
        return
    busy_s = sum(epoch.kernel_busy_fraction * epoch.duration_s for epoch in summary.epochs)
    assert us(busy_s + sum(idle_gap.total_s for idle_gap in summary.idle_gaps)) == us(length / 1e6)
    for path, epoch in zip(summary.critical_paths, summary.epochs, strict=True):
        classes = (path.host_s, path.loader_s, path.device_s, path.copy_s, path.communication_s)
        assert min(classes) >= 0
        assert us(sum(classes)) == us(epoch.duration_s)
    # An idle gap is copying exactly where the GPU is busy without a kernel.
    gpu_busy_s = sum(epoch.gpu_busy_fraction * epoch.duration_s for epoch in summary.epochs)
    assert us(busy_s + sum(b.total_s for b in summary.idle_gaps if b.cause == "copying")) == us(gpu_busy_s)
    assert "unexplained" not in {idle_gap.cause for idle_gap in summary.idle_gaps}  # the epochs are all phases or none
