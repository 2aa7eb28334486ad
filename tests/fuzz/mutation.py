"""Ways to spoil an input: trees of keys and values as hostile ones, texts and bytes by flips, cuts, insertions and splices."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

Files = dict[str, bytes]  # an input: what stands in each of its files, by path relative to the input's folder


class Raw(str):
    """A text that is written as it is, where others are quoted: what no writer of YAML or JSON would write."""


# Both in YAML and in JSON, or in neither: a reader of either must refuse it, or understand it.
HOSTILE = [
    *map(Raw, ["null", "true", "no", "~", "0", "1", "-1", "-0.0", "0.5", "1e30", "1e400", "-1e400", "1e-400", "0x10", "1_000"]),
    *map(Raw, [".nan", ".inf", "-.inf", "NaN", "Infinity", "-Infinity", "2020-13-45", "2020-01-01", "12:30:45", "=", "<<"]),
    *map(Raw, ["9" * 19, "9" * 400, "9" * 6000, "-" + "9" * 30, "[]", "{}", "[[]]", "[" * 400 + "]" * 400, "{a: " * 300]),
    *map(Raw, ["!!python/object/apply:os.getcwd []", "!!binary '='", "!!set {a}", "&a [*a]", "*unknown", "? [1]"]),
    *map(Raw, ['"\\ud800"', '"\\u0000"', '"\\x07"', "'", '"', "}", "]", "- ", "\t", "# x", "| ", "@", "`"]),
    "", " ", "\n", "a\nb", "\x1b[31mred\x1b[0m", "\x9b31m", "\u202egnp.exe", "\u2028", "\x85", "\ufeff", "é" * 3, "＋１", "١",
    "../../x", "/etc/passwd", "/dev/zero", "~", "$HOME", "nul\x00", "a" * 300, "a" * 100_000, "%s%n", "{}", "{{ 7 * 7 }}",
    "<script>alert(1)</script>", "<img src=/etc/passwd onerror=x>", "]]>", "| a | b |", "![x](/etc/passwd)", "$\\frac{$", "$x$",
    "true", "null", "1", "1.5", "nan", "inf", "1e999", "-1", "baseline", "fast", "cuda", "gpu", "timed", "nsys", "completed",
]  # fmt: skip


def mutate_tree(random: Random, tree: Any, times: int = 1) -> Any:
    """Return the tree with so many of its places changed, dropped, added, doubled or exchanged."""
    tree = copy.deepcopy(tree)
    for _ in range(times):
        places = list(_places(tree))
        if not places:
            return tree
        owner, key = random.choice(places)
        _CHANGES[random.choices(range(len(_CHANGES)), weights=_WEIGHTS)[0]](random, owner, key, places)
    return tree


def _places(tree: Any) -> Any:
    """Yield each place of a tree: the mapping or list, and the key or index."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _spoil(random: Random, owner: Any, key: Any, places: Any) -> None:
    owner[key] = random.choice(HOSTILE)


def _scale(random: Random, owner: Any, key: Any, places: Any) -> None:
    value = owner[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _spoil(random, owner, key, places)
    owner[key] = random.choice([-value, value + 1, value - 1, value * 2, value / 2, value * 10**9, float(value), str(value)])
    return None


def _drop(random: Random, owner: Any, key: Any, places: Any) -> None:
    del owner[key]


def _add(random: Random, owner: Any, key: Any, places: Any) -> None:
    value = copy.deepcopy(owner[key])
    if isinstance(owner, list):
        owner.insert(key, value)
    else:  # the key stands twice, or a hostile or unknown one beside it
        twice = Raw(json.dumps(str(key)))
        owner[random.choice([twice, f"{key}s", random.choice(HOSTILE), random.choice(places)[1]])] = value


def _exchange(random: Random, owner: Any, key: Any, places: Any) -> None:
    other, place = random.choice(places)
    owner[key] = copy.deepcopy(other[place])


def _wrap(random: Random, owner: Any, key: Any, places: Any) -> None:
    value = owner[key]
    owner[key] = random.choice([[value], [value, value], {"a": value}, str(value)])


_CHANGES: list[Callable[[Random, Any, Any, Any], None]] = [_spoil, _scale, _drop, _add, _exchange, _wrap]
_WEIGHTS = [5, 3, 2, 2, 2, 1]


def write_tree(tree: Any) -> bytes:
    """Write a tree on one line, which is JSON as well as YAML as long as it holds nothing :class:`Raw`."""
    return _write(tree).encode("utf-8", "surrogatepass")


def _write(tree: Any) -> str:
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, dict):
        return (
            "{" + ", ".join(f"{_write(key if isinstance(key, str) else str(key))}: {_write(tree[key])}" for key in tree) + "}"
        )
    if isinstance(tree, list | tuple):
        return "[" + ", ".join(map(_write, tree)) + "]"
    return json.dumps(tree)


class _Loader(yaml.CSafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own name and kind)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith("timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_tree(content: bytes) -> Any:
    """Read YAML by the C library, dates as text."""
    return yaml.load(content, _Loader)


def mutate_bytes(random: Random, content: bytes, times: int = 1) -> bytes:
    """Return the bytes with so many flips, cuts, insertions and splices."""
    changed = bytearray(content)
    for _ in range(times):
        at = random.randrange(len(changed) + 1)
        size = random.choice([1, 1, 2, 4, 8, 100, 1000])
        match random.choice("ffffbbcditsz"):
            case "f" if at < len(changed):
                changed[at] ^= 1 << random.randrange(8)
            case "b" if at < len(changed):
                changed[at] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
            case "c":
                del changed[at:]
            case "d":
                del changed[at : at + size]
            case "i":
                changed[at:at] = random.randbytes(size)
            case "t":
                text = random.choice(HOSTILE)
                changed[at:at] = text.encode("utf-8", "surrogatepass")[:2000]
            case "s":
                other = random.randrange(len(changed) + 1)
                changed[at : at + size] = changed[other : other + size]
            case "z":
                changed[at : at + size] = bytes(len(changed[at : at + size]))
    return bytes(changed)
