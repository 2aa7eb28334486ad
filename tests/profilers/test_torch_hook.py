"""torch's profiler started in programs that know nothing of it."""

import os
import subprocess
import sys

import pytest

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

    def run_text(text, *options, further=""):
        (tmp_path / "program.py").write_text(text)
        with providing_marks(traced_by_torch=True) as place:
            path = os.pathsep.join([str(place), *([further] if further else [])])
            environment = {**os.environ, TRACES_VARIABLE: str(place), "PYTHONPATH": path}
            command = [sys.executable, *options, tmp_path / "program.py"]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            convert_largest(place, tmp_path / "trace")
        return ended.stdout, tmp_path / "trace"

    return run_text


def test_its_optimizers_steps_are_found(run):
    said, trace = run(TRAIN.format(steps=12))
    summary = analyze_trace(trace)
    assert said == "trained\n"
    assert (summary.profiler, summary.found.name) == ("kineto", "Optimizer.step#SGD.step")
    assert len(summary.epochs) + summary.found.left_out == 12


def test_a_long_training_is_recorded_for_two_hundred_steps(run):
    summary = analyze_trace(run(TRAIN.format(steps=230))[1])
    assert len(summary.epochs) + summary.found.left_out == 200


def test_what_a_machine_does_at_each_start_of_python_is_done(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("print('customized')")
    assert run(TRAIN.format(steps=2), further=str(tmp_path / "own"))[0] == "customized\ntrained\n"


PROFILES_ITSELF = "import torch\nwith torch.profiler.profile():\n    torch.ones(3).sum()\n"


@pytest.mark.parametrize(
    ("text", "options"), [("print('no torch')", ()), (PROFILES_ITSELF, ()), (TRAIN.format(steps=2), ("-I",))]
)
def test_a_program_that_leaves_no_trace_is_named(run, text, options):
    with pytest.raises(ProfilingError, match="imports no torch, profiles itself, or ends by"):
        run(text, *options)
