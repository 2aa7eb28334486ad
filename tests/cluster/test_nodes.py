"""An experiment on several nodes: what is submitted and started, as pure functions build it; test_slurm_run.py runs one."""

import shlex
import socket
import threading
from pathlib import Path

import pytest
import yaml

from speedproof.cluster import nodes
from speedproof.cluster.launch import NODES_VARIABLE, launch_on_nodes, needs_launch, node_command
from speedproof.cluster.nodes import STORE_PORT, Node, read_node
from speedproof.cluster.slurm import request_resources
from speedproof.cluster.torchrun import torchrun_command
from speedproof.config.job_resources import JobResources
from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import Capabilities
from speedproof.run.nsys_runs import traced_command
from speedproof.util.errors import TrainingError
from speedproof_spleen.config import check_config

ROOT = Path(__file__).parents[2]
NSYS = Capabilities("nsys", "2025.3.1", frozenset({"--sample", "--cpuctxsw", "--force-overwrite"}))


def variant_on(nodes, gpus):
    values = yaml.safe_load((ROOT / "config.yaml").read_text())
    values["variants"]["wide"] = {"extends": "fast", "nodes": nodes, "gpus": gpus}
    return check_config(values).completed_variants["wide"]


def test_each_of_four_nodes_enters_the_container_and_starts_eight_processes_under_nsys():
    variant = variant_on(4, 8)
    experiment = node_command(4, 64, ["apptainer", "exec", "/shared/speedproof.sif"], ["experiment", "--name=experiment-1"])
    node = torchrun_command(variant, Node(3, 4, "10.0.0.1"), run=2)[1:]
    traced = traced_command(Path("/my runs/02"), NSYS, Profiling(), variant.ranks)
    print(shlex.join(experiment), shlex.join([*node, *traced]), sep="\n")
    assert shlex.join(experiment) == (
        "srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1"
        " apptainer exec /shared/speedproof.sif python3 -P -m speedproof experiment --name=experiment-1"
    )
    assert shlex.join([*node, *traced]) == (
        f"-P -m torch.distributed.run --nnodes=4 --node-rank=3 --master-addr=10.0.0.1 --master-port={STORE_PORT + 3}"
        " --nproc-per-node=8 --log-dir=/dev/null --no-python"
        " nsys profile --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx"
        " '--output=/my runs/02/rank%q{RANK}/report'"
    )


def test_the_job_asks_for_a_task_and_all_gpus_a_node():
    asked = request_resources(JobResources(gpus=8, gpu_model="a100", cores=64), exclusive=True, nodes=4)
    assert asked == {
        "cpus_per_task": 64,
        "mem_mb": 4096,
        "runtime": 30,
        "nodes": 4,
        "tasks": 4,
        "tasks_per_gpu": 0,
        "mpi": "srun",
        "gres": "gpu:a100:8",
        "slurm_extra": "--exclusive",
    }


def test_runs_in_a_row_meet_at_different_ports():
    variant = variant_on(2, 1)
    ports = {torchrun_command(variant, Node(0, 2), run)[7] for run in range(50)}
    assert len(ports) == 50
    assert f"--master-port={STORE_PORT}" not in ports


def test_an_experiment_on_several_nodes_is_started_once():
    assert not needs_launch(1, {})
    assert needs_launch(2, {})
    assert not needs_launch(2, {NODES_VARIABLE: "2"})


def test_without_slurm_it_says_how_to_start(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(TrainingError, match=r"on 2 nodes.*--profile slurm"):
        launch_on_nodes(2, 4, None, ["experiment"])


def test_a_task_knows_which_node_it_has():
    environ = {"SLURM_STEP_NUM_NODES": "4", "SLURM_NODEID": "3", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}
    assert read_node(environ, 4) == Node(3, 4, "10.0.0.1")
    assert not read_node(environ, 4).leads
    assert read_node({}, 1).leads
    with pytest.raises(TrainingError, match="on 2 nodes, but this job step has 4"):
        read_node(environ, 2)


@pytest.fixture
def three_nodes(monkeypatch):
    """Return the first of three nodes, which leads, and the two others, all on this machine."""
    with socket.socket() as free:
        free.bind(("", 0))
        monkeypatch.setattr(nodes, "STORE_PORT", free.getsockname()[1])
    first, *others = (Node(number, 3) for number in range(3))
    yield first, others
    first._board.shutdown()
    first._board.server_close()


def test_a_run_has_ended_when_all_nodes_have_said_so(three_nodes):
    first, others = three_nodes
    first.announce(4)
    for node in others:
        node.await_start(4)
    others[0].report_end(4)
    waiting = threading.Thread(target=first.await_ends, args=(4, 2))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    others[1].report_end(4)
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_node_whose_run_does_not_end_is_an_error(three_nodes, monkeypatch):
    monkeypatch.setattr(nodes, "_END_PATIENCE_S", 0.2)
    first, others = three_nodes
    for run in (1, 2):
        first.announce(run)
    for node in others:
        node.await_start(1)
        node.report_end(1)
    first.await_ends(1, 2)
    others[0].await_start(2)
    others[0].report_end(2)
    with pytest.raises(TrainingError, match=r"^run 2 has not ended on 1 of 3 nodes 0 s after it did on the first node"):
        first.await_ends(2, 2)
