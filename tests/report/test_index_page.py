"""The page on several results: a row for each, which a browser sorts and filters."""

import re
import shutil
from urllib.parse import unquote

import pytest

from speedproof.report.index_page import write_index
from tests.report.pages import Page
from tests.report.test_accessibility import AXE, SERIOUS

HEADINGS = ["Result", "Outcome", "Documented", "Ratio", "95 % interval", "Quality", "Machine", "Data", "Date"]


@pytest.fixture(scope="module")
def index(gpu_results, cpu_results, tmp_path_factory):
    """The page on a result with a GPU, its copy that lost its report, and one without a GPU."""
    folder = tmp_path_factory.mktemp("index")
    for name, results in (("a gpu", gpu_results), ("cpu", cpu_results), ("no-report", gpu_results)):
        shutil.copytree(results, folder / "all" / name)
    for name in ("report.html", "report.md"):
        (folder / "all/no-report" / name).unlink()
    return write_index({path: path.name for path in sorted((folder / "all").iterdir())}, folder)


def list_rows(browser):
    cells = "[...document.querySelector('tbody').rows].filter((row) => !row.hidden).map((row) => [...row.cells].map("
    return browser.evaluate(f"{cells}(cell) => cell.textContent.replace(/\\s+/g, ' ').trim()))")


@pytest.fixture
def opened(browser, index):
    def open_page(width=1440, scheme="light"):
        browser.look(width, 900, scheme)
        browser.open(index)
        return browser

    yield open_page
    assert (browser.problems, browser.requests) == ([], [index.as_uri()])


def test_a_row_is_the_main_finding_of_a_result(opened):
    page = opened()
    assert page.evaluate("[...document.querySelectorAll('th')].map((one) => one.textContent)") == HEADINGS
    (row,) = (row for row in list_rows(page) if "a gpu" in row[0])
    assert row[0] == "MONAI fast script against MONAI baseline script training epoch · spleen · a gpu"
    assert row[1] == "faster" and row[3] == "1.37×"
    assert row[2].startswith("1.7–2.3×") and row[6:] == ["NVIDIA H200", "synthetic", "2026-11-21"]


def test_a_row_leads_to_its_report_if_there_is_one(index):
    links = [unquote(values["href"]) for tag, values in Page(index.read_text(encoding="utf-8")).tags if tag == "a"]
    assert links == ["all/a gpu/report.html", "all/cpu/report.html"]
    assert all((index.parent / link).is_file() for link in links)


def test_a_click_on_a_heading_sorts_by_number_and_again_the_other_way(opened):
    page = opened()
    heading = "document.querySelectorAll('th')[3]"
    orders = []
    for order in ("ascending", "descending"):
        page.evaluate(f"{heading}.firstChild.click()")
        assert page.evaluate(f"{heading}.ariaSort") == order
        orders.append([float(row[3].rstrip("×")) for row in list_rows(page) if row[3] != "–"])
    assert orders == [sorted(orders[0]), sorted(orders[0], reverse=True)] and len(orders[0]) == 3
    assert page.evaluate("[...document.querySelectorAll('th')].filter((one) => one.ariaSort !== 'none').length") == 1


def test_the_filter_keeps_the_rows_with_all_its_words(opened):
    page = opened()
    page.evaluate("document.getElementById('filter').focus()")
    page.type("NVIDIA gpu")
    assert [row[0].rpartition(" · ")[2] for row in list_rows(page)] == ["a gpu"]
    assert page.evaluate("document.querySelector('[role=status]').textContent") == "1 of 3 shown"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 800, 1440])
def test_it_fits_and_has_no_serious_finding(opened, width, scheme):
    page = opened(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('.table'))") == 0
    page.evaluate(AXE.read_text(encoding="utf-8") + "\n0")
    assert page.evaluate(SERIOUS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_outcome_has_the_colour_of_its_tone(opened, scheme):
    page = opened(scheme=scheme)
    colours = "[...document.querySelectorAll('{}')].map((part) => getComputedStyle(part).color)"
    said = page.evaluate(colours.format(".said:is(.good, .bad, .open)"))
    assert said and page.evaluate(colours.format("body"))[0] not in said


def test_names_are_shown_and_not_run(gpu_results, tmp_path):
    hostile = "<img src=x onerror=alert(1)>"
    shutil.copytree(gpu_results, tmp_path / hostile)
    page = Page(write_index({tmp_path / hostile: hostile}, tmp_path).read_text(encoding="utf-8"))
    assert hostile in page.text and page.count("img") == 0
    (link,) = (values["href"] for tag, values in page.tags if tag == "a")
    assert "<" not in link and unquote(link) == f"{hostile}/report.html"


def test_the_command_finds_results_below_a_folder_and_a_proofs(index, speedproof_here, tmp_path):
    shutil.copytree(index.parent / "all/cpu", tmp_path / "proof/results")
    (tmp_path / "proof/verdict.json").write_text("{}")
    told = speedproof_here(
        "results", "report", "--index", index.parent / "all", "--index", tmp_path, "--out", tmp_path / "site"
    )
    assert (told.returncode, told.stdout.split()) == (0, ["Index", "of", "4", "results:", str(tmp_path / "site/index.html")])
    page = Page((tmp_path / "site/index.html").read_text(encoding="utf-8"))
    assert "../proof/results/report.html" in [values.get("href") for _, values in page.tags]
    assert re.search(r" · proof\s", page.text)


def test_a_folder_without_results_is_refused(speedproof_here, tmp_path):
    told = speedproof_here("results", "report", "--index", tmp_path)
    assert told.returncode != 0
    assert f"{tmp_path}: no comparison.json or verdict.json there or one folder below" in told.stderr
    told = speedproof_here("results", "report", "--index", tmp_path, "--from", tmp_path)
    assert "give --from or --index, not both" in told.stderr
