"""What a record keeps of the doctor's findings: all that its results folders say, each once, and nothing of the machine."""

from speedproof.record import write_record
from speedproof.records.doctor import DOCTOR_FILE, Diagnosis, Finding, read_diagnosis
from speedproof.records.files import write_json
from tests.report.example import CLAIMS, CPU_EXAMPLE, write_example

CORES = Finding(subject="cores", state="notice", found="2", cure="ask for more")
OUTSIDE = Finding(subject="container", state="absent", found="none on PATH", cure="load one")
INSIDE = Finding(subject="container", state="good", found="inside /home/someone/images/own.sif")


def make_results(folder, findings):
    write_example(folder, CPU_EXAMPLE)
    if findings:
        write_json(folder / DOCTOR_FILE, Diagnosis(findings=findings))
    return folder


def test_findings_of_several_results_are_merged_scrubbed_and_told(tmp_path):
    results = [make_results(tmp_path / "out", [CORES, OUTSIDE]), make_results(tmp_path / "in", [CORES, INSIDE])]
    write_record(results, CLAIMS, tmp_path / "record")
    kept = read_diagnosis(tmp_path / "record")
    assert kept.findings == [CORES, OUTSIDE, INSIDE.model_copy(update={"found": "inside <path>"})]
    assert "load one" in (tmp_path / "record" / "report.md").read_text()


def test_without_a_doctor_there_is_none(tmp_path):
    write_record([make_results(tmp_path / "results", [])], CLAIMS, tmp_path / "record")
    assert read_diagnosis(tmp_path / "record") is None
