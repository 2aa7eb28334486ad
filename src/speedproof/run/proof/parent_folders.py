"""Files above the working folder, as `../data`: a run starts in a copy, above which some folders are mirrored by links."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.run.caches import find_top, list_own_names
from speedproof.run.mirrored_folders import list_created_above, list_followed
from speedproof.run.process import read_end
from speedproof.run.source_texts import read_program_texts
from speedproof.run.working_folder import find_tree
from speedproof.util.temporary_folder import OWNER_FILE

# `../data`, and `"..", "..", "data"` or `Path("..") / "data"`.
_PARENTS = re.compile(
    r"(?<![\w./])(?:\.\./)+[\w.-]*\w|(?<=[\"'])\.\.[\"']\)?\s{0,4}[,/]\s{0,4}(?:[\"']\.\.[\"']\s{0,4}[,/]\s{0,4})*[\"'][\w.-]*\w"
)
_ONLY_PARENTS = re.compile(r"(?<![\w./])\.\.(?:/\.\.)*(?=/?[\s:'\"]|/?$)")  # as PYTHONPATH=../.. in a command
_SHOWN = 3


def explain_missing(workload: Workload, variant: Variant, place: Path, log_file: Path) -> str:
    """Return what a failed program lacks that lies above the working folder, and the option that helps; nothing if nothing."""
    if variant.place is not None:
        return ""
    named = [*_list_beside_copy(read_end(log_file), find_top(variant, place), variant.mirrored)]
    named += [name for text in read_program_texts(find_tree(workload, variant), log_file) for name in _list_parents(text)]
    named += [f"{name}/" for name in _ONLY_PARENTS.findall(variant.command or "")]
    missing = [name for name in dict.fromkeys(named) if name.count("../") > variant.mirrored and Path(name).exists()]
    return f"; {_advise(missing)}" if missing else ""


def list_named_above(source: Path, mirrored: int, texts: Iterable[str]) -> list[str]:
    """Return the folders that texts name in the mirrored ones above a working folder, as `../data`: those are watched.

    A text may build the path from its own, so the name alone decides on which level it is.
    """
    names = {name.rstrip("/").rpartition("../")[2] for text in texts for name in _list_parents(text)}
    above = zip((source, *source.parents), source.parents[:mirrored], strict=False)
    found = [parent / name for own, parent in above for name in sorted(names) if name != own.name]
    return [os.path.realpath(folder) for folder in found if folder.is_dir()]


def describe_followed(variant: Variant, place: Path) -> list[str]:
    """Return what a run used of the folders above its working folder, in at most one line."""
    used = list_followed(variant, place)
    more = f" and {len(used) - _SHOWN} more" if len(used) > _SHOWN else ""
    return [f"uses {', '.join(used[:_SHOWN])}{more}, which all runs share"] if used else []


def list_beside(place: Path, variant: Variant) -> list[str]:
    """Return what a run that has ended created above its mirrored folders, and that goes with it."""
    if variant.place is not None:
        return []
    own = {*list_own_names(), OWNER_FILE}
    return sorted(name for name in list_created_above(variant, place) if name.rpartition("/")[2] not in own)


def describe_beside(created: list[str]) -> list[str]:
    """Return what a run created beside its copy though the caller has it, and the option that helps, in at most one line."""
    there = [name for name in created if Path(name).exists()]
    return [f"it created {', '.join(there[:_SHOWN])}: {_advise(there)}"] if there else []


def _advise(names: list[str]) -> str:
    return (
        f"it does not see your {', '.join(names[:_SHOWN])}, since it starts in a copy of the working folder; "
        "--workdir here starts it in the folder itself"
    )


def _list_beside_copy(text: str, top: Path, mirrored: int) -> list[str]:
    """Return as `../data` what a text names beside the copy by an absolute path: a program may make it from its own."""
    own = {top.name, *list_own_names()}
    beside = re.findall(rf"{re.escape(str(top.parent))}/([\w.-]*\w)", text)
    return [f"{'../' * (mirrored + 1)}{name}" for name in beside if name not in own]


def _list_parents(text: str) -> list[str]:
    return [re.sub(r"[\"')\s,/]+", "/", found[0]) for found in _PARENTS.finditer(text)]
