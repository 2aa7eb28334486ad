"""Steps' lists of sources are whole: what a step imports is its own, shared, or a step's whose results it reads."""

import ast
import os

import pytest

from speedproof.util.sources import PACKAGE, SHARED, WORKFLOW_STEPS, digest_files, source_files

# A later step may use what an earlier one is made of: where that is edited, both run again.
READS = {"comparison": ["analysis"], "report": ["analysis", "comparison"]}


def imported_files(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("speedproof"):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            place = PACKAGE.joinpath(*name.split(".")[1:])
            if place.with_suffix(".py").is_file():
                yield place.with_suffix(".py")


@pytest.mark.parametrize("step", WORKFLOW_STEPS)
def test_a_steps_imports_are_listed(step):
    known = {path for name in [step, *READS.get(step, [])] for path in source_files(name)}
    for path in source_files(step):
        if path.suffix == ".py":
            foreign = [file for file in imported_files(path) if file not in known]
            assert [file for file in foreign if file.relative_to(PACKAGE).parts[0] not in SHARED] == []


def test_every_listed_file_is_there():
    assert all(list(PACKAGE.glob(name)) for names in WORKFLOW_STEPS.values() for name in names)


def test_content_decides_and_time_does_not(tmp_path):
    (tmp_path / "data").mkdir()
    program = tmp_path / "data" / "phantom.py"
    program.write_text("volumes = 41\n")
    before = digest_files(tmp_path, ["data"])
    os.utime(program, (0, 0))
    assert digest_files(tmp_path, ["data"]) == before
    program.write_text("volumes = 42\n")
    assert digest_files(tmp_path, ["data"]) != before
