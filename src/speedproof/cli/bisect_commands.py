"""What people type to find the commit that changed the speed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.cli.exits import ending_as_proof, print_json_error, print_nothing, say
from speedproof.cli.options import command
from speedproof.cli.request_options import OUTPUT, RequestCommand, take_given
from speedproof.util.errors import SpeedproofError

if TYPE_CHECKING:
    from speedproof.run.bisect.bisect_request import BisectRequest

commands = typer.Typer()


def print_bisect_error(error: SpeedproofError) -> None:
    """Print an error as JSON, in place of a result."""
    from speedproof.results.bisect_result import BisectResult

    print_json_error(error, BisectResult.model_fields["schema_version"].default)


def _find_bisect_model() -> type["BisectRequest"]:
    from speedproof.run.bisect.bisect_request import BisectRequest

    return BisectRequest


class BisectCommand(RequestCommand):
    """The command `bisect`."""

    find_model = staticmethod(_find_bisect_model)
    print_as_json = staticmethod(print_bisect_error)


@command(
    commands,
    "speedproof bisect v1.0 main -- 'python train.py'",
    r"speedproof bisect v1.0 main --epoch-s 'took (\S+) s' --budget 60 -- 'python train.py'",
    "speedproof bisect HEAD~40 HEAD --build make -- ./train",
    name="bisect",
    cls=BisectCommand,
)
def run_bisect(
    context: typer.Context,
    good: Annotated[str, typer.Argument(help="The older commit, whose speed is known", metavar="GOOD")],
    bad: Annotated[str, typer.Argument(help="The newer commit, which is slower or faster", metavar="BAD")],
    command_line: Annotated[list[str], typer.Argument(help="The command, in quotes or after `--`", metavar="COMMAND")],
    out: Annotated[Path, typer.Option(help="Folder of the runs", rich_help_panel=OUTPUT)] = Path("results/bisect"),
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Find the commit that changed the speed: `speedproof bisect GOOD BAD -- 'python train.py'`.

    Commits are the first parents from GOOD to BAD. One that does not build or run is skipped.

    Exit status 0: found. 1: no difference, or no single commit. 2: inconclusive. 3: an error.
    """
    from speedproof.run.proof.live_status import Status

    with ending_as_proof(out, print_bisect_error if json else print_nothing):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.bisect.bisect_request import make_bisect_request
            from speedproof.run.bisect.bisecting import bisect_commits

            request = make_bisect_request(command_line, take_given(context))
            found = bisect_commits(request, good, bad, out, Path.cwd(), status)
        if json:
            typer.echo(found.model_dump_json(indent=1))
        else:
            from speedproof.report.bisect_phrases import list_bisect_lines

            for line in list_bisect_lines(found):
                say(line)
    raise typer.Exit(found.exit_status)
