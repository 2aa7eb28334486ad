"""A file of claims, judged on known runs: each verdict must be what its documented range says of the measured number."""

import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from speedproof.results.folder import Results, read_results
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import load_claims
from tests.fuzz.calling import Outcome, attempt
from tests.fuzz.driver import write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, read_tree, write_tree
from tests.report.example import Example, write_example
from tests.session_folders import make_session_folder

NAME = "claims.yaml"
SOURCE = {"title": "A page", "url": "https://example.org/a", "hardware": "V100", "gpu": "V100", "profiled": True, "epochs": 6}
EPOCH = {"metric": "training_epoch_s", "variant": "baseline"}
SPEEDUP = {"metric": "training_epoch_s", "reference": "baseline", "candidate": "fast"}
CLAIMS = {
    "dataset": "Task09_Spleen",
    "workload": {"patch_size": [96, 96, 96], "window_overlap": 0.25},
    "variants": {"baseline": {"batch_size": 4, "optimizer": {"name": "adam"}}, "fast": {"precision": "fp16"}},
    "tolerances": {"figure": {"share": 0.1, "why": "read by eye"}},
    "sources": {"page": SOURCE, "other": {**SOURCE, "profiled": False, "software": "torch 1.9"}},
    "claims": [
        {"id": "epoch", "text": "An epoch", "source": "page", "place": "top", "unit": "s", "quantity": EPOCH,
         "stated": {"comparator": "between", "low": "1.0", "high": "2.0"}},
        {"id": "speedup", "text": "Faster", "source": "other", "place": "end", "unit": "×", "quantity": SPEEDUP,
         "stated": {"comparator": "about", "value": "2.8", "tolerance": "figure"}},
        {"id": "dice", "text": "To Dice", "source": "other", "place": "end", "unit": "epochs",
         "quantity": {"metric": "epochs_to_quality", "variant": "fast", "target": 0.3},
         "stated": {"comparator": "less than", "value": "8"}},
        {"id": "other", "text": "Elsewhere", "source": "page", "place": "end", "unit": "%", "quantity": {"missing": "a node"},
         "stated": {"comparator": "more than", "value": "90"}},
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
    tree = read_tree(files[NAME])
    stated = {str(claim["id"]): _bounds(tree, claim) for claim in tree["claims"]}
    for result in judged:
        numbers = [number for number in (result.measured, result.low, result.high) if number is not None]
        if not all(map(math.isfinite, numbers)):
            return Outcome("silent", f"{result.id}: {numbers}")
        low, high = stated[result.id]
        inside = [low <= end <= high for end in (result.low, result.high) if end is not None]
        said = {"reproduced": inside == [True, True], "exceeded": True not in inside, "not reproduced here": True not in inside}
        if result.measured is not None and not said.get(result.verdict, True):
            return Outcome("silent", f"{result.id}: {result.measured} against {stated[result.id]} is {result.verdict}")
    if any(not text.isprintable() for result in judged for text in (result.text, result.reason)):
        return Outcome("silent", "a text that cannot be printed goes into the report")
    return Outcome("same" if _says_the_same(files, sound) else "right")


def _bounds(tree: Any, claim: Any) -> tuple[float, float]:
    """Return which values reproduce a claim, as a person would work it out: those that its printed digits round."""
    stated, scale = claim["stated"], 0.01 if claim["unit"] == "%" else 1.0
    if stated["comparator"] == "between":
        low, high = (Fraction(stated[end]) for end in ("low", "high"))
        return float(low - _half(stated["low"])), float(high + _half(stated["high"]))
    value = Fraction(stated["value"])
    if stated["comparator"] == "more than":
        return scale * float(value), math.inf
    if stated["comparator"] == "less than":
        return -math.inf, scale * float(value)
    off = _half(stated["value"], stated["comparator"] in ("about", "similar"))
    if stated.get("tolerance"):
        off = value * Fraction(str(tree["tolerances"][stated["tolerance"]]["share"]))
    slack = 1e-12 * float(value)  # of floating point
    return scale * (float(value - off) - slack), scale * (float(value + off) + slack)


def _half(digits: str, rounded: bool = False) -> Fraction:
    """Return half a unit of the last printed digit; of a `rounded` whole number, of the last one but zeros."""
    whole, _, decimals = digits.partition(".")
    zeros = len(whole) - len(whole.rstrip("0")) if rounded and not decimals and whole.strip("0") else 0
    return Fraction(10**zeros, 2 * 10 ** len(decimals))


def _says_the_same(files: Files, sound: Files) -> bool:
    return bool(read_tree(files[NAME]) == read_tree(sound[NAME]))


@cache
def _results() -> Results:
    folder = make_session_folder("speedproof-claims-")  # the GPU's samples are read as they are needed
    return read_results(write_example(folder, Example(experiments=1, rounds=3, modes=("timed",))))
