"""A proof in this process: what it starts and imports, what it prints, how it ends when it is stopped or fails."""

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run import locks
from speedproof.run.proof import proof
from speedproof.run.proof.executor import ENDING, LocalExecutor
from speedproof.run.proof.live_status import EVERY_S, Status
from speedproof.run.proof.request import check_request
from speedproof.util.child_processes import Patience, StoppedError, answering_stops, raising_when_stopped
from speedproof.util.errors import BusyError, ConfigError, SpeedproofError

# Counts what a proof starts, by the words of each command, while Snakemake cannot be imported.
COUNTING = """
import runpy, sys
started = []
sys.addaudithook(lambda event, given: started.append(list(map(str, given[1]))) if event == "subprocess.Popen" else None)
sys.modules["snakemake"] = None
try:
    runpy.run_module("speedproof", run_name="__main__", alter_sys=True)
finally:
    with open("started.txt", "w") as file:
        file.write(repr([sys.executable, started]))
"""


@pytest.mark.timed  # on a busy machine the warm-up may be repeated, with two guardians more
def test_without_snakemake_a_proof_starts_a_guardian_for_each_run_and_leaves_modules_of_the_folder_to_programs(tmp_path):
    for name in ("queue", "yaml", "html", "json", "typing_extensions"):
        (tmp_path / f"{name}.py").write_text("open(__file__ + '.ran', 'w')\nraise ImportError('of the working folder')\n")
    (tmp_path / "own.py").write_text("print('own module')\n")
    (tmp_path / "a.py").write_text("import own\n")
    command = f"{sys.executable} a.py"
    words = [sys.executable, "-c", COUNTING, "prove", command, command, "--rounds", "4", "--out", "out", "--json"]
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True)
    assert done.returncode in (0, 1, 2), done.stderr  # a busy machine decides which
    python, started = ast.literal_eval((tmp_path / "started.txt").read_text())
    ours = [words for words in started if words[0] == python]
    guardians = [words for words in ours if "guardian." in " ".join(words)]
    assert len(guardians) == 2 + 8  # warm-up and runs
    assert [words[1] for words in ours if words not in guardians] == ["-c"]  # asks the programs' Python for its packages
    assert sorted(path.name for path in (tmp_path / "out/programs").iterdir()) == ["claims.yaml", "tree", "tree.sha256"]
    assert (tmp_path / "out/results/report.html").is_file() and not (tmp_path / "out/proof.json").exists()
    assert list(tmp_path.glob("*.ran")) == []
    logs = list((tmp_path / "out/results/experiments/experiment-1/runs").glob("*/log.txt"))
    assert {path.read_text() for path in logs} == {"own module\n"} and len(logs) == 8


def test_no_other_proof_comes_between_the_warm_up_and_the_rounds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "_PATIENCE_S", 0)

    def come_between(*_):
        with pytest.raises(BusyError), locks.holding_devices("cpu", 1):
            pass
        raise ConfigError("the plan was reached")

    monkeypatch.setattr(proof, "_describe_plan", come_between)
    result = CliRunner().invoke(app, ["prove", "sleep 0.02", "sleep 0.01", "--device", "cpu", "--out", "out"])
    assert str(result.exception) == "the plan was reached"
    with locks.holding_devices("cpu", 1):  # it is free again
        pass


@pytest.mark.dear
def test_a_proof_that_is_stopped_keeps_whole_runs_ends_its_program_and_goes_on(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.sh").write_text("sleep 0.4567\n")
    words = [
        sys.executable,
        "-m",
        "speedproof",
        "prove",
        "sh a.sh",
        "sleep 0.2",
        "--rounds",
        "4",
        "--out",
        str(tmp_path / "out"),
    ]
    runs = tmp_path / "out/results/experiments/experiment-1/runs"
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as proof:
        while len(list(runs.glob("*/run.json"))) < 3:
            assert proof.poll() is None
            time.sleep(0.02)
        proof.send_signal(signal.SIGTERM)
        said = proof.communicate()[1].splitlines()
    assert proof.returncode == 3
    assert said[-2:] == [
        "speedproof: stopping; completed runs are kept",
        "speedproof: interrupted; completed runs are kept: run the same command to resume",
    ]
    assert [one for one in psutil.process_iter(["cmdline"]) if "0.4567" in (one.info["cmdline"] or [])] == []
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    assert "warm-up" not in done.stderr
    assert len(json.loads((tmp_path / "out/results/experiments/experiment-1/experiment.json").read_text())["kept"]) >= 3
    # A third call measures nothing, and finds the same.
    before = (tmp_path / "out/results/experiments/experiment-1/experiment.json").read_bytes()
    again = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert (again.stdout, again.returncode) == (done.stdout, done.returncode)
    assert (tmp_path / "out/results/experiments/experiment-1/experiment.json").read_bytes() == before


def test_further_stop_signals_are_answered_and_at_last_obeyed():
    said = []
    with answering_stops(Patience(ENDING, said.append)):
        with pytest.raises(StoppedError, match="a further signal"), raising_when_stopped():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
            except StoppedError:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)  # waits for an orderly end
                assert said == list(ENDING)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
        assert said == list(ENDING)


@pytest.mark.parametrize("error", [RecursionError("too deep"), KeyError("colour"), MemoryError(), ArithmeticError()])
def test_an_error_that_nobody_foresaw_is_one_line_and_no_verdict(place, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(LocalExecutor, "measure", fail)
    result = CliRunner().invoke(app, ["prove", "true", "sh -c :", "--out", "out", "--json", "--rounds", "4"])
    assert getattr(result.exception, "exit_code", None) == 3
    said = str(result.exception)
    assert said.startswith(f"unexpected {type(error).__name__}: ") and "out/error.txt" in said and "\n" not in said
    assert "raise error" in (place / "out/error.txt").read_text()
    told = json.loads(result.stdout)
    assert (told["outcome"], told["exit_status"], told["message"]) == ("error", 3, said)


def test_an_error_that_nobody_foresaw_in_verdict_is_no_verdict(place, monkeypatch):
    def fail(_):
        raise RecursionError("too deep")

    monkeypatch.setattr("speedproof.run.proof.find.find_results", fail)
    result = CliRunner().invoke(app, ["results", "show"])
    assert (getattr(result.exception, "exit_code", None), str(result.exception)[:34]) == (
        3,
        "unexpected RecursionError: too dee",
    )


@pytest.mark.parametrize("mark", ["[" * 100_000, '{"mark": "epoch-begins", "at_s": ' + "9" * 400 + "}"], ids=["deep", "large"])
def test_marks_of_absurd_depth_or_size_are_no_verdict(place, mark):
    (place / "marks.txt").write_text(f"{mark}\n")
    (place / "b.sh").write_text('cp marks.txt "$SPEEDPROOF_RUN/marks.jsonl"\n')
    result = CliRunner().invoke(app, ["prove", "sh b.sh", "sh b.sh", "--out", "out", "--rounds", "4"])
    assert getattr(result.exception, "exit_code", None) == 3
    assert "marks.jsonl, line 1: not a mark" in str(result.exception)


class Clock:
    """Time as a test says it."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self):
        return True


def work(status, clock, seconds):
    """Let time pass as the thread of `status` does, which looks and sleeps as long as it was told; return when it printed."""
    until_s, printed_s = clock.now_s + seconds, []
    while clock.now_s < until_s:
        before = status._stream.tell()
        wait_s = status.look()
        printed_s += [clock.now_s] if status._stream.tell() > before else []
        clock.now_s += wait_s
    return printed_s


def test_something_is_printed_every_two_seconds_and_not_more_often():
    clock, stream = Clock(), io.StringIO()
    status = Status(stream=stream, clock=clock)
    status.go_on_with("warm-up: A running")
    printed_s = work(status, clock, 60)
    gaps_s = [after - before for before, after in pairwise([0.0, *printed_s, 60.0])]
    assert max(gaps_s) <= 2 and min(gaps_s[:-1]) > 1.5
    assert stream.getvalue().splitlines()[0] == "speedproof: warm-up: A running, 2 s"
    status.say("round 1 of 4")  # what was just printed is enough for a while
    assert status.look() == pytest.approx(EVERY_S) and stream.getvalue().endswith("round 1 of 4\n")


def test_on_a_terminal_one_line_is_rewritten_and_goes():
    clock, stream = Clock(), Terminal()
    status = Status(stream=stream, clock=clock)
    status.go_on_with(lambda seconds: f"round 3 of 8: A running, {seconds:.0f} s; about {40 - seconds:.0f} s left")
    work(status, clock, 10)
    assert "\n" not in stream.getvalue()
    assert "\r\x1b[Kspeedproof: round 3 of 8: A running, 4 s; about 36 s left" in stream.getvalue()
    status.say("round 3 of 8: done")
    assert stream.getvalue().endswith("\r\x1b[Kspeedproof: round 3 of 8: done\n")
    work(status, clock, 4)
    status.pause()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_what_is_quiet_prints_nothing():
    stream = io.StringIO()
    with Status(quiet=True, stream=stream) as status:
        status.say("a sentence")
        status.go_on_with("a run")
    assert stream.getvalue() == ""


def test_snakemake_is_started_without_the_working_folder_among_its_modules(tmp_path):
    from speedproof.run.proof.snakemake import ProfileExecutor

    elsewhere = ProfileExecutor(
        tmp_path, check_request({"commands": ["a", "b"], "profile": "slurm"}, "here"), Status(quiet=True)
    )
    assert elsewhere._words(tmp_path / "proof.json")[1:4] == ["-P", "-m", "snakemake"]


def test_a_killed_snakemake_is_named_and_not_the_last_line_of_its_output(tmp_path, monkeypatch):
    from speedproof.run.proof.snakemake import ProfileExecutor

    request = check_request({"commands": ["a", "b"], "profile": "slurm"}, "here")
    executor = ProfileExecutor(tmp_path, request, Status(quiet=True))
    monkeypatch.setattr(executor, "_words", lambda _: ["sh", "-c", "echo No documented number to judge.; kill -9 $$"])
    with pytest.raises(SpeedproofError, match=r"^the workflow was killed \(SIGKILL\); run the same command again"):
        executor.run(tmp_path / "proof.json", lambda: None)


TRACED = """
import os, time

if os.environ.get("SPEEDPROOF_TORCH_TRACES"):  # the timed runs need no torch here
    import torch
    from torch.profiler import record_function

    for epoch in range(3):
        with record_function("epoch"):
            torch.ones(1000).sum()
time.sleep(0.4)
"""


@pytest.mark.timed
def test_timed_runs_and_the_other_trace_count_though_a_command_fails_under_the_profiler(place, monkeypatch):
    monkeypatch.setattr("speedproof.run.proof.warm_up.try_profiler", lambda *_, **__: None)  # it ended well there
    Path("traced.py").write_text(TRACED)
    commands = [f"{sys.executable} traced.py", "sleep 0.1"]
    options = ["--metric", "process_s", "--profiled", "1", "--profiler", "kineto", "--rounds", "4", "--device", "cpu", "--json"]
    result = CliRunner().invoke(app, ["prove", *commands, *options, "--out", "out"])
    assert result.exit_code == 0, result.output
    verdict = json.loads(result.stdout)
    assert verdict["candidates"][0]["outcome"] == "faster"
    said = " ".join(result.stderr.split())
    lost = re.search(r"speedproof: (no trace of B: .*?); the timed runs are compared without it", said)
    name = re.search(r"(\d\d-b-profiled): ", lost[1])[1]
    assert verdict["why"] == (
        "The trace covers the CPU only; see below where its time goes. "
        f"No trace: {name} failed under the profiler; see log.txt of this run."
    )
    assert Path(re.search(r"see (\S+log\.txt)", lost[1])[1]).exists()
    report = Path("out/results/report.md").read_text(encoding="utf-8")
    assert f"experiment-1: {name} failed under the profiler and left no trace" in report
    again = CliRunner().invoke(app, ["prove", *commands, *options, "--out", "out"])  # another try may give one
    assert "no trace of B: " in " ".join(again.stderr.split())
    assert json.loads(again.stdout)["candidates"] == verdict["candidates"]
