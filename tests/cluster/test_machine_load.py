"""What the machine did during a run, by files of the system that a test writes."""

import os
import subprocess
import sys
import time

import pytest

from speedproof.cluster import machine_load
from speedproof.cluster.machine_load import Counters, describe_between, is_of_ours, read_counters, watching_machine

# user nice system idle iowait irq softirq steal guest guest_nice, in ticks of 10 ms.
STAT = """\
cpu  9999 0 9999 9999 0 0 0 9999 0 0
cpu0 100 10 20 500 7 1 2 30 50 0
cpu1 200 0 40 400 7 3 4 5 0 0
cpu12 700 0 0 0 0 0 0 70 0 0
intr 1 2 3
"""


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system of two cores, whose files are below a folder."""
    (tmp_path / "stat").write_text(STAT)
    monkeypatch.setattr(machine_load, "_PROC", tmp_path)
    monkeypatch.setattr(machine_load, "_CPUS", tmp_path)
    monkeypatch.setattr(machine_load, "_TICKS_PER_S", 100)
    monkeypatch.setattr(machine_load, "_list_cores", lambda: {0, 1})
    monkeypatch.setattr(machine_load, "_list_quota_files", lambda: [tmp_path / "cpu.stat"])
    return tmp_path


def test_only_the_cores_count_that_the_run_may_use(system):
    found = read_counters()
    # 100 + 10 + 20 + 1 + 2 and 200 + 40 + 3 + 4 ticks; a guest's time is in the user's, waiting for a disk is idle.
    assert (found.cores, found.busy_s, found.stolen_s) == (2, pytest.approx(3.80), pytest.approx(0.35))


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3\n", "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n", "cpu0 1 1 1 1 1 1 1 1\n"])
def test_a_system_that_tells_nothing_of_its_cores_is_not_known(system, text):
    (system / "stat").write_text(text)
    assert (read_counters().busy_s, read_counters().stolen_s) == (None, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("nr_throttled 4\nthrottled_usec 1500000\n", 1.5),
        ("nr_throttled 4\nthrottled_time 1500000000\n", 1.5),
        ("usage_usec 7\n", None),
        ("", None),
    ],
)
def test_both_versions_of_control_groups_say_how_long_a_quota_held(system, text, seconds):
    (system / "cpu.stat").write_text(text)
    assert read_counters().quota_s == seconds


def test_heat_is_counted_over_the_cores(system):
    assert read_counters().thermal_events is None
    for core, count in ((0, 3), (1, 4), (12, 50)):
        (system / f"cpu{core}/thermal_throttle").mkdir(parents=True)
        (system / f"cpu{core}/thermal_throttle/core_throttle_count").write_text(f"{count}\n")
    assert read_counters().thermal_events == 7


def test_others_have_what_the_cores_did_besides_this_process_and_its_children():
    before = Counters(10.0, 1.0, 2, 100.0, 5.0, None, 3)
    found = describe_between(before, Counters(14.0, 2.5, 2, 105.5, 5.25, 1.0, 4))
    assert (found.seconds, found.others_cpu_s, found.stolen_s) == (4.0, 4.0, 0.25)
    assert (found.quota_throttled_s, found.thermal_events) == (None, 1)
    assert found.others_share == 0.5  # 4 of 2 × 4 seconds
    assert found.is_busy


def test_a_counter_that_is_coarser_than_a_program_makes_nobody_busy():
    found = describe_between(Counters(0.0, 0.0, 2, 0.0, 0.0, None, None), Counters(0.05, 0.05, 2, 0.04, 0.0, None, None))
    assert (found.others_cpu_s, found.is_busy) == (0.0, False)


def test_a_childs_time_is_its_own_once_it_ended():
    before = read_counters()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    assert read_counters().own_s - before.own_s >= 0.19


def test_a_watch_tells_clocks_and_who_is_on_the_gpu(system, monkeypatch):
    monkeypatch.setattr(machine_load, "_LOOK_EVERY_S", 0.01)
    for core, khz in ((0, 2_000_000), (1, 3_000_000)):
        (system / f"cpu{core}/cpufreq").mkdir(parents=True)
        (system / f"cpu{core}/cpufreq/scaling_cur_freq").write_text(f"{khz}\n")
    with watching_machine(lambda: ["process 7 (other)"]) as watch:
        deadline = time.monotonic() + 20
        while not watch.on_gpu and time.monotonic() < deadline:
            time.sleep(0.01)
    assert watch.found is not None
    assert (watch.found.clock_mhz, watch.found.gpu_processes) == (2500.0, ["process 7 (other)"])


def test_a_watch_of_a_run_that_fails_is_whole():
    with pytest.raises(ValueError, match="failed"), watching_machine() as watch:
        raise ValueError("failed")
    assert watch.found is not None and watch.found.cores >= 1


def test_who_is_below_this_process_is_ours():
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            assert is_of_ours(child.pid) and is_of_ours(os.getpid()) and not is_of_ours(1)
        finally:
            child.kill()
