import pytest

from speedproof.report.figures.draw import compose_figure
from speedproof.report.figures.figure_data import FIGURES, read_evidence
from speedproof.report.figures.style import figure_style
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.stats.compare import write_comparison
from tests.chromium import Chromium, find_chromium
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, compare_example, write_example

SHARED = {"gpu_results", "cpu_results"}


def make_results(folder, example=None, claims=CLAIMS):
    """A results folder with everything up to the comparison: words need no figures, which take seconds."""
    write_example(folder, example)
    write_comparison(compare_example(example, claims, traced=True), folder)
    return folder


def compose_figures(results):
    """Compose every figure that the evidence allows, and return their names; to lay them out and write them takes seconds."""
    evidence, names = read_evidence(results), set()
    for kind in FIGURES:
        if kind.lacks(evidence) is None:
            with figure_style():
                compose_figure(kind.name, evidence)
            names.add(kind.name)
    return names


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a shared page run in one process: it is made once."""
    for item in items:
        if SHARED & set(getattr(item, "fixturenames", [])):
            item.add_marker(pytest.mark.xdist_group("report"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(find_chromium(), tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture(scope="session")
def gpu_results(tmp_path_factory):
    example = Example(modes=("timed", "profiled", "documented"), control=True, ablation=("baseline", "cached", "fast"))
    results = make_results(tmp_path_factory.mktemp("gpu") / "results", example)
    rebuild_report(read_evidence(results), results)
    return results


@pytest.fixture(scope="session")
def cpu_results(tmp_path_factory):
    results = make_results(tmp_path_factory.mktemp("cpu") / "results", CPU_EXAMPLE)
    rebuild_report(read_evidence(results), results)
    return results
