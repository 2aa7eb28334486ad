"""The workload's command line: what `workload.yaml` names, for the instrument; so can you."""

import json as json_format
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speedproof.api import ConfigError, ConfigFiles, LogFile, one_of, run_app, start_log

if TYPE_CHECKING:
    from speedproof_spleen.config import SpleenConfig

log = logging.getLogger("speedproof")

# Commands import what they need when they run: none but those that compute waits for torch.

app = typer.Typer(
    name="speedproof_spleen",
    help="MONAI's spleen segmentation, a workload of speedproof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DatasetFile = Annotated[Path, typer.Option(help="dataset.json")]
VariantName = Annotated[str, typer.Option(help="Which variant of the configuration")]


@app.command()
def configure(origin: Annotated[str, typer.Option(help="The place that error messages name")] = "config") -> None:
    """Read a configuration as JSON, and print it completed."""
    from speedproof_spleen.config import check_config

    typer.echo(check_config(json_format.load(sys.stdin), origin).model_dump_json())


@app.command()
def schema(out: Annotated[Path | None, typer.Option(help="File to write. Default: print")] = None) -> None:
    """Write the JSON schema of a configuration of this workload."""
    from speedproof.api import schema_text, write_text
    from speedproof_spleen.config import SpleenConfig

    text = schema_text(SpleenConfig, "`python -m speedproof_spleen schema`")
    if out:
        write_text(out, text)
    else:
        typer.echo(text, nl=False)


@app.command()
def data(
    config: ConfigFiles, out: Annotated[Path, typer.Option(help="dataset.json to write")], log_file: LogFile = None
) -> None:
    """Fetch or make the volumes, open every case, and write dataset.json."""
    from speedproof_spleen.config import load_config
    from speedproof_spleen.data.prepare import prepare_dataset

    start_log(log_file)
    dataset = prepare_dataset(load_config(*config).data, out)
    log.info("%d cases of %s %s are sound", len(dataset.cases), dataset.name, dataset.version)


@app.command()
def conditions(
    config: ConfigFiles,
    dataset: DatasetFile,
    gpus: Annotated[int, typer.Option(help="How many the widest variant trains on")] = 1,
) -> None:
    """Print what else than the variant could make two runs differ, as a run here would record it."""
    from speedproof.api import Dataset, read_record
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training.conditions import choose_device, describe_conditions

    device = choose_device(load_config(*config).measurement.device, gpus)
    typer.echo(describe_conditions(device, read_record(dataset, Dataset)).model_dump_json())


@app.command()
def software() -> None:
    """Print what torch sees of the GPU, for the doctor."""
    from speedproof_spleen.training.conditions import describe_software

    typer.echo(describe_software().model_dump_json())


@app.command()
def train(
    config: ConfigFiles,
    dataset: DatasetFile,
    variant: VariantName,
    out: Annotated[Path, typer.Option(help="The run's folder")],
    mode: Annotated[str, typer.Option(help="timed, profiled or documented")] = "timed",
    round: Annotated[int, typer.Option(help="Which round this is")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    profiler: Annotated[str, typer.Option(help="none, nsys (it runs around this process) or kineto (inside)")] = "none",
    fingerprint: Annotated[
        str | None, typer.Option(help="Keep checkpoints (measurement.checkpoint_every), and go on from one of this fingerprint")
    ] = None,
) -> None:
    """Train one variant once and leave its run record."""
    from speedproof.api import Dataset, read_record, take_umask
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training.compiling import Compiling, begin_compiling, spare_threads

    take_umask()
    mode_ = one_of(mode, "--mode", ("timed", "profiled", "documented"))
    profiler_ = one_of(profiler, "--profiler", ("none", "nsys", "kineto"))
    checked = load_config(*config)
    _require_variant(checked, variant)
    cases = read_record(dataset, Dataset)
    files = cases.files(dataset)
    described, device = checked.variants[variant], checked.measurement.device
    ahead = begin_compiling(checked.case, checked.workload, described, device) if profiler_ == "none" else Compiling()
    spare_threads(described)
    from speedproof_spleen.training.reading import begin_early  # it brings numpy

    with ahead, begin_early(described, files, cases.checksums(files)) as readings:
        from speedproof_spleen.training.run import Request, run_training  # it brings torch, for which no file need wait

        request = Request(variant, mode_, round, seed, profiler_, fingerprint)
        run_training(checked, cases, files, request, out, readings, ahead)


@app.command()
def fill(
    config: ConfigFiles,
    dataset: DatasetFile,
    variant: VariantName,
    out: Annotated[Path, typer.Option(help="prepared.json to write")],
) -> None:
    """Fill a variant's prepared_folder with every volume. An experiment does this before its first run."""
    from speedproof.api import Dataset, read_record, write_json
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training.prepared_folder import fill_prepared_folder

    start_log(None)
    checked = load_config(*config)
    _require_variant(checked, variant)
    cases = read_record(dataset, Dataset)
    write_json(out, fill_prepared_folder(checked, cases, cases.files(dataset), variant))


def _require_variant(config: "SpleenConfig", name: str) -> None:
    if name not in config.variants:
        raise ConfigError(f"--variant: unknown variant `{name}`; known are {', '.join(sorted(config.variants))}")


def main() -> None:
    """Run the command line."""
    run_app(app)
