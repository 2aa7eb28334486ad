"""Training on two nodes of a real Slurm, through `snakemake --profile slurm`, each node in the container."""

import pytest

from speedproof.records.block import read_block
from speedproof.records.results import read_results
from speedproof.records.trace import TRACE_FILE
from tests.cluster.test_slurm_run import LIGHT, SMALL_JOBS, Cluster, jobs_of

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("cluster")]


def test_a_variant_on_two_nodes_leaves_a_trace_a_rank(tmp_path, finished_container, needs_slurm):
    settings = {
        "resources": SMALL_JOBS,
        "measurement": {"variants": ["wide"], "device": "cpu", "repeats": 1, "profiled": 1, "documented": 0},
        "variants": {"wide": {"extends": "turbo", **LIGHT, "batch_size": 4, "title": "Two nodes", "nodes": 2, "gpus": 1}},
    }
    cluster = Cluster(tmp_path, finished_container, settings)
    cluster.skip_doctor(finished_container)
    started = cluster.start("--until", "ranks", "--default-resources", "slurm_partition=pair")
    assert started.wait() == 0, f"{cluster.said()}\n{cluster.checkout.logs()}"
    (block,) = [job for job in jobs_of(cluster.said()) if "rule_block" in job["Comment"]]
    assert (block["NumNodes"], block["JobState"]) == ("2", "COMPLETED")
    timed, profiled = read_results(cluster.results).runs
    assert (timed.run.ranks, timed.run.outcome) == (2, "completed")
    assert all((trace / TRACE_FILE).exists() for trace in profiled.traces)
    assert profiled.ranks is not None and len(profiled.ranks.ranks) == 2
    assert read_block(cluster.results / "blocks/block-1").conditions.image  # measured in the container
