"""A command line of a proof that cannot be understood: one line without boxes, JSON if that is asked for, and no verdict."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.cli.options import asks_for_json
from speedproof.run.proof.request import read_request
from speedproof.util.errors import ConfigError

PROVE = ["prove", "true", "true"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*PROVE, "--rouns", "6"], "prove: --rouns: no such option; did you mean --rounds?"),
        ([*PROVE, "--colour"], "prove: --colour: no such option; `speedproof prove --help` lists all options"),
        ([*PROVE, "--rounds", "x"], "prove: --rounds: must be a whole number (given: 'x')"),
        ([*PROVE, "--margin=1e"], "prove: --margin: must be a number (given: '1e')"),
        ([*PROVE, "--timeout"], "prove: --timeout: requires an argument"),
        ([*PROVE, "--control=1"], "prove: --control: does not take a value"),
        ([*PROVE, "--budget", "0"], "prove: --budget: must be above 0 (given: 0.0)"),
        ([*PROVE, "--unit", "weeks", "--epoch-s", "(a)"], "prove: --unit: must be 'ns', 'us', 'ms', 's', 'min' or 'h' (given:"),
        ([*PROVE, "--job", "cores=many"], "prove: --job cores: must be a whole number (given: 'many')"),
        (
            [*PROVE, "--workdir", "comit"],
            "prove: --workdir: must be 'copy', 'commit' or 'here' (given: 'comit'); did you mean commit?",
        ),
        ([*PROVE, "--device", "gpu"], "prove: --device: must be 'auto', 'cuda' or 'cpu' (given: 'gpu'); did you mean cuda?"),
        ([*PROVE, "--job", "core=8"], "prove: --job core: unknown key; did you mean cores?"),
        (["prove"], "prove: commands: missing; see `speedproof prove --help`"),
        (["results", "show", "--results", "r"], "results show: --results is now called --from; use --from"),
        (["results", "show", "r"], "results show: r: unexpected argument; use `speedproof results show --from r`"),
    ],
)
def test_a_command_line_that_is_wrong_is_one_line_and_json_if_asked_for(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    at = 2 if words[0] == "results" else 1
    plain, asked = (CliRunner().invoke(app, given) for given in (words, [*words[:at], "--json", *words[at:]]))
    for result in (plain, asked):
        assert isinstance(result.exception, ConfigError) and str(result.exception).startswith(said), result.exception
        assert (result.exception.exit_code, "\n" in str(result.exception)) == (3, False)
    found = json.loads(asked.stdout)
    assert (found["outcome"], found["exit_status"], found["message"]) == ("error", 3, str(asked.exception))
    assert plain.stdout == ""


@pytest.mark.parametrize(
    ("given", "meant"), [("sec", "s"), ("Seconds", "s"), ("milliseconds", "ms"), ("hours", "h"), ("mss", "ms")]
)
def test_a_unit_in_other_words_is_asked_for(tmp_path, monkeypatch, given, meant):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*PROVE, "--epoch-s", "(a)", "--unit", given])
    assert str(result.exception).endswith(f"(given: '{given}'); did you mean {meant}?")


@pytest.mark.parametrize(("given", "meant"), [("wall tme", "wall time"), ("epoch tim", "epoch time")])
def test_a_metric_in_words_is_asked_for(tmp_path, monkeypatch, given, meant):
    monkeypatch.chdir(tmp_path)
    said = str(CliRunner().invoke(app, [*PROVE, "--metric", given]).exception)
    assert ", wall time, epoch time, rate; " in said and said.endswith(f"did you mean {meant}?")


def test_a_metric_and_a_profile_that_are_not_there_are_asked_for_by_the_names_that_are_close(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metric = CliRunner().invoke(app, ["init", "true", "true", "--metric", "trainig_epoch_s"])
    assert str(metric.exception).endswith("; did you mean training_epoch_s?")
    profile = CliRunner().invoke(app, [*PROVE, "--profile", "slrum"])
    assert str(profile.exception).endswith("or built in (slurm); did you mean slurm?")


def test_an_empty_value_is_json_too(tmp_path):
    words = [sys.executable, "-m", "speedproof", *PROVE, "--json", "--claim", ""]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (3, "error")
    assert done.stderr == f"speedproof: {json.loads(done.stdout)['message']}\n"


def test_json_behind_the_end_of_options_is_a_command(tmp_path):
    assert asks_for_json(["a", "--json"]) and not asks_for_json(["a", "--", "--json"])


def test_a_mistake_is_called_as_it_was_typed_in_the_file_or_as_an_option_over_it(tmp_path):
    file = tmp_path / "proof.yaml"
    file.write_text("commands: ['true', 'true']\nbudget_min: 0\n")
    with pytest.raises(ConfigError, match=r"proof\.yaml: budget_min: must be above 0 \(given: 0\)$"):
        read_request(file)
    with pytest.raises(ConfigError, match=r"proof\.yaml: --budget: must be above 0 \(given: -1\)$"):
        read_request(file, {"budget_min": -1})
    with pytest.raises(ConfigError, match=r"proof\.yaml: budget_min: must be above 0 \(given: 0\); --pass: must match "):
        read_request(file, {"passed": ["a b"]})
    file.write_text("commands: ['true', 'true']\ncolour: red\n")
    with pytest.raises(
        ConfigError, match="colour: unknown key; remove it, or see the output of `speedproof init` for the keys"
    ):
        read_request(file)
