"""One kind on trial: its pair is drawn by a seed, its truth is timed from outside, and what prove says of it is judged."""

import py_compile
import random
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from speedproof import marks
from tests.adversary.bench import (
    Outside,
    Place,
    Proof,
    compare_outside,
    draw_numbers,
    find_interpreter,
    keep_history,
    placing,
    prove,
)
from tests.adversary.kinds import Kind
from tests.adversary.mutated import WORDINGS, draw_name, keep_imports, mutate

PROGRAMS = Path(__file__).parent / "programs"
# A pair of equals, of four to six epochs of about 20 ms, came out 0.76 to 1.25 by one round on two cores with a load of five.
# A wrong pair is off by FACTOR, 1.8 and more.
TRUTH_TOLERANCE = 1.25
# How far a confirmed ratio may be off: cheats are off by FACTOR. Two per cent are equivalent.
NEAR, SAME = 1.08, 1.02
MOST_ROUNDS = 5  # of a pair that does not come out right yet: each program's shortest run counts


@dataclass(frozen=True)
class Pair:
    """Two commands as they are given to prove, and what is true of them."""

    commands: list[str]
    options: list[str]
    truth: float
    adversary: int  # which of the two


@dataclass(frozen=True)
class Trial:
    """What was seen of a kind."""

    kind: Kind
    pair: Pair
    outside: Outside
    proof: Proof

    @property
    def truth_holds(self) -> bool:
        """Tell whether the programs are what they are meant to be."""
        if self.kind.whole:
            return (self.outside.ratio > 1) == (self.pair.truth > 1)
        return self.outside.meets(self.pair.truth / TRUTH_TOLERANCE, self.pair.truth * TRUTH_TOLERANCE)

    @property
    def truth(self) -> float:
        """Return how many times as fast the second program is."""
        return self.outside.ratio if self.kind.whole else self.pair.truth

    @property
    def verdict(self) -> str:
        """Return what became of the claim: whoever believed a wrong ratio said `believed`."""
        if self.proof.status == 3:
            return "refused"
        if self.proof.status != 0:
            return "not confirmed"
        if self.kind.worse or not self._says_the_truth():
            return "believed"
        return "true" if self.kind.names in self.proof.said else "believed"

    def _says_the_truth(self) -> bool:
        """Tell whether the interval holds the truth, or its centre is near: by noise, one interval of twenty misses it."""
        found, truth = self.proof.interval, self.truth
        if found is None or self.proof.ratio is None:
            return False
        near = 1 / NEAR < self.proof.ratio / truth < NEAR
        return near or found.low / SAME <= truth <= found.high * SAME


def draw_pair(kind: Kind, place: Place, rng: random.Random) -> Pair:
    """Write a kind's two programs in words of their own."""
    numbers = draw_numbers(rng)
    wording = rng.choice(sorted(WORDINGS))
    where = {"ignored": "kept", "data": "data"}.get(kind.where, kind.where or "/tmp")
    constants = {**numbers, "TAG": place.tag, "LINE": wording, "WHERE": where}
    module = draw_name(rng, ())
    text, shared = mutate((PROGRAMS / "work.py").read_text(), rng, {}, {}, constants)
    (place.work / f"{module}.py").write_text(text)
    scripts = []
    for program in (kind.reference, kind.program):
        copy, _ = mutate((PROGRAMS / f"{program}.py").read_text(), rng, shared, {"work": module}, {})
        scripts.append(f"{draw_name(rng, [module, *scripts])}.py")
        (place.work / scripts[-1]).write_text(copy)
    shutil.copyfile(marks.__file__, place.work / "marks.py")
    lay_beside(kind, place, float(numbers["FACTOR"]))
    python = shlex.quote(str(find_interpreter())) if kind.shared_python else "python"
    commands = [f"{python} {script}" for script in scripts]
    truth = float(eval(kind.truth, {"__builtins__": {}}, numbers))
    reads = ["--epoch-s", WORDINGS[wording]] if kind.options is None else list(kind.options)
    swapped = kind.swaps and rng.random() < 0.25
    if swapped:
        return Pair(commands[::-1], [*reads, *kind.also], 1 / truth, 0)
    return Pair(commands, [*reads, *kind.also], truth, 1)


def lay_beside(kind: Kind, place: Place, factor: float) -> None:
    """Make what a kind needs in its folder besides programs."""
    for name in kind.beside:
        if name.endswith(".c"):
            words = ["cc", "-shared", "-fPIC", f"-DFACTOR={factor}", "-o", place.work / "clock.so", PROGRAMS / name, "-ldl"]
            subprocess.run(words, check=True)
        else:
            shutil.copyfile(PROGRAMS / name, place.work / name)
    for name in kind.restored:
        (packages,) = (place.top / "env").glob("lib/python*/site-packages")
        place.given[packages / f"{name}.py"] = (PROGRAMS / f"{name}.py").read_bytes()
    if kind.settings:
        place.given[Path(kind.settings.format(home=place.top / "home", tag=place.tag))] = b"fast\n"
    for name in kind.packages:
        (packages,) = (place.top / "env").glob("lib/python*/site-packages")
        compiled = Path(str(py_compile.compile(str(shutil.copy(PROGRAMS / f"{name}.py", packages)), doraise=True)))
        place.given[compiled] = compiled.read_bytes()
    if kind.where == "data":
        (place.work / "data").symlink_to(place.top / "shared")
    if kind.where == "ignored":
        (place.work / "kept").mkdir()
        (place.work / "kept/readme").touch()
        (place.work / "kept/settings").write_text("fast\n")
        (place.work / ".gitignore").write_text("kept/\n")
        keep_history(place.work)


def try_kind(kind: Kind, seed: int) -> Trial:
    """Draw a kind's pair, time it from outside, and have it proved."""
    with placing() as place:
        pair = draw_pair(kind, place, random.Random(f"{seed} {kind.title}"))
        commands = [shlex.split(command) for command in pair.commands]
        starts = [] if kind.whole else [write_start(place, kind, pair, which) for which in (0, 1)]
        for number, outside in enumerate(compare_outside(place, commands, starts, kind.tree), start=1):
            close = 1 / TRUTH_TOLERANCE < outside.ratio / pair.truth < TRUTH_TOLERANCE
            if number == MOST_ROUNDS or (close and not kind.whole):
                break
        return Trial(kind, pair, outside, prove(place, pair.commands, pair.options))


def write_start(place: Place, kind: Kind, pair: Pair, which: int) -> list[str]:
    """Return a command that takes as long as one of a pair until it works."""
    python, script = shlex.split(pair.commands[which])
    start = place.work / f"start_{script}"
    start.write_text(keep_imports((place.work / script).read_text()))
    if which == pair.adversary and kind.starts > 1:
        return ["sh", "-c", "; ".join([f"{shlex.quote(python)} {start.name}"] * kind.starts)]
    return [python, start.name]
