"""Energy and use of the GPU, from samples: values worked out by hand, and by another library's integral."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from speedproof.results.folder import read_results
from speedproof.results.run_record import GPU_COLUMNS, Part
from speedproof.stats.metrics import measure_run
from speedproof.stats.run_values import LONGEST_GAP_S, integrate_samples
from tests.report.example import CPU_EXAMPLE, Example, write_example


def integrate(samples, *spans):
    time_s, values = np.array(samples, dtype=float).T
    return integrate_samples(time_s, values, list(spans))


def test_irregular_samples_are_joined_by_straight_lines():
    # 100 W, rising from second 2 to second 3 to 200 W, then constant, sampled when it came: 2 · 100 + 150 + 2 · 200.
    samples = [(0, 100), (0.5, 100), (2, 100), (3, 200), (4.9, 200), (5, 200)]
    assert integrate(samples, (0, 5)) == pytest.approx(750)
    # Half a second of the rise at either end: 100 to 150 W, and 150 to 200 W.
    assert integrate(samples, (0, 2.5)) is None  # too short by itself
    assert integrate(samples, (0, 2.5), (2.5, 5)) == pytest.approx(200 + 62.5 + 87.5 + 400)


def test_an_end_between_two_samples_is_interpolated_and_one_outside_of_them_holds_the_nearest():
    assert integrate([(0, 0), (2, 20), (4, 40)], (0.5, 3.5)) == pytest.approx((5 + 35) / 2 * 3)
    assert integrate([(1, 10), (3, 10), (4, 10)], (0, 5)) == pytest.approx(50)


@pytest.mark.parametrize(
    "samples",
    [
        [(0, 1), (1, 1), (3.5, 1), (5, 1)],
        [(0, 1), (1, math.nan), (2, math.nan), (3, 1), (5, 1)],  # told nothing
        [(2.5, 1), (4, 1), (5, 1)],
        [(0, 1), (1, 1), (2.5, 1)],
        [(0, math.nan), (5, math.nan)],
    ],
)
def test_a_gap_in_the_samples_is_no_number(samples):
    assert integrate(samples, (0, 5)) is None


def test_a_gap_outside_of_what_is_integrated_and_a_single_lost_sample_are_none():
    assert integrate([(0, 1), (9, 1), (10, 1), (11, math.nan), (12, 1), (13, 1)], (9.5, 13)) == pytest.approx(3.5)


@given(st.lists(st.tuples(st.floats(0.001, 0.99 * LONGEST_GAP_S), st.floats(0, 1000)), min_size=20, max_size=60), st.data())
def test_it_is_another_librarys_integral_and_adds_up_over_parts(samples, data):
    time_s = np.cumsum([gap for gap, _ in samples])
    values = np.array([value for _, value in samples])
    whole = integrate_samples(time_s, values, [(time_s[0], time_s[-1])])
    if time_s[-1] - time_s[0] < 3:
        assert whole is None
        return
    assert whole == pytest.approx(trapezoid(values, time_s), rel=1e-9, abs=1e-9)
    middle = data.draw(st.floats(time_s[0], time_s[-1]))
    assert integrate_samples(time_s, values, [(time_s[0], middle), (middle, time_s[-1])]) == pytest.approx(whole, abs=1e-6)


def with_samples(run, tables):
    """A run whose `gpu.csv` is another one."""
    other = replace(run)
    other.__dict__["gpu_samples"] = tables
    return other


def sampled(time_s, **columns):
    return pd.DataFrame(dict.fromkeys(GPU_COLUMNS), index=range(len(time_s))).assign(time_s=time_s, **columns)


@pytest.fixture
def run(tmp_path):
    """Fast's first run: from second 28 on epochs of 2.08 s and 1.08 s, every second one with 0.18 s more."""
    return next(
        run for run in read_results(write_example(tmp_path, Example(modes=("timed",)))).runs if run.run.variant == "fast"
    )


def test_energy_is_that_of_the_epochs_that_count(run):
    # Epochs 3 to 6: whole intervals without the first process' warm-up. They begin 3.34 s after second 28 and take 4.68 s.
    starts_s, length_s = 28 + 2.08 + 1.08 + 0.18, 4 * 1.08 + 2 * 0.18
    assert measure_run(run, "energy_per_epoch_j") == pytest.approx(300 * length_s / 4)
    time_s = np.arange(0, 60, 0.01)
    power_w = np.where((time_s >= starts_s) & (time_s <= starts_s + length_s), 500.0, 100.0)
    told = with_samples(run, [sampled(time_s, power_w=power_w)])
    assert measure_run(told, "energy_per_epoch_j") == pytest.approx(500 * length_s / 4, rel=0.01)
    both = with_samples(run, [sampled(time_s, power_w=power_w), sampled(time_s, power_w=0.5 * power_w)])
    assert measure_run(both, "energy_per_epoch_j") == pytest.approx(750 * length_s / 4, rel=0.01)


def test_busy_is_the_mean_over_the_same_time_and_over_gpus(run):
    time_s = np.arange(0, 60, 0.01)
    tables = [sampled(time_s, gpu_busy_percent=np.where(time_s > 31.34, percent, 0)) for percent in (90, 50)]
    assert measure_run(with_samples(run, tables), "gpu_busy_sampled_fraction") == pytest.approx(0.7, rel=0.01)


def test_where_a_gpu_does_not_tell_or_was_not_watched_there_is_no_energy(run, tmp_path):
    time_s = np.arange(0, 60, 0.1)
    told, silent = sampled(time_s, power_w=300.0), sampled(time_s, power_w=math.nan)
    empty = pd.DataFrame(columns=GPU_COLUMNS)
    for tables in ([silent], [told, silent], [empty], [told[told["time_s"] < 30]]):
        assert measure_run(with_samples(run, tables), "energy_per_epoch_j") is None
    part = Part(first_epoch=4, reason="received SIGTERM", start_up_s=30.0, cache_fill_s=24.0, warm_up_s=0.5)
    continued = replace(run, run=run.run.model_copy(update={"continued": [part]}))
    assert measure_run(continued, "energy_per_epoch_j") is None
    on_cpu = read_results(write_example(tmp_path / "cpu", CPU_EXAMPLE)).runs[0]
    assert measure_run(on_cpu, "energy_per_epoch_j") is None


def test_where_it_is_not_known_when_each_epoch_was_there_is_no_energy(run):
    later = replace(run, run=run.run.model_copy(update={"process_s": run.run.process_s + 2.5}))  # checkpoints between epochs
    assert measure_run(later, "energy_per_epoch_j") is None


def test_epochs_that_are_over_before_nvml_tells_have_no_energy(run):
    short = run.epochs.assign(train_s=run.epochs["train_s"] / 10, validation_s=run.epochs["validation_s"] / 10)
    assert measure_run(replace(run, epochs=short), "energy_per_epoch_j") is None
