"""Finding what was proven before: the newest results, and a proof's verdict."""

from pathlib import Path

from speedproof.report.document import PAGE_FILE
from speedproof.results.comparison import COMPARISON_FILE
from speedproof.results.files import read_record
from speedproof.results.run_record import PROGRAMS
from speedproof.run.proof.verdict import Verdict
from speedproof.util.errors import RecordError

VERDICT_FILE, RESULTS = "verdict.json", "results"


def find_results(folder: Path) -> Path:
    """Return the newest results: the folder itself, or one below it, that holds a comparison or a proof's verdict.

    Raises :class:`RecordError` if there is none, or only a proof that has not ended.
    """
    found = [
        path for name in (COMPARISON_FILE, VERDICT_FILE) for place in (folder, *folder.glob("*")) for path in [place / name]
    ]
    found = [path for path in found if path.is_file()]
    if not found:
        for place in (folder, *folder.glob("*")):
            check_finished(place)
        raise RecordError(
            f"{folder}: no {COMPARISON_FILE} there or one folder below; name the results (--from), or make them: "
            "`speedproof prove 'python a.py' 'python b.py'`, or the workflow"
        )
    return max(found, key=lambda path: path.stat().st_mtime_ns).parent


def take_results(given: Path | None) -> Path:
    """Return the results folder that was named, or the newest; of a proof's folder the one within."""
    folder = find_results(Path(RESULTS)) if given is None else given
    return folder / RESULTS if (folder / VERDICT_FILE).is_file() else folder


def find_proof(folder: Path) -> Path:
    """Return the proof's folder if these are the results inside it, else the folder itself."""
    above = folder.parent if folder.name == RESULTS else folder.absolute().parent  # a relative path stays one
    return above if folder.absolute().name == RESULTS and (above / VERDICT_FILE).is_file() else folder


def list_results(folder: Path) -> dict[Path, str]:
    """Return the results folder that this is, or all those one folder below, each with its name; a proof's has the proof's.

    Raises :class:`RecordError` if there is none.
    """
    places = (path for name in (COMPARISON_FILE, VERDICT_FILE) for path in (*folder.glob(name), *folder.glob(f"*/{name}")))
    holding = {path.parent for path in places}
    found = {take_results(path): path.absolute().name for path in sorted({folder} & holding or holding)}
    if not found:
        raise RecordError(
            f"{folder}: no {COMPARISON_FILE} or {VERDICT_FILE} there or one folder below; give a folder of results"
        )
    return found


def read_verdict(folder: Path) -> Verdict | None:
    """Return the verdict of a proof's folder, with the path of its report from here; None of any other, and of one without."""
    path, page = folder / VERDICT_FILE, folder / RESULTS / PAGE_FILE
    if not path.is_file():
        return None
    verdict = read_record(path, Verdict)
    return verdict.model_copy(update={"report": str(page)}) if page.is_file() else verdict


def check_finished(folder: Path) -> None:
    """Raise :class:`RecordError` of a proof's folder in which no verdict stands."""
    if (folder / PROGRAMS).is_dir() and not (folder / VERDICT_FILE).is_file():
        raise RecordError(f"{folder}: no verdict yet: the proof failed or has not ended; run the same `speedproof prove` again")
