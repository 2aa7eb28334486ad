"""`speedproof bisect` on tiny repositories, whose programs print how long their epochs took."""

import json

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.report.bisect_phrases import list_bisect_lines
from speedproof.results.bisect_result import BisectedCommit, BisectResult, ChangeRatio
from speedproof.run import outside_watch
from speedproof.run.bisect import bisecting, search
from speedproof.run.bisect.commit_runs import CommitRuns
from speedproof.run.commits import list_history, resolve_commit
from speedproof.util.child_processes import StoppedError
from speedproof.util.errors import ConfigError
from tests.repositories import commit_all, git, make_repository

SLOW, FAST = "echo took 0.0011 s", "echo took 0.0010 s"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return what makes a commit for each line of a program's text, with tags c0, c1, …"""
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())
    monkeypatch.setattr(search, "_RUNS_OF_ENDS", 1)  # they print the same each time
    folder = make_repository(tmp_path, ignored="results")
    monkeypatch.chdir(folder)

    def make(*texts):
        for number, text in enumerate(texts):
            (folder / "train.sh").write_text(f"{text} # {number}\n")
            commit_all(folder, f"Change {number}")
            git(folder, "tag", f"c{number}")
        return folder

    return make


def call(*words):
    return CliRunner().invoke(app, ["bisect", *words])


def bisect(*options, good="c0", bad="main"):
    done = call(good, bad, "--json", "--quiet", "--epoch-s", r"took (\S+) s", *options, "--", "sh train.sh")
    return BisectResult.model_validate_json(done.stdout), done.exit_code


@pytest.mark.dear
def test_it_finds_what_made_it_faster_in_builds(repository):
    repository("echo took 0.0020 s", SLOW, SLOW, SLOW, FAST, FAST, FAST)
    found, status = bisect("--build", "cp train.sh built.sh", good="c1")
    assert (status, found.outcome, found.commit.subject) == (0, "found", "Change 4")
    assert found.step.ratio == pytest.approx(1.1)


@pytest.mark.dear
def test_ends_that_do_not_differ_end_it(repository):
    repository(FAST, SLOW, FAST)
    found, status = bisect()
    assert (status, found.outcome, found.commit, found.commits_run) == (1, "no difference", None, 2)


def test_it_finds_the_commit_and_skips_one_that_fails_and_goes_on_if_it_was_interrupted(repository, monkeypatch):
    folder = repository(FAST, "exit 3", SLOW, SLOW)
    measured, stop_at, real = [], [], CommitRuns.measure

    def measure(runs, places):
        if [len(measured)] == stop_at:
            raise StoppedError("SIGINT")
        measured.append(places)
        return real(runs, places)

    monkeypatch.setattr(CommitRuns, "measure", measure)
    words = ("c0", "main", "--quiet", "--epoch-s", r"took (\S+) s", "--", "sh train.sh")
    for stops in ([2], [5]):  # among the rounds of the ends, and after the commit that fails
        stop_at[:] = stops
        assert str(call(*words).exception) == bisecting.KEPT
    stop_at.clear()
    found, status = bisect()
    assert (status, found.outcome, found.commit.subject, found.commits) == (0, "found", "Change 2", 3)
    assert found.step.ratio == pytest.approx(1 / 1.1)
    assert found.ends.ratio == pytest.approx(1 / 1.1)
    assert [one.subject for one in found.skipped] == [one.subject for one in found.suspects] == ["Change 1"]
    assert "exit status 3" in found.skipped[0].reason
    assert json.loads((folder / "results/bisect/bisect.json").read_text())["commit"]["sha"] == git(folder, "rev-parse", "c2")
    assert found.runs == sum(len(places) for places in measured) - 2 * len(found.skipped) >= 8
    again, _ = bisect()
    assert (again.commit, again.runs, again.minutes) == (found.commit, found.runs, found.minutes)
    count = len(measured)
    stop_at[:] = [count + 1]
    call("--timeout", "50", *words)  # other runs
    assert len(measured) > count


def test_an_end_that_does_not_build_is_an_error(repository):
    repository(FAST, FAST)
    done = call("c0", "c1", "--json", "--quiet", "--build", "sh -c 'echo no compiler; exit 1'", "--", "sh train.sh")
    found = json.loads(done.stdout)
    assert (found["outcome"], found["exit_status"]) == ("error", 3)
    assert found["message"].endswith("ended with exit status 1: no compiler; choose a commit whose command works")


def test_history_is_that_of_first_parents_that_change_the_folder(repository):
    folder = repository(FAST, SLOW)
    git(folder, "checkout", "-qb", "side", "c0")
    (folder / "other.sh").write_text("")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "On a branch")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-qm", "Merge it", "side")
    git(folder, "commit", "--allow-empty", "-qm", "Nothing")
    good, main, side = (resolve_commit(folder, name) for name in ("c0", "main", "side"))
    found = list_history(good, main)
    assert [(one.subject, one.merge) for one in found] == [("Change 0", False), ("Change 1", False), ("Merge it", True)]
    with pytest.raises(ConfigError, match=r"^side \(\w{12}\) is not among the first parents of main"):
        list_history(side, main)
    with pytest.raises(ConfigError, match="c0 and c0 are the same commit"):
        list_history(good, good)


def test_a_command_line_that_cannot_be_understood_is_an_error_in_one_line(repository):
    repository(FAST)
    done = call("c0", "nowhere", "--json", "--", "sh train.sh")
    assert json.loads(done.stdout)["message"].startswith("nowhere: no such commit in ")
    assert "bisect: --rounds: no such option" in str(call("c0", "main", "--rounds", "4", "--", "sh train.sh").exception)


def make_result(**values):
    commit = BisectedCommit(sha="c" * 40, subject="Cache less", date="2026-11-20")
    end = BisectedCommit(sha="a" * 40, subject="Add", date="2026-11-01")
    skipped = BisectedCommit(sha="b" * 40, subject="Broken", date="2026-11-19", reason="bbb: exit status 1")
    filled = {
        "outcome": "found", "exit_status": 0, "command": "sh a.sh", "metric": "process_s", "good": end, "bad": end,
        "ends": ChangeRatio(ratio=0.9, low=0.88, high=0.92), "commit": commit,
        "step": ChangeRatio(ratio=0.91, low=0.89, high=0.93),
        "chance": 0.97, "several": 0.01, "suspects": [skipped], "skipped": [skipped], "commits": 31, "commits_run": 8,
        "runs": 44, "minutes": 3.0,
    }  # fmt: skip
    return BisectResult(**{**filled, **values})


def test_it_is_told_in_a_few_lines():
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in list_bisect_lines(make_result())]
    assert lines == [
        "Found: cccccccccccc (Cache less, 2026-11-20) made it slower: 0.910× as fast (95 % interval 0.890–0.930×).",
        "From aaaaaaaaaaaa (Add, 2026-11-01) to aaaaaaaaaaaa (Add, 2026-11-01): 0.900× as fast (95 % interval 0.880–0.920×).",
        "It may also be a skipped commit right before it: bbbbbbbbbbbb (Broken, 2026-11-19).",
        "Skipped: Broken (2026-11-19): bbb: exit status 1",
        "To confirm it, with the same options: speedproof gate --base bbbbbbbbbbbb^ --head cccccccccccc",
        "44 runs of 8 of 32 commits in 3.00 min, whole process.",
    ]


def test_of_a_merge_it_proposes_to_search_its_branch():
    commit = BisectedCommit(sha="c" * 40, subject="Merge", date="2026-11-20", merge=True)
    lines = list_bisect_lines(make_result(commit=commit, suspects=[], skipped=[]))
    assert lines[2:4] == [
        "To confirm it, with the same options: speedproof gate --base cccccccccccc^ --head cccccccccccc",
        'To search its branch: speedproof bisect "$(git merge-base cccccccccccc^1 cccccccccccc^2)" cccccccccccc^2',
    ]


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        ({"outcome": "spread"}, "No single commit: several changed the speed; the largest step is likely near cccccccccccc"),
        (
            {"outcome": "inconclusive", "chance": 0.6},
            "Inconclusive: most likely cccccccccccc (Cache less, ",
        ),
        (
            {"outcome": "inconclusive", "commit": None, "stopped": "budget"},
            "Inconclusive: whether the ends differ is open; the budget was spent; run the same command to go on.",
        ),
        (
            {"outcome": "inconclusive", "commit": None, "stopped": "futile"},
            "Inconclusive: whether the ends differ is open; the noise is too large",
        ),
        ({"outcome": "no difference", "commit": None}, "No difference: both ends are equally fast within 2 %."),
    ],
)
def test_each_outcome_has_its_words(values, begins):
    assert list_bisect_lines(make_result(**values))[0].startswith(begins)
