"""From files to a checked configuration, and from pydantic's errors to one line a person can act on."""

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from speedproof.config.model import Config
from speedproof.config.plain import check_plain, read_yaml
from speedproof.errors import ConfigError


def check_config(values: Any, origin: str = "config") -> Config:
    """Return the typed configuration, or raise a :class:`ConfigError` that names the key's path."""
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: must be a mapping of keys, not {type(values).__name__}")
    check_plain(values, origin)  # Snakemake reads files itself
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_first_problem(error)}") from None


def load_config(*paths: Path) -> Config:
    """Read YAML (or JSON) files, each laid over the ones before it, and check the result."""
    merged: dict[str, Any] = {}
    for path in paths:
        values = read_yaml(path)
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: must be a mapping of keys")
        merged = _overlay(merged, values)
    return check_config(merged, " + ".join(str(path) for path in paths))


def _overlay(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay one mapping over another, as Snakemake does with several config files: mappings merge, the rest replaces."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _overlay(merged[key], value) if both else value
    return merged


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"] if part != "[key]"]
    where = ".".join(path) or "top level"
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(path[-1], _sibling_keys(path[:-1]), n=1)
        hint = f"did you mean `{close[0]}`?" if close else "remove it, or see config.yaml for the keys there are"
        return f"{where}: unknown key; {hint}"
    if problem["type"] == "value_error":
        text = str(problem["ctx"]["error"])
        return f"{where}: {text}" if path else text
    given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r:.60})"
    return f"{where}: {problem['msg']}{given}"


def _sibling_keys(path: list[str]) -> list[str]:
    """Return the keys that may stand at `path`, from the JSON schema."""
    schema = Config.model_json_schema()
    node: dict[str, Any] = schema
    for part in path:
        node = node.get("properties", {}).get(part) or _any_value(node)
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return list(node.get("properties", {}))


def _any_value(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a mapping's values where its keys are free names."""
    patterns = list(node.get("patternProperties", {}).values())
    additional = node.get("additionalProperties")
    return patterns[0] if patterns else additional if isinstance(additional, dict) else {}
