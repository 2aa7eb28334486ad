"""The GitHub Action: what its two steps write, and the one comment, on a server that stands in for GitHub."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from speedproof.cli import github_action
from speedproof.cli.github_action import run_step, write_comment
from speedproof.results.gate_result import GatedCommit, GateResult
from tests.workflow.checkout import ROOT

POPEN = subprocess.Popen
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
ERROR = {"schema_version": 1, "outcome": "error", "exit_status": 3, "message": "no\n100 %"}


def state(outcome="passed", status=0, **more):
    commits = {"base": GatedCommit(name="main", sha="a" * 40, value=2.0), "head": GatedCommit(name="HEAD", sha="b" * 40)}
    found = GateResult(
        outcome=outcome, exit_status=status, reason="decided", command="python train.py", **commits, regression=0.03,
        improvement=None, limit=1 / 1.03, ratio=1.001, low=0.99, high=1.01, pairs=4, metric="process_s",
        report="out/report.html",
    )  # fmt: skip
    return found.model_copy(update=more).model_dump(mode="json")


@pytest.fixture
def environ(tmp_path):
    """What GitHub gives to a step of pull request 7."""
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    return {
        **files, "RUNNER_TEMP": str(tmp_path), "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_JOB": "speed test",
        "GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "me/mine", "GITHUB_RUN_ID": "12",
        "INPUT_COMMAND": "python train.py", "INPUT_BASE": "HEAD^1", "INPUT_IMPROVEMENT": "", "INPUT_TOKEN": "t",
    }  # fmt: skip


@pytest.fixture
def gate(monkeypatch):
    """A stand-in for `speedproof gate` that prints what a test states; and how it was called."""
    called = []

    def stand_in(found, status):
        printed = found if isinstance(found, str) else json.dumps(found)

        def start(words, **more):
            called.append((words, more["env"]))
            return POPEN([sys.executable, "-S", "-c", f"print({printed!r}); raise SystemExit({status})"], **more)

        monkeypatch.setattr(github_action.subprocess, "Popen", start)
        return called

    return stand_in


@pytest.mark.parametrize(
    ("found", "status", "inputs", "ended", "annotation"),
    [
        (state(), 0, {}, 0, "::notice title=speedproof::Passed: the head is 1.00× as fast"),
        (state("regression", 1), 1, {}, 1, "::error title=speedproof::Regression: "),
        (state("inconclusive", 2), 2, {}, 0, "::warning title=speedproof::Inconclusive: "),
        (state("inconclusive", 2), 2, {"INPUT_INCONCLUSIVE": "fail"}, 2, "::error title=speedproof::Inconclusive: "),
        (ERROR, 3, {}, 3, "::error title=speedproof::Nothing was decided: no"),
        ("", 1, {}, 3, "::error title=speedproof::Nothing was decided: speedproof gate ended with exit status 1, without"),
    ],
)
def test_the_step_ends_as_the_gate_and_annotates_it(environ, gate, capsys, found, status, inputs, ended, annotation):
    gate(found, status)
    assert run_step({**environ, **inputs}) == ended
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(annotation)
    assert not re.search("%(?!25|0A|0D)", line)


def test_summary_and_outputs_are_written(environ, gate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gate(state(), 0)
    run_step(environ)
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert "**A slowdown of more than 3 % is excluded.** The head is 1.00× as fast as the base (95 %" in summary
    assert [line for line in summary.splitlines() if line.startswith("|")] == [
        "|  | commit | whole process |", "| --- | --- | ---: |",
        "| base | aaaaaaaaaaaa (main) | 2.00 s |", "| head | bbbbbbbbbbbb (HEAD) | – |",
    ]  # fmt: skip
    assert "[Log of this run](https://example.org/me/mine/actions/runs/12)" in summary
    outputs = (tmp_path / "GITHUB_OUTPUT").read_text().splitlines()
    assert outputs == ["outcome=passed", "ratio=1.001", "low=0.99", "high=1.01", f"report={tmp_path}/out/report.html"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            state("regression", 1, ratio=0.842, low=0.823, high=0.863),
            "### \N{CROSS MARK} Speed gate: regression\n\n**The head takes 19 % longer, and at most 3 % is allowed.** "
            "The head is 0.842× as fast as the base (95 % interval 0.823–0.863×, 4 pairs).\n",
        ),
        (
            state("inconclusive", 2, reason="interval", low=0.9),
            "### \N{WARNING SIGN}\N{VARIATION SELECTOR-16} Speed gate: inconclusive\n\n"
            "**A slowdown of more than 3 % is neither shown nor excluded.** The head is 1.00× as fast as the base "
            "(95 % interval 0.900–1.01×, 4 pairs); the limit is 0.971×.",
        ),
        (
            state("inconclusive", 2, reason="interval", improvement=0.05, limit=1.05, high=1.1),
            "**A speedup of at least 5 % is neither shown nor excluded.** The head is 1.00× as fast",
        ),
        (state("inconclusive", 2, reason="check"), "**A check contradicts the ratio.** The head is 1.00× as fast"),
        (state("worse quality", 1), "**The head's quality is worse.** The head is 1.00×"),
        (state("inconclusive", 2, reason="quality"), "**The head's quality is not established.** The head is 1.00×"),
        (
            state(reason="nothing changed", ratio=None, low=None, high=None, pairs=0),
            "\n\nPassed: base and head have the same files, so nothing was measured.\n\nCommand:",
        ),
    ],
)
def test_a_summary_begins_with_what_the_outcome_means(environ, gate, tmp_path, found, said):
    gate(found, found["exit_status"])
    run_step(environ)
    assert said in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()


def test_inputs_are_words_of_the_gate_and_the_runners_files_stay_hidden(environ, gate, tmp_path):
    called = gate(state(), 0)
    run_step({**environ, "INPUT_OPTIONS": r"--epoch-s 'took (\S+) s'", "INPUT_BUILD": "make all"})
    ((words, seen),) = called
    folder = tmp_path / "speedproof-speed-test/results"
    assert words[words.index("gate") + 1 :] == [
        "--base=HEAD^1", "--build=make all", "--epoch-s", r"took (\S+) s", "--out", str(folder), "--json", "--",
        "python train.py",
    ]  # fmt: skip
    assert not {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} & seen.keys()


@pytest.fixture
def hub():
    """A server that keeps comments as GitHub does, 100 to a page; it refuses those without its token."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            page = int(re.search(r"[?&]page=(\d+)", self.path)[1])
            self._answer(server.comments[(page - 1) * 100 : page * 100])

        def do_POST(self):
            server.comments.append({"id": 1000 + len(server.comments), "body": self._read()})
            self._answer({})

        def do_PATCH(self):
            (one,) = (one for one in server.comments if self.path.endswith(f"/repos/me/mine/issues/comments/{one['id']}"))
            one["body"] = self._read()
            self._answer({})

        def _read(self):
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

        def _answer(self, value):
            allowed = self.headers["Authorization"] == "Bearer t"
            self.send_response(200 if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    server.comments = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_there_is_one_comment_which_later_runs_update(environ, gate, hub):
    hub.comments += [{"id": number, "body": "talk"} for number in range(120)]
    environ = {**environ, "GITHUB_API_URL": f"http://127.0.0.1:{hub.server_port}"}
    for outcome, status in (("passed", 0), ("regression", 1)):
        gate(state(outcome, status), status)
        run_step(environ)
        assert write_comment(environ) == 0
    other = {**environ, "INPUT_NAME": "other"}
    run_step(other)
    write_comment(other)
    first, second = (one["body"] for one in hub.comments[120:])
    assert first.startswith("<!-- speedproof gate speed-test -->\n### \N{CROSS MARK} Speed gate: regression")
    assert second.startswith("<!-- speedproof gate other -->\n### \N{CROSS MARK} Speed gate: regression")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"INPUT_OPTIONS": "--epoch-s 'took"}, "options: no closing quotation"),
        ({"INPUT_OPTIONS": "--calibrate"}, "options: --calibrate measures no change"),
        ({"INPUT_INCONCLUSIVE": "Fail"}, "inconclusive: must be warn or fail (given: Fail)"),
    ],
)
def test_an_input_that_cannot_be_understood_is_an_error_with_a_summary(environ, gate, capsys, tmp_path, inputs, said):
    called = gate(state(), 0)
    assert (run_step({**environ, **inputs}), called) == (3, [])
    assert f"::error title=speedproof::Nothing was decided: {said}" in capsys.readouterr().out
    assert "Speed gate: error" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert "outcome=error" in (tmp_path / "GITHUB_OUTPUT").read_text()


def test_a_cancelled_job_ends_the_gate_in_good_order(environ, monkeypatch, capsys):
    """The runner signals the step; only then the gate, which it started, prints that it was interrupted."""
    program = f"""
import os, signal, time
def end(number, frame):
    print({json.dumps({**ERROR, "message": "interrupted"})!r})
    raise SystemExit(3)
signal.signal(signal.SIGTERM, end)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(60)
"""
    monkeypatch.setattr(
        github_action.subprocess, "Popen", lambda words, **more: POPEN([sys.executable, "-S", "-c", program], **more)
    )
    assert run_step(environ) == 3
    assert "Nothing was decided: interrupted" in capsys.readouterr().out


@pytest.mark.parametrize("sender", ["gate", "runner"])
def test_a_job_that_is_cancelled_as_its_gate_starts_says_so(environ, monkeypatch, capsys, sender):
    """The gate is interrupted before it can print an outcome; a signal that comes while it starts reaches it, too."""
    program = "import os, signal, time\n"
    program += "os.kill(os.getppid(), signal.SIGTERM)\n" if sender == "gate" else ""
    program += "time.sleep(60)"

    def start(words, **more):
        gate = POPEN([sys.executable, "-S", "-c", program], **more)
        if sender == "runner":
            os.kill(os.getpid(), signal.SIGTERM)
        return gate

    monkeypatch.setattr(github_action.subprocess, "Popen", start)
    assert run_step(environ) == 3
    assert "::Nothing was decided: interrupted before the first run" in capsys.readouterr().out


def test_a_gate_that_is_killed_is_named_so(environ, monkeypatch, capsys):
    program = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr(
        github_action.subprocess, "Popen", lambda words, **more: POPEN([sys.executable, "-S", "-c", program], **more)
    )
    assert run_step(environ) == 3
    assert "speedproof gate was killed by signal 9, without an outcome" in capsys.readouterr().out


def test_both_steps_start_without_heavy_modules():
    """A job that is cancelled during an import would end with its traceback."""
    program = "import sys, speedproof.cli.github_action; print({'pandas', 'numpy', 'pydantic'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_an_answer_that_breaks_off_is_a_warning(environ, gate, hub, capsys, monkeypatch):
    gate(state(), 0)
    environ = {**environ, "GITHUB_API_URL": f"http://127.0.0.1:{hub.server_port}"}
    run_step(environ)

    def break_off(*_):
        raise http.client.IncompleteRead(b"[", 5)

    monkeypatch.setattr(github_action, "_call", break_off)
    assert write_comment(environ) == 0
    assert "no comment: GitHub did not answer as expected (IncompleteRead(1 bytes read" in capsys.readouterr().out


def test_a_refused_comment_is_a_warning(environ, gate, hub, capsys):
    gate(state(), 0)
    environ = {**environ, "GITHUB_API_URL": f"http://127.0.0.1:{hub.server_port}", "INPUT_TOKEN": "another"}
    run_step(environ)
    assert write_comment(environ) == 0
    assert (
        "::warning title=speedproof::no comment: the token may not write (HTTP Error 403: Forbidden)" in capsys.readouterr().out
    )


def test_without_a_pull_request_there_is_no_comment(environ, gate, hub, tmp_path):
    gate(state(), 0)
    (tmp_path / "event.json").write_text("{}")
    environ = {**environ, "GITHUB_API_URL": f"http://127.0.0.1:{hub.server_port}"}
    run_step(environ)
    assert (write_comment(environ), hub.comments) == (0, [])


def test_the_action_hands_inputs_on_as_variables_and_the_token_to_the_comment_only():
    steps = ACTION["runs"]["steps"]
    handed = [step.get("env", {}) for step in steps]
    for step, variables in zip(steps, handed, strict=True):
        assert "${{" not in step["run"], "a shell would run what an input holds"
        for name, value in variables.items():
            assert value == f"${{{{ inputs.{name.removeprefix('INPUT_').lower()} }}}}"
    assert [("INPUT_TOKEN" in variables) for variables in handed] == [False, False, True]
    names = {name.removeprefix("INPUT_").lower() for variables in handed for name in variables}
    assert names | {"folder"} == ACTION["inputs"].keys()
    written = {"outcome", "ratio", "low", "high", "report"}
    assert {name: f"${{{{ steps.gate.outputs.{name} }}}}" for name in written} == {
        name: output["value"] for name, output in ACTION["outputs"].items()
    }
