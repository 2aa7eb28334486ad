"""Whether entries are right: their files, the programs that they name and, if asked, the sources on the web."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import requests

from speedproof.results.download import TIMEOUT_S
from speedproof.results.published import fetch_published
from speedproof.run.ledger.entry import PROGRAMS_FOLDER, LedgerEntry, list_entry_files, load_entry
from speedproof.run.ledger.entry_outcome import judge_entry, locate_record
from speedproof.util.errors import ConfigError, DataError, SpeedproofError


def list_ledger_mistakes(ledger: Path, online: bool = False) -> Iterator[str]:
    """Yield what is wrong with entries, a line each; `online` also asks whether each source is still there."""
    entries: dict[Path, LedgerEntry] = {}
    for name, path in list_entry_files(ledger).items():
        try:
            entries[path] = load_entry(path)
        except ConfigError as error:
            yield str(error)
        if not name.replace("_", "").isalnum() or name != name.lower():
            yield f"{path}: an id has lower-case letters, digits and `_` only; rename the file"
    there = {path.name for path in (ledger / PROGRAMS_FOLDER).iterdir()} if (ledger / PROGRAMS_FOLDER).is_dir() else set()
    for path, entry in entries.items():
        yield from (f"{path}: ours: no {one} in {ledger / PROGRAMS_FOLDER}; add it" for one in entry.ours if one not in there)
        yield from (f"{path}: {problem}" for problem in _list_wrong_records(entry, ledger))
        if online:
            yield from (f"{path}: {problem}" for problem in _list_lost_sources(entry))
    used = {one for entry in entries.values() for one in entry.ours}
    yield from (
        f"{ledger / PROGRAMS_FOLDER / one}: no entry runs it; remove it" for one in sorted(there - used - {"__pycache__"})
    )


def _list_wrong_records(entry: LedgerEntry, ledger: Path) -> Iterator[str]:
    for record in entry.records:
        folder = locate_record(ledger, record)
        if not folder.is_dir():
            yield f"records: no {record}; correct it"
            continue
        try:
            judge_entry(entry, folder)
        except SpeedproofError as error:
            yield f"records: {error}"


def _list_lost_sources(entry: LedgerEntry) -> Iterator[str]:
    address = entry.source.file.raw_url if entry.source.file else str(entry.source.address)
    try:
        with requests.get(address, timeout=TIMEOUT_S, stream=True) as response:
            if not response.ok:
                yield f"{address}: the server answered {response.status_code} ({response.reason}); find where the source is now"
    except requests.RequestException:
        yield f"{address}: not reachable; try again, or find where the source is now"
    for part in entry.published:
        with tempfile.TemporaryDirectory() as folder:
            try:
                fetch_published(part, Path(folder))
            except DataError as error:
                yield str(error)
