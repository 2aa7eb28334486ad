"""Tables and sentences are made of findings, never of the rows of `comparison.json`. Figures may read rows."""

import ast
from pathlib import Path

import speedproof
from speedproof.results.comparison import Comparison, StrictRow

REPORT = Path(speedproof.__file__).parent / "report"
# Lists of rows with numbers that findings are made of; documented numbers are findings as they are.
ROWS = {
    name
    for name, field in Comparison.model_fields.items()
    if any(isinstance(one, type) and issubclass(one, StrictRow) for one in getattr(field.annotation, "__args__", ()))
} - {"claims", "metrics", "prepared", "stopped"}


def find_rows(module: Path) -> set[str]:
    """Return the lists of rows that a module reads of something that is called `comparison`."""
    nodes = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if node.attr in ROWS and ast.unparse(node.value).rpartition(".")[2] == "comparison"}


def test_only_findings_are_shown():
    assert {"measured", "ratios", "ablation", "scaling", "throttled", "reached"} <= ROWS
    found = {module.name: find_rows(module) for module in REPORT.glob("*.py")}
    assert {name: rows for name, rows in found.items() if rows} == {}


def test_a_row_that_is_shown_is_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("rows = [one.centre for one in evidence.comparison.ratios]\nnames = comparison.variants\n")
    assert find_rows(module) == {"ratios"}
