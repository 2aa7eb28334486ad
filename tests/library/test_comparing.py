"""`speedproof.compare`: outcome, interval, budget and clock, by functions that take as long as a clock of ours says."""

import gc
import math
import random
from types import SimpleNamespace

import pandas as pd
import pytest

import speedproof
from speedproof.library import comparing, function_timing
from speedproof.library.function_timing import WallClock, calibrate_calls, without_collector
from speedproof.run import paired_rounds


class Clock:
    """Time that only passes in calls."""

    def __init__(self):
        self.now_s = 100.0
        self.calls = []

    def perf_counter(self):
        return self.now_s

    def takes(self, name, *seconds):
        """Return a function whose calls take these seconds, one after the other, then always the last."""
        left = list(seconds)

        def call():
            self.calls.append(name)
            self.now_s += left.pop(0) if len(left) > 1 else left[0]

        return call


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(function_timing, "time", clock)
    monkeypatch.setattr(paired_rounds, "time", clock)
    monkeypatch.setattr(comparing, "find_cuda", lambda: None)
    return clock


def test_a_claim_holds_or_fails_by_the_ratio_of_calls(clock):
    result = speedproof.compare(clock.takes("a", 0.006), clock.takes("b", 0.002), ">= 2")
    assert (result.outcome, result.holds, result.pairs, result.clock) == ("claim holds", True, 4, "wall clock")
    assert result.ratio == pytest.approx(3.0)
    assert result.interval == pytest.approx((3.0, 3.0))
    assert (result.old_s, result.new_s) == pytest.approx((0.006, 0.002))
    assert result.sentence == "Claim holds, '>= 2': new is 3.00× as fast as old (95 % interval 3.00–3.00×, 4 pairs)."
    failed = speedproof.compare(clock.takes("a", 0.006), clock.takes("b", 0.002), ">= 4")
    assert (failed.outcome, failed.holds) == ("claim fails", False)


@pytest.mark.parametrize(
    ("new_s", "outcome", "holds"), [(0.005, "faster", True), (0.02, "slower", False), (0.0101, "equivalent", False)]
)
def test_without_a_claim_any_difference_counts(clock, new_s, outcome, holds):
    result = speedproof.compare(clock.takes("a", 0.01), clock.takes("b", new_s))
    assert (result.outcome, result.holds) == (outcome, holds)


def test_first_calls_do_not_count(clock):
    result = speedproof.compare(clock.takes("a", 900, 0.01), clock.takes("b", 700, 0.01))
    assert result.outcome == "equivalent"
    assert result.old_s == pytest.approx(0.01)


def test_rounds_end_with_the_budget(clock):
    result = speedproof.compare(clock.takes("a", 3.0), clock.takes("b", 3.0), ">= 1.1", budget_s=10)
    assert (result.outcome, result.pairs, result.interval, result.stopped) == ("inconclusive", 1, None, "budget")
    assert result.sentence.endswith("The budget of 10.0 s ended before 4 rounds; raise budget_s.")


def test_both_run_in_random_order_in_each_round(clock, monkeypatch):
    monkeypatch.setattr(comparing, "random", SimpleNamespace(Random=lambda: random.Random(5)))
    speedproof.compare(clock.takes("a", 0.2), clock.takes("b", 0.2), budget_s=10)
    rounds = "".join(clock.calls[-8:])
    assert sorted({rounds[place : place + 2] for place in range(0, 8, 2)}) == ["ab", "ba"]


def test_a_pause_in_one_loop_changes_nothing(clock):
    calls = [0.002] * 40 + [5.0] + [0.002]
    result = speedproof.compare(clock.takes("a", *calls), clock.takes("b", 0.002), budget_s=60)
    assert result.ratio == pytest.approx(1.0)


def test_short_calls_are_repeated_until_the_clock_can_tell(clock):
    calls, each_s = calibrate_calls(WallClock(), clock.takes("a", 1e-6), 0.002)
    assert calls == pytest.approx(2000, abs=1)
    assert each_s == pytest.approx(1e-6)
    assert calibrate_calls(WallClock(), clock.takes("a", 0.5), 0.002) == (1, pytest.approx(0.5))


def test_the_garbage_collector_is_off_and_then_as_before():
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_random_numbers_of_a_test_stay_as_they_are(clock):
    random.seed(3)
    expected = random.random()
    random.seed(3)
    speedproof.compare(clock.takes("a", 0.01), clock.takes("b", 0.01))
    assert random.random() == expected


class Cuda:
    """A GPU whose events see a share of the time that the wall clock sees."""

    def __init__(self, clock, share):
        self._clock, self._share = clock, share

    def synchronize(self):
        pass

    def Event(self, enable_timing):  # noqa: N802
        cuda, event = self, SimpleNamespace(at_s=None)
        event.record = lambda: setattr(event, "at_s", cuda._clock.now_s)
        event.elapsed_time = lambda end: 1000 * cuda._share * (end.at_s - event.at_s)
        return event


@pytest.mark.parametrize(("share", "title"), [(0.95, "CUDA events"), (0.5, "wall clock, since GPU work runs beside")])
def test_gpu_time_counts_unless_it_misses_work(clock, monkeypatch, share, title):
    monkeypatch.setattr(comparing, "find_cuda", lambda: Cuda(clock, share))
    result = speedproof.compare(clock.takes("a", 0.01), clock.takes("b", 0.005))
    assert result.clock.startswith(title)
    assert result.old_s == pytest.approx(0.01 * (share if share > 0.9 else 1))


def test_cuda_is_asked_only_if_torch_is_there(monkeypatch):
    monkeypatch.setitem(function_timing.sys.modules, "torch", None)
    assert function_timing.find_cuda() is None
    cuda = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(function_timing.sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert function_timing.find_cuda() is cuda


def test_a_comparison_is_shown_as_a_table_and_has_no_truth_of_its_own(clock):
    result = speedproof.compare(clock.takes("a", 0.03), clock.takes("b", 0.01))
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == ["round", "old_s", "new_s", "ratio"]
    assert frame["ratio"].tolist() == pytest.approx([3.0] * 4)
    assert '<td style="text-align: right">30.0\N{NO-BREAK SPACE}ms</td>' in result._repr_html_()
    with pytest.raises(TypeError, match=r"assert its `\.holds`"):
        assert result


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1, len), {}, "old: 1 is not a function; pass one without calling it"),
        ((len, len, "fast"), {}, "claim: 'fast': write a comparison"),
        ((len, len), {"budget_s": 0}, "budget_s: 0: write a number above 0"),
        ((len, len), {"margin": math.nan}, "margin: nan: write a number above 0"),
    ],
)
def test_what_cannot_be_understood_is_refused(arguments, options, message):
    with pytest.raises(speedproof.SpeedproofError, match=message):
        speedproof.compare(*arguments, **options)


def test_functions_are_called_by_their_names():
    def slow(): ...

    def fast(): ...

    from speedproof.library.function_comparison import _name_functions

    assert _name_functions(slow, fast) == ("slow", "fast")
    assert _name_functions(slow, lambda: 1) == ("old", "new")
    assert _name_functions(slow, slow) == ("old", "new")
