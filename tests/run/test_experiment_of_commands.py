"""An experiment of commands that know nothing of us: what it costs beyond them, and how it ends when it is stopped."""

import json
import os
import threading
import time

import pytest

from speedproof.config.load import check_config
from speedproof.results.dataset import Dataset
from speedproof.results.files import write_json
from speedproof.results.run_record import read_run
from speedproof.run.conditions import describe_conditions
from speedproof.run.process import stoppable
from speedproof.run.run_experiment import Job, run_experiment
from speedproof.util.errors import TrainingError

DATA = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".", cases=[])


def run_commands(tmp_path, command):
    folder, measured = tmp_path / "mine", {"variants": ["one"], "rounds": 2, "profiled": 0, "device": "cpu"}
    folder.mkdir()
    variant = {"title": "One", "command": command, "reads": {"source": "process"}}
    (folder / "workload.yaml").write_text(json.dumps({"title": "Mine", "variants": {"one": variant}}))
    config = check_config({"case": str(folder), "measurement": measured})
    write_json(tmp_path / "config.json", config)
    write_json(tmp_path / "dataset.json", DATA)
    job = Job(config, [tmp_path / "config.json"], tmp_path / "dataset.json", "experiment-1", tmp_path / "experiment-1")
    with stoppable():
        return run_experiment(job, describe_conditions("cpu", 1, DATA))


def test_no_process_of_ours_but_its_guardian_stands_between_an_experiment_and_a_command(tmp_path):
    """The start of a Python with all that a run needs took most of what a run cost beyond its program."""
    script = tmp_path / "above.sh"
    script.write_text(f"cut -d' ' -f4 /proc/$PPID/stat >>{tmp_path}/above\n")
    experiment = run_commands(tmp_path, f"sh {script}")
    assert (tmp_path / "above").read_text().split() == [str(os.getpid())] * 2
    assert len(experiment.runs) == 2


def test_an_experiment_that_is_stopped_ends_its_command_and_leaves_the_runs_record(tmp_path):
    script = tmp_path / "waits.sh"
    script.write_text(f"touch {tmp_path}/begun; sleep 60\n")

    def stop_when_begun():
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), 15)

    stopper = threading.Thread(target=stop_when_begun)
    stopper.start()
    with pytest.raises(TrainingError, match="stopped by SIGTERM; run again to resume: completed runs are kept"):
        run_commands(tmp_path, f"sh {script}")
    stopper.join()
    run = read_run(tmp_path / "experiment-1/runs/01-one-timed")
    assert (run.outcome, run.reason) == ("stopped", "received SIGTERM")


def test_a_command_that_fails_is_named_with_its_last_line_and_its_log(tmp_path):
    with pytest.raises(TrainingError, match=r"01-one-timed: failed: exit status 3: no module of that name; see .*log\.txt"):
        run_commands(tmp_path, "sh -c 'echo began; echo no module of that name >&2; exit 3'")
