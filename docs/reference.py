"""The reference page: commands, configuration, exit statuses and files, as the code itself has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from typer.main import get_command

from speedproof.cli.application import app
from speedproof.config.model import Config
from speedproof.results.comparison import COMPARISON_FILE, Comparison
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, Experiment, Plan
from speedproof.results.run_record import RUN_FILE, Run
from speedproof.run.proof.verdict import STATUS
from speedproof.util import errors

RECORDS: dict[str, type[BaseModel]] = {PLAN_FILE: Plan, EXPERIMENT_FILE: Experiment, RUN_FILE: Run, COMPARISON_FILE: Comparison}
_MADE = "completed"  # of a configuration: what a workload makes; nobody writes it


def write_reference(path: Path) -> None:
    """Write the page, which no one edits."""
    lines = ["# Reference", "", "Made from the code by `make docs`.", "", "## Command line", ""]
    lines += _describe_commands(get_command(app))
    lines += ["## Exit statuses", "", _text((errors.__doc__ or "").partition("\n\n")[2]), ""]
    lines += [*_table(["Error", "Status"], _list_errors()), "Of `prove` and `results show`:", ""]
    lines += _table(["Outcome", "Status"], _list_statuses())
    lines += ["## Configuration", "", "The keys of `config.yaml`.", ""]
    lines += _describe_model(Config, "")
    lines += ["## Files", ""]
    for name, model in RECORDS.items():
        rows = [(f"`{field}`", _text(info.description)) for field, info in model.model_fields.items()]
        lines += [f"### {name}", "", _text(model.__doc__), "", *_table(["Field", ""], rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _list_errors() -> list[tuple[str, str]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SpeedproofError)]
    return [(_text((kind.__doc__ or "").partition("\n")[0]), str(kind.exit_code)) for kind in kinds]


def _list_statuses() -> list[tuple[str, str]]:
    return [(str(outcome), str(status)) for outcome, status in sorted(STATUS.items(), key=lambda item: (item[1], item[0]))]


def _describe_commands(group: click.Command) -> Iterator[str]:
    for name, command in sorted(list_commands(group)):
        yield from [f"### speedproof {name}", "", _text(command.help), ""]
        yield from _table(["", ""], [_describe_parameter(parameter) for parameter in command.params])


def list_commands(group: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield each command with what people type for it behind `speedproof`."""
    commands: dict[str, click.Command] = getattr(group, "commands")  # noqa: B009  # typer's own group has no public type
    for name, command in commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", found) for inner, found in list_commands(command))
        else:
            yield name, command


def _describe_parameter(parameter: click.Parameter) -> tuple[str, str]:
    written = (
        ", ".join(f"`{name}`" for name in parameter.opts) if parameter.param_type_name == "option" else f"`{parameter.name}`"
    )
    return written, _text(getattr(parameter, "help", None))


def _describe_model(model: type[BaseModel], prefix: str) -> Iterator[str]:
    schema = model.model_json_schema()
    rows = [row for row in _list_keys(schema, schema["$defs"], prefix) if not row[0].startswith(f"`{_MADE}")]
    yield from _table(["Key", "Default", ""], rows)


def _list_keys(schema: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, key in schema.get("properties", {}).items():
        nested = definitions.get(key.get("$ref", "").rpartition("/")[2])
        about = key.get("description") or (nested or {}).get("description")
        default = "" if nested or "default" not in key else f"`{_text(str(key['default']))}`"
        yield f"`{prefix}{name}`", default, _text(about)
        if nested and name != _MADE:
            yield from _list_keys(nested, definitions, f"{prefix}{name}.")


def _table(header: list[str], rows: list[Any]) -> list[str]:
    if not rows:
        return []
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]] + [""]


def _text(text: str | None) -> str:
    """Return a text as one cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
