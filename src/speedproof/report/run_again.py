"""The command that repeats a measurement, and the configuration that it needs, from what the results hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from speedproof.report.document import ShellCommand
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.folder import MeasuredRun
from speedproof.stats.metrics import MODES

_AGAIN = "results/again"  # a folder of its own: what was measured stays


def list_commands(evidence: Evidence) -> Sequence[ShellCommand]:
    """Return the commands that repeat the measurement, as they can be pasted into a shell."""
    if evidence.asked:
        note = f"Run it in the programs' folder. It writes to {_AGAIN} there."
        return [ShellCommand(f"{evidence.asked.command} --out {_AGAIN}", note)]
    conditions = evidence.comparison.conditions
    values = _configure(evidence)
    image = " --use-singularity" if conditions.image else ""
    text = (
        f"cat >again.yaml <<'END_OF_FILE'\n{_write_yaml(values)}END_OF_FILE\n"
        f"snakemake --cores {conditions.cores}{image} --configfile again.yaml"
    )
    commit = f" The code was at commit {conditions.git_commit}." if conditions.git_commit else ""
    begun = "This" if "data" in values else "It reads the data that config.yaml names under “data”; this"
    data = f"{begun} measurement used {conditions.dataset_name}."
    note = f"Run it in a clone of the repository. It writes to {_AGAIN}. {data}{commit}"
    return [ShellCommand(text, note)]


def _write_yaml(values: Mapping[str, Any]) -> str:
    """Return a configuration as YAML, each variant's many settings in one flow."""
    import yaml  # the first screen, which a proof reads, needs none

    how: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120}
    variants = values.get("variants", {})
    text: str = yaml.safe_dump(
        {key: value for key, value in values.items() if key != "variants"}, default_flow_style=None, **how
    )
    written = (
        yaml.safe_dump({name: settings}, default_flow_style=True, **how).strip()[1:-1] for name, settings in variants.items()
    )
    return text + ("variants: {\n" + ",\n".join(written) + "}\n" if variants else "")


def _configure(evidence: Evidence) -> dict[str, Any]:
    """Return the configuration of what ran: settings in which runs differ are left to their variants."""
    results = evidence.results
    first = results.runs[0].run
    counts = _count_runs(results.runs)
    measurement = {
        "variants": list(dict.fromkeys(name for one in results.experiments for name in one.variants)),
        "pairs": [list(pair) for pair in dict.fromkeys(pair for one in results.experiments for pair in one.pairs)],
        "ablation": results.ablation,
        "control": any(run.control for run in results.runs),
        "experiments": len(results.experiments),
        "rounds": counts["timed"],
        "profiled": counts["profiled"],
        "documented": counts["documented"],
        "epochs": _common(run.run.epochs for run in results.runs),
        "validate_every": _common(run.run.validate_every for run in results.runs),
        "seed": min(run.run.seed for run in results.runs),
        "equivalence_margin": results.equivalence_margin,
    }
    data = _find_data(evidence)
    values = {"results": _AGAIN, "case": first.case, **({"data": data} if data else {}), "measurement": measurement}
    if "command" in first.techniques:  # the variants are declared in the workload.yaml of their workload
        return values
    variants = {run.run.variant: run.run.techniques for run in reversed(results.runs)}
    return {**values, "workload": first.workload, "variants": {name: variants[name] for name in sorted(variants)}}


def _find_data(evidence: Evidence) -> dict[str, Any]:
    """Return the configured data, if all experiments had the same."""
    first, *others = (one.data for one in evidence.results.experiments)
    return first if all(other == first for other in others) else {}


def _count_runs(runs: Iterable[MeasuredRun]) -> dict[str, int]:
    """Return how many runs of each mode a variant has in an experiment, at most."""
    counts = Counter((run.run.mode, run.experiment, run.run.variant) for run in runs if not run.control)
    return {mode: max((count for key, count in counts.items() if key[0] == mode), default=0) for mode in MODES}


def _common(values: Iterable[int]) -> int | None:
    """Return the value that all runs share; None if they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None
