"""The page on reliability is made of what tests saw: no row without content, none that failed without a word."""

import pytest

from tests.faults.document import merge_rows, write_document
from tests.faults.rows import Row, shorten_paths

SEEN = Row("data", "a | fault", "no room", "3", "all", "ends in the undisturbed result", 2)


def write_results(file, *cases):
    """Write a results file of pytest's, of rows and how their tests ended."""
    lines = []
    for row, ending in cases:
        items = "".join(f'<property name="{name}" value="{value}"/>' for name, value in [*row.properties(), ("machine", "M")])
        lines.append(f'<testcase name="t" time="1.5"><properties>{items}</properties>{ending}</testcase>')
    file.write_text(f'<testsuites><testsuite timestamp="2026-11-22T10:00:00">{"".join(lines)}</testsuite></testsuites>')
    return file


def test_a_row_holds_what_its_test_saw_and_the_day(tmp_path):
    page = write_document(merge_rows([write_results(tmp_path / "a.xml", (SEEN, ""))]))
    assert "| a \\| fault | no room | 3 | all | ends in the undisturbed result | 2 |" in page
    assert "Seen 2026-11-22 on M: **1 rows, 2 faults; 1 rows held**." in page


def test_a_command_that_was_cut_off_opens_no_code(tmp_path):
    cut = Row("data", "a fault", "`x`: run `speedproof re…", "3", "all", "the same", 1)
    page = write_document(merge_rows([write_results(tmp_path / "a.xml", (cut, ""))]))
    assert "| `x`: run speedproof re… |" in page


def test_a_row_that_did_not_hold_says_so(tmp_path):
    failed = (SEEN, '<failure message="AssertionError: lost it at /home/me/x/y"/>')
    page = write_document(merge_rows([write_results(tmp_path / "a.xml", failed)]))
    assert "**did not hold**: AssertionError: lost it at …/y" in page
    assert "0 rows held**, 1 did not" in page


def test_a_row_with_an_empty_field_is_refused(tmp_path):
    empty = Row("data", "another", "no room", "3", "", "ends in the undisturbed result", 1)
    with pytest.raises(SystemExit, match=r"another: .*kept"):
        write_document(merge_rows([write_results(tmp_path / "a.xml", (SEEN, ""), (empty, ""))]))


def test_a_test_that_made_no_row_is_named(tmp_path):
    page = write_document(merge_rows([write_results(tmp_path / "a.xml", (SEEN, ""))]), ["t", "test_other[x]"])
    assert "Tests that made no row there: `test_other[x]`." in page


def test_no_row_at_all_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="there is none"):
        write_document(merge_rows([write_results(tmp_path / "a.xml")]))


def test_a_later_file_replaces_rows_of_an_earlier_one(tmp_path):
    later = Row("data", "a | fault", "something else", "3", "all", "ends in the undisturbed result", 1)
    files = [write_results(tmp_path / "a.xml", (SEEN, "")), write_results(tmp_path / "b.xml", (later, ""))]
    assert [one.row.said for one in merge_rows(files)] == ["something else"]


def test_paths_are_cut_to_their_last_part():
    assert shorten_paths("x: /tmp/a/b.json: gone; see data/c.csv") == "x: …/b.json: gone; see data/c.csv"
