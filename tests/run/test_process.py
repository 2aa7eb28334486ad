"""Child processes of an experiment, with real ones: how each ends, and what is said of it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from speedproof.config.model import Variant
from speedproof.results.files import write_json
from speedproof.results.trace_results import Ending
from speedproof.run.process import run_process
from speedproof.run.program_variables import passed_variables
from speedproof.util.errors import TrainingError
from tests.run.test_resume import CONDITIONS, run_under

PYTHON = [sys.executable, "-m"]


def test_a_child_that_ends_well_leaves_its_output_in_the_log(tmp_path):
    run_process([*PYTHON, "platform"], tmp_path)
    assert "Linux" in (tmp_path / "log.txt").read_text()


def test_a_child_that_fails_is_quoted(tmp_path):
    with pytest.raises(TrainingError, match="exit status") as caught:
        run_process([*PYTHON, "json.tool", str(tmp_path / "missing.json")], tmp_path)
    assert "missing.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_killed_child_suggests_memory(tmp_path):
    with pytest.raises(TrainingError, match="memory"):
        run_process([*PYTHON, "timeit", "-n1", "-r1", "import os; os.kill(os.getpid(), 9)"], tmp_path)


FAILING = [*PYTHON, "timeit", "-n1", "-r1", "raise SystemExit(1)"]


def end_rank(folder, rank, ended_s, outcome="failed", reason="lost a partner"):
    write_json(folder / f"rank{rank}" / "ending.json", Ending(rank=rank, outcome=outcome, reason=reason, ended_s=ended_s))


def test_of_several_ranks_the_first_that_failed_is_quoted(tmp_path):
    end_rank(tmp_path, 0, 20.0)
    end_rank(tmp_path, 1, 10.0, "out_of_memory", "no memory is left")
    end_rank(tmp_path, 2, 5.0, "completed", "")
    with pytest.raises(TrainingError, match=r"rank 1: out of memory: no memory is left; see .*rank1/log\.txt"):
        run_process(FAILING, tmp_path)


def test_a_rank_that_says_nothing_was_probably_killed(tmp_path):
    run = run_under(CONDITIONS).model_copy(update={"outcome": "failed", "reason": "lost a partner", "ranks": 2})
    write_json(tmp_path / "run.json", run)
    end_rank(tmp_path, 0, 20.0)
    (tmp_path / "rank1").mkdir()
    with pytest.raises(TrainingError, match="rank 1 ended without a message, probably killed"):
        run_process(FAILING, tmp_path)


def test_a_profiler_stands_in_front(tmp_path):
    run_process([*PYTHON, "platform"], tmp_path, wrap=["env", "SHOWN=1"])
    assert "Linux" in (tmp_path / "log.txt").read_text()


def test_a_childs_clock_starts_where_it_is_launched(tmp_path):
    before = time.monotonic()
    told = "from time import monotonic; first = monotonic(); import sys; from unittest.mock import MagicMock;"
    told += "sys.modules['torch'] = MagicMock(); from speedproof_spleen.training import conditions as c;"  # it takes seconds
    told += "print(monotonic() - c.seconds_since_process_start(), first)"
    run_process([*PYTHON, "timeit", "-n1", "-r1", told], tmp_path)
    launched, first = map(float, (tmp_path / "log.txt").read_text().splitlines()[0].split())
    assert before - 0.001 <= launched <= first


def test_a_secret_of_the_environment_does_not_reach_the_child(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "very secret")
    run_process([*PYTHON, "timeit", "-n1", "-r1", "import os; print(dict(os.environ))"], tmp_path)
    assert "very secret" not in (tmp_path / "log.txt").read_text()


def test_what_a_profiled_run_writes_is_not_for_everybody_to_change(tmp_path):
    """nsys starts programs without a file mode mask."""
    as_nsys_does = ["sh", "-c", 'umask 0; exec "$@"', "sh"]
    write = f"from speedproof.util import environment as e; e.take_umask(); open('{tmp_path}/written', 'w').close()"
    before = os.umask(0o027)
    try:
        run_process([*PYTHON, "timeit", "-n1", "-r1", write], tmp_path, as_nsys_does)
    finally:
        os.umask(before)
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("inherited", [None, "", f"{os.pathsep}/nowhere"])
def test_a_module_in_the_working_folder_is_not_run(tmp_path, monkeypatch, inherited):
    monkeypatch.chdir(tmp_path)
    for name in ("math", "platform", "re", "subprocess"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/planted', 'w')")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if inherited is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", inherited)
    run_process([*PYTHON, "platform"], tmp_path)
    assert "Linux" in (tmp_path / "log.txt").read_text()
    assert not (tmp_path / "planted").exists()


def test_a_stop_signal_reaches_the_child_first(tmp_path):
    """The child writes a word when it is told to stop; only then does the experiment's process end, with one line."""
    on_stop = "signal.signal(signal.SIGTERM, lambda *_: (print('told'), sys.exit(1)))"
    child = f"import signal, sys, time; {on_stop}; print('ready'); time.sleep(60)"
    parent = (
        "import sys; from pathlib import Path; from speedproof.run.process import run_process, stoppable\n"
        "from speedproof.util.errors import SpeedproofError\n"
        "try:\n"
        f"  with stoppable(): run_process([sys.executable, '-m', 'timeit', '-n1', '-r1', {child!r}], Path(sys.argv[1]))\n"
        "except SpeedproofError as error: sys.exit(str(error))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(tmp_path)], stderr=subprocess.PIPE, text=True, env=environment
    )
    log = tmp_path / "log.txt"
    deadline = time.monotonic() + 60
    while "ready" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, "the child did not begin"
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert "told" in log.read_text()
    assert process.returncode == 1
    assert "SIGTERM" in said
    assert "Traceback" not in said


def test_a_variant_names_what_else_its_program_sees():
    variant = Variant(title="One", pass_environment=["WANDB_MODE", "NOT_SET"])
    assert passed_variables(variant, {"WANDB_MODE": "offline", "OTHER": "1"}, timed=True) == {"WANDB_MODE": "offline"}
