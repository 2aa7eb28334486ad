"""What a variant on several GPUs adds to the workflow."""

import re

from tests.workflow.checkout import plan_from_here


def test_profiled_runs_of_several_ranks_are_analysed_over_their_ranks(tmp_path, apptainer_to_plan_with):
    """An experiment on several nodes starts outside of the container, and enters it itself."""
    added = [f"{name}: {{extends: baseline, title: {name}, {wide}: 2}}" for name, wide in (("two", "gpus"), ("wide", "nodes"))]
    variants = f"variants={{{', '.join(added)}}}"
    checkout = plan_from_here(tmp_path, variants, "measurement={variants: [baseline, two, wide]}")
    shown = checkout.snakemake("--dry-run", "--printshellcmds", "--use-singularity").stdout
    runs = r"results/ci/experiments/experiment-1/runs/0\d-"
    for name in ("two", "wide"):
        traces = " ".join(f"{runs}{name}-profiled/rank{rank}/trace" for rank in (0, 1))
        assert re.search(f"speedproof trace ranks {traces} --out", shown)
    summarised = re.findall(rf"speedproof trace analyze {runs}(\S+) --out", shown)
    assert sorted(summarised) == ["baseline-profiled/trace", "two-profiled/rank0/trace", "wide-profiled/rank0/trace"]
    (experiment,) = [line for line in shown.splitlines() if "speedproof experiment" in line]
    assert "--container=container/speedproof.sif" in experiment
