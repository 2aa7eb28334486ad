"""An experiment on several nodes: the same program runs on each, and node 0 leads.

The leader plans the runs, stores their results and converts their traces. The other nodes connect to it. Before a run that
needs several nodes, it announces the run; then all of them start their processes. It goes on when each has reported the end of
its own. If processes fail on one node, the run also fails on the leader, whose log names the reason; meanwhile the others wait.
"""

import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TextIO

from speedproof.util.errors import TrainingError

STORE_PORT = 29400
_ASK_AGAIN_S = 1.0  # the first node may start later than the others
# Runs on one node come in between, and may take days.
_PATIENCE_S = 30 * 24 * 3600
# Processes of a run end together, but one may still write its log or its profiler's report.
_END_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Node:
    number: int = 0
    count: int = 1
    head: str = "localhost"  # name or address of the first one

    @property
    def leads(self) -> bool:
        """Return whether this node plans, keeps and converts."""
        return self.number == 0

    def announce(self, run: int) -> None:
        """Tell the other nodes that a run of the plan, by its number, is to be started."""
        self._board.add(run)

    def await_start(self, run: int) -> None:
        """Wait until the first node announces a run.

        Raises:
            TrainingError: the first node ended before, or never began.
        """
        for line in self._announcements:
            if int(line) == run:
                return
        raise TrainingError(f"the first of the experiment's nodes ended before run {run}; its log says why")

    def report_end(self, run: int) -> None:
        """Tell the first node that this one's processes of a run have ended."""
        with suppress(OSError):  # the first node has ended
            self._connection.sendall(f"{run}\n".encode())

    def await_ends(self, run: int, others: int) -> None:
        """Wait until so many other nodes have reported the end of an announced run.

        Raises:
            TrainingError: they do not.
        """
        if (missing := others - self._board.count_ends(run, others)) > 0:
            raise TrainingError(
                f"run {run} has not ended on {missing} of {others + 1} nodes {_END_PATIENCE_S:.0f} s after it did on the first "
                "node; the job's log says why"
            )

    @cached_property
    def _board(self) -> "_Board":
        return _Board(STORE_PORT)

    @cached_property
    def _announcements(self) -> TextIO:
        """Return the lines of the first node's announcements, past ones first."""
        return self._connection.makefile(encoding="ascii")

    @cached_property
    def _connection(self) -> socket.socket:
        given_up = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return socket.create_connection((self.head, STORE_PORT))
            except OSError as error:
                if time.monotonic() > given_up:
                    raise TrainingError(
                        f"the first of the experiment's nodes, {self.head}, does not answer ({error})"
                    ) from None
                time.sleep(_ASK_AGAIN_S)


class _Board(socketserver.ThreadingTCPServer):
    """Sends each node that connects all runs that were announced so far, then each as it is; reads which have ended there."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.runs: list[int] = []
        self.changed = threading.Condition()
        self._ends: Counter[int] = Counter()
        super().__init__(("", port), _Reader)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, run: int) -> None:
        with self.changed:
            self._ends[run] = 0
            self.runs.append(run)
            self.changed.notify_all()

    def note_end(self, run: int) -> None:
        with self.changed:
            self._ends[run] += 1
            self.changed.notify_all()

    def count_ends(self, run: int, awaited: int) -> int:
        """Return on how many nodes a run has ended, once these are as many as `awaited`, or after some time."""
        with self.changed:
            self.changed.wait_for(lambda: self._ends[run] >= awaited, _END_PATIENCE_S)
            return self._ends[run]


class _Reader(socketserver.StreamRequestHandler):
    server: _Board

    def handle(self) -> None:
        threading.Thread(target=self._read_ends, daemon=True).start()
        sent = 0
        while True:
            with self.server.changed:
                while not (new := self.server.runs[sent:]):
                    self.server.changed.wait()
            self.request.sendall("".join(f"{run}\n" for run in new).encode())
            sent += len(new)

    def _read_ends(self) -> None:
        with suppress(OSError, ValueError):  # that node has ended
            for line in self.rfile:
                self.server.note_end(int(line))


ALONE = Node()


def read_node(environ: Mapping[str, str], nodes: int) -> Node:
    """Return which of an experiment's nodes this is, as srun tells it.

    Raises:
        TrainingError: the experiment is on another number of nodes than its variants need.
    """
    if nodes == 1:
        return ALONE
    found = int(environ.get("SLURM_STEP_NUM_NODES", "1"))
    if found != nodes:
        raise TrainingError(f"a variant trains on {nodes} nodes, but this job step has {found}; ask Slurm for {nodes}")
    return Node(int(environ["SLURM_NODEID"]), nodes, environ["SLURM_LAUNCH_NODE_IPADDR"])
