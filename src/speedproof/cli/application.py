"""All commands together: those that people type, in groups, and the steps that the workflow's rules call."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from speedproof import __version__
from speedproof.cli import (
    bisect_commands,
    campaign_commands,
    gate_commands,
    ledger_commands,
    machine_commands,
    mcp_commands,
    proof_commands,
    result_commands,
    step_commands,
    trace_commands,
)
from speedproof.cli.exits import say

# What commands were called before they were in groups. The next version knows these names no more.
OLD_COMMANDS = {
    "analyze": "trace analyze",
    "compare": "trace diff",
    "ranks": "trace ranks",
    "convert": "trace convert",
    "open": "trace open",
    "verdict": "results show",
    "report": "results report",
    "rebuild": "results rebuild",
    "record": "results archive",
    "merge": "results merge",
    "records": "results list",
    "cost": "results cost",
    "close": "results close",
}


class RenamedCommandsGroup(TyperGroup):
    """A group that knows the former names of its commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the words name."""
        if new := OLD_COMMANDS.get(args[0]):
            say(f"`speedproof {args[0]}` is now called `speedproof {new}`", err=True)
            args = [*new.split(), *args[1:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="speedproof",
    cls=RenamedCommandsGroup,
    help="Tests whether one training program is faster than another, on your machine.",
    epilog="Steps of the workflow, each with a --help: image, experiment, warm-up, verdicts, schema, launch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _module in (proof_commands, gate_commands, bisect_commands, machine_commands, mcp_commands, step_commands):
    app.add_typer(_module.commands)
app.add_typer(trace_commands.commands, name="trace", help="Show where the time of a profiled program went.")
app.add_typer(result_commands.commands, name="results", help="Show, report, archive and merge what was measured.")
app.add_typer(campaign_commands.commands, name="campaign", help="Try many changes; keep those that are faster.")
app.add_typer(ledger_commands.commands, name="ledger", help="Measure documented speedups of other projects.")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
