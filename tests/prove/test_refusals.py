"""What a request asks for and cannot have is refused in one line, before anything is measured that would not count."""

import pytest

from speedproof.run.proof import proof
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.metric_needs import check_epochs
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.request import check_options, check_request
from speedproof.util.errors import ConfigError

COMMANDS = ["sh a.sh", "sh a.sh"]
LINES = {"epoch_s": r"took (\S+)"}
JUDGED = {"quality_command": "cat {run}/out/x", "artifacts": ["out/x"], "workdir": "here"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"metric": "training_epoch_s", "rate": r"(\S+) it/s"},
            "--metric training_epoch_s: needs epochs, and --rate reads none",
        ),
        (
            {"metric": "all_epochs_s", "blind": True},
            "--metric all_epochs_s: needs epochs; name their source (--epoch-s, --epoch, --file), or leave it out",
        ),
        ({"metric": "samples_per_s", **LINES}, "--metric samples_per_s: needs a rate (--rate) or marks"),
        ({"metric": "validation_epoch_s", **LINES}, "--metric validation_epoch_s: needs validations, which only marks have"),
        (
            {"metric": "energy_per_epoch_j", "device": "cpu", **LINES},
            "--metric energy_per_epoch_j: is measured on a GPU; leave --device cpu out",
        ),
        (
            JUDGED,
            "--artifact: with --workdir here all runs share this folder; have each command write below {run}, a fresh "
            "folder for each run, for example 'python a.py --out {run}/out'",
        ),
    ],
)
def test_a_request_that_no_run_can_meet_is_refused_by_the_names_that_were_typed(asked, said):
    with pytest.raises(ConfigError) as refused:
        check_options({"commands": COMMANDS, **asked})
    assert str(refused.value).startswith(f"prove: {said}")


@pytest.mark.parametrize(
    "asked",
    [
        {"metric": "training_epoch_s"},  # of marks, which the warm-up finds
        {"metric": "samples_per_s"},
        {"metric": "samples_per_s", "rate": r"(\S+) it/s"},
        {"metric": "training_epoch_s", "blind": True, **LINES},
        {"metric": "process_s", "blind": True},
        {"metric": "energy_per_epoch_j", **LINES},
        {**JUDGED, "commands": ["sh a.sh {run}/out", "sh a.sh {run}/out"]},
    ],
)
def test_a_request_that_runs_may_meet_is_taken(asked):
    check_options({"commands": COMMANDS, **asked})


def test_an_epochs_metric_needs_epochs_of_every_command():
    asked = {"commands": COMMANDS}
    check_epochs(check_request({**asked, "metric": "training_epoch_s"}, "here"), {"a": 3, "b": 3})
    check_epochs(check_request({**asked, "metric": "process_s"}, "here"), {"a": 0, "b": 0})
    check_epochs(check_request(asked, "here"), {"a": 0, "b": 0})
    with pytest.raises(
        ConfigError, match=r"^--metric first_epoch_s: needs epochs, and not all commands report them; mark them"
    ):
        check_epochs(check_request({**asked, "metric": "first_epoch_s"}, "here"), {"a": 3, "b": 0})


@pytest.mark.parametrize(
    ("asked", "need"),
    [
        ({"device": "cuda"}, "--device cuda"),
        ({"gpus": 2}, "--gpus 2"),
        ({"metric": "energy_per_epoch_j", **LINES}, "--metric energy_per_epoch_j"),
    ],
)
def test_a_gpu_that_is_not_there_is_missed_before_the_warm_up(place, monkeypatch, asked, need):
    monkeypatch.setattr(proof, "describe_gpu", lambda: None)
    with pytest.raises(ConfigError) as refused:
        prove_request(check_options({"commands": COMMANDS, **asked}), place / "out", place, Status(quiet=True))
    assert str(refused.value) == f"{need}: no GPU here (`nvidia-smi` lists none); leave it out, or run on a machine with a GPU"
    assert not (place / "out").exists()


def test_more_gpus_than_there_are_are_missed_before_the_warm_up(place, monkeypatch):
    monkeypatch.setattr(proof, "describe_gpu", lambda: "a GPU")
    monkeypatch.setattr(proof, "list_gpu_uuids", lambda: ["GPU-1", "GPU-2"])
    with pytest.raises(ConfigError, match=r"^--gpus 4: 2 GPUs here; ask for no more, or run on another machine$"):
        request = check_options({"commands": COMMANDS, "gpus": 4})
        prove_request(request, place / "out", place, Status(quiet=True), lambda _: None)
