"""What people type of a configuration and of this machine, before anything is measured."""

from pathlib import Path
from typing import Annotated

import typer

from speedproof.cli.exits import say, start_log
from speedproof.cli.options import ConfigFiles, LogFile, command
from speedproof.util.failure_reasons import leave_reason
from speedproof.util.log_file import log

# Commands import what they need when they run: `--help` waits for nothing.

commands = typer.Typer()


@command(commands, "speedproof doctor", "speedproof doctor --config config.yaml --json")
def doctor(
    config: Annotated[list[Path] | None, typer.Option(help="Also check what this configuration requires")] = None,
    out: Annotated[Path | None, typer.Option(help="Write doctor.json here")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    log_file: LogFile = None,
) -> None:
    """Check what this machine can run and measure, and how to fix the rest. Exit status 1 if there is a problem."""
    from speedproof.cluster.doctor import describe_findings, diagnose
    from speedproof.config.load import load_config
    from speedproof.config.profiling import Profiling
    from speedproof.config.workload import find_workload
    from speedproof.results.files import write_sealed

    start_log(log_file)
    checked = load_config(*config) if config else None
    if checked:
        workload = find_workload(checked.case)
        software = workload.ask_software()
        asked = checked.measurement.device, checked.resources.scratch
        profiling = checked.profiling if checked.measurement.profiled + checked.measurement.documented else None
        diagnosis = diagnose(profiling, *asked, software, workload.declared.cores)
    else:
        diagnosis = diagnose(Profiling(), "auto")
    if out:
        write_sealed(out, diagnosis)
    if json:
        typer.echo(diagnosis.model_dump_json(indent=1))
    else:
        log.info("%s", "\n".join(describe_findings(diagnosis)))
    if problems := diagnosis.describe_problems():
        leave_reason(problems)
        raise typer.Exit(1)


@command(commands, "speedproof check --config config.yaml")
def check(config: ConfigFiles) -> None:
    """Check a configuration; name each mistake and its key."""
    from speedproof.config.load import load_config

    say(f"valid: measures {', '.join(load_config(*config).measurement.variants)}")
