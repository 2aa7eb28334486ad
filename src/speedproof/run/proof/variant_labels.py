"""What a proof calls its commands: names that were given, or letters, with a label of what differs between the commands."""

import re
import string
from collections.abc import Sequence

from speedproof.run.proof.request import ProofRequest
from speedproof.util.secrets import scrub_command

_WHOLE, _LONGEST = 24, 44  # characters up to which a command is its own label, and of a label
_PATH = re.compile(r"""(?<![^\s='"])(?:[^\s='":/]*/){2,}[^\s='"/]+""")
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


def name_variants(request: ProofRequest) -> list[str]:
    """Return what files and configurations call the commands, in their order."""
    return list(string.ascii_lowercase[: len(request.commands)])


def call_variants(request: ProofRequest) -> dict[str, str]:
    """Return what tables and lines of progress call each variant: its given name, or its letter."""
    names = name_variants(request)
    return dict(zip(names, request.names or map(str.upper, names), strict=True))


def label_variants(request: ProofRequest) -> dict[str, str]:
    """Return a short label for each variant's command, without secrets, for a legend."""
    return dict(zip(name_variants(request), label_commands(list(map(scrub_command, request.commands))), strict=True))


def title_variants(request: ProofRequest) -> dict[str, str]:
    """Return what sentences and files call each variant: its given name, or its letter and its label."""
    called = call_variants(request)
    return called if request.names else {name: f"{called[name]} ({label})" for name, label in label_variants(request).items()}


def label_commands(commands: Sequence[str]) -> list[str]:
    """Return a short label for each command: the first one, and what the others do not share with all, as in `… --fast`."""
    split = [split_words(command) for command in commands]
    before = _count_shared(split)
    after = _count_shared([words[before:][::-1] for words in split])
    deepest = max(command.count("/") for command in commands)
    for depth in range(1, deepest + 2):  # the shortest paths by which the labels differ
        labels = [_label(command, words, before, after, depth) for command, words in zip(commands, split, strict=True)]
        if len(set(labels)) == len(labels):
            break
    first = commands[0]
    return [first if len(first) <= _LONGEST else labels[0], *labels[1:]]


def split_words(command: str) -> list[str]:
    """Return a command's words as they are written, quotes included."""
    return _WORD.findall(command)


def _count_shared(split: Sequence[Sequence[str]]) -> int:
    """Return with how many equal words all commands begin."""
    return next((number for number, words in enumerate(zip(*split, strict=False)) if len(set(words)) > 1), min(map(len, split)))


def _label(command: str, words: Sequence[str], before: int, after: int, depth: int) -> str:
    own = words[before : len(words) - after]
    if len(command) <= _WHOLE or not own:
        return _cut_middle(command if len(command) <= _LONGEST else _cut_paths(command, depth))
    if before and words[before - 1].startswith("-") and not own[0].startswith("-"):  # an option's value alone says little
        before -= 1
    own = words[before : len(words) - after]
    label = min(" ".join([*(["…"] if before else []), *own, *(["…"] if after else [])]), command, key=len)
    return _cut_middle(label if len(label) <= _WHOLE else _cut_paths(label, depth))


def _cut_paths(text: str, depth: int) -> str:
    """Leave so many names of each path."""
    return _PATH.sub(lambda path: "/".join(path[0].split("/")[-depth:]), text)


def _cut_middle(text: str) -> str:
    half = (_LONGEST - 1) // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"
