"""What commands are called: letters with what differs, or given names; in sentences, tables, progress, JSON and files."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run.proof.request import check_options
from speedproof.run.proof.variant_labels import label_commands, title_variants
from speedproof.util.errors import ConfigError

LONG = "torchrun --nproc-per-node 2 train.py --config configs/base.yaml --lr"


@pytest.mark.parametrize(
    ("commands", "labels"),
    [
        (["python train_adam.py", "python train_adam.py --in-place"], ["python train_adam.py", "… --in-place"]),
        (["python a.py", "python b.py"], ["python a.py", "python b.py"]),  # short enough
        (["python old_training.py --lr 1", "python new_training.py --lr 1"],
         ["python old_training.py --lr 1", "… new_training.py …"]),
        # An option's value stands behind its option; a long first command is cut as the others are.
        ([f"{LONG} 1", f"{LONG} 2"], ["… --lr 1", "… --lr 2"]),
        (["python train.py --slow --workers 4", "python train.py --workers 4"],
         ["python train.py --slow --workers 4", "python train.py --workers 4"]),
        (["sh -c 'sleep 0.5; echo done at last'", "sh -c 'sleep 0.2; echo done at last'"],
         ["sh -c 'sleep 0.5; echo done at last'", "… -c 'sleep 0.2; echo done at last'"]),
        ([LONG, f"{LONG[:-5]} --fast"], ["… --lr", "… --fast"]),
        (["python train.py --token abc --fast-path", "python train.py --token abc --slow-path"],
         ["python train.py --token <secret> --fast-path", "… --slow-path"]),
    ],
)  # fmt: skip
def test_a_label_is_what_differs_between_the_commands(commands, labels):
    request = check_options({"commands": commands})
    assert list(title_variants(request).values()) == [f"{letter} ({label})" for letter, label in zip("AB", labels, strict=True)]


PROJECTS = "/home/me/projects/language-models"


@pytest.mark.parametrize(
    ("commands", "labels"),
    [
        ([f"python {PROJECTS}/old/train_slow.py --lr 1", f"python {PROJECTS}/old/train_fast.py --lr 1"],
         ["… train_slow.py …", "… train_fast.py …"]),
        # Files of the same name differ by their folders.
        ([f"python {PROJECTS}/old/train.py", f"python {PROJECTS}/new/train.py"], ["… old/train.py", "… new/train.py"]),
        ([f"python train.py --config={PROJECTS}/a.yaml", f"python train.py --config={PROJECTS}/b.yaml"],
         ["… --config=a.yaml", "… --config=b.yaml"]),
        ([f"python {PROJECTS}/train.py", f"python {PROJECTS}/train.py --data https://host.org/a/b"],
         ["python train.py", "… --data https://host.org/a/b"]),
    ],
)  # fmt: skip
def test_of_long_paths_a_label_has_the_names_that_differ(commands, labels):
    assert label_commands(commands) == labels


def test_a_label_is_never_long():
    first, second = label_commands([f"./{'x' * 100} --a", f"./{'y' * 100} --a"])
    assert (first, second) == (f"./{'x' * 19}…{'x' * 19} …", f"./{'y' * 19}…{'y' * 19} …")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["old"], "--name: 1 for 2 commands; give one for each, or none"),
        (["old", "old"], "--name: the same name twice"),
        (["old", " "], "--name: ' ': write a name"),
        (["old", "a\nb"], "--name: 'a\\nb': write a name"),
    ],
)
def test_names_that_name_nothing_are_refused(names, said):
    with pytest.raises(ConfigError) as refused:
        check_options({"commands": ["true", "false"], "names": names})
    assert said in str(refused.value)


def test_given_names_are_used_everywhere(place):
    (place / "a.sh").write_text("for n in 1 2 3; do sleep 0.02; echo took $1 us; done")
    words = ["sh a.sh 2000", "sh a.sh 1000", "--epoch-s", r"took (\S+)", "--trust-reported", "made up", "--rounds", "4"]
    words += ["--device", "cpu"]
    called = ["--name", "old way", "--name", "new way"]
    result = CliRunner().invoke(app, ["prove", *words, *called, "--out", "out"])
    said, progress = " ".join(result.stdout.split()), " ".join(result.stderr.split())
    assert "new way is 2.000× as fast as old way on this machine" in said
    assert "old way: sh a.sh 2000 new way: sh a.sh 1000" in said  # the legend
    assert "old way / new way 2.00" in progress and "old way: " in progress
    verdict = json.loads((place / "out/verdict.json").read_text())
    assert [(one["name"], one["command"]) for one in verdict["variants"]] == [
        ("old way", "sh a.sh 2000"),
        ("new way", "sh a.sh 1000"),
    ]
    assert verdict["candidates"][0]["command"] == "sh a.sh 1000"
    report = (place / "out/results/report.md").read_text()
    assert "new way" in report and "B (" not in report
    # Other names are no other experiment.
    again = CliRunner().invoke(app, ["prove", *words, "--out", "out", "--json"])
    assert "nothing was run" in again.stderr and json.loads(again.stdout)["variants"][0]["name"] == "A"
