"""What people and their programs type to try many changes, one after the other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.cli.exits import ProofCommand, ending_as_proof, print_json_error, print_nothing, say
from speedproof.cli.options import command
from speedproof.cli.request_options import OUTPUT, RequestCommand, take_given

if TYPE_CHECKING:
    from speedproof.run.campaign.campaign_request import CampaignRequest

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer(no_args_is_help=True)

CampaignFolder = Annotated[Path, typer.Option("--out", help="Folder of the campaign", rich_help_panel=OUTPUT)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress", rich_help_panel=OUTPUT)]
_OUT = Path("results/campaign")


def _find_campaign_model() -> type["CampaignRequest"]:
    from speedproof.run.campaign.campaign_request import CampaignRequest

    return CampaignRequest


class StartCommand(RequestCommand):
    """The command `campaign start`."""

    find_model = staticmethod(_find_campaign_model)


class TryCommand(ProofCommand):
    """The command `campaign try`."""

    print_as_json = staticmethod(print_json_error)


@command(
    commands,
    "speedproof campaign start --tries 50 --protect evaluate.py -- 'python train.py'",
    r"speedproof campaign start --quality 'accuracy (\S+)' --margin 0.01 -- 'python train.py'",
    name="start",
    cls=StartCommand,
)
def begin_campaign(
    context: typer.Context,
    command_line: Annotated[list[str], typer.Argument(help="The command, in quotes or after `--`", metavar="COMMAND")],
    out: CampaignFolder = _OUT,
) -> None:
    """Begin a campaign: many tries to make a command faster, which share one error of 5 %."""
    from speedproof.report.campaign_table import describe_campaign
    from speedproof.run.campaign.campaign import start_campaign
    from speedproof.run.campaign.campaign_request import make_campaign_request

    with ending_as_proof(out):
        say(describe_campaign(start_campaign(make_campaign_request(command_line, take_given(context)), out, Path.cwd())))


@command(commands, "speedproof campaign try HEAD", "speedproof campaign try faster-loader --json", name="try", cls=TryCommand)
def try_change(
    commit: Annotated[str, typer.Argument(help="Commit with the change", metavar="COMMIT")] = "HEAD",
    out: CampaignFolder = _OUT,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare a commit with the campaign's reference. A commit that is kept becomes the reference.

    Exit status 0: kept. 1: dropped, or refused because it changes protected files. 2: not decided within the budget. 3: error.
    """
    from speedproof.run.proof.live_status import Status

    with ending_as_proof(out, print_json_error if json else print_nothing):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.campaign.campaign import try_commit

            found = try_commit(commit, out, Path.cwd(), status)
        from speedproof.report.campaign_table import describe_try

        if json:
            typer.echo(found.model_dump_json(indent=1))
        for line in [] if json else describe_try(found):
            say(line)
    raise typer.Exit(found.exit_status)


@command(commands, "speedproof campaign show", "speedproof campaign show --json", name="show")
def show_campaign(out: CampaignFolder = _OUT, json: AsJson = False) -> None:
    """Show all tries of a campaign: what was tried, what it cost, what was kept."""
    from speedproof.report.campaign_table import describe_campaign, list_tries
    from speedproof.report.terminal import make_console, print_listing
    from speedproof.run.campaign.campaign import read_campaign

    found = read_campaign(out)
    if json:
        typer.echo(found.model_dump_json(indent=1))
        return
    print_listing(make_console(), list_tries(found))
    say(describe_campaign(found))
