"""What `prove` and `load` return: numbers, a table, a page, and what a notebook shows."""

from html.parser import HTMLParser

import pytest

import speedproof
from speedproof.results.comparison import read_comparison
from tests.library.conftest import COMMANDS, READ
from tests.workflow.checkout import ROOT


class Cells(HTMLParser):
    """Collects the tags and the texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_a_proof_s_folder_is_loaded_as_it_was_found_with_a_row_for_each_variant_and_metric(proof):
    for folder in ("results/proof", "results/proof/results"):
        loaded = speedproof.load(folder)
        assert (loaded.outcome, loaded.ratio, loaded.interval, loaded.sentence) == (
            proof.outcome, proof.ratio, proof.interval, proof.sentence,
        )  # fmt: skip
        assert loaded.to_frame().equals(proof.to_frame())
    frame = proof.to_frame().set_index(["metric", "variant"])
    assert frame.index.is_unique
    slow, fast = (frame.loc[("training_epoch_s", name)] for name in ("A (sh slow.sh)", "B (sh fast.sh)"))
    assert (slow["unit"], slow["runs"], fast["pairs"], fast["outcome"]) == ("s", 6, 6, "faster")
    assert (fast["ratio"], fast["ratio_low"], fast["ratio_high"]) == (proof.ratio, *proof.interval)
    assert slow["centre"] / fast["centre"] == pytest.approx(proof.ratio)
    assert slow[["ratio", "outcome"]].isna().all()
    assert proof.to_frame("profiled").empty


def test_a_rate_s_ratio_is_above_one_for_the_faster_variant(record):
    frame = speedproof.load(record).to_frame().query("experiment == 'experiment-1'").set_index(["metric", "variant"])
    time_s, rate = (frame.loc[(metric, "Turbo (ours)")] for metric in ("training_epoch_s", "samples_per_s"))
    assert rate["ratio"] == pytest.approx(time_s["ratio"]) and rate["ratio"] > 28
    # A share is held as one, whatever `%` is written behind it.
    profiled = speedproof.load(record).to_frame("profiled").set_index(["metric", "variant"])
    busy = profiled.loc[("gpu_busy_fraction", "Our fast script")]
    assert (busy["unit"], busy["centre"] < 1) == ("fraction", True)


def test_several_candidates_have_a_ratio_each(place, measured):
    result = speedproof.prove(*COMMANDS, "sh fast.sh --again", **READ)
    assert [round(one.ratio) for one in result.candidates] == [2, 2]
    assert (result.outcome, len(result.to_frame("timed")["variant"].unique())) == ("faster", 3)
    for name in ("ratio", "interval", "objections"):
        with pytest.raises(speedproof.SpeedproofError, match="2 candidates have a ratio each"):
            getattr(result, name)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "records").iterdir()))
def test_every_record_is_loaded_with_its_report_s_main_ratio(name):
    result = speedproof.load(ROOT / "records" / name)
    report = (ROOT / "records" / name / "report.md").read_text()
    comparison = read_comparison(ROOT / "records" / name / "comparison.json")
    assert len(result.to_frame()) == sum(level.mode == "timed" for level in comparison.measured)
    if result.ratio is None:
        assert (result.outcome, result.candidates) == ("nothing to compare", [])
        return
    assert result.interval is None or result.interval[0] <= result.ratio <= result.interval[1]
    assert result.candidates[0].name in report
    if result.outcome == "faster":
        assert result.ratio > 1 and "Inconclusive" not in result.sentence
    assert result.candidates[0].sentence.partition(" on this machine")[0] in result.sentence


def test_a_page_is_written_as_one_file_unless_the_folder_holds_another_proof_by_now(proof, place):
    page = proof.report("pages.html")
    assert page.read_bytes() == (place / "results/proof/results/report.html").read_bytes()
    assert [path.name for path in place.glob("pages*")] == ["pages.html"]
    with pytest.raises(speedproof.SpeedproofError, match="is a folder where a file belongs"):
        proof.report(place)
    speedproof.prove("sh fast.sh", "sh slow.sh", **READ)
    with pytest.raises(speedproof.SpeedproofError, match="holds other results now"):
        proof.report("page.html")


def test_a_notebook_shows_its_sentence_and_a_table_with_all_escaped(place, measured):
    result = speedproof.prove("sh slow.sh", "sh -c 'sh fast.sh \"<script>&amp;\"'", **READ)
    shown = Cells(result._repr_html_())
    assert shown.tags == {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert result.sentence in shown.texts and "<script>" in result.sentence
    assert "faster" in shown.texts and "training_epoch_s" in shown.texts
    assert repr(result) == f"<ProofResult: {result.sentence}>"


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: None, "no such folder"),
        (lambda folder: folder.mkdir(), "comparison.json"),
        (lambda folder: (folder / "programs").mkdir(parents=True), "no verdict yet"),
    ],
)
def test_what_holds_no_results_is_an_error_of_one_line(place, prepare, said):
    prepare(place / "empty")
    with pytest.raises(speedproof.SpeedproofError, match=said) as raised:
        speedproof.load("empty")
    assert "\n" not in str(raised.value)
