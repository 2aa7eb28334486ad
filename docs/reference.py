"""The reference page: commands, configuration, exit statuses and files, as the code itself has them."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from typer.main import get_command

from speedproof.cli.application import app
from speedproof.config.model import Config
from speedproof.results.comparison import COMPARISON_FILE, Comparison
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, Experiment, Plan
from speedproof.results.gate_result import GATE_STATUS
from speedproof.results.run_record import RUN_FILE, Run
from speedproof.run.proof.verdict import STATUS
from speedproof.util import errors

RECORDS: dict[str, type[BaseModel]] = {PLAN_FILE: Plan, EXPERIMENT_FILE: Experiment, RUN_FILE: Run, COMPARISON_FILE: Comparison}
_OPTIONS = ["Option", "Type", "Default", "Meaning"]
_MADE = "completed"  # of a configuration: what a workload makes; nobody writes it


def write_reference(path: Path) -> None:
    """Write the page, which no one edits."""
    lines = ["# Reference", "", "Made from the code by `make docs`.", "", "## Command line", ""]
    lines += _describe_commands(get_command(app))
    lines += ["## Exit statuses", "", _text((errors.__doc__ or "").partition("\n\n")[2]), ""]
    lines += [*_table(["Error", "Status"], _list_errors()), "Of `prove` and `results show`:", ""]
    lines += _table(["Outcome", "Status"], _list_statuses(STATUS))
    lines += ["Of `gate`:", "", *_table(["Outcome", "Status"], _list_statuses(GATE_STATUS))]
    lines += ["## Configuration", "", "The keys of `config.yaml`.", ""]
    lines += _describe_model(Config, "")
    lines += ["## Files", ""]
    for name, model in RECORDS.items():
        schema = model.model_json_schema()
        rows = [
            (f"`{field}`", _text(name_type(key, schema.get("$defs", {}))), _text(key.get("description")))
            for field, key in schema["properties"].items()
        ]
        lines += [f"### {name}", "", _text(model.__doc__), "", *_table(["Field", "Type", "Meaning"], rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _list_errors() -> list[tuple[str, str]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SpeedproofError)]
    return [(_text((kind.__doc__ or "").partition("\n")[0]), str(kind.exit_code)) for kind in kinds]


def _list_statuses(statuses: Mapping[Any, int]) -> list[tuple[str, str]]:
    return [(str(outcome), str(status)) for outcome, status in sorted(statuses.items(), key=lambda item: (item[1], item[0]))]


def _describe_commands(group: click.Command) -> Iterator[str]:
    for name, command in sorted(list_commands(group)):
        if command.hidden:
            continue
        yield from [f"### speedproof {name}", "", _text(command.help), ""]
        yield from _table(_OPTIONS, [_describe_parameter(parameter, click.Context(command)) for parameter in command.params])


def list_commands(group: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield each command with what people type for it behind `speedproof`."""
    commands: dict[str, click.Command] = getattr(group, "commands")  # noqa: B009  # typer's own group has no public type
    for name, command in commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", found) for inner, found in list_commands(command))
        else:
            yield name, command


def _describe_parameter(parameter: click.Parameter, context: click.Context) -> tuple[str, str, str, str]:
    is_option = parameter.param_type_name == "option"
    written = ", ".join(f"`{name}`" for name in parameter.opts) if is_option else f"`{parameter.name}`"
    default = "" if parameter.default in (None, False) else f"`{parameter.default}`"
    shown = "required" if parameter.required else default
    return written, _text(_name_option_type(parameter, context)), shown, _text(getattr(parameter, "help", None))


def _name_option_type(parameter: click.Parameter, context: click.Context) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    if parameter.metavar:
        return parameter.metavar
    display: Callable[[click.Context], str] | None = getattr(parameter, "display_type", None)  # typer's own
    return display(context).strip("<>") if display else parameter.type.name


def _describe_model(model: type[BaseModel], prefix: str) -> Iterator[str]:
    schema = model.model_json_schema()
    rows = [row for row in _list_keys(schema, schema["$defs"], prefix) if not row[0].startswith(f"`{_MADE}")]
    yield from _table(["Key", "Type", "Default", "Meaning"], rows)


def _list_keys(schema: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, key in schema.get("properties", {}).items():
        nested = definitions.get(key.get("$ref", "").rpartition("/")[2])
        about = key.get("description") or (nested or {}).get("description")
        default = "" if nested or "default" not in key else f"`{_text(json.dumps(key['default'], ensure_ascii=False))}`"
        yield f"`{prefix}{name}`", "" if nested else _text(name_type(key, definitions)), default, _text(about)
        if nested and name != _MADE:
            yield from _list_keys(nested, definitions, f"{prefix}{name}.")


def name_type(key: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of a key of a JSON schema in words, as `list of number, or null`."""
    if reference := key.get("$ref"):
        title = reference.rpartition("/")[2]
        return title if "properties" in definitions[title] else name_type(definitions[title], definitions)
    if values := key.get("enum", [key["const"]] if "const" in key else []):
        return ", ".join(map(str, values))
    if choices := key.get("anyOf") or key.get("oneOf"):
        return " or ".join(dict.fromkeys(name_type(one, definitions) for one in choices))
    if key.get("type") == "array" and "items" in key:
        return f"list of {name_type(key['items'], definitions)}"
    if key.get("type") == "object" and isinstance(key.get("additionalProperties"), dict):
        return f"object of {name_type(key['additionalProperties'], definitions)}"
    return str(key.get("type", "any"))


def _table(header: list[str], rows: list[Any]) -> list[str]:
    if not rows:
        return []
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]] + [""]


def _text(text: str | None) -> str:
    """Return a text as one cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
