"""`speedproof.prove`: the command's options, outcome and errors, and nothing printed."""

import inspect
import json
import threading

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import speedproof
from speedproof.cli.application import app
from speedproof.run.proof.request import ProofRequest
from tests.library.conftest import COMMANDS, READ

OWN = {"--out", "--json", "--quiet", "--help"}  # of the command line alone, or of the function itself


def call(*words):
    return CliRunner().invoke(app, ["prove", *COMMANDS, *words])


def test_options_are_those_of_the_command_line():
    parameters = get_command(app).commands["prove"].params
    options = {one.opts[-1] for one in parameters if one.param_type_name == "option"} - OWN
    taken = inspect.signature(speedproof.prove).parameters.values()
    named = {one.name for one in taken if one.kind is one.KEYWORD_ONLY} - {"out", "verbose"}
    assert {f"--{name.rstrip('_').replace('_', '-')}" for name in named} == options
    assert "pass_" in named  # a word of Python itself
    assert all(f"{name}: " in speedproof.prove.__doc__ for name in ("claim", "epoch_s", "budget"))


def test_it_finds_what_the_command_line_prints(place, measured):
    result = speedproof.prove(*COMMANDS, claim=">= 1.5", **READ)
    printed = call("--epoch-s", READ["epoch_s"], "--rounds", "6", "--claim", ">= 1.5", "--json")
    verdict = json.loads(printed.stdout)
    (candidate,) = verdict["candidates"]
    assert (result.outcome, result.ratio) == (verdict["outcome"], candidate["ratio"]) == ("claim holds", candidate["ratio"])
    assert result.interval == (candidate["low"], candidate["high"])
    assert [one.sentence for one in result.candidates] == [candidate["sentence"]]
    assert [one.kind for one in result.objections] == [one["kind"] for one in candidate["objections"]]
    assert result.folder == place / "results/proof"


def test_it_prints_if_asked(place, measured, capfd):
    result = speedproof.prove(*COMMANDS, **READ, verbose=True)
    printed = capfd.readouterr()
    assert " ".join(printed.out.split()).startswith(result.sentence.partition(" Second proof")[0])
    assert "plan: " in printed.err


def test_a_thread_may_prove_which_prints_nothing_and_leaves_a_session_s_pandas_alone(place, measured, capfd):
    before = pd.Series(["a"]).dtype
    found = []
    thread = threading.Thread(target=lambda: found.append(speedproof.prove(*COMMANDS, **READ)))
    thread.start()
    thread.join()
    assert capfd.readouterr() == ("", "")
    assert found[0].outcome == "faster"
    assert found[0].to_frame()["variant"].tolist()[:2] == ["A (sh slow.sh)", "B (sh fast.sh)"]
    assert pd.Series(["a"]).dtype == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 5}, ["--rounds", "5"]),
        ({"claim": "fast"}, ["--claim", "fast"]),
        ({"epoch_s": "(", "rounds": 6}, ["--epoch-s", "(", "--rounds", "6"]),
        ({"epoch_s": r"never (\S+)"}, ["--epoch-s", r"never (\S+)"]),
        ({"quality_command": "true"}, ["--quality-command", "true"]),
    ],
)
def test_an_error_has_the_command_line_s_words(place, measured, options, words):
    with pytest.raises(speedproof.SpeedproofError) as raised:
        speedproof.prove(*COMMANDS, **options)
    assert str(raised.value) == str(call(*words).exception)


def test_an_option_that_there_is_not_is_an_error_of_the_same_kind(place):
    with pytest.raises(speedproof.SpeedproofError, match="prove: ronds: no such option; did you mean rounds"):
        speedproof.prove(*COMMANDS, ronds=6)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["python", "t.py"], "a command must be a string (given: ['python', 't.py']); pass 'python t.py'"),
        (3, "a command must be a string (given: 3); pass each command as one string, such as 'python train.py'"),
        ([], "a command must be a string (given: []); pass each command as one string, such as 'python train.py'"),
    ],
)
def test_a_command_that_is_no_text_is_an_error_of_the_same_kind(place, command, said):
    with pytest.raises(speedproof.SpeedproofError) as raised:
        speedproof.prove(command, "true")
    assert str(raised.value) == f"prove: {said}"


def test_what_the_system_refuses_is_an_error_of_the_same_kind(place):
    (place / "taken").write_text("")
    with pytest.raises(speedproof.SpeedproofError, match="taken"):
        speedproof.prove(*COMMANDS, out="taken", **READ)


def test_one_value_of_an_option_that_may_be_repeated_and_paths_are_taken(place, measured, monkeypatch):
    asked = []
    monkeypatch.setattr("speedproof.run.proof.proof.prove_request", lambda request, *_: asked.append(request) or stop())

    def stop():
        raise speedproof.SpeedproofError("enough")

    for values in ({"source": place / "slow.sh", "pass_": "MY_*"}, {"source": [str(place / "slow.sh")], "pass_": ["MY_*"]}):
        with pytest.raises(speedproof.SpeedproofError, match="enough"):
            speedproof.prove(*COMMANDS, **values, job={"cores": 8}, claim=None)
    assert asked[0] == asked[1]
    assert (asked[0].passed, asked[0].job.cores, asked[0].claim) == (["MY_*"], 8, None)


def test_a_file_of_init_is_asked_with_options_over_it(place, measured):
    written = CliRunner().invoke(app, ["init", *COMMANDS, "--epoch-s", READ["epoch_s"], "--rounds", "4"])
    (place / "proof.yaml").write_text(written.stdout)
    result = speedproof.prove(place / "proof.yaml", rounds=6)
    assert (result.outcome, result.candidates[0].pairs) == ("faster", 6)
    assert ProofRequest.model_fields["rounds"].default is None
