"""What people type to prove one command faster than another."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.cli.console import say
from speedproof.cli.exits import ProofCommand, ending_as_proof, ending_as_verdict, print_error, print_nothing
from speedproof.cli.options import PEOPLE, FoundResults, asking, examples

if TYPE_CHECKING:
    from speedproof.run.proof.request import ProofRequest

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer()


@dataclass(repr=False, eq=False)  # what is not made costs no time at each start
class ProofOptions:
    """What is to be proven; each is called, and has the meaning and unit, as in :class:`ProofRequest`."""

    commands: Annotated[
        list[str],
        typer.Argument(help="Two or more commands, each in quotes (shell syntax: \"sh -c '…'\"); or a file made by `init`"),
    ]
    claim: Annotated[str | None, typer.Option(help="Speedup to test, for example '>= 1.5'. Default: any difference")] = None
    metric: Annotated[
        str | None, typer.Option(help="Metric to compare. Default: epoch time if every command reports epochs, else wall time")
    ] = None
    epoch: Annotated[
        str | None, typer.Option(help="Regex for a line printed once per epoch; epochs are timed between these lines")
    ] = None
    epoch_s: Annotated[str | None, typer.Option(help="Regex whose (group) is an epoch's time; with --file, the column")] = None
    rate: Annotated[
        str | None, typer.Option(help="Regex whose (group) is a rate, such as tokens/s; with --file, the column")
    ] = None
    unit: Annotated[
        str | None,
        typer.Option(help="Unit of --epoch-s: ns, us, ms, s, min or h. Default: as printed after the number, else s"),
    ] = None
    cumulative: Annotated[
        bool, typer.Option("--cumulative", help="--epoch-s reads the time since the start; subtract to get epochs")
    ] = False
    epoch_range: Annotated[str | None, typer.Option(help="Name of the NVTX ranges that are epochs; * matches anything")] = None
    quality: Annotated[
        str | None,
        typer.Option(help="Regex whose (group) is the quality; with --file, the column"),
    ] = None
    quality_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Command that prints the quality of a run's --artifact: 'python evaluate.py {run}'"
        ),
    ] = None
    artifacts: Annotated[
        list[str] | None,
        typer.Option(
            "--artifact", metavar="PATTERN", help="File that each run must write, for example 'out/*.pt' (repeatable)"
        ),
    ] = None
    margin: Annotated[
        float | None,
        typer.Option(help="Largest acceptable loss of quality. Default: quality is not judged"),
    ] = None
    better: Annotated[str | None, typer.Option(help="Better quality: higher or lower. Default: higher")] = None
    file: Annotated[
        str | None,
        typer.Option(help="File that the programs write: CSV, JSON, JSON lines, MLPerf log, TensorBoard"),
    ] = None
    rounds: Annotated[
        int | None,
        typer.Option(help="Timed runs of each command; with --budget, the maximum. Default: until decided"),
    ] = None
    budget_min: Annotated[
        float | None,
        typer.Option("--budget", metavar="MINUTES", help="Time limit for all rounds. Default: 30"),
    ] = None
    control: Annotated[bool, typer.Option("--control", help="Run the first command twice per round to show the noise")] = False
    timeout_s: Annotated[int | None, typer.Option("--timeout", metavar="SECONDS", help="Time limit for each run")] = None
    wait: Annotated[bool, typer.Option("--wait", help="Wait for another measurement on this machine to end. Default: fail")] = (
        False
    )
    wait_for_quiet_min: Annotated[
        float | None,
        typer.Option(
            "--wait-for-quiet", metavar="MINUTES", help="Wait up to this long for other programs to end. Default: no wait"
        ),
    ] = None
    passed: Annotated[
        list[str] | None,
        typer.Option("--pass", metavar="PATTERN", help="Pass a variable whose name looks like a secret (repeatable)"),
    ] = None
    dropped: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="PATTERN", help="Hide a variable from the commands, for example 'WANDB_*' (repeatable)"),
    ] = None
    trust_reported: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Accept reported times even if our own clock disagrees"),
    ] = None
    blind: Annotated[bool, typer.Option("--blind", help="Hide speedproof from timed runs")] = False
    device: Annotated[str | None, typer.Option(help="auto, cuda or cpu. Default: auto")] = None
    gpus: Annotated[
        int | None, typer.Option(help="GPUs that each command uses by starting its own ranks, as torchrun does. Default: 1")
    ] = None
    profiled: Annotated[int | None, typer.Option(help="Profiled runs of each command, to explain a difference. Default: 0")] = (
        None
    )
    profiler: Annotated[
        str | None,
        typer.Option(help="nsys (any program) or kineto (torch.profiler; needs no nsys). Default: nsys"),
    ] = None
    sources: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="PATH", help="Extra file or folder to watch for changes (repeatable)"),
    ] = None
    workdir: Annotated[
        str | None,
        typer.Option(
            help="Start runs in a copy of this folder, of its last commit (commit), or here; {run} is a fresh folder. "
            "Default: copy"
        ),
    ] = None
    caches: Annotated[
        str | None, typer.Option(help="Compile caches: warm (private, filled by the warm-up), cold or shared. Default: warm")
    ] = None
    isolate: Annotated[bool, typer.Option("--isolate", help="Discard what a run writes to HOME, /tmp and Python packages")] = (
        False
    )
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Snakemake profile for running on a cluster, for example slurm")
    ] = None
    job: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Cluster resources: cores, memory_mib, runtime_min, gpu_model (repeatable). Default: 16 cores, 64 GiB, "
            "4 hours",
        ),
    ] = None
    container: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Run the commands in this .sif image, by Apptainer")
    ] = None

    def read(self) -> "ProofRequest":
        """Return what is asked: of the file that was named, with these options laid over it, or of them alone.

        Raises :class:`ConfigError` with all that is wrong.
        """
        from speedproof.run.proof.request import make_request

        taken = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        return make_request({name: value for name, (value, default) in taken.items() if value not in (default, [])})


@commands.command(
    "prove",
    cls=ProofCommand,
    rich_help_panel=PEOPLE,
    epilog=examples(
        "speedproof prove 'python a.py' 'python b.py' --claim '>= 1.5'",
        r"speedproof prove 'python a.py' 'python b.py' --quality 'val_acc: (\S+)' --margin 0.01",
        r"speedproof prove ./old ./new --epoch-s 'epoch took (\S+) s' --rounds 6",
        "speedproof prove 'torchrun --nproc-per-node 2 a.py' 'torchrun --nproc-per-node 2 b.py' --gpus 2 --profiled 1",
        "speedproof prove proof.yaml --profile slurm --container image.sif --out results/mine",
    ),
)
@asking(ProofOptions)
def run_prove(
    asked: ProofOptions,
    out: Annotated[Path, typer.Option(help="Folder of the proof; the same command resumes it")] = Path("results/proof"),
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress")] = False,
) -> None:
    """Test whether one command is faster than another: `speedproof prove 'python a.py' 'python b.py'`.

    The ratio is the first command's time over the second's.

    Exit status 0: faster or slower, or the claim holds. 1: equivalent, the claim fails, or a worse quality.
    2: inconclusive, or the quality is not established. 3: an error.
    """
    from speedproof.run.proof.status import Status

    with ending_as_proof(out, print_error if json else print_nothing):
        with Status(quiet) as status:
            status.go_on_with("starting")
            from speedproof.run.proof.proof import prove_request

            verdict = prove_request(asked.read(), out, Path.cwd(), status, (lambda _: None) if json else say)
        if json:
            typer.echo(verdict.model_dump_json(indent=1))
    raise typer.Exit(verdict.exit_status)


@commands.command(
    cls=ProofCommand,
    rich_help_panel=PEOPLE,
    epilog=examples("speedproof init 'python a.py' 'python b.py' --claim '>= 1.5' > proof.yaml"),
)
@asking(ProofOptions)
def init(asked: ProofOptions) -> None:
    """Write a proof as a YAML file: `speedproof init 'python a.py' 'python b.py' > proof.yaml`."""
    from speedproof.run.proof.request import write_request

    with ending_as_proof():
        text = write_request(asked.read())
    typer.echo(text, nl=False)


@commands.command(
    cls=ProofCommand,
    rich_help_panel=PEOPLE,
    epilog=examples("speedproof verdict", "speedproof verdict --from results/proof --json"),
)
def verdict(
    results: FoundResults = None,
    json: Annotated[bool, typer.Option("--json", help="Print comparison.json, or a proof's verdict, as JSON")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Also print every metric of the timed runs")] = False,
) -> None:
    """Print what a proof, a results folder or a record found, and where its report is.

    For a proof, the exit status is that of `speedproof prove`.
    """
    with ending_as_verdict():
        status = _print_verdict(results, json, metrics)
    raise typer.Exit(status)


def _print_verdict(results: Path | None, json: bool, metrics: bool) -> int:
    """Print what was found in a results folder, by default the newest; return the exit status of a proof's verdict, else 0."""
    from speedproof.run.proof.find import check_finished, find_results, read_verdict

    with ending_as_proof():
        results = find_results(Path("results")) if results is None else results
        check_finished(results)
    proof = read_verdict(results)
    if proof is None:
        _print_comparison(results, json, metrics)
        return 0
    if json:
        typer.echo(proof.model_dump_json(indent=1))
        return proof.exit_status
    for sentence in proof.sentences:
        say(sentence)
    say(f"Report: {proof.report}")
    return proof.exit_status


def _print_comparison(results: Path, json: bool, metrics: bool) -> None:
    from speedproof.report.answer import describe_answer
    from speedproof.report.findings import describe_noise, describe_verdicts
    from speedproof.report.headlines import describe_headlines
    from speedproof.results.asked import read_asked
    from speedproof.results.folder import read_current_comparison
    from speedproof.stats.main_ratios import find_answer

    comparison = read_current_comparison(results)
    if json:
        typer.echo(comparison.model_dump_json(indent=1))
        return
    answer = find_answer(comparison, read_asked(results))
    for sentence in describe_answer(answer):
        say(sentence)
    say("")
    for sentence in [*describe_headlines(comparison), *describe_noise(answer), describe_verdicts(comparison)]:
        say(sentence)
    if metrics:
        from speedproof.report.terminal import print_metrics

        print_metrics(comparison)
    page = results / "report.html"
    figures = page if page.exists() else f"`speedproof report --from {results}` draws figures"
    say(f"Report: {results / 'report.md'}; {figures}")
