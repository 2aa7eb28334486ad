"""The command line as a user meets it: help for every step, one line and an exit code for every mistake."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from typer.testing import CliRunner

from docs.reference import list_commands
from speedproof.cli.application import OLD_COMMANDS, app
from speedproof.results.trace_results import read_difference
from speedproof.run.proof.request import ProofRequest
from tests.profilers.exports import make_export
from tests.profilers.test_nsys_export import nvtx
from tests.trace.handmade import two_epochs

ROOT = Path(__file__).parents[1]
# What commands with `--from` cannot do without.
NEEDED = {
    "verdicts": ["--claims=c", "--from=r"],
    "results rebuild": ["--claims=c"],
    "results archive": ["--claims=c", "--out=o"],
    "results merge": ["--from=r"],
    "results cost": ["--config=c"],
}
KEYS = [key for key in ProofRequest.model_fields if key != "commands"]
COMMANDS = dict(list_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_step_has_help(command):
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert "Usage" in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_examples_that_can_be_read(name):
    command, called = COMMANDS[name], ["speedproof", *name.split()]
    head, *lines = (command.epilog or "").split("\n\n")
    assert (head.startswith("Example"), len(lines) > 0) == (True, True)
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        assert words[: len(called)] == called
        command.make_context(
            name, words[len(called) :]
        )  # which fails where an option is not there, or has another kind of value


@pytest.mark.parametrize(
    ("words", "old"),
    [
        (["verdicts", "--claims=c.yaml", "--results=r"], "--results"),
        (["results", "rebuild", "--claims", "c.yaml", "--results", "r"], "--results"),
        (["results", "list", "--folder", "r"], "--folder"),
        (["results", "cost", "--config=c.yaml", "--records", "r"], "--records"),
    ],
)
def test_an_old_name_of_an_option_is_refused_with_the_new_one(words, old):
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, f"{old} is now called --from; use --from" in ended.output) == (2, True)


def test_help_names_the_steps_that_it_hides():
    help_text = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for name, step in COMMANDS.items():
        assert (f" {name}," in help_text or f" {name}." in help_text) == step.hidden, name


@pytest.mark.parametrize(("old", "new"), OLD_COMMANDS.items())
def test_an_old_name_of_a_command_is_the_new_command_after_a_line_that_names_it(old, new):
    shown, asked = (CliRunner().invoke(app, [*words, "--help"]) for words in ([old], new.split()))
    assert shown.stdout == asked.stdout and f"speedproof {new}" in " ".join(shown.stdout.split())
    assert " ".join(shown.stderr.split()) == f"`speedproof {old}` is now called `speedproof {new}`"


def test_json_of_an_old_name_is_json_alone():
    ended = CliRunner().invoke(app, ["verdict", "--json", "--from", str(ROOT / "records/2026-11-22-h200-regular")])
    assert json.loads(ended.stdout)["experiments"]


@pytest.mark.parametrize("command", ["results show", "results report", "results list", *NEEDED])
def test_results_without_their_option_are_refused_with_the_line_to_type(command):
    ended = CliRunner().invoke(app, [*command.split(), "a b", *NEEDED.get(command, [])], env={"COLUMNS": "200"})
    said = ended.output + str(ended.exception)
    assert f"a b: unexpected argument; use `speedproof {command} --from 'a b'`" in said


def test_an_option_that_never_was_is_not_said_to_be_called_otherwise():
    assert "No such option: --folder" in CliRunner().invoke(app, ["doctor", "--folder", "x"]).output


@pytest.mark.parametrize("command", ["prove", "init"])
def test_each_key_of_a_request_is_an_option_in_a_panel(command):
    options = {one.name: one for one in COMMANDS[command].params}
    assert ProofRequest.model_fields.keys() <= options.keys()
    for key in ProofRequest.model_fields.keys() - {"commands"}:
        assert options[key].rich_help_panel in {
            "Claim and metric", "Reading epochs", "Quality", "Rounds", "Environment", "Profiling", "Cluster",
        }  # fmt: skip
        assert 0 < len(options[key].help) <= 125


def test_an_option_calls_others_as_they_are_typed_and_a_file_calls_them_by_key():
    options = {one.name: one for one in COMMANDS["prove"].params}
    assert options["rounds"].help.startswith("Timed runs of each command; with --budget, the maximum.")
    assert options["quality_command"].help.endswith("a run's --artifact: 'python evaluate.py {run}'")
    assert (options["budget_min"].opts, options["budget_min"].metavar) == (["--budget"], "MINUTES")
    assert (options["control"].is_flag, options["control"].secondary_opts) == (True, [])
    assert options["passed"].help.endswith("(repeatable)") and not options["file"].help.endswith("(repeatable)")
    written = CliRunner().invoke(app, ["init", "true", "false", "--margin", "0", "--quality", "(a)", "--job", "cores=3"]).stdout
    assert (
        "# Timed runs of each command; with budget_min, the maximum. Default: until decided, at most 24\nrounds: null\n"
        in written
    )
    assert "margin: 0.0\n" in written and "  cores: 3\n" in written
    headings = [line for line in written.splitlines() if line.startswith("# -- ")]
    assert headings == [f"# -- {one} --" for one in dict.fromkeys(options[key].rich_help_panel for key in KEYS)]


def test_only_commands_that_take_a_request_load_its_model():
    code = "import sys; from speedproof.cli import main\ntry: main()\nexcept SystemExit: pass\nprint([*sys.modules])"
    loaded = [
        "speedproof.run.proof.request"
        in subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True).stdout
        for words in (["--help"], ["doctor", "--help"], ["prove", "--help"])
    ]
    assert loaded == [False, False, True]


def test_to_know_the_commands_loads_no_reader_of_packages_and_archives():
    code = "import sys, speedproof.cli.application; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"importlib.metadata", "email", "zipfile", "tempfile", "hashlib"} & set(loaded) == set()


def test_every_step_of_the_rules_is_a_subcommand():
    called = {
        " ".join(words[3 : 4 + (words[3] in {"trace", "results"})])
        for path in (ROOT / "workflow/rules").glob("*.smk")
        for words in (line.strip().strip('"').split() for line in path.read_text().splitlines())
        if words[:3] == ["python3", "-m", "speedproof"]
    }
    assert called
    assert called <= COMMANDS.keys()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["check", "--config", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["results", "show", "--from", "nowhere"], 3, "nowhere: no such folder"),
        (["results", "report", "--from", "nowhere"], 6, "nowhere"),
        (["results", "close", "--experiment", "nowhere/experiments/experiment-1"], 2, "nowhere/config.json: no such file"),
        (["trace", "convert", "config.yaml", "--out", "nowhere"], 6, "config.yaml"),
        (["trace", "analyze", "nowhere.sqlite", "--out", "nowhere"], 6, "nowhere.sqlite"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(speedproof_here, monkeypatch, arguments, code, said):
    monkeypatch.chdir(ROOT)
    ended = speedproof_here(*arguments)
    assert ended.returncode == code
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not (ROOT / "nowhere").exists()


def test_a_trace_is_summarised_on_the_terminal_and_in_files(speedproof_here, tmp_path):
    trace, out = two_epochs().write(tmp_path / "trace"), tmp_path / "out"
    ended = speedproof_here("trace", "analyze", trace, "--out", out)
    assert ended.returncode == 0
    assert "Idle gaps: time without a kernel" in ended.stdout
    assert f"{out / 'summary.json'}: written" in ended.stderr
    assert {path.name for path in out.iterdir()} == {
        "summary.json", "epochs.csv", "phases.csv", "idle_gaps.csv", "kernels.csv", "kernels.json", "report.html",
    }  # fmt: skip
    assert speedproof_here("trace", "analyze", trace, "--out", out, "--quiet", "--no-page").stdout == ""


def test_traces_of_other_batches_are_compared_by_sample(speedproof_here, tmp_path):
    trace, out = two_epochs().write(tmp_path / "trace"), tmp_path / "out"
    ended = speedproof_here("trace", "diff", trace, trace, "--out", out, "--samples-a", 100, "--samples-b", 50)
    assert ended.returncode == 0
    difference = read_difference(out)
    assert (difference.samples_a, difference.samples_b, difference.total_s) == (100, 50, 0)
    # 10 ms for 100 samples, and for 50.
    assert difference.total_per_sample_s == pytest.approx(1e-4)
    only_one = speedproof_here("trace", "diff", trace, trace, "--out", out, "--samples-a", 100)
    assert only_one.returncode == 2
    assert "give both or neither" in only_one.stderr


@pytest.mark.parametrize("samples", ["nan", "inf", "1e-320", "0"])
def test_a_number_of_samples_that_cannot_be_is_one_line(speedproof_here, tmp_path, samples):
    trace = two_epochs().write(tmp_path / "trace")
    asked = ("--out", tmp_path / "out", "--samples-a", samples, "--samples-b", 1)
    ended = speedproof_here("trace", "diff", trace, trace, *asked)
    assert (ended.returncode, ended.stderr.count("\n")) == (6, 1)
    assert "samples per epoch must be from 1e-06 to 1e+15, not " in ended.stderr


def test_a_folder_that_is_no_experiment_cannot_be_closed(speedproof_here):
    ended = speedproof_here("results", "close", "--experiment", "/")
    assert ended.returncode == 2
    assert "/ is not in a results folder; name RESULTS/experiments/<name>" in " ".join(ended.stderr.replace("│", " ").split())


def test_a_trace_and_a_pair_are_written_for_perfetto(speedproof_here, tmp_path):
    trace, out = two_epochs().write(tmp_path / "trace"), tmp_path / "out"
    assert speedproof_here("trace", "analyze", trace, "--out", out, "--perfetto").returncode == 0
    assert list_groups(out / "trace.pftrace") == ["trace"]
    other = two_epochs().write(tmp_path / "b" / "trace")
    assert speedproof_here("trace", "diff", trace, other, "--out", out, "--perfetto").returncode == 0
    assert list_groups(out / "trace.pftrace") == ["trace", "b/trace"]


def list_groups(path):
    tracks = [packet.track_descriptor for packet in Trace.FromString(path.read_bytes()).packet]
    return [track.name for track in tracks if track.uuid and not track.parent_uuid]


def test_an_unknown_process_of_an_export_is_one_line_that_names_the_export(speedproof_here, tmp_path):
    export = make_export(tmp_path / "mine.sqlite", {"NVTX_EVENTS": [nvtx(0, 10, "epoch")]})
    ended = speedproof_here("trace", "analyze", export, "--out", tmp_path / "out", "--process", 4)
    assert (ended.returncode, ended.stderr.strip()) == (6, f"speedproof: {export}: no process 4; the trace has 0")
    assert not (tmp_path / "out").exists()


def test_a_sound_configuration_is_called_sound():
    command = [sys.executable, "-m", "speedproof", "check", "--config", "config.yaml", "--config", "workflow/config/demo.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "valid: measures baseline, fast\n"


def test_every_metric_is_printed_where_it_is_asked_for():
    record = ROOT / "records/2026-11-22-h200-regular"
    plain, all_metrics = (
        CliRunner().invoke(app, ["results", "show", "--from", str(record), *more], env={"COLUMNS": "120"}).output
        for more in ([], ["--metrics"])
    )
    assert "peak memory of the GPU" not in plain
    assert "peak memory of the GPU" in all_metrics and "training epoch" in all_metrics
