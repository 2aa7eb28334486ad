import os
import shutil
from pathlib import Path

import pytest

from speedproof.common.errors import RecordError
from speedproof.report.overview import BEGIN, END, tabulate_records, update_readme

ROOT = Path(__file__).parents[2]


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
        "spleen",
        "Baseline (profiling) 1.48 s, Fast (profiling) 1.08 s",
        "4 undecided, 6 not comparable, 37 not measured",
        "[2026-11-21-h200](records/2026-11-21-h200/report.md)",
    ]


def test_a_pipe_is_no_readme_and_not_waited_for(records, tmp_path):
    os.mkfifo(tmp_path / "README.md")
    with pytest.raises(RecordError, match="not a regular file"):
        update_readme(tmp_path / "README.md", records)


def test_the_table_takes_its_place_between_the_marks(records, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{BEGIN}\nan older table\n{END}\n\nafter\n")
    update_readme(readme, records)
    assert readme.read_text() == f"before\n\n{BEGIN}\n{tabulate_records(records)}{END}\n\nafter\n"


def test_a_readme_without_marks_is_left_alone(records, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks\n")
    with pytest.raises(RecordError, match="needs a line"):
        update_readme(readme, records)
    assert readme.read_text() == "no marks\n"


def test_the_readme_of_the_checkout_has_the_table_of_its_records(tmp_path):
    copy = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", copy)
    update_readme(copy, ROOT / "records")
    assert copy.read_text() == (ROOT / "README.md").read_text(), "run `speedproof records --readme README.md`"
