"""How a command ends where the system refuses something: one line that says what, and a status that means something."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.report.conftest import make_results as make
from tests.report.example import Example

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "records/2026-11-22-h200-quick-start"
VERDICT = ["results", "show", f"--from={RECORD}"]


def speedproof(*arguments, **options):
    command = [sys.executable, "-m", "speedproof", *map(str, arguments)]
    return subprocess.run(command, capture_output="stdout" not in options, cwd=ROOT, **options)


def make_results(folder):
    return make(folder, Example(experiments=1, rounds=1, gpu=False, modes=("timed",)))


def check_one_line(ended, status, *said):
    text = ended.stderr if isinstance(ended.stderr, str) else ended.stderr.decode()
    assert (ended.returncode, len(text.splitlines())) == (status, 1), text
    assert all(part in text for part in ("speedproof: ", *said)), text


UNWRITABLE = {
    "a folder": ("{tmp}", "is a folder, where a file belongs"),
    "below a file": ("{tmp}/file/below.yaml", "a file stands where a folder belongs"),
    "a device": ("/dev/full", "is a device or a pipe, where a file belongs"),
    "a pipe": ("{tmp}/pipe", "is a device or a pipe, where a file belongs"),
    "no such place": ("/proc/nowhere/schema.yaml", "/proc/nowhere"),
    "a long name": ("{tmp}/" + "n" * 300, "too long"),
}


@pytest.mark.parametrize("where", UNWRITABLE)
def test_what_cannot_be_written_is_one_line(tmp_path, where, speedproof_here):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    place, said = UNWRITABLE[where]
    check_one_line(speedproof_here("schema", "--out", place.format(tmp=tmp_path)), 8, said)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "pipe"}


@pytest.mark.parametrize("log", ["{tmp}", "{tmp}/file/below.log", "{tmp}/pipe", "/proc/nowhere/log"])
def test_a_log_that_cannot_be_written_is_one_line(tmp_path, log, speedproof_here):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    check_one_line(speedproof_here("results", "report", "--from", tmp_path, "--log", log.format(tmp=tmp_path)), 8)


def test_a_full_disk_under_a_log_costs_the_log_only(tmp_path, speedproof_here):
    ended = speedproof_here("results", "report", "--from", make_results(tmp_path), "--log", "/dev/full")
    assert "/dev/full: the disk is full" in ended.stderr and "going on without this log" in ended.stderr
    assert ended.returncode == 0 and (tmp_path / "report.md").exists()


def test_a_full_disk_is_called_one():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = speedproof(*VERDICT, stdout=full, stderr=subprocess.PIPE)
    check_one_line(ended, 3, "the disk is full")


def test_an_output_that_nobody_reads_any_more_is_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    ended = speedproof(*VERDICT, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (3, b"")  # 1 is a verdict


def test_closed_streams_change_no_status():
    command = [sys.executable, "-m", "speedproof", "schema"]
    assert subprocess.run(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *command], cwd=ROOT).returncode == 0


def test_a_locale_without_our_signs_is_no_traceback():
    ended = speedproof(*VERDICT, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "23.6×" in ended.stdout.decode()


@pytest.mark.parametrize("umask", [0o077, 0o027])
def test_what_is_written_has_the_rights_that_the_umask_gives(tmp_path, umask, speedproof_here):
    before = os.umask(umask)
    try:
        speedproof_here("schema", "--out", tmp_path / "schema.yaml")
    finally:
        os.umask(before)
    assert (tmp_path / "schema.yaml").stat().st_mode & 0o777 == 0o666 & ~umask


def test_escape_codes_in_a_name_reach_no_error_line(speedproof_here):
    check_one_line(speedproof_here("results", "show", "--from", "no\x1b[2J\u202ewhere\n"), 3, r"no\x1b[2J\u202ewhere\x0a")


@pytest.mark.parametrize("words", [["--out="], ["--out", ""]])
def test_a_value_of_nothing_is_no_folder(words, speedproof_here):
    """As of a variable that is not set: what `--out=` names would be the working folder."""
    check_one_line(speedproof_here("schema", *words), 2, "--out: empty value")


def test_a_word_of_thousands_of_characters_is_not_said_back_whole(speedproof_here):
    ended = speedproof_here("results", "list", "--from", "a" * 5000)
    check_one_line(ended, 8, "aaa…aaa", "the name is too long")
    assert len(ended.stderr) < 500


def test_an_interrupted_command_ends_in_one_line():
    program = (
        "import sys, time; sys.argv = ['speedproof', 'results', 'show', '--from', '.']\n"
        "import speedproof.results.folder as results\n"
        "results.read_current_comparison = lambda _: (print('here', flush=True), time.sleep(60))\n"
        "from speedproof.cli import main; main()"
    )
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"here\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, b"speedproof: interrupted\n")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "speedproof.run.proof.find"])  # before the command begins, and in it
def test_a_command_that_is_stopped_while_it_starts_ends_in_one_line(stop, module):
    program = (
        "import os, sys\nclass Stops:\n"
        f"    def find_spec(self, name, *_): os.kill(os.getpid(), {stop.value}) if name == {module!r} else None\n"
        f"sys.meta_path.insert(0, Stops())\nsys.argv = ['speedproof', *{VERDICT!r}]\nfrom speedproof.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"speedproof: interrupted\n")


def test_a_forked_process_of_a_command_ends_by_its_signal():
    program = (
        "import os, signal, sys\nimport speedproof.cli.exits as exits\n"
        "def fork(_):\n    if os.fork() == 0: os.kill(os.getpid(), signal.SIGTERM)\n    print(os.wait()[1])\n"
        "exits.run_app = fork\nfrom speedproof.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"15\n", b"")
