"""Small traces of the kinds that the analysis once got wrong, each with what is right (their README says how that is known)."""

import pytest

from speedproof.profilers.convert import trace_folder
from speedproof.trace.diff import analyze_pair, compare_summaries
from speedproof.trace.rank_waits import summarize_ranks
from speedproof.trace.summarize import analyze_chosen, analyze_trace
from speedproof.util.errors import RecordError
from tests.support import require
from tests.trace.readings import us


@pytest.fixture
def failing(samples):
    folder = samples.parent / "failing" / "traces"
    require("samples", folder.is_dir(), f"no traces in {folder}")
    return folder


@pytest.fixture
def analyze(failing, tmp_path):
    def analyze_file(name):
        with trace_folder(failing / name, tmp_path / "exports") as folder:
            return analyze_trace(folder)

    return analyze_file


def lengths_of(summary):
    return [round(us(epoch.duration_s)) for epoch in summary.steady_epochs]


@pytest.mark.parametrize(
    ("name", "count", "lengths_us"),
    [
        ("f01_stub_last_step.pt.trace.json", 5, range(9609, 9615)),
        ("f02_host_ahead.pt.trace.json", 5, range(43_990, 44_010)),
        ("f06_sibling_ranges_cuda_not_traced.sqlite", 60, range(129_500, 129_601)),
        ("f07_one_kernel_200_times.sqlite", 199, [10_000]),  # the end of the last one does not show
        ("f08_layers_of_one_inference.sqlite", 1, [6800]),
        ("f17_rank0.pt.trace.json", 5, range(43_900, 44_100)),
    ],
)
def test_iterations_are_the_right_ones(analyze, name, count, lengths_us):
    summary = analyze(name)
    assert len(summary.epochs) == count
    assert [length for length in lengths_of(summary) if length not in lengths_us] == []


def test_steps_are_called_as_the_file_calls_them(analyze):
    summary = analyze("f25_step_numbers.pt.trace.json")
    assert summary.own_numbers[summary.slowest[0].epoch] == 38


def test_what_repeats_in_a_small_share_of_the_gpus_time_is_not_compared(failing, tmp_path):
    def analyze_file(name, choice):
        with trace_folder(failing / name, tmp_path / "exports") as folder:
            return analyze_chosen(folder, choice)

    (fast, slow), _ = analyze_pair("f05a_fast_gpu.sqlite", "f05b_slow_gpu.sqlite", analyze_file)
    assert slow.found.by == "nothing"
    assert "take only 1.6\xa0% of the GPU's time" in slow.warnings[0]
    with pytest.raises(RecordError, match="no iterations in the second"):
        compare_summaries(fast, slow, ("fast", "slow"))


def test_a_rank_that_runs_ahead_waits_for_the_other(failing, tmp_path):
    # Eight collectives of 2.18 ms on rank 0, of 0.98 ms on rank 1, which end together: 9.6 ms a step.
    traces = [failing / f"f17_rank{rank}.pt.trace.json" for rank in range(2)]
    summary = summarize_ranks(traces, lambda path: trace_folder(path, tmp_path / "exports"))
    assert [rank.epoch_s for rank in summary.ranks] == pytest.approx([0.044, 0.044], rel=1e-3)
    assert [rank.waited_s for rank in summary.ranks] == pytest.approx([0.0096, 0], rel=0.01)
    assert summary.unmatched == []
    assert summary.unit == "step"
