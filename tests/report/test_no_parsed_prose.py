"""Prose is output, never data: no sentence is taken apart to learn what an enum or a model should say."""

import ast
from collections import defaultdict
from pathlib import Path

import speedproof

PACKAGE = Path(speedproof.__file__).parent
ROOMS = ("report", "run/proof")
PARSERS = {
    "removeprefix", "removesuffix", "split", "rsplit", "partition", "rpartition", "startswith", "endswith", "splitlines",
    "sub", "search", "match", "fullmatch", "findall", "finditer",
}  # fmt: skip

# By module: what is taken apart that is no prose of ours, and by which calls.
ALLOWED = {
    "report/figures/style.py": ("the markup of a figure", {"re.sub", "re.findall"}),
    "report/gate_summary.py": ("how a user named a commit", {"one.sha.startswith"}),
    "report/html.py": (
        "the markup of a figure, its file's name, a link's target, white space of text that is shown, and unbroken words",
        {"re.sub", "re.split", "_UNBROKEN.fullmatch", "value.target.startswith", "value.split"},
    ),
    "report/markdown.py": (
        "marks that Markdown would act on, links' targets, and white space of text that is shown",
        {"_TARGETS.sub", "_TARGETS.findall", "link.split", "re.sub", "_MARKDOWN_MARKS.sub", "_LINE_STARTS.sub", "value.split",
         "text.split"},
    ),
    "report/records_overview.py": ("marks that users set in a document", {"re.finditer"}),
    "report/setup_sections.py": ("marks around commands in the doctor's texts", {"_BACKTICKS.sub"}),
    "report/snakemake_report.py": (
        "marks that reStructuredText would act on, and white space of text that is shown", {"re.sub", "text.split"},
    ),
    "report/terminal.py": (
        "lines and words that are laid out, and the mark of a column of numbers",
        {"captured.get().splitlines", "column.startswith", "self.title.split"},
    ),
    "report/timeline/collect.py": ("names of kernels and operators in a trace", {"_WAITS.search", "_SERIAL.sub", "name.split"}),
    "run/proof/attempts.py": (
        "commands of users, and a file's lines", {"command.split", "path.read_text(encoding='utf-8').splitlines"},
    ),
    "run/proof/command_lookup.py": (
        "commands of users",
        {"shlex.split", "_ASSIGNMENT.match", "first.startswith", "word.startswith", "word.endswith", "_REDIRECTION.fullmatch"},
    ),
    "report/trace_page.py": ("whether a note of a profiler ends a sentence", {"warning.endswith"}),
    "report/prose.py": ("the lines of a template", {"getattr(_load_macros(self._template), name)(*data).split"}),
    "run/proof/judging.py": ("the user's quality command", {"shlex.split", "word.partition"}),
    "run/proof/left_files.py": (
        "paths, and what git prints",
        {"f'{other}/'.startswith", "name.startswith", "one[0].startswith", "f'{path}/'.startswith", "done.stdout.split"},
    ),
    "run/proof/loss_names.py": (
        "the user's pattern of a quality",
        {"re.search", "_WORD.findall", "_UNNAMED.split", "_WORD.search"},
    ),
    "run/proof/parent_folders.py": (
        "paths in a program's source, output and command",
        {"re.findall", "re.sub", "_PARENTS.finditer", "_ONLY_PARENTS.findall", "name.rpartition",
         "name.rstrip('/').rpartition"},
    ),
    "run/proof/plan_notes.py": (
        "options of users' commands, and words of users' patterns",
        {"_BATCH_SIZE.finditer", "_ESCAPE.sub", "_STEP.search", "_PER_SECOND.search", "_SHORT_RATE.search",
         "per[1].lower().startswith"},
    ),
    "run/proof/request.py": (
        "what users ask for",
        {"shlex.split", "commands[0].endswith", "str(text).partition",
         "called.startswith"},
    ),
    "run/proof/shared_code.py": ("commands of users, and paths", {"shlex.split", "Path(program).name.startswith"}),
    "run/proof/tree_copy.py": ("paths", {"path.startswith"}),
    "run/proof/variant_labels.py": (
        "words and paths of users' commands",
        {"_WORD.findall", "own[0].startswith", "words[before - 1].startswith", "_PATH.sub", "path[0].split"},
    ),
    "run/proof/request_mistakes.py": ("what users ask for", {"request.file.startswith"}),
    "run/proof/snakemake.py": (
        "what Snakemake prints",
        {"log_file.read_text(encoding='utf-8', errors='replace').splitlines", "re.match"},
    ),
    "run/proof/warm_up.py": ("paths, and the last line of a user's program", {"name.startswith", "last.startswith"}),
    "run/proof/workspace.py": (
        "commands of users, and what their interpreter prints",
        {"shlex.split", "Path(program).name.startswith", "done.stdout.splitlines", "word.rpartition"},
    ),
}  # fmt: skip


def find_parsed(module: Path) -> set[str]:
    """Return what calls take text apart in a module, without their arguments."""
    calls = (node.func for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return {ast.unparse(call) for call in calls if isinstance(call, ast.Attribute) and call.attr in PARSERS}


def test_no_prose_is_taken_apart():
    found = defaultdict(set)
    for room in ROOMS:
        for module in (PACKAGE / room).rglob("*.py"):
            found[module.relative_to(PACKAGE).as_posix()] = find_parsed(module)
    listed = defaultdict(set, {module: calls for module, (_, calls) in ALLOWED.items()})
    assert {module: calls - listed[module] for module, calls in found.items() if calls - listed[module]} == {}
    assert {module: calls - found[module] for module, calls in listed.items() if calls - found[module]} == {}, "not there"


def test_a_call_that_takes_text_apart_is_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("kind = reason.removeprefix('unequal work: ')\nshown = reason.upper()\n")
    assert find_parsed(module) == {"reason.removeprefix"}
