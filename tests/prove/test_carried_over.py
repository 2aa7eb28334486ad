"""What one run leaves to later ones: named with its consequence, and nothing of programs that gain nothing by it."""

import json
import os
import subprocess
import time

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run.outside_watch import OutsideWatch, find_changes
from speedproof.stats.carried_over import list_kinds_of
from tests.support import without_machine

pytestmark = pytest.mark.timed

# Works for the time $1 if $2 is not there, which it leaves then; else it goes on at once.
CACHED = 'if [ -e "$2" ]; then sleep 0.01; else sleep $1; mkdir -p "$(dirname "$2")"; echo done > "$2"; fi\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder, in which a home lies that is its own."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work/cached.sh").write_text(CACHED)
    return tmp_path / "work"


def prove(*words):
    result = CliRunner().invoke(app, ["prove", *words, "--rounds", "4", "--out", "out", "--quiet", "--json"])
    (candidate,) = json.loads(result.stdout)["candidates"]
    return result.exit_code, candidate


def list_kinds(found):
    return [(one["kind"], one["blocks"]) for one in without_machine(found["objections"])]


def test_a_speedup_by_a_file_that_the_warm_up_left_is_inconclusive_and_names_the_file(folder):
    status, found = prove("sleep 0.2", f"sh cached.sh 0.2 {folder.parent}/home/.cache/mine/result")
    (objection,) = without_machine(found["objections"])
    assert (status, objection["kind"], objection["blocks"]) == (2, "carried over", True)
    assert "~/.cache/mine/result" in objection["names"]  # other programs may write to /tmp meanwhile
    assert objection["values"]["first_s"] > 0.2 > objection["values"]["later_s"]
    assert "its warm-up took 0." in found["sentence"] and "; later runs, which see that, took " in found["sentence"]


def test_the_same_in_a_folder_that_git_ignores_and_runs_share(folder):
    (folder / "cache").mkdir()
    (folder / "cache/.keep").touch()
    (folder / ".gitignore").write_text("cache/\nout/\n")
    subprocess.run(["git", "init", "-q", "."], check=True)
    status, found = prove("sleep 0.2", "sh cached.sh 0.2 cache/result")
    assert (status, without_machine(found["objections"])[0]["names"][0]) == (2, "cache/result")


def test_a_variant_that_is_slower_all_the_same_gets_a_condition(folder):
    status, found = prove(f"sh cached.sh 0.3 {folder.parent}/home/result", "true")
    (objection,) = without_machine(found["objections"])
    assert (objection["kind"], objection["blocks"], objection["command"][:9]) == ("carried over", False, "sh cached")
    assert status in (0, 2)  # a busy machine decides


def test_a_log_that_each_run_writes_is_no_reason(folder):
    (folder / "logs.sh").write_text('sleep $1; date >> "$HOME/log"; date > "$HOME/log-$$"\n')
    status, found = prove("sh logs.sh 0.2", "sh logs.sh 0.02")
    assert (status, without_machine(found["objections"])) == (0, [])


def test_compile_caches_of_the_warm_up_are_a_condition_of_a_process(folder):
    (folder / "compiles.sh").write_text('sh cached.sh 0.2 "$TRITON_CACHE_DIR/kernel"\n')
    status, found = prove("sleep 0.2", "sh compiles.sh")
    assert (status, [(one["kind"], one["blocks"]) for one in without_machine(found["objections"])]) == (
        0,
        [("warm caches", False)],
    )
    assert "with the compile caches that it left, took " in found["sentence"]
    assert prove("sleep 0.2", "sh compiles.sh", "--caches", "cold")[1]["ratio"] < 1.5


def test_results_in_compile_caches_are_none_of_steady_epochs(folder):
    (folder / "a.sh").write_text('for n in 1 2 3; do sleep $1; echo "took $1 s"; done\n')
    leave = 'sh a.sh 0.02; mkdir -p "$TRITON_CACHE_DIR"; touch "$TRITON_CACHE_DIR/all"'
    (folder / "b.sh").write_text(f'if [ -e "$TRITON_CACHE_DIR/all" ]; then sh a.sh 0.002; else {leave}; fi\n')
    status, found = prove("sh a.sh 0.02", "sh b.sh", "--epoch-s", r"took (\S+)")
    assert (status, [(one["kind"], one["blocks"]) for one in without_machine(found["objections"])]) == (
        2,
        [("warm caches", True)],
    )


# Six epochs of 0.02 s, of which those that $2 names take 0.2 s more if $1 is not there; it is left at the end.
KEEPS = """
for n in 1 2 3 4 5 6; do
  if [ ! -e "$1" ] && echo "$2" | grep -q $n; then sleep 0.22; echo took 0.22 s; else sleep 0.02; echo took 0.02 s; fi
done
mkdir -p "$(dirname "$1")"; [ -e "$1" ] || echo done > "$1"
"""


def test_an_epoch_that_compiles_in_the_warm_up_is_a_condition(folder):
    (folder / "a.sh").write_text('for n in 1 2 3 4 5 6; do sleep $1; echo "took $1 s"; done\n')
    (folder / "keeps.sh").write_text(KEEPS)
    (folder / "b.sh").write_text('sh keeps.sh "$TRITON_CACHE_DIR/kernel" 2\n')
    _, found = prove("sh a.sh 0.04", "sh b.sh", "--epoch-s", r"took (\S+)")
    assert found["ratio"] == pytest.approx(2.0)
    # Without the first epoch the warm-up's mean is (0.22 + 4 × 0.02) / 5 s; its median is that of the later runs.
    (objection,) = [one for one in found["objections"] if one["kind"] == "warm caches"]
    assert (objection["blocks"], objection["values"]["first_s"]) == (False, pytest.approx(0.06))


def test_a_file_that_saves_every_second_epoch_its_work_is_inconclusive(folder):
    (folder / "a.sh").write_text('for n in 1 2 3 4 5 6; do sleep $1; echo "took $1 s"; done\n')
    (folder / "keeps.sh").write_text(KEEPS)
    _, found = prove("sh a.sh 0.04", f"sh keeps.sh {folder.parent}/home/kept/it 24", "--epoch-s", r"took (\S+)")
    (objection,) = [one for one in found["objections"] if one["kind"] == "carried over"]
    assert (objection["blocks"], objection["values"]["first_s"]) == (True, pytest.approx(0.1))


def test_modules_of_the_packages_are_told_from_bytecode(tmp_path):
    packages = tmp_path / "site-packages"
    (packages / "one/__pycache__").mkdir(parents=True)
    since_ns = time.time_ns()
    (packages / "slow.pth").touch()
    (packages / "one/__pycache__/x.pyc").touch()
    (packages / "one/notes.txt").touch()
    found = find_changes([str(packages)], since_ns, [], limit_s=5)
    assert found.code == [str(packages / "slow.pth")]
    own = [name for name in found.files if name.startswith(str(packages))]
    assert own == [str(packages / "one/notes.txt"), str(packages / "slow.pth")]


def test_a_file_that_is_written_in_place_and_dated_back_is_found(tmp_path):
    deep = tmp_path / "1/2/3"
    deep.mkdir(parents=True)
    (deep / "kept").write_text("1")
    (deep / "other").write_text("1")
    watch = OutsideWatch((str(tmp_path),), os.geteuid())
    time.sleep(0.05)
    since_ns = time.time_ns()
    assert watch.find_changed(since_ns, [], 5) == ([], [])
    (deep / "kept").write_text("2")
    os.utime(deep / "kept", ns=(0, 0))
    assert watch.find_changed(since_ns, [], 5) == ([str(deep / "kept")], [])
    assert watch.find_changed(since_ns, [str(deep)], 5) == ([], [])
    assert OutsideWatch((str(tmp_path),), os.geteuid() + 1).find_changed(since_ns, [], 5) == ([], [])  # another user's
    assert watch.find_changed(since_ns, [], 0) == ([], [str(tmp_path)])  # no time at all


def test_a_file_that_was_changed_before_is_looked_at_first(tmp_path):
    (tmp_path / "kept").write_text("1")
    watch = OutsideWatch((str(tmp_path),), os.geteuid())
    watch.changed = {str(tmp_path / "kept"): None}
    assert watch.find_changed(0, [], 0) == ([str(tmp_path / "kept")], [str(tmp_path)])  # no time for more
    assert watch.find_changed(0, [], 5) == ([str(tmp_path / "kept")], [])
    assert watch.find_changed(0, [str(tmp_path / "kept")], 5) == ([], [])


def test_what_was_created_is_told_from_what_was_changed(tmp_path):
    for name in ("known", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "known/changed").touch()
    (tmp_path / "known/replaced").touch()
    watch = OutsideWatch((str(tmp_path),), os.geteuid())
    watch.find_changed(time.time_ns(), [], 5)
    time.sleep(0.05)
    since_ns = time.time_ns()
    (tmp_path / "known/changed").write_text("1")
    (tmp_path / "known/other").touch()
    (tmp_path / "known/other").replace(tmp_path / "known/replaced")
    (tmp_path / "empty/created").touch()
    (tmp_path / "new/deep").mkdir(parents=True)
    (tmp_path / "new/deep/1").touch()
    (tmp_path / "new/2").touch()
    found, _ = watch.find_changed(since_ns, [], 5)
    names = ["empty/created", "known/changed", "known/replaced", "new/2", "new/deep/1"]
    assert found == [str(tmp_path / name) for name in names]
    assert watch.select_created(found) == [str(tmp_path / "empty/created"), str(tmp_path / "new")]
    watch.find_changed(since_ns, [], 5)
    assert watch.select_created(found) == []  # by now all of it is known


def test_a_hard_link_that_is_made_elsewhere_changes_no_file(tmp_path):
    places = tmp_path / "packages"
    places.mkdir()
    for name in ("linked", "edited", "moded"):
        (places / name).write_text("1")
    watch = OutsideWatch((str(places),), os.geteuid())
    watch.find_changed(0, [], 5)
    time.sleep(0.05)
    since_ns = time.time_ns()
    for name in ("linked", "edited"):
        os.link(places / name, tmp_path / name)  # as uv installs packages
    (places / "edited").write_text("22")
    (places / "moded").chmod(0o600)
    os.link(tmp_path / "linked", places / "new")
    assert watch.find_changed(since_ns, [], 5)[0] == [str(places / name) for name in ("edited", "moded", "new")]


def test_a_first_look_at_a_file_tells_a_link_by_its_older_contents(tmp_path):
    (tmp_path / "linked").write_text("1")
    time.sleep(0.05)
    since_ns = time.time_ns()
    os.link(tmp_path / "linked", tmp_path / "other")
    assert OutsideWatch((str(tmp_path),), os.geteuid()).find_changed(since_ns, [], 5)[0] == []


def test_a_file_that_another_program_writes_during_a_slow_warm_up_accuses_nobody(folder, needs_isolation):
    # The first run is slow for a reason of its own: what tells it that it is the first lies where nothing is watched.
    (folder / "cold.sh").write_text(
        'if [ -e "$HOME/.ssh/seen" ]; then sleep 0.05; else sleep 0.2; mkdir "$HOME/.ssh"; fi; touch "$HOME/.ssh/seen"\n'
        '[ -e "$HOME/others" ] || touch "$HOME/others"\n'
    )
    status, found = prove("sleep 0.2", "sh cold.sh")
    assert (status, without_machine(found["objections"])) == (0, [])


def test_of_three_commands_one_that_uses_what_the_last_left_is_inconclusive(folder, needs_isolation):
    cache = folder.parent / "home/.cache/ds"
    (folder / "uses.sh").write_text(
        f'if [ -e {cache} ]; then sleep 0.06; else sleep 0.3; fi; mkdir -p "$HOME/.cache"; date > {cache}\n'
    )
    (folder / "leaves.sh").write_text(f'sleep 0.3; mkdir -p "$HOME/.cache"; date > {cache}\n')
    words = ["prove", "sleep 0.3", "sh uses.sh", "sh leaves.sh", "--rounds", "4", "--out", "out", "--quiet", "--json"]
    result = CliRunner().invoke(app, words)
    uses, _ = json.loads(result.stdout)["candidates"]
    kinds = [(one["kind"], one["blocks"]) for one in without_machine(uses["objections"])]
    assert (uses["outcome"], kinds) == ("inconclusive", [("helped", True)])
    assert "~/.cache, which appeared during earlier runs" in uses["sentence"]


def test_files_alike_share_a_suffix_or_all_but_digits():
    kinds = {one for name in ("~/log/a.log", "~/log/run-12") for one in list_kinds_of(name)}
    assert [
        bool(kinds & set(list_kinds_of(name))) for name in ("~/log/b.log", "~/log/run-7", "~/log/all.bin", "~/other/a.log")
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_an_isolated_run_finds_nothing_of_the_warm_up(folder, needs_isolation):
    _, found = prove("sleep 0.2", f"sh cached.sh 0.2 {folder.parent}/home/result", "--isolate")
    assert "carried over" not in [one["kind"] for one in found["objections"]] and 0.5 < found["ratio"] < 2  # the file: 10
    assert not (folder.parent / "home/result").exists()


def test_isolation_goes_with_no_shared_caches_and_no_profiler(folder):
    for words, said in (
        (["--caches", "shared"], "shares no caches"),
        (["--profiled", "1"], "cannot be combined with --container"),
    ):
        result = CliRunner().invoke(app, ["prove", "true", "true", "--isolate", *words])
        assert said in str(result.exception)
