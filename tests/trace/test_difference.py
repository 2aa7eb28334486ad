import pytest

from speedproof.results.trace_results import read_difference
from speedproof.trace.diff import analyze_pair, compare_summaries, write_difference
from speedproof.trace.summarize import analyze_chosen, analyze_trace
from speedproof.util.errors import RecordError
from tests.trace.handmade import MAIN, TraceBuilder, two_epochs
from tests.trace.readings import compare_traces


def us(seconds):
    return round(seconds * 1e6, 6)


def faster() -> TraceBuilder:
    """One epoch of 4 ms: what the two epochs' first does, with half the loading and a faster backward pass."""
    trace = TraceBuilder()
    trace.range("epoch", 0, 4000)
    trace.range("dataload", 0, 2000)
    trace.range("LoadImage", 0, 2000)
    trace.range("forward", 2000, 2100)
    trace.call("cudaLaunchKernel", 1990, 2010, 1)
    trace.kernel(2010, 3010, 1)
    trace.range("backward", 2100, 3000)
    trace.call("cudaLaunchKernel", 2200, 2210, 2)
    trace.kernel(3010, 3500, 2)
    trace.range("update", 3000, 4000)
    trace.add("overhead", 3500, 3700, thread=MAIN, name="CUPTI")
    return trace


@pytest.fixture
def folders(tmp_path):
    return two_epochs().write(tmp_path / "slow"), faster().write(tmp_path / "fast")


def test_terms_are_differences_of_means_an_epoch(folders):
    difference = compare_traces(*folders)
    assert (us(difference.epoch_a_s), us(difference.epoch_b_s), us(difference.total_s)) == (10_000, 4000, -6000)
    terms = {(t.part, t.kind, t.name): (us(t.a_s), us(t.b_s), us(t.seconds_per_epoch)) for t in difference.terms}
    assert terms == {
        # Of the slower variant see test_summarize.py, halved. The faster one: a launch of 10 us after 2000 of transforms, then
        # 500 us in `update`, 200 of which the profiler takes.
        ("training", "idle", "transforms on the CPU"): (1500, 2000, 500),
        ("training", "idle", "batches made on the CPU"): (500, 0, -500),
        ("training", "idle", "unknown host time in a phase"): (1500, 300, -1200),
        ("training", "idle", "unknown host time in no range"): (1000, 0, -1000),
        ("training", "idle", "profiler overhead"): (0, 200, 200),
        ("training", "idle", "launch-bound"): (10, 10, 0),
        ("training", "idle", "queued, not started"): (90, 0, -90),
        ("training", "idle", "synchronising call"): (100, 0, -100),
        ("training", "idle", "copying"): (50, 0, -50),
        ("training", "gpu", "backward"): (1000, 490, -510),
        ("training", "gpu", "forward"): (500, 0, -500),
        # The kernel of 1000 us was launched at 1990, in `dataload`.
        ("training", "gpu", "dataload"): (0, 1000, 1000),
        ("validation", "idle", "unknown host time in a phase"): (1930, 0, -1930),
        ("validation", "idle", "unknown host time in no range"): (500, 0, -500),
        ("validation", "idle", "waiting for data"): (1250, 0, -1250),
        ("validation", "idle", "launch-bound"): (25, 0, -25),
        ("validation", "idle", "queued, not started"): (22.5, 0, -22.5),
        ("validation", "gpu", "sliding window"): (22.5, 0, -22.5),
    }
    sizes = [abs(term.seconds_per_epoch) for term in difference.terms]
    assert sizes == sorted(sizes, reverse=True)


def test_terms_and_residual_sum_to_the_total(folders):
    difference = compare_traces(*folders)
    explained = sum(term.seconds_per_epoch for term in difference.terms)
    assert explained + difference.residual_s == pytest.approx(difference.total_s, abs=1e-12)


def test_residual_holds_what_no_rule_claims(folders, tmp_path):
    unclaimed = TraceBuilder()
    unclaimed.range("epoch", 0, 4000)
    unclaimed.range("forward", 0, 10)
    unclaimed.call("cudaLaunchKernel", 2, 4, 1)
    unclaimed.kernel(10, 2010, 1)
    unclaimed.kernel(2010, 3010)
    difference = compare_traces(folders[1], unclaimed.write(tmp_path / "unclaimed"))
    # A kernel without a launching call: 1000 us that the other variant has none of.
    assert us(difference.residual_s) == 1000
    assert us(sum(term.seconds_per_epoch for term in difference.terms)) == -1000


def test_samples_make_epochs_of_other_sizes_comparable(folders):
    difference = compare_traces(*folders, samples=(100, 50))
    # 10,000 us for 100 samples are 100 each, 4000 us for 50 are 80.
    assert us(difference.total_per_sample_s) == -20
    terms = sum(term.seconds_per_sample for term in difference.terms)
    assert terms + difference.residual_per_sample_s == pytest.approx(difference.total_per_sample_s, abs=1e-12)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e-320, 0, -1])
def test_samples_that_no_epoch_has_are_refused(folders, odd):
    with pytest.raises(RecordError, match="samples per epoch must be from 1e-06 to 1e"):
        compare_traces(*folders, samples=(odd, 1))


def test_first_of_three_epochs_warms_up_and_does_not_count(tmp_path):
    trace = TraceBuilder()
    for start, end in [(0, 900), (900, 1000), (1000, 1120)]:
        trace.range("epoch", start, end)
        trace.range("forward", start, end)
        trace.call("cudaLaunchKernel", start, start + 1, start)
        trace.kernel(start + 1, end, start)
    folder = trace.write(tmp_path)
    difference = compare_traces(folder, folder)
    assert (difference.epochs_a, us(difference.epoch_a_s)) == (2, 110)


def validating(epochs: int, validates: tuple[int, ...]) -> TraceBuilder:
    """Epochs of 100 us, the first one 900, of which some validate for 60 us more."""
    trace, clock = TraceBuilder(), 0
    for epoch in range(1, epochs + 1):
        start, update = clock, clock + (900 if epoch == 1 else 100)
        clock = update + (60 if epoch in validates else 0)
        trace.range("epoch", start, clock)
        trace.range("update", start, update)
        if epoch in validates:
            trace.range("sliding window", update, clock)
    return trace


@pytest.mark.parametrize(
    ("epochs", "validates", "validation_us"),
    [
        (6, (2, 4, 6), 60 / 2),  # not 3 / 5, the share of the epochs after the first
        (4, (4,), 60 / 4),
        (5, (5,), 60 / 5),
        (5, (2, 4), 60 / 2),
        (3, (1, 2, 3), 60),
        (5, (1, 4), 60 / 3),  # a trace that began in the middle of a validation interval
        (4, (), 0),
        (4, (1,), 0),  # nothing but an epoch that warms up
    ],
)
def test_validation_counts_at_its_share(tmp_path, epochs, validates, validation_us):
    plain, folder = TraceBuilder(), validating(epochs, validates).write(tmp_path / "validating")
    plain.range("epoch", 0, 100)
    plain.range("update", 0, 100)
    difference = compare_traces(plain.write(tmp_path / "plain"), folder)
    assert us(difference.epoch_b_s) == 100 + validation_us
    terms = {(term.part, term.name): us(term.seconds_per_epoch) for term in difference.terms if term.seconds_per_epoch}
    assert terms == ({("validation", "sliding window"): validation_us} if validation_us else {})
    assert (us(difference.total_s), difference.residual_s) == (validation_us, 0)


def test_a_trace_does_not_differ_from_itself(folders):
    difference = compare_traces(folders[0], folders[0])
    assert {term.seconds_per_epoch for term in difference.terms} | {difference.residual_s, difference.total_s} == {0.0}


def test_gpu_and_cpu_are_not_compared(folders, tmp_path):
    cpu = TraceBuilder()
    cpu.range("epoch", 0, 100)
    summaries = analyze_trace(folders[0]), analyze_trace(cpu.write(tmp_path / "cpu"))
    with pytest.raises(RecordError, match="slow and cpu: only one was recorded with a GPU"):
        compare_summaries(*summaries, names=("slow", "cpu"))


def test_written_difference_reads_back(folders, tmp_path):
    difference = compare_traces(*folders)
    write_difference(difference, tmp_path / "out")
    assert read_difference(tmp_path / "out") == difference


def steps(trace=None, count=4, length=1000, kernel=600, name="gemm", phase="forward", device=0, process=0, thread=MAIN):
    """Steps whose one kernel is launched in a phase; the rest of the phase is host time."""
    trace = trace or TraceBuilder()
    for number in range(count):
        at = length * number
        trace.range(f"step {number}", at, at + length, thread=thread, process=process)
        trace.range(phase, at, at + length - 1, thread=thread, process=process)
        trace.call("cudaLaunchKernel", at + 1, at + 2, 100 * process + number, thread=thread, process=process)
        trace.kernel(at + 2, at + 2 + kernel, 100 * process + number, name=name, device=device, process=process)
    return trace


def test_what_shows_nothing_comparable_is_refused(tmp_path):
    plain = analyze_trace(steps().write(tmp_path / "steps"))
    epochs = TraceBuilder()
    epochs.range("epoch", 0, 1000)
    epochs.kernel(0, 10)
    single = TraceBuilder()
    single.kernel(0, 10)
    lost = steps()
    lost.rows["kernels"] = lost.rows["kernels"][:1]
    for name, trace, why in [
        ("epochs", epochs, "an iteration of the first is a step `step #`, of the second an epoch `epoch`"),
        ("single", single, r"no iterations in the second \(they repeat, .*\); name the range of an iteration"),
        ("lost", lost, "too little of the second's GPU work was recorded"),
    ]:
        other = analyze_trace(trace.write(tmp_path / name))
        with pytest.raises(RecordError, match=why):
            compare_summaries(plain, other, ("a", "b"))


def test_a_change_of_what_lies_between_the_ranges_has_the_right_sign(tmp_path):
    # The published ablation: loading between the steps goes from 613 to 100 ms; the step itself grows from 107 to 110.
    def ablation(load, step):
        trace = TraceBuilder()
        for number in range(5):
            at = number * (load + step)
            trace.range(f"step {number}", at, at + step)
            trace.call("cudaLaunchKernel", at, at + 1, number)
            trace.kernel(at + 1, at + step, number)
        return trace

    difference = compare_traces(ablation(613, 107).write(tmp_path / "a"), ablation(100, 110).write(tmp_path / "b"))
    assert (difference.unit, us(difference.epoch_a_s), us(difference.epoch_b_s)) == ("step", 720, 210)
    assert us(difference.total_s) == -510
    assert difference.notes == ["most of the difference is host time that the traces do not explain: -0.513 ms"]


def test_doubts_are_said_first(tmp_path):
    one = steps()
    two = steps(name="conv", phase="inference")
    steps(trace=two, device=1, process=1, thread=5)
    difference = compare_traces(one.write(tmp_path / "a"), two.write(tmp_path / "b"))
    assert difference.notes[0] == "they used 1 and 2 processes with a GPU: an iteration may not be the same work"
    assert difference.notes[1] == "their programs share few ranges (0% of the time in ranges is in those that both have)"


def test_the_process_on_the_same_gpu_is_compared(tmp_path):
    def pair(busier):
        trace = steps(kernel=700 if busier == 0 else 600, name="gemm")
        return steps(trace, kernel=700 if busier == 1 else 600, name="gemm", device=1, process=1, thread=5)

    (one, other), _ = analyze_pair(pair(0).write(tmp_path / "a"), pair(1).write(tmp_path / "b"), analyze_chosen)
    assert [[process.devices for process in variant.processes if process.summarized] for variant in (one, other)] == [
        [[0]],
        [[0]],
    ]
    difference = compare_summaries(one, other, ("a", "b"))
    # The kernels of both GPUs count: 1300 us in either trace.
    (gemm,) = difference.kernels
    assert (gemm.group, us(gemm.a_s), us(gemm.b_s)) == ("matrix product", 1300, 1300)
