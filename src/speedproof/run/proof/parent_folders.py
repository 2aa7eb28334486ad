"""Files beside the working folder, as `../data`: a run starts in a copy, beside which they are not."""

import re
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.run.caches import list_own_names
from speedproof.run.process import read_end
from speedproof.run.source_texts import read_program_texts
from speedproof.run.working_folder import find_tree
from speedproof.util.temporary_folder import OWNER_FILE

# `../data`, and `"..", "data"` or `Path("..") / "data"`.
_PARENTS = re.compile(r"(?<![\w./])(?:\.\./)+[\w.-]*\w|(?<=[\"'])\.\.[\"']\)?\s{0,4}[,/]\s{0,4}[\"'][\w.-]*\w")
_SHOWN = 3


def explain_missing(workload: Workload, variant: Variant, place: Path, log_file: Path) -> str:
    """Return what a failed program lacks that lies beside the working folder, and the option that helps; nothing if nothing."""
    if variant.place is not None:
        return ""
    named = [*_list_beside_copy(read_end(log_file), place)]
    named += [name for text in read_program_texts(find_tree(workload, variant), log_file) for name in _list_parents(text)]
    missing = [name for name in dict.fromkeys(named) if Path(name).exists()]  # as the caller sees it
    return f"; {_advise(missing)}" if missing else ""


def list_beside(place: Path, variant: Variant) -> list[str]:
    """Return what a run that has ended created beside its copy of the working folder, and that goes with it."""
    if variant.place is not None:
        return []
    return sorted(f"../{name}" for name in {path.name for path in place.parent.iterdir()} - {*list_own_names(), OWNER_FILE})


def describe_beside(created: list[str]) -> list[str]:
    """Return what a run created beside its copy though the caller has it, and the option that helps, in at most one line."""
    there = [name for name in created if Path(name).exists()]
    return [f"it created {', '.join(there[:_SHOWN])}: {_advise(there)}"] if there else []


def _advise(names: list[str]) -> str:
    return (
        f"it does not see your {', '.join(names[:_SHOWN])}, since it starts in a copy of the working folder; "
        "--workdir here starts it in the folder itself"
    )


def _list_beside_copy(text: str, place: Path) -> list[str]:
    """Return as `../data` what a text names beside the copy by an absolute path: a program may make it from its own."""
    own = {place.name, *list_own_names()}
    beside = re.findall(rf"{re.escape(str(place.parent))}/([\w.-]*\w)", text)
    return [f"../{name}" for name in beside if name not in own]


def _list_parents(text: str) -> list[str]:
    return [re.sub(r"[\"')\s,/]+", "/", found[0]) for found in _PARENTS.finditer(text)]
