"""Copies of a program that say the same in other words, drawn by a seed: no check can know a program by its text."""

import ast
import random
from collections.abc import Collection, Mapping
from pathlib import Path

# How a program words an epoch's line, and how prove reads it.
WORDINGS = {
    "epoch {epoch} took {seconds:.5f} s": r"took (\S+) s",
    "Epoch {epoch}: loss 0.4213, {seconds:.4f} s": r"loss \S+ (\S+) s",
    "[{epoch}] step time: {seconds:.6f} sec": r"time: (\S+) sec",
    "iter {epoch}: loss 1.2041, time {milliseconds:.2f}ms": r"time (\S+)ms",
    "train/epoch={epoch} train/seconds={seconds:.5f}": r"train/seconds=(\S+)",
    "{epoch} | 0.873 | {milliseconds:.1f} ms": r"0.873 \| (\S+) ms",
}
WORDS = [
    "batch",
    "data",
    "fit",
    "graph",
    "index",
    "kernel",
    "loader",
    "model",
    "node",
    "pack",
    "rank",
    "shard",
    "tensor",
    "unit",
]


def draw_name(rng: random.Random, taken: Collection[str]) -> str:
    """Return a name that a program might have, and that nothing has yet."""
    while True:
        name = f"{rng.choice(WORDS)}_{rng.choice(WORDS)}{rng.randrange(100)}"
        if name not in taken:
            return name


def list_own_names(tree: ast.Module) -> set[str]:
    """Return what a program defines itself: its functions, their arguments, its variables."""
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


class Renaming(ast.NodeTransformer):
    """Gives a program's own names, and those of the module it shares, other ones; takes docstrings out."""

    def __init__(self, names: Mapping[str, str], modules: Mapping[str, str]) -> None:
        self.names, self.modules = names, modules

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.get(node.arg, node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        node.body = _without_docstring(node.body)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in self.names:
            for keyword in node.keywords:
                keyword.arg = self.names.get(keyword.arg or "", keyword.arg)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module in self.modules:
            node.module = self.modules[node.module]
            node.names = [ast.alias(self.names.get(one.name, one.name)) for one in node.names]
        return node


def mutate(
    text: str, rng: random.Random, shared: Mapping[str, str], modules: Mapping[str, str], constants: Mapping[str, object]
) -> tuple[str, dict[str, str]]:
    """Return a copy of a program and the names it got.

    `shared` are names that another copy got before, `modules` new names of modules, `constants` new values by old names.
    """
    tree = ast.parse(text)
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names = dict(shared)
    for name in sorted(list_own_names(tree) - names.keys()):
        names[name] = draw_name(rng, taken | set(names.values()))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in constants:
            node.value = ast.Constant(constants[node.targets[0].id])
    tree.body = _shuffle_runs(_without_docstring(tree.body), rng)
    return ast.unparse(ast.fix_missing_locations(Renaming(names, modules).visit(tree))) + "\n", names


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    return body[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else body


def _kind(statement: ast.stmt) -> str:
    """Tell statements apart whose order among their like means nothing."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        return "constant"
    return "function" if isinstance(statement, ast.FunctionDef) else ""


def _shuffle_runs(body: list[ast.stmt], rng: random.Random) -> list[ast.stmt]:
    """Return statements with neighbours of one kind in another order."""
    runs: list[list[ast.stmt]] = []
    for statement in body:
        if runs and _kind(statement) and _kind(statement) == _kind(runs[-1][-1]):
            runs[-1].append(statement)
        else:
            runs.append([statement])
    return [statement for run in runs for statement in rng.sample(run, len(run))]


def keep_imports(text: str) -> str:
    """Return a program that only imports what this one does."""
    tree = ast.parse(text)
    tree.body = [one for one in tree.body if _kind(one) == "import"]
    return ast.unparse(tree) + "\n"


def read_purpose(program: Path) -> str:
    """Return what a program says that it does."""
    return (ast.get_docstring(ast.parse(program.read_text())) or "").strip()
