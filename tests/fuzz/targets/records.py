"""A results folder or a record of somebody else: `verdicts` of each, `report`, `record` and `rebuild` of a few.

Half of the inputs are vouched for again, as who forges a record would: what is read of them must still be what stands there.
"""

import csv
import hashlib
import io
import json
import math
import re
import statistics
import tempfile
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from tests.fuzz.calling import Outcome, speedproof
from tests.fuzz.driver import read_files, write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, write_tree
from tests.report.example import CLAIMS, Example, write_example
from tests.report.pages import Page, find_live
from tests.trace.handmade import two_epochs

EXPERIMENT = "results/experiments/experiment-1/"
# One in so many of those that were vouched for again; `verdicts` takes a quarter of a second, the others seconds.
VERDICTS, RECORD, REBUILD, REPORT = 15, 400, 1000, 1000
CELLS = [
    "",
    *[
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e308",
        "1e-308",
        "text",
        "1.5",
        "0x10",
        "1_0",
        "=1+1",
        "true",
        "1;2",
        '"',
        "1e5",
        "-0.001",
        "\x1b[31m",
    ],
    " 1",
    "a\nb",
    "9" * 400,
]


def seeds() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        results = write_example(Path(folder) / "results", Example(experiments=1, rounds=2, modes=("timed", "profiled")))
        for trace in results.glob("experiments/*/runs/*/trace"):
            two_epochs().write(trace)
        for samples in results.glob("experiments/*/runs/*/gpu.csv"):
            samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:20]))
        files = read_files(Path(folder))
    return [_vouch(files)]


def _vouch(files: Files) -> Files:
    """Return the files with an `experiment.json` that vouches for them."""
    try:
        experiment = json.loads(files[f"{EXPERIMENT}experiment.json"])
        experiment["digests"] = {
            name: hashlib.sha256(files[EXPERIMENT + name]).hexdigest() if EXPERIMENT + name in files else digest
            for name, digest in experiment["digests"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return files
    return {**files, f"{EXPERIMENT}experiment.json": write_tree(experiment)}


def mutate(random: Random, files: Files) -> Files:
    name = random.choice([name for name in files for _ in range(_weight(name))])
    content = files[name]
    spoilt = dict(files)
    if random.random() < 0.04:
        del spoilt[name]
    elif random.random() < 0.02:
        spoilt[name] = random.choice([b"", b"[" * 100_000, b"null", b"\0" * 5000, b"\xff\xfe", content + content])
    elif name.endswith(".json") and random.random() < 0.8:
        tree = json.loads(content)
        if name.endswith("experiment.json") and random.random() < 0.4:
            _forge(random, tree)
        spoilt[name] = write_tree(mutate_tree(random, tree, random.choice([1, 1, 2, 4])))
    elif name.endswith(".csv") and random.random() < 0.6:
        spoilt[name] = spoil_table(random, content)
    else:
        spoilt[name] = mutate_bytes(random, content, random.choice([1, 1, 4]))
    return _vouch(spoilt) if random.random() < 0.5 else spoilt


def _weight(name: str) -> int:
    return {"experiment.json": 20, "run.json": 6, "epochs.csv": 4, "plan.json": 4}.get(Path(name).name, 1)


def _forge(random: Random, experiment: dict[str, Any]) -> None:
    """Let an experiment name what lies outside of it."""
    outside = random.choice(
        ["../../../canary/secret", "runs/../../../../canary/secret", "/etc/passwd", "../../../../x", "a\0b", ".", ""]
    )
    key = random.choice(["digests", "runs", "experiment", "kept", "undone"])
    if key == "digests":
        experiment["digests"][outside] = hashlib.sha256(b"unchanged").hexdigest()
    elif key == "runs":
        experiment["runs"][random.randrange(len(experiment["runs"]))] = outside
    elif key == "experiment":
        experiment["experiment"] = outside
    else:
        experiment[key] = {outside: outside} if key == "undone" else [outside]


def spoil_table(random: Random, content: bytes) -> bytes:
    rows = list(csv.reader(io.StringIO(content.decode())))
    row = random.randrange(len(rows))
    column = random.randrange(len(rows[row]))
    match random.randrange(6):
        case 0:
            del rows[row]
        case 1:
            rows.insert(row, rows[random.randrange(len(rows))])
        case 2:
            rows = [[cell for at, cell in enumerate(line) if at != column] for line in rows]
        case 3:
            rows = rows[: 1 + 2 * len(rows) // 3]
        case _:
            rows[row][column] = random.choice(CELLS)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    (folder / "canary").mkdir()
    (folder / "canary/secret").write_bytes(b"unchanged")
    forged = files == _vouch(files)
    lot = crc32(b"".join(files.values()))
    steps: list[tuple[str, ...]] = [("verdicts", "--from", "results", "--claims", CLAIMS)]
    if forged and lot % RECORD == 0:
        steps = [("results", "archive", "--from", "results", "--claims", CLAIMS, "--out", "kept/record")]
    elif forged and lot % REBUILD == 1:
        steps = [("results", "rebuild", "--from", "results", "--claims", CLAIMS)]
    elif forged and lot % REPORT == 2:
        steps.append(("results", "report", "--from", "results", "--out", "page"))
    elif forged and lot % VERDICTS:
        return _read_only(folder, files, sound)
    for step in steps:
        ended = speedproof(*step)
        if stray := _find_strays(folder, files):
            return Outcome("silent", f"{step[1]} changed or wrote {stray}")
        if refused := ended.refusal("results", "record", *({Path(name).name for name in files} | {"canary"})):
            return refused
        if problem := _check(folder, files, sound, forged) or _check_page(folder):
            return Outcome("silent", f"{step[1]}: {problem}")
    return Outcome("same" if files == sound else "right")


def _read_only(folder: Path, files: Files, sound: Files) -> Outcome:
    """Read all that `verdicts` reads, which takes a tenth of the time."""
    from speedproof.results.folder import read_results
    from tests.fuzz.calling import attempt

    results = attempt(lambda: read_results(Path("results")), "results")
    if isinstance(results, Outcome):
        return results
    for one in results.runs:
        numbers = [float(value) for column in ("train_s", "validation_s") for value in one.epochs[column].dropna()]
        numbers += [one.run.process_s, one.run.training_s, one.run.start_up_s, one.run.cache_fill_s]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            return Outcome("silent", f"{one.name}: read with {numbers}")
    return Outcome("same" if files == sound else "right")


def _find_strays(folder: Path, files: Files) -> list[str]:
    """Return what was written outside of the places where the steps write, or changed among the evidence."""
    now = read_files(folder)
    allowed = ("results/analysis/", "results/comparison.json", "results/report", "results/figures/", "page/", "kept/")
    evidence = {name: content for name, content in files.items() if name.startswith("results/experiments/")}
    evidence["canary/secret"] = b"unchanged"
    changed = [name for name, content in evidence.items() if now.get(name) != content]
    return changed + [name for name in now if name not in files and name not in evidence and not name.startswith(allowed)]


def _check(folder: Path, files: Files, sound: Files, forged: bool) -> str:
    """Say what is wrong with a comparison that was written."""
    places = [*folder.glob("results/comparison.json"), *folder.glob("kept/record/comparison.json")]
    if not places:
        return "ended well without a comparison"
    vouched = [name for name in files if re.search(r"/runs/.*\.(csv|json|parquet)$", name)]
    if not forged and any(files[name] != sound.get(name) for name in vouched):
        return "what the experiment does not vouch for was computed with"
    levels = json.loads(places[0].read_text(encoding="utf-8"))["measured"]
    for level in levels:
        if not all(math.isfinite(value) and value >= 0 for value in level["values"]):
            return f"{level['metric']} of {level['variant']}: {level['values']}"
        if (level["metric"], level["mode"]) == ("training_epoch_s", "timed"):
            expected = [
                mean_epoch_s(files[f"results/{name}"]) for name in level["origin"]["files"] if name.endswith("epochs.csv")
            ]
            if sorted(level["values"]) != sorted(expected):
                return f"training epochs of {level['variant']} are {level['values']}, by hand {expected}"
    return ""


def mean_epoch_s(content: bytes) -> float:
    """Return the mean of train_s without the first epoch, where two others remain."""
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    steady = [row for row in rows if float(row["epoch"]) != 1]
    return statistics.fmean(float(row["train_s"]) for row in (steady if len(steady) > 1 else rows))


def _check_page(folder: Path) -> str:
    """Say what is wrong with pages: nothing in them is live but the scripts of this package, and nothing is fetched."""
    for path in folder.glob("*/**/report.html"):
        if live := find_live(Page(path.read_text(encoding="utf-8"))):
            return f"{path.name} holds {live[:3]}"
    return ""
