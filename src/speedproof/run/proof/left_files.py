"""What warm-ups leave that may help or slow a variant's later runs, so that it runs once more without it."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from speedproof.cluster.isolation import can_hide
from speedproof.config.model import Variant
from speedproof.run.watched_program import list_overlaid

MOST_HIDDEN = 1000  # paths, which are words of a command: with 1,000 these take about 100 of the 2,048 KiB that it may have


@dataclass(frozen=True)
class WarmUpFiles:
    """What a warm-up did to files that later runs see, by their names for readers."""

    changed: Sequence[str]
    created: Mapping[str, str]  # and their real paths; folders that are new as a whole, for all in them


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


def find_left_files(variant: Variant, own: WarmUpFiles, before: Sequence[WarmUpFiles]) -> LeftFiles:
    """Return what a variant's `own` warm-up and those `before` it left, as far as it is still there."""
    others = {name: path for one in before for name, path in one.created.items()}
    touched = {name: path for name, path in others.items() if any(_holds(name, changed) for changed in own.changed)}
    untouched = _select_hideable(variant, {name: path for name, path in others.items() if name not in touched})
    used = _select_hideable(variant, {**own.created, **touched})
    hidden = [HiddenFiles(untouched, own=False), HiddenFiles(used, own=not touched)]
    changed = dict.fromkeys(name for one in before for name in one.changed)
    not_hidden = [name for name in changed if not any(_holds(above, name) for above in untouched)]
    return LeftFiles([one for one in hidden if one.paths], [name for name in not_hidden if _counts(name, own.changed)])


def _select_hideable(variant: Variant, created: Mapping[str, str]) -> dict[str, str]:
    """Return what is still there and can be hidden; at last what lies in temporary folders, where other programs write, too."""
    there = {name: path for name, path in created.items() if os.path.lexists(path)}
    overlaid = list_overlaid(variant, there.values())
    hideable = [(name, path) for name, path in there.items() if can_hide(path, overlaid)]
    return dict(sorted(hideable, key=lambda one: (one[0].startswith("/"), one[0]))[:MOST_HIDDEN])


def _holds(name: str, other: str) -> bool:
    return f"{other}/".startswith(f"{name}/")


def _counts(name: str, own: Collection[str]) -> bool:
    """Return whether a changed file is named: in the home folder, where programs look for settings, and not where both write.

    In temporary folders other programs of the machine change files all the time.
    """
    folders = {str(PurePath(one).parent) for one in own}
    return name.startswith("~") and str(PurePath(name).parent) not in folders and Path(name).expanduser().exists()


def list_briefly(names: Sequence[str]) -> str:
    """Return up to three names."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
