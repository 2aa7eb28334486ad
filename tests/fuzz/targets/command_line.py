"""Argument lists of every command that reads or writes files and trains nothing; nothing is written but where one says."""

import json
import os
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import yaml

from tests.fuzz.calling import Outcome, speedproof
from tests.fuzz.driver import read_files, write_files
from tests.fuzz.mutation import HOSTILE, Files, write_tree
from tests.profilers.exports import make_export
from tests.trace.handmade import two_epochs
from tests.trace.test_mutated import training_tables

ROOT = Path(__file__).parents[3]
NAME = "arguments.json"
CALLS = [
    ["check", "--config", "config.yaml"],
    ["check", "--config", "config.yaml", "--config", "over.yaml"],
    ["schema"],
    ["schema", "--out", "out/schema.yaml"],
    ["results", "cost", "--config", "config.yaml", "--from", "nothing"],
    ["results", "list", "--from", "nothing"],
    ["results", "list", "--from", "nothing", "--readme", "README.md"],
    ["results", "show", "--from", "nothing"],
    ["results", "report", "--from", "nothing", "--out", "out", "--log", "out/report.log"],
    ["verdicts", "--from", "nothing", "--claims", "claims.yaml", "--log", "log.txt"],
    ["trace", "analyze", "trace", "--out", "out", "--epoch", "epoch", "--process", "0", "--quiet", "--log", "log.txt"],
    ["trace", "analyze", "report.sqlite", "--out", "out"],
    ["trace", "diff", "trace", "trace", "--out", "out", "--samples-a", "10", "--samples-b", "20", "--process-a", "0"],
    ["trace", "ranks", "trace", "trace", "--out", "out"],
    ["trace", "convert", "report.sqlite", "--out", "out"],
    ["results", "archive", "--from", "nothing", "--claims", "claims.yaml", "--out", "out/record", "--untraced", "fast"],
    ["results", "rebuild", "--from", "nothing", "--claims", "claims.yaml"],
    ["results", "close", "--experiment", "results/experiments/experiment-1"],
    ["doctor", "--help"],
    ["--version"],
]  # fmt: skip
# What a mutated list may not become: these train, measure, fetch, build, or ask the machine.
FORBIDDEN = {"data", "train", "experiment", "image", "launch", "prepare", "doctor"}
WORDS = [
    "--out", "--config", "--log", "--json", "--help", "--version", "--", "-", "-h", "--out=", "--config=config.yaml",
    "--process", "nothing", "config.yaml", "trace", "report.sqlite", "out", ".", "..", "/", "/dev/null", "/dev/full",
    "/proc/self/mem", "fifo", "log.txt/x", "config.yaml/x", "trace/api.parquet", "no/such/folder/x", "--epoch", "(",
    "(a+)+$", ".*", "NaN", "-1", "99999999999999999999", "1e309", "over.yaml", "folder", "folder/x", "link", "broken",
    "locked/x",
]  # fmt: skip


def seeds() -> list[Files]:
    often = [call for call in CALLS if "trace" not in call] * 3  # an analysis takes longer than all else together
    return [{NAME: json.dumps(call).encode()} for call in CALLS + often]


def mutate(random: Random, files: Files) -> Files:
    words: list[str] = json.loads(files[NAME])
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(words) + 1)
        word = random.choice([random.choice(WORDS), random.choice(WORDS), str(random.choice(HOSTILE))[:5000]])
        match random.choice("riidsx"):
            case "r" if at < len(words):
                words[at] = word
            case "i":
                words.insert(at, word)
            case "d" if at < len(words):
                del words[at]
            case "s" if at < len(words):
                other = random.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case "x" if at < len(words) and words[at]:
                cut = random.randrange(len(words[at]))
                words[at] = words[at][:cut] + random.choice(["", "-", "x", "/", "\n", "=", "é"]) + words[at][cut + 1 :]
    words = [word.replace("\0", "") for word in words]  # no shell can pass one on
    return (
        files
        if FORBIDDEN & set(words) - {"doctor"} or words[:1] == ["doctor"] != words[-1:]
        else {NAME: json.dumps(words).encode()}
    )


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    os.chdir(write_files(folder / "work", _inputs()))
    os.mkfifo("fifo")
    Path("link").symlink_to("../canary")
    Path("broken").symlink_to("nowhere")
    Path("folder").mkdir()
    write_files(folder, {"canary/secret": b"unchanged"})
    words = [word.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape") for word in json.loads(files[NAME])]
    before = read_files(folder)
    ended = speedproof(*words)
    after = read_files(folder)
    named = {Path(word).resolve() for long in words for word in (long, long.partition("=")[2]) if _names_a_place(word)}
    if ("--out", "..") in pairwise(words) or "--out=.." in words:
        named.add(folder)
    touched = [name for name in before | after if before.get(name) != after.get(name)]
    if strays := [name for name in touched if not named & {folder / name, *(folder / name).parents}]:
        return Outcome("silent", f"changed or wrote {strays}")
    if refused := ended.refusal():
        return refused
    return Outcome("same" if files == sound else "right")


def _names_a_place(word: str) -> bool:
    """Return whether a call with this word may write there: anywhere else it may not."""
    return 0 < len(word) < 1000 and word not in ("/", "..")


@cache
def _inputs() -> Files:
    whole = yaml.safe_load((ROOT / "config.yaml").read_text())
    kept = {name: whole["variants"][name] for name in ("baseline", "fast")}
    with tempfile.TemporaryDirectory() as folder:
        two_epochs().write(Path(folder) / "trace")
        make_export(Path(folder) / "report.sqlite", training_tables())
        made = read_files(Path(folder))
    return {
        **made,
        "config.yaml": write_tree({**whole, "variants": kept}),
        "over.yaml": b"measurement: {epochs: 2}\n",
        "claims.yaml": (ROOT / "workloads/spleen/claims.yaml").read_bytes()[:1500],
        "README.md": b"# Readme\n\n<!-- records: written by `speedproof results list` -->\n<!-- end of records -->\n",
        "log.txt": b"",
    }
