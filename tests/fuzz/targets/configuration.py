"""A configuration, of one file or of two: `check`, which reads it as every step does."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

from speedproof_spleen.config import load_config
from tests.answers import answer_here
from tests.fuzz.calling import Outcome, attempt, speedproof
from tests.fuzz.driver import write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, read_tree, write_tree

ROOT = Path(__file__).parents[3]
# Of the repository's configuration, in parts, since a whole one takes long to read: each holds what the others leave out.
PARTS = [["workload"], ["data", "container"], ["profiling", "resources"]]


def seeds() -> list[Files]:
    whole = read_tree((ROOT / "config.yaml").read_bytes())
    variants = whole["variants"]
    seeds = []
    for part, name in zip(PARTS, ("baseline", "fast", "turbo"), strict=True):
        kept = {key: whole[key] for key in ["case", *part]}
        pair = {name: variants[name], "other": {"extends": name, "title": "Other", "epochs": 3}}
        measurement = {**whole["measurement"], "variants": [name, "other"], "pairs": [["other", name]]}
        seeds.append({"config.yaml": write_tree({**kept, "variants": pair, "measurement": measurement})})
    ablation = {
        "variants": {"third": {"extends": "other", "seed": 1}},
        "measurement": {"ablation": ["turbo", "third"], "rounds": 2},
    }
    del ablation["variants"]["third"]["seed"]
    ablation["variants"]["third"]["precision"] = "bf16"
    return [*seeds, {**seeds[2], "over.yaml": write_tree(ablation)}]


def mutate(random: Random, files: Files) -> Files:
    name = random.choice(list(files))
    if random.random() < 0.2:
        return {**files, name: mutate_bytes(random, files[name], random.choice([1, 1, 3]))}
    tree = read_tree(files[name])
    return {**files, name: write_tree(mutate_tree(random, tree, random.choice([1, 1, 1, 2, 5])))}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    """Whatever is called sound holds finite numbers alone, and written out and read again it is the same."""
    write_files(folder, files)
    with answer_here():
        ended = speedproof("check", *(word for name in files for word in ("--config", name)))
    if refused := ended.refusal(*files):
        return refused
    config = attempt(lambda: load_config(*map(Path, files)))
    if isinstance(config, Outcome):
        return Outcome("silent", f"checked as sound, then refused: {config.text}")
    values = config.model_dump(mode="json")
    if bad := [value for value in _leaves(values) if isinstance(value, float) and not math.isfinite(value)]:
        return Outcome("silent", f"sound with {bad}")
    (folder / "again.json").write_text(json.dumps(values), encoding="utf-8")
    again = attempt(lambda: load_config(folder / "again.json"))
    if again != config:
        return Outcome("silent", f"read again it is another: {again if isinstance(again, Outcome) else ''}")
    return Outcome("right" if files != sound else "same")


def _leaves(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value
