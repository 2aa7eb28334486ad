"""A file of claims, judged on known runs: each verdict must be what its documented range says of the measured number."""

import math
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from speedproof.results.folder import Results, read_results
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import load_claims
from tests.fuzz.calling import Outcome, attempt
from tests.fuzz.driver import write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, read_tree, write_tree
from tests.report.example import Example, write_example

NAME = "claims.yaml"
SOURCE = {"title": "A page", "url": "https://example.org/a", "hardware": "V100", "gpu": "V100", "profiled": True, "epochs": 6}
EPOCH = {"metric": "training_epoch_s", "variant": "baseline"}
SPEEDUP = {"metric": "training_epoch_s", "reference": "baseline", "candidate": "fast"}
CLAIMS = {
    "dataset": "Task09_Spleen",
    "workload": {"patch_size": [96, 96, 96], "window_overlap": 0.25},
    "variants": {"baseline": {"batch_size": 4, "optimizer": {"name": "adam"}}, "fast": {"precision": "fp16"}},
    "sources": {"page": SOURCE, "other": {**SOURCE, "profiled": False, "software": "torch 1.9"}},
    "claims": [
        {"id": "epoch", "text": "An epoch", "source": "page", "place": "top", "unit": "s", "quantity": EPOCH,
         "expected": {"low": 1.0, "high": 2.0}},
        {"id": "speedup", "text": "Faster", "source": "other", "place": "end", "unit": "×", "quantity": SPEEDUP,
         "expected": {"value": 2.8, "tolerance": 0.1, "why": "rounded"}},
        {"id": "dice", "text": "To Dice", "source": "other", "place": "end", "unit": "epochs",
         "quantity": {"metric": "epochs_to_quality", "variant": "fast", "target": 0.3}, "expected": {"high": 8}},
        {"id": "other", "text": "Elsewhere", "source": "page", "place": "end", "unit": "%", "quantity": {"missing": "a node"},
         "expected": {"low": 0.9}},
    ],
}  # fmt: skip


def seeds() -> list[Files]:
    return [{NAME: write_tree(CLAIMS)}]


def mutate(random: Random, files: Files) -> Files:
    if random.random() < 0.25:
        return {NAME: mutate_bytes(random, files[NAME], random.choice([1, 1, 3]))}
    return {NAME: write_tree(mutate_tree(random, CLAIMS, random.choice([1, 1, 1, 2, 4])))}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    claims = attempt(lambda: load_claims(folder / NAME), NAME)
    if isinstance(claims, Outcome):
        return claims
    judged = attempt(lambda: [judge_claim(claim, claims, _results()) for claim in claims.claims], NAME)
    if isinstance(judged, Outcome):
        return judged
    stated = {str(claim["id"]): claim["expected"] for claim in read_tree(files[NAME])["claims"]}
    for result in judged:
        numbers = [number for number in (result.measured, result.low, result.high) if number is not None]
        if not all(map(math.isfinite, numbers)):
            return Outcome("silent", f"{result.id}: {numbers}")
        inside = [_agrees(end, stated[result.id]) for end in (result.low, result.high) if end is not None]
        said = {"reproduced": inside == [True, True], "exceeded": True not in inside, "refuted": True not in inside}
        if result.measured is not None and not said.get(result.verdict, True):
            return Outcome("silent", f"{result.id}: {result.measured} against {stated[result.id]} is {result.verdict}")
    if any(not text.isprintable() for result in judged for text in (result.text, result.reason)):
        return Outcome("silent", "a text that cannot be printed goes into the report")
    return Outcome("same" if _says_the_same(files, sound) else "right")


def _agrees(measured: float, expected: dict[str, float]) -> bool:
    """Return whether a number lies in what was documented, as a person would work it out."""
    if expected.get("value") is not None:
        value, tolerance = float(expected["value"]), float(expected["tolerance"])
        return abs(measured - value) <= abs(value) * tolerance * (1 + 1e-12)
    low, high = expected.get("low"), expected.get("high")
    return (low is None or measured >= float(low)) and (high is None or measured <= float(high))


def _says_the_same(files: Files, sound: Files) -> bool:
    return bool(read_tree(files[NAME]) == read_tree(sound[NAME]))


@cache
def _results() -> Results:
    with TemporaryDirectory() as folder:
        return read_results(write_example(Path(folder), Example(experiments=1, rounds=3, modes=("timed",))))
