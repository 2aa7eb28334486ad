"""When the reports of a program reach us: by lines, marks and files, and where they tell nothing."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

from speedproof import marks
from speedproof.config.reading import Reading
from speedproof.results.run_record import read_epochs, read_run
from speedproof.run.arrivals import find_start_up, find_time_after, judge_arrivals, list_observed
from speedproof.run.epoch_reports import MarkedEpoch, Marks
from speedproof.run.marks_pipe import timing_marks
from speedproof.run.printed_output import Line
from speedproof.run.printed_times import PrintedTime
from speedproof.run.read_lines import read_lines
from speedproof.run.watched_file import watching_file
from speedproof.util.errors import RecordError, TrainingError
from tests.run.test_shell import run_once

LINES = {"source": "lines", "epoch_s": r"took (\S+)"}
# An older marks.py, as programs copied it: it opens the file anew for each mark.
OLD_MARKS = """
import json, os, time
def mark(what, **more):
    with open(os.path.join(os.environ["SPEEDPROOF_RUN"], "marks.jsonl"), "a") as file:
        file.write(json.dumps({"mark": what, "at_s": time.monotonic(), **more}) + "\\n")
"""


def observe(tmp_path, program, reads=None, **variant):
    """Run a Python program of two epochs, and return what was observed of it, and its epochs."""
    (tmp_path / "program.py").write_text(program)
    command = variant.pop("command", f"{sys.executable} {tmp_path}/program.py")
    run_once(tmp_path, "", command=command, reads=reads or {"source": "marks"}, **variant)
    run = read_run(tmp_path / "01-one-timed")
    return run.observed, read_epochs(tmp_path / "01-one-timed")


def printed(*lines):
    return [Line(text, at_s, read) for read, (at_s, text) in enumerate(lines, 1)]


def judge(lines, **reading):
    found = read_lines(lines, Reading(source="lines", **reading))
    return judge_arrivals(found), found


def test_epochs_last_from_line_to_line_by_our_clock():
    arrivals, found = judge(printed((1.5, "took 0.5"), (2.25, "took 0.5"), (3.0, "took 0.5")), epoch_s=r"took (\S+)")
    assert (arrivals, list_observed(found)) == ("seen", [None, 0.75, 0.75])
    assert find_start_up(found, 0.25) == 0.75  # at 1.5 s an epoch of 0.5 s had ended
    assert find_time_after(found, 3.5) == 0.5


@pytest.mark.parametrize(
    ("lines", "arrivals"),
    [
        ([(1.0, "took 0.5"), (1.0, "took 0.5")], "together"),  # of one read
        ([(1.0, "took 0.5"), (1.001, "took 0.5"), (1.002, "took 0.5")], "together"),  # 1 s is reported, 2 ms passed
        ([(1.0, "took 0.5"), (1.49, "took 0.5")], "seen"),  # 10 ms: the first was noticed late
        ([(1.0, "took 1"), (1.6, "took 1")], "seen"),  # of printed seconds half a unit may be missing, or all of it
        ([(1.0, "took 0.5")], "none"),
    ],
)
def test_lines_that_come_together_tell_no_times(lines, arrivals):
    assert judge(printed(*lines), epoch_s=r"took (\S+)")[0] == arrivals


def test_marks_are_stamped_when_they_arrive_and_become_a_file(tmp_path):
    program = "import time\nfrom speedproof import marks\nfor _ in marks.epochs(9): time.sleep(0.1)\ntime.sleep(0.1)\n"
    seen, epochs = observe(tmp_path, program)
    assert seen.arrivals == "seen" and epochs["observed_s"].tolist() == pytest.approx([0.1, 0.1], abs=0.08)
    assert 0.05 < seen.after_s < 1 and seen.start_up_s > 0.01
    left = tmp_path / "01-one-timed" / marks.MARKS_FILE
    assert stat.S_ISREG(left.lstat().st_mode) and left.read_text().count("epoch-ends") == 2


def test_the_moments_that_marks_say_are_not_believed(tmp_path):
    program = (
        f"{OLD_MARKS}\nat = time.monotonic()\ntime.monotonic = lambda: at\nfor _ in range(2):\n"
        "    mark('epoch-begins'); time.sleep(0.1); at += 0.01; mark('epoch-ends')\n"
    )
    seen, epochs = observe(tmp_path, program)
    assert (seen.arrivals, epochs["train_s"].tolist()) == ("seen", pytest.approx([0.01, 0.01]))
    assert epochs["observed_s"].min() > 0.09


def test_children_may_mark_by_an_older_copy(tmp_path):
    program = (
        f"{OLD_MARKS}\nfor _ in range(2):\n    mark('epoch-begins')\n    if os.fork() == 0:\n"
        "        time.sleep(0.05); mark('quality', value=0.5); os._exit(0)\n    os.wait(); mark('epoch-ends')\n"
    )
    seen, epochs = observe(tmp_path, program)
    assert (seen.arrivals, epochs["quality"].tolist()) == ("seen", [0.5, 0.5])


def test_a_marks_file_of_the_programs_own_is_read_and_not_observed(tmp_path):
    program = (
        "import json, os\nat = os.path.join(os.environ['SPEEDPROOF_RUN'], 'marks.jsonl')\n"
        "lines = [json.dumps({'mark': f'epoch-{what}', 'at_s': n}) for n, what in enumerate(['begins', 'ends'] * 2)]\n"
        "open(at + '.new', 'w').write('\\n'.join(lines) + '\\n'); os.replace(at + '.new', at)\n"
    )
    seen, epochs = observe(tmp_path, program)
    assert (seen.arrivals, epochs["train_s"].tolist(), "observed_s" in epochs) == ("replaced", [1.0, 1.0], False)


def test_a_program_that_opens_its_marks_to_read_ends_at_once_instead_of_waiting(tmp_path):
    with timing_marks(tmp_path / "marks.jsonl"):
        mode = stat.S_IMODE((tmp_path / "marks.jsonl").lstat().st_mode)
        subprocess.run(["sh", "-c", "echo one >> marks.jsonl"], cwd=tmp_path, check=True)
        if os.geteuid():  # what root opens no mode forbids
            assert not os.access(tmp_path / "marks.jsonl", os.R_OK)
    assert (mode, (tmp_path / "marks.jsonl").read_text()) == (0o200, "one\n")
    assert stat.S_IMODE((tmp_path / "marks.jsonl").stat().st_mode) & 0o400


def test_a_run_that_fails_leaves_no_pipe(tmp_path):
    with pytest.raises(TrainingError, match="exit status 3"):
        observe(tmp_path, f"{OLD_MARKS}\nmark('epoch-begins'); raise SystemExit(3)\n")
    assert stat.S_ISREG((tmp_path / "01-one-timed" / marks.MARKS_FILE).lstat().st_mode)


def test_without_marks_there_is_no_file(tmp_path):
    with timing_marks(tmp_path / "marks.jsonl") as found:
        assert stat.S_ISFIFO((tmp_path / "marks.jsonl").lstat().st_mode)
    assert (list(tmp_path.iterdir()), found.moments_s, found.replaced) == ([], [], False)


def test_where_no_pipe_can_be_made_marks_go_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "mkfifo", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with timing_marks(tmp_path / "marks.jsonl") as found:
        (tmp_path / "marks.jsonl").write_text("{}\n")
    assert ((tmp_path / "marks.jsonl").read_text(), found.moments_s) == ("{}\n", [])


def test_a_program_that_writes_faster_than_is_read_loses_no_mark(tmp_path):
    writes = "import os\nfor n in range(20000):\n    file = os.open('marks.jsonl', os.O_WRONLY | os.O_APPEND)\n"
    with timing_marks(tmp_path / "marks.jsonl") as found:
        program = f"{writes}    os.write(file, b'%06d %s\\n' % (n, b'x' * 50)); os.close(file)\n"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    lines = (tmp_path / "marks.jsonl").read_text().splitlines()
    assert [int(line[:6]) for line in lines] == list(range(20000)) and len(found.moments_s) == 20000


def test_printed_lines_are_seen_by_a_terminal_and_not_behind_a_pipe(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    program = "import time\nfor n in range(2):\n    time.sleep(0.1); print('took 0.1')\n"
    seen, epochs = observe(tmp_path, program, LINES)
    assert seen.arrivals == "seen" and epochs["observed_s"].isna().tolist() == [True, False]
    shutil.rmtree(tmp_path / "mine")
    shutil.rmtree(tmp_path / "01-one-timed")
    held, _ = observe(tmp_path, program, LINES, command=f"sh -c '{sys.executable} {tmp_path}/program.py | cat'")
    assert held.arrivals == "together"


def test_work_after_the_last_line_is_seen_in_threads_and_children(tmp_path):
    program = (
        "import os, threading, time\nfor n in range(2): time.sleep(0.05); print('took 0.05')\n"
        "threading.Thread(target=time.sleep, args=(0.3,)).start()\n"
    )
    seen, _ = observe(tmp_path, program, LINES)
    assert 0.25 < seen.after_s < 1.5
    shutil.rmtree(tmp_path / "mine")
    shutil.rmtree(tmp_path / "01-one-timed")
    child = program.replace("threading.Thread(target=time.sleep, args=(0.3,)).start()", "if os.fork() == 0: time.sleep(0.06)")
    seen, _ = observe(tmp_path, child, LINES)
    assert (seen.left_processes, seen.after_s > 0.04) == (0, True)


@pytest.mark.timed
def test_rows_that_are_appended_to_a_file_are_seen(tmp_path):
    program = (
        "import time\nopen('log.csv', 'w').write('epoch,took\\n')\nfor n in range(2):\n    time.sleep(0.1)\n"
        "    with open('log.csv', 'a') as file: file.write(f'{n},0.1\\n')\n"
    )
    seen, epochs = observe(tmp_path, program, {"source": "file", "file": "*.csv", "epoch_s": "took"})
    assert (seen.arrivals, epochs["observed_s"].iloc[1]) == ("seen", pytest.approx(0.1, abs=0.08))


def test_a_file_that_is_written_at_the_end_is_not(tmp_path):
    program = "import time\ntime.sleep(0.1)\nopen('log.csv', 'w').write('took\\n0.05\\n0.05\\n')\n"
    seen, epochs = observe(tmp_path, program, {"source": "file", "file": "log.csv", "epoch_s": "took"})
    assert (seen.arrivals, epochs["train_s"].tolist()) == ("file", [0.05, 0.05])


def leave(folder, name="log.csv", rows=2):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("took\n" + "0.3\n" * rows)
    return folder


def test_what_an_earlier_run_left_is_not_read(tmp_path):
    tree, linked = leave(tmp_path / "tree"), leave(tmp_path / "linked")
    for name, file in (("copied", "log.csv"), ("linked", "logs/log.csv")):
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(TrainingError, match="is unchanged from an earlier run; have the program write it in every run"):
            observe(
                tmp_path / name, "", {"source": "file", "file": file, "epoch_s": "took"}, tree=str(tree),
                linked={"logs": str(linked)},
            )  # fmt: skip


def test_rows_that_a_run_appends_to_an_earlier_ones_are_its_own(tmp_path):
    place = leave(tmp_path / "place")
    with watching_file(place, "log.csv") as watch, (place / "log.csv").open("a") as file:
        file.write("0.1\n0.1\n")
    path = watch.find_written()
    assert watch.count_earlier(path) == len("took\n0.3\n0.3\n")
    os.utime(place / "log.csv", (1, 1))
    with watching_file(place, "log.csv") as watch:  # written anew, and as it was: all is this run's
        (place / "log.csv").write_text((place / "log.csv").read_text())
    assert watch.count_earlier(watch.find_written()) == 0
    with watching_file(place, "log.csv") as watch, pytest.raises(RecordError, match="is unchanged from an earlier run"):
        watch.find_written()


def test_rates_stand_for_one_sample_each(tmp_path):
    program = "import time\nfor n in range(2): time.sleep(0.05); print('512 tok/s')\n"
    seen, epochs = observe(tmp_path, program, {"source": "lines", "rate": r"(\S+) tok/s"})
    assert (seen.arrivals, seen.rates, epochs["samples_per_s"].tolist()) == ("seen", True, [512, 512])
    # 511.5 to 512.5 a second.
    assert read_run(tmp_path / "01-one-timed").resolution_s == pytest.approx(0.5 / 512**2)


def await_true(asked):
    deadline = time.monotonic() + 20
    while not asked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert asked()


def test_a_killed_program_leaves_its_marks(tmp_path):
    with timing_marks(tmp_path / "marks.jsonl") as found:
        program = "import time\nopen('marks.jsonl', 'a').write('one\\n')\ntime.sleep(60)\n"
        child = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
        await_true(lambda: found.moments_s)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert (tmp_path / "marks.jsonl").read_text() == "one\n"


def test_a_killed_experiment_leaves_no_pipe(tmp_path):
    program = (
        "import os\nfrom pathlib import Path\nfrom speedproof.run.marks_pipe import timing_marks\n"
        "from speedproof.util.child_processes import run_child\npipe = Path('marks.jsonl').absolute()\n"
        "with timing_marks(pipe): run_child(['sh', '-c', 'touch begun; sleep 60'], 1, os.environ, pipe=pipe)\n"
    )
    experiment = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    await_true(lambda: (tmp_path / "begun").exists())
    assert stat.S_ISFIFO((tmp_path / "marks.jsonl").lstat().st_mode)
    experiment.kill()
    experiment.wait()
    await_true(lambda: not (tmp_path / "marks.jsonl").exists())


def test_digits_allow_for_rounding_up():
    times = [PrintedTime(1.0, 1.0, "s", 0.5, named=True)] * 3
    epochs = [MarkedEpoch(n - 0.1, None, n, reported_s=1.0, end_seen_s=n) for n in (1.0, 1.1, 1.2)]
    assert judge_arrivals(Marks(epochs, times=times)) == "seen"
    assert judge_arrivals(Marks(epochs, times=[])) == "together"
