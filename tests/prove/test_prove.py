"""`speedproof prove` over recorded runs of known truth: what is recovered, what is withheld, each exit status."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from statistics import fmean

import psutil
import pytest
import yaml
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.load import load_config
from speedproof.config.reading import Reading
from speedproof.report.document import Fact
from speedproof.report.figures.figure_data import Evidence, read_evidence
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.run_again import list_commands
from speedproof.results.files import sha256_of
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.run.epoch_reports import Reports
from speedproof.run.proof import proof
from speedproof.run.proof.executor import LocalExecutor
from speedproof.run.proof.left_files import Snapshot, take_snapshot
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.progress import Progress, Records
from speedproof.run.proof.request import ProofRequest, check_request
from speedproof.run.proof.snakemake import ProfileExecutor, await_end, find_profile, passing_on_stops, write_profile
from speedproof.run.proof.typed_call import write_call
from speedproof.run.proof.warm_up import WarmUp
from speedproof.run.proof.workspace import ProofBasis, write_claims
from speedproof.run.watched_program import RunEnd, Watched
from speedproof.util.child_processes import Life
from speedproof.util.errors import ConfigError, SpeedproofError
from tests.prove.recorded import EPOCHS, leave_experiment, share_warm_ups

COMMANDS = ["sh a.sh 2 0.9", "sh a.sh 1 0.9"]
READ = ["--epoch-s", r"took (\S+)", "--quality", r"acc (\S+)"]
WARM = WarmUp(
    reading=Reading(source="process"),
    epochs={"a": 0, "b": 0},
    units={},
    arrivals={},
    process_s={"a": 1.0, "b": 1.0},
    notes={},
    copy_s=0.0,
    observed={},
    qualities={},
    unwatched=[],
)
# Of six rounds, and not alike for both variants.
NOISE = {"a": (1.0, 1.004, 0.996, 1.005, 0.995, 1.0), "b": (1.004, 1.0, 1.0, 0.996, 1.005, 0.995)}


@pytest.fixture
def measured(monkeypatch):
    """Have the experiment measure these epochs in seconds, and these qualities."""

    def measure(a=2.0, b=1.0, quality_a=0.9, quality_b=0.9, seeded=True):
        seconds, qualities = {"a": a, "b": b}, {"a": quality_a, "b": quality_b}

        def leave(executor, measured, progress):
            return leave_experiment(
                executor._out,
                measured.config,
                lambda variant, number: seconds[variant] * NOISE[variant][number],
                lambda variant, number: qualities[variant] + seeded * number / 1000,
            )

        monkeypatch.setattr(LocalExecutor, "measure", leave)

    return measure


@pytest.fixture
def warmed(monkeypatch):
    share_warm_ups(monkeypatch)


def call(*words):
    return CliRunner().invoke(app, ["prove", *COMMANDS, "--out", "out", "--rounds", "6", *words])


def read_settings(out):
    """What decides what the first command's runs measure."""
    return json.loads((out / "results/config.json").read_text())["completed"]["variants"]["a"]["settings"]


def describe(out, asked, commands=("true", "true")):
    """What is measured of a request whose commands are read by their process alone."""
    checked = check_request({"commands": COMMANDS, **asked}, "here")
    named = dict(zip("ab", commands, strict=True))
    return ProofBasis(out, checked, named, Snapshot(), {}).describe(checked.reading("process"), {})


def follow(measured, status):
    """What prints the progress of what is measured."""
    return Progress(measured.config.measurement, {"a": "A", "b": "B"}, {"a": 1.0, "b": 1.0}, status)


def status_of(result):
    """The exit status as the command line gives it: an error's own, where there is one."""
    return getattr(result.exception, "exit_code", result.exit_code)


def test_twice_as_fast_is_recovered(place, measured, warmed):
    measured()
    result = call(*READ, "--claim", ">= 1.5", "--margin", "0.01", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    verdict = json.loads(result.stdout)
    (candidate,) = verdict["candidates"]
    # By hand: the sixth root of the products 0.999959 and 0.999959, which is 1.
    assert candidate["ratio"] == pytest.approx(2.0, rel=1e-4)
    assert candidate["low"] < 2.0 < candidate["high"]
    assert (verdict["outcome"], verdict["source"], verdict["metric"], candidate["quality"]) == (
        "claim holds",
        "lines",
        "training_epoch_s",
        "no worse",
    )
    assert json.loads((place / "out/verdict.json").read_text()) == verdict


@pytest.mark.parametrize(
    ("truth", "words", "status", "said"),
    [
        ({}, [], 0, "Faster: B (sh a.sh 1 0.9) is 2.00× as fast as A (sh a.sh 2 0.9) on this machine"),
        ({}, ["--claim", ">= 2.5"], 1, "Claim fails, '>= 2.5'"),
        ({}, ["--claim", ">= 2.0"], 2, "Inconclusive, '>= 2.0'"),
        ({"b": 2.0}, [], 1, "is as fast as A (sh a.sh 2 0.9) on this machine, within 2.0"),
        ({"quality_b": 0.8}, ["--margin", "0.01", "--claim", ">= 1.5"], 1, "Withheld, '>= 1.5'"),
        ({"quality_b": 0.8}, ["--claim", ">= 1.5"], 0, "Claim holds, '>= 1.5'"),
        ({"quality_b": 0.8}, [], 0, "); reported quality 0.803 against 0.902, not judged (no --margin)."),
        ({"b": 2.0, "quality_b": 0.8}, ["--margin", "0.01"], 1, "); reported quality 0.803 against 0.902."),
        # Programs that do not read their seed.
        (
            {"quality_b": 0.97, "seeded": False},
            ["--margin", "0.01"],
            0,
            "and the reported quality is better, though this is not",
        ),
        ({"seeded": False}, ["--margin", "0.01"], 2, "quality 0.900 against 0.900: every run reports 0.900; the program"),
        ({"quality_b": 0.8, "seeded": False}, ["--margin", "0.01"], 2, "Quality not established: B (sh a.sh 1 0.9) is 2.00×"),
        ({"a": 1.0, "b": 2.0}, ["--claim", ">= 1.5"], 1, "Claim fails, '>= 1.5'"),
        ({"b": 2.0}, [], 1, "Equivalent"),
        # As fast as is claimed, though slower, and so is the quality that is asked for: its own.
        (
            {"b": 2.1, "quality_b": 0.8},
            ["--margin", "0.01", "--claim", ">= 0.9"],
            1,
            "the quality is worse: reported quality 0.803",
        ),
        (
            {"b": 2.1, "quality_a": 0.8},
            ["--margin", "0.01", "--claim", ">= 0.9"],
            0,
            "quality is no worse (0.902 against 0.803, margin 0.01).",
        ),
        ({"b": 2.1}, ["--margin", "0.01"], 0, "and the reported quality of A (sh a.sh 2 0.9) is no worse (0.902 against"),
        (
            {"b": 2.1, "quality_a": 0.8},
            ["--margin", "0.01", "--claim", "<= 0.97"],
            1,
            "the quality of A (sh a.sh 2 0.9) is worse",
        ),
    ],
)
def test_each_verdict_has_its_exit_status(place, measured, warmed, truth, words, status, said):
    measured(**truth)
    result = call(*READ, *words)
    assert (result.exit_code, said in result.stdout.replace("\n", " ")) == (status, True), result.output


@pytest.mark.parametrize(
    ("b", "resolution_s", "words", "status", "said"),
    [
        # Two that print 0.1 s may be 0.05 s and 0.15 s: 0.333 to 3.
        (
            0.1,
            0.05,
            [],
            2,
            "Inconclusive: epoch times are printed to 0.1 s; print more digits, or drop --epoch-s; B (sh",
        ),
        (
            0.1,
            0.05,
            ["--claim", ">= 0.9"],
            2,
            "Inconclusive, '>= 0.9': epoch times are printed to 0.1 s; print more digits, or",
        ),
        (0.1, 5e-5, [], 1, "Equivalent"),
        # 0.1 ± 0.0005 over 0.05 ± 0.0005: at least 0.0995 / 0.0505 = 1.97.
        (0.05, 5e-4, ["--claim", ">= 1.9"], 0, "Claim holds, '>= 1.9'"),
        (
            0.05,
            5e-4,
            ["--claim", ">= 1.99"],
            2,
            "Inconclusive, '>= 1.99': epoch times are printed to 0.001 s; print more digits",
        ),
    ],
)
def test_no_verdict_is_finer_than_the_printed_digits(place, warmed, monkeypatch, b, resolution_s, words, status, said):
    def leave(executor, measured, progress):
        seconds = {"a": 0.1, "b": b}
        return leave_experiment(executor._out, measured.config, lambda name, _: seconds[name], resolution_s=resolution_s)

    monkeypatch.setattr(LocalExecutor, "measure", leave)
    result = call("--epoch-s", r"took (\S+)", *words)
    assert (result.exit_code, said in result.stdout.replace("\n", " ").replace("\u00a0", " ")) == (status, True), result.output
    (digits,) = (fact for fact in compose_first_screen(read_evidence(place / "out/results")).caveats if fact.name == "Digits")
    assert f"Epoch times are printed to {2 * resolution_s:g} s" in digits.text.replace("\u00a0", " ")


def test_the_plan_says_as_what_epochs_are_read(place, measured):
    measured()
    assert "read from: lines, epochs read as microseconds;" in " ".join(call(*READ).stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--caches", "cold"], "caches: cold; each run starts with empty compile caches"),
        (["--caches", "shared"], "caches: shared; runs use your compile caches and see what earlier runs left there"),
        (["--isolate"], "isolated: what a run writes to HOME, /tmp and Python's packages is discarded when it ends"),
    ],
)
def test_the_plan_says_what_is_chosen_of_caches_and_folders(place, measured, monkeypatch, words, said):
    measured()
    monkeypatch.setattr("speedproof.run.proof.warm_up.require_isolation", lambda: None)
    monkeypatch.setattr(proof, "_warm_up_once", lambda *_: WARM)
    told = " ".join(call(*words).stderr.split())
    assert (f"speedproof: {said}" in told, told.count("caches:")) == (True, words != ["--isolate"]), told


@pytest.mark.parametrize(
    ("words", "metric"), [("wall time", "process_s"), ("Epoch time", "training_epoch_s"), ("rate", "samples_per_s")]
)
def test_a_metric_may_be_called_as_help_calls_it(words, metric):
    assert ProofRequest(commands=["a", "b"], metric=words).metric == metric


def test_an_epochs_metric_without_epochs_ends_after_the_warm_up(place, measured):
    measured()
    result = CliRunner().invoke(app, ["prove", "true", "true", "--metric", "training_epoch_s", "--out", "out"])
    assert (status_of(result), "needs epochs, and not all commands" in str(result.exception)) == (3, True), result.exception
    assert not (place / "out/verdict.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rounds", "3"], "must be even and at least 4"),
        (["--claim", "fast"], "write a comparison and a number above 0"),
        (["--claim", f">= {'9' * 400}"], "write a comparison and a number above 0"),
        (["--file", "/abs/m.csv"], "write a name or pattern relative to where the program works"),
        (["--file", "**x"], "write a name or pattern relative to where the program works"),
        (["--quality", "acc"], "must have one (group)"),
        (["--metric", "colour"], "is not one of training_epoch_s"),
        (["--epoch", "took", "--epoch-s", "(a)"], "give one of them"),
        (["--epoch-s", r"never (\S+)"], "no printed line matches"),
        ([*READ, "--unit", "s"], "the epochs add up to 6.00\u00a0s in a process of"),
        ([*READ, "--unit", "weeks"], "--unit: must be 'ns', 'us', 'ms', 's', 'min' or 'h' (given: 'weeks')"),
        (["--unit", "ms"], "--unit: is about --epoch-s; add --epoch-s"),
        (["--cumulative"], "--cumulative: is about --epoch-s; add --epoch-s"),
        (["--timeout", "-3"], "prove: --timeout: must be at least 1 (given: -3)"),
        (["--wait-for-quiet", "-1"], "prove: --wait-for-quiet: must be above 0 (given: -1.0)"),
        (["--budget", "0", "--pass", "a b"], "--budget: must be above 0 (given: 0.0); --pass: must match"),
        (["--job", "cores=many"], "--job cores: must be a whole number (given: 'many')"),
        (["--margin", "0.1"], "reports no quality, but --margin needs one"),
        (["--out", "."], "is the working folder itself"),
        (
            ["--workdir", "here", "--file", "log.csv"],
            "all runs start in the same folder and would share the file; write and name it below {run}/",
        ),
        (["--workdir", "commit"], "not in a git repository"),
        (["--container", "none.sif"], "container.image: none.sif: No such file"),
        (["--container", "docker://python:3"], "`apptainer pull image.sif docker://python:3` makes one"),
        (["--profiler", "kineto"], "kineto has no run to record; set --profiled to 1"),
        (["--profiled", "1", "--profiler", "kineto", "--gpus", "2"], "kineto records one process of a program"),
        (["--profiled", "1", "--profiler", "kineto"], "torch's profiler left no trace: the program imports no torch"),
        (["--container", "x.sif", "--profiled", "1"], "for a program with torch set --profiler to kineto"),
    ],
)
def test_a_mistake_is_one_line_and_no_verdict(place, measured, words, said):
    measured()
    result = call(*words)
    assert (status_of(result), said in str(result.exception)) == (3, True), result.exception
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program x", "no-such-program: no such program on your PATH"),
        ("cd sub && sh b.sh", "'cd sub && sh b.sh' needs a shell; use sh -c 'cd sub && sh b.sh'"),
        ("sh a.sh > out.txt", "'sh a.sh > out.txt' needs a shell; use sh -c 'sh a.sh > out.txt'"),
        ("sh a.sh 2>/dev/null", "use sh -c 'sh a.sh 2>/dev/null'"),
        ("sh -c 'true\ntrue'", "contains a line break or an unprintable character; put it into a script, and run that"),
        ("SEED=$HOME sh a.sh", "'SEED=$HOME sh a.sh' needs a shell; use sh -c 'SEED=$HOME sh a.sh'"),
        ("python3 trian.py", "trian.py: no such file"),
        ("./plain.txt", "plain.txt: cannot be executed; allow it (chmod +x ./plain.txt)"),
        ("sh fails.sh", "B (sh fails.sh): exit status 3 (it broke); full output:"),
        ("sh hangs.sh", "did not end within 1 s"),
        ("sh full.sh", "No space left on device"),
        ("python3 asks.py", "it waits for typed input, and there is none: pass the input as arguments or in a file"),
        ("sh 'unclosed", "cannot be split like a shell command"),
    ],
)
def test_a_program_that_does_not_work_is_one_line(place, measured, command, said):
    measured()
    (place / "plain.txt").write_text("text")
    (place / "fails.sh").write_text("echo it broke; exit 3\n")
    (place / "hangs.sh").write_text("sleep 60 & sleep 60\n")
    (place / "full.sh").write_text("cat a.sh > /dev/full\n")
    (place / "asks.py").write_text("input('go on? ')\n")
    result = CliRunner().invoke(app, ["prove", "sh a.sh 1 1", command, "--out", "out", "--timeout", "1"])
    assert (status_of(result), said in str(result.exception)) == (3, True), result.exception
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--claim ''", "empty value"),
        ("--rounds ''", "empty value"),
        ("--json --rounds 3", "must be even and at least 4"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_no_verdict(place, speedproof_here, words, said):
    done = speedproof_here("prove", "true", "true", "--out", "out", *shlex.split(words))
    assert (done.returncode, said in done.stderr) == (3, True), done
    if "--json" in words:
        assert json.loads(done.stdout)["outcome"] == "error"


def test_an_apostrophe_in_the_folders_of_a_proof_is_taken(tmp_path, monkeypatch):
    """Snakemake takes none, and only a profile needs that."""
    work, temporary = tmp_path / "it's mine", tmp_path / "it's temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (work / "a.sh").write_text('sleep 0.$1; cat "$TMPDIR"/* ; echo $1 > "$TMPDIR/of mine"\n')
    words = ["prove", "sh a.sh 4", "sh a.sh 1", "--rounds", "4", "--device", "cpu", "--json"]
    for more, status in ([], 0), (["--profile", "slurm"], 3):
        done = CliRunner().invoke(app, [*words, *more])
        assert status_of(done) == status, done.output
    assert """cannot take "'" in a path""" in json.loads(done.stdout)["message"]


def test_a_name_that_utf8_has_not_is_one_line(place, measured):
    measured()
    os.close(os.open(os.fsencode(place) + b"/caf\xe9.txt", os.O_CREAT))
    assert status_of(result := call(*READ)) == 3
    assert "caf\\xe9.txt: its name is not valid UTF-8; rename it" in str(result.exception)


def test_ctrl_c_while_commands_are_warmed_up_is_an_interruption(place, monkeypatch):
    stopped = Watched(RunEnd("stopped", "received SIGINT", "SIGINT"), Life(0, 1, 0, 1), Reports(place, place))
    monkeypatch.setattr("speedproof.run.proof.warm_up.watch_program", lambda *_, **__: stopped)
    assert call(*READ).exit_code == 130


@pytest.mark.timed
def test_what_copies_of_a_large_folder_take_is_in_the_plan(place, measured, monkeypatch):
    measured()
    took_s = []

    @contextmanager
    def slowly(*_):
        begun_s = time.monotonic()
        time.sleep(0.5)
        took_s.append(time.monotonic() - begun_s)
        yield place

    monkeypatch.setattr("speedproof.run.proof.warm_up.working_folder", slowly)
    told = " ".join(call(*READ).stderr.split())
    found = re.search(r"and about (\S+) s to copy the folder \(--workdir here avoids this\)", told)
    assert found and float(found[1]) == pytest.approx(12 * fmean(took_s), rel=0.1)


def test_a_ratio_that_was_not_measured_is_no_number(place, measured, warmed):
    measured(a=0.0)
    verdict = json.loads(call(*READ, "--json", "--quiet").stdout)
    (candidate,) = verdict["candidates"]
    assert (candidate["ratio"], candidate["low"], candidate["pairs"], verdict["exit_status"]) == (None, None, 0, 2)


def test_a_mistake_that_the_warm_up_finds_leaves_an_earlier_verdict_and_its_page(place, measured):
    measured()
    assert call(*READ).exit_code == 0
    (place / "out/results/report.html").write_text("the page")
    # One is found in the warm-up, the other after it.
    for words in (["--epoch-s", r"never (\S+)"], ["--metric", "training_epoch_s"]):
        mistaken = call(*words)
        assert status_of(mistaken) == 3
        assert "speedproof: out still holds an earlier verdict" in " ".join(mistaken.stderr.split())
        told = CliRunner().invoke(app, ["results", "show", "--from", "out"])
        assert (told.exit_code, told.stdout.startswith("Faster: B (sh a.sh 1 0.9) is 2.00×")) == (0, True), told.output
        assert (place / "out/results/report.html").read_text() == "the page"
    assert "still holds" not in call(*READ).stderr


@pytest.mark.parametrize("damage", ["", '{"outcome": 1}', "[" * 100_000], ids=["empty", "other", "deep"])
def test_a_damaged_verdict_is_replaced(place, measured, warmed, damage):
    measured()
    (place / "out/programs").mkdir(parents=True)
    (place / "out/verdict.json").write_text(damage)
    assert "speedproof: out/verdict.json is damaged; this proof replaces it\n" in call(*READ).stderr
    assert json.loads((place / "out/verdict.json").read_text())["rounds"] == 6


def test_no_verdict_outlives_a_call_that_fails_once_its_warm_up_passed(place, measured, warmed, monkeypatch):
    measured()
    assert call(*READ).exit_code == 0

    def fail(*_):
        raise ConfigError("while it measured")

    monkeypatch.setattr(LocalExecutor, "measure", fail)
    assert "still holds" not in call(*READ).stderr
    told = CliRunner().invoke(app, ["results", "show", "--from", "out"])
    assert (status_of(told), "no verdict yet" in str(told.exception)) == (3, True)
    (place / "results").mkdir()
    (place / "out").rename(place / "results/proof")
    assert "no verdict yet" in str(CliRunner().invoke(app, ["results", "show"]).exception)


def test_a_proof_of_other_commands_is_not_replaced_in_silence(place, measured, warmed):
    measured()
    call(*READ)
    other = CliRunner().invoke(app, ["prove", "sh a.sh 2 0.9", "sh a.sh 3 0.9", *READ, "--out", "out", "--rounds", "6"])
    assert "out holds a proof of other commands; this one replaces it" in other.stderr


def test_a_proof_of_an_earlier_version_is_measured_anew_and_that_is_said(place, measured, warmed):
    """Its runs would count beside the new ones, though other code measured them."""
    measured(b=2.0)
    call(*READ)
    (place / "out/results/experiments").rename(place / "out/results/blocks")
    measured()
    again = call(*READ, "--json")
    assert "out holds a proof from a version before 0.3; this one replaces it" in again.stderr
    assert json.loads(again.stdout)["candidates"][0]["ratio"] == pytest.approx(2.0, rel=1e-4)
    assert not (place / "out/results/blocks").exists()


def test_another_number_of_rounds_is_measured_anew_and_that_is_said(place, measured, warmed):
    """Else who adds rounds until a difference is shown finds one that is not there."""
    measured()
    first = call(*READ)

    def settings():
        return read_settings(place / "out")

    before = settings()
    shutil.rmtree(place / "out/results/experiments")
    again = call(*READ)
    shutil.rmtree(place / "out/results/experiments")
    assert settings() == before and "which this one replaces" not in first.stderr + again.stderr
    fewer = CliRunner().invoke(app, ["prove", *COMMANDS, *READ, "--out", "out", "--rounds", "4"])
    assert "out holds a proof with another number of rounds; this one replaces it. All rounds run again" in " ".join(
        fewer.stderr.split()
    )
    assert settings() != before


def test_variables_that_programs_see_and_rights_of_files_decide(place, measured, warmed, monkeypatch):
    measured()

    def told(*words):
        result = call(*READ, *words)
        shutil.rmtree(place / "out/results/experiments")
        return "warm-up" in result.stderr, read_settings(place / "out")

    monkeypatch.setenv("FOO", "secret 1")
    calls = [told("--pass", "FOO"), told("--pass", "FOO")]
    monkeypatch.setenv("FOO", "secret 2")
    calls.append(told("--pass", "FOO"))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{place}")
    calls.append(told("--pass", "FOO"))
    assert [warm for warm, _ in calls] == [True, False, True, True]
    assert len({settings["sources"]["variables"] for _, settings in calls}) == 3
    assert "secret" not in (place / "out/results/config.json").read_text()
    (place / "a.sh").chmod(0o755)
    assert take_snapshot(place, place / "out").changed == ["a.sh"]


def test_what_a_program_leaves_running_is_said(place, measured):
    measured()
    (place / "leaves.sh").write_text("sleep 61.5 & sh a.sh 1 0.9\n")
    result = CliRunner().invoke(app, ["prove", "sh leaves.sh", "sh a.sh 1 0.9", *READ, "--out", "out", "--rounds", "6"])
    told = " ".join(result.stderr.split())
    assert re.search(
        r"A \(sh leaves\.sh\): \S+ \w+, 3 epochs \(.*?\); it left 1 of its processes running, which were killed", told
    ), told
    assert told.count("of its processes") == 1


def run_elsewhere(folder, monkeypatch, program):
    """Let a workflow be a shell's program; return the error that it ends in."""
    monkeypatch.setattr(ProfileExecutor, "_words", lambda *_: ["sh", "-c", program])
    elsewhere = ProfileExecutor(folder, check_request({"commands": COMMANDS, "profile": "slurm"}, "here"), Status(quiet=True))
    with pytest.raises(SpeedproofError) as error:
        elsewhere.run(folder / "config.json", lambda: None)
    return str(error.value)


def test_why_a_step_failed_is_what_it_left_whatever_is_printed(tmp_path, monkeypatch):
    (tmp_path / "reasons").mkdir()
    (tmp_path / "reasons/1-1.txt").write_text("of an earlier call")
    step = f"{sys.executable} -m speedproof check --config"
    said = f"{step} missing.yaml; {step} other.yaml; {step} missing.yaml; echo 'speedproof: RuleError: of another'; exit 1"
    assert run_elsewhere(tmp_path, monkeypatch, said) == (
        "missing.yaml: no such file; name a file of YAML; other.yaml: no such file; name a file of YAML "
        f"(in {tmp_path}); output of the workflow: {tmp_path}/workflow.log"
    )


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("WorkflowError: no such profile\nShutting down", "WorkflowError: no such profile"),
        ("Locked\n\n", "Locked"),
        ("", "it said nothing"),
    ],
)
def test_before_any_step_the_reason_is_what_snakemake_prints(tmp_path, monkeypatch, printed, reason):
    said = run_elsewhere(tmp_path, monkeypatch, f"printf '{printed}'; exit 1")
    assert said == f"{reason}; output of the workflow: {tmp_path}/workflow.log"


def test_of_several_mistakes_all_are_said(place):
    result = CliRunner().invoke(app, ["prove", "no-such-a", "no-such-b", "--out", "out"])
    assert "no-such-a" in str(result.exception) and "no-such-b" in str(result.exception)


@pytest.mark.parametrize(("again", "ended"), [(0, 0), (1, 0), (2, -9)])
def test_who_asks_again_while_it_ends_is_told_and_at_last_obeyed(again, ended):
    said = []
    with subprocess.Popen(["sleep", "60" if again > 1 else "0.1"]) as workflow:
        wait, asked = workflow.wait, iter(range(again))

        def wait_or_be_interrupted():
            if next(asked, None) is not None:
                raise KeyboardInterrupt
            return wait()

        workflow.wait = wait_or_be_interrupted
        await_end(workflow, said.append)
        assert wait() == ended
    assert "completed runs are kept" in said[0] and len(said) == min(2, again + 1)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_who_ends_prove_alone_ends_what_it_started_as_by_ctrl_c(tmp_path, stop):
    # A child of a child, which takes SIGINT as the workflow's jobs do; and one in a group of its own, which is let be.
    inner = (
        "import sys, time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: open(sys.argv[1], 'w').write('ended in good order')"
    )
    start = f"subprocess.run([sys.executable, '-c', {inner!r}, *sys.argv[1:]])"
    outer = f"import subprocess, sys\ntry: {start}\nexcept KeyboardInterrupt: pass"
    left = tmp_path / "left"
    with (
        subprocess.Popen(["sleep", "60"], start_new_session=True) as apart,
        subprocess.Popen([sys.executable, "-c", outer, left], start_new_session=True) as workflow,
    ):
        with pytest.raises(KeyboardInterrupt), passing_on_stops(workflow.pid):
            while len(psutil.Process(workflow.pid).children()) < 1:
                time.sleep(0.05)
            time.sleep(0.3)
            os.kill(os.getpid(), stop)
            time.sleep(10)
        workflow.wait(20)
        assert (left.read_text(), apart.poll()) == ("ended in good order", None)
        apart.kill()


@pytest.mark.timed  # on a busy machine nsys may lose its own agent, and fail
def test_commands_without_anything_to_trace_are_told_before_they_are_measured(place, measured, needs_nsys):
    measured()
    result = CliRunner().invoke(app, ["prove", "true", "sh -c :", "--out", "out", "--profiled", "1"])
    assert status_of(result) == 3
    said = str(result.exception)
    assert "A (true): its trace is unusable: trace: the trace holds no ranges, kernels or calls" in said
    assert "leave --profiled out" in said


def test_profiled_runs_and_those_of_an_earlier_call_are_no_rounds(place):
    measured = describe(place / "out", {"rounds": 4, "profiled": 1})
    write_claims(measured)

    def leave():
        leave_experiment(
            place / "out", measured.config, lambda variant, number: {"a": 2.0, "b": 1.0}[variant] * NOISE[variant][number]
        )

    leave()
    said = []
    status = Status(quiet=True)
    status.say = said.append
    records = Records(place / "out/results/experiments/experiment-1", follow(measured, status))
    records.look()
    assert said == []  # the runs that lie there may be those of other programs
    shutil.rmtree(place / "out/results/experiments")
    leave()
    records.look()
    assert [text[:14] for text in said] == [f"round {n} of 4: " for n in (1, 2, 3, 4)]


def test_a_run_of_an_earlier_attempt_counts_once_a_later_one_is_written(place):
    measured = describe(place / "out", {"rounds": 4})
    write_claims(measured)
    experiment = place / "out/results/experiments/experiment-1"
    said, status = [], Status(quiet=True)
    status.say = said.append
    records = Records(experiment, follow(measured, status))
    leave_experiment(place / "out", measured.config, lambda variant, number: 1.0)
    (experiment / "experiment.json").unlink()
    runs = sorted((experiment / "runs").iterdir())
    for folder in runs:
        os.utime(folder / "run.json", (1, 1))  # before the plan
    records.look()
    assert said == []
    os.utime(runs[3] / "run.json")
    records.look()
    assert [text[:14] for text in said] == ["round 1 of 4: ", "round 2 of 4: "]


def test_commands_on_several_gpus_start_their_own_ranks(place):
    config = describe(place / "out", {"gpus": 2}).config
    assert (config.completed_variants["a"].gpus, config.completed_variants["a"].ranks, config.experiment_resources().gpus) == (
        2,
        1,
        2,
    )


def test_what_is_linked_and_decides_is_declared(place, measured, warmed):
    measured()
    (place / "labels.csv").write_text("1\n")
    calls = [call(*READ, "--source", "labels.csv", "--json") for _ in range(2)]
    (place / "out/programs/tree/labels.csv").unlink()  # as if it were linked
    settings = read_settings(place / "out")
    (place / "labels.csv").write_text("2\n")
    calls.append(call(*READ, "--source", "labels.csv"))
    assert ["warm-up" in one.stderr for one in calls] == [True, False, True]
    edited = read_settings(place / "out")
    assert settings["sources"].keys() == edited["sources"].keys() and settings != edited
    assert "source: none.csv: no such file or folder" in str(call("--source", "none.csv").exception)


def test_one_command_or_an_unknown_option_is_no_verdict(place):
    assert status_of(CliRunner().invoke(app, ["prove", "sh a.sh", "--colour"])) == 3
    assert status_of(CliRunner().invoke(app, ["prove", "sh a.sh"])) == 3


def test_what_init_writes_is_what_prove_reads(place, measured, warmed):
    measured()
    words = ["init", "sh a.sh 2 0.9", "sh a.sh 1 0.9", *READ, "--rounds", "6", "--claim", ">= 1.5", "--margin", "0.01"]
    (place / "proof.yaml").write_text(CliRunner().invoke(app, words).stdout)
    result = CliRunner().invoke(app, ["prove", "proof.yaml", "--out", "out"])
    assert (result.exit_code, "Claim holds, '>= 1.5'" in result.stdout) == (0, True), result.output
    # What is typed besides lies over the file; what is not typed leaves it as it is.
    over = CliRunner().invoke(app, ["init", "proof.yaml", "--claim", ">= 2.5", "--margin", "0"]).stdout
    kept, laid = yaml.safe_load((place / "proof.yaml").read_text()), yaml.safe_load(over)
    assert laid == {**kept, "claim": ">= 2.5", "margin": 0}


def test_what_a_job_asks_for_is_typed_key_by_key_over_the_file_and_over_what_any_experiment_asks_for(place):
    asked = CliRunner().invoke(app, ["init", *COMMANDS, "--job", "cores=8", "--job", "gpu_model=a100"]).stdout
    (place / "proof.yaml").write_text(asked)
    over = CliRunner().invoke(app, ["init", "proof.yaml", "--job", "runtime_min=10"]).stdout
    job = {"gpus": 0, "gpu_model": "a100", "cores": 8, "memory_mib": 65536, "runtime_min": 240}
    assert [yaml.safe_load(text)["job"] for text in (asked, over)] == [job, {**job, "runtime_min": 10}]
    mistakes = {"cores": "KEY=VALUE", "cores=many": "--job cores", "nodes=2": "--job nodes: unknown key", "gpus=2": "--gpus"}
    assert [said in str(CliRunner().invoke(app, ["init", *COMMANDS, "--job", text]).exception)
            for text, said in mistakes.items()] == [True] * 4  # fmt: skip


CLAIM_OUTCOMES = {
    "holds": "claim holds", "fails": "claim fails", "inconclusive": "inconclusive", "worse quality": "worse quality"
}  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "truth", "said", "band"),
    [
        (">= 1.5", {}, "claim ≥ 1.5×: holds", "from it on"),
        ("<= 1.5", {}, "claim ≤ 1.5×: fails", "up to it"),
        (">= 2.0", {}, "claim ≥ 2×: inconclusive", "from it on"),
        (">= 1.5", {"a": 1.0, "b": 2.0}, "claim ≥ 1.5×: fails", "from it on"),
        (">= 1.5", {"quality_b": 0.8}, "claim ≥ 1.5×: worse quality", "from it on"),
    ],
)
def test_the_page_says_and_draws_what_is_claimed_and_how_to_ask_it_again(place, measured, warmed, claim, truth, said, band):
    measured(**truth)
    call(*READ, "--claim", claim, "--margin", "0.01")
    evidence = read_evidence(place / "out/results")
    first = compose_first_screen(evidence)
    assert (first.badges[0].text, first.sentence[0]) == (said, f"C{said.removeprefix('c')}. ")
    (drawn,) = first.forest.rows[0].bands
    assert (drawn.left > 0, drawn.left + drawn.width < 99.9) == {"from it on": (True, False), "up to it": (False, True)}[band]
    (learns,) = (fact.text for fact in first.facts if fact.name == "Quality")
    assert f", for B ({COMMANDS[1]}): " in learns  # also where A is the faster one
    (again,) = list_commands(evidence)
    words = shlex.split(again.text)
    assert words[2:4] == COMMANDS
    assert ["--claim", claim] == words[words.index("--claim") :][:2]
    assert json.loads((place / "out/verdict.json").read_text())["outcome"] == CLAIM_OUTCOMES[said.rpartition(": ")[2]]


def test_what_a_report_says_to_type_is_what_was_asked(place):
    (place / "x.csv").touch()
    asked = check_request(
        {
            "commands": COMMANDS, "claim": ">= 1.5", "metric": "process_s", "budget_min": 5, "control": True, "timeout_s": 60,
            "quality": "acc", "margin": 0.01, "better": "lower", "file": "log.csv", "epoch_s": "took", "pass": ["A", "B"],
                "drop": ["C_*"],
            "device": "cpu", "gpus": 2, "profiled": 1, "sources": ["x.csv"], "workdir": "commit", "profile": "slurm",
            "job": {"cores": 8},
        },
        "here",
    )  # fmt: skip
    typed = shlex.split(write_call(asked))
    assert typed[:2] == ["speedproof", "prove"]
    written = CliRunner().invoke(app, ["init", *typed[2:]])
    assert yaml.safe_load(written.stdout) == asked.model_dump(mode="json", by_alias=True), written.exception


def test_programs_without_epochs_are_compared_by_their_process(place, measured, monkeypatch):
    measured()
    result = CliRunner().invoke(app, ["prove", "true", "sh -c :", "--out", "out", "--json", "--quiet", "--rounds", "6"])
    verdict = json.loads(result.stdout)
    assert (verdict["metric"], verdict["source"], verdict["outcome"]) == ("process_s", "process", "faster")
    rebuild_report(read_evidence(place / "out/results"), place / "out/results")
    report = (place / "out/results/report.md").read_text()
    assert "**B (sh -c :) runs 2.00× as fast as A (true) on this machine.**" in report
    empty = ["learnt anything", "Work unknown", "Not drawn", "CUDA", "epochs.csv", "| – |", "0 of 0"]
    assert [word for word in empty if word in report] == []  # what commands that tell nothing have not to show
    assert "Quality was not compared; add --quality and --margin." in report
    assert "- **Data**: Read by the commands themselves." in report
    monkeypatch.setattr(Evidence, "tells_quality", False)  # the runs here are an example's, which tells one
    facts = compose_first_screen(read_evidence(place / "out/results")).facts
    assert Fact("Quality", "Not judged: the commands report no quality.") in facts


def test_a_second_call_repeats_no_warm_up_and_names_what_changed(place, measured):
    measured()
    first = call(*READ)
    again = call(*READ)
    assert ("warm-up" in first.stderr, "warm-up" in again.stderr, "changed" in again.stderr) == (True, False, False)
    (place / "a.sh").write_text(EPOCHS + "# edited\n")
    edited = call(*READ)
    assert "new or changed, so everything is measured again: a.sh" in edited.stderr
    assert "warm-up" in edited.stderr
    (place / "a.sh").rename(place / "b.sh")
    assert take_snapshot(place, place / "out").changed == ["a.sh", "b.sh"]


@pytest.mark.parametrize(("claim", "status"), [(">= 1.5", 0), (">= 2.5", 1), (">= 2.0", 2)])
def test_verdict_finds_the_proof_and_ends_as_it_did(place, measured, warmed, claim, status):
    measured()
    proven = CliRunner().invoke(app, ["prove", *COMMANDS, *READ, "--rounds", "6", "--claim", claim, "--json", "--quiet"])
    told = CliRunner().invoke(app, ["results", "show", "--json"])
    assert (proven.exit_code, told.exit_code, json.loads(told.stdout)) == (status, status, json.loads(proven.stdout))
    if status == 0:  # its report is made again without its folder being named
        assert CliRunner().invoke(app, ["results", "report"]).exception is None
        assert (place / "results/proof/results/report.md").is_file()


@pytest.mark.parametrize("where", [".", "below"])
def test_the_results_of_a_proof_answer_as_the_proof_does(place, measured, warmed, monkeypatch, where):
    measured()
    assert (
        CliRunner().invoke(app, ["prove", *COMMANDS, *READ, "--rounds", "6", "--claim", ">= 2.5", "--out", "p"]).exit_code == 1
    )
    (place / "p/results/report.html").touch()
    (place / "below").mkdir(exist_ok=True)
    monkeypatch.chdir(place / where)
    above = "" if where == "." else "../"
    proof, results = (CliRunner().invoke(app, ["results", "show", "--from", above + name]) for name in ("p", "p/results"))
    assert (results.exit_code, results.stdout) == (proof.exit_code, proof.stdout) == (1, proof.stdout)
    assert proof.stdout.startswith("Claim fails") and proof.stdout.endswith(f"Report: {above}p/results/report.html\n")


def test_without_results_verdict_says_what_makes_them(place):
    result = CliRunner().invoke(app, ["results", "show"])
    assert "name the results (--from), or make them" in str(result.exception)


def test_help_has_what_people_type_apart_from_steps_and_examples():
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert text.index("Commands") < text.index("prove") < text.index("Steps of the workflow") < text.index("verdicts")
    assert "Examples:" in CliRunner().invoke(app, ["prove", "--help"]).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], (24, "decided", 30.0)), (["--budget", "2"], (24, "decided", 2.0)), (["--rounds", "8"], (8, None, None))],
)
def test_rounds_go_on_until_decided_within_a_budget_unless_their_number_is_given(place, words, expected):
    request = CliRunner().invoke(app, ["init", *COMMANDS, *words]).stdout
    checked = check_request(yaml.safe_load(request), "here")
    named = {"a": "true", "b": "true"}
    measured = ProofBasis(place / "out", checked, named, Snapshot(), {}).describe(checked.reading("process"), {})
    measurement = measured.config.measurement
    assert (measurement.rounds, measurement.until, measurement.budget_min) == expected


def test_a_profile_is_found_by_name_and_decides_nothing_of_the_proof(place, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "home"))
    assert find_profile("slurm").parts[-2:] == ("slurm", "config.yaml")
    with pytest.raises(ConfigError, match=r"profile: no mine/config\.yaml here"):
        find_profile("mine")
    for folder in (place / "home/snakemake/mine", place / "mine"):  # the nearer one is taken
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(f"jobs: 3\nuse-singularity: true\nexecutor: {folder.parent.name}\n")
    kept = yaml.safe_load((write_profile("mine", place / "out") / "config.yaml").read_text())
    assert kept == {"jobs": 3, "executor": place.name}


def test_where_a_profile_sends_jobs_commands_are_warmed_up_by_the_workflow(place, monkeypatch):
    """Where `prove` is typed, on a cluster's login node, they may not even start."""
    ran = []

    def run_workflow(elsewhere, configuration, look, *targets):
        ran.append(targets)
        if targets:  # as the rule's command does it
            words = ["warm-up", "--config", str(configuration), "--out", str(configuration.parent / targets[0])]
            assert CliRunner().invoke(app, words).exception is None
            return
        config = load_config(configuration)
        leave_experiment(
            configuration.parent, config, lambda variant, number: {"a": 2.0, "b": 1.0}[variant] * NOISE[variant][number]
        )
        look()

    monkeypatch.setattr(ProfileExecutor, "run", run_workflow)
    monkeypatch.setattr(LocalExecutor, "warm_up", None)
    for _ in range(2):  # the second call has it already
        result = call(*READ, "--profile", "slurm")
        assert result.exit_code == 0, result.output
        assert "round 6 of 6" in result.stderr
        shutil.rmtree(place / "out/results/experiments")
    assert ran == [("results/warm-up.json",), (), ()]
    assert "2 epochs" not in result.stderr and "3 epochs" in result.stderr
    values = yaml.safe_load((place / "out/proof.json").read_text())["resources"]["experiment"]
    assert (values["gpus"], values["cores"]) == (1, 16)


def test_fewer_epochs_are_unequal_work_in_the_first_line(place, measured):
    measured()
    (place / "more.sh").write_text("for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo epoch took $1 us acc $2; done\n")
    result = CliRunner().invoke(app, ["prove", COMMANDS[0], "sh more.sh 1 0.9", *READ, "--out", "out", "--rounds", "6"])
    # 3 epochs of 2 s against 12 of 1 s: the process takes twice as long.
    said = " ".join(result.stdout.split())
    head = (
        "Inconclusive: B (sh more.sh 1 0.9) ran 12 epochs and the other 3: it is 2.00× as fast by its average epoch, but "
        "0.500× (0.496–0.504×) over all epochs and 0.500× (0.496–0.504×) as a whole process;"
    )
    found = "B (sh more.sh 1 0.9) measured 2.00× as fast as A (sh a.sh 2 0.9) on this machine, by training epoch time (95 %"
    assert (result.exit_code, said.startswith(head), found in said) == (2, True, True), said
    screen = compose_first_screen(read_evidence(place / "out/results"))
    sentence = "".join(map(str, screen.sentence))
    assert "B (sh more.sh 1 0.9) ran 12 epochs and the other 3: it is 2.00× as fast by its average epoch, but" in sentence
    assert sentence.endswith("as fast as A (sh a.sh 2 0.9) on this machine, by training epoch time.")
    assert screen.badges[0].text == "inconclusive"


@pytest.mark.parametrize(("words", "source"), [([], "reported quality"), (["--margin", "0.5"], "reported quality")])
def test_a_quality_that_programs_print_is_called_reported(place, measured, warmed, words, source):
    measured(quality_b=0.8)
    result = call(*READ, *words, "--json")
    (candidate,) = json.loads(result.stdout)["candidates"]
    # Over six seeds 0.0025 above what was asked for.
    assert (candidate["quality_source"], source in candidate["sentence"]) == ("reported", True), candidate["sentence"]
    assert (candidate["reference_quality"], candidate["candidate_quality"]) == pytest.approx((0.9025, 0.8025))


LEFT = ["--artifact", "left"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--quality-command", "cat result", *LEFT], "--quality-command: lacks {run}"),
        (["--quality-command", "nothing-of-it {run}", *LEFT], "nothing-of-it: no such program on your PATH"),
        (["--quality-command", "sh none.sh {run}", *LEFT], "none.sh: no such file"),
        (["--quality-command", "cat {run}/x", "--quality", "acc", *LEFT], "--quality: must have one (group)"),
        (LEFT, "--artifact: requires --quality-command; add that"),
        (["--quality-command", "cat {run}/x"], "--quality-command also needs --artifact: the files that each run leaves"),
        (["--margin", "0.1"], "--margin: no quality is named; print it (--quality), or measure it (--quality-command)"),
    ],
)
def test_a_mistake_about_what_judges_quality_is_one_line_before_anything_runs(place, measured, words, said):
    measured()
    result = call("--epoch-s", r"took (\S+)", *words)
    assert (status_of(result), said in str(result.exception)) == (3, True), result.exception
    assert "warm-up" not in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["true {run}", "--artifact", "left"], "--quality-command: no line that it printed is a number"),
        (["cat {run}/x", "--artifact", "left"], "--quality-command: exit status 1"),
        (["echo 1 {run}", "--artifact", "*.pt"], "--artifact: it left no *.pt"),
        # What came with the copy is nobody's result.
        (
            ["cat {run}/brought", "--artifact", "brought"],
            "--artifact: brought, which brought matches, was there before the run",
        ),
    ],
)
def test_a_run_without_a_quality_of_its_own_ends_the_warm_up(place, measured, words, said):
    measured()
    (place / "leaves.sh").write_text(f"{EPOCHS}echo 0.5 > left\n")
    (place / "brought").write_text("0.99\n")
    commands = ["sh leaves.sh 2 0.9", "sh leaves.sh 1 0.9"]
    result = CliRunner().invoke(
        app, ["prove", *commands, *READ[:2], "--quality-command", *words, "--out", "out", "--rounds", "6"]
    )
    assert (status_of(result), f"B ({commands[1]}): {said}" in str(result.exception)) == (3, True), result.exception


INVENTS = r"""
echo took 0.0${1}000 s acc 0.99
echo ${2}00$SPEEDPROOF_SEED > result
echo 'echo 0.99' > judge.sh
sleep 0.0$1
"""


@pytest.mark.timed
def test_an_invented_quality_is_reported_and_a_measured_one_withholds_the_speedup(place):
    """B prints what A prints, leaves less, and rewrites the judge in its own copy of the folder."""
    (place / "invents.sh").write_text(INVENTS)
    (place / "judge.sh").write_text("cat $1/result\n")
    commands = ["sh invents.sh 2 0.9", "sh invents.sh 1 0.8"]
    judging = ["--quality-command", "sh judge.sh {run}", "--artifact", "result", "--epoch-s", r"took (\S+)", "--margin", "0.01"]
    asked = ["prove", *commands, *judging, "--rounds", "4", "--device", "cpu", "--json", "--out", "out"]
    result = CliRunner().invoke(app, asked)
    (candidate,) = json.loads(result.stdout)["candidates"]
    assert (candidate["outcome"], candidate["quality_source"]) == ("worse quality", "observed"), result.output
    assert "but the quality is worse: quality 0.8" in candidate["sentence"]
    assert (
        "quality: by 'sh judge.sh {run}' after each timed run, not counted in its time; pinned by checksum: judge.sh"
        in " ".join(result.stderr.split())
    )
    (plan,) = (place / "out").rglob("plan.json")
    assert json.loads(plan.read_text())["quality_files"]["judge.sh"] == sha256_of(place / "judge.sh")
    # Where the shell lies is no reason to keep nothing.
    archiving = ["results", "archive", "--from", "out/results", "--claims", "out/programs/claims.yaml", "--out", "kept"]
    assert CliRunner().invoke(app, archiving).exit_code == 0
    with zipfile.ZipFile("kept/evidence.zip") as archive:
        kept = json.loads(archive.read("experiments/experiment-1/plan.json"))
    assert set(kept["quality_files"]) == {"sh", "judge.sh"}
