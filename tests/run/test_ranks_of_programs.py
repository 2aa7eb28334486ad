"""A program on two GPUs: our process of each rank runs it, rank 0's is the run, and a rank that fails is named."""

import json
import os
import sys
import threading

import pytest

from speedproof.config.load import check_config
from speedproof.config.workload import find_workload
from speedproof.results.dataset import Dataset
from speedproof.results.files import write_json
from speedproof.results.run_record import read_epochs, read_run
from speedproof.results.trace_results import ENDING_FILE, Ending
from speedproof.run.conditions import describe_conditions
from speedproof.run.process import _explain_end
from speedproof.run.program import ProgramRun, Request, follow_program, own_rank, run_program
from speedproof.util.errors import TrainingError
from tests.workflow.checkout import ROOT

MARK = f'mark() {{ {sys.executable} {ROOT}/src/speedproof/marks.py "$@"; }}\n'
TRAIN = MARK + "mark epoch-begins; mark samples 4; mark quality 0.$((RANK + 1)); mark epoch-ends; echo rank $RANK\n"
NO_DATA = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".", cases=[])


@pytest.fixture
def run_rank(tmp_path, capfd):
    """Run a script as one rank's process does, in this one."""

    def run(script, rank):
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "train.sh").write_text(script)
        variant = {"title": "Two", "command": "sh {workload}/train.sh", "gpus": 2}
        (folder / "workload.yaml").write_text(json.dumps({"title": "Mine", "variants": {"two": variant}}))
        measured = {"variants": ["two"], "rounds": 1, "profiled": 0, "epochs": 1, "device": "cpu"}
        config = check_config({"case": str(folder), "measurement": measured})
        environ, data = {**os.environ, "RANK": str(rank)}, tmp_path / "data"
        request, out = Request("two", "timed", 0, 7, "none"), tmp_path / "01-two-timed"
        workload = find_workload(str(folder))
        assert own_rank(config.completed_variants["two"], environ) == rank
        asked = ProgramRun(config, workload, request, out, data, environ)
        if rank:
            follow_program(asked, rank)
            return None
        return run_program(asked, describe_conditions("cpu", 2, NO_DATA), sys.stdout.fileno())[0]

    run.folder = tmp_path / "01-two-timed"
    return run


def test_what_rank_0_marks_is_the_runs(run_rank):
    assert run_rank(TRAIN, rank=1) is None
    assert (run_rank.folder / "rank1/log.txt").read_text() == "rank 1\n"
    run = run_rank(TRAIN, rank=0)
    assert (run.ranks, run.outcome, run.best_quality) == (2, "completed", 0.1)
    assert run.techniques["gpus"] == 2  # by which it is another variant than one on one GPU
    assert read_run(run_rank.folder).ranks == 2
    assert len(read_epochs(run_rank.folder)) == 1


def test_a_run_is_not_whole_before_its_other_ranks_have_ended(run_rank):
    ending = Ending(rank=1, outcome="failed", reason="exit status 3", ended_s=1.0)
    (run_rank.folder / "rank1").mkdir(parents=True)
    failed_later = threading.Timer(0.5, write_json, [run_rank.folder / "rank1" / ENDING_FILE, ending])
    failed_later.start()
    run = run_rank(MARK + "mark epoch-begins; mark epoch-ends", rank=0)
    failed_later.join()
    assert (run.outcome, run.reason) == ("failed", "rank 1: exit status 3 (rank1/log.txt)")


def test_the_first_rank_that_failed_is_why(run_rank):
    with pytest.raises(TrainingError, match="exit status 3"):
        run_rank("echo no memory; exit 3", rank=1)
    run_rank("exit 1", rank=0)  # it lost its partner
    assert "01-two-timed: failed: rank 1: exit status 3 (rank1/log.txt); see" in _explain_end(run_rank.folder, 1)
