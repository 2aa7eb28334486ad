"""A quiet machine for a proof: what the plan says of it, waiting for it, and noise that the verdict begins with."""

import io
import os
import re
import threading

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.cluster.machine_load import Counters
from speedproof.config.reading import Reading
from speedproof.results.comparison_rows import Objection
from speedproof.results.experiment import PlannedRun
from speedproof.results.run_record import read_run
from speedproof.run.locks import holding_devices, holding_folder
from speedproof.run.observer import Observer
from speedproof.run.proof import quiet
from speedproof.run.proof.left_files import Snapshot
from speedproof.run.proof.live_status import EVERY_S, Status
from speedproof.run.proof.quiet import QuietRounds, QuietWait, describe_machine, wait_aloud
from speedproof.run.proof.request import check_request
from speedproof.run.proof.typed_call import write_call
from speedproof.run.proof.verdict import judge
from speedproof.run.proof.workspace import ProofBasis, write_claims
from speedproof.util.errors import ConfigError
from tests.prove.recorded import leave_experiment

START = Counters(0.0, 0.0, 2, 0.0, 0.0, None, None)


@pytest.fixture
def machine(monkeypatch):
    """A machine of two cores without a GPU: let others take so many of them in each of the coming looks, then none."""
    coming, now = [], {"at_s": 0.0, "busy_s": 0.0}

    def look(seconds):
        now["at_s"] += seconds
        now["busy_s"] += seconds * (coming.pop(0) if coming else 0.0)

    monkeypatch.setattr(quiet, "read_counters", lambda: Counters(now["at_s"], 0.0, 2, now["busy_s"], 0.0, None, None))
    monkeypatch.setattr(quiet, "list_gpu_uuids", list)
    monkeypatch.setattr(quiet, "name_gpu_processes", lambda _: [])
    return coming, look, now


@pytest.mark.parametrize(
    ("at_s", "busy_s", "on_gpu", "waits", "said"),
    [
        (4.0, 0.1, None, False, "machine: load 0.3 on 2 cores"),
        (4.0, 0.1, [], False, "machine: load 0.3 on 2 cores, no other process on the GPU"),
        (
            4.0, 4.8, None, False,
            "machine: load 0.3 on 2 cores, other programs used 1.2 of them since the start; --wait-for-quiet 10 waits up to 10 "
            "minutes for them",
        ),
        (4.0, 4.8, None, True, "machine: load 0.3 on 2 cores, other programs used 1.2 of them since the start"),
        (0.1, 0.1, None, False, "machine: load 0.3 on 2 cores"),  # too short to tell
        (
            4.0, 0.0, ["process 7 (a)"], False,
            "machine: load 0.3 on 2 cores, on the GPU: process 7 (a); --wait-for-quiet 10 waits up to 10 minutes for them",
        ),
    ],
)  # fmt: skip
def test_the_plan_says_how_quiet_the_machine_is(machine, at_s, busy_s, on_gpu, waits, said):
    *_, now = machine
    now.update(at_s=at_s, busy_s=busy_s)
    assert describe_machine(0.3, START, on_gpu, waits) == said


def waiting(machine, minutes):
    _, look, now = machine
    stream = io.StringIO()
    return QuietWait(minutes, "cpu", 1, Status(stream=stream, clock=lambda: now["at_s"]), look), stream


def test_a_quiet_machine_is_looked_at_once_and_not_at_all_unasked(machine):
    asked, _ = waiting(machine, 1)
    asked.wait()
    assert machine[2]["at_s"] == pytest.approx(0.2)
    unasked, _ = waiting(machine, None)
    unasked.wait()
    assert machine[2]["at_s"] == pytest.approx(0.2)


def test_a_busy_machine_is_waited_for(machine):
    machine[0][:] = [1.0, 1.5, 0.3]
    asked, stream = waiting(machine, 1)
    asked.wait()
    assert machine[2]["at_s"] == pytest.approx(0.2 + 3 * 1.0)  # the last look finds nobody
    said = " ".join(stream.getvalue().replace("\u00a0", " ").split())
    # By hand: looks of 0.2, 1 and 1 s found other programs.
    assert said == (
        "speedproof: waiting for a quiet machine: other programs use 1 of 2 cores "
        "speedproof: the machine is quiet after 2.20 s of waiting; continuing"
    )


def test_when_the_time_is_up_that_is_said_and_it_goes_on(machine):
    machine[0][:] = [1.5] * 100
    asked, stream = waiting(machine, 0.1)  # 6 s: one look of 0.2 s and six of a second
    asked.wait()
    assert machine[2]["at_s"] == pytest.approx(6.2)
    company = "other programs use 1.5 of 2 cores"
    assert " ".join(stream.getvalue().split()) == (
        f"speedproof: waiting for a quiet machine: {company} "
        f"speedproof: the machine is still busy after 0.100 min: {company}; measuring anyway"
    )
    asked.wait()  # the minutes are for all rounds together
    assert machine[2]["at_s"] == pytest.approx(6.2)


def test_a_wait_is_one_line_a_minute_off_a_terminal(machine):
    coming, look, now = machine
    coming[:] = [1.0] * 151
    stream = io.StringIO()
    status = Status(stream=stream, clock=lambda: now["at_s"])

    def look_and_print(seconds):
        look(seconds)
        assert status.look() <= EVERY_S  # what goes on next is printed soon

    QuietWait(10, "cpu", 1, status, look_and_print).wait()
    # Each look prints what it has to: at the start, after 60 s, after 120 s, at the end after 150.2 s.
    lines = [" ".join(line.split()) for line in stream.getvalue().split("speedproof: ")[1:]]
    waits = "waiting for a quiet machine: other programs use 1 of 2 cores"
    assert lines == [waits, f"{waits}, 60 s", f"{waits}, 120 s", "the machine is quiet after 2.50 min of waiting; continuing"]


def test_each_round_waits_once():
    happened = []

    class Quiet:
        def wait(self):
            happened.append("wait")

    class Told(Observer):
        def begin_run(self, planned):
            happened.append(planned.variant)

    rounds = QuietRounds(Quiet(), Told())
    for mode, number, variant in [("timed", 0, "a"), ("timed", 0, "b"), ("timed", 1, "b"), ("profiled", 0, "a")]:
        rounds.begin_run(PlannedRun(variant=variant, mode=mode, round=number, seed=0))
    assert happened == ["wait", "a", "b", "wait", "b", "a"]


@pytest.mark.parametrize("hold", [lambda folder: holding_devices("cpu", 1), holding_folder])
def test_who_waits_is_told_for_whom_and_goes_on_when_that_ends(tmp_path, monkeypatch, hold):
    monkeypatch.setattr("speedproof.run.locks._PATIENCE_S", 0.05)
    told, began, ended = [], threading.Event(), threading.Event()

    def tell(text):
        told.append(text)
        ended.set()

    def measure():
        with hold(tmp_path):
            began.set()
            ended.wait(20)

    other = threading.Thread(target=measure)
    other.start()
    began.wait(20)
    waits = holding_folder(tmp_path, tell) if hold is holding_folder else holding_devices("cpu", 1, waiting=tell)
    with waits:
        other.join()
    assert f"waiting for {'' if hold is holding_folder else 'another experiment, '}process {os.getpid()} " in told[0]


def test_the_seconds_of_a_wait_count_from_its_beginning():
    now, stream = [0.0], io.StringIO()
    status = Status(stream=stream, clock=lambda: now[0])
    tell = wait_aloud(status)
    for seconds in range(0, 63, 3):
        now[0] = float(seconds)
        tell("waiting for process 7")
        status.look()
    # A log gets the sentence, and a line a minute.
    said = "speedproof: waiting for process 7"
    assert stream.getvalue().splitlines() == [said, f"{said}, 60 s"]


def test_a_second_wait_for_the_same_process_is_named_again():
    stream = io.StringIO()
    status = Status(stream=stream)
    tell = wait_aloud(status)
    tell("waiting for process 7")  # before the warm-up
    status.go_on_with("checking the machine")
    tell("waiting for process 7")  # before the rounds
    assert stream.getvalue() == "speedproof: waiting for process 7\n" * 2


def test_waiting_is_asked_for_by_command_line_or_file_and_not_where_jobs_run_elsewhere():
    request = check_request({"commands": ["a", "b"], "wait": True, "wait_for_quiet_min": 10}, "here")
    assert write_call(request) == "speedproof prove a b --wait --wait-for-quiet 10.0"
    for asked in ({"wait": True}, {"wait_for_quiet_min": 1}):
        with pytest.raises(ConfigError, match="profile: its jobs run elsewhere"):
            check_request({"commands": ["a", "b"], "profile": "slurm", **asked}, "here")


def verdict_with(place, b, objections=(), claim=None, noise=0.05):
    """The sentence on runs of 1 s, by turns longer and shorter, against `b`, with these objections to their ratio."""
    request = check_request({"commands": ["sh a.sh", "sh b.sh"], "rounds": 6, "claim": claim}, "here")
    named = {"a": "sh a.sh", "b": "sh b.sh"}
    measured = ProofBasis(place / "out", request, named, Snapshot(), {}).describe(request.reading("process"), {})
    write_claims(measured)

    def lasted_s(variant, number):
        return 1.0 + (noise if number % 2 else -noise) if variant == "a" else b

    comparison = leave_experiment(place / "out", measured.config, lasted_s).comparison
    for ratio in comparison.ratios:
        ratio.objections.extend(objections)
    (candidate,) = judge(comparison, request, "process_s", Reading(source="process"), "report.html", place / "out").candidates
    return candidate.sentence.replace("\u00a0", " ")


NOISE = Objection(kind="noise", blocks=False, values={"spread": 0.12, "effect": 0.03})
BUSY = Objection(kind="busy machine", blocks=False, values={"others_cores": 0.8, "cores": 2})


def test_noise_that_exceeds_the_effect_is_what_the_verdict_begins_with(place):
    said = verdict_with(place, 0.99, [NOISE, BUSY])
    assert said.startswith(
        "Inconclusive: runs of one variant differ by 12 %, more than the 3.0 % between the variants; other programs used 0.8 "
        "of 2 cores during the runs; B (sh b.sh) measured 1.01× as fast as A (sh a.sh) on this machine, by the"
    )
    assert said.endswith(". Longer runs differ less; --wait-for-quiet 10 waits up to 10 minutes for other programs.")


def test_what_the_machine_did_follows_a_verdict_that_is_shown(place):
    said = verdict_with(place, 0.5, [BUSY])
    assert said.startswith(
        "Faster: B (sh b.sh) is 2.00× as fast as A (sh a.sh) on this machine, measured by the wall time of the whole "
        "process (95 % interval "
    )
    assert said.endswith("6 pairs of runs). Other programs used 0.8 of 2 cores during the runs.")


@pytest.mark.parametrize(
    ("b", "claim", "near"),
    [
        (1 / 1.025, None, True),
        (1.025, None, True),
        (1 / 1.04, None, False),
        (1.0, None, False),  # equivalent: another machine may differ as much
        (0.5, ">= 1.95", True),
        (0.5, ">= 2.05", True),  # the claim fails
        (0.5, ">= 1.9", False),
        (0.5, ">= 2.0", False),  # inconclusive
    ],
)
def test_what_is_as_near_to_its_bound_as_machines_differ_says_so(place, b, claim, near):
    said = verdict_with(place, b, claim=claim, noise=0.001)
    assert ("; machines of one model differ this much" in said) == near


def test_each_run_of_a_proof_records_what_the_machine_did(place):
    words = ["prove", "sleep 0.05", "sleep 0.02", "--rounds", "4", "--out", "out", "--wait", "--device", "cpu"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 1, 2), done.output  # a busy machine decides which
    assert re.search(r"speedproof: machine: (load [\d.]+ on )?\d+ cores?", done.stderr)
    runs = [read_run(path.parent) for path in place.glob("out/results/experiments/*/runs/*/run.json")]
    loads = [run.observed.machine for run in runs if run.observed]
    assert len(loads) == 8
    assert all(load is not None and load.seconds >= 0.02 and load.cores >= 1 for load in loads)
