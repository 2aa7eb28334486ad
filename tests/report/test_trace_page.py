"""The page of a trace and of a pair: worked out by hand for `two_epochs`; its timeline has tests of its own."""

import pytest

from speedproof.report.document import Bars, Markup, Table
from speedproof.report.html import compose_html
from speedproof.report.timeline.fragment import TracedVariant, render_timeline
from speedproof.report.trace_listings import list_summary
from speedproof.report.trace_page import Traced, compose_pair, compose_trace
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace
from tests.report.pages import Page, find_live
from tests.trace.handmade import TraceBuilder, two_epochs

NONE = Markup("", instead="")


class CountedList(list):
    """Epochs that count how often they are gone through."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    return analyze_trace(two_epochs().write(tmp_path_factory.mktemp("trace")))


def shortened():
    """`two_epochs`, in which the second epoch's `update` takes 1.5 ms less: all after it comes earlier."""
    trace = two_epochs()
    for table in ("ranges", "kernels", "copies", "api"):
        for row in trace.rows[table]:
            for end in ("start_ns", "end_ns"):
                row[end] -= 1_500_000 if row[end] > 11_000_000 else 0
    return trace


def say(words):
    return "".join(words).replace("\N{NO-BREAK SPACE}", " ")


def tables_of(page, anchor):
    (section,) = (section for section in page.sections if section.anchor == anchor)
    return [element for element in section.elements if isinstance(element, Table)]


def test_a_trace_answers_on_its_first_screen_and_shows_what_is_long(summary):
    page = compose_trace(Traced("mine", summary), NONE)
    # Kernels run for 3045 of 20,000 µs, and for 100 more memory is copied.
    assert say(page.first.sentence) == "mine keeps its GPU busy 16 % of the time."
    iterations = next(fact.text for fact in page.first.facts if fact.name == "Iterations")
    assert say([iterations]) == "2 epochs; mean 10.0 ms; Test GPU busy 16 % of the time, 15 % with kernels."
    anchors = [section.anchor for section in page.sections]
    assert anchors[:4] == ["why", "timeline", "gaps", "path"]  # of two epochs none is the slowest
    (gaps,) = tables_of(page, "gaps")
    assert list(map(say, gaps.rows[0][:3])) == ["0.015140", "4.86 ms", "2"]  # from 15,140 to 20,000 µs
    (path,) = tables_of(page, "path")
    assert [row[0] for row in path.rows] == ["1", "2"]


def test_long_tables_go_through_the_epochs_no_oftener_than_short_ones(summary):
    """A trace with a request's number in each name has thousands of rows and of epochs, and took their product in time."""
    walks = []
    for times in (1, 100):
        epochs = CountedList(summary.epochs)
        rows = {"phases": summary.phases * times, "account": summary.account * times}
        list(list_summary(summary.model_copy(update={"epochs": epochs, **rows})))
        walks.append(epochs.walks)
    assert walks[0] == walks[1]


def test_a_warning_has_one_full_stop(summary):
    noted = summary.model_copy(update={"warnings": ["The profiler says so.", "Was CUDA traced?", "kernels are missing"]})
    page = compose_trace(Traced("mine", noted), NONE)
    ((caveats,),) = (section.elements for section in page.sections if section.anchor == "to-know")
    assert [*map(say, caveats.lines)] == ["The profiler says so.", "Was CUDA traced?", "kernels are missing."]


def test_a_pair_says_which_takes_longer_and_its_steps_add_up(summary, tmp_path):
    other = analyze_trace(shortened().write(tmp_path))
    a, b = Traced("before", summary), Traced("after", other)
    page = compose_pair(a, b, compare_summaries(summary, other, ("before", "after")), NONE)
    assert say(page.first.sentence) == "after takes 750 µs less per epoch than before: 9.25 ms against 10.0 ms."
    assert page.first.badges[0].text == "two profiled runs: no verdict"
    bars, steps = (element for element in page.sections[0].elements if isinstance(element, Bars))
    assert [say([bar.text]) for bar in bars.bars] == ["10.0 ms", "9.25 ms"]
    assert [say([bar.text]) for bar in (steps.bars[0], steps.bars[-1])] == ["10.0 ms", "9.25 ms"]
    assert len(tables_of(page, "gaps")) == 2
    turned = compose_pair(b, a, compare_summaries(other, summary, ("after", "before")), NONE)
    assert say(turned.first.sentence) == "before takes 750 µs more per epoch than after: 10.0 ms against 9.25 ms."
    # The sentence, its reason, the steps and the table all go from the first trace to the second.
    assert say(turned.first.why).startswith("before takes 750 µs more per epoch under the profiler; it adds ")
    _, steps = (element for element in turned.sections[0].elements if isinstance(element, Bars))
    assert [say([bar.text]) for bar in (steps.bars[0], steps.bars[-1])] == ["9.25 ms", "10.0 ms"]
    terms = tables_of(turned, "terms")[0]
    assert terms.header[-3:] == ["after, ms", "before, ms", "change, ms"]
    assert terms.rows[-1][-3:] == ["9.250", "10.000", "+0.750"]
    same = compose_pair(a, a, compare_summaries(summary, summary, ("before", "before")), NONE)
    assert say(same.first.sentence) == "before takes as long per epoch as before: 10.0 ms against 10.0 ms."


def test_a_trace_without_a_gpu_has_a_page_of_what_there_is(tmp_path):
    trace = TraceBuilder()
    for number in range(4):
        trace.range("epoch", 10 * number, 10 * number + 10)
    page = compose_trace(Traced("cpu", analyze_trace(trace.write(tmp_path))), NONE)
    assert say(page.first.sentence) == "cpu uses no GPU."
    assert not {"gaps", "path", "idle_gaps", "kernels"} & {section.anchor for section in page.sections}


def test_what_must_be_known_first_is_counted_on_the_first_screen_and_told_below(summary):
    warned = summary.model_copy(update={"warnings": ["half of it was not recorded"]})
    page = compose_pair(Traced("a", warned), Traced("b", summary), compare_summaries(warned, summary, ("a", "b")), NONE)
    (fact,) = (fact for fact in page.first.facts if fact.warns)
    assert fact.text.startswith("1 caveat to read before")
    (section,) = (section for section in page.sections if section.anchor == "to-know")
    assert (list(map(say, section.elements[0].lines)), section.folded) == (["a: half of it was not recorded."], False)


def test_hostile_names_are_shown_and_nothing_else_runs(tmp_path):
    name = "</script><img src=x onerror=alert(1)> \u202e **bold**"
    trace = two_epochs()
    trace.range(name, 10_100, 10_900)
    folder = trace.write(tmp_path)
    drawn = Markup(render_timeline([TracedVariant(name, folder)]), instead="")
    page = Page(compose_html(compose_trace(Traced(name, analyze_trace(folder)), drawn)))
    assert find_live(page) == []
    assert "onerror=alert(1)> \\u202e **bold** keeps its GPU busy" in page.text
