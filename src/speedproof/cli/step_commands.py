"""Steps of the workflow: what its rules call, besides some of what people type."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.exits import say, start_log
from speedproof.cli.options import ClaimsPath, ConfigFiles, LogFile, command
from speedproof.util.log_file import log

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer()


@command(commands, "speedproof image --config config.yaml --definition containers --record image.json", hidden=True)
def image(
    config: ConfigFiles,
    definition: Annotated[Path, typer.Option(help="The folder of speedproof.def: containers/")],
    record: Annotated[Path, typer.Option(help="image.json to write")],
    log_file: LogFile = None,
) -> None:
    """Build or fetch the container image, and write its digest to image.json."""
    from speedproof.cluster.build_image import image_path, is_given, make_image, record_image
    from speedproof.config.load import load_config

    start_log(log_file)
    container = load_config(*config).container
    path = image_path(container)
    if not is_given(container):
        make_image(container, definition.absolute(), path)
    described = record_image(path.name if is_given(container) else container.image or container.base, path, record)
    log.info("%s: %s, %d MiB", path, described.digest, described.size_mib)


@command(
    commands,
    "speedproof experiment --config config.yaml --dataset results/data/dataset.json --name experiment-1"
    " --out results/experiments/experiment-1",
    hidden=True,
)
def experiment(
    config: ConfigFiles,
    dataset: Annotated[Path, typer.Option(help="dataset.json")],
    name: Annotated[str, typer.Option(help="The experiment's name")],
    out: Annotated[Path, typer.Option(help="The experiment's folder")],
    image: Annotated[Path | None, typer.Option(help="image.json of the container that this runs in")] = None,
    container: Annotated[Path | None, typer.Option(help="With several nodes: the image that each of them enters")] = None,
    log_file: LogFile = None,
) -> None:
    """Run an experiment: all planned runs in turn, each in a fresh process."""
    from speedproof.cluster.launch import launch_on_nodes, needs_launch
    from speedproof.config.load import load_config

    checked = load_config(*config)
    if needs_launch(checked.experiment_nodes(), os.environ):
        start_log(None)
        launch_on_nodes(checked.experiment_nodes(), checked.resources.experiment.cores, container, sys.argv[1:])
        return

    from speedproof.cluster.nodes import read_node
    from speedproof.results.files import read_record
    from speedproof.results.image import ImageRecord
    from speedproof.run.locks import holding_devices
    from speedproof.run.process import stoppable
    from speedproof.run.run_experiment import Job, ask_conditions, follow_experiment, measure_experiment
    from speedproof.util.environment import IMAGE_DIGEST_VARIABLE

    node = read_node(os.environ, checked.experiment_nodes())
    job = Job(checked, config, dataset, name, out, node)
    if image:
        os.environ[IMAGE_DIGEST_VARIABLE] = read_record(image, ImageRecord).digest
    if not node.leads:
        start_log(None)
        with holding_devices(ask_conditions(job, job.gpus).device, job.gpus):
            follow_experiment(job)
        return
    with stoppable():
        measure_experiment(job, begin=partial(start_log, log_file))  # not earlier: the log could be another experiment's


@command(
    commands,
    "speedproof warm-up --config results/proof/proof.json --out results/proof/results/warm-up.json",
    name="warm-up",
    hidden=True,
)
def warm_up_step(
    config: Annotated[Path, typer.Option("--config", help="A proof's configuration, beside its request.json")],
    out: Annotated[Path, typer.Option(help="warm-up.json to write")],
    log_file: LogFile = None,
) -> None:
    """Run each command of a proof once as its warm-up."""
    from speedproof.config.load import load_config
    from speedproof.config.workload import find_workload
    from speedproof.results.files import write_json
    from speedproof.run.proof.request import read_request
    from speedproof.run.proof.warm_up import REQUEST_FILE, warm_up

    start_log(log_file)
    folder, checked = config.absolute().parent, load_config(config)
    found = warm_up(folder, checked, find_workload(checked.case), read_request(folder / REQUEST_FILE))
    write_json(out, found)


@command(commands, "speedproof verdicts --from results --claims claims.yaml", hidden=True)
def verdicts(
    results: Annotated[Path, typer.Option("--from", help="The folder that holds experiments/ and analysis/")],
    claims: ClaimsPath,
    log_file: LogFile = None,
) -> None:
    """Compare the variants over all experiments, judge every documented number, and write comparison.json."""
    from speedproof.report.findings import describe_verdicts
    from speedproof.results.folder import read_results
    from speedproof.run.archive.rebuild import compare_results
    from speedproof.run.staleness import check_current
    from speedproof.stats.found_tables import Findings

    start_log(log_file)
    check_current(results)
    log.info("%s", describe_verdicts(Findings(compare_results(read_results(results), claims).comparison)))


@command(
    commands,
    "speedproof schema --out workflow/schemas/config.schema.yaml",
    "speedproof schema --ledger --out workflow/schemas/ledger.schema.yaml",
    hidden=True,
)
def schema(
    out: Annotated[Path | None, typer.Option(help="File to write. Default: print")] = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="Of the ledger's entries instead")] = False,
) -> None:
    """Write the JSON schema of the configuration."""
    from speedproof.config.load import schema_text
    from speedproof.config.model import Config
    from speedproof.results.files import write_text
    from speedproof.run.ledger.entry import LedgerEntry

    text = schema_text(LedgerEntry, "`speedproof schema --ledger`") if ledger else schema_text(Config, "`speedproof schema`")
    if out:
        write_text(out, text)
    else:
        typer.echo(text, nl=False)


@command(
    commands,
    "speedproof launch --image container.sif --out traces -- -m mine.train --epochs 2",
    hidden=True,
    context_settings={"ignore_unknown_options": True},
)
def launch(
    program: Annotated[list[str], typer.Argument(help="After `--`: what torchrun starts (`-m MODULE …` or a script)")],
    image: Annotated[Path, typer.Option(help="The container image (.sif)")],
    out: Annotated[Path, typer.Option(help="Output folder, for rank<k>/report.nsys-rep of node k")],
    head: Annotated[str | None, typer.Option(help="Rendezvous node. Default: the first node of the job")] = None,
) -> None:
    """Run a torchrun program on all nodes of this Slurm job, in the container and under nsys."""
    from speedproof.cluster.launch import plan_launch, run_launch

    for report in run_launch(plan_launch(os.environ, image, out, head), program):
        say(str(report))
