"""How processes of one training tell each other where they listen: what TensorFlow wants to know before it starts.

Of Python's standard library. Each knows its rank, how many there are, and where the first one is, as torchrun says it.
"""

import json
import socket
import time
from collections.abc import Mapping
from typing import Any

WAIT_S = 300.0


class WorkersError(Exception):
    """Processes that did not find each other."""


def describe_cluster(environ: Mapping[str, str], wait_s: float = WAIT_S) -> dict[str, Any]:
    """Return TensorFlow's `TF_CONFIG`: where each worker listens, and which this one is.

    The first worker collects the addresses at the port behind `MASTER_PORT`. Raises a :class:`WorkersError` where a variable is
    missing or one does not come.
    """
    if "TF_CONFIG" in environ:
        own: dict[str, Any] = json.loads(environ["TF_CONFIG"])
        return own
    try:
        rank, ranks, port = (int(environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        address = environ["MASTER_ADDR"]
    except (KeyError, ValueError) as error:
        raise WorkersError(
            f"{error}: is not a number or not set; each worker needs torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
        ) from None
    with socket.socket() as listening:  # held until all have reported their address, so that no other process takes it
        listening.bind(("", 0))
        listens = listening.getsockname()[1]
        try:
            workers = (
                _collect(ranks, address, port + 1, listens, wait_s)
                if rank == 0
                else _tell(rank, address, port + 1, listens, wait_s)
            )
        except OSError as error:
            raise WorkersError(f"worker {rank} of {ranks}: {address}:{port + 1}: {error.strerror or error}") from None
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}


def _collect(ranks: int, address: str, port: int, listens: int, wait_s: float) -> list[str]:
    """Wait for all others, and answer each with the whole list."""
    workers = {0: f"{address}:{listens}"}
    others = []
    with socket.create_server((address, port)) as server:
        server.settimeout(wait_s)
        while len(workers) < ranks:
            other, _ = server.accept()
            other.settimeout(wait_s)
            told = json.loads(other.makefile().readline())
            workers[told["rank"]] = told["listens"]
            others.append(other)
    complete = [workers[rank] for rank in range(ranks)]
    for other in others:
        with other:
            other.sendall((json.dumps(complete) + "\n").encode())
    return complete


def _tell(rank: int, address: str, port: int, listens: int, wait_s: float) -> list[str]:
    """Tell the first worker where this one listens, and return what it answers."""
    with _connect(address, port, wait_s) as first:
        own = first.getsockname()[0]  # by which others can reach this machine
        first.sendall((json.dumps({"rank": rank, "listens": f"{own}:{listens}"}) + "\n").encode())
        answer: list[str] = json.loads(first.makefile().readline())
    return answer


def _connect(address: str, port: int, wait_s: float) -> socket.socket:
    """Return a connection to a worker that may not listen yet."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return socket.create_connection((address, port), timeout=wait_s)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
