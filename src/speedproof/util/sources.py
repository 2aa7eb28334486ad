"""Which code a step of the workflow consists of, and a digest of it: editing a step's sources reruns that step and no other."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
SUFFIXES = {".py", ".yaml", ".j2", ".css", ".js"}

# What decides what each step computes: folders, files or patterns of this package. Their imports must add nothing (tested).
# `results`, `config` and `util` belong to no step: schema versions and settings cover what they decide for results.
SHARED = {"results", "config", "util"}
WORKFLOW_STEPS: dict[str, list[str]] = {
    "data": [],  # a workload's own
    # What decides when an experiment's rounds end decides what it measures.
    "experiment": [
        "run/*.py",
        "profilers",
        "marks.py",
        "cluster/apptainer.py",
        "cluster/gpu_monitor.py",
        "cluster/isolation.py",
        "cluster/machine_load.py",
        "cluster/nodes.py",
        "cluster/torchrun.py",
        "stats/estimates.py",
        "stats/metrics.py",
        "stats/order_profit.py",
        "stats/run_values.py",
        "stats/sequential.py",
        "stats/stopping_rules.py",
    ],
    "analysis": ["trace"],
    "comparison": ["stats", "trace/diff.py", "trace/iteration_spread.py", "trace/similarity.py", "profilers", "marks.py"],
    "report": ["report"],
}


def source_files(step: str) -> list[Path]:
    return _list_files(PACKAGE, WORKFLOW_STEPS[step])


def digest_step(step: str) -> str:
    """Return a short digest of the names and contents of a step's files."""
    return digest_files(PACKAGE, WORKFLOW_STEPS[step])


def digest_files(top: Path, names: Iterable[str]) -> str:
    """Return a short digest of the names and contents of source files, and of those in folders, all below `top`."""
    digest = hashlib.sha256()
    for path in _list_files(top, names):
        digest.update(f"{path.relative_to(top)}\0".encode())
        digest.update(path.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _list_files(top: Path, names: Iterable[str]) -> list[Path]:
    found: set[Path] = set()
    for path in (path for name in names for path in top.glob(name)):
        found |= {path} if path.is_file() else {file for file in path.rglob("*") if file.suffix in SUFFIXES}
    return sorted(found)


_PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = _PACKAGE / "shipped"

# The folder of Snakefile, `workflow/` and `slurm/`.
BASE = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parents[1]
