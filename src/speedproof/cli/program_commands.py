"""`python -m speedproof.cli.program_commands`: what the instrument runs for a workload that declares no commands of its own."""

import os
import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from speedproof.cli.exits import run_app, start_log
from speedproof.cli.options import ConfigFiles, LogFile, one_of

variant_app = typer.Typer(
    name="speedproof.cli.program_commands", help="Programs of a workload without commands of its own.", no_args_is_help=True
)

DatasetFile = Annotated[Path, typer.Option(help="dataset.json")]


@variant_app.command()
def prepare(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Write dataset.json for a workload whose programs bring their own data."""
    from speedproof.config.load import load_config
    from speedproof.config.workload import find_workload
    from speedproof.results.dataset import own_data
    from speedproof.results.files import write_json

    start_log(log_file)
    write_json(out, own_data(find_workload(load_config(*config).case).declared.title))


@variant_app.command()
def conditions(
    config: ConfigFiles,
    dataset: DatasetFile,
    gpus: Annotated[int, typer.Option(help="GPUs that the widest variant runs on")] = 1,
) -> None:
    """Print the conditions that could make two runs differ."""
    from speedproof.config.load import load_config
    from speedproof.config.workload import find_workload
    from speedproof.results.dataset import Dataset
    from speedproof.results.files import read_record
    from speedproof.run.conditions import describe_conditions

    checked = load_config(*config)
    packages = find_workload(checked.case).declared.packages
    found = describe_conditions(checked.measurement.device, gpus, read_record(dataset, Dataset), packages)
    typer.echo(found.model_dump_json())


@variant_app.command()
def run(
    config: ConfigFiles,
    dataset: DatasetFile,
    variant: Annotated[str, typer.Option(help="Which variant")],
    out: Annotated[Path, typer.Option(help="The run's folder")],
    mode: Annotated[str, typer.Option(help="timed or profiled")] = "timed",
    round: Annotated[int, typer.Option(help="Number of this round")] = 0,
    seed: Annotated[int, typer.Option(help="Seed, which the program reads from SPEEDPROOF_SEED")] = 0,
    profiler: Annotated[str, typer.Option(help="none, nsys around this process, or kineto in the program")] = "none",
) -> None:
    """Run a variant's program once and write its run record; with several ranks, this rank's part."""
    from speedproof.config.load import load_config
    from speedproof.config.workload import find_workload
    from speedproof.results.dataset import Dataset
    from speedproof.results.files import read_record
    from speedproof.results.run_record import Backend
    from speedproof.run.conditions import describe_conditions
    from speedproof.run.program import ProgramRun, Request, follow_program, own_rank, run_program
    from speedproof.util.environment import take_umask
    from speedproof.util.errors import TrainingError

    take_umask()
    checked = load_config(*config)
    workload, measured = find_workload(checked.case), checked.completed_variants[variant]
    data = read_record(dataset, Dataset)
    found = describe_conditions(checked.measurement.device, measured.gpus, data, workload.declared.packages)
    mode_ = one_of(mode, "--mode", ("timed", "profiled"))
    profiler_ = one_of(profiler, "--profiler", get_args(Backend))
    request, folder = Request(variant, mode_, round, seed, profiler_), dataset.parent / data.folder
    asked = ProgramRun(checked, workload, request, out, folder, os.environ)
    if rank := own_rank(measured, os.environ):
        follow_program(asked, rank)
        return
    ran, _ = run_program(asked, found, sys.stdout.fileno())
    if ran.outcome != "completed":
        raise TrainingError(f"{out.name}: {ran.outcome.replace('_', ' ')}: {ran.reason}")


if __name__ == "__main__":
    run_app(variant_app)
