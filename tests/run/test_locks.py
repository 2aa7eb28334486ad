"""Two experiments at once, in one folder or on one device: the second is refused in one line; the first goes on undisturbed."""

import json
import os
import sys
from pathlib import Path

import pytest

from speedproof.cli.application import app
from speedproof.results.dataset import Dataset
from speedproof.results.files import write_json
from speedproof.run import locks
from speedproof.run.locks import LOCKS_VARIABLE, holding_devices, holding_folder, others_measure
from speedproof.util.errors import BusyError, RecordError
from tests.test_children import await_tree, check_gone, started, tree

ROOT = Path(__file__).parents[2]
HOLDER = """
import os, sys
from pathlib import Path
from speedproof.util.child_processes import run_child
from speedproof.results.dataset import Dataset
from speedproof.results.files import write_json
from speedproof.run.locks import holding_devices, holding_folder
with holding_folder(Path(sys.argv[1])), holding_devices('cpu', 1):
    run_child(sys.argv[2:], 1, os.environ)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE_S", 0)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(locks, "list_gpu_uuids", lambda _: ["GPU-1", "GPU-2"])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "experiment-1"


def experiment(folder):
    dataset = folder.parent / "dataset.json"
    write_json(dataset, Dataset(source="own", name="none", version="", licence="", synthetic=True, folder=".", cases=[]))
    measured = {"variants": ["slow", "fast"], "rounds": 1, "device": "cpu"}
    config = folder.parent / "config.json"
    config.write_text(json.dumps({"case": str(ROOT / "tests/run/shell"), "measurement": measured}))
    options = [f"--dataset={dataset}", "--name=experiment-1", f"--out={folder}", f"--log={folder.parent / 'experiment.log'}"]
    app(["experiment", f"--config={config}", *options], standalone_mode=False)


def test_a_second_experiment_in_a_folder_is_refused_and_touches_nothing(folder):
    with holding_folder(folder):
        (folder / "experiment.json").write_text("of the first")
        (folder.parent / "experiment.log").write_text("of the first")
        with pytest.raises(BusyError, match=rf"experiment-1: is in use by process {os.getpid()} on .*; wait") as caught:
            experiment(folder)
    assert "\n" not in str(caught.value)
    assert (folder / "experiment.json").read_text() == (folder.parent / "experiment.log").read_text() == "of the first"


def test_a_second_experiment_on_the_processor_is_refused(folder):
    with holding_devices("cpu", 1), pytest.raises(BusyError, match=rf"core .*process {os.getpid()} of user .*; wait") as caught:
        experiment(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("held", "proposed"), [({0, 1}, "; wait until it ends (prove --wait)"), ({0}, " (taskset -c 1)"), ({1}, " (taskset -c 0)")]
)
def test_only_cores_that_are_free_are_proposed(monkeypatch, held, proposed):
    monkeypatch.setattr(locks, "_PATIENCE_S", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: held)
    with holding_devices("cpu", 1):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        with pytest.raises(BusyError) as refused, holding_devices("cpu", 1):
            pass
    assert str(refused.value).endswith(proposed)


def test_an_interrupted_experiment_is_not_closed_while_it_goes_on(tmp_path):
    (tmp_path / "config.json").write_text((ROOT / "config.yaml").read_text())
    with holding_folder(tmp_path / "experiments/experiment-1"), pytest.raises(BusyError, match="is in use by"):
        app(["results", "close", f"--experiment={tmp_path / 'experiments/experiment-1'}"], standalone_mode=False)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (1, 2)])
def test_each_gpu_is_held_by_itself(two_gpus, first, second):
    refused = pytest.raises(BusyError, match=r"GPU-1: .*CUDA_VISIBLE_DEVICES")
    with holding_devices("cuda", first), refused, holding_devices("cuda", second):
        pass


def test_other_gpus_and_the_processor_are_free(monkeypatch, two_gpus):
    with holding_devices("cuda", 1), holding_devices("cpu", 1):
        monkeypatch.setattr(locks, "list_gpu_uuids", lambda _: ["GPU-2"])
        with holding_devices("cuda", 1):
            pass


def test_an_experiment_on_other_devices_of_the_machine_is_seen(folder, tmp_path):
    assert not others_measure()
    with holding_devices("cpu", 1):
        assert not others_measure()  # but itself
        assert not others_measure({LOCKS_VARIABLE: "elsewhere"})
        with pytest.raises(BusyError), holding_devices("cpu", 1):
            pass
        assert not others_measure()  # who was refused measures nothing
    with started([sys.executable, "-c", HOLDER, str(folder), *tree(tmp_path, 1)]):
        await_tree(tmp_path, 1)
        assert others_measure()


def test_what_a_killed_experiment_held_is_free(folder, tmp_path, monkeypatch):
    with started([sys.executable, "-c", HOLDER, str(folder), *tree(tmp_path, 1)]) as holder:
        processes = await_tree(tmp_path, 1)
        with pytest.raises(BusyError, match=f"is in use by process {holder.pid} on "), holding_folder(folder):
            pass
        with pytest.raises(BusyError, match=f"process {holder.pid} of user"), holding_devices("cpu", 1):
            pass
        monkeypatch.undo()  # it may take a moment to die
        holder.kill()
        with holding_folder(folder), holding_devices("cpu", 1):
            check_gone(processes)


def test_a_link_that_was_planted_as_a_lock_is_not_followed(folder):
    victim = folder.parent / "victim"
    victim.write_text("precious")
    folder.mkdir()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(RecordError, match=r"\.lock: cannot be written"), holding_folder(folder):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("below", ["", "results"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path, below):
    (tmp_path / "train.py").touch()
    wanted = tmp_path / "train.py" / below
    with pytest.raises(RecordError, match=r"train\.py\S*: this path is, or leads through, a file"), holding_folder(wanted):
        pass


def test_where_sockets_have_files_a_users_experiments_share_one_lock(monkeypatch, tmp_path):
    monkeypatch.setattr(locks.sys, "platform", "darwin")
    monkeypatch.setattr(locks.tempfile, "tempdir", str(tmp_path))
    with holding_devices("cpu", 1), pytest.raises(BusyError, match="is in use by process"), holding_devices("cuda", 1):
        pass
