"""A block on several nodes: the same program on each, of which the first leads and tells the others what to start.

The leader plans, keeps and converts as on one node. Before each run that needs several nodes it tells the others, through a
store of torch's on the first node; then all start their processes of it. What fails on one node breaks the run on the
leader, too, which says why; until then the others wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from torch.distributed import TCPStore

from speedproof.errors import TrainingError

STORE_PORT = 29400
# Runs on one node come in between, and may take days.
_PATIENCE = timedelta(days=30)


@dataclass(frozen=True)
class Node:
    """One of the nodes that a block is on."""

    number: int = 0
    count: int = 1
    head: str = "localhost"  # name or address of the first one

    @property
    def leads(self) -> bool:
        """Return whether this node plans, keeps and converts."""
        return self.number == 0

    def announce(self, run: int) -> None:
        """Tell the other nodes that a run of the plan, by its number, is to be started."""
        self._store.set(str(run), "start")

    def await_start(self, run: int) -> None:
        """Wait until the first node announces a run."""
        self._store.wait([str(run)], _PATIENCE)

    @cached_property
    def _store(self) -> TCPStore:
        return TCPStore(self.head, STORE_PORT, is_master=self.leads, timeout=_PATIENCE, wait_for_workers=False)


ALONE = Node()


def read_node(environ: Mapping[str, str], nodes: int) -> Node:
    """Return which of a block's nodes this is, as srun tells it.

    Raises:
        TrainingError: the block is on another number of nodes than its variants need.
    """
    if nodes == 1:
        return ALONE
    found = int(environ.get("SLURM_STEP_NUM_NODES", "1"))
    if found != nodes:
        raise TrainingError(f"a variant trains on {nodes} nodes, but this job step has {found}; ask Slurm for {nodes}")
    return Node(int(environ["SLURM_NODEID"]), nodes, environ["SLURM_LAUNCH_NODE_IPADDR"])
