"""What axe-core finds in the pages: nothing serious, in light and dark, on a phone and on a desk."""

import hashlib
from pathlib import Path

import pytest

from tests.trace.handmade import two_epochs

AXE = Path(__file__).parent / "axe/axe.min.js"  # its README says whose it is, and where it comes from
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
SERIOUS = """axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations
  .filter(({impact}) => impact === 'serious' || impact === 'critical')
  .flatMap(({id, nodes}) => nodes.map(({html, failureSummary}) => [id, html.slice(0, 200), failureSummary])))"""


def list_findings(browser, page, width, scheme):
    browser.look(width, 900, scheme)
    browser.open(page)
    browser.wait("document.querySelector('.timeline').dataset.ready")
    browser.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    browser.evaluate(AXE.read_text(encoding="utf-8") + "\n0")
    assert browser.evaluate("axe.version") == "4.14.1"
    assert (browser.problems, browser.requests) == ([], [page.as_uri()])
    return browser.evaluate(SERIOUS)


def test_the_checker_is_the_one_that_was_published():
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize(("width", "scheme"), [(420, "light"), (1440, "dark")])
def test_a_report_has_no_serious_finding(browser, gpu_results, width, scheme):
    assert list_findings(browser, gpu_results / "report.html", width, scheme) == []


@pytest.mark.parametrize(("width", "scheme"), [(420, "dark"), (1440, "light")])
def test_the_page_of_a_pair_of_traces_has_none(browser, speedproof_here, tmp_path, width, scheme):
    trace = two_epochs().write(tmp_path / "trace")
    assert speedproof_here("trace", "diff", trace, trace, "--out", tmp_path).returncode == 0
    assert list_findings(browser, tmp_path / "report.html", width, scheme) == []


def test_a_finding_would_be_seen(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><html lang=en><title>t</title><div class=timeline data-ready=1><button></button></div>")
    assert [name for name, *_ in list_findings(browser, page, 1440, "light")] == ["button-name"]
