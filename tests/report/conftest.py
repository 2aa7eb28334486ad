import pytest

from speedproof.analysis.comparison import compare_blocks, write_comparison
from speedproof.report.figures import draw_figures
from tests.report.example import CLAIMS, CPU_EXAMPLE, Example, write_example


def make_results(folder, example=None, claims=CLAIMS):
    """A results folder with everything up to the figures."""
    write_example(folder, example)
    write_comparison(compare_blocks(folder, claims), folder)
    draw_figures(folder, folder / "figures")
    return folder


@pytest.fixture(scope="session")
def gpu_results(tmp_path_factory):
    example = Example(arms=("timed", "profiled", "documented"), control=True, ladder=("baseline", "cached", "fast"))
    return make_results(tmp_path_factory.mktemp("gpu") / "results", example)


@pytest.fixture(scope="session")
def cpu_results(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("cpu") / "results", CPU_EXAMPLE)
