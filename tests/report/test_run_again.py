"""The command that repeats a measurement: a shell can run it as it is, and it measures the same."""

import subprocess
from pathlib import Path

import pytest
import yaml

from speedproof.config.load import load_config
from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.run_again import list_commands
from speedproof.results.folder import read_results
from tests.report.conftest import make_results
from tests.report.example import Example

ROOT = Path(__file__).parents[2]
RECORDS = ["2026-11-22-h200-turbo-four-gpus", "2026-11-25-h200-tutorial-pair", "2026-11-25-h100-tumour-ladder"]


def paste(command, folder):
    """Run a command in a folder, in which `snakemake` prints its arguments, and return these."""
    program = folder / "bin/snakemake"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("record", RECORDS)
def test_what_a_record_says_can_be_pasted_and_plans_what_ran(tmp_path, record):
    results = read_results(ROOT / "records" / record)
    (again,) = list_commands(read_evidence(ROOT / "records" / record))
    assert paste(again.text, tmp_path)[:4] == [
        "--cores",
        str(results.runs[0].run.conditions.cores),
        "--configfile",
        "again.yaml",
    ]
    case = results.runs[0].run.case
    base = tmp_path / "config.yaml"  # of another workload config.yaml only gives the folder of the data
    base.write_text((ROOT / "config.yaml").read_text(encoding="utf-8") if case == "spleen" else "{}", encoding="utf-8")
    config = load_config(base, tmp_path / "again.yaml")
    assert (str(config.results), config.measurement.variants) == ("results/again", results.experiments[0].variants)
    assert config.measurement.ablation == results.ablation
    assert config.measurement.rounds == len(results.select(config.measurement.variants[0], "timed"))
    if case != "spleen":  # its variants are in its workload.yaml
        return
    for run in results.runs:
        planned, ran = config.variants[run.run.variant], run.run.techniques
        assert (planned["title"], config.measurement.epochs or planned["epochs"]) == (ran["title"], run.run.epochs)


def test_texts_of_results_cannot_end_the_file(tmp_path):
    title = "x\nEND_OF_FILE\ntouch broken\n"
    results = make_results(
        tmp_path / "results", Example(experiments=1, rounds=1, modes=("timed",), gpu=False, techniques=(("title", title),))
    )
    (again,) = list_commands(read_evidence(results))
    paste(again.text, tmp_path)
    assert not (tmp_path / "broken").exists()
    variants = yaml.safe_load((tmp_path / "again.yaml").read_text(encoding="utf-8"))["variants"]
    assert {variant["title"] for variant in variants.values()} == {title}


def test_the_data_are_those_that_were_measured(tmp_path):
    evidence = read_evidence(make_results(tmp_path / "results", Example(rounds=1, modes=("timed",), gpu=False)))
    for experiment in evidence.results.experiments:
        experiment.data = {"source": "phantom", "phantom": {"size": "tiny", "seed": 3}}
    (again,) = list_commands(evidence)
    paste(again.text, tmp_path)
    written = yaml.safe_load((tmp_path / "again.yaml").read_text(encoding="utf-8"))
    assert written["data"] == {"source": "phantom", "phantom": {"size": "tiny", "seed": 3}}
    assert "config.yaml" not in again.note
