"""What a variant on several GPUs adds to the workflow."""

import re

from tests.workflow.checkout import check_out


def test_profiled_runs_of_several_ranks_are_analysed_over_their_ranks(tmp_path):
    variant = "variants={two: {extends: baseline, title: Two, gpus: 2}}"
    checkout = check_out(tmp_path, variant, "measurement={variants: [baseline, two], device: cpu}")
    shown = checkout.snakemake("--dry-run", "--printshellcmds").stdout
    runs = r"results/ci/experiments/experiment-1/runs/0\d-"
    assert re.search(f"speedproof trace ranks {runs}two-profiled/rank0/trace {runs}two-profiled/rank1/trace --out", shown)
    summarised = re.findall(rf"speedproof trace analyze {runs}(\S+) --out", shown)
    assert sorted(summarised) == ["baseline-profiled/trace", "two-profiled/rank0/trace"]


def test_an_experiment_on_several_nodes_starts_outside_of_the_container_and_enters_it_itself(tmp_path, apptainer_to_plan_with):
    variant = "variants={wide: {extends: baseline, title: Wide, nodes: 2}}"
    checkout = check_out(tmp_path, variant, "measurement={variants: [wide]}")
    shown = checkout.snakemake("--dry-run", "--printshellcmds", "--use-singularity").stdout
    (experiment,) = [line for line in shown.splitlines() if "speedproof experiment" in line]
    assert "--container=container/speedproof.sif" in experiment
    assert re.search(r"speedproof trace ranks \S+-wide-profiled/rank0/trace \S+-wide-profiled/rank1/trace --out", shown)
