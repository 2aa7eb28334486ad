"""The commands that a `workload.yaml` names: `configure` and `prepare`."""

import json
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from speedproof.api import ConfigFiles, LogFile, start_log

log = logging.getLogger("speedproof")


def make_app(package: str, title: str, module: str) -> typer.Typer:
    """Return the commands of a workload whose `module` has `Data`, a kind of source, `complete` and `prepare_dataset`."""
    app = typer.Typer(
        name=package,
        help=f"{title}, a workload of speedproof.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.command()
    def configure(origin: Annotated[str, typer.Option(help="The place that error messages name")] = "config") -> None:
        """Read a configuration as JSON, and print it completed."""
        typer.echo(json.dumps(import_module(module).complete(json.load(sys.stdin), origin)))

    @app.command()
    def prepare(
        config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
    ) -> None:
        """Download, find or make the data, and write dataset.json."""
        from speedproof.api import load_config
        from speedproof_common.data import check_source

        start_log(log_file)
        data = import_module(module)
        checked = check_source(data.Data, load_config(*config).data, " + ".join(map(str, config)))
        dataset = data.prepare_dataset(checked, out)
        log.info("%s %s is whole", dataset.name, dataset.version)

    return app


def make_preparing_app(make_ready: Callable[[dict[str, Any], Path], Path]) -> typer.Typer:
    """Return a command that gives `data` of a configuration and the dataset.json to write to `make_ready`."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.command()
    def prepare(
        config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
    ) -> None:
        """Fetch or find programs and data, and write dataset.json."""
        from speedproof.api import load_config

        start_log(log_file)
        log.info("%s: programs and data", make_ready(load_config(*config).data, out))

    return app
