"""What a program leaves of a run (run.json, epochs.csv, gpu.csv) before an experiment vouches for it: `close`, then `verdicts`.

A run that cannot be read, or is none that was planned, is named as undone; the others' numbers are those that stand there.
"""

import csv
import io
import json
import math
import tempfile
from pathlib import Path
from random import Random
from zlib import crc32

from speedproof.results.folder import CONFIG_FILE
from speedproof.run.plan import plan_experiment
from speedproof_spleen.config import check_config, load_config
from tests.fuzz.calling import Outcome, attempt, speedproof
from tests.fuzz.driver import read_files, write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, write_tree
from tests.fuzz.targets.records import mean_epoch_s, spoil_table
from tests.report.example import CLAIMS, REPOSITORY, Example, write_example

RUNS = "results/experiments/experiment-1/runs/"
VERDICTS = 20  # one in so many
CONFIG = f"results/{CONFIG_FILE}"


def seeds() -> list[Files]:
    values = load_config(REPOSITORY / "config.yaml").model_dump(mode="json")
    values["measurement"] |= {"rounds": 2, "profiled": 0, "documented": 0, "control": False}
    values["variants"] = {name: values["variants"][name] for name in ("baseline", "fast")}
    plan = plan_experiment(check_config(values), "experiment-1")
    with tempfile.TemporaryDirectory() as folder:
        write_example(Path(folder) / "results", Example(experiments=1, rounds=3, order=tuple(plan.order), quality=plan.quality))
        files = read_files(Path(folder))
    del files["results/experiments/experiment-1/experiment.json"]
    kept = {
        name: b"\n".join(content.split(b"\n")[:12]) + b"\n" if name.endswith("gpu.csv") else content
        for name, content in files.items()
    }
    return [{**kept, CONFIG: write_tree(values)}]


def mutate(random: Random, files: Files) -> Files:
    name = random.choice([name for name in files if name.startswith(RUNS) for _ in range(1 if name.endswith(".txt") else 4)])
    if random.random() < 0.03:
        return {other: content for other, content in files.items() if other != name}
    if name.endswith(".json") and random.random() < 0.8:
        return {**files, name: write_tree(mutate_tree(random, json.loads(files[name]), random.choice([1, 1, 2, 4])))}
    if name.endswith(".csv") and random.random() < 0.7:
        return {**files, name: spoil_table(random, files[name])}
    return {**files, name: mutate_bytes(random, files[name], random.choice([1, 1, 4]))}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    if refused := speedproof("results", "close", "--experiment", "results/experiments/experiment-1").refusal(
        "results", "run.json"
    ):
        return refused
    experiment = json.loads((folder / "results/experiments/experiment-1/experiment.json").read_text(encoding="utf-8"))
    for name in experiment["runs"]:
        if problem := attempt(lambda name=name: _check_run(files, name)):  # type: ignore[misc]
            return Outcome("silent", f"{name} counts: {problem.text if isinstance(problem, Outcome) else problem}")
    spoilt = {name.removeprefix(RUNS).split("/")[0] for name in sound if files.get(name) != sound[name]}
    if spoilt & experiment["undone"].keys():
        return Outcome("refused")  # the experiment says that this run is none
    if crc32(b"".join(files.values())) % VERDICTS == 0:
        if refused := speedproof("verdicts", "--from", "results", "--claims", CLAIMS).refusal("results"):
            return refused
        for level in json.loads((folder / "results/comparison.json").read_text(encoding="utf-8"))["measured"]:
            if level["metric"] == "training_epoch_s":
                expected = [
                    mean_epoch_s(files[f"results/{name}"]) for name in level["origin"]["files"] if name.endswith(".csv")
                ]
                if sorted(level["values"]) != sorted(expected):
                    return Outcome("silent", f"training epochs are {level['values']}, by hand {expected}")
    return Outcome("same" if files == sound else "right")


def _check_run(files: Files, name: str) -> str:
    """Say why a run that counts should not."""
    record = json.loads(files[f"{RUNS}{name}/run.json"])
    table = files[f"{RUNS}{name}/epochs.csv"].decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    if [float(row["epoch"]) for row in rows] != list(range(1, int(record["epochs"]) + 1)):
        return f"{record['epochs']} epochs, and rows of {[row['epoch'] for row in rows]}"
    numbers = [float(row[column]) for row in rows for column in ("train_s", "validation_s") if row[column] != ""]
    numbers += [float(record[key]) for key in ("start_up_s", "cache_fill_s", "training_s", "process_s")]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        return f"times of {numbers}"
    if any(not math.isfinite(float(row["quality"])) or not 0 <= float(row["quality"]) <= 1 for row in rows if row["quality"]):
        return "a Dice that is none"
    return ""
