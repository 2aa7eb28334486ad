"""Makes ready what the published program and ours train on: the program, fetched or found, slides, and what both are told."""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speedproof.common.errors import ConfigError, SpeedproofError
from speedproof.config.plain import read_yaml
from speedproof.fetch.published import fetch_published, find_published, take_published
from speedproof.records.files import write_json

WORKLOAD = Path(__file__).resolve().parents[1]
PROGRAMS, NAME = WORKLOAD.parents[1] / "examples/published.yaml", "monai_pathology"


def make_ready(values: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` with links `programs` and `slides` and with options.json, and write `out`.

    Raises :class:`SpeedproofError`: those of the program and of the slides.
    """
    sys.path.insert(0, str(WORKLOAD))
    from speedproof_pathology.data import SHARED, check_data, prepare_dataset

    given = values.get("published_folder")
    if not isinstance(given, str | None):
        raise ConfigError("data.published_folder: must be a folder's path, or null")
    data = check_data({key: value for key, value in values.items() if key != "published_folder"}, "config")
    if data.reader == "tiles" or data.weights:
        raise ConfigError("data: the published program reads by cucim or openslide, and begins with random weights here")
    published = find_published(PROGRAMS, NAME)
    programs = take_published(published, Path(given)) if given else fetch_published(published, Path(data.folder))
    dataset = prepare_dataset(data, out)
    both = out.parent / "both"
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    (both / "programs").symlink_to(programs.resolve())
    (both / "slides").symlink_to((out.parent / dataset.folder).resolve())
    told = data.model_dump(include=set(SHARED))
    (both / "options.json").write_text(json.dumps(told), encoding="utf-8")
    write_json(out, dataset.model_copy(update={"folder": both.name}))
    return both


def main(arguments: Sequence[str]) -> int:
    """Prepare what a configuration's `data` asks for."""
    parser = argparse.ArgumentParser(description="Fetch or find program and slides, and write dataset.json.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args(arguments)
    try:
        make_ready((read_yaml(asked.config) or {}).get("data", {}), asked.out)
    except SpeedproofError as error:
        print(f"speedproof: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
