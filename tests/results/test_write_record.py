"""What a record merges: experiments of the same variants, in order, and what the doctor found, each once and scrubbed."""

import json
import re
import shutil
import zipfile
from dataclasses import replace

import pytest

from speedproof.results.diagnosis import DOCTOR_FILE, Diagnosis, Finding, read_diagnosis
from speedproof.results.evidence_archive import find_files
from speedproof.results.experiment import Experiment
from speedproof.results.files import read_json, read_text, sha256_of, write_json, write_sealed
from speedproof.results.folder import read_results
from speedproof.run.archive.record import write_record
from speedproof.util.errors import RecordError
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, write_example

CORES = Finding(subject="cores", state="notice", found="2", hint="ask for more")
FEWER = Finding(subject="cores", state="notice", found="1", hint="ask for more")
OUTSIDE = Finding(subject="container", state="absent", found="none on PATH", hint="load one")
INSIDE = Finding(subject="container", state="good", found="inside /home/someone/images/own.sif")


TIMED = Example(experiments=2, rounds=1, gpu=False, modes=("timed",))


def make_results(folder, findings, day=21, modes=("timed",)):
    write_example(folder, replace(CPU_EXAMPLE, day=day, modes=modes))
    if findings:
        write_json(folder / DOCTOR_FILE, Diagnosis(findings=findings))
    return folder


def test_findings_of_several_results_are_merged_scrubbed_and_told(tmp_path):
    results = [make_results(tmp_path / "out", [CORES, OUTSIDE]), make_results(tmp_path / "in", [CORES, FEWER, INSIDE], day=22)]
    write_record(results, CLAIMS, tmp_path / "record")
    kept = read_diagnosis(tmp_path / "record")
    assert kept.findings == [CORES, OUTSIDE, FEWER, INSIDE.model_copy(update={"found": "inside <path>"})]
    assert "load one" in (tmp_path / "record" / "report.md").read_text()


def test_without_a_doctor_there_is_none(tmp_path):
    write_record([make_results(tmp_path / "results", [])], CLAIMS, tmp_path / "record")
    assert read_diagnosis(tmp_path / "record") is None


def test_results_given_twice_and_copied_experiments_are_refused(tmp_path):
    results = write_example(tmp_path / "results", TIMED)
    copied = shutil.copytree(results, tmp_path / "copied")
    shutil.copytree(results / "experiments/experiment-1", results / "experiments/experiment-3")
    for sources, again in (
        ([copied, copied], "copied/experiments/experiment-1"),
        ([results], "results/experiments/experiment-3"),
    ):
        with pytest.raises(RecordError) as caught:
            write_record(sources, CLAIMS, tmp_path / "record")
        text = str(caught.value)
        assert (
            f"{again}/runs/01-baseline-timed: the same run as" in text and "experiment-1/runs/01" in text and "\n" not in text
        )
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize("variant", ["baseline", "cached"])  # cached: a stage
def test_a_variant_of_two_settings_is_refused(tmp_path, variant):
    results = write_example(tmp_path / "results", replace(TIMED, ablation=("baseline", "cached", "fast")))
    (path,) = results.glob(f"experiments/experiment-2/runs/*-{variant}-timed/run.json")
    run = json.loads(path.read_text())
    run["techniques"]["batch_size"] = 3
    path.write_text(json.dumps(run))
    with pytest.raises(RecordError) as caught:
        write_record([results], CLAIMS, tmp_path / "record")
    assert str(caught.value).startswith(
        f"{path.parent}: {variant} has batch_size 3, but 4 in {results / 'experiments/experiment-1'}"
    )
    assert "\n" not in str(caught.value)


def test_traces_may_be_left_out_but_no_timed_run(tmp_path):
    results = write_example(tmp_path / "results", replace(CPU_EXAMPLE, ablation=("baseline", "cached", "fast")))
    whole = read_results(results)
    write_record([results], CLAIMS, tmp_path / "record", ["cached"])
    kept = read_results(tmp_path / "record")
    gone = {(run.experiment, run.name) for run in whole.runs} - {(run.experiment, run.name) for run in kept.runs}
    assert gone == {
        (run.experiment, run.name) for run in whole.runs if run.run.variant == "cached" and run.run.mode == "profiled"
    }
    assert gone == {(experiment.experiment, name) for experiment in kept.experiments for name in experiment.left_out}
    assert not any("cached-profiled" in name for experiment in kept.experiments for name in experiment.digests)
    assert "this record leaves out 1 of its runs" in (tmp_path / "record" / "report.md").read_text()
    assert kept.untraced == ["+ cache on the GPU"]
    write_record([tmp_path / "record"], CLAIMS, tmp_path / "smaller", ["fast"])
    assert read_results(tmp_path / "smaller").untraced == ["+ cache on the GPU", "MONAI fast script"]
    with pytest.raises(RecordError, match=r"^nothing: has no profiled run to leave out; profiled are: baseline, "):
        write_record([results], CLAIMS, tmp_path / "other", ["nothing"])
    alone = write_example(tmp_path / "alone", replace(CPU_EXAMPLE, modes=("profiled",)))
    with pytest.raises(RecordError, match=r"^nothing is left to keep without these traces"):
        write_record([alone], CLAIMS, tmp_path / "other", [run.run.variant for run in read_results(alone).runs])


def test_variants_without_their_traces_are_named_however_many_rounds_were_planned(tmp_path):
    """Where rounds go on until variants are decided, runs' folders have other names."""
    results = write_example(tmp_path / "results", replace(CPU_EXAMPLE, until="decided"))
    write_record([results], CLAIMS, tmp_path / "record", ["fast"])
    kept = read_results(tmp_path / "record")
    assert [experiment.left_out for experiment in kept.experiments] == [["fast-profiled-01"]]
    assert kept.untraced == ["MONAI fast script"]


def test_an_experiment_may_lose_all_its_runs(tmp_path):
    """An experiment of profiled runs alone stays, without runs, and says which ones it had."""
    results = write_example(tmp_path / "results", replace(CPU_EXAMPLE, modes=("timed",)))
    profiled = write_example(tmp_path / "profiled", replace(CPU_EXAMPLE, modes=("profiled",)))
    variants = [run.run.variant for run in read_results(profiled).runs]
    write_record([results, profiled], CLAIMS, tmp_path / "record", variants)
    write_record([tmp_path / "record"], CLAIMS, tmp_path / "again")
    for record in (tmp_path / "record", tmp_path / "again"):
        kept = read_results(record)
        assert {run.run.mode for run in kept.runs} == {"timed"}
        assert kept.experiments[-1].runs == []
        assert len(kept.untraced) == len(set(variants))
        left_out = ", ".join(kept.experiments[-1].left_out)
        assert (
            f"{kept.experiments[-1].experiment}: this record leaves out {len(variants)} of its runs"
            in (record / "report.md").read_text()
        )
        assert left_out in (record / "report.md").read_text()


def test_a_record_holds_evidence_numbers_and_words_alone(tmp_path):
    results = make_results(tmp_path / "results", [CORES], modes=("timed", "profiled"))
    write_record([results], CLAIMS, tmp_path / "record")
    record = tmp_path / "record"
    assert {path.name for path in record.iterdir()} == {"evidence.zip", "comparison.json", "report.md", "report.svg"}
    with zipfile.ZipFile(record / "evidence.zip") as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"experiments", "doctor.json"}
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]*)\)", (tmp_path / "record/report.md").read_text())
    assert picture == "report.svg" and (tmp_path / "record" / picture).stat().st_size < 6000


def test_a_proofs_record_keeps_what_was_asked_without_where_its_programs_lie(tmp_path):
    results = make_results(tmp_path / "results", [CORES])
    claim = {"value": 1.5, "low": 1.5, "high": None}
    asked = {"schema_version": 1, "metric": "training_epoch_s", "margin": None, "claim": claim}
    asked["command"] = "speedproof prove '/opt/mine/a.py' b.py"
    (results / "asked.json").write_text(json.dumps(asked))
    write_record([results], CLAIMS, tmp_path / "record")
    kept = read_json(tmp_path / "record/asked.json")
    assert (kept["command"], kept["claim"]) == ("speedproof prove 'a.py' b.py", {**claim, "words": None})
    assert "claim ≥ 1.5×" in (tmp_path / "record/report.md").read_text()


def test_experiments_are_kept_in_the_order_of_their_numbers(tmp_path):
    results = write_example(tmp_path / "results", replace(TIMED, experiments=11))
    write_record([results], CLAIMS, tmp_path / "record")
    hours = {run.experiment: run.run.started[11:13] for run in read_results(tmp_path / "record").runs}
    assert hours == {f"experiment-{number}": f"{9 + number:02d}" for number in range(1, 12)}


def test_a_secret_that_a_program_printed_is_not_kept(tmp_path):
    results = write_example(tmp_path / "results", TIMED)
    for run in results.glob("experiments/*/runs/*"):
        (run / "log.txt").write_text("logging in with HF_TOKEN=hf_abcdef\nepoch 1\n")
    write_record([results], CLAIMS, tmp_path / "record")
    kept = {read_text(path) for path in find_files(tmp_path / "record", "experiments/*/runs/*/log.txt")}
    assert kept == {"logging in with HF_TOKEN=<secret>\nepoch 1\n"}


def rewrite_runs(results, change):
    """Change what each run's file of results holds, and correct the checksums."""
    for experiment in (results / "experiments").iterdir():
        digests = {}
        for file in experiment.glob("runs/*/run.json"):
            run = json.loads(file.read_text())
            change(run)
            file.write_text(json.dumps(run))
            digests[file.relative_to(experiment).as_posix()] = sha256_of(file)
        record = json.loads((experiment / "experiment.json").read_text())
        record["digests"] |= digests
        write_sealed(experiment / "experiment.json", Experiment.model_validate(record))


def test_a_command_is_kept_without_where_its_program_lies(tmp_path):
    def name_programs(run):
        run["command"] = ["/opt/of mine/python3", "train.py"]
        run["techniques"]["command"] = "/home/someone/bin/python3 train.py --lr 0.1"

    results = write_example(tmp_path / "results", TIMED)
    rewrite_runs(results, name_programs)
    write_record([results], CLAIMS, tmp_path / "record")
    (kept, *_) = find_files(tmp_path / "record", "experiments/*/runs/*/run.json")
    assert read_json(kept)["techniques"]["command"] == "python3 train.py --lr 0.1"


def test_what_lies_outside_of_the_working_folder_is_still_told_apart(tmp_path):
    names = [
        "data/cases.npz",
        "~/out/log.txt",
        "/tmp/of mine/pack.tgz",
        "/dev/shm/queue",
        "/opt/packages/tool.py",
        "<tmp>/kept",
    ]

    def name_changed(run):
        run["observed"] = {"changed": names, "machine": {"cores": 2, "seconds": 1.0, "gpu_processes": ["/opt/mine/train"]}}

    results = write_example(tmp_path / "results", TIMED)
    rewrite_runs(results, name_changed)
    write_record([results], CLAIMS, tmp_path / "record")
    (kept, *_) = find_files(tmp_path / "record", "experiments/*/runs/*/run.json")
    observed = read_json(kept)["observed"]
    told = ["data/cases.npz", "~/out/log.txt", "<tmp>/of mine/pack.tgz", "<tmp>/queue", "<path>/tool.py", "<tmp>/kept"]
    assert observed["changed"] == told
    assert observed["machine"]["gpu_processes"] == ["train"]
