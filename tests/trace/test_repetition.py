"""Iterations that no range marks: told from what is launched again and again."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from speedproof.trace.repetition import find_repetition
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import TraceBuilder
from tests.trace.readings import us


def training(period=1000, iterations=20, start_up=30, evaluations=(), evaluated=200):
    """A start-up of kernels that come once, then iterations: four layers of two kernels each, a loss and an update."""
    trace, clock = TraceBuilder(), 0
    correlation = iter(range(10_000))

    def launch(name, busy):
        nonlocal clock
        number = next(correlation)
        trace.call("cudaLaunchKernel", clock, clock + 3, number)
        trace.kernel(clock + 5, clock + 5 + busy, number, name=name)
        clock += busy + 10

    for number in range(start_up):
        launch(f"benchmark_{'abcdefghijklmnopqrstuvwxyzABCDEFGHIJ'[number]}", 700)
    for number in range(iterations):
        begin = clock
        for _ in range(4):
            launch("gemm", 50)
            launch("relu", 10)
        launch("nll_loss", 20)
        launch("adam", 30)
        clock = begin + period
        if number in evaluations:
            for _ in range(8):
                launch("gemm", evaluated)
    return trace


def test_iterations_are_found_from_what_is_launched_again_and_again(tmp_path):
    summary = analyze_trace(training().write(tmp_path))
    assert (summary.found.by, summary.found.unit) == ("repetition", "iteration")
    # Twenty begin; nothing says where the last one ends, and the first may be cut by the mark within it.
    assert len(summary.epochs) in (18, 19)
    assert {us(epoch.duration_s) for epoch in summary.epochs} == {1000}
    # 4 (50 + 10) + 20 + 30 of 1000 us.
    assert {round(epoch.kernel_busy_fraction, 9) for epoch in summary.epochs} == {0.29}
    assert summary.warnings[0].startswith("no range marks the loop: its 1")
    assert "same 10 kernels" in summary.warnings[0]


def test_evaluation_is_apart(tmp_path):
    summary = analyze_trace(training(evaluations=(7, 14)).write(tmp_path))
    assert {us(epoch.duration_s) for epoch in summary.epochs} == {1000}
    assert summary.found.left_out >= 2


def test_what_holds_less_than_half_of_the_gpu_time_is_no_loop(tmp_path):
    # Twenty times 290 us beside two evaluations of 8 times 500, which lie between the iterations.
    summary = analyze_trace(training(evaluations=(7, 14), evaluated=500).write(tmp_path))
    assert (summary.found.by, len(summary.epochs)) == ("nothing", 1)
    # Of 20 the first and the last may be cut, and three follow an evaluation or hold one.
    assert summary.warnings[0].startswith("the same 10 kernels are launched 1")
    assert summary.warnings[1].startswith("no iterations were found: the whole trace counts as one stretch")


def test_where_nothing_repeats_there_is_one_stretch(tmp_path):
    folder = training(iterations=1).write(tmp_path)
    summary = analyze_trace(folder)
    assert (summary.found.by, summary.found.unit, len(summary.epochs)) == ("nothing", "stretch", 1)


def test_kernels_of_graphs_are_told_apart_on_the_gpu(tmp_path):
    """Six graphs' launches, each of five layers of two kernels: layers of 100 us, 60 of them busy, whatever launched them."""
    trace = TraceBuilder()
    for graph in range(6):
        trace.call("cudaGraphLaunch", 500 * graph, 500 * graph + 3, graph)
        for layer in range(5):
            begin = 500 * graph + 100 * layer + 10
            trace.kernel(begin, begin + 50, graph, name="gemm")
            trace.kernel(begin + 60, begin + 70, graph, name="relu")
    summary = analyze_trace(trace.write(tmp_path))
    assert summary.found.by == "repetition"
    assert {us(epoch.duration_s) for epoch in summary.epochs} == {100}
    assert {round(epoch.kernel_busy_fraction, 9) for epoch in summary.epochs} == {0.6}


def test_most_of_an_iteration_is_not_taken_for_all_of_it():
    """Of twelve launches nine lie between the two of kernel 1, five times; whole ones fit four times between their first."""
    row = np.array([1, 2, 3, 4, 4, 5, 2, 5, 6, 1, 7, 8] * 5)
    repetition = find_repetition(row, np.arange(len(row)) * 10)
    assert {int(piece) for piece in repetition.pieces.length} == {120}


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 30), st.integers(2, 12), st.integers(0, 40), st.randoms(use_true_random=False))
def test_a_period_is_found_whatever_it_launches(iterations, length, start_up, random):
    body = [random.randrange(100, 110) for _ in range(length - 1)] + [99]  # one kernel that comes once
    row = [*range(start_up), *body * iterations, *range(200, 200 + start_up // 2)]
    # Three equal pieces in one iteration would be a loop of their own.
    assume(start_up <= length * iterations and max(map(body.count, body)) <= 3)
    moment = np.arange(len(row)) * 10
    repetition = find_repetition(np.array(row), moment)
    period = next(step for step in range(1, length + 1) if length % step == 0 and body == body[:step] * (length // step))
    assert {int(piece) for piece in repetition.pieces.length} == {10 * period}
    assert len(repetition.pieces) >= iterations - 2
