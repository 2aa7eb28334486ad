"""Every example runs: of docstrings, of docs/python.md, of the notebook."""

import doctest
import json
import re
import shutil
import sys
from importlib import import_module

import pytest

import speedproof
from tests.workflow.checkout import ROOT

MODULES = ["proving", "proof_result", "analyzed_trace"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_show_what_is_so(name, request):
    request.getfixturevalue("proof" if name == "proof_result" else "measured")
    request.getfixturevalue("record")
    module = import_module(f"speedproof.library.{name}")
    runner = doctest.DocTestRunner()
    said = []
    for example in doctest.DocTestFinder().find(module, globs={"speedproof": speedproof}):
        runner.run(example, out=said.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(said)


@pytest.fixture
def python_here(monkeypatch):
    """`python` is the one that runs the tests, as in an environment that is activated."""
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=":")


def test_the_page_s_examples_run_one_after_the_other(record, measured, python_here):
    shutil.copytree(ROOT / "examples", record.parents[1] / "examples")
    text = (ROOT / "docs/python.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found = {}
    for example in examples:
        exec(compile(example, "docs/python.md", "exec"), found)
    assert len(examples) >= 4
    assert found["result"].outcome == "faster"
    assert found["difference"].total_s == -0.004
    assert (record.parents[1] / "results/proof/mine.html").read_text().lower().startswith("<!doctype html>")


@pytest.mark.timed
def test_the_notebook_makes_a_frame_and_a_figure_of_two_commands(place, python_here, monkeypatch):
    shutil.copytree(ROOT / "examples", place / "examples")
    monkeypatch.chdir(place / "examples")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = json.loads((ROOT / "examples/notebook.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
    found = {}
    for text in code:
        exec(compile(text, "notebook.ipynb", "exec"), found)
    assert sum(bool(line.strip()) for text in code for line in text.splitlines()) <= 10
    assert 1.2 < found["result"].ratio < 3
    assert [len(found["epochs"]), len(found["axes"].patches)] == [2, 2]
