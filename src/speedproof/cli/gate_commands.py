"""What people type to keep a slower commit out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speedproof.cli.exits import ending_as_proof, print_json_error, say
from speedproof.cli.options import command
from speedproof.cli.request_options import OUTPUT, RequestCommand, take_given
from speedproof.util.errors import SpeedproofError

GATE = "Gate"  # the panel of a gate's own options

if TYPE_CHECKING:
    from speedproof.results.gate_result import Calibration, GateResult
    from speedproof.run.gate.gate_request import GateRequest
    from speedproof.run.proof.live_status import Status

commands = typer.Typer()


def print_gate_error(error: SpeedproofError) -> None:
    """Print an error as JSON, in place of a result."""
    from speedproof.results.gate_result import GateResult

    print_json_error(error, GateResult.model_fields["schema_version"].default)


def _find_gate_model() -> type["GateRequest"]:
    from speedproof.run.gate.gate_request import GateRequest

    return GateRequest


class GateCommand(RequestCommand):
    """The command `gate`."""

    find_model = staticmethod(_find_gate_model)
    print_as_json = staticmethod(print_gate_error)


GatedCommand = Annotated[list[str], typer.Argument(help="The command, in quotes or after `--`", metavar="COMMAND")]


@command(
    commands,
    "speedproof gate --base main --head HEAD -- 'python train.py'",
    r"speedproof gate --base main --regression 2% --epoch-s 'took (\S+) s' -- 'python train.py'",
    "speedproof gate --base v1.0 --improvement 5% --build 'make' -- ./train",
    "speedproof gate --calibrate -- 'python train.py'",
    name="gate",
    cls=GateCommand,
)
def run_gate(
    context: typer.Context,
    command_line: GatedCommand,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure the base against itself: what can be detected here?", rich_help_panel=GATE),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results", rich_help_panel=OUTPUT)] = Path("results/gate"),
    summary: Annotated[
        Path | None, typer.Option(help="Also write the outcome to this file as Markdown", rich_help_panel=OUTPUT)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Test whether a commit is slower than another: `speedproof gate --base main -- 'python train.py'`.

    Both run the same command, in rounds on this machine, each in a fresh copy of its own files.

    Exit status 0: passed. 1: a regression, no improvement, or a worse quality. 2: inconclusive. 3: an error.
    """
    from speedproof.run.proof.live_status import Status

    def tell(error: SpeedproofError) -> None:
        if summary is not None:
            _write_error(summary, error)
        if json:
            print_gate_error(error)

    with ending_as_proof(out, tell):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.gate.gate_request import make_gate_request

            request = make_gate_request(command_line, take_given(context))
            found = _calibrate(request, out, status) if calibrate else _decide(request, out, status)
        if json:
            typer.echo(found.model_dump_json(indent=1))
        _show(found, summary, printed=not json)
    raise typer.Exit(getattr(found, "exit_status", 0))


def _decide(request: "GateRequest", out: Path, status: "Status") -> "GateResult":
    from speedproof.run.gate.gate import gate_commits

    return gate_commits(request, out, Path.cwd(), status)


def _calibrate(request: "GateRequest", out: Path, status: "Status") -> "Calibration":
    from speedproof.run.gate.calibration import calibrate
    from speedproof.run.gate.gate import find_commit

    return calibrate(request, find_commit(Path.cwd(), request.base, out), out, Path.cwd(), status)


def _show(found: Any, summary: Path | None, printed: bool) -> None:
    """Write the summary, and print the outcome if nothing else is printed."""
    from speedproof.report.gate_summary import REPORT, describe_calibration, describe_gate, list_gate_lines, write_gate_summary
    from speedproof.results.files import write_text
    from speedproof.results.gate_result import Calibration

    if isinstance(found, Calibration):
        text, lines = f"{describe_calibration(found)}\n", [describe_calibration(found)]
    else:
        text = write_gate_summary(found, found.report, REPORT)
        lines = [describe_gate(found), *list_gate_lines(found)]
        lines += [f"Next: {found.next_command}"] if found.next_command else []
        lines += [f"Report: {found.report}"] if found.report else []
    if summary is not None:
        write_text(summary, text)
    for line in lines if printed else []:
        say(line)


def _write_error(summary: Path, error: SpeedproofError) -> None:
    from speedproof.report.gate_summary import write_error_summary
    from speedproof.results.files import write_text

    write_text(summary, write_error_summary(str(error)))
