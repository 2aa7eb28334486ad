"""Where the library is built and kept, what refuses it, and what a program of Python leaves with it."""

import os
import sys

import pytest

from speedproof.profilers.nvtx_library import build_library, injected_variables, read_ranges
from speedproof.util.errors import ConfigError, RecordError
from tests.profilers.programs import names_of, needs_compiler, run_injected

PYTHON = """
import nvtx
with nvtx.annotate("first", domain="mine"):
    nvtx.push_range("second"); nvtx.pop_range()
started = nvtx.start_range("third")
nvtx.mark("fourth")
nvtx.end_range(started)
"""


@needs_compiler
def test_pythons_nvtx_is_heard_with_its_registered_strings_and_domains(tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [sys.executable, "-c", PYTHON])
    assert names_of(left) == ["first", "second", "third", "fourth"]
    assert [left.domains[number] for number in left.records["domain"]] == ["mine", "", "", ""]
    assert (left.records["end_ns"] >= left.records["begin_ns"]).all() and left.unmatched == 0


@needs_compiler
def test_it_is_built_once_into_a_folder_that_only_its_owner_can_write(tmp_path):
    environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)}
    first = build_library(environ)
    assert first.parent == tmp_path / "speedproof"
    assert first.parent.stat().st_mode & 0o777 == 0o700
    made = first.stat().st_mtime_ns
    assert build_library(environ) == first and first.stat().st_mtime_ns == made
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@needs_compiler
def test_a_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))  # where it goes instead
    (tmp_path / "speedproof").mkdir(mode=0o777)
    (tmp_path / "speedproof").chmod(0o777)
    made = build_library({"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)})
    assert made.parent != tmp_path / "speedproof"
    assert not list((tmp_path / "speedproof").iterdir())


def test_without_a_compiler_the_source_is_unavailable(tmp_path):
    with pytest.raises(ConfigError, match=r"source `ranges` is unavailable: no C compiler \(cc\) found"):
        build_library({"PATH": str(tmp_path)})


def test_a_compiler_that_fails_is_named_with_its_last_line(tmp_path):
    (tmp_path / "cc").write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    (tmp_path / "cc").chmod(0o755)
    with pytest.raises(ConfigError, match=r"source `ranges` is unavailable: \S*cc failed \(broken\)"):
        build_library({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("variable", "why"), [("NVTX_INJECTION64_PATH", "is set already"), ("NSYS_PROFILING_SESSION_ID", "under Nsight Systems")]
)
def test_another_tool_that_takes_nvtx_refuses_it(variable, why, tmp_path):
    with pytest.raises(ConfigError, match=why):
        injected_variables(tmp_path, ["epoch"], {**os.environ, variable: "1"})


@pytest.mark.parametrize("data", [b"", b"x" * 200])
def test_a_file_that_the_library_did_not_write_is_refused(data, tmp_path):
    (tmp_path / "1-2.ranges").write_bytes(data)
    with pytest.raises(RecordError, match=r"1-2\.ranges"):
        read_ranges(tmp_path)
