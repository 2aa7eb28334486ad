"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the volumes."""

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from speedproof.cli.ending import run_app
from speedproof.cli.options import ConfigFiles, LogFile
from speedproof.cli.saying import log, start_log

PROGRAMS, NAME = Path(__file__).resolve().parents[3] / "examples/published.yaml", "monai_spleen_profiling"

app = typer.Typer(name="prepare_published", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def prepare(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Fetch or find the programs and the volumes, and write dataset.json."""
    from speedproof.config.load import load_config

    start_log(log_file)
    log.info("%s: programs and volumes", make_ready(load_config(*config).data, out))


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` with links to programs and volumes and a `dataset.json` of its own, and write `out`.

    Raises :class:`SpeedproofError`: those of the programs and of the volumes.
    """
    from speedproof.common.errors import ConfigError
    from speedproof.config.load import validate
    from speedproof.fetch.published import fetch_published, find_published, take_published
    from speedproof.records.files import write_json
    from speedproof_spleen.config import Data
    from speedproof_spleen.data.prepare import prepare_dataset

    given = data.get("published_folder")
    if not isinstance(given, str | None):
        raise ConfigError("data.published_folder: must be a folder's path, or null")
    checked = validate(Data, {key: value for key, value in data.items() if key != "published_folder"}, "config: data")
    published = find_published(PROGRAMS, NAME)
    programs = take_published(published, Path(given)) if given else fetch_published(published, Path(checked.folder))
    dataset = prepare_dataset(checked, out)
    both = out.parent / "both"
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    (both / "programs").symlink_to(programs.resolve())
    for kind in ("imagesTr", "labelsTr"):
        (both / kind).symlink_to((out.parent / dataset.folder / kind).resolve())
    write_json(both / out.name, dataset.model_copy(update={"folder": "."}))
    write_json(out, dataset.model_copy(update={"folder": both.name}))
    return both


if __name__ == "__main__":
    run_app(app)
