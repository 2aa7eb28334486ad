"""The documented profile as a job: which words each of its tasks runs, Slurm and nsys replaced by what prints them."""

import os
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]
STUBS = {
    "scontrol": "echo node1; echo node2",
    "srun": 'for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done',
    "nsys": 'printf "%s|" $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $SPEEDPROOF_EPOCHS "$@"; echo',
}


@pytest.mark.parametrize(
    ("variant", "program"),
    [
        ("multi_worker", "sh|workloads/polyp/tensorflow.sh|-m|speedproof_polyp.keras_train"),
        ("mirrored", "sh|workloads/polyp/tensorflow.sh|-m|speedproof_polyp.keras_train|--replicas|2"),
        ("torch_loader", "python3|-m|speedproof_polyp.torch_train"),
    ],
)
def test_each_task_is_profiled_as_documented(variant, program, tmp_path):
    for name, body in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    data = tmp_path / "my data"
    data.mkdir()
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS": "2", "SLURM_GPUS_ON_NODE": "2"}
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PROFILES": str(tmp_path / "out"), **job}
    done = subprocess.run(
        ["bash", str(FOLDER / "slurm/profile.sbatch"), variant, str(data)],
        env=environ,
        cwd=FOLDER.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{rank}/2|node1:20007|3|profile|--trace=cuda,osrt|--output={tmp_path}/out/polyp.7.{variant}.{rank}|{program}"
        f"|--variant|{variant}|--data|{data}|"
        for rank in (0, 1)
    ]
