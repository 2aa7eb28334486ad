import os
import shutil
from pathlib import Path

import pytest

from speedproof.report.records_overview import BEGIN, END, tabulate_cases, tabulate_records, update_readme
from speedproof.util.errors import RecordError
from tests.report.conftest import make_results
from tests.report.example import Example

ROOT = Path(__file__).parents[2]
MARKS = BEGIN.format(part="records"), END.format(part="records")


@pytest.fixture(scope="module")
def records(gpu_results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview") / "records"
    shutil.copytree(gpu_results, folder / "2026-11-21-h200")
    return folder


def test_a_record_is_a_row(records):
    row = tabulate_records(records).splitlines()[2].replace("\N{NO-BREAK SPACE}", " ")
    assert [cell.strip() for cell in row.strip("|").split(" | ")] == [
        "2026-11-21",
        "NVIDIA H200",
        "synthetic",
        "spleen",
        "MONAI baseline script 1.48 s, MONAI fast script 1.08 s",
        "4 inconclusive, 6 not comparable, 38 not measured",
        "[2026-11-21-h200](records/2026-11-21-h200/report.md)",
    ]


def test_a_pipe_is_no_readme_and_not_waited_for(records, tmp_path):
    os.mkfifo(tmp_path / "README.md")
    with pytest.raises(RecordError, match="not a regular file"):
        update_readme(tmp_path / "README.md", records)


def test_the_table_takes_its_place_between_the_marks(records, tmp_path):
    readme = tmp_path / "README.md"
    begin, end = MARKS
    readme.write_text(f"before\n\n{begin}\nan older table\n{end}\n\nafter\n")
    update_readme(readme, records)
    link = os.path.relpath(records, tmp_path)
    assert readme.read_text() == f"before\n\n{begin}\n{tabulate_records(records, link=link)}{end}\n\nafter\n"


def test_records_and_cases_have_places_of_their_own(records, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("".join(f"{BEGIN.format(part=part)}\n{END.format(part=part)}\n" for part in ("cases", "records")))
    for day in ("22", "23"):
        (tmp_path / "many" / f"2026-11-{day}-h200").parent.mkdir(exist_ok=True)
        (tmp_path / "many" / f"2026-11-{day}-h200").symlink_to(records / "2026-11-21-h200")
    update_readme(readme, tmp_path / "many", "r")
    cases, listed = readme.read_text().split(END.format(part="cases"))
    assert [day for day in ("22", "23") if f"(r/2026-11-{day}-h200/report.md)" in listed] == ["22", "23"]
    assert "2026-11-23-h200" in cases and "2026-11-22-h200" not in cases  # a claim is judged once, by the newest record


def list_cells(table):
    rows = [line.replace("\N{NO-BREAK SPACE}", " ") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_a_case_is_a_claim_what_was_measured_how_many_conditions_differ_and_the_outcome(records):
    (cells,) = (row for row in list_cells(tabulate_cases(records)) if "Training + validation epoch" in row[0])
    assert cells[1] == "2.6–3.1×, one V100 of a DGX-2"
    assert cells[2].endswith("NVIDIA H200") and cells[3].isdecimal()
    assert cells[4] == "[inconclusive: a verdict needs 4 pairs](records/2026-11-21-h200/report.md)"


def mark_cases(groups):
    return BEGIN.format(part="cases").replace(" -->", f"\n{groups}-->\n") + END.format(part="cases") + "\n"


def test_a_mark_chooses_the_cases_by_group(records, tmp_path):
    readme = tmp_path / "README.md"
    groups = "Whole epochs: [profiling_validation_epoch_ratio]\n"
    groups += "Profiling: [profiling_training_epoch_ratio, profiling_training_epoch_ratio_figure]\n"
    readme.write_text(f"before\n{mark_cases(groups)}after\n")
    for _ in range(2):  # the second time changes nothing
        update_readme(readme, records)
        text = readme.read_text()
        _, _, *rows = list_cells(text)
        assert [row[0] for row in rows] == ["Whole epochs", "Profiling", ""]
        assert [row[2] for row in rows] == [
            "2.6–3.1×, one V100 of a DGX-2", "1.7–2.3×, one V100 of a DGX-2", "about 2.1× ± 5 %, one V100 of a DGX-2"
        ]  # fmt: skip
        assert text.startswith("before\n<!-- cases: ") and text.endswith("after\n") and groups in text


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("Profiling: [no_such_claim]\n", "no record in .* judged no_such_claim"),
        ("Profiling\n", "needs lines"),
        ("a: [\n", "needs lines"),
    ],
)
def test_a_choice_of_cases_that_is_wrong_is_refused(records, tmp_path, groups, said):
    readme = tmp_path / "README.md"
    readme.write_text(mark_cases(groups))
    with pytest.raises(RecordError, match=said):
        update_readme(readme, records)
    assert readme.read_text() == mark_cases(groups)


@pytest.mark.parametrize("few", [1, 2])
def test_a_case_is_taken_from_a_newer_record_only_where_that_has_the_pairs_of_a_verdict(tmp_path, few):
    for day, rounds in (("21", 4), ("22", few)):
        make_results(tmp_path / f"2026-11-{day}-h200", Example(modes=("timed",), rounds=rounds))
    assert "2026-11-22" not in tabulate_cases(tmp_path) and "2026-11-21" in tabulate_cases(tmp_path)


@pytest.mark.parametrize("spoilt", ["{begin}\n", "{end}\n{begin}\n", "{begin}\n{begin}\n{end}\n"])
def test_marks_that_are_not_a_pair_are_refused(records, tmp_path, spoilt):
    readme = tmp_path / "README.md"
    begin, end = MARKS
    readme.write_text(spoilt.format(begin=begin, end=end))
    with pytest.raises(RecordError, match="each once; mend them"):
        update_readme(readme, records)


def test_a_readme_without_marks_is_left_alone(records, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks\n")
    with pytest.raises(RecordError, match="needs a line"):
        update_readme(readme, records)
    assert readme.read_text() == "no marks\n"


@pytest.mark.parametrize("document", ["README.md", "docs/records.md"])
def test_a_document_of_the_checkout_has_the_tables_of_its_records(tmp_path, document):
    copy = tmp_path / "copy.md"
    shutil.copy(ROOT / document, copy)
    update_readme(copy, ROOT / "records", os.path.relpath(ROOT / "records", (ROOT / document).parent))
    assert copy.read_text() == (ROOT / document).read_text(), f"run `speedproof results list --readme {document}`"
