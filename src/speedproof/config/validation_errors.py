"""From pydantic's errors to one line a person can act on."""

import difflib
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError, ValidationInfo

NameKey = Callable[[str], str]


def key_names(info: ValidationInfo) -> NameKey:
    """Return how a model's messages call its keys: as a file has them, or as the context of its validation says (`name`)."""
    return (info.context or {}).get("name", str)


def describe_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first problem with the path of its key; `model` knows which keys there are."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"] if part != "[key]"]
    where = ".".join(path) or "top level"
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(path[-1], _sibling_keys(model, path[:-1]), n=1)
        hint = f"did you mean `{close[0]}`?" if close else "remove it, or see config.yaml for the keys there are"
        return f"{where}: unknown key; {hint}"
    if problem["type"] == "value_error":
        text = str(problem["ctx"]["error"])
        return f"{where}: {text}" if path else text
    given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r:.60})"
    return f"{where}: {problem['msg']}{given}"


def _sibling_keys(model: type[BaseModel], path: list[str]) -> list[str]:
    """Return the keys that may stand at `path`, from the JSON schema."""
    schema = model.model_json_schema()
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
