"""A block on several nodes: its command started once a node by srun, in the container, which has no srun itself.

The block's own job runs outside of the container, on the first node, with the light packages of a login node.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from speedproof.cluster.apptainer import find_apptainer
from speedproof.util.environment import python_command
from speedproof.util.errors import TrainingError

# Set for the tasks that srun starts: how many nodes the block is on. Slurm tells each task which of them it has.
NODES_VARIABLE = "SPEEDPROOF_NODES"


def needs_launch(nodes: int, environ: Mapping[str, str]) -> bool:
    """Return whether a block on so many nodes is still to be started on them."""
    return nodes > 1 and NODES_VARIABLE not in environ


def node_command(nodes: int, cores: int, container: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `speedproof ARGUMENTS…` on each node, behind the words of `container`."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cores}",
        "--kill-on-bad-exit=1",  # a node that failed must not leave the others waiting for it
        *container,
        *python_command("-m", "speedproof", *arguments, python="python3"),
    ]


def launch_on_nodes(nodes: int, cores: int, container: Path | None, arguments: Sequence[str]) -> None:
    """Run `speedproof ARGUMENTS…` on all nodes of this Slurm job, in the image `container` where there is one.

    Raises:
        TrainingError: this is no Slurm job, or the command failed on a node.
    """
    if "SLURM_JOB_ID" not in os.environ:
        raise TrainingError(f"a variant trains on {nodes} nodes, which needs Slurm: start it with `snakemake --profile slurm`")
    words = [find_apptainer(), "exec", str(container.absolute())] if container else []
    command = node_command(nodes, cores, words, arguments)
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, env={**os.environ, NODES_VARIABLE: str(nodes)})
    if ended.returncode != 0:
        raise TrainingError(f"the block ended with {ended.returncode} on one of its {nodes} nodes; its log says why")
