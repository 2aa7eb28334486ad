"""Child processes, real ones: nothing of them outlives the program that was started, nor the process that started it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from speedproof.util.child_processes import WORKFLOW_VARIABLE, Life, run_child
from speedproof.util.guardian import list_processes

# Starts itself again so often, each in a session of its own, as torchrun and profilers do; each leaves its number.
TREE = """
import os, signal, subprocess, sys, time
left, folder = int(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(1)))
if left:
    subprocess.Popen([sys.executable, '-S', '-c', sys.argv[3], str(left - 1), *sys.argv[2:]], start_new_session=True)
open(f'{folder}/{left}.part', 'w').write(str(os.getpid())); os.rename(f'{folder}/{left}.part', f'{folder}/{left}')
time.sleep(120)
"""
PARENT = """
import os, sys
from speedproof.util.child_processes import ending_with_workflow, run_child
from speedproof.util.child_processes import StoppedError, raising_when_stopped
try:
    with raising_when_stopped(), ending_with_workflow():
        run_child(sys.argv[1:], 1, os.environ)
except StoppedError as name:
    print('stopped by', name, flush=True)
"""
# As the workflow is: between it and what it starts stands a shell, which does not die with it.
WORKFLOW = """
import os, subprocess, sys
environment = {**os.environ, sys.argv[1]: str(os.getpid())}
subprocess.run(['sh', '-c', '"$@"; true', 'sh', *sys.argv[2:]], env=environment)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def tree(folder, depth=2):
    return [sys.executable, "-S", "-c", TREE, str(depth), str(folder), TREE]


def await_tree(folder, depth=2):
    """Return the processes of a tree, the outermost first, once all have begun."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob("[0-9]"))) <= depth:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [psutil.Process(int((folder / str(left)).read_text())) for left in range(depth, -1, -1)]


@contextlib.contextmanager
def started(command):
    """Yield a process and end what is left of it, whatever the test found."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    for process in alive:
        process.kill()
    assert not alive


def test_what_a_killed_process_started_dies_with_it(tmp_path):
    with started([sys.executable, "-c", PARENT, *tree(tmp_path)]) as parent:
        processes = await_tree(tmp_path)
        parent.kill()
        check_gone(processes)


def test_what_a_killed_program_started_dies_with_it(tmp_path):
    """As where nsys, which stands between an experiment and a training, is killed."""
    with started([sys.executable, "-c", PARENT, *tree(tmp_path)]) as parent:
        processes = await_tree(tmp_path)
        processes[0].kill()
        assert parent.wait(20) == 0
        assert not [process for process in processes if process.is_running()]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_is_passed_on_before_it_ends_the_process(tmp_path, sent):
    with started([sys.executable, "-c", PARENT, *tree(tmp_path, 0)]) as parent:
        processes = await_tree(tmp_path, 0)
        parent.send_signal(sent)
        said, _ = parent.communicate(timeout=20)
        assert said.splitlines() == ["told", f"stopped by {sent.name}"]
        check_gone(processes)


def test_under_nohup_a_terminal_may_close(tmp_path):
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{PARENT}"
    with started([sys.executable, "-c", ignoring, *tree(tmp_path, 0)]) as parent:
        (program,) = await_tree(tmp_path, 0)
        parent.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGHUP)
        program.terminate()
        said, _ = parent.communicate(timeout=20)
        assert said == "told\n"


def test_a_killed_workflow_ends_what_it_started_though_a_shell_stands_between(tmp_path):
    command = [sys.executable, "-c", PARENT, *tree(tmp_path, 0)]
    with started([sys.executable, "-c", WORKFLOW, WORKFLOW_VARIABLE, *command]) as workflow:
        processes = await_tree(tmp_path, 0)
        workflow.kill()
        said, _ = workflow.communicate(timeout=20)
        assert said.splitlines() == ["told", "stopped by SIGTERM"]
        check_gone(processes)


@pytest.mark.parametrize(
    ("code", "status"), [("exit 3", 3), ("kill -SEGV $$", -11), ("kill -KILL $$", -9), ("no-such-program", 127)]
)
def test_a_program_ends_as_it_would_alone(tmp_path, code, status):
    with (tmp_path / "log").open("wb") as log:
        assert run_child(["sh", "-c", code], log.fileno(), os.environ) == status


def test_a_program_that_is_not_there_is_named(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        assert run_child(["no-such-program"], log.fileno(), os.environ) == 127
    assert (tmp_path / "log").read_text() == "no-such-program: No such file or directory\n"


def test_a_program_is_told_when_it_was_launched(tmp_path):
    before = time.monotonic()
    with (tmp_path / "log").open("wb") as log:
        run_child(
            [sys.executable, "-S", "-c", "import os; print(os.environ['LAUNCHED'])"], log.fileno(), os.environ, "LAUNCHED"
        )
    assert before <= float((tmp_path / "log").read_text()) <= time.monotonic()


def test_processes_are_found_by_ps_where_the_system_has_no_folder_of_them(tmp_path):
    found = list_processes(tmp_path)
    assert found[os.getpid()] == os.getppid()
    assert found.keys() & list_processes().keys()


def test_windows_is_refused_in_one_line():
    code = "import sys; sys.platform = 'win32'; import speedproof.cli"
    ended = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "speedproof: Windows is not supported; run it in WSL 2, or on Linux\n"


def test_a_programs_begin_and_end_are_its_own_and_not_its_guardians():
    """To start an interpreter takes 20 ms on an idle machine, and 200 on a busy one: of `sleep 0.1` that would be a third."""
    lives: list[Life] = []
    before_s = time.monotonic()
    told = "import os, sys, time; sys.stdout.write(repr(float(os.environ['BEGAN'])))"
    with tempfile.TemporaryFile() as output:
        assert run_child([sys.executable, "-S", "-c", told], output.fileno(), os.environ, "BEGAN", lives=lives) == 0
        output.seek(0)
        (life,) = lives
        # The guardian sets the variable as the last thing before it starts the program.
        assert before_s < float(output.read()) <= life.began_s < life.ended_s < time.monotonic()
        assert life.left == 0


def read_command(process):
    try:
        return Path("/proc", str(process), "cmdline").read_bytes()
    except OSError:  # it has ended since it was listed
        return b""


def test_what_a_program_leaves_running_is_counted_and_ended_and_takes_none_of_its_time():
    lives: list[Life] = []
    with tempfile.TemporaryFile() as output:
        script = "sleep 61.75 & setsid sleep 61.75 & sleep 0.02 & exit 3"
        assert run_child(["sh", "-c", script], output.fileno(), os.environ, lives=lives) == 3
    assert lives[0].left == 2  # the third ends by itself, soon enough
    assert 0.01 < lives[0].gone_s - lives[0].ended_s < 0.1
    assert lives[0].ended_s - lives[0].began_s < 30
    assert b"sleep\x0061.75\x00" not in map(read_command, list_processes())


def test_a_program_has_the_systems_timer_slack_whatever_an_earlier_one_did_to_its_parents():
    own = Path("/proc/self/timerslack_ns").read_text()
    Path("/proc/self/timerslack_ns").write_text("5000000")
    try:
        with tempfile.TemporaryFile() as output:
            run_child(["cat", "/proc/self/timerslack_ns"], output.fileno(), os.environ)
            output.seek(0)
            assert output.read() == b"50000\n"
    finally:
        Path("/proc/self/timerslack_ns").write_text(own)


def test_what_left_processes_had_used_is_known():
    """One computes for 0.2 s and sleeps, and its parent leaves it then."""
    work = "import sys, time\nwhile time.process_time() < 0.2: pass\nopen(sys.argv[1], 'w')\ntime.sleep(61)"
    lives: list[Life] = []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as folder:
        script = f'"$@" {folder}/done & while ! test -e {folder}/done; do sleep 0.02; done'
        run_child(["sh", "-c", script, "sh", sys.executable, "-S", "-c", work], output.fileno(), os.environ, lives=lives)
    assert lives[0].left == 1
    assert 0.18 <= lives[0].left_cpu_s < 0.5  # counted in hundredths of a second, for user and system each


def test_of_a_program_that_is_killed_with_its_guardian_there_are_no_moments():
    lives: list[Life] = []
    with pytest.raises(subprocess.TimeoutExpired), tempfile.TemporaryFile() as output:
        run_child(["sleep", "60"], output.fileno(), os.environ, limit_s=0.2, lives=lives)
    assert lives == []


def test_what_all_processes_of_a_program_used_is_added_up(tmp_path):
    """A grandchild that its parent waits for and one that outlives its parent each read 3 MiB and compute for 0.1 s."""
    (tmp_path / "data").write_bytes(bytes(3 * 2**20))
    (tmp_path / "work.py").write_text(
        "import sys, time\nopen('data', 'rb').read()\nend = time.process_time() + 0.1\n"
        "while time.process_time() < end: pass\nopen(sys.argv[1], 'w')\n"
    )
    work = f"{sys.executable} -S work.py"
    script = f"cd {tmp_path}; sh -c '{work} one'; (sh -c '{work} two' &); while ! test -e two; do sleep 0.02; done"
    lives: list[Life] = []
    with (tmp_path / "output").open("wb") as output:
        assert run_child(["sh", "-c", script], output.fileno(), os.environ, lives=lives) == 0
    assert 0.2 <= lives[0].cpu_s < 2
    if lives[0].read_bytes is not None:  # a kernel may count none
        assert 6 * 2**20 <= lives[0].read_bytes < 16 * 2**20
        assert lives[0].storage_bytes <= lives[0].read_bytes + 16 * 2**20
