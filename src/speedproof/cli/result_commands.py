"""What people type of finished results: reports, records, what is made again, what is to come."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.exits import ProofCommand, ending_as_proof, print_error, print_nothing, say, start_log
from speedproof.cli.options import ClaimsPath, ConfigFiles, FoundResults, LogFile, command
from speedproof.util.log_file import log
from speedproof.util.numbers import format_count

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer(no_args_is_help=True)


@command(
    commands, "speedproof results show", "speedproof results show --from results/proof --json", name="show", cls=ProofCommand
)
def show_results(
    results: FoundResults = None,
    json: Annotated[bool, typer.Option("--json", help="Print comparison.json, or a proof's verdict, as JSON")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Also print every metric of the timed runs")] = False,
) -> None:
    """Print what a proof, a results folder or a record found, and where its report is.

    For a proof, the exit status is that of `speedproof prove`; otherwise it is 0, or 3 if there is an error.
    """
    with ending_as_proof(tell=print_error if json else print_nothing):
        status = _print_verdict(results, json, metrics)
    raise typer.Exit(status)


def _print_verdict(results: Path | None, json: bool, metrics: bool) -> int:
    """Print what was found in a results folder, by default the newest; return the exit status of a proof's verdict, else 0."""
    from speedproof.run.proof.find import check_finished, find_proof, find_results, read_verdict

    results = find_proof(find_results(Path("results")) if results is None else results)
    check_finished(results)
    proof = read_verdict(results)
    if proof is None:
        _print_comparison(results, json, metrics)
        return 0
    if json:
        typer.echo(proof.model_dump_json(indent=1))
        return proof.exit_status
    from speedproof.run.proof.verdict_output import print_verdict

    print_verdict(proof)
    return proof.exit_status


def _print_comparison(results: Path, json: bool, metrics: bool) -> None:
    from speedproof.report.findings import describe_noise, describe_verdicts
    from speedproof.report.headlines import describe_answer, describe_headlines
    from speedproof.results.asked import read_asked
    from speedproof.results.folder import read_current_comparison
    from speedproof.stats.found_tables import Findings
    from speedproof.stats.main_ratios import find_answer

    comparison = read_current_comparison(results)
    if json:
        typer.echo(comparison.model_dump_json(indent=1))
        return
    found = Findings(comparison)
    for sentence in describe_answer(find_answer(comparison, read_asked(results))):
        say(sentence)
    say("")
    for sentence in [*describe_headlines(found), *describe_noise(found.noises), describe_verdicts(found)]:
        say(sentence)
    if metrics:
        from speedproof.report.terminal import print_metrics

        print_metrics(found)
    page = results / "report.html"
    figures = page if page.exists() else f"`speedproof results report --from {results}` draws figures"
    say(f"Report: {results / 'report.md'}; {figures}")


@command(
    commands,
    "speedproof results report",
    "speedproof results report --from records/2026-11-28-h200-published-turbo --out /tmp/turbo",
    "speedproof results report --index records --index results --out results",
)
def report(
    results: FoundResults = None,
    index: Annotated[
        list[Path] | None,
        typer.Option(help="Instead, write index.html on a folder's results, a row each (repeatable)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: beside the results")] = None,
    log_file: LogFile = None,
) -> None:
    """Write report.md and report.html with the figures. The same results give the same bytes."""
    start_log(log_file)
    if index:
        if results:
            raise typer.BadParameter("give --from or --index, not both")
        _write_index(index, out or index[0])
        return
    from speedproof.report.figures.figure_data import read_evidence
    from speedproof.run.archive.rebuild import rebuild_report
    from speedproof.run.proof.find import take_results
    from speedproof.run.staleness import check_current

    taken = take_results(results)
    check_current(taken)
    folder = out or taken
    rebuild_report(read_evidence(taken), folder)
    log.info("%s: written, and with figures report.html", folder / "report.md")


def _write_index(folders: list[Path], out: Path) -> None:
    from speedproof.report.index_page import write_index
    from speedproof.run.proof.find import list_results

    found = {results: name for folder in folders for results, name in list_results(folder).items()}
    say(f"Index of {format_count(len(found), 'result')}: {write_index(found, out)}")


@command(commands, "speedproof results rebuild --from records/2026-11-28-h200-published-turbo --claims claims.yaml")
def rebuild(
    claims: ClaimsPath,
    results: FoundResults = None,
) -> None:
    """Rebuild all that follows from experiments/: analyses, comparison, figures, report."""
    from speedproof.run.archive.rebuild import rebuild_results
    from speedproof.run.proof.find import take_results
    from speedproof.run.staleness import check_current

    taken = take_results(results)
    check_current(taken)
    rebuild_results(taken, claims)
    say(f"{taken / 'report.md'}: written")


@command(commands, "speedproof results archive --from results --claims claims.yaml --out records/2026-11-22-h200")
def archive(
    claims: ClaimsPath,
    out: Annotated[Path, typer.Option(help="Record to write: records/<date>-<gpu>")],
    results: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Results folder (repeatable; experiments are merged). Default: the newest"),
    ] = None,
    untraced: Annotated[
        list[str] | None,
        typer.Option("--untraced", help="Leave out a variant's profiled runs; the report mentions it (repeatable)"),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(min=3, metavar="N", help="Keep only the last N iterations of each trace; the report mentions it"),
    ] = None,
) -> None:
    """Archive finished experiments as a record, without data, checkpoints and secrets."""
    from speedproof.run.archive.record import write_record
    from speedproof.run.proof.find import take_results

    sources: list[Path | None] = [*results] if results else [None]
    write_record([take_results(folder) for folder in sources], claims, out, untraced or [], iterations)
    say(f"{out}: written; read its report.md")


@command(
    commands,
    "speedproof results merge --from records/2026-11-23-h200-baseline-2021 --from records/2026-11-23-h200-profiling-pair",
)
def merge(
    results: Annotated[list[Path], typer.Option("--from", help="A record, results folder or proof (repeatable)")],
    claims: Annotated[Path | None, typer.Option("--claims", help="Also judge these documented ratios: a claims.yaml")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Merge experiments of equal settings from several records: each machine counts once."""
    from speedproof.report.merged import MergedAnswer, list_merged, write_merged_json
    from speedproof.report.terminal import make_console, print_listing
    from speedproof.results.merging import merge_results
    from speedproof.run.proof.find import take_results
    from speedproof.stats.claims_file import load_claims
    from speedproof.stats.merged_ratios import count_unjudged, judge_merged, measure_merged

    merged = merge_results([take_results(folder) for folder in results])
    ratios, documented = measure_merged(merged.results), load_claims(claims) if claims else None
    judged = judge_merged(merged.results, documented) if documented else []
    answer = MergedAnswer(ratios, merged.repeated, judged, count_unjudged(judged, documented) if documented else 0)
    if as_json:
        typer.echo(write_merged_json(answer))
        return
    console = make_console()
    for part in list_merged(answer):
        if isinstance(part, str):
            say(part)
        else:
            print_listing(console, part)


@command(commands, "speedproof results list", "speedproof results list --readme README.md", name="list")
def list_records(
    folder: Annotated[Path, typer.Option("--from", help="Folder of records")] = Path("records"),
    readme: Annotated[
        Path | None, typer.Option(help="Write the table into this file, between its marks. Default: print")
    ] = None,
) -> None:
    """Print a table of the records, for the README."""
    from speedproof.report.records_overview import tabulate_records, update_readme

    if readme:
        update_readme(readme, folder)
    else:
        typer.echo(tabulate_records(folder), nl=False)


@command(
    commands,
    "speedproof results cost --config config.yaml",
    "speedproof results cost --config config.yaml --from records --from results",
)
def cost(
    config: ConfigFiles,
    past: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Folder of past records or results (repeatable). Default: records"),
    ] = None,
) -> None:
    """Estimate what a configuration costs: GPU minutes (from past runs), disk, download."""
    from speedproof.config.load import load_config
    from speedproof.run.archive.cost import describe_cost, estimate_cost

    for sentence in describe_cost(estimate_cost(load_config(*config), past or [Path("records")])):
        say(sentence)


@command(commands, "speedproof results close --experiment results/experiments/experiment-1")
def close(
    experiment: Annotated[Path, typer.Option(help="Experiment folder: RESULTS/experiments/<name>")],
) -> None:
    """Close an interrupted experiment that cannot resume; its complete runs count."""
    from speedproof.config.load import read_completed_config
    from speedproof.results.folder import CONFIG_FILE
    from speedproof.run.archive.close import close_experiment
    from speedproof.run.locks import holding_folder

    folders = experiment.absolute().parents
    if len(folders) < 2:
        raise typer.BadParameter(f"--experiment: {experiment} is not in a results folder; name RESULTS/experiments/<name>")
    config = read_completed_config(folders[1] / CONFIG_FILE)
    with holding_folder(experiment) if experiment.is_dir() else nullcontext():
        closed = close_experiment(experiment, config)
    undone = "".join(f"; {name}: {end}" for name, end in closed.undone.items())
    say(f"{experiment}: closed with {len(closed.runs)} of {len(closed.runs) + len(closed.undone)} planned runs{undone}")
