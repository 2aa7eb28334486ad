"""One name, one thing: public names and file names are unique in the instrument, but for a few."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import speedproof
from speedproof.util import units

PACKAGE = Path(speedproof.__file__).parent

# Names that several modules define, and why.
NAMES = {
    "log": "a module's logger, called so everywhere",
    "main": "what a program runs, each of which is a file for itself: the command line, the guardian, marks.py",
    "commands": "each module of the command line has its own; application.py puts them together",
    "marking_callback": "the same callback for each framework; a program imports that of its own",
}


def defined_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what statements of a module define, those inside of `if` and `try` too; not what they import."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Assign(targets):
                yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.AnnAssign(ast.Name(name)):
                yield name
            case ast.If(_, inner, otherwise) | ast.Try(inner, _, otherwise):
                yield from defined_names([*inner, *otherwise])


def test_a_public_name_is_defined_in_one_module():
    modules = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in defined_names(ast.parse(path.read_text(encoding="utf-8")).body):
            if not name.startswith("_"):
                modules[name].add(path.relative_to(PACKAGE).as_posix())
    several = {name: found for name, found in modules.items() if len(found) > 1}
    assert {name: found for name, found in several.items() if name not in NAMES} == {}
    assert NAMES.keys() <= several.keys(), "an exception that is none"


def test_a_file_name_is_that_of_one_module():
    files = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if not path.stem.startswith("__"):
            files[path.stem].add(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_a_unit_is_defined_once():
    known = {name for name in vars(units) if name.isupper()}
    for path in PACKAGE.rglob("*.py"):
        names = {name.lstrip("_") for name in defined_names(ast.parse(path.read_text(encoding="utf-8")).body)}
        assert path == Path(units.__file__) or not names & known, path
