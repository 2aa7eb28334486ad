"""What `action.yml` runs: the gate, with what GitHub shows of it; then, as a second process, the comment.

Only the second one has the token, and no code of a pull request runs beside it.
"""

import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from speedproof.util.text import printable

_OPTIONS = ("base", "head", "regression", "improvement", "budget", "build")
# Files by which a step changes later ones and what GitHub shows: hidden from measured programs.
_RUNNER_FILES = {"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"}
_INCONCLUSIVE, _ERROR = 2, 3
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_PER_PAGE, _MOST_PAGES = 100, 50  # of comments
_LONGEST = 60_000  # characters of a comment, of GitHub's 65,536
_TIMEOUT_S = 30
_FORBIDDEN = (401, 403, 404)


class _InputError(Exception):
    """An input that cannot be understood."""


def run_step(environ: Mapping[str, str]) -> int:
    """Run the gate, write summary, outputs and annotation, and return the step's exit status."""
    folder, fails_if_open = _find_folder(environ), environ.get("INPUT_INCONCLUSIVE") == "fail"
    try:
        status, found = _run_gate(_make_words(environ, folder), environ)
    except _InputError as error:
        status, found = _ERROR, {"outcome": "error", "message": str(error)}
    summary, level, sentence = _describe(found, environ)
    folder.mkdir(parents=True, exist_ok=True)
    _summary_file(folder).write_text(summary, encoding="utf-8")
    _append(environ, "GITHUB_STEP_SUMMARY", summary)
    values = {name: found.get(name) for name in ("outcome", "ratio", "low", "high", "report")}
    if values["report"]:  # relative to the step's folder; other steps run in the workspace
        values["report"] = str(Path(values["report"]).absolute())
    _append(environ, "GITHUB_OUTPUT", "".join(f"{name}={_on_one_line(value)}\n" for name, value in values.items()))
    print(f"::{'error' if fails_if_open and level == 'warning' else level} title=speedproof::{_escape(sentence)}")
    return 0 if status == _INCONCLUSIVE and not fails_if_open else status


def _run_gate(words: list[str], environ: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Run the gate, and return its exit status and what it found; a cancelled job's signals are passed on to it."""
    seen = {name: value for name, value in environ.items() if name not in _RUNNER_FILES}
    received: list[int] = []
    started: list[subprocess.Popen[str]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for one in started:
            one.send_signal(number)

    before = {one: signal.signal(one, pass_on) for one in _PASSED_ON}
    try:
        with subprocess.Popen(words, env=seen, stdout=subprocess.PIPE, text=True) as gate:
            started.append(gate)
            for number in received:  # while it started
                gate.send_signal(number)
            printed, _ = gate.communicate()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    try:
        return gate.returncode, json.loads(printed)
    except ValueError:
        return _ERROR, {"outcome": "error", "message": _explain_silence(gate.returncode, bool(received))}


def _explain_silence(status: int, interrupted: bool) -> str:
    """Return why a gate printed no outcome."""
    if interrupted:
        return "interrupted before the first run"
    ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
    return f"speedproof gate {ended}, without an outcome; see the log"


def _make_words(environ: Mapping[str, str], folder: Path) -> list[str]:
    """Return the command line of the gate. `-P`: no module of the checkout stands for one of ours.

    Raises :class:`_InputError`.
    """
    try:
        options = shlex.split(environ.get("INPUT_OPTIONS", ""))
    except ValueError as error:
        raise _InputError(f"options: {str(error).lower()}") from None
    if "--calibrate" in options:
        raise _InputError("options: --calibrate measures no change; run `speedproof gate --calibrate` on the runner itself")
    if (chosen := environ.get("INPUT_INCONCLUSIVE", "")) not in ("", "warn", "fail"):
        raise _InputError(f"inconclusive: must be warn or fail (given: {chosen})")
    given = {name: environ.get(f"INPUT_{name.upper()}") for name in _OPTIONS}
    words = [sys.executable, "-P", "-m", "speedproof", "gate", *(f"--{name}={value}" for name, value in given.items() if value)]
    out = environ.get("INPUT_OUT") or str(folder / "results")
    return [*words, *options, "--out", out, "--json", "--", environ["INPUT_COMMAND"]]


def _find_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ["RUNNER_TEMP"]) / f"speedproof-{_name_gate(environ)}"


def _summary_file(folder: Path) -> Path:
    return folder / "summary.md"


def _name_gate(environ: Mapping[str, str]) -> str:
    """Return what tells this gate from others of a pull request."""
    return re.sub(r"[^\w.-]+", "-", environ.get("INPUT_NAME") or environ.get("GITHUB_JOB") or "gate")


def _describe(found: dict[str, Any], environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the summary, the level of the annotation, and its text."""
    # These take seconds to import: a job that is cancelled meanwhile would end before its gate could start.
    from speedproof.report.gate_summary import OPENINGS, describe_gate, write_error_summary, write_gate_summary
    from speedproof.results.gate_result import GateResult

    if found["outcome"] not in OPENINGS:
        return write_error_summary(found["message"], _link_run(environ)), "error", f"Nothing was decided: {found['message']}"
    result = GateResult.model_validate(found)
    level = {0: "notice", _INCONCLUSIVE: "warning"}.get(result.exit_status, "error")
    return write_gate_summary(result, _link_run(environ)), level, describe_gate(result)


def _link_run(environ: Mapping[str, str]) -> str | None:
    parts = [environ.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None


def _append(environ: Mapping[str, str], name: str, text: str) -> None:
    """Append to the file that GitHub reads; elsewhere there is none."""
    if path := environ.get(name):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)


def _on_one_line(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _escape(text: str) -> str:
    """Return text as a workflow command takes it."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_comment(environ: Mapping[str, str]) -> int:
    """Make or update the one comment of this gate on its pull request. A refusal is a warning: the outcome stands."""
    summary = _summary_file(_find_folder(environ))
    number = _find_pull_request(environ)
    if number is None or not summary.is_file():
        return 0
    marker = f"<!-- speedproof gate {_name_gate(environ)} -->"
    body = f"{marker}\n{summary.read_text(encoding='utf-8')}"[:_LONGEST]
    issues = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/issues"
    try:
        known = _find_comment(environ, f"{issues}/{number}/comments", marker)
        if known is None:
            _call(environ, "POST", f"{issues}/{number}/comments", body)
        else:
            _call(environ, "PATCH", f"{issues}/comments/{known}", body)
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"::warning title=speedproof::{_escape(f'no comment: {_explain_refusal(error)}')}")
    return 0


def _explain_refusal(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError) and error.code in _FORBIDDEN:
        return (
            f"the token may not write ({error}); pull requests of forks never may, others need "
            "`permissions: pull-requests: write`"
        )
    return f"GitHub did not answer as expected ({error or type(error).__name__}); run the job again"


def _find_pull_request(environ: Mapping[str, str]) -> int | None:
    try:
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        return int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find_comment(environ: Mapping[str, str], address: str, marker: str) -> int | None:
    """Return the id of the comment that begins with the marker."""
    for page in range(1, _MOST_PAGES + 1):
        comments = _call(environ, "GET", f"{address}?per_page={_PER_PAGE}&page={page}")
        for one in comments:
            if str(one.get("body", "")).startswith(marker):
                return int(one["id"])
        if len(comments) < _PER_PAGE:
            break
    return None


def _call(environ: Mapping[str, str], method: str, address: str, body: str | None = None) -> Any:
    """Call GitHub's REST interface. Raises OSError if it refuses, ValueError if its answer is not JSON."""
    if not address.startswith(("https://", "http://")):
        raise ValueError(f"{address}: not a web address; see GITHUB_API_URL")
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {environ.get('INPUT_TOKEN', '')}",
        "Content-Type": "application/json",
    }
    data = None if body is None else json.dumps({"body": body}).encode()
    request = urllib.request.Request(address, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        return json.loads(answer.read())


def main(words: list[str]) -> int:
    """Run one of the two steps. A job that is cancelled before the gate starts, or after it, ends without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return write_comment(os.environ) if words == ["comment"] else run_step(os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
