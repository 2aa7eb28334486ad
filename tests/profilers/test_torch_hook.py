"""torch's profiler started in programs that know nothing of it."""

import os
import subprocess
import sys

import pytest
from pyarrow.parquet import read_table

from speedproof.profilers.kineto import convert_largest
from speedproof.profilers.torch_hook import TRACES_VARIABLE
from speedproof.run.working_folder import providing_marks
from speedproof.trace.summarize import analyze_trace
from speedproof.util.errors import ProfilingError

pytest.importorskip("torch")
TRAIN = """
import torch
network = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(network.parameters(), 0.01)
for _ in range({steps}):
    network(torch.ones(4, 8)).sum().backward()
    optimizer.step()
print("trained")
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program's text with the hook, and returns what it printed and the folder of its trace."""

    def run_text(text, *options, further="", limits=None):
        (tmp_path / "program.py").write_text(text)
        with providing_marks(traced_by_torch=True) as place:
            if limits is not None:
                hook = place / "sitecustomize.py"
                own, line = hook.read_text(), "RECORDED_BYTES, MANY_EVENTS = 64 * 2**20, 30_000\n"
                assert line in own
                hook.write_text(own.replace(line, f"RECORDED_BYTES, MANY_EVENTS = {limits}\n"))
            path = os.pathsep.join([str(place), *([further] if further else [])])
            environment = {**os.environ, TRACES_VARIABLE: str(place), "PYTHONPATH": path}
            command = [sys.executable, *options, tmp_path / "program.py"]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            assert ended.returncode == 0, ended.stderr
            convert_largest(place, tmp_path / "trace")
        return ended.stdout, tmp_path / "trace"

    return run_text


# Data of its own, more than may be recorded.
GROWS = (
    "import torch, time\ndata = []\nfor _ in range(4):\n    data.append(bytearray(b'x') * 30_000_000)\n    time.sleep(0.2)\n"
)


def test_a_long_training_is_recorded_for_two_hundred_steps_and_its_own_data_end_no_recording(run):
    summary = analyze_trace(run(GROWS + TRAIN.format(steps=230), limits="8 * 2**20, 30_000")[1])
    assert len(summary.epochs) + summary.found.left_out == 200


BY_A_THREAD = """
import threading
def do():
    {what}
thread = threading.Thread(target=do)
thread.start()
thread.join()
"""


def test_a_thread_of_the_program_may_import_torch_and_train(run):
    """At its end the program was killed by a segmentation fault. What other threads do later is recorded, too."""
    by_a_thread = BY_A_THREAD.format(what=TRAIN.format(steps=3).replace("\n", "\n    "))
    said, trace = run(by_a_thread + TRAIN.format(steps=12))
    summary = analyze_trace(trace)
    assert said == "trained\ntrained\n"
    assert len(summary.epochs) + summary.found.left_out == 12
    names = read_table(trace / "ranges.parquet", columns=["name"])["name"].to_pylist()
    assert names.count("Optimizer.step#SGD.step") == 3 + 12


FORKS = (
    TRAIN.format(steps=12)
    + """
import ctypes, os, sys
sys.stdout.flush()
child = os.fork()
if child == 0:
    torch.ones(3).sum()
    ctypes.CDLL(None).printf(b"buffered by C\\n")
    print("child")
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
)


def test_its_optimizers_steps_are_found_and_whatever_a_program_does_else_is_done(run, tmp_path):
    """What a machine does at each start of Python; and a forked process ends as any other, which waited for ever for the
    profiler's threads.
    """
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("print('customized')")
    said, trace = run(FORKS, further=str(tmp_path / "own"))
    assert sorted(said.splitlines()) == ["3", "buffered by C", "child", "customized", "trained"]
    summary = analyze_trace(trace)
    assert (summary.profiler, summary.found.name) == ("kineto", "Optimizer.step#SGD.step")
    assert len(summary.epochs) + summary.found.left_out == 12


NO_OPTIMIZER = """
import torch
ones = torch.ones(3)
for _ in range(60_000):
    ones.sum()
print("done")
"""


@pytest.mark.dear
def test_a_program_without_an_optimizer_is_recorded_until_that_takes_much_memory(run):
    said, trace = run(NO_OPTIMIZER, limits="2**20, 6_000")
    assert said == "done\n"
    assert 1_000 < read_table(trace / "operators.parquet").num_rows < 50_000  # of 60,000 sums, of several operators each


PROFILES_ITSELF = "import torch\nwith torch.profiler.profile():\n    torch.ones(3).sum()\n"


@pytest.mark.parametrize(("text", "options"), [("print('no torch')", ()), (PROFILES_ITSELF, ()), ("import torch", ("-I",))])
def test_a_program_that_leaves_no_trace_is_named(run, text, options):
    with pytest.raises(ProfilingError, match="imports no torch, profiles itself, or ends by"):
        run(text, *options)
