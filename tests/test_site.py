"""The pages of the site: copied with what they link to, the reference made of the code."""

import json
import re
import tomllib
from typing import get_args

import pytest

from docs.build import collect_pages, list_evidence
from docs.live import show_pages
from docs.pictures import CALLOUTS, PICTURES
from docs.reference import name_type, write_reference
from docs.verdict_schema import SCHEMA, write_schema
from speedproof.config.model import Config
from speedproof.results.comparison_rows import ObjectionKind
from speedproof.results.trace_results import LargestTerm
from speedproof.run.proof.verdict import STATUS, Judged, JudgedObjection, MeasuredVariant, Verdict
from speedproof.stats.metrics import METRICS
from tests.chromium import Chromium, find_chromium
from tests.workflow.checkout import ROOT


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The pages of the site, of which the reference is made elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    collect_pages(folder)
    (folder / "docs/reference.md").touch()
    return folder


def test_the_site_names_pages_that_there_are(made):

    def list_pages(entries):
        for entry in entries:
            for value in entry.values():
                yield from list_pages(value) if isinstance(value, list) else [value]

    named = list(list_pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert [name for name in named if not (made / name).is_file()] == []
    assert {"CITATION.cff", "src/speedproof/marks.py"} <= {path.relative_to(made).as_posix() for path in made.rglob("*")}


def test_the_search_leaves_out_evidence_and_no_guide(made):
    excluded = {
        path.relative_to(made).as_posix()
        for path in made.rglob("*.md")
        if path.read_text(encoding="utf-8").startswith("---\nsearch:\n  exclude: true\n---\n\n")
    }
    records = {
        path.relative_to(ROOT).as_posix()
        for path in (*ROOT.glob("records/*/report.md"), *ROOT.glob("ledger/records/*/report.md"))
    }
    assert len(records) > 5
    assert {name for name in excluded if not name.startswith("tests/")} == records | set(list_evidence())
    assert {path.relative_to(made).as_posix() for path in (made / "tests").rglob("*.md")} <= excluded
    assert {"docs/adversary.md", "docs/records.md"} <= excluded and "docs/checks.md" not in excluded


def test_pages_explain_the_words_of_the_glossary_that_they_use(made):
    pages = {path.relative_to(made).as_posix(): path.read_text(encoding="utf-8") for path in made.rglob("*.md")}
    assert "\n*[idle gaps]: a stretch of time without GPU work\n" in pages["docs/report.md"]
    assert "\n*[round]: each variant once, in random order, with the same seed\n" in pages["docs/checks.md"]
    assert "*[idle gap]" not in pages["docs/container.md"]  # which does not use it
    explaining = {name for name, text in pages.items() if re.search(r"^\*\[", text, re.MULTILINE)}
    assert not explaining & {"docs/glossary.md", *list_evidence()}
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    assert "abbr" in site["markdown_extensions"] and all((made / sheet).is_file() for sheet in site["extra_css"])


def test_how_to_read_a_report_explains_each_number_of_its_picture():
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", read_page("report.md"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(CALLOUTS) + 1))
    named = {part.strip("*") for _, part in rows if part.startswith("*")}
    assert all(any(name in callout.element for callout in CALLOUTS) for name in named) and len(named) == 6


def test_pictures_are_small_shown_and_from_records_that_are_there():
    pages = "".join(read_page(page.name) for page in (ROOT / "docs").glob("*.md")) + (ROOT / "README.md").read_text("utf-8")
    for name, picture in PICTURES.items():
        assert (ROOT / f"docs/{name}.webp").stat().st_size < 150_000 and re.search(rf"\]\((docs/)?{name}\.webp\)", pages)
        assert picture.record is None or (ROOT / "records" / picture.record / "report.md").is_file()


def test_pages_to_try_show_a_speedup_a_number_not_reproduced_and_an_open_question():
    rows = re.findall(r"^\| \[.+?\]\(\.\./records/(.+?)/report\.md\) \| (.+?) \|", read_page("live.md"), re.MULTILINE)
    assert [outcome for _, outcome in rows] == ["faster", "not reproduced here", "inconclusive"]
    for record, outcome in rows:
        badges = re.search(r"^`.*$", (ROOT / "records" / record / "report.md").read_text(encoding="utf-8"), re.MULTILINE)
        assert badges is not None and outcome in badges[0]
    faster = (ROOT / "records" / rows[0][0] / "report.md").read_text(encoding="utf-8")
    assert "- **Why**: Turbo (ours) takes" in faster


def test_a_link_to_a_report_becomes_one_to_its_page_with_the_size(tmp_path):
    document = tmp_path / "live.md"
    document.write_text("See [this](../records/2026-11-24-cpu-polyp-tensorflow/report.md), [that](../records.md).\n")
    show_pages(document)
    (page,) = (tmp_path / "live").iterdir()
    size = f"{page.stat().st_size / 1e6:.1f} MB"
    assert document.read_text() == f"See [this](live/2026-11-24-cpu-polyp-tensorflow.html) ({size}), [that](../records.md).\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_long_table_has_a_field_that_filters_its_rows(tmp_path):
    rows = "".join(f"<tr><td>row {number}</td><td>{'GPU' if number % 2 else 'CPU'}</td></tr>" for number in range(20))
    table = "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>{}</tbody></table>"
    script = (ROOT / "docs/filter.js").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    tables = table.format(rows) + table.format("<tr><td>1</td></tr>")
    page.write_text(f"<div class=md-typeset>{tables}</div><script>{script}</script>")
    with Chromium(find_chromium(), tmp_path / "profile") as browser:
        browser.open(page)
        assert browser.evaluate("document.querySelectorAll('.rows-filter').length") == 1
        browser.evaluate("document.querySelector('.rows-filter').focus()")
        browser.type("gpu 1")
        shown = "[...document.querySelectorAll('tbody tr:not([hidden])')].map((row) => row.cells[0].textContent).join()"
        assert browser.evaluate(shown) == "row 1,row 11,row 13,row 15,row 17,row 19,1"
        assert browser.evaluate("document.querySelector('[role=status]').textContent") == " 6 of 20 rows"
        assert not browser.problems


def test_every_workload_has_a_line_in_their_list():
    listed = (ROOT / "workloads/README.md").read_text()
    folders = [path.parent.name for path in (ROOT / "workloads").glob("*/workload.yaml")]
    assert len(folders) >= 5
    assert [name for name in folders if f"[{name}]({name}/README.md)" not in listed] == []


def test_the_reference_has_commands_keys_and_statuses_of_the_code(tmp_path):
    write_reference(tmp_path / "reference.md")
    text = (tmp_path / "reference.md").read_text()
    assert "### speedproof prove" in text and "| `--claim` |" in text
    assert "| `--rounds` | int |  |" in text and "| `--isolate` | flag |" in text
    assert f'| `results` | string | `"{Config.model_fields["results"].default}"` |' in text
    assert "| `measurement.pairs` | list of array | `[]` |" in text
    assert "| `measurement.rounds` |" in text and "`completed" not in text
    assert "| claim fails | 1 |" in text and "| inconclusive | 2 |" in text
    assert "### comparison.json" in text


def read_page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "heading"),
    [
        (Verdict, "The verdict"),
        (MeasuredVariant, "A variant"),
        (Judged, "A candidate"),
        (LargestTerm, "A term"),
        (JudgedObjection, "An objection"),
    ],
)
def test_the_page_of_the_verdict_has_each_field_with_its_type_in_order(model, heading):
    section = read_page("verdict-schema.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    schema = model.model_json_schema()
    # Of a list of values the page names the type; what they mean is in its third column.
    types = {"enum": "string", "const": "integer"}
    expected = []
    for field, key in schema["properties"].items():
        plain = [{"type": types[word]} for one in key.get("anyOf", [key]) for word in types if word in one]
        whole = {"anyOf": [*plain, *[one for one in key.get("anyOf", []) if not types.keys() & one.keys()]]} if plain else key
        expected.append((field, name_type(whole, schema.get("$defs", {}))))
    assert re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section, re.MULTILINE) == expected


def test_the_page_of_the_verdict_has_each_outcome_and_its_status():
    section = read_page("verdict-schema.md").partition("## Outcomes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| (\d) \|", section, re.MULTILINE)
    assert {outcome: int(status) for cell, status in rows for outcome in re.findall(r"`(.+?)`", cell)} == STATUS


def test_the_schema_of_the_verdict_is_that_of_the_code(tmp_path):
    write_schema(tmp_path / "made.json")
    assert json.loads(SCHEMA.read_text()) == json.loads((tmp_path / "made.json").read_text()), "python -m docs.verdict_schema"


def test_what_now_names_every_kind_of_objection():
    page = read_page("inconclusive.md")
    assert [kind for kind in get_args(ObjectionKind) if f"`{kind}`" not in page] == []


def test_which_metric_names_every_metric_that_can_be_compared():
    page = read_page("which-metric.md")
    named = [name for name, metric in METRICS.items() if metric.compared and metric.judged]
    assert len(named) > 5
    assert [name for name in named if f"| `{name}` |" not in page] == []
