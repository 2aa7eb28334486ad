"""A packed record is read in place, like a folder of results: the same numbers, the same refusals, and nothing is unpacked."""

import json
import os
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from speedproof.cli import main
from speedproof.config.load import check_config, load_config
from speedproof.report.figures.figure_data import read_evidence
from speedproof.results import evidence_archive
from speedproof.results.diagnosis import Diagnosis, Finding, read_diagnosis
from speedproof.results.evidence_archive import EVIDENCE_FILE, find_archive, find_files, is_folder, is_there, pack, size_below
from speedproof.results.experiment import read_whole_experiment
from speedproof.results.files import opened, read_text, sha256_of, write_sealed
from speedproof.results.folder import list_experiments, read_current_comparison, read_results
from speedproof.results.trace_tables import TABLES, read_table, read_trace_info
from speedproof.run.archive.cost import estimate_cost
from speedproof.run.archive.rebuild import rebuild_report, rebuild_results
from speedproof.run.archive.record import write_record
from speedproof.util.errors import RecordError
from tests.report.example import CLAIMS, Example, write_example

ROOT = Path(__file__).parents[2]
EXAMPLE = Example(experiments=1, rounds=2, gpu=False, profiler="kineto")
EXPERIMENT = "experiments/experiment-1"
RUN = f"{EXPERIMENT}/runs/01-baseline-timed"
TRACE = f"{EXPERIMENT}/runs/05-baseline-profiled/trace"
CORES = Finding(subject="cores", state="notice", found="2", hint="ask for more")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of results."""
    folder = write_example(tmp_path_factory.mktemp("results") / "results", EXAMPLE)
    write_sealed(folder / "doctor.json", Diagnosis(findings=[CORES]))
    return folder


@pytest.fixture(scope="module")
def recorded(results, tmp_path_factory):
    """A record of it."""
    write_record([results], CLAIMS, tmp_path_factory.mktemp("recorded") / "record")
    return next(tmp_path_factory.getbasetemp().glob("recorded*/record"))


@pytest.fixture
def record(recorded, tmp_path):
    """A copy of the record, which a test may spoil."""
    return shutil.copytree(recorded, tmp_path / "record")


def members_of(record):
    with zipfile.ZipFile(record / EVIDENCE_FILE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def unpack(record, folder):
    for name, content in members_of(record).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_members(record, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(record / EVIDENCE_FILE, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def change(record, name, content):
    """Replace a member's content, or leave it out."""
    members = {**members_of(record), name: content}
    write_members(record, {name: content for name, content in members.items() if content is not None})


def test_every_file_of_an_experiment_is_found_and_read_as_if_it_lay_there(record, tmp_path):
    folder = unpack(record, tmp_path / "unpacked")
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 40
    for path in files:
        assert is_there(record / path) and not (record / path).exists()
        assert sha256_of(record / path) == sha256_of(folder / path)
    for part in (".", EXPERIMENT, RUN, TRACE):
        assert is_folder(record / part) and size_below(folder / part) > 0
    for part in (EXPERIMENT, RUN, TRACE):
        assert size_below(record / part) == size_below(folder / part)
    for pattern in (f"{EXPERIMENT}/runs/*/run.json", "experiments/*/*.json", "*.json", "*/experiment-1/*/*/trace/*.parquet"):
        on_disk = {path.relative_to(folder) for path in folder.glob(pattern)}
        beside = {path.relative_to(record) for path in record.glob(pattern)}
        assert {path.relative_to(record) for path in find_files(record, pattern)} == on_disk | beside
    assert not is_there(record / EXPERIMENT / "runs/99") and not is_folder(record / RUN / "run.json")
    assert find_files(folder, f"{EXPERIMENT}/runs/*/run.json") == sorted(folder.glob(f"{EXPERIMENT}/runs/*/run.json"))


def test_a_trace_is_read_from_the_archive(record, tmp_path):
    folder = unpack(record, tmp_path / "unpacked")
    assert read_trace_info(record / TRACE) == read_trace_info(folder / TRACE)
    for name in TABLES:
        assert read_table(record / TRACE, name).equals(read_table(folder / TRACE, name))
    assert read_table(record / TRACE, "ranges", ["name"]).column_names == ["name"]


def test_numbers_report_and_costs_are_those_of_the_folder_and_nothing_is_unpacked(record, tmp_path):
    folder = unpack(record, tmp_path / "unpacked" / "record")
    shown = {name: (record / name).read_bytes() for name in ("comparison.json", "report.md", "report.svg", EVIDENCE_FILE)}
    for place in (record, folder):
        rebuild_results(place, CLAIMS)
        rebuild_report(read_evidence(place), place)
    assert {name: (record / name).read_bytes() for name in shown} == shown
    for name in ("comparison.json", "report.md", "report.svg", "report.html"):
        assert (record / name).read_bytes() == (folder / name).read_bytes(), name
    assert {path.name for path in record.iterdir()} == {*shown, "analysis", "figures", "report.html"}
    assert read_diagnosis(record) == read_diagnosis(folder)


def test_past_runs_in_an_archive_tell_what_a_configuration_costs(record, tmp_path, caplog):
    folder = unpack(record, tmp_path / "unpacked" / "record")
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    values["data"] |= {"source": "phantom"}
    places = (folder, record, shutil.copytree(record, tmp_path / "several" / "record").parent)
    costs = [estimate_cost(check_config(values), [place]) for place in places]
    assert costs[0].past_runs == 6 and costs[0].runs_mib > 0
    assert costs == [costs[0]] * 3
    (record / EVIDENCE_FILE).write_bytes(b"damaged")
    assert estimate_cost(check_config(values), [record]).past_runs == 0
    assert f"not counted: {record / EVIDENCE_FILE}: not a readable ZIP file" in caplog.text


@pytest.mark.parametrize(
    "command", [["results", "show", "--from", "."], ["trace", "analyze", TRACE, "--out", "out", "--no-page"]]
)
def test_commands_take_a_record_from_inside_it(record, command, monkeypatch, capsys):
    monkeypatch.chdir(record)
    monkeypatch.setattr("sys.argv", ["speedproof", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out


def test_a_record_may_be_made_of_records(record, tmp_path):
    write_record([record], CLAIMS, tmp_path / "again")
    assert (tmp_path / "again" / EVIDENCE_FILE).read_bytes() == (record / EVIDENCE_FILE).read_bytes()
    assert (tmp_path / "again/report.md").read_bytes() == (record / "report.md").read_bytes()


def test_the_same_files_are_packed_to_the_same_bytes(results, tmp_path):
    copy = shutil.copytree(results, tmp_path / "copy")
    for path in copy.rglob("*"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o700)
    for folder, name in ((results, "one.zip"), (copy, "other.zip")):
        pack(folder, tmp_path / name, beside=("doctor.json",))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.namelist() == sorted(archive.namelist()) and "doctor.json" not in archive.namelist()


@pytest.mark.parametrize("use", [read_results, lambda record: rebuild_results(record, CLAIMS)])
def test_a_changed_and_a_missing_member_are_refused_with_what_to_do(record, use):
    epochs = members_of(record)[f"{RUN}/epochs.csv"]
    change(record, f"{RUN}/epochs.csv", epochs.replace(b"1", b"2", 1))
    cure = f"get the record's {EVIDENCE_FILE} again"
    with pytest.raises(RecordError, match=rf"{RUN}/epochs.csv: was changed after its experiment ended; {cure}"):
        use(record)
    change(record, f"{RUN}/epochs.csv", None)
    with pytest.raises(RecordError, match=rf"{RUN}/epochs.csv: is missing, though its experiment had it; {cure}"):
        use(record)
    with pytest.raises(RecordError, match=rf"{RUN}/epochs.csv: no such file; {cure}"):
        read_text(record / RUN / "epochs.csv")


def change_plan(**fields):
    return lambda plan: json.dumps(json.loads(plan) | fields).encode()


def turn_round(plan):
    """Exchange the runs of the first round."""
    one, other, *rest = json.loads(plan)["order"]
    return change_plan(order=[other, one, *rest])(plan)


@pytest.mark.parametrize(
    ("spoil", "said_now", "said_of_older"),
    [
        (lambda plan: None, "no such file", "no such file"),
        (lambda plan: plan[: len(plan) // 2], "was changed", "not readable as JSON"),
        (turn_round, "was changed", "does not match its experiment's experiment.json"),
        (change_plan(design="blocks of four"), "was changed", "does not match"),
        (change_plan(equivalence_margin=0.05), "was changed", "does not match"),
        (change_plan(quality_files={"judge.sh": "0"}), "was changed", None),  # which no older experiment repeats
    ],
)
def test_a_plan_that_is_missing_or_of_other_runs_is_refused(record, spoil, said_now, said_of_older):
    plan, experiment = f"{EXPERIMENT}/plan.json", json.loads(members_of(record)[f"{EXPERIMENT}/experiment.json"])
    change(record, plan, spoil(members_of(record)[plan]))
    with pytest.raises(RecordError, match=rf"{plan}: {said_now}.*; get the record's {EVIDENCE_FILE} again"):
        read_results(record)
    older = {key: value for key, value in experiment.items() if key not in ("plan", "seal")}
    change(record, f"{EXPERIMENT}/experiment.json", json.dumps(older).encode())
    if said_of_older is None:
        assert read_results(record).runs
        return
    with pytest.raises(RecordError, match=rf"{plan}: {said_of_older}.*; get the record's {EVIDENCE_FILE} again"):
        read_results(record)


def test_a_changed_experiment_or_one_more_is_not_what_the_comparison_was_made_of(record):
    experiment = members_of(record)[f"{EXPERIMENT}/experiment.json"]
    for name in (f"{EXPERIMENT}/experiment.json", "experiments/experiment-2/experiment.json"):
        change(record, name, experiment + b"\n")
        with pytest.raises(RecordError, match=rf"comparison.json: is out of date: .*{name} changed"):
            read_current_comparison(record)
        change(record, name, experiment if name.startswith(EXPERIMENT) else None)
    assert read_current_comparison(record)


def test_a_table_that_no_experiment_vouches_for_is_refused(record):
    change(record, f"{TRACE}/other.parquet", b"PAR1")
    with pytest.raises(RecordError, match=r"other.parquet: its experiment has no checksum of it"):
        read_whole_experiment(record / EXPERIMENT)


@pytest.mark.parametrize(
    "name", ["../planted.json", "/tmp/planted.json", "experiments/../../x", "a//b", "./a", "a\0b", "a\x1b[2J", ""]
)
def test_a_member_that_leads_elsewhere_is_refused(record, name):
    member = zipfile.ZipInfo("other")
    member.filename = name  # which it would change on its own
    with zipfile.ZipFile(record / EVIDENCE_FILE, "a") as archive:
        archive.writestr(member, b"{}")
    with pytest.raises(RecordError, match=r"evidence.zip: .*not a name of a file or folder; get the record's") as caught:
        list_experiments(record)
    assert str(caught.value).isprintable()


def test_a_name_that_stands_twice_is_refused(record):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(record / EVIDENCE_FILE, "a") as archive:
        archive.writestr(f"{EXPERIMENT}/experiment.json", b"{}")
    with pytest.raises(RecordError, match=rf"{EVIDENCE_FILE}: {EXPERIMENT}/experiment.json: is in it twice"):
        list_experiments(record)


def test_folders_as_other_programs_write_them_are_no_members(record):
    before = read_results(record).experiments
    members = members_of(record)
    write_members(record, {"experiments/": b"", f"{EXPERIMENT}/": b"", **members})
    assert read_results(record).experiments == before
    assert find_files(record, "experiments/*") == []


def test_the_same_evidence_in_the_archive_and_beside_it_is_refused(record):
    (record / "experiments").mkdir()
    with pytest.raises(
        RecordError, match=rf"{EVIDENCE_FILE}: holds experiments, which is beside it, too; remove one of the two"
    ):
        read_results(record)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression_is_refused(record, method):
    write_members(record, members_of(record), method)
    with pytest.raises(RecordError, match=r"is compressed by method \d+, not by deflate; get the record's"):
        read_results(record)


def test_an_encrypted_member_is_refused(record):
    content = bytearray((record / EVIDENCE_FILE).read_bytes())
    entry = content.index(b"PK\1\2")
    content[entry + 8] |= 1
    (record / EVIDENCE_FILE).write_bytes(content)
    with pytest.raises(RecordError, match=r"is encrypted; get the record's"):
        read_results(record)


def test_a_bomb_is_refused_before_anything_is_unpacked(record, monkeypatch):
    monkeypatch.setattr(evidence_archive, "LARGEST_MEMBER_MIB", 2)
    change(record, "doctor.json", bytes(3 * 2**20))
    with pytest.raises(RecordError, match=r"doctor.json: would unpack to more than 2 MiB"):
        read_diagnosis(record)
    monkeypatch.setattr(evidence_archive, "LARGEST_MEMBER_MIB", 4)
    monkeypatch.setattr(evidence_archive, "ALL_MEMBERS_MIB", 3)
    with pytest.raises(RecordError, match=rf"{EVIDENCE_FILE}: would unpack to more than 3 MiB"):
        read_diagnosis(record)
    monkeypatch.setattr(evidence_archive, "LARGEST_ARCHIVE_MIB", 0)
    with pytest.raises(RecordError, match=rf"{EVIDENCE_FILE}: larger than 0 MiB"):
        read_diagnosis(record)


def test_a_bomb_that_says_it_is_small_is_read_no_further_than_it_says(record):
    change(record, "doctor.json", bytes(2**20))
    content = bytearray((record / EVIDENCE_FILE).read_bytes())
    for mark, size in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        name = content.index(b"doctor.json", content.index(b"PK\1\2") if size == 24 else 0)
        struct.pack_into("<I", content, content.rindex(mark, 0, name) + size, 10)
    (record / EVIDENCE_FILE).write_bytes(content)
    with pytest.raises(RecordError, match=r"evidence.zip: doctor.json: Bad CRC-32"):
        read_diagnosis(record)


@pytest.mark.parametrize("what", ["a pipe", "a folder", "no archive", "cut off", "empty"])
def test_what_is_no_archive_is_refused_in_one_line_and_not_waited_for(record, what):
    archive = record / EVIDENCE_FILE
    content = archive.read_bytes()
    archive.unlink()
    if what == "a pipe":
        os.mkfifo(archive)
    elif what == "a folder":
        archive.mkdir()
    else:
        archive.write_bytes({"no archive": b"PK\3\4 but not really", "cut off": content[:-100], "empty": b""}[what])
    with pytest.raises(RecordError, match=rf"{EVIDENCE_FILE}: not a (regular|readable ZIP) file.*; get the record's") as caught:
        read_results(record)
    assert "\n" not in str(caught.value)


def test_a_link_to_an_archive_elsewhere_is_not_followed(record, tmp_path):
    (record / EVIDENCE_FILE).rename(tmp_path / "other.zip")
    (record / EVIDENCE_FILE).symlink_to(tmp_path / "other.zip")
    with pytest.raises(RecordError, match=rf"{EVIDENCE_FILE}: leads out of"):
        read_results(record)


def test_any_flipped_byte_is_refused_or_changes_nothing(record):
    content = (record / EVIDENCE_FILE).read_bytes()
    sound = read_results(record)
    for place in range(7, len(content), len(content) // 60):
        flipped = bytearray(content)
        flipped[place] ^= 0x41
        (record / EVIDENCE_FILE).write_bytes(flipped)
        try:
            found = read_results(record)
        except RecordError as error:
            assert str(error).isprintable()
        else:
            assert [run.run for run in found.runs] == [run.run for run in sound.runs]


def test_an_archive_is_opened_once_and_again_when_it_is_another(record, monkeypatch):
    opening = zipfile.ZipFile
    count = []
    monkeypatch.setattr(evidence_archive.zipfile, "ZipFile", lambda *words: count.append(words) or opening(*words))
    read_results(record)
    read_results(record)
    assert len(count) == 1
    monkeypatch.undo()
    change(record, "doctor.json", json.dumps({"schema_version": 1, "findings": []}).encode())
    assert read_diagnosis(record).findings == []


def test_a_forked_process_reads_by_itself(record):
    """Both share one place in an open file: what one reads would move the other's."""
    assert read_results(record).runs
    child = os.fork()
    if not child:
        for _ in range(3):
            read_whole_experiment(record / EXPERIMENT)
        os._exit(0)
    for _ in range(3):
        read_whole_experiment(record / EXPERIMENT)
    assert os.waitpid(child, 0)[1] == 0


def test_a_folder_without_an_archive_is_not_looked_for_elsewhere(results, tmp_path):
    (tmp_path / EVIDENCE_FILE).write_bytes(b"another program's")
    folder = shutil.copytree(results, tmp_path / "inner" / "results")
    assert find_archive(folder / RUN / "run.json") is None
    assert len(read_results(folder).runs) == len(read_results(results).runs)
    with pytest.raises(RecordError, match="no such file"), opened(folder / RUN / "none.json"):
        pass
