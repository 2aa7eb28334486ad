"""Whatever a page tells people to type is a command of ours, with options that it has."""

import re
import shlex

import pytest
from typer.main import get_command

from docs.reference import list_commands
from speedproof.cli.application import app
from tests.workflow.checkout import ROOT

FOLDERS = ("*.md", "docs/*.md", "workloads/*/docs/*.md")
PAGES = sorted(path.relative_to(ROOT).as_posix() for pattern in FOLDERS for path in ROOT.glob(pattern))
COMMANDS = dict(list_commands(get_command(app)))
GROUPS = {name.partition(" ")[0] for name in COMMANDS if " " in name}
RANGES = {"capture", "probe"}  # NVTX ranges of ours, which pages name, too
# A line of an indented experiment, or what stands in backticks.
TYPED = re.compile(r"^(?: {4}|\$ )speedproof (?P<line>(?:.*\\\n)*.+)$|`speedproof (?P<inline>[^`]+)`", re.MULTILINE)


def list_mistakes(text):
    for found in TYPED.finditer(text):
        typed = (found["line"] or found["inline"]).replace("\\\n", " ").replace("\n", " ")
        words = shlex.split(typed.partition(" > ")[0].partition(";")[0].replace("…", ""), comments=True)
        if not words or not re.fullmatch(r"[a-z-]+", words[0]) or words[0] in RANGES:
            continue
        name = " ".join(words[: 1 + (words[0] in GROUPS)])
        if name in GROUPS:
            continue
        if name not in COMMANDS:
            yield f"speedproof {typed}: no such command"
            continue
        options = {name for parameter in COMMANDS[name].params for name in parameter.opts}
        own = words[: words.index("--")] if "--" in words else words
        given = {word.partition("=")[0] for word in own if word.startswith("--")}
        yield from (f"speedproof {typed}: no option {name}" for name in given - options - {"--help"})


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_a_page_tells_commands_that_there_are(page):
    assert list(list_mistakes((ROOT / page).read_text(encoding="utf-8"))) == []


def test_a_command_that_is_not_there_is_found():
    text = "Type `speedproof prove 'a' 'b' --colour red`.\n\n    speedproof proove a b\n    speedproof prove a b --rounds 4\n"
    text += "`speedproof results show --from r`, `speedproof results`, `speedproof results tell`, `speedproof verdict`"
    assert sorted(list_mistakes(text)) == [
        "speedproof proove a b: no such command",
        "speedproof prove 'a' 'b' --colour red: no option --colour",
        "speedproof results tell: no such command",
        "speedproof verdict: no such command",
    ]
