"""The command line: one subcommand a step. The workflow's rules call these; so can you."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speedproof import __version__
from speedproof.command import ConfigFiles, LogFile, ProveCommand, ending_as_proof, log, run_app, say, start_log
from speedproof.common.errors import RecordError
from speedproof.common.text import printable

if TYPE_CHECKING:
    from speedproof.prove.request import ProofRequest

# Steps import what they need when they run: `--help` waits for nothing.

app = typer.Typer(
    name="speedproof",
    help="Proves, or refutes, that one training program is faster than another, on your machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ResultsFolder = Annotated[Path, typer.Option("--results", help="The folder that holds blocks/ and analysis/")]
ProcessNumber = Annotated[int | None, typer.Option(help="Whose loop, by the trace's number; without it, the GPU's busiest")]
INPUT = "A trace's folder, an nsys report (.nsys-rep), its SQLite, Parquet or Arrow export, or torch.profiler's .json(.gz)"
EpochPattern = Annotated[str | None, typer.Option(help="Regular expression of an iteration's range name; without it, found")]
PhasePatterns = Annotated[
    list[str] | None, typer.Option("--phase", metavar="NAME=PATTERN", help="Ranges to call a phase; as often as needed")
]
PEOPLE, STEPS = "What people type", "Steps of the workflow"
PROVE_EXAMPLES = (
    r"Examples: speedproof prove 'python a.py' 'python b.py' --claim '>= 1.5' --quality 'val_acc: (\S+)' --margin 0.01 · "
    r"speedproof prove ./old ./new --epoch-s 'epoch took (\S+) s' · speedproof prove proof.yaml"
)
Commands = Annotated[
    list[str], typer.Argument(help="Two or more, each in quotes as a shell would run it; or one file of `init`")
]
QualityPattern = Annotated[
    str | None, typer.Option(help="Regular expression whose group is the quality in a printed line; with --file, its column")
]
QualityMargin = Annotated[
    float | None,
    typer.Option(help="A speedup whose quality is worse by more than this is withheld; without it, none is judged"),
]
Better_ = Annotated[str, typer.Option("--better", help="higher or lower: which quality is the better one")]
ClaimText = Annotated[str | None, typer.Option(help="Of the ratio, as '>= 1.5'; without it, that there is a difference")]
MetricName = Annotated[
    str | None, typer.Option(help="As reports name it; without it, the epoch where all have epochs, else the process")
]
EpochLine = Annotated[str | None, typer.Option("--epoch", help="Matches one printed line an epoch, whose arrival is taken")]
EpochSeconds = Annotated[
    str | None, typer.Option("--epoch-s", help="Its group is an epoch's seconds in a printed line; with --file, the column")
]
ProgressFile = Annotated[str | None, typer.Option(help="A file that the programs write: CSV, JSON, JSON lines, MLPerf's log")]
Rounds = Annotated[
    int | None, typer.Option(help="Timed runs of each command: an even number from 4 on; without it, until they are decided")
]
Budget = Annotated[float | None, typer.Option(metavar="MINUTES", help="What rounds may take until the sides are decided; 30")]
Control = Annotated[
    bool, typer.Option("--control", help="The first command once more in each round: how far it differs from itself")
]
Timeout = Annotated[int | None, typer.Option(help="How many seconds a run may take")]
PassedVariables = Annotated[
    list[str] | None, typer.Option("--pass", metavar="NAME", help="A variable that the programs see, too")
]
Device = Annotated[str, typer.Option(help="auto, cuda or cpu")]
Whole = Annotated[bool, typer.Option("--whole", help="Take the trace as one stretch: look for no iterations")]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command(cls=ProveCommand, epilog=PROVE_EXAMPLES, rich_help_panel=PEOPLE)
def prove(
    commands: Commands,
    quality: QualityPattern = None,
    margin: QualityMargin = None,
    better: Better_ = "higher",
    claim: ClaimText = None,
    metric: MetricName = None,
    epoch: EpochLine = None,
    epoch_s: EpochSeconds = None,
    file: ProgressFile = None,
    rounds: Rounds = None,
    budget: Budget = None,
    control: Control = False,
    timeout: Timeout = None,
    passed: PassedVariables = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="The proof's folder; the same command goes on in it")] = Path("results/proof"),
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON instead of a table")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing while it runs")] = False,
) -> None:
    """Prove, or refute, that one command is faster than another: `speedproof prove 'python a.py' 'python b.py'`.

    The ratio is the first command's time over the second's. Ends with 0: shown; 1: refuted, or faster only at a worse quality;
    2: undecided, or a declared quality not shown; 3: everything else.
    """
    from speedproof.prove.proof import prove as prove_request
    from speedproof.prove.request import read_request

    with ending_as_proof():
        if len(commands) == 1 and commands[0].endswith((".yaml", ".yml", ".json")):
            request = read_request(Path(commands[0]))
        else:
            request = _build_request(locals())
        quiet_ = (lambda _: None) if quiet else partial(typer.echo, err=True)
        verdict = prove_request(
            request,
            out,
            Path.cwd(),
            lambda text: quiet_(f"speedproof: {printable(text)}"),
            (lambda _: None) if json else say,
        )
    if json:
        typer.echo(verdict.model_dump_json(indent=1))
    raise typer.Exit(verdict.exit_status)


@app.command(cls=ProveCommand, rich_help_panel=PEOPLE)
def init(
    commands: Commands,
    quality: QualityPattern = None,
    margin: QualityMargin = None,
    better: Better_ = "higher",
    claim: ClaimText = None,
    metric: MetricName = None,
    epoch: EpochLine = None,
    epoch_s: EpochSeconds = None,
    file: ProgressFile = None,
    rounds: Rounds = None,
    budget: Budget = None,
    control: Control = False,
    timeout: Timeout = None,
    passed: PassedVariables = None,
    device: Device = "auto",
) -> None:
    """Print a proof as YAML, to be kept: `speedproof init 'python a.py' 'python b.py' > proof.yaml`."""
    from speedproof.prove.request import write_request

    with ending_as_proof():
        text = write_request(_build_request(locals()))
    typer.echo(text, nl=False)


@app.command(rich_help_panel=PEOPLE)
def check(config: ConfigFiles) -> None:
    """Check a configuration: what is wrong, and at which key."""
    from speedproof.config.load import load_config

    say(f"sound: measures {', '.join(load_config(*config).measurement.variants)}")


@app.command(rich_help_panel=STEPS)
def schema(out: Annotated[Path | None, typer.Option(help="File to write; without it, print")] = None) -> None:
    """Write the configuration's JSON schema."""
    from speedproof.config.model import Config
    from speedproof.config.schema import schema_text
    from speedproof.records.files import write_text

    text = schema_text(Config, "`speedproof schema`")
    if out:
        write_text(out, text)
    else:
        typer.echo(text, nl=False)


@app.command(rich_help_panel=PEOPLE)
def doctor(
    config: Annotated[
        list[Path] | None, typer.Option(help="What the configuration demands and this machine lacks is a problem")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="doctor.json to write")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines")] = False,
    log_file: LogFile = None,
) -> None:
    """Say what this machine can do and measure, and what to do about the rest. Ends with 1 where there is a problem."""
    from speedproof.config.load import load_config
    from speedproof.config.model import Profiling
    from speedproof.config.workload import find_workload
    from speedproof.doctor.diagnose import describe_findings, diagnose
    from speedproof.records.files import write_sealed

    start_log(log_file)
    checked = load_config(*config) if config else None
    if checked:
        workload = find_workload(checked.case)
        software = workload.ask_software()
        asked = checked.measurement.device, checked.resources.scratch
        diagnosis = diagnose(checked.profiling, *asked, software, workload.declared.cores)
    else:
        diagnosis = diagnose(Profiling(), "auto")
    if out:
        write_sealed(out, diagnosis)
    if json:
        typer.echo(diagnosis.model_dump_json(indent=1))
    else:
        log.info("%s", "\n".join(describe_findings(diagnosis)))
    if diagnosis.select("problem"):
        raise typer.Exit(1)


@app.command(rich_help_panel=STEPS)
def image(
    config: ConfigFiles,
    definition: Annotated[Path, typer.Option(help="The folder of speedproof.def: containers/")],
    record: Annotated[Path, typer.Option(help="image.json to write")],
    log_file: LogFile = None,
) -> None:
    """Build or fetch the container image, and write its digest to image.json."""
    from speedproof.cluster.image import image_path, is_given, make_image, record_image
    from speedproof.config.load import load_config

    start_log(log_file)
    container = load_config(*config).container
    path = image_path(container)
    if not is_given(container):
        make_image(container, definition.absolute(), path)
    described = record_image(path.name if is_given(container) else container.image or container.base, path, record)
    log.info("%s: %s, %d MiB", path, described.digest, described.size_mib)


@app.command(rich_help_panel=STEPS)
def block(
    config: ConfigFiles,
    dataset: Annotated[Path, typer.Option(help="dataset.json")],
    name: Annotated[str, typer.Option(help="The block's name")],
    out: Annotated[Path, typer.Option(help="The block's folder")],
    image: Annotated[Path | None, typer.Option(help="image.json of the container that this runs in")] = None,
    container: Annotated[Path | None, typer.Option(help="Several nodes: the image to enter on each of them")] = None,
    log_file: LogFile = None,
) -> None:
    """Run a block: every planned run, one after the other, each in a fresh process; on several nodes, start it on each."""
    from speedproof.cluster.srun import launch_on_nodes, needs_launch
    from speedproof.config.load import load_config

    checked = load_config(*config)
    if needs_launch(checked.block_nodes(), os.environ):
        start_log(None)
        launch_on_nodes(checked.block_nodes(), checked.resources.block.cores, container, sys.argv[1:])
        return

    from speedproof.common.environment import IMAGE_DIGEST_VARIABLE, SCRATCH_VARIABLE
    from speedproof.measure.locks import holding_devices, holding_folder
    from speedproof.measure.nodes import read_node
    from speedproof.measure.process import stoppable
    from speedproof.measure.run_block import Job, ask_conditions, follow_block, run_block
    from speedproof.measure.scratch import take_place
    from speedproof.records.files import read_record
    from speedproof.records.image import ImageRecord

    node = read_node(os.environ, checked.block_nodes())
    job = Job(checked, config, dataset, name, out, node)
    if image:
        os.environ[IMAGE_DIGEST_VARIABLE] = read_record(image, ImageRecord).digest
    gpus = max(checked.sides[side].gpus for side in checked.measurement.sides())
    if not node.leads:
        start_log(None)
        with holding_devices(ask_conditions(job, gpus).device, gpus):
            follow_block(job)
        return
    # Of several nodes each would need a copy; they all read from where the volumes are.
    scratch = checked.resources.scratch if node.count == 1 else None
    if scratch is not None:
        os.environ[SCRATCH_VARIABLE] = "1"
    with ExitStack() as stack:
        stack.enter_context(holding_folder(out))
        start_log(log_file)  # only now: it could be another block's
        stack.enter_context(stoppable())
        conditions = ask_conditions(job, gpus)
        stack.enter_context(holding_devices(conditions.device, gpus))
        place = stack.enter_context(take_place(scratch, dataset, os.environ))
        run_block(replace(job, dataset_file=place.dataset_file, profiles=place.profiles), conditions)


@app.command(rich_help_panel=PEOPLE)
def close(
    block: Annotated[Path, typer.Option(help="The block's folder, RESULTS/blocks/<name>; it reads RESULTS/config.json")],
) -> None:
    """Close an interrupted block that cannot go on, as where its GPU is gone: its whole runs count, and the report says so."""
    from speedproof.archive.close import close_block
    from speedproof.config.load import read_completed_config
    from speedproof.measure.locks import holding_folder
    from speedproof.records.results import CONFIG_FILE

    config = read_completed_config(block.absolute().parents[1] / CONFIG_FILE)
    with holding_folder(block) if block.is_dir() else nullcontext():
        closed = close_block(block, config)
    undone = "".join(f"; {name}: {end}" for name, end in closed.undone.items())
    say(f"{block}: closed with {len(closed.runs)} of {len(closed.runs) + len(closed.undone)} planned runs{undone}")


@app.command(context_settings={"ignore_unknown_options": True}, rich_help_panel=PEOPLE)
def launch(
    program: Annotated[list[str], typer.Argument(help="After `--`: what torchrun starts, `-m MODULE …` or a script")],
    image: Annotated[Path, typer.Option(help="The container image (.sif)")],
    out: Annotated[Path, typer.Option(help="rank<k>/report.nsys-rep of each node goes here, k counting nodes")],
    head: Annotated[str | None, typer.Option(help="Where processes find each other; without it, the job's first node")] = None,
) -> None:
    """Run any torchrun program on all nodes of this Slurm job, each node in the container under nsys."""
    from speedproof.cluster.launch import plan_launch, run_launch

    for report in run_launch(plan_launch(os.environ, image, out, head), program):
        say(str(report))


@app.command(rich_help_panel=PEOPLE)
def convert(
    export: Annotated[Path, typer.Argument(help=INPUT)],
    out: Annotated[Path, typer.Option(help="The trace's folder")],
) -> None:
    """Convert a profiler's file, of anyone's program, to a trace."""
    from speedproof.profiling.inputs import convert_input

    info = convert_input(export, out)
    say(f"{out}: {info.rows['ranges']} ranges, {info.rows['kernels']} kernels, {info.rows['api']} CUDA calls")


@app.command(rich_help_panel=PEOPLE)
def analyze(
    trace: Annotated[Path, typer.Argument(help=INPUT)],
    out: Annotated[Path, typer.Option(help="Where summary.json and its tables go")],
    epoch: EpochPattern = None,
    phase: PhasePatterns = None,
    whole: Whole = False,
    process: ProcessNumber = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no tables")] = False,
    log_file: LogFile = None,
) -> None:
    """Say where the time of one trace went: iterations, phases, bubbles and their causes, kernels."""
    from speedproof.report.terminal import print_summary
    from speedproof.trace.summarize import analyze_trace, write_summary

    start_log(log_file)
    with _as_trace(trace, out) as folder:
        summary = analyze_trace(folder, epoch, process, _read_phases(phase), whole)
    write_summary(summary, out)
    if not quiet:
        print_summary(summary)
    log.info("%s: written", out / "summary.json")


@app.command(rich_help_panel=PEOPLE)
def ranks(
    traces: Annotated[list[Path], typer.Argument(help="Each rank's trace, in order, or one with a process for each rank")],
    out: Annotated[Path, typer.Option(help="Where ranks.json goes")],
    log_file: LogFile = None,
) -> None:
    """Say which rank waits for which, and how much of their communication is hidden."""
    from speedproof.report.waiting import describe_ranks
    from speedproof.trace.waits import summarize_ranks, write_ranks_summary

    start_log(log_file)
    from speedproof.profiling.inputs import list_inputs

    if len(traces) == 1 and traces[0].is_dir():
        traces = list_inputs(traces[0]) or traces
    summary = summarize_ranks(traces, partial(_as_trace, out=out))
    write_ranks_summary(summary, out)
    log.info("%s: written: %s", out, describe_ranks("the run", summary))


@app.command(rich_help_panel=PEOPLE)
def compare(
    a: Annotated[Path, typer.Argument(help=INPUT)],
    b: Annotated[Path, typer.Argument(help="The same, of the run to compare it with")],
    out: Annotated[Path, typer.Option(help="Where difference.json goes")],
    epoch: EpochPattern = None,
    phase: PhasePatterns = None,
    whole: Whole = False,
    samples_a: Annotated[
        float | None, typer.Option(help="Training samples in an epoch of A: with B's, compared by sample")
    ] = None,
    samples_b: Annotated[float | None, typer.Option(help="The same of B")] = None,
    process_a: ProcessNumber = None,
    process_b: ProcessNumber = None,
) -> None:
    """Account for the difference between two traces' epochs, to the nanosecond."""
    from speedproof.report.terminal import print_difference
    from speedproof.trace.diff import analyze_pair, compare_summaries, write_difference
    from speedproof.trace.summarize import analyze_trace

    if (samples_a is None) != (samples_b is None):
        raise typer.BadParameter("--samples-a and --samples-b: give both or neither")
    samples = None if samples_a is None or samples_b is None else (samples_a, samples_b)
    with _as_trace(a, out) as one, _as_trace(b, out) as other:
        analyze_one = partial(analyze_trace, epoch=epoch, phases=_read_phases(phase), whole=whole)
        summaries = analyze_pair(one, other, analyze_one, (process_a, process_b))
    difference = compare_summaries(*summaries, names=(str(a), str(b)), samples=samples)
    write_difference(difference, out)
    print_difference(difference)
    for trace, summary in zip((a, b), summaries, strict=True):
        for warning in summary.warnings:
            say(f"{trace}: {warning}")


@app.command(rich_help_panel=STEPS)
def verdicts(
    results: ResultsFolder,
    claims: Annotated[Path, typer.Option(help="The documented numbers: workloads/<name>/claims.yaml")],
    log_file: LogFile = None,
) -> None:
    """Compare the variants over all blocks, judge every documented number, and write comparison.json."""
    from speedproof.archive.rebuild import compare_results
    from speedproof.measure.current import check_current
    from speedproof.report.findings import describe_verdicts

    start_log(log_file)
    check_current(results)
    log.info("%s", describe_verdicts(compare_results(results, claims)))


@app.command(rich_help_panel=PEOPLE)
def report(
    results: Annotated[Path, typer.Option("--from", help="A results folder or a record")],
    out: Annotated[Path | None, typer.Option(help="Where to write; without it, where the results are")] = None,
    log_file: LogFile = None,
) -> None:
    """Draw the figures; write report.md, and report.html with the figures. The same results give the same bytes."""
    from speedproof.archive.rebuild import rebuild_report
    from speedproof.measure.current import check_current

    start_log(log_file)
    check_current(results)
    folder = out or results
    rebuild_report(results, folder)
    log.info("%s: written, and with figures report.html", folder / "report.md")


@app.command(rich_help_panel=PEOPLE)
def record(
    results: Annotated[list[Path], typer.Option("--results", help="A results folder; given several times, their blocks merge")],
    claims: Annotated[Path, typer.Option(help="The documented numbers: workloads/<name>/claims.yaml")],
    out: Annotated[Path, typer.Option(help="The record: records/<date>-<gpu>")],
    untraced: Annotated[
        list[str] | None,
        typer.Option("--untraced", help="A variant whose profiled runs are left out, which the report says; several times"),
    ] = None,
) -> None:
    """Keep finished blocks as a record: scrubbed, without volumes and checkpoints, with numbers and a report made of them."""
    from speedproof.archive.record import write_record

    write_record(results, claims, out, untraced or [])
    say(f"{out}: written; read its report.md")


@app.command(rich_help_panel=PEOPLE)
def rebuild(
    results: ResultsFolder,
    claims: Annotated[Path, typer.Option(help="The documented numbers: workloads/<name>/claims.yaml")],
) -> None:
    """Make everything to the right of blocks/ again: analyses, comparison, figures, report."""
    from speedproof.archive.rebuild import rebuild_results
    from speedproof.measure.current import check_current

    check_current(results)
    rebuild_results(results, claims)
    say(f"{results / 'report.md'}: written")


@app.command(rich_help_panel=PEOPLE)
def cost(
    config: ConfigFiles,
    records: Annotated[list[Path], typer.Option("--records", help="Folders with past records or results")] = [Path("records")],  # noqa: B006
) -> None:
    """Say what a configuration will cost: GPU minutes by past runs, disk, download."""
    from speedproof.archive.cost import describe_cost, estimate_cost
    from speedproof.config.load import load_config

    for sentence in describe_cost(estimate_cost(load_config(*config), records)):
        say(sentence)


@app.command(rich_help_panel=PEOPLE)
def records(
    folder: Annotated[Path, typer.Option(help="The folder of records")] = Path("records"),
    readme: Annotated[Path | None, typer.Option(help="Where to write the table, between its marks; without it, print")] = None,
) -> None:
    """Tabulate the records, for the README."""
    from speedproof.report.overview import tabulate_records, update_readme

    if readme:
        update_readme(readme, folder)
    else:
        typer.echo(tabulate_records(folder), nl=False)


@app.command(rich_help_panel=PEOPLE)
def verdict(
    results: Annotated[
        Path | None,
        typer.Option("--from", help="A results folder or a record; without it, the newest of results/ and results/*"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print comparison.json, or the verdict of a proof, as it is")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Print every metric of the timed runs, too")] = False,
) -> None:
    """Print what was found, how far a side differs from itself, and where the report is.

    Of a proof (`speedproof prove`) it ends as that did: 0 shown, 1 refuted, 2 undecided.
    """
    from speedproof.prove.find import find_results, read_verdict
    from speedproof.records.results import read_current_comparison
    from speedproof.report.findings import describe_noise, describe_verdicts
    from speedproof.report.headlines import describe_headlines

    results = find_results(Path("results")) if results is None else results
    if proof := read_verdict(results):
        if json:
            typer.echo(proof.model_dump_json(indent=1))
        else:
            for side in proof.sides:
                say(side.sentence)
            say(f"Report: {proof.report}")
        raise typer.Exit(proof.exit_status)
    comparison = read_current_comparison(results)
    if json:
        typer.echo(comparison.model_dump_json(indent=1))
        return
    for sentence in [*describe_headlines(comparison), *describe_noise(comparison), describe_verdicts(comparison)]:
        say(sentence)
    if metrics:
        from speedproof.report.terminal import print_metrics

        print_metrics(comparison)
    page = results / "report.html"
    figures = page if page.exists() else f"`speedproof report --from {results}` draws figures"
    say(f"Report: {results / 'report.md'}; {figures}")


def _build_request(given: dict[str, Any]) -> "ProofRequest":
    from speedproof.prove.request import ProofRequest, check_request

    values = {key: value for key, value in given.items() if key in ProofRequest.model_fields and value is not None}
    return check_request({**values, "timeout_s": given["timeout"], "budget_min": given["budget"]}, "prove")


def _read_phases(given: list[str] | None) -> dict[str, str]:
    """Read NAME=PATTERN, as often as it was given."""
    phases = {}
    for text in given or []:
        name, sign, pattern = text.partition("=")
        if not (name and sign and pattern):
            raise typer.BadParameter(f"--phase {text}: give NAME=PATTERN, such as forward='fwd.*'")
        phases[name] = pattern
    return phases


@contextmanager
def _as_trace(path: Path, out: Path) -> Iterator[Path]:
    """Yield the folder of a trace; a profiler's file is converted for the time being, and errors name it.

    What nsys exports of a report is kept in `out`. Of a finished block's run it must be what the block vouches for.
    """
    from speedproof.profiling.inputs import EXPORTS_FOLDER, convert_input, is_input

    if path.is_dir() and not is_input(path):
        from speedproof.records.block import check_vouched

        check_vouched(path)
        yield path
        return
    with tempfile.TemporaryDirectory() as scratch:
        convert_input(path, Path(scratch), exports=out / EXPORTS_FOLDER)
        try:
            yield Path(scratch)
        except RecordError as error:
            raise RecordError(str(error).replace(scratch, str(path))) from None


def main() -> None:
    """Run the command line."""
    run_app(app)
