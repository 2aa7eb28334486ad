"""What the candidates' warm-ups leave that may slow the reference, which is warmed up last and so never ran without it."""

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
class LeftFiles:
    """What the others' warm-ups left and the reference's did not touch."""

    hidden: dict[str, str]  # what the reference can run without, by name, and the real paths
    not_hidden: list[str]


def find_left_files(reference: Variant, own: WarmUpFiles, others: Sequence[WarmUpFiles]) -> LeftFiles:
    """Return what the others' warm-ups left in the reference's way, as far as it is still there."""
    created = {name: path for one in others for name, path in one.created.items() if os.path.lexists(path)}
    created = {name: path for name, path in created.items() if not any(_holds(name, changed) for changed in own.changed)}
    overlaid = list_overlaid(reference, created.values())
    hideable = [(name, path) for name, path in created.items() if can_hide(path, overlaid)]
    # Temporary folders last, in which other programs of the machine may have written, too.
    hidden = dict(sorted(hideable, key=lambda one: (one[0].startswith("/"), one[0]))[:MOST_HIDDEN])
    changed = dict.fromkeys(name for one in others for name in one.changed if not any(_holds(above, name) for above in hidden))
    return LeftFiles(hidden, [name for name in changed if _counts(name, own.changed)])


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
