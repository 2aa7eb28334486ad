"""Processes that train together leave nothing behind."""

import os
import subprocess
import sys

import torch

from speedproof_accelerate.ranks import joined_group

PROGRAM = """
import os
from pathlib import Path

import torch
from speedproof_accelerate.ranks import joined_group

def list_threads():
    return [name for task in Path("/proc/self/task").iterdir() if "gloo" in (name := (task / "comm").read_text())]

def train():
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    network.itself = [network]
    network(torch.ones(2, 3)).sum().backward()

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
with joined_group(torch.device("cpu")):
    train()
    assert list_threads()
assert not list_threads(), list_threads()
"""


def test_no_thread_outlives_a_group():
    """Not even of a network in a circle: such a thread, still at work when the interpreter ends, aborts the process."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)


def test_each_process_of_a_node_has_a_compiler_cache_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **_: None)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    folders = []
    for index in (0, 1):
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
        with joined_group(torch.device("cuda", index)):
            folders.append(os.environ["TRITON_CACHE_DIR"])
    assert folders == [str(tmp_path / "rank0"), str(tmp_path / "rank1")]
