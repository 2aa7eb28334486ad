"""What people type to let a language model's agent measure, within limits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.cli.exits import ending_as_proof
from speedproof.cli.options import command
from speedproof.cli.request_options import OUTPUT, RequestCommand, take_given
from speedproof.util.errors import ConfigError, advise_install

if TYPE_CHECKING:
    from speedproof.run.mcp_server.agent_limits import ServerOptions

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer()

LIMITS = "Limits"  # the panel of what an agent may do


def _find_server_model() -> type["ServerOptions"]:
    from speedproof.run.mcp_server.agent_limits import ServerOptions

    return ServerOptions


class McpCommand(RequestCommand):
    """The command `mcp`."""

    find_model = staticmethod(_find_server_model)


@command(
    commands,
    "speedproof mcp --command 'A=python train.py' --command 'B=python train_fast.py' --budget 10",
    r"speedproof mcp --command 'train=python train.py' --project ~/project --folder traces --epoch-s 'took (\S+) s'",
    name="mcp",
    cls=McpCommand,
)
def serve_agent(
    context: typer.Context,
    command_lines: Annotated[
        list[str],
        typer.Option(
            "--command",
            metavar="NAME=COMMAND",
            help="A command that may be run, by its name (repeatable)",
            rich_help_panel=LIMITS,
        ),
    ],
    budget: Annotated[
        float, typer.Option(min=0.1, max=10_000, metavar="MINUTES", help="Time limit for all calls", rich_help_panel=LIMITS)
    ] = 30.0,
    project: Annotated[Path, typer.Option(help="Folder that the commands run in copies of", rich_help_panel=LIMITS)] = Path(),
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Folder whose traces may be read (repeatable). Default: the project", rich_help_panel=LIMITS),
    ] = None,
    ledger: Annotated[Path, typer.Option(help="Folder of the ledger's entries", rich_help_panel=LIMITS)] = Path("ledger"),
    out: Annotated[Path, typer.Option(help="Folder of the results, one for each call", rich_help_panel=OUTPUT)] = Path(
        "results/mcp"
    ),
) -> None:
    """Serve an agent over MCP on stdin and stdout. It runs only the commands that you name, within a budget.

    Tools: prove, gate, trace_analyze, trace_diff, doctor, ledger.
    """
    with ending_as_proof():
        from speedproof.run.mcp_server.agent_limits import make_limits

        limits = make_limits(command_lines, take_given(context), project, folder or [], out, ledger)
        try:
            from speedproof.run.mcp_server.tool_server import serve
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            raise ConfigError(f"mcp: the package {package} is missing; {advise_install('mcp')}") from None
        serve(limits, budget)
