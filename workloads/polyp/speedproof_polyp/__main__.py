"""`python -m speedproof_polyp`: what `workload.yaml` names, for the instrument; so can you."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.ending import run_app
from speedproof.cli.options import ConfigFiles, LogFile
from speedproof.cli.saying import log, start_log

app = typer.Typer(
    name="speedproof_polyp",
    help="GIST's polyp segmentation, a workload of speedproof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def configure(origin: Annotated[str, typer.Option(help="What mistakes are said to be in")] = "config") -> None:
    """Read a configuration as JSON, and print it completed."""
    from speedproof_polyp.data.prepare import complete

    typer.echo(json.dumps(complete(json.load(sys.stdin), origin)))


@app.command()
def prepare(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Download, find or make the pairs, and write dataset.json."""
    from speedproof.config.load import load_config
    from speedproof_polyp.data.prepare import check_data, prepare_dataset

    start_log(log_file)
    dataset = prepare_dataset(check_data(load_config(*config).data, " + ".join(map(str, config))), out)
    log.info("%s %s is whole", dataset.name, dataset.version)


if __name__ == "__main__":
    run_app(app)
