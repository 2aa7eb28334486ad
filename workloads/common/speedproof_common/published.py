"""A folder in which published programs lie beside the data that they and ours train on."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from speedproof.api import ConfigError, Dataset, fetch_published, find_published, take_published, write_json
from speedproof_common.program import PROGRAMS


def lay_beside(
    name: str,
    values: Mapping[str, Any],
    out: Path,
    check: Callable[[dict[str, Any]], Any],
    prepare: Callable[[Any, Path], Dataset],
    links: Mapping[str, str],
) -> Path:
    """Make a folder beside `out` with the programs of that name and links to parts of the data, and write `out`.

    `values` is `data` of a configuration. Its `published_folder` holds the programs; without this key they are fetched. `check`
    turns the rest into what `prepare` takes. `links` names the target of each link in the data; `.` is all of it.

    Raises:
        SpeedproofError: `published_folder` is not a path, or what programs, `check` and `prepare` raise.
    """
    given = values.get("published_folder")
    if not isinstance(given, str | None):
        raise ConfigError("data.published_folder: must be a folder's path, or null")
    checked = check({key: value for key, value in values.items() if key != "published_folder"})
    published = find_published(PROGRAMS, name)
    programs = (
        take_published(published, Path(given).expanduser()) if given else fetch_published(published, Path(checked.folder))
    )
    both = out.parent / "both"
    if both.is_file():
        raise ConfigError(f"{both}: is a file where a folder of links is to be; remove it")
    dataset = prepare(checked, out)
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    (both / "programs").symlink_to(programs.resolve())
    for link, place in links.items():
        (both / link).symlink_to((out.parent / dataset.folder / place).resolve())
    write_json(out, dataset.model_copy(update={"folder": both.name}))
    return both
