"""`speedproof mcp`, called by the SDK's own client: typed answers, the limits of an agent, progress, cancellation."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import anyio
import psutil
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters

from speedproof.results.experiment import read_experiment
from speedproof.run.mcp_server.agent_limits import make_limits
from speedproof.run.mcp_server.result_folders import ResultFolders
from speedproof.run.proof.attempts import ATTEMPTS_FILE, note_attempt
from speedproof.util.errors import ConfigError
from tests.profilers.test_inputs import chrome_events
from tests.repositories import commit_all, git, make_repository

ROOT = Path(__file__).parents[2]
HANGING = """
import os, subprocess, sys, time
other = subprocess.Popen(["sleep", "600"], start_new_session=True)
open(sys.argv[1] + ".part", "w").write(f"{os.getpid()} {other.pid}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""
MEASURED = ("ratio", "low", "high", "pairs", "terms")  # in an answer as in the file that a call leaves
TOOLS = {"prove", "gate", "trace_analyze", "trace_diff", "doctor", "ledger"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository with programs that sleep, traces, a program that hangs, and a file that poses as speedproof."""
    folder = make_repository(tmp_path_factory.mktemp("agent"), ignored="results\ntraces\n*.pids")
    for name, seconds in {"a": 0.16, "b": 0.08}.items():
        (folder / f"{name}.sh").write_text(f"for n in 1 2 3; do sleep {seconds}; echo epoch; done\n")
    (folder / "hang.py").write_text(HANGING)
    (folder / "speedproof.py").write_text("raise SystemExit('this is not speedproof')\n")
    commit_all(folder, "Slow")
    (folder / "traces").mkdir()
    for name in ("one", "two"):
        (folder / f"traces/{name}.json").write_text(json.dumps({"traceEvents": chrome_events()}))
    (folder.parent / "secret.json").write_text(json.dumps({"traceEvents": chrome_events()}))
    (folder / "traces/link.json").symlink_to(folder.parent / "secret.json")
    lay_out_ledger(folder.parent / "ledger")
    return folder


def lay_out_ledger(folder):
    """Copy two of the shipped entries with their records: all take seconds to be judged."""
    shutil.copytree(ROOT / "ledger/programs", folder / "programs")
    for name in ("numpy_einsum", "torch_batched_dot"):
        shutil.copyfile(ROOT / f"ledger/{name}.yaml", folder / f"{name}.yaml")
        for record in ROOT.glob(f"ledger/records/*-{name}"):
            shutil.copytree(record, folder / "records" / record.name)


@contextmanager
def serving(project, budget):
    """Start a server, and a client of it; yield how to call its tools."""
    hung = project.parent / "hung.pids"
    words = [
        "mcp",
        "--project",
        project,
        "--folder",
        "traces",
        "--ledger",
        project.parent / "ledger",
        "--budget",
        budget,
        "--epoch",
        "epoch",
    ]
    for command in ("A=sh a.sh", "B=sh b.sh", "slow=sh ./a.sh", f"hangs={sys.executable} hang.py {hung}"):
        words += ["--command", command]
    temporary = project.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {"SPEEDPROOF_LOCKS": os.environ["SPEEDPROOF_LOCKS"], "TMPDIR": str(temporary)}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "speedproof", *map(str, words)], env=environment, cwd=project.parent
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:

        def call(tool, progress_callback=None, **arguments):
            return portal.call(partial(client.call_tool, tool, arguments, progress_callback=progress_callback))

        yield SimpleNamespace(call=call, portal=portal, client=client, hung=hung, temporary=temporary)


@pytest.fixture(scope="module")
def server(project):
    with serving(project, "10") as found:
        yield found


def refuse(server, tool, **arguments):
    """Call a tool that refuses; return its one line."""
    result = server.call(tool, **arguments)
    assert result.is_error
    return result.content[0].text.removeprefix(f"Error executing tool {tool}: ")


def answer(server, tool, **arguments):
    result = server.call(tool, **arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


def pick(found, *names):
    return {name: found[name] for name in names}


def wait_for(path):
    while not path.exists():
        time.sleep(0.05)
    return [int(number) for number in path.read_text().split()]


def wait_until_gone(numbers):
    while any(psutil.pid_exists(number) for number in numbers):
        time.sleep(0.05)


def test_each_tool_states_what_it_takes_and_returns(server):
    tools = {tool.name: tool for tool in server.portal.call(server.client.list_tools).tools}
    assert tools.keys() == TOOLS
    for tool in tools.values():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert {"minutes_spent", "minutes_left"} < tool.output_schema["properties"].keys()
    assert tools["prove"].input_schema["properties"]["a"]["enum"] == ["A", "B", "slow", "hangs"]
    assert {"outcome", "ratio", "low", "high", "pairs", "contradictions", "to_decide"} < tools["prove"].output_schema[
        "properties"
    ].keys()


def cancel_after_a_round(server):
    """Prove A against B until a round is over."""

    async def cancel():
        async with anyio.create_task_group() as tasks:

            async def note(_seconds, _total, message):
                if "round 1 of" in message and "×" in message:
                    tasks.cancel_scope.cancel()

            await server.client.call_tool("prove", {"a": "A", "b": "B"}, progress_callback=note)

    server.portal.call(cancel)


def test_a_proof_is_resumed_and_has_a_typed_answer_and_progress_and_what_was_seen_before_a_cancellation_counts(server, project):
    cancel_after_a_round(server)
    (cancelled,) = (project / "results/mcp").glob("*-prove-A-B")
    seen = []

    async def note(seconds, _total, message):
        seen.append((seconds, message))

    result = server.call("prove", a="A", b="B", claim=">= 1.01", progress_callback=note)
    found = result.structured_content
    assert not result.is_error, result.content[0].text
    report = Path(found["report"])
    assert report.is_file()
    assert report.parents[1] == cancelled
    verdict = json.loads((cancelled / "verdict.json").read_text())
    assert pick(found, "outcome", *MEASURED) == pick(verdict["candidates"][0], "outcome", *MEASURED)
    assert (found["metric"], found["a"]["name"], found["attempt"]) == ("training_epoch_s", "A", 1)
    assert found["ratio"] > 1  # sleeps of 160 and 80 ms, on however busy a machine
    assert found["quality"] is None
    assert "a.sh" in Path(found["checksums"]).read_text()
    assert 0 < found["minutes_spent"] <= 10 - found["minutes_left"] + 0.02
    assert any("round 2" in message for _, message in seen)
    assert all(before < after for (before, _), (after, _) in pairwise(seen))
    assert not list((cancelled / "programs/tree").glob("results/mcp"))
    cancel_after_a_round(server)
    answer(server, "ledger", entry="numpy_einsum")  # waits until the cancelled call has ended
    # A third proof, as if it had begun later: the second was seen, though it was cancelled.
    third = shutil.copytree(cancelled, cancelled.with_name("900-third"))
    (third / ATTEMPTS_FILE).unlink()
    (experiment,) = (third / "results/experiments").iterdir()
    first_run = experiment / "runs" / read_experiment(experiment).runs[0] / "run.json"
    first_run.write_text(json.dumps(json.loads(first_run.read_text()) | {"started": "2026-11-23T00:00:00+00:00"}))
    assert note_attempt(third, third / "results", ["sh a.sh", "sh b.sh"]) == 3


def test_commits_are_gated(server, project):
    base = git(project, "rev-parse", "HEAD")
    (project / "b.sh").write_text("for n in 1 2 3; do sleep 0.24; echo epoch; done\n")
    commit_all(project, "Slower")
    found = answer(server, "gate", base="HEAD~1", head="main", command="B", regression="20%")
    git(project, "reset", "--quiet", "--hard", base)
    gated = json.loads((Path(found["report"]).parents[2] / "gate.json").read_text())
    assert pick(found, "outcome", "reason", *MEASURED) == pick(gated, "outcome", "reason", *MEASURED)
    assert (found["base"]["sha"], found["regression"]) == (base, 0.2)
    assert found["ratio"] < 1  # sleeps of 80 and 240 ms


def test_traces_are_analyzed_and_compared(server, project):
    found = answer(server, "trace_analyze", file="one.json")
    assert (found["profiler"], found["found"]["unit"], len(found["iterations"])) == ("kineto", "step", 3)
    assert "waiting for data" in {gap["cause"] for gap in found["idle_gaps"]}
    assert Path(found["report"]).is_file()
    different = answer(server, "trace_diff", a="one.json", b=str(project / "traces/two.json"))
    assert different["total_s"] == 0
    assert different["a_s"] == different["b_s"] > 0


def test_the_ledger_is_read_and_the_machine_is_checked(server, project):
    (entry,) = answer(server, "ledger", entry="numpy_einsum")["entries"]
    assert (entry["id"], entry["outcome"]) == ("numpy_einsum", "exceeded")
    names = [path.stem for path in sorted((project.parent / "ledger").glob("*.yaml"))]
    assert [one["id"] for one in answer(server, "ledger")["entries"]] == names
    assert {one["subject"] for one in answer(server, "doctor")["findings"]} > {"GPU", "cores"}


@pytest.mark.parametrize(
    "name", ["../../secret.json", "link.json", "/etc/passwd", ".", "nowhere.json", "one.json\0", "x" * 4000]
)
def test_a_file_outside_of_the_folders_is_refused(server, name):
    text = refuse(server, "trace_analyze", file=name)
    assert "no such trace in the folders that the server allows" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("prove", {"a": "A", "b": "rm -rf /"}, "no such command; the server allows A, B, slow, hangs"),
        ("prove", {"a": "A", "b": "B", "claim": "--rounds=1"}, "--claim"),
        ("prove", {"a": "A", "b": "B", "rounds": 1}, "prove: rounds: unknown key"),
        ("prove", {"a": "A", "b": "B", "line\nbreak" * 1000: 1}, "unknown key"),
        ("prove", {"a": "A"}, "prove: b: is missing"),
        ("prove", {"a": "A", "b": ["B"]}, "prove: b: must be a text (given: ['B'])"),
        ("prove", {"a": "A", "b": "B", "minutes": -1}, "prove: minutes: must be above 0 (given: -1)"),
        ("trace_analyze", {"file": "x" * 5000}, "trace_analyze: file: must have at most 4096 characters"),
        ("gate", {"base": "--output=x", "head": "HEAD", "command": "A"}, "not the name of a commit"),
        ("gate", {"base": "nowhere", "head": "HEAD", "command": "A"}, "nowhere"),
        ("gate", {"base": "main", "head": "HEAD", "command": "sh a.sh"}, "no such command"),
        ("ledger", {"entry": "../pyproject"}, "no such entry"),
    ],
)
def test_what_a_person_did_not_allow_is_refused(server, tool, arguments, said):
    text = refuse(server, tool, **arguments)
    assert said in text
    assert len(text.splitlines()) == 1
    assert len(text) < 1000


def test_a_cancelled_call_leaves_no_process(server):
    async def cancel_once_it_hangs():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.client.call_tool, "prove", {"a": "hangs", "b": "A"})
            numbers = await anyio.to_thread.run_sync(wait_for, server.hung)
            tasks.cancel_scope.cancel()
        return numbers

    wait_until_gone(server.portal.call(cancel_once_it_hangs))
    assert answer(server, "ledger", entry="numpy_einsum")["entries"]  # waits until the cancelled call has ended
    assert list(server.temporary.glob("speedproof*")) == []


def test_minutes_that_are_spent_end_a_program_that_hangs_and_refuse_further_calls(project):
    for budget in ("0.1", "0.5", "2"):  # a busy machine may take more than the first to come to the program
        with serving(project, budget) as server:
            server.hung.unlink(missing_ok=True)
            assert f"ended after {budget} minutes" in refuse(server, "prove", a="hangs", b="A", minutes=5)
            text = refuse(server, "doctor")
        if server.hung.exists():
            break
    wait_until_gone(wait_for(server.hung))
    assert text == f"budget spent: 0.0 of {budget} minutes are left; ask a person for more"


def fail_in(folders, title, *asked):
    """Make a call that leaves a file and fails; return its folder."""
    with suppress(ConfigError), folders.opened(title, *asked) as folder:
        (folder / "epochs.csv").write_text("1\n")
        raise ConfigError("it fails")
    return folder


def test_an_interrupted_call_is_resumed_and_each_other_has_a_folder_of_its_own(tmp_path):
    for name in ("3d-model", "notes", "007-prove-a-trace"):
        (tmp_path / name).mkdir()
    folders = ResultFolders(tmp_path)
    first = fail_in(folders, "prove-a-b-c", "a", "b-c")
    assert first.name == "008-prove-a-b-c"
    with folders.opened("prove-a-b-c", "a-b", "c") as other:
        assert other.name == "009-prove-a-b-c"
    with folders.opened("prove-a-b-c", "a", "b-c") as resumed:
        assert resumed == first
    with folders.opened("prove-a-b-c", "a", "b-c") as further:
        assert further.name == "010-prove-a-b-c"
    with ResultFolders(tmp_path).opened("trace") as another:
        assert another.name == "011-trace"


@pytest.mark.parametrize(
    "edit",
    [
        lambda folder: (folder / "epochs.csv").write_text("2\n"),
        lambda folder: (folder / "run.json").touch(),
        lambda folder: (folder / "epochs.csv").unlink(),
    ],
)
def test_an_interrupted_call_that_somebody_edited_is_not_resumed(tmp_path, edit):
    folders = ResultFolders(tmp_path / "out")
    first = fail_in(folders, "gate-a", "main", "HEAD")
    time.sleep(0.02)  # the clock of files has steps
    edit(first)
    with folders.opened("gate-a", "main", "HEAD") as second:
        assert second != first


def test_a_folder_is_a_trace_only_without_links_and_relative_paths_start_in_the_project_too(tmp_path):
    (tmp_path / "traces/logs").mkdir(parents=True)
    (tmp_path / "traces/one.json").touch()
    (tmp_path / "other").mkdir()
    limits = make_limits(["A=true"], {}, tmp_path, [Path("traces")], Path("out"), Path("ledger"))
    for name in ("one.json", "traces/one.json", "logs", "traces/logs"):
        assert limits.find_trace(name) == tmp_path / "traces" / name.removeprefix("traces/")
    (tmp_path / "traces/logs/link").symlink_to(tmp_path / "other")
    for name in ("logs", "traces/logs", "traces", "other", "."):
        with pytest.raises(ConfigError, match="no such trace"):
            limits.find_trace(name)


def test_without_the_extra_one_line_names_it(monkeypatch, speedproof_here):
    monkeypatch.delitem(sys.modules, "speedproof.run.mcp_server.tool_server", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.setitem(sys.modules, name, None)
    ended = speedproof_here("mcp", "--command", "A=true")
    assert (ended.returncode, ended.stdout) == (3, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("speedproof: mcp: the package mcp is missing; ")
    assert line.endswith("-m pip install '.[mcp]'")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--command", "python train.py"], "write NAME=COMMAND"),
        (["--command", "A=true", "--command", "A=false"], "given twice"),
        (["--command", "A=true", "--epoch", "("], "mcp: command A: --epoch"),
        (["--command", "A=true", "--project", "nowhere"], "no such folder"),
        (["--command", "A=true", "--folder", "nowhere"], "no such folder"),
        ([], "--command"),
    ],
)
def test_a_mistake_of_the_person_who_starts_it_is_one_line(tmp_path, monkeypatch, speedproof_here, words, said):
    monkeypatch.chdir(tmp_path)
    ended = speedproof_here("mcp", *words)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (3, "", 1)
    assert said in ended.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_whose_client_is_still_there(tmp_path, stop):
    command = [sys.executable, "-m", "speedproof", "mcp", "--command", "A=true"]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        server.stdin.write(f"{json.dumps(hello)}\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(stop)
        assert server.wait() == 128 + stop
