"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the volumes."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speedproof.common.errors import ConfigError, SpeedproofError
from speedproof.config.plain import read_yaml
from speedproof.fetch.published import fetch_published, find_published, take_published
from speedproof.records.dataset import Dataset
from speedproof.records.files import read_record, write_json

WORKLOAD = Path(__file__).resolve().parents[1]
PROGRAMS, NAME = WORKLOAD.parents[1] / "examples/published.yaml", "monai_brain_tumour"


def make_ready(values: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` in which `programs` and `Task01_BrainTumour` are links, and write `out`.

    Raises :class:`SpeedproofError`: those of the programs and of the volumes.
    """
    sys.path.insert(0, str(WORKLOAD))
    from speedproof_brain_tumour.data import check_data, prepare

    given = values.get("published_folder")
    if not isinstance(given, str | None):
        raise ConfigError("data.published_folder: must be a folder's path, or null")
    data = check_data({key: value for key, value in values.items() if key != "published_folder"})
    published = find_published(PROGRAMS, NAME)
    programs = take_published(published, Path(given)) if given else fetch_published(published, Path(data.folder))
    prepare(data, out)
    dataset = read_record(out, Dataset)
    both = out.parent / "both"
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    (both / "programs").symlink_to(programs.resolve())
    (both / "Task01_BrainTumour").symlink_to((out.parent / dataset.folder).resolve())  # as MONAI's DecathlonDataset finds it
    write_json(out, dataset.model_copy(update={"folder": both.name}))
    return both


def main(arguments: Sequence[str]) -> int:
    """Prepare what a configuration's `data` asks for."""
    parser = argparse.ArgumentParser(description="Fetch or find programs and volumes, and write dataset.json.")
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
