import shlex
from pathlib import Path

import pytest

from speedproof.cluster.launch import Launch, launch_command, node_torchrun_command, plan_launch
from speedproof.profilers.nsys import Capabilities
from speedproof.util.errors import SpeedproofError

NSYS = Capabilities("nsys", "2025.3.1", frozenset({"--sample", "--cpuctxsw", "--force-overwrite"}))
PROGRAM = ["-m", "train", "--epochs=2"]


def plan(nodes, gpus):
    return Launch(
        nodes=nodes,
        gpus_per_node=gpus,
        head="node01",
        job="77",
        image=Path("/shared/speedproof.sif"),
        package=Path("/checkout/workflow"),
        folders=(Path("/work dir"),),
        traces=Path("/work dir/traces"),
    )


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 8), (4, 8)])
def test_one_task_a_node_and_a_process_a_gpu(nodes, gpus):
    command = launch_command(plan(nodes, gpus), "apptainer", NSYS, PROGRAM, ["SLURM_JOB_ID", "PATH"])
    print(shlex.join(command))
    assert shlex.join(command) == (
        f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --gpus-per-node={gpus} --kill-on-bad-exit=1"
        " --export=PATH,SLURM_JOB_ID"
        " apptainer exec --nv --bind=/checkout/workflow '--bind=/work dir' --env=PYTHONPATH=/checkout/workflow"
        " /shared/speedproof.sif"
        " nsys profile --force-overwrite=true --sample=none --cpuctxsw=none --trace=cuda,nvtx"
        " '--output=/work dir/traces/rank%q{SLURM_PROCID}/report'"
        f" torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d --rdzv-endpoint=node01:29400 --rdzv-id=77"
        " -m train --epochs=2"
    )


def test_without_gpus_there_is_one_process_a_node_and_no_driver():
    command = launch_command(plan(2, 0), "apptainer", NSYS, PROGRAM, ["PATH"])
    assert not [word for word in command if word == "--nv" or word.startswith("--gpus")]
    assert "--nproc-per-node=1" in node_torchrun_command(plan(2, 0), PROGRAM)


def test_each_node_leaves_its_own_report():
    assert plan(4, 8).reports() == [Path(f"/work dir/traces/rank{node}/report.nsys-rep") for node in range(4)]


def test_a_launch_fills_the_job_it_runs_in(tmp_path):
    environ = {"SLURM_JOB_ID": "9", "SLURM_JOB_NUM_NODES": "4", "SLURM_GPUS_ON_NODE": "8"}
    launch = plan_launch(environ, Path("a.sif"), tmp_path, head="h")
    assert (launch.nodes, launch.gpus_per_node, launch.job, launch.head) == (4, 8, "9", "h")
    assert (launch.package / "speedproof" / "cluster").is_dir()


def test_outside_of_a_job_it_says_what_to_submit(tmp_path):
    with pytest.raises(SpeedproofError, match="several-nodes"):
        plan_launch({}, Path("a.sif"), tmp_path, None)
