"""What somebody else's record calls things reaches a page as text, whatever it holds, and a figure too."""

import json

import pytest

from speedproof.report.figures.figure_data import read_evidence
from speedproof.results.folder import read_results
from speedproof.run.archive.rebuild import compare_results, rebuild_report
from tests.chromium import Chromium, find_chromium
from tests.report.example import CLAIMS, Example, vouch_again, write_example
from tests.report.pages import Page, find_live

HOSTILE = "![a](/etc/passwd) <img src=x onerror=alert(1)> [b](javascript:c) | $\\frac{$ \x1b[31m \u202e `d`\n# e"
SHOWN = "![a](/etc/passwd) <img src=x onerror=alert(1)> [b](javascript:c) | $\\frac{$ \\x1b[31m \\u202e `d` # e"
LONG = "A" * 10_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A results folder in which whatever may be called freely is called so, with its report."""
    results = write_example(tmp_path_factory.mktemp("hostile") / "results", Example(experiments=1, rounds=1, modes=("timed",)))
    for path in [*results.glob("experiments/*/runs/*/run.json"), results / "experiments/experiment-1/experiment.json"]:
        record = json.loads(path.read_text())
        texts = ("cpu", "python", "cuda", "cudnn", "dataset", "dataset_name", "image", "git_commit", "sources")
        record["conditions"] |= dict.fromkeys(texts, HOSTILE) | {"packages": {HOSTILE: HOSTILE}}
        record["conditions"]["gpu"] |= {"name": HOSTILE, "driver": HOSTILE}
        if "techniques" in record:
            record["techniques"]["title"] = f"{record['variant']} $\\frac{{$ {HOSTILE}{LONG * (record['variant'] == 'fast')}"
            record["warnings"] = [HOSTILE]
        path.write_text(json.dumps(record))
    vouch_again(results)
    compare_results(read_results(results), CLAIMS)
    rebuild_report(read_evidence(results), results)
    return results


def test_no_field_of_a_record_becomes_markup_or_commands_a_terminal(hostile):
    text = (hostile / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not any(character in text for character in "\x1b\u202e")
    assert find_live(page) == []
    assert [tag for tag, _ in page.tags].count("h1") == 1
    said = " ".join(page.text.split())
    for field in ("commit {}, digest", "Python{}"):
        assert field.replace("{}", SHOWN) in said
    assert said.count(SHOWN) > 15


def test_a_title_that_is_no_formula_is_drawn(hostile):
    assert "\\frac{$" in (hostile / "figures/epoch_times.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [420, 1440])
def test_in_a_browser_nothing_of_it_runs_and_no_layout_breaks(hostile, width, tmp_path):
    with Chromium(find_chromium(), tmp_path / "profile") as page:
        page.look(width, 900)
        page.open(hostile / "report.html")
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        page.settle()
        assert page.problems == [] and page.requests == [(hostile / "report.html").as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for part in ("h1", ".forest"):
            assert 0 < page.evaluate(f"document.querySelector('{part}').getBoundingClientRect().bottom") < 900
        parts = "[...document.querySelectorAll('p, li, h1, h2, .table, .bar')]"
        assert page.evaluate(f"{parts}.filter((part) => part.getBoundingClientRect().right > {width}).length") == 0
        assert page.evaluate("[...document.querySelectorAll('tbody tr')].every((row) => row.clientHeight < 900)")


@pytest.mark.parametrize(
    "planted",
    [
        "<script>alert(1)</script>",
        '<script type="module" src="x.js"></script>',
        "<p onclick=x>",
        '<a href="javascript:x">y</a>',
        "<img src=x>",
        '<meta http-equiv="refresh" content="0; url=x">',
        '<link rel="stylesheet" href="x.css">',
        '<svg><a xlink:href="javascript:x"></a></svg>',
    ],
)
def test_what_is_planted_would_be_found(planted):
    assert find_live(Page(f"<p>{planted}</p>"))
    assert not find_live(Page("<p>a <a href='#b'>c</a></p>"))
