"""Run an entry: lay out its programs, fetched or ours, and prove its two commands there."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speedproof.cluster.gpu_monitor import describe_gpu
from speedproof.results.published import fetch_published, take_published
from speedproof.run.ledger.entry import PROGRAMS_FOLDER, LedgerEntry, normalize_package
from speedproof.run.proof.command_lookup import resolve_command
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.verdict import Verdict
from speedproof.run.proof.workspace import describe_interpreter
from speedproof.util.errors import ConfigError

_LAID_OUT, _FETCHED = ".programs", ".fetched"


def refuse_unrunnable(name: str, entry: LedgerEntry) -> None:
    """Raise :class:`ConfigError` if an entry cannot be run here, whatever its programs are."""
    if entry.workload:
        raise ConfigError(f"{name}: a workload measures it: run `{entry.workload.command}`, and read results/report.html")
    if entry.needs.gpu and describe_gpu() is None:
        raise ConfigError(f"{name}: needs a GPU, and `nvidia-smi` lists none here; run it on a machine that has one")


def run_entry(name: str, entry: LedgerEntry, place: Path, out: Path, changes: Mapping[str, Any], status: Status) -> Verdict:
    """Prove an entry's commands in the folder `out`/`name`; `place` holds its programs.

    `changes` are keys of its request that have other values.

    Raises:
        SpeedproofError: a package is missing, or the proof failed
    """
    check_packages(name, entry, place)
    return prove_request(entry.request.model_copy(update=changes), out / name, place, status)


def lay_out_programs(name: str, entry: LedgerEntry, ledger: Path, out: Path, source: Path | None) -> Path:
    """Return a new folder with the entry's programs alone; the published ones come from `source`, or from the web.

    Raises :class:`SpeedproofError` if one is missing, or is another than was published.
    """
    if source is not None and not entry.published:
        raise ConfigError(f"--source: {name} runs programs of ours only; leave it out")
    place = out / _LAID_OUT / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for part in entry.published:
        origin = take_published(part, source / (part.folder or "")) if source else fetch_published(part, out / _FETCHED)
        for laid_out, path in part.laid_out.items():
            (place / laid_out).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin / path, place / laid_out)
    for path in entry.ours:
        shutil.copyfile(ledger / PROGRAMS_FOLDER / path, place / path)
    return place


def check_packages(name: str, entry: LedgerEntry, place: Path) -> None:
    """Raise :class:`ConfigError` if the first command's Python lacks a package that the entry needs."""
    command, mistakes = resolve_command(entry.request.commands[0], place, os.environ.get("PATH", os.defpath))
    found = {} if mistakes else describe_interpreter(command)
    if "packages" not in found:  # another program than Python, or one that `prove` reports as missing
        return
    missing = set(map(normalize_package, entry.needs.packages)) - {
        normalize_package(one.partition("==")[0]) for one in found["packages"]
    }
    if missing:
        python = command.partition(" ")[0]
        raise ConfigError(
            f"{name}: {python} lacks {', '.join(sorted(missing))}; install that there, or put another python first on your PATH"
        )
