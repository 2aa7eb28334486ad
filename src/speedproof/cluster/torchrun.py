"""How a run of several processes is started: torchrun in front of the run's command, and what it needs of the environment."""

import os
from collections.abc import Mapping

from speedproof.cluster.nodes import STORE_PORT, Node
from speedproof.config.model import Variant
from speedproof.util.environment import python_command

# Else torchrun leaves an empty folder in the temporary folder, each time.
_NO_LOGS = f"--log-dir={os.devnull}"
# torchrun sets each process' rank in this variable; nsys expands it in paths.
RANK_IN_PATHS = "%q{RANK}"
# Runs on several nodes take turns with the ports after the experiment's own, so that none meets what is left of the one before.
_PORTS = 100


def torchrun_command(variant: Variant, node: Node, run: int) -> list[str]:
    """Return the words in front of a program that start this node's processes of a variant; none for one process.

    The program may be a profiler, which then runs once a rank. `run` is its number in the plan.
    """
    if variant.ranks == 1:
        return []
    alone = ["--standalone", "--local-addr=localhost"]  # some containers cannot resolve their own name
    joined = [
        f"--nnodes={variant.nodes}",
        f"--node-rank={node.number}",
        f"--master-addr={node.head}",
        f"--master-port={STORE_PORT + 1 + run % _PORTS}",
    ]
    place = alone if variant.nodes == 1 else joined
    return [*python_command("-m", "torch.distributed.run"), *place, f"--nproc-per-node={variant.gpus}", _NO_LOGS, "--no-python"]


def rank_variables(variant: Variant, cores: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a run of several processes sees besides `environ`: they share a node's cores (torchrun: one thread each)."""
    if variant.ranks == 1:
        return {}
    return {"OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(max(1, cores // variant.gpus))}
