"""Results of earlier versions: what their files hold, in today's words.

The first version measured one workload only, so its files name that workload's quality. No other module of the instrument does.

An experiment holds the digests of its files, so none is ever rewritten: each is converted when it is read. A converter is a
pure function from a file's JSON value in one version of its schema to that in the next one.
"""

from collections.abc import Callable
from typing import Any

OlderValues = dict[str, Any]

# The quality that every result had before a quality was declared.
_DICE = {"name": "dice", "title": "Dice", "unit": "", "better": "higher", "within": [0.0, 1.0]}
_DICE_RULE = {"dice_targets": [0.80, 0.90, 0.92, 0.94], "dice_margin": 0.01, "judged_above": 0.90}

# Keys that people wrote in earlier versions, and what to write now.
QUALITY_KEYS = {
    "dice_targets": "`targets`; a quality has `name`, `title`, `unit` and `better`, too",
    "dice_margin": "`margin`; a quality has `name`, `title`, `unit` and `better`, too",
}
CLAIM_KEYS = {
    "dice": "`target`, and its metrics end in `to_quality` or `to_quality_s`",
    "numerator": "reference",
    "denominator": "candidate",
}

STATED_KEYS = {
    "expected": '`stated`, with a `comparator` and the printed digits in quotes: {comparator: more than, value: "50"}',
}

# Columns of `epochs.csv`.
RENAMED_EPOCH_COLUMNS = {"dice_foreground": "quality", "dice_with_background": "quality_with_background"}


def _run_of_1(run: OlderValues) -> OlderValues:
    names = {name: name.replace("best_dice", "best_quality") for name in ("best_dice", "best_dice_epoch", "best_dice_s")}
    return {names.get(key, key): value for key, value in run.items()} | {"schema_version": 2}


def _experiment_of_1(experiment: OlderValues) -> OlderValues:
    """Convert an experiment, or its plan: both hold the rule of quality, or were written when there was but one."""
    rule = experiment.get("quality", {})
    if not isinstance(rule, dict):
        return experiment | {"schema_version": 2}  # rejected by the validation that follows
    rule = _DICE_RULE | rule
    quality = _DICE | {"targets": rule.pop("dice_targets"), "margin": rule.pop("dice_margin")} | rule
    return experiment | {"quality": quality, "schema_version": 2}


# Keys before 0.3, by their section of a configuration; those of `completed` are a workload.yaml's, too.
CONFIG_KEYS = {
    "measurement": {
        "repeats": "rounds",
        "blocks": "experiments",
        "ladder": "ablation",
        "same_margin": "equivalence_margin",
    },
    "resources": {"block": "experiment"},
    "completed": {"sides": "variants"},
}
_RUN_KEYS = {"arm": "mode", "repeat": "round", "heard": "observed_ranges"}
_EXPERIMENT_KEYS = {"block": "experiment", "ladder": "ablation", "same_margin": "equivalence_margin"}
_VERDICT_KEYS = {"same_margin": "equivalence_margin", "sides": "candidates"}
_WARNINGS = {
    "another block measured on this machine when it began or ended": (
        "another experiment measured on this machine when it began or ended"
    )
}


def _rename(values: OlderValues, names: dict[str, str]) -> OlderValues:
    return {names.get(key, key): value for key, value in values.items()}


def _rename_each(values: Any, names: dict[str, str]) -> Any:
    """Rename the keys of each mapping in a list; the validation that follows rejects anything else."""
    return [_rename(one, names) if isinstance(one, dict) else one for one in values] if isinstance(values, list) else values


def _run_of_2(run: OlderValues) -> OlderValues:
    warnings = run.get("warnings", [])
    if isinstance(warnings, list):
        run = run | {"warnings": [_WARNINGS.get(one, one) if isinstance(one, str) else one for one in warnings]}
    return _rename(run, _RUN_KEYS) | {"schema_version": 3}


def _experiment_of_2(experiment: OlderValues) -> OlderValues:
    order = _rename_each(experiment.get("order"), _RUN_KEYS)
    return _rename(experiment | {"order": order}, _EXPERIMENT_KEYS) | {"schema_version": 3}


def _verdict_of_3(verdict: OlderValues) -> OlderValues:
    candidates = verdict.get("candidates", [])
    if isinstance(candidates, list):
        candidates = [{"objections": [], "observed": None, **one} if isinstance(one, dict) else one for one in candidates]
    return verdict | {"candidates": candidates, "trust_reported": None, "schema_version": 4}


def _verdict_of_4(verdict: OlderValues) -> OlderValues:
    """Name the outcomes of a claim as such; without one, a command is faster, slower or equivalent."""
    claimed, candidates = verdict.get("claim") is not None, verdict.get("candidates", [])
    if not isinstance(candidates, list):
        return verdict | {"schema_version": 5}  # rejected by the validation that follows
    converted = [_candidate_of_4(one, claimed) if isinstance(one, dict) else one for one in candidates]
    before = verdict.get("outcome")
    same = {
        now["outcome"]
        for one, now in zip(candidates, converted, strict=True)
        if isinstance(one, dict) and one.get("outcome") == before
    }
    outcome = max(same, key=lambda name: name == "slower", default=before)
    return verdict | {"outcome": outcome, "candidates": converted, "schema_version": 5}


def _candidate_of_4(candidate: OlderValues, claimed: bool) -> OlderValues:
    ratio = candidate.get("ratio")
    compared = "slower" if isinstance(ratio, int | float) and ratio < 1 else "faster"
    outcomes = {
        "shown": "claim holds" if claimed else compared,
        "refuted": "claim fails" if claimed else "equivalent",
        "quality not shown": "quality not established",
    }
    outcome, quality = candidate.get("outcome"), candidate.get("quality")
    return candidate | {"outcome": outcomes.get(str(outcome), outcome), "quality": _OUTCOMES_OF_5.get(str(quality), quality)}


def _verdict_of_2(verdict: OlderValues) -> OlderValues:
    renamed: OlderValues = _rename_all(verdict, _VERDICT_KEYS)
    return renamed | {"schema_version": 3}


_COMPARISON_KEYS = {
    "block": "experiment",
    "blocks": "experiments",
    "by_block": "by_experiment",
    "arm": "mode",
    "ladder": "ablation",
    "ladder_whole": "ablation_whole",
    "same_margin": "equivalence_margin",
    "numerator": "reference",
    "denominator": "candidate",
    "numerator_quality": "reference_quality",
    "denominator_quality": "candidate_quality",
    "numerator_reached": "reference_reached",
    "denominator_reached": "candidate_reached",
}
_OUTCOMES = {"same": "equivalent", "undecided": "inconclusive"}


def _rename_all(value: Any, names: dict[str, str]) -> Any:
    """Rename keys at any depth, and the outcomes that are called otherwise now."""
    if isinstance(value, dict):
        renamed = {key: _rename_all(inner, names) for key, inner in _rename(value, names).items()}
        return renamed | _rename_own_outcomes(renamed, _OUTCOMES)
    return [_rename_all(inner, names) for inner in value] if isinstance(value, list) else value


def _rename_outcomes(value: Any, outcomes: dict[str, str]) -> Any:
    if isinstance(value, dict):
        renamed = {key: _rename_outcomes(inner, outcomes) for key, inner in value.items()}
        return renamed | _rename_own_outcomes(renamed, outcomes)
    return [_rename_outcomes(inner, outcomes) for inner in value] if isinstance(value, list) else value


def _rename_own_outcomes(row: OlderValues, outcomes: dict[str, str]) -> OlderValues:
    """Return the outcomes that a row holds, in the words of `outcomes`."""
    renamed: OlderValues = {key: outcomes.get(str(row[key]), row[key]) for key in row.keys() & {"outcome", "verdict"}}
    if isinstance(by := row.get("by_experiment"), dict):
        renamed["by_experiment"] = {name: outcomes.get(str(verdict), verdict) for name, verdict in by.items()}
    return renamed


def _comparison_of_4(comparison: OlderValues) -> OlderValues:
    made_of = comparison.get("made_of", {})
    renamed: OlderValues = _rename_all(comparison | {"made_of": {}}, _COMPARISON_KEYS)
    return renamed | {"made_of": made_of, "schema_version": 5}


_OUTCOMES_OF_5 = {"refuted": "not reproduced here", "not shown": "not established"}


def _comparison_of_5(comparison: OlderValues) -> OlderValues:
    """Rename the outcomes of documented numbers and of qualities."""
    made_of = comparison.get("made_of", {})
    renamed: OlderValues = _rename_outcomes(comparison | {"made_of": {}}, _OUTCOMES_OF_5)
    return renamed | {"made_of": made_of, "schema_version": 6}


def _summary_of_2(summary: OlderValues) -> OlderValues:
    return _rename(summary, {"bubbles": "idle_gaps"}) | {"schema_version": 3}


# Texts that files hold, and what is written there now.
_CAUSES = {"beside a loader's thread": "while a loader thread is active"}
_DOCTOR_WORDS = {
    "not on PATH, and this is no job of it": "Slurm is not on PATH, and this is not a Slurm job",
    "on a cluster, run `snakemake --profile slurm` from a login node; elsewhere none is needed": (
        "on a cluster, run `snakemake --profile slurm` from a login node; elsewhere Slurm is not needed"
    ),
    "`module load apptainer` where the cluster has it; without it, leave --use-singularity out": (
        "run `module load apptainer` if the cluster has it, else leave --use-singularity out"
    ),
    "ratios are formed within a block, which evens this out; for times, lock them: `nvidia-smi --lock-gpu-clocks`": (
        "ratios within an experiment even this out; to quote times, lock the clocks with `nvidia-smi --lock-gpu-clocks`"
    ),
}


def _replace_texts(value: Any, texts: dict[str, str]) -> Any:
    """Replace whole texts at any depth."""
    if isinstance(value, dict):
        return {key: _replace_texts(inner, texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_texts(inner, texts) for inner in value]
    return texts.get(value, value) if isinstance(value, str) else value


def _summary_of_3(summary: OlderValues) -> OlderValues:
    return {**_replace_texts(summary, _CAUSES), "schema_version": 4}


def _difference_of_1(difference: OlderValues) -> OlderValues:
    return {**_replace_texts(difference, _CAUSES), "schema_version": 2}


def _diagnosis_of_1(diagnosis: OlderValues) -> OlderValues:
    worded = _replace_texts(diagnosis, _DOCTOR_WORDS)
    return {**worded, "findings": _rename_each(worded.get("findings"), {"cure": "hint"}), "schema_version": 2}


def convert_older_config(config: OlderValues) -> OlderValues:
    """Return what the `config.json` of a results folder holds, in today's keys."""
    return {
        key: _rename(value, CONFIG_KEYS[key]) if key in CONFIG_KEYS and isinstance(value, dict) else value
        for key, value in config.items()
    }


# By the name of the model that reads the file, and the version that it is converted from.
_CONVERTERS: dict[tuple[str, int], Callable[[OlderValues], OlderValues]] = {
    ("Run", 1): _run_of_1,
    ("Experiment", 1): _experiment_of_1,
    ("Plan", 1): _experiment_of_1,
    ("Run", 2): _run_of_2,
    ("Experiment", 2): _experiment_of_2,
    ("Plan", 2): _experiment_of_2,
    ("Comparison", 4): _comparison_of_4,
    ("Comparison", 5): _comparison_of_5,
    ("Summary", 2): _summary_of_2,
    ("Summary", 3): _summary_of_3,
    ("Difference", 1): _difference_of_1,
    ("Diagnosis", 1): _diagnosis_of_1,
    ("Verdict", 1): _verdict_of_2,
    ("Verdict", 2): _verdict_of_2,
    ("Verdict", 3): _verdict_of_3,
    ("Verdict", 4): _verdict_of_4,
}


def name_today(experiment: str) -> str:
    """Return what an experiment is called by today's configurations, in which versions before 0.3 planned `block-1`."""
    return experiment.replace("block-", "experiment-", 1)


# What the first workload's configurations called its variants, and what they call them now.
RENAMED_TITLES = {
    "spleen": {
        "Regular (tutorial)": "MONAI regular tutorial",
        "Baseline (profiling)": "MONAI baseline script",
        "Baseline (profiling, as in 2021)": "MONAI 2021 baseline script",
        "Baseline of 2021 (profiling)": "MONAI 2021 baseline script",
        "Fast (profiling)": "MONAI fast script",
        "Fast, two GPUs": "MONAI fast script on two GPUs",
        "Fast (tutorial)": "MONAI fast tutorial",
        "Turbo": "Turbo (ours)",
        "Turbo, prepared volumes": "Turbo (ours) on prepared volumes",
        "Turbo, two GPUs": "Turbo (ours) on two GPUs",
        "Turbo, four GPUs": "Turbo (ours) on four GPUs",
        "Resident": "Resident volumes (ours)",
        "Resident, two GPUs": "Resident volumes (ours) on two GPUs",
        "Dataset": "MONAI Dataset",
        "PersistentDataset": "MONAI PersistentDataset",
        "LMDBDataset": "MONAI LMDBDataset",
        "SmartCacheDataset": "MONAI SmartCacheDataset",
        "CacheDataset": "MONAI CacheDataset",
        "Dataset (notebook)": "MONAI Dataset of the newest notebook",
        "CacheDataset (notebook)": "MONAI CacheDataset of the newest notebook",
        "Single precision (notebook)": "MONAI notebook in single precision",
        "Mixed precision (notebook)": "MONAI notebook in mixed precision",
        "+ lasting workers that prefetch": "+ persistent workers that prefetch",
        "+ no worker processes": "+ loading without workers",
        "+ no copies of the cache": "+ cache without copies",
        "+ no metadata": "+ tensors without metadata",
        "+ loss read once an epoch": "+ loss read once per epoch",
        "+ resident volumes": "+ half-precision volumes on the GPU",
        "+ cuDNN's first choice": "+ cuDNN heuristics",
        "+ fused Adam, its rate and betas": "+ fused Adam with its rate and betas",
        "+ scored on the device": "+ Dice computed on the GPU",
        "+ plain torch": "+ torch in place of MONAI",
        "+ fused norm": "+ fused batch norm",
    }
}


def title_today(case: str, title: str) -> str:
    """Return a variant's title as today's configuration of `case` has it; any other title as it is."""
    return RENAMED_TITLES.get(case, {}).get(title, title)


def convert_older(model: str, value: OlderValues) -> OlderValues:
    """Return a file's JSON value as the newest version of its schema has it, as far as converters lead; others as they are."""
    while type(version := value.get("schema_version")) is int and (
        convert := _CONVERTERS.get((model, version))
    ):  # True is none
        value = convert(value)
    return value


def refuse_renamed_keys(values: Any, renamed: dict[str, str]) -> None:
    """Raise a ValueError that names the new key if a mapping still has a key of an earlier version."""
    for old, new in renamed.items() if isinstance(values, dict) else ():
        if old in values:
            raise ValueError(f"`{old}` is now {new if '`' in new else f'`{new}`'}")
