"""YAML that people wrote, read to plain values of sane size; or one line that says what is wrong, and where."""

import math
import re
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from speedproof.util.errors import ConfigError

LARGEST_BYTES = 1 << 18  # of a file: config.yaml has 12 kB
MOST_VALUES = 20_000  # anchors counted as often as they are named
DEEPEST = 50  # mappings and lists in each other
LONGEST = 10_000  # characters of a text: a PATH has thousands
LARGEST_NUMBER = 2**63

_DATE = "tag:yaml.org,2002:timestamp"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_OCTAL = re.compile(r"[-+]?0[0_]*[1-7]_*[0-7][0-7_]*")  # `07` is 7 in either base


class _Loader(yaml.SafeLoader):
    """As YAML 1.1, but for dates, of which nothing here is one: they stay text; and `1e-05`, as JSON has it, is a number."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own name and kind)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789"))


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same, parsed in C several times as fast. Builds of PyYAML without libyaml lack it."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def read_yaml(path: Path) -> Any:
    """Return what a file of YAML (or JSON) holds: mappings with text for keys, lists, texts, numbers, truth values and null.

    Raises:
        ConfigError: there is no such file, it is not YAML, or holds what :func:`check_plain` refuses.
    """
    text = _read_text(path)
    try:
        values = deepcopy(_parse(text))
    except RecursionError:
        raise ConfigError(f"{path}: lists or mappings nested too deep; flatten them") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}: not YAML ({_place_of(error.problem_mark)}{error.problem or error.context})") from None
    except (yaml.YAMLError, ValueError, OverflowError, TypeError) as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())[:200]})") from None
    check_plain(values, str(path))
    return values


@lru_cache(maxsize=16)
def _parse(text: str) -> Any:
    """Return what a text of YAML holds. One process reads the same file many times; what is kept must not be changed."""
    loader, node = _compose(text)
    _measure(node, {})
    return None if node is None else loader.construct_document(node)


def _compose(text: str) -> tuple[Any, yaml.Node | None]:
    try:
        _check_nesting(text)
        loader: Any = _FastLoader(text)
        return loader, loader.get_single_node()
    except yaml.MarkedYAMLError:
        loader = _Loader(text)  # its errors name more
        return loader, loader.get_single_node()


def _check_nesting(text: str) -> None:
    """Raise a RecursionError if lists or mappings are nested too deep: the parser in C would take any depth, and crash."""
    depth = 0
    for event in yaml.parse(text, _FastLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def check_plain(values: Any, origin: str) -> None:
    """Check that values are plain, few, flat, short and finite, whoever read them, and that their texts can be printed.

    Raises:
        ConfigError: they are not; it names `origin` and the key.
    """
    seen = 0
    waiting: list[tuple[tuple[str, ...], Any]] = [((), values)]
    while waiting:
        path, value = waiting.pop()
        seen += 1
        problem = "holds too many values" if seen > MOST_VALUES else _find_problem(value, len(path))
        if problem:
            raise ConfigError(f"{origin}: {'.'.join(path[:8]) + ': ' if path else ''}{problem}")
        if isinstance(value, dict):
            for key in value:
                if problem := _find_key_problem(key):
                    raise ConfigError(f"{origin}: {'.'.join([*path[:8], ''])}{key!r:.60}: {problem}")
            waiting += [((*path, key), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list | tuple):
            waiting += [((*path, str(number)), inner) for number, inner in reversed(list(enumerate(value)))]


def _find_problem(value: Any, depth: int) -> str | None:
    if depth > DEEPEST:
        return "lists or mappings nested too deep; flatten them"
    if isinstance(value, str):
        if len(value) > LONGEST:
            return f"a text of {len(value)} characters; {LONGEST} are allowed"
        return None if value.isprintable() else f"cannot be printed (given: {value[:60]!r}); remove control characters"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number (given: {value})"
    if isinstance(value, int | float) and abs(value) > LARGEST_NUMBER:
        return "a number larger than any key accepts"
    if value is None or isinstance(value, bool | int | float | dict | list | tuple):
        return None
    return f"must be a text, number, list or mapping, not {type(value).__name__}"


def _find_key_problem(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"a key must be a text, not {type(key).__name__}; put it between quotes"
    return _find_problem(key, 0)


def _read_text(path: Path) -> str:
    try:
        if not path.is_file():  # a pipe, or a terminal, might never end
            raise ConfigError(f"{path}: {'is not a file' if path.exists() else 'no such file'}; name a file of YAML")
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise ConfigError(f"{path}: {size / 1024:,.0f} KiB, too large for a configuration; name a file of YAML")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not readable as text; save it as UTF-8") from None
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        raise ConfigError(f"{path}: not readable ({error})") from None


def _measure(node: yaml.Node | None, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many values a node stands for, and how deep they lie, without making them: anchors may multiply.

    Raises a YAMLError if that is too much, if the node contains itself, if a key is duplicated, or if a number is not decimal
    though it looks so.
    """
    if node is None or isinstance(node, yaml.ScalarNode):
        _refuse_other_base(node)
        return 1, 1
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.MarkedYAMLError(problem="an anchor that contains itself", problem_mark=node.start_mark)
        return known[id(node)]
    known[id(node)] = ()  # type: ignore[assignment]  # being measured
    inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
    sizes = [_measure(part, known) for part in inner]
    count, depth = 1 + sum(size for size, _ in sizes), 1 + max((deep for _, deep in sizes), default=0)
    if count > MOST_VALUES:
        raise yaml.MarkedYAMLError(problem=f"more than {MOST_VALUES:,} values", problem_mark=node.start_mark)
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(node, yaml.MappingNode):
        _refuse_twice(node)
    known[id(node)] = count, depth
    return count, depth


def _refuse_other_base(node: yaml.ScalarNode | None) -> None:
    """Raise a YAMLError for `1:30` and `010`, which YAML 1.1 reads as 90 and 8; hardly anyone who writes them means that."""
    if node is not None and node.tag in _NUMBERS and (":" in node.value or _OCTAL.fullmatch(node.value)):
        base = 60 if ":" in node.value else 8
        problem = f"`{node.value:.60}` is a number in base {base}; write it in decimal, or put it between quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _refuse_twice(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key `{key.value:.60}` stands twice", problem_mark=key.start_mark)
            seen.add(key.value)


def _place_of(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def overlay(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay one mapping over another, as Snakemake does with several config files: mappings merge, the rest replaces."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = overlay(merged[key], value) if both else value
    return merged
