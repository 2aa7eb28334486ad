"""Finds words and sentences that a new reader stumbles over: words of our own, unusual phrases, long sentences.

`python -m tests.plain_english` lists the places in all files that people read, `python -m tests.plain_english FILE …` those in
some. A place is one to look at, and may be right as it is.
"""

import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST_WORDS = 32  # in a sentence
# What to look for, and what to write instead. An outcome is "no worse"; a thing is "not a file".
PHRASES = {
    r"\bwithout it,": "Default: …",
    r"\bas where\b|\bwhere (there|one|some|it|they|none|that|this|both|several)\b[^.;:]{0,50}\b(is|are|was|were|has|have)\b": (
        "if, when"
    ),
    r"(?<!by )(?<!left )(?<!right )(?<!host )(?<!client )(?<!server )\bsides?\b(?! effect| by side)(?<!side by side)": (
        "variant, reference, candidate"
    ),
    r"\barms?\b": "mode",
    r"\bbubbles?\b": "idle gap",
    r"\b(ladders?|rungs?)\b": "ablation, stage",
    r"\bvouch\w*|\bseal(ed|s)?\b": "checksum, manifest",
    r"\b(told|heard)\b|\btells? (of|its|that)\b|\bsaid (of|to be|so|that)\b|\bsays (so|of)\b": "report, show, print",
    r"\bfalls? away\b|\bcame out\b|\bstands? (there|beside|for the)\b": "a plain verb",
    r"(?<!there )\b(is|are) no (?!worse|longer|more|less|better|such)\w+": "is not a …",
    r"\b(oftener|likest|anew|thereof|whereof)\b|\bof its own accord\b|\bfor the time being\b": "an everyday word",
    r"\d+(\.\d+)? (s|ms|us|µs|MiB|GiB) an? (epoch|run|step|iteration|stage)\b": "per epoch, per run",
    r"\bundecided\b|\bno difference shown\b|\bnot shown\b": "inconclusive, not established",
    r"\bcures?\b": "hint, fix",
}
_PHRASES = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in PHRASES.items()]
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+")
# Tests, measured or made pages, a diary, and lists of changes and of texts in older files, which name old words.
SKIPPED = (
    "src/speedproof/results/older_versions.py",
    "records/*",
    "tests/*",
    "*/tests/*",
    "CHANGELOG.md",
    *(f"docs/{made}.md" for made in ("adversary", "fuzzing", "records", "reliability", "simulations")),
    "*/turbo-diary.md",
)
_SHORTEST = 20  # characters of a string that may be a sentence

Prose = Iterator[tuple[int, str]]  # the number of its first line, and the text


class Place(NamedTuple):
    """A place to look at: a file's line, what was found there, and what to write instead."""

    path: str
    line: int
    found: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}: {self.better}"


def look(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a text has of each kind of phrase, and each long sentence, with what to write instead."""
    for pattern, better in _PHRASES:
        if match := pattern.search(text):
            yield repr(match[0].strip()), better
    for sentence in _SENTENCE_END.split(text) if "|" not in text else ():
        if (words := len(sentence.split())) > MOST_WORDS:
            yield f"{words} words in {sentence.strip()[:60]!r}", "shorter sentences"


def find_places(path: str, text: str) -> list[Place]:
    """Return all places of a file; of one whose kind is unknown, none."""
    read = _find_reader(path)
    prose = read(text) if read else ()
    return [Place(path, line, *found) for line, part in prose for found in look(part)]


def _find_reader(path: str) -> Callable[[str], Prose] | None:
    return _READERS.get(Path(path).suffix or Path(path).name)


def list_files() -> list[str]:
    """Return the files of the repository that people read, by their paths in it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if _find_reader(name) and (ROOT / name).is_file()]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in SKIPPED)]


def find_all(names: list[str]) -> list[Place]:
    return [place for name in names for place in find_places(name, (ROOT / name).read_text(encoding="utf-8"))]


def _read_python(text: str) -> Prose:
    """Yield comments, and paragraphs of the strings that may be sentences, an f-string with X for its values."""
    nodes = list(ast.walk(ast.parse(text)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            string = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            string = node.value
        else:
            continue
        if len(string) > _SHORTEST and " " in string:
            yield from ((node.lineno, paragraph) for paragraph in _split_docstring(string))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _split_docstring(text: str) -> Iterator[str]:
    """Yield paragraphs without code: neither indented ones nor an interpreter's session."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if not paragraph.startswith(("    ", ">>> ")):
            yield paragraph


def _read_comments(text: str) -> Prose:
    for number, line in enumerate(text.splitlines(), 1):
        if comment := line.partition("#")[2].strip():
            yield number, comment


def _read_script(text: str) -> Prose:
    """Yield comments and longer strings of JavaScript."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in re.findall(r'//\s(.*)$|"((?:[^"\\]|\\.){18,})"|`([^`]{18,})`', line):
            yield number, " ".join(found)


def _read_page(text: str) -> Prose:
    """Yield the paragraphs, items, headings and rows of tables of a page, with X for code and addresses."""
    fenced, start, words = False, 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        fence = bare.startswith("```")
        fenced ^= fence
        code = fenced or fence or line.startswith("    ") or bare.startswith(("<", "!["))
        begins = bare.startswith(("|", "#", "- ", "* ")) or re.match(r"\d+\. ", bare) is not None
        if words and (code or begins or not bare):
            yield start, " ".join(words)
            words = []
        if code or not bare:
            continue
        clean = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]+>", " X ", bare.lstrip("-*# "))
        start, words = (start if words else number), [*words, clean]


_READERS: dict[str, Callable[[str], Prose]] = {
    **dict.fromkeys([".yaml", ".yml", ".toml", ".smk", "Snakefile", "Makefile"], _read_comments),
    **dict.fromkeys([".md", ".j2"], _read_page),
    ".py": _read_python,
    ".js": _read_script,
}


if __name__ == "__main__":
    places = find_all(sys.argv[1:] or list_files())
    print(*places, f"{len(places)} places", sep="\n")
