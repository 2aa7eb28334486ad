"""What warm-ups leave that may help or slow a variant's later runs, so that it runs once more without it."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from speedproof.cluster.isolation import can_hide
from speedproof.config.model import Variant
from speedproof.run.outside_watch import shorten_home
from speedproof.run.proof.spoilt_files import LinkedChanges
from speedproof.run.watched_program import list_overlaid
from speedproof.stats.carried_over import list_kinds_of

MOST_HIDDEN = 1000  # paths, which are words of a command: with 1,000 these take about 100 of the 2,048 KiB that it may have


@dataclass(frozen=True)
class WarmUpFiles:
    """What a warm-up did to files that later runs see, by their names for readers."""

    changed: Sequence[str]
    created: Mapping[str, str]  # and their real paths; folders that are new as a whole, for all in them
    vanished: Sequence[str] = ()  # in HOME, temporary folders and packages
    linked: LinkedChanges = field(default_factory=LinkedChanges)
    accessed: Mapping[str, int] = field(default_factory=dict)  # of changed files in temporary folders: when they were read
    read: Collection[str] = ()  # real paths of linked files that earlier warm-ups changed and it read


@dataclass(frozen=True)
class HiddenFiles:
    """What a variant can run without, by name, and the real paths."""

    paths: dict[str, str]
    own: bool  # whether its own warm-up created all of it


@dataclass(frozen=True)
class LeftFiles:
    """What a variant's warm-up and those before it left."""

    hidden: list[HiddenFiles]  # what others created and it did not touch, and what it created or touched
    not_hidden: list[str]  # what others left and it did not touch
    spoilt: list[str]  # linked files and packages that others removed, or changed before it read them


def find_left_files(variant: Variant, own: WarmUpFiles, before: Sequence[WarmUpFiles]) -> LeftFiles:
    """Return what a variant's `own` warm-up and those `before` it left, as far as it is still there."""
    others = {name: path for one in before for name, path in one.created.items()}
    touched = {name: path for name, path in others.items() if any(_holds(name, changed) for changed in own.changed)}
    untouched = _select_hideable(variant, {name: path for name, path in others.items() if name not in touched})
    used = _select_hideable(variant, {**own.created, **touched})
    hidden = [HiddenFiles(untouched, own=False), HiddenFiles(used, own=not touched)]
    spoilt, doubtful = _find_spoilt(variant, own, before)
    names = dict.fromkeys([*doubtful, *_list_not_hidden(own, before, untouched)])
    return LeftFiles([one for one in hidden if one.paths], [name for name in names if name not in spoilt], spoilt)


def _list_not_hidden(own: WarmUpFiles, before: Sequence[WarmUpFiles], hidden: Collection[str]) -> list[str]:
    """Return what others removed, or changed below nothing that is `hidden`, where a variant did not write itself."""
    vanished = [name for one in before for name in one.vanished if _is_gone(name)]
    vanished = [name for name in vanished if str(PurePath(name).parent) not in _list_folders(own.changed)]
    changed = dict.fromkeys(name for one in before for name in one.changed if _counts(name, one, own.changed))
    return [*vanished, *(name for name in changed if not any(_holds(above, name) for above in hidden))]


def _find_spoilt(variant: Variant, own: WarmUpFiles, before: Sequence[WarmUpFiles]) -> tuple[list[str], list[str]]:
    """Return what others did to linked files and packages that may slow a variant, and what it can hardly have slowed it by.

    Who removes a file and writes others of its kind, as checkpoints, most likely removes its own.
    """
    spoilt: list[str] = []
    doubtful: list[str] = []
    packages = [shorten_home(os.path.realpath(folder)) for folder in variant.package_folders]
    for one in before:
        kinds = {kind for name in one.changed if name not in one.linked.removed for kind in list_kinds_of(name)}
        for name, path in one.linked.removed.items():
            if not os.path.lexists(path):
                (spoilt if kinds.isdisjoint(list_kinds_of(name)) else doubtful).append(name)
        spoilt += [name for name, path in one.linked.rewritten.items() if path in own.read]
        doubtful += [name for name, path in one.linked.grown.items() if path in own.read]
        of_packages = [name for name in (*one.vanished, *one.changed) if any(_holds(above, name) for above in packages)]
        spoilt += [name for name in of_packages if name not in one.created and (name in one.changed or _is_gone(name))]
    return list(dict.fromkeys(spoilt)), doubtful


def _select_hideable(variant: Variant, created: Mapping[str, str]) -> dict[str, str]:
    """Return what is still there and can be hidden; at last what lies in temporary folders, where other programs write, too."""
    there = {name: path for name, path in created.items() if os.path.lexists(path)}
    overlaid = list_overlaid(variant, there.values())
    hideable = [(name, path) for name, path in there.items() if can_hide(path, overlaid)]
    return dict(sorted(hideable, key=lambda one: (one[0].startswith("/"), one[0]))[:MOST_HIDDEN])


def _holds(name: str, other: str) -> bool:
    return f"{other}/".startswith(f"{name}/")


def _counts(name: str, one: WarmUpFiles, own: Collection[str]) -> bool:
    """Return whether a file that `one` changed is named: in the home folder, where programs look for settings.

    Not where both write. In temporary folders other programs change files all the time: there it must have been read since.
    """
    if str(Path(name).expanduser()) in (*one.linked.rewritten.values(), *one.linked.grown.values()):
        return False  # it has a name in the working folder, too
    if name in one.accessed:
        return name not in own and read_access(name) not in (None, one.accessed[name])
    return name.startswith("~") and str(PurePath(name).parent) not in _list_folders(own) and Path(name).expanduser().exists()


def read_access(name: str) -> int | None:
    try:
        return Path(name).stat().st_atime_ns
    except OSError:
        return None


def _list_folders(names: Collection[str]) -> set[str]:
    return {str(PurePath(one).parent) for one in names}


def _is_gone(name: str) -> bool:
    return not os.path.lexists(Path(name).expanduser())


def list_briefly(names: Sequence[str]) -> str:
    """Return up to three names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
