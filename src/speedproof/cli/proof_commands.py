"""What people type to prove one command faster than another."""

from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.exits import ending_as_proof, print_error, print_nothing
from speedproof.cli.options import command
from speedproof.cli.request_options import OUTPUT, RequestCommand, take_request

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer()

CommandLines = Annotated[
    list[str],
    typer.Argument(
        help="Two or more commands, each in quotes (NAME=value may precede; other shell syntax: \"sh -c '…'\"); "
        "or a file made by `init`"
    ),
]


@command(
    commands,
    "speedproof prove 'python a.py' 'python b.py' --claim '>= 1.5'",
    r"speedproof prove 'python a.py' 'python b.py' --quality 'val_acc: (\S+)' --margin 0.01",
    r"speedproof prove ./old ./new --epoch-s 'epoch took (\S+) s' --rounds 6",
    "speedproof prove 'torchrun --nproc-per-node 2 a.py' 'torchrun --nproc-per-node 2 b.py' --gpus 2 --profiled 1",
    "speedproof prove proof.yaml --profile slurm --container image.sif --out results/mine",
    name="prove",
    cls=RequestCommand,
)
def run_prove(
    context: typer.Context,
    commands: CommandLines,
    out: Annotated[Path, typer.Option(help="Folder of the proof; the same command resumes it", rich_help_panel=OUTPUT)] = Path(
        "results/proof"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Test whether one command is faster than another: `speedproof prove 'python a.py' 'python b.py'`.

    The ratio is the first command's time over the second's: above 1, the second is faster.

    Exit status 0: faster or slower, or the claim holds. 1: equivalent, the claim fails, or a worse quality.
    2: inconclusive, or the quality is not established. 3: an error.
    """
    from speedproof.run.proof.live_status import Status

    with ending_as_proof(out, print_error if json else print_nothing):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.proof.proof import prove_request

            verdict = prove_request(take_request(context, commands), out, Path.cwd(), status)
        if json:
            typer.echo(verdict.model_dump_json(indent=1))
        else:
            from speedproof.run.proof.verdict_output import print_verdict

            print_verdict(verdict)
    raise typer.Exit(verdict.exit_status)


@command(commands, "speedproof init 'python a.py' 'python b.py' --claim '>= 1.5' > proof.yaml", cls=RequestCommand)
def init(context: typer.Context, commands: CommandLines) -> None:
    """Write a proof as a YAML file: `speedproof init 'python a.py' 'python b.py' > proof.yaml`."""
    from speedproof.run.proof.request import write_request

    with ending_as_proof():
        text = write_request(take_request(context, commands))
    typer.echo(text, nl=False)
