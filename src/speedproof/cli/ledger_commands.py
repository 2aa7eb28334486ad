"""What people type of the ledger: documented speedups of other projects, measured here."""

from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.exits import ProofCommand, ending_as_proof, say
from speedproof.cli.options import command
from speedproof.util.numbers import format_count

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer(no_args_is_help=True)

LedgerFolder = Annotated[Path, typer.Option("--ledger", help="Folder of entries, a YAML file each")]
EntryName = Annotated[str, typer.Argument(metavar="ID", help="An entry's id, as `ledger list` shows it")]
OwnResults = Annotated[Path, typer.Option("--out", help="Folder of your own results")]
_LEDGER, _OUT = Path("ledger"), Path("results/ledger")


@command(commands, "speedproof ledger list", "speedproof ledger list --page docs/ledger.md", name="list")
def list_all_entries(
    ledger: LedgerFolder = _LEDGER,
    out: OwnResults = _OUT,
    page: Annotated[
        Path | None, typer.Option(help="Write the table, of kept records only, into this page between its marks")
    ] = None,
) -> None:
    """List all entries: what is documented, and what was measured."""
    from speedproof.report.terminal import make_console, print_listing
    from speedproof.results.files import write_text
    from speedproof.run.ledger.entry import load_ledger
    from speedproof.run.ledger.entry_outcome import find_outcomes
    from speedproof.run.ledger.ledger_tables import compose_ledger_page, list_ledger

    own = None if page else out
    judged = {name: (entry, find_outcomes(name, entry, ledger, own)) for name, entry in load_ledger(ledger).items()}
    if page:
        write_text(page, compose_ledger_page(page, ledger, judged))
        say(f"{page}: written")
    else:
        print_listing(make_console(), list_ledger(judged))


@command(commands, "speedproof ledger check", "speedproof ledger check --online", name="check")
def check_ledger(
    ledger: LedgerFolder = _LEDGER,
    online: Annotated[bool, typer.Option("--online", help="Also check that each source is still there")] = False,
) -> None:
    """Check all entries; print each mistake. Exit status 1 if there is one."""
    from speedproof.run.ledger.entry import list_entry_files
    from speedproof.run.ledger.ledger_check import list_ledger_mistakes

    mistakes = list(list_ledger_mistakes(ledger, online))
    for mistake in mistakes:
        say(mistake, err=True)
    if mistakes:
        raise typer.Exit(1)
    say(f"{ledger}: {format_count(len(list_entry_files(ledger)), 'valid file')}")


@command(
    commands,
    "speedproof ledger run numpy_einsum",
    "speedproof ledger run nanogpt_compile --source ~/nanoGPT",
    name="run",
    cls=ProofCommand,
)
def run_ledger_entry(
    name: EntryName,
    source: Annotated[Path | None, typer.Option(help="Folder that holds the published programs. Default: fetch them")] = None,
    ledger: LedgerFolder = _LEDGER,
    out: OwnResults = _OUT,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Timed runs of each command. Default: as in the entry")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for another measurement here to end")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress")] = False,
) -> None:
    """Measure an entry's two commands and judge its number; the same command resumes it.

    Exit status 0: reproduced or exceeded. 1: not reproduced here. 2: inconclusive, or not comparable. 3: an error.
    """
    from speedproof.run.proof.live_status import Status

    with ending_as_proof(out / name):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.ledger.entry import find_entry_file, load_entry
            from speedproof.run.ledger.entry_outcome import LEDGER_STATUS, describe_entry_outcome, judge_entry
            from speedproof.run.ledger.run_entry import lay_out_programs, refuse_unrunnable, run_entry
            from speedproof.run.proof.verdict_output import print_verdict

            changes = {"wait": wait, **({"rounds": rounds} if rounds else {})}
            entry = load_entry(find_entry_file(ledger, name))
            refuse_unrunnable(name, entry)
            place = lay_out_programs(name, entry, ledger, out, source)
            verdict = run_entry(name, entry, place, out, changes, status)
        print_verdict(verdict.model_copy(update={"next_command": None}))  # it would run in another folder
        outcome = judge_entry(entry, out / name)
        say(f"Documented number: {describe_entry_outcome(entry, outcome)}")
    raise typer.Exit(LEDGER_STATUS[outcome.verdict])


@command(
    commands, "speedproof ledger show numpy_einsum", "speedproof ledger show numpy_einsum --json", name="show", cls=ProofCommand
)
def show_entry(
    name: EntryName,
    ledger: LedgerFolder = _LEDGER,
    out: OwnResults = _OUT,
    json: Annotated[bool, typer.Option("--json", help="Print the outcomes as JSON, the newest first")] = False,
) -> None:
    """Print what an entry documents and what was measured, with the exit status of `ledger run`."""
    with ending_as_proof():
        from speedproof.run.ledger.entry import find_entry_file, load_entry
        from speedproof.run.ledger.entry_outcome import LEDGER_STATUS, EntryOutcome, find_outcomes
        from speedproof.run.ledger.ledger_tables import describe_entry, write_outcomes_json

        entry = load_entry(find_entry_file(ledger, name))
        outcomes = find_outcomes(name, entry, ledger, out) or [EntryOutcome()]
        if json:
            typer.echo(write_outcomes_json(outcomes))
        else:
            for line in describe_entry(entry, outcomes):
                say(line)
    raise typer.Exit(LEDGER_STATUS[outcomes[0].verdict])
