import pytest
from docutils.core import publish_parts

from speedproof.report.first_screen import compose_first_screen
from speedproof.report.snakemake_report import describe_results
from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import read_results
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.util.errors import RecordError
from tests.report.conftest import make_results, read_evidence
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, write_example

HOSTILE = ".. raw:: html <script>alert(1)</script> `a <javascript:b>`_ |c| d_ *e"


def show(text):
    return publish_parts(text, writer="html", settings_overrides={"report_level": 1, "halt_level": 2})["html_body"]


def test_it_starts_with_the_sentence_and_the_outcome(tmp_path):
    results = make_results(tmp_path / "results", CPU_EXAMPLE)
    first = compose_first_screen(read_evidence(results))
    shown = show(describe_results(results))
    sentence = first.sentence if isinstance(first.sentence, str) else "".join(first.sentence)
    place = shown.index(f"<strong>{' '.join(sentence.split())}</strong>")
    assert place < shown.index(f"Outcome: {first.badges[0].text}") < shown.index("Machine")


def test_it_says_what_speaks_against_the_ratio(tmp_path):
    results = make_results(tmp_path / "results", CPU_EXAMPLE)
    comparison = read_evidence(results).comparison
    busy = Objection(kind="busy machine", blocks=False, values={"others_cores": 0.8, "cores": 2})
    ratios = [ratio.model_copy(update={"objections": [busy]}) for ratio in comparison.ratios]
    write_comparison(comparison.model_copy(update={"ratios": ratios}), results)
    shown = show(describe_results(results))
    assert shown.index("Machine") < shown.index("But") < shown.index("Other programs used 0.8 of 2 cores during the runs.")


def test_what_a_record_calls_a_variant_is_no_markup(tmp_path):
    results = write_example(tmp_path, Example(experiments=1, rounds=1, modes=("timed",)))
    comparison = compare_experiments(read_results(results), CLAIMS)
    variants = dict.fromkeys(comparison.variants, HOSTILE)
    write_comparison(comparison.model_copy(update={"variants": variants}), results)
    shown = show(describe_results(results))
    assert "<script" not in shown and "<a " not in shown and "|c| d_ *e" in shown


def test_unfinished_results_are_named(tmp_path):
    with pytest.raises(RecordError, match="no finished experiment"):
        describe_results(tmp_path / "results")
