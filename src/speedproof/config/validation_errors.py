"""From pydantic's errors to one line a person can act on."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from speedproof.util.text import suggest
from speedproof.util.units import UNIT_WORDS

NameKey = Callable[[str], str]


# What is wrong with a value, by pydantic's kind of error; its own words name classes, and call a command line "input".
_PHRASES = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "literal_error": "must be {expected}",
    "string_type": "must be a text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "dict_type": "must be a mapping of keys",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
}


# What people call values whose names are not similar.
_OTHER_WORDS = {"gpu": "cuda", **{word: unit for unit, words in UNIT_WORDS.items() for word in words.split()}}


def key_names(info: ValidationInfo) -> NameKey:
    """Return how a model's messages call its keys: as a file has them, or as the context of its validation says (`name`)."""
    return (info.context or {}).get("name", str)


def describe_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first problem with the path of its key; `model` knows which keys there are."""
    problem = error.errors()[0]
    path = _list_parts(problem)
    said = explain_problem(problem, model)
    return said if not path and problem["type"] == "value_error" else f"{'.'.join(path) or 'top level'}: {said}"


def explain_problem(problem: ErrorDetails, model: type[BaseModel], keys_in: str = "config.yaml") -> str:
    """Return what is wrong with a key's value, and what was given; of an unknown key what helps, `keys_in` showing all."""
    if problem["type"] == "extra_forbidden":
        *above, key = _list_parts(problem)
        known = _find_schema(model, above).get("properties", {})
        return f"unknown key{suggest(key, known) or f'; remove it, or see {keys_in} for the keys there are'}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    known = _find_schema(model, _list_parts(problem)).get("enum", [])
    meant = _OTHER_WORDS.get(str(problem["input"]).lower())
    close = suggest(meant if meant in known else problem["input"], known)
    return f"{phrase_problem(problem)}{'' if problem['type'] == 'missing' else describe_given(problem)}{close}"


def phrase_problem(problem: ErrorDetails) -> str:
    """Return what is wrong with a value; of a rare kind of error in pydantic's words."""
    phrase = _PHRASES.get(problem["type"])
    return (
        phrase.format(**{key: _shorten(value) for key, value in problem.get("ctx", {}).items()}) if phrase else problem["msg"]
    )


def _shorten(bound: Any) -> Any:
    """Return 1 for 1.0, and anything else as it is."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def describe_given(problem: ErrorDetails) -> str:
    return f" (given: {problem['input']!r:.60})"


def _list_parts(problem: ErrorDetails) -> list[str]:
    return [str(part) for part in problem["loc"] if part != "[key]"]


def _find_schema(model: type[BaseModel], path: list[str]) -> dict[str, Any]:
    """Return the JSON schema of the value at `path`."""
    whole = model.model_json_schema()
    node = whole
    for part in path:
        node = node.get("properties", {}).get(part) or _any_value(node)
        (node,) = [one for one in node.get("anyOf", []) if one.get("type") != "null"][:1] or [node]
        if "$ref" in node:
            node = whole["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def _any_value(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a mapping's values where its keys are free names."""
    patterns = list(node.get("patternProperties", {}).values())
    additional = node.get("additionalProperties")
    return patterns[0] if patterns else additional if isinstance(additional, dict) else {}
