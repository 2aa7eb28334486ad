"""A working folder with modules of the user's own, named like those that we import: no process of ours runs one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from speedproof.config.workload import find_workload
from speedproof.profilers import selection as backend
from speedproof.profilers.nsys import Capabilities
from speedproof.profilers.nvtx_library import measure_cost
from speedproof.run.working_folder import program_environment
from speedproof.util.environment import SAFE_PATH
from tests.workflow.checkout import ROOT, plan_shell_scripts

PLANTED = """
import pathlib, sys
with pathlib.Path(__file__).with_name("IMPORTED").open("a") as file:
    file.write(f"{__name__} by {sys.orig_argv}\\n")
raise ImportError("a module of the working folder was imported")
"""
OTHERS = ["yaml", "typer", "click", "rich", "numpy", "pydantic", "polars", "pyarrow", "snakemake", "nvtx", "sitecustomize"]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which each module of the standard library has a namesake."""
    for name in (*sys.stdlib_module_names, *OTHERS):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), *map(str, module_folders())]))
    return tmp_path


def module_folders() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("workloads/*/pyproject.toml"))


def imported(folder: Path) -> str:
    path = folder / "IMPORTED"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    "words",
    [
        ["speedproof", "schema"],
        ["speedproof", "doctor", "--json"],
        ["speedproof.marks", "epoch-begins"],
        ["speedproof_spleen", "schema"],
        ["speedproof_polyp", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_that_python_runs_by_its_module(hostile, words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert not imported(hostile)
    assert done.returncode in (0, 1), done.stderr  # the doctor may find a problem
    assert "Traceback" not in done.stderr


def test_a_command_of_a_workload(hostile):
    words = find_workload("spleen").command("software")
    assert subprocess.run([*words, "--help"], capture_output=True).returncode == 0
    assert not imported(hostile)


@pytest.mark.parametrize("inherited", ["", f"{os.pathsep}/nowhere"])
def test_the_measurement_of_what_a_range_costs(hostile, monkeypatch, inherited):
    monkeypatch.setenv("PYTHONPATH", inherited)
    assert measure_cost(os.environ).wanted_ns > 0
    assert not imported(hostile)


@pytest.mark.parametrize("inherited", ["", f"{os.pathsep}/nowhere"])
def test_the_small_program_by_which_nsys_is_tried(hostile, monkeypatch, inherited):
    monkeypatch.setenv("PYTHONPATH", inherited)
    ended = []

    def run(nsys, report, trace, command, log, environ):
        ended.append(subprocess.run(command, env=environ).returncode)

    monkeypatch.setattr(backend, "run_profiled", run)
    for step in ("export_report", "convert_export", "require_ranges"):
        monkeypatch.setattr(backend, step, lambda *_: None)
    backend._trace_probe(Capabilities("nsys", "2025.3.1", frozenset()))
    assert ended == [0]
    assert not imported(hostile)


def test_a_measured_program_sees_its_folder_as_without_us(tmp_path):
    (tmp_path / "queue.py").write_text("OWN = True")
    environment = program_environment({**os.environ, **SAFE_PATH}, [tmp_path / "marks"])
    program = [sys.executable, "-c", "import queue; assert queue.OWN"]
    assert subprocess.run(program, cwd=tmp_path, env=environment).returncode == 0


@pytest.mark.whole
@pytest.mark.dear
def test_the_jobs_of_the_workflow(hostile):
    """Each job is a `python -m snakemake` in the working folder, and its rule's command another Python."""
    checkout = plan_shell_scripts(hostile, variants=["slow"], rounds=1, profiled=0, control=False, device="cpu")
    words = [str(Path(sys.executable).with_name("snakemake")), *checkout.command()[3:]]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{checkout.logs()}"
    assert (checkout.results / "report.html").is_file()
    assert not imported(hostile)
