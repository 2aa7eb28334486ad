"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the images."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from speedproof.cli.ending import run_app
from speedproof.cli.options import ConfigFiles, LogFile
from speedproof.cli.saying import log, start_log

WORKLOAD = Path(__file__).resolve().parents[1]
PROGRAMS, NAME = WORKLOAD.parents[1] / "examples/published.yaml", "kaust_classifier"

app = typer.Typer(name="prepare_published", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def prepare(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Fetch or find the programs and the images, and write dataset.json."""
    from speedproof.config.load import load_config

    start_log(log_file)
    made = make_ready(load_config(*config).data, out)
    log.info("%s: programs and images", made)


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` in which `programs` and `images` are links, and write `out`. Errors are those of both."""
    sys.path.insert(0, str(WORKLOAD))
    from speedproof.common.errors import ConfigError
    from speedproof.fetch.published import fetch_published, find_published, take_published
    from speedproof.records.files import write_json
    from speedproof_classifier.data.prepare import check_data, prepare_dataset

    given = data.get("published_folder")
    if not isinstance(given, str | None):
        raise ConfigError("data.published_folder: must be a folder's path, or null")
    checked = check_data({key: value for key, value in data.items() if key != "published_folder"}, "config")
    published = find_published(PROGRAMS, NAME)
    programs = take_published(published, Path(given)) if given else fetch_published(published, Path(checked.folder))
    dataset = prepare_dataset(checked, out)
    both = out.parent / "both"
    shutil.rmtree(both, ignore_errors=True)
    both.mkdir()
    (both / "programs").symlink_to(programs.resolve())
    (both / "images").symlink_to((out.parent / dataset.folder).resolve())
    write_json(out, dataset.model_copy(update={"folder": both.name}))
    return both


if __name__ == "__main__":
    run_app(app)
