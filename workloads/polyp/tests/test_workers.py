"""Workers of TensorFlow find each other by what torchrun says to each."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from speedproof_polyp.workers import WorkersError, describe_cluster


def free_port():
    """Return a port behind which another is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1] - 1


def test_each_learns_where_all_listen_and_which_it_is():
    environ = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda rank: describe_cluster({**environ, "RANK": str(rank)}, 20), (2, 0, 1)))
    workers = found[0]["cluster"]["worker"]
    assert all(one["cluster"]["worker"] == workers for one in found)
    assert [one["task"] for one in found] == [{"type": "worker", "index": rank} for rank in (2, 0, 1)]
    assert len(set(workers)) == 3
    assert all(worker.startswith("127.0.0.1:") for worker in workers)


def test_a_cluster_that_is_described_is_taken():
    assert describe_cluster({"TF_CONFIG": '{"task": {"index": 1}}'}) == {"task": {"index": 1}}


def test_what_is_missing_is_named():
    with pytest.raises(WorkersError, match=r"'RANK'.*torchrun's"):
        describe_cluster({})
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with pytest.raises(WorkersError, match="worker 0 of 2"):
        describe_cluster(environ, 0.1)
    with pytest.raises(WorkersError, match="worker 1 of 2"):
        describe_cluster({**environ, "RANK": "1"}, 0.1)
