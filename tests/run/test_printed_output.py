"""What a program prints: searched after it ended, in bounded memory, and passed on as it comes."""

import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
import tracemalloc
from pathlib import Path

import pytest

from speedproof.config.reading import Reading
from speedproof.run import printed_output
from speedproof.run.printed_output import LONGEST_LINE, LineClock, PrintedOutput, relaying
from speedproof.util.errors import RecordError

TIMES = Reading(source="lines", epoch_s=r"took (\S+) s", quality=r"acc: (\S+)")


def search(folder, *reads, reading=TIMES):
    kept = PrintedOutput(folder)
    for at_s, output in enumerate(reads):
        kept.keep(output, float(at_s))
    return kept.search(reading, float(len(reads)))


def test_only_lines_that_a_pattern_matches_are_kept_with_when_they_came(tmp_path):
    found = search(tmp_path, b"starting\nepoch to", b"ok 3 s\nloss 2\nacc: .5\n", b"bye, took 9 s")
    assert [(line.text, line.at_s) for line in found.lines] == [("epoch took 3 s", 1), ("acc: .5", 1), ("bye, took 9 s", 3)]
    assert list(tmp_path.iterdir()) == []


def test_a_line_without_an_end_takes_bounded_memory_and_is_read_to_its_limit(tmp_path):
    reads = [b"took 1 s " + b"x" * 4096, *[b"x" * 4096] * 1024, b" took 2 s\ntook 3 s\n"]  # 4 MiB, then a short line
    tracemalloc.start()
    found = search(tmp_path, *reads)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line.text[:8] for line in found.lines] == ["took 1 s", "took 3 s"]
    assert (len(found.lines[0].text), found.cut) == (LONGEST_LINE, 1)
    assert most < 3 * 2**20


def test_a_pattern_that_matches_millions_of_lines_is_refused(monkeypatch):
    monkeypatch.setattr("speedproof.run.printed_output._MOST_MEMORY", 1000)
    clock = LineClock(["."])
    with pytest.raises(RecordError, match="matches more than 4 of the printed lines; have it match one line per epoch"):
        clock.take(b"x\n" * 5, 0.0)  # 201 bytes each


def test_a_pattern_that_would_take_years_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("speedproof.run.printed_output._LEAST_LIMIT_S", 0.2)
    with pytest.raises(RecordError, match="took more than 0 s; simplify the pattern, or anchor it with"):
        search(tmp_path, b"a" * 60 + b"!\n", reading=Reading(source="process", quality=r"^(a+)+$"))


def test_outside_of_the_main_thread_lines_are_searched_without_a_limit(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.extend(search(tmp_path, b"took 1 s\n").lines))
    thread.start()
    thread.join()
    assert [line.text for line in found] == ["took 1 s"]


def test_output_that_finds_no_room_is_named(tmp_path, monkeypatch):
    full = Path("/dev/full").open("r+b", 0)  # noqa: SIM115 (closed by what reads it)
    monkeypatch.setattr("speedproof.run.printed_output.tempfile.TemporaryFile", lambda **_: full)
    with pytest.raises(RecordError, match=r"could not be kept \(No space left on device\); free disk space"):
        search(tmp_path, b"took 1 s\n")


@pytest.mark.parametrize("terminal", [True, False])
def test_all_that_a_program_prints_reaches_its_log(tmp_path, terminal):
    program = "import sys; print(sys.stdout.isatty()); print('x' * 300000); print('err', file=sys.stderr)"
    with (tmp_path / "log").open("wb") as log, relaying(log.fileno(), terminal, tmp_path) as relay:
        subprocess.run([sys.executable, "-c", program], stdout=relay.output, stderr=relay.output, check=True)
    written = (tmp_path / "log").read_text()
    # Where the two streams meet, nobody says: a pipe takes them in blocks.
    assert sorted(written) == sorted(f"{terminal}\n{'x' * 300000}\nerr\n")
    assert (relay.printed is not None) == terminal


@pytest.fixture
def size():
    """Return what finds the size of the caller's terminal, for each test anew."""
    printed_output._find_size.cache_clear()
    yield
    printed_output._find_size.cache_clear()


def _ask_size(folder):
    with (folder / "log").open("wb") as log, relaying(log.fileno(), True, folder) as relay:
        return struct.unpack("HHHH", fcntl.ioctl(relay.output, termios.TIOCGWINSZ, b"\0" * 8))[:2]


def test_the_terminal_has_the_callers_size_or_a_usual_one(tmp_path, monkeypatch, size):
    monkeypatch.setattr("os.get_terminal_size", lambda stream: os.terminal_size((0, 0)))
    assert _ask_size(tmp_path) == (24, 120)
    printed_output._find_size.cache_clear()
    monkeypatch.setattr("os.get_terminal_size", lambda stream: os.terminal_size((203, 51)))
    assert _ask_size(tmp_path) == (51, 203)
