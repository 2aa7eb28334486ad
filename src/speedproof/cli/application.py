"""All subcommands together."""

from typing import Annotated

import typer

from speedproof import __version__
from speedproof.cli import machine_commands, proof_commands, result_commands, step_commands, trace_commands

app = typer.Typer(
    name="speedproof",
    help="Tests whether one training program is faster than another, on your machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _module in (proof_commands, machine_commands, trace_commands, result_commands, step_commands):
    app.add_typer(_module.commands)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
