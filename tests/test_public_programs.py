"""The trial on public programs: its entries, the folders that it writes, and how its outside timing reads runs."""

import math
import os
import re
import subprocess

import pytest

from benchmarks.public_programs.catalogue import Program, choose_programs, read_programs
from benchmarks.public_programs.lay_out import find_clone, lay_out, run_git
from benchmarks.public_programs.make_data import MAKERS, english_text
from benchmarks.public_programs.time_outside import estimate_ratio, list_order, parse_time, summarize_run, time_run
from tests.workflow.checkout import ROOT

ENTRY = {"name": "tiny", "title": "A tiny program", "repository": "someone/tiny", "checked": True, "unit": "step"}
ENTRY |= {"a": "python train.py", "b": "python train.py --fast", "question": "Is it faster?", "task": "Train it.\n"}


def make_program(commit="0" * 40, **keys):
    return Program(**ENTRY | {"commit": commit} | keys)


def read_git(folder, *words):
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clones(tmp_path):
    """Return a folder with a clone whose second commit changes the program."""
    clone = tmp_path / "clones/someone+tiny"
    (clone / "docs").mkdir(parents=True)
    (clone / "docs/page.txt").write_text("a page")
    run_git(clone, "init", "-q")
    for text in ("first", "second"):
        (clone / "train.py").write_text(f"# {text}\n")
        run_git(clone, "add", "--all")
        run_git(clone, "commit", "-q", "-m", text)
    return clone.parent


def test_a_program_is_laid_out_at_its_commit_with_its_data_in_a_new_repository(clones, tmp_path):
    clone = find_clone(clones, "someone/tiny")
    first = read_git(clone, "rev-parse", "HEAD~1").strip()
    data = [{"kind": "text", "path": "data/text.txt", "size": 40}]
    lay_out(make_program(first, files=["train.py"], data=data), clone, tmp_path / "tiny")
    assert read_git(tmp_path / "tiny", "ls-files").split() == ["TASK.txt", "data/text.txt", "train.py"]
    assert read_git(tmp_path / "tiny", "log", "--format=%an") == "Trial\n"
    assert read_git(tmp_path / "tiny", "status", "--porcelain") == ""
    assert (tmp_path / "tiny/train.py").read_text() == "# first\n"
    assert (tmp_path / "tiny/data/text.txt").read_text() == english_text(40)
    title = f"A tiny program (github.com/someone/tiny at {first[:12]}, unmodified)"
    assert (tmp_path / "tiny/TASK.txt").read_text() == f"{title}\n\nTrain it.\n\nQuestion: Is it faster?\n"


def test_a_commit_that_a_clone_lacks_is_named_in_one_line(clones, tmp_path):
    with pytest.raises(SystemExit, match=r"someone\+tiny: git archive failed: .*0000") as raised:
        lay_out(make_program(), find_clone(clones, "someone/tiny"), tmp_path / "tiny")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "tiny").exists()


def test_an_existing_folder_is_left_alone(clones, tmp_path):
    with pytest.raises(SystemExit, match="exists; remove it"):
        lay_out(make_program(), find_clone(clones, "someone/tiny"), tmp_path)


@pytest.mark.parametrize("name", ["someone+tiny.git", "someone/tiny", "tiny", "tiny.git", "someone+tiny/repo"])
def test_a_bare_repository_is_found_by_its_name(tmp_path, name):
    (tmp_path / name).mkdir(parents=True)
    assert find_clone(tmp_path, "someone/tiny") is None
    run_git(tmp_path / name, "init", "-q", "--bare")
    assert find_clone(tmp_path, "someone/tiny") == tmp_path / name


def test_each_entry_can_be_laid_out_and_timed():
    for program in read_programs().values():
        assert all(entry["kind"] in MAKERS and entry["path"] for entry in program.data), program.name
        assert not (program.printed and program.lines), program.name
        assert not program.printed or re.compile(program.printed).groups == 1, program.name
        assert program.endless_s is None or program.printed or program.lines, program.name


def test_an_unknown_program_is_refused():
    with pytest.raises(SystemExit, match=r"^darknett: not in programs.yaml; choose from nanogpt, "):
        choose_programs(["darknet", "darknett"])


def test_the_page_names_each_program():
    page = (ROOT / "docs/programs.md").read_text(encoding="utf-8")
    assert [program.name for program in read_programs().values() if f"`{program.name}`" not in page] == []


def test_commands_run_in_balanced_order():
    assert list_order(3) == "abbaab"


def test_the_interval_is_that_of_log_ratios_of_pairs():
    # Logs 0, ln 2 and ln 4: mean and standard deviation are ln 2; t(0.975, 2) = 4.302653; half = 4.302653 ln 2 / √3.
    ratio = estimate_ratio([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    assert ratio == pytest.approx((2.0, 0.357465, 11.18989), rel=1e-4)


def test_of_one_pair_there_is_no_interval():
    assert estimate_ratio([3.0], [1.5]) == (pytest.approx(2.0), 0.0, math.inf)


@pytest.mark.parametrize(
    ("text", "rate", "seconds"),
    [("12.5ms", False, 0.0125), (" 3 us", False, 3e-6), ("0.5 sec", False, 0.5), ("1.2e-3", False, 0.0012), ("4", True, 0.25)],
)
def test_a_printed_time_is_read_in_seconds(text, rate, seconds):
    assert parse_time(text, rate) == pytest.approx(seconds)


def test_of_five_printed_times_the_first_is_left_out():
    program = make_program(printed=r"took (\S+)")
    assert summarize_run(program, ["9s", "1s", "2s", "4s"], [], 20.0).seconds == 3.0
    assert summarize_run(program, ["9s", "1s", "2s", "4s", "5s"], [], 20.0).seconds == 3.0
    assert summarize_run(program, ["9s", "1s", "2s", "4s", "5s"], [], 20.0).source == "median of 4 printed times"


def test_gaps_between_lines_or_the_process_are_timed_otherwise():
    assert summarize_run(make_program(lines="epoch"), ["epoch"] * 3, [10.0, 11.0, 14.0], 20.0).seconds == 2.0
    assert summarize_run(make_program(), [], [], 20.0).seconds == 20.0
    with pytest.raises(SystemExit, match="tiny: too few lines match 'epoch'"):
        summarize_run(make_program(lines="epoch"), ["epoch"], [10.0], 20.0)


def test_a_run_is_read_on_a_terminal_to_its_last_line(tmp_path):
    program = make_program(printed=r"took (\S+)")
    command = r"test -t 1 && printf 'took 1s\n\033[1mtook 2s\rtook 6s'"
    assert time_run(program, command, tmp_path, 9, dict(os.environ)) == (2.0, "median of 3 printed times")
    with pytest.raises(SystemExit, match=r"^echo took 1s; exit 3: exit status 3$"):
        time_run(program, "echo took 1s; exit 3", tmp_path, 9, dict(os.environ))


def test_a_program_without_an_end_is_stopped_after_enough_times(tmp_path):
    program = make_program(printed=r"took (\S+)", endless_s=60)
    command = "while :; do echo took 2s; sleep 0.01; done"
    assert time_run(program, command, tmp_path, 3, dict(os.environ)) == (2.0, "median of 3 printed times")
