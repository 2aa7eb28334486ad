"""What to type to measure the same again."""

import re
from collections.abc import Sequence
from shlex import quote

from speedproof.report.document import ShellCommand
from speedproof.report.figures.figure_data import Evidence

_COMMIT = re.compile("[0-9a-f]{7,64}")  # what else a record calls one is not to be typed


def list_commands(evidence: Evidence) -> Sequence[ShellCommand]:
    """Return what to type to measure the same again, as far as results tell: the code, and what was planned."""
    results, conditions = evidence.results, evidence.comparison.conditions
    if evidence.asked:
        return [ShellCommand(evidence.asked.command, "In the folder of the programs.")]
    runs = [run for run in results.runs if run.run.arm == "timed" and not run.control] or results.runs
    first = runs[0].run
    times = max(
        (
            len([run for run in runs if run.block == block.block and run.run.variant == first.variant])
            for block in results.blocks
        ),
        default=1,
    )
    commit = f"git checkout {conditions.git_commit}\n" if _COMMIT.fullmatch(conditions.git_commit or "") else ""
    variants, seed = ", ".join(results.blocks[0].variants), min(run.run.seed for run in runs)
    epochs = f", epochs: {first.epochs}" if len({run.run.epochs for run in runs}) == 1 else ""  # else each side's own count
    repeats = f"repeats: {times}" if first.arm == "timed" else f"repeats: 0, {first.arm}: {times}"
    measurement = f"measurement={{variants: [{variants}], {repeats}{epochs}, seed: {seed}}}"
    image = " --use-singularity" if conditions.image else ""
    chosen = f"{quote(f'case={first.case}')} {quote(measurement)}"
    text = f"{commit}snakemake --cores {conditions.cores}{image} --configfile CONFIG --config {chosen}"
    note = (
        "In a clone of the repository, CONFIG being the configuration that was used: it alone says where data come from, how "
        "many blocks there are, and which pairs, control and ladder. Every other setting of each run stands in its run.json, "
        "and the order of the runs in plan.json."
    )
    return [ShellCommand(text, note)]
