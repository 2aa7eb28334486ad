"""Which of the caller's variables commands see, which are named as hidden, and which have everything measured again."""

import json
import os
import sys

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.model import Variant
from speedproof.run.caches import CACHE_VARIABLES
from speedproof.run.program_variables import VOLATILE_VARIABLES, deciding_variables, inherited_variables, passed_variables
from speedproof.run.proof.executor import LocalExecutor
from speedproof.run.proof.left_files import take_snapshot
from speedproof.run.proof.request import check_request, read_request, write_request
from speedproof.run.proof.typed_call import write_call
from speedproof.run.proof.warm_up import warm_up
from speedproof.run.proof.workspace import ProofBasis

PRINTING = "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))"
# What each run has of its own: marks, working folder, compile cache.
OURS = ("SPEEDPROOF_", "PYTHONPATH", "PWD", "TRITON_CACHE_DIR")


@pytest.fixture
def printing(tmp_path, monkeypatch):
    """A folder with a program that prints what it sees, and its command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show.py").write_text(PRINTING)
    return f"{sys.executable} show.py"


@pytest.fixture
def unmeasured(monkeypatch):
    """Have a proof end when its warm-up is done."""

    def refuse(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalExecutor, "measure", refuse)


def prove(command, *words):
    return CliRunner().invoke(app, ["prove", command, command, "--out", "out", "--rounds", "4", "--device", "cpu", *words])


def said(result):
    return " ".join(result.stderr.split())


def seen_in(log_file):
    return json.loads(log_file.read_text())


def test_runs_and_warm_ups_see_variables_alike_and_no_secret_and_records_hold_their_names_alone(
    printing, tmp_path, monkeypatch
):
    given = {
        "USE_FUSED": "of its own",
        "SHLVL": "7",
        "HF_TOKEN": "hf_1",
        "HTTP_PROXY": "http://me:word@proxy",
        "PWD": str(tmp_path),
    }
    for name, value in {**given, "SPEEDPROOF_MINE": "1", "NSYS_X": "1", "BYTES": os.fsdecode(b"\xff")}.items():
        monkeypatch.setenv(name, value)
    result = prove(printing)
    assert result.exit_code in (0, 1, 2), result.output
    runs = sorted(tmp_path.glob("out/results/experiments/experiment-1/runs/*/log.txt"))
    assert len(runs) == 8
    warm = {name: value for name, value in seen_in(tmp_path / "out/warm-up/a.txt")[1].items() if not name.startswith(OURS)}
    for place, seen in map(seen_in, runs):
        assert {name: seen.get(name) for name in given} == {
            **given, "HF_TOKEN": None, "HTTP_PROXY": None, "PWD": place,
        }  # fmt: skip
        assert not {"SPEEDPROOF_MINE", "SPEEDPROOF_COMMIT", "NSYS_X"} & seen.keys() and "BYTES" in seen
        assert {name: value for name, value in seen.items() if not name.startswith(OURS)} == warm
    assert said(result).count("HF_TOKEN") == 1
    assert "because their names look like secrets: HF_TOKEN, HTTP_PROXY" in said(result)
    assert said(result).index("HF_TOKEN") < said(result).index("plan:")
    names = json.loads(runs[0].with_name("run.json").read_text())["techniques"]["variables"]
    assert "USE_FUSED" in names and not {"HF_TOKEN", "SHLVL", "PWD"} & {*names}
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "log.txt"]
    kept = [path for path in written if path.parent.name != "warm-up"]  # which hold what the program printed
    assert [path.name for path in kept if b"of its own" in path.read_bytes()] == []


def test_a_changed_variable_is_named_and_all_is_measured_anew(printing, unmeasured, monkeypatch):
    monkeypatch.setenv("USE_FUSED", "1")

    def tell():
        told = said(prove(printing))
        return "measured again: variable USE_FUSED speedproof" in told, "warm-up: one run of each" in told

    calls = [tell(), tell()]
    monkeypatch.setenv("SHLVL", "99")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/9")
    calls.append(tell())
    for value in ("0", None):
        monkeypatch.setenv("USE_FUSED", value) if value else monkeypatch.delenv("USE_FUSED")
        calls.append(tell())
    assert calls == [(False, True), (False, False), (False, False), (True, True), (True, True)]


def test_patterns_let_through_and_hide(printing, unmeasured, tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_API_KEY", "HF_TOKEN", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    result = prove(printing, "--pass", "*_TOKEN", "--pass", "WANDB_*", "--drop", "WANDB_A*", "--drop", "OMP_*")
    seen = seen_in(tmp_path / "out/warm-up/a.txt")[1]
    assert {"HF_TOKEN", "WANDB_MODE"} <= seen.keys() and not {"WANDB_API_KEY", "OMP_NUM_THREADS"} & seen.keys()
    assert "HF_TOKEN" not in said(result) and "WANDB_API_KEY" not in said(result)


def test_all_can_be_hidden_but_the_path_and_what_is_ours(printing, unmeasured, tmp_path):
    prove(printing, "--drop", "*")
    seen = seen_in(tmp_path / "out/warm-up/a.txt")[1]
    own = {"SPEEDPROOF_RUN", "SPEEDPROOF_SEED", "SPEEDPROOF_VALIDATE_EVERY", "SPEEDPROOF_LAUNCHED", "PYTHONPATH", "PATH"}
    private = {"TMPDIR", *CACHE_VARIABLES}
    assert seen.keys() <= own | private | {"LC_CTYPE"}  # which Python sets for itself


def test_what_profiled_runs_alone_do_not_see_is_named_where_there_are_some(printing, unmeasured, monkeypatch):
    monkeypatch.setenv("A_FUSED", "1")
    monkeypatch.setenv("A_GRAPH", "1")
    hidden = "hidden from profiled runs only, because traces store the environment: "
    assert hidden not in said(prove(printing))
    told = said(prove(printing, "--profiled", "1", "--profiler", "kineto", "--pass", "A_GRAPH"))
    line = told[told.index(hidden) :]
    assert "A_FUSED" in line and "A_GRAPH" not in line and "SHLVL" not in line and "(--pass" in line


def test_a_profiled_run_sees_of_others_only_what_is_passed():
    variant = Variant(title="One", inherit_environment=True, pass_environment=["USE_*"], drop_environment=["USE_NOT"])
    environ = {"USE_FUSED": "1", "OTHER": "1", "A_TOKEN": "1"}
    assert passed_variables(variant, environ, timed=False) == {"USE_FUSED": "1"}
    assert passed_variables(variant, environ, timed=True) == {"USE_FUSED": "1", "OTHER": "1"}
    listed = Variant(title="One", pass_environment=["OTHER"])
    assert passed_variables(listed, environ, timed=True) == {"OTHER": "1"}


def test_volatile_variables_are_seen_and_do_not_decide_unless_named():
    environ = {pattern.replace("*", "X"): "1" for pattern in VOLATILE_VARIABLES} | {"OTHER": "1"}
    seen = inherited_variables(environ, [], [])
    assert {"PWD", "TERM", "SLURM_X", "OTHER"} <= seen.keys()
    assert deciding_variables(environ, [], []) == {"OTHER": "1"}
    assert [*deciding_variables(environ, ["TERM"], [])] == ["OTHER", "TERM"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "it does not see your TEAM_TOKEN (--pass TEAM_TOKEN shows it)"),
        (["--drop", "TEAM_*"], "it does not see your TEAM_TOKEN, which --drop hides"),
    ],
)
def test_a_command_that_misses_a_hidden_variable_is_told_how_to_see_it(place, monkeypatch, words, told):
    monkeypatch.setenv("TEAM_TOKEN", "1")
    (place / "wants.sh").write_text("echo TEAM_TOKEN is not set; exit 1\n")
    assert told in str(prove("sh wants.sh", *words).exception)


def test_a_file_names_patterns_as_options_do(tmp_path):
    request = check_request({"commands": ["a", "b"], "passed": ["*_TOKEN"], "dropped": ["WANDB_*"]}, "here")
    assert write_call(request) == "speedproof prove a b --pass '*_TOKEN' --drop 'WANDB_*'"
    path = tmp_path / "proof.yaml"
    path.write_text(write_request(request))
    assert "\npass:\n- '*_TOKEN'\n" in path.read_text() and read_request(path) == request
    assert read_request(path, {"passed": ["OTHER"]}).passed == ["OTHER"]


def test_variables_that_a_job_was_started_without_are_named(printing, tmp_path, monkeypatch):
    request = check_request({"commands": [printing, printing], "device": "cpu"}, "here")
    caller = {**os.environ, "USE_FUSED": "1"}
    commands = {"a": printing, "b": printing}
    reading = request.reading("process")
    measured = ProofBasis(tmp_path / "out", request, commands, take_snapshot(tmp_path, tmp_path / "out"), caller).describe(
        reading, {}
    )
    found = warm_up(tmp_path / "out", measured.config, measured.workload, request)
    assert found.notes["a"] == "its job lacks your USE_FUSED (sbatch passes variables with --export=ALL)"
