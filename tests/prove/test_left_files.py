"""What one command's warm-up leaves and slows the other: that one runs once more without it."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.config.model import Variant
from speedproof.run import outside_watch
from speedproof.run.proof import warm_up
from speedproof.run.proof.left_files import WarmUpFiles, find_left_files
from tests.support import without_machine

pytestmark = pytest.mark.timed

# Takes $1 s, or $2 s if there is a file of settings in the home folder.
READS = 'if [ -e "$HOME/.config/slow" ]; then sleep $2; else sleep $1; fi\n'
LEAVES = 'sleep $1; mkdir -p "$HOME/.config"; touch "$HOME/.config/$2"\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("work", "home/.config"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # In the temporary folder other tests create files, too.
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: (str(tmp_path / "home"),))
    (tmp_path / "work/reads.sh").write_text(READS)
    (tmp_path / "work/leaves.sh").write_text(LEAVES)
    return tmp_path / "home"


def prove(*words):
    result = CliRunner().invoke(app, ["prove", *words, "--rounds", "4", "--out", "out", "--json"])
    (candidate,) = json.loads(result.stdout)["candidates"]
    return result.exit_code, without_machine(candidate["objections"]), " ".join(result.stderr.split())


def test_a_reference_that_another_commands_file_slows_is_inconclusive(home, needs_isolation):
    status, (objection,), plan = prove("sh reads.sh 0.1 0.7", "sh leaves.sh 0.1 slow")
    assert (status, objection["kind"], objection["blocks"], objection["names"][0]) == (2, "slowed", True, "~/.config/slow")
    assert objection["values"]["timed_process_s"] > 0.4 > objection["values"]["without_process_s"]
    assert "s in a check without ~/.config/slow, which appeared while the other ran" in plan
    assert (home / ".config/slow").exists()


def test_a_file_that_slows_nobody_is_no_reason(home, needs_isolation):
    _, objections, plan = prove("sh reads.sh 0.2 0.9", "sh leaves.sh 0.05 cache")
    assert objections == [] and "without ~/.config/cache" in plan


def test_what_a_command_left_after_the_other_was_warmed_up_is_hidden_from_itself_alone(home, needs_isolation, recorded_runs):
    _, _, plan = prove("sh leaves.sh 0.05 own", "sleep 0.05")
    assert "without ~/.config/own, which appeared while it ran" in plan and "which appeared while the other ran" not in plan


def test_what_was_there_before_cannot_be_hidden_and_is_named(home):
    (home / ".config/slow").touch()
    status, objections, _ = prove("sh reads.sh 0.1 0.7", "sh leaves.sh 0.1 slow")
    assert (status, [(one["kind"], one["names"]) for one in objections]) == (0, [("may be slowed", ["~/.config/slow"])])


def test_a_command_that_fails_without_it_is_named(home, needs_isolation):
    (home.parent / "work/needs.sh").write_text('sleep 0.4; cat "$HOME/.config/slow"\n')
    status, objections, plan = prove("sh needs.sh", "sh leaves.sh 0.1 slow")
    assert (status, [one["kind"] for one in objections]) == (0, ["may be slowed"])
    assert "fails without ~/.config/slow" in plan


def test_where_programs_cannot_be_isolated_the_plan_says_so(home, monkeypatch, recorded_runs):
    monkeypatch.setattr(warm_up, "explain_no_isolation", lambda: "no namespaces")
    status, objections, plan = prove("sh reads.sh 0.1 0.7", "sh leaves.sh 0.1 slow")
    assert (status, objections) == (0, [])
    assert "not run without ~/.config/slow, which appeared while the other ran: --isolate does not work here (no na" in plan


def test_an_isolated_proof_leaves_nothing_to_run_without(home, needs_isolation):
    _, objections, plan = prove("sh reads.sh 0.1 0.4", "sh leaves.sh 0.1 slow", "--isolate")
    assert not {"slowed", "may be slowed"} & {one["kind"] for one in objections} and "without ~" not in plan


def test_which_files_count(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("both", "new", "folder/mine", "settings/changed", "logs/theirs", "logs/own"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    own = WarmUpFiles(["~/both", "~/folder/mine", "~/logs/own"], {})
    created = {f"~/{name}": str(tmp_path / name) for name in ("both", "new", "folder", "gone")}
    others = [
        WarmUpFiles(["~/both", "~/new", "~/folder/x", "~/gone"], created),
        WarmUpFiles(["~/settings/changed", "~/logs/theirs", "/tmp/changed"], {}),
    ]
    found = find_left_files(Variant(title="A", settings={}), own, others)
    untouched, used = found.hidden
    assert (untouched.paths, untouched.own, found.not_hidden) == (
        {"~/new": str(tmp_path / "new")},
        False,
        ["~/settings/changed"],
    )
    assert (list(used.paths), used.own) == (["~/both", "~/folder"], False)  # others created them, too
    (alone,) = find_left_files(Variant(title="B", settings={}), others[0], []).hidden
    assert (list(alone.paths), alone.own) == (["~/both", "~/folder", "~/new"], True)
