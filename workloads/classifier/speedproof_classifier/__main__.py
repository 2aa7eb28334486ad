"""`python -m speedproof_classifier`: makes the data ready, as `workload.yaml` names it for the instrument; so can you."""

from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.ending import run_app
from speedproof.cli.options import ConfigFiles, LogFile
from speedproof.cli.saying import log, start_log

app = typer.Typer(name="speedproof_classifier", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def prepare(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Download, find or make the images, and write dataset.json."""
    from speedproof.config.load import load_config
    from speedproof_classifier.data.prepare import check_data, prepare_dataset

    start_log(log_file)
    dataset = prepare_dataset(check_data(load_config(*config).data), out)
    log.info("%s %s is whole", dataset.name, dataset.version)


if __name__ == "__main__":
    run_app(app)
