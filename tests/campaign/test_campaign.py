"""`speedproof campaign`: tries in a tiny repository, judged by verdicts that a test states, or by programs that sleep."""

import json
from types import SimpleNamespace

import pytest

from speedproof.report.campaign_table import describe_campaign, describe_try, list_tries
from speedproof.report.figures import draw
from speedproof.run import outside_watch
from speedproof.run.campaign import campaign
from speedproof.run.campaign.campaign import read_campaign, start_campaign, try_commit
from speedproof.run.campaign.campaign_request import make_campaign_request
from speedproof.util.errors import ConfigError
from tests.repositories import commit_all, git, make_repository
from tests.stated_verdicts import state


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A program that sleeps for 0.1 s, and what evaluates it."""
    folder = make_repository(tmp_path, ignored="results")
    (folder / "evaluate.sh").write_text("echo 0.9\n")
    commit_change(folder, "Train", "sleep 0.1\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())
    monkeypatch.setattr(draw, "FIGURES", ())
    return folder


def commit_change(folder, title, text, name="train.sh"):
    (folder / name).write_text(text)
    return commit_all(folder, title)


@pytest.fixture
def begin(repository, monkeypatch):
    """Begin a campaign whose proofs have the verdicts that a test states, one after the other; return how to try a commit."""

    def begin_campaign(*verdicts, **options):
        asked, stated = [], iter(verdicts)

        def prove(request, out, source, status, trees):
            asked.append((request, [commit.sha for commit in trees.commits.values()], out.name))
            return next(stated)

        monkeypatch.setattr(campaign, "prove_request", prove)
        out = repository / "results/campaign"
        start_campaign(make_campaign_request(["sh train.sh"], {"protect": ["evaluate.*"], **options}), out, repository)
        status = SimpleNamespace(say=lambda text: None, go_on_with=lambda text: None)
        return SimpleNamespace(asked=asked, out=out, attempt=lambda: try_commit("HEAD", out, repository, status))

    return begin_campaign


def test_a_commit_that_is_faster_is_the_next_reference_and_leaves_more_error(repository, begin):
    first = git(repository, "rev-parse", "HEAD")
    tried = begin(state("faster", 1.05, 1.2), state("faster", 1.05, 1.2), state("equivalent"), tries=8)
    shas = []
    for number in range(3):
        shas.append(commit_change(repository, f"Change {number}", f"sleep 0.{number}\n"))
        row = tried.attempt()
        assert (row.outcome, row.exit_status) == (("kept", 0) if number < 2 else ("dropped", 1))
    assert [both for _, both, _ in tried.asked] == [[first, shas[0]], [shas[0], shas[1]], [shas[1], shas[2]]]
    # 8 tries share 5 %: of a two-sided interval each lower half is 1 / 8 = 1 / (2 · 4); two that were kept double it.
    assert [request.describe_comparison()["joint_with"] + 1 for request, _, _ in tried.asked] == [4, 4, 2]
    found = read_campaign(tried.out)
    assert (found.reference, found.kept) == (shas[1], 2)
    assert describe_campaign(found).startswith("2 of 3 tries kept")


@pytest.mark.parametrize(
    ("verdict", "outcome", "reason"),
    [
        (state("slower", 0.8, 0.9), "dropped", "slower"),
        (state("equivalent"), "dropped", "equivalent"),
        (state("inconclusive", blocks=True), "dropped", "check"),
        (state("worse quality", 1.1, 1.2), "dropped", "quality"),
        (state("quality not established", 1.1, 1.2), "dropped", "quality"),
        (state("quality not established", 0.7, 0.9), "dropped", "slower"),
        (state("inconclusive", stopped="futile"), "dropped", "not shown"),
        (state("inconclusive", stopped="longest"), "dropped", "not shown"),
        (state("inconclusive", stopped="budget"), "continue", "budget"),
    ],
)
def test_what_is_not_shown_to_be_faster_is_not_kept(repository, begin, verdict, outcome, reason):
    tried = begin(verdict)
    before = read_campaign(tried.out).reference
    commit_change(repository, "Change", "sleep 0.2\n")
    row = tried.attempt()
    assert (row.outcome, row.reason) == (outcome, reason)
    assert read_campaign(tried.out).reference == before
    assert describe_try(row)[0].startswith("Not decided yet" if outcome == "continue" else "Dropped")


def test_a_commit_that_is_tried_again_goes_on_with_its_share(repository, begin):
    tried = begin(state("inconclusive", stopped="budget"), state("faster", 1.05, 1.2), tries=2)
    commit_change(repository, "Change", "sleep 0.2\n")
    assert tried.attempt().exit_status == 2
    assert tried.attempt().outcome == "kept"
    assert len({folder for _, _, folder in tried.asked}) == 1
    assert [request.budget for request, _, _ in tried.asked] == [30, 60]
    assert [one.number for one in read_campaign(tried.out).tries] == [1]


@pytest.mark.parametrize("name", ["evaluate.sh", "evaluate.py"])
def test_a_commit_that_changes_what_judges_it_is_refused_by_the_files_name(repository, begin, name):
    tried = begin()
    commit_change(repository, "Judge kindly", "echo 0.99\n", name)
    row = tried.attempt()
    assert (row.outcome, row.files, row.exit_status, tried.asked) == ("refused", [name], 1, [])
    assert describe_try(row)[0].endswith(f"it changes protected files: {name}.")


def test_files_of_a_folder_and_their_modes_are_protected_too(repository, begin):
    (repository / "judge").mkdir()
    commit_change(repository, "Judge", "echo 0.9\n", "judge/run.sh")
    tried = begin(protect=["judge"])
    assert describe_campaign(read_campaign(tried.out)).startswith("A campaign begins at ")
    (repository / "judge/run.sh").chmod(0o755)
    commit_all(repository, "Make it executable")
    assert tried.attempt().files == ["judge/run.sh"]
    commit_change(repository, "Judge more", "echo 0.99\n", "judge/more.sh")
    assert tried.attempt().files == ["judge/more.sh", "judge/run.sh"]


def test_planned_tries_are_all_there_are_and_what_was_not_measured_is_none(repository, begin):
    tried = begin(state("equivalent"), tries=1)
    assert tried.attempt().reason == "nothing changed"
    commit_change(repository, "Change", "sleep 0.2\n")
    assert tried.attempt().reason == "equivalent"
    with pytest.raises(ConfigError, match="all 1 tries of this campaign are used"):
        tried.attempt()
    assert [row[4] for row in list_tries(read_campaign(tried.out)).rows] == ["nothing changed", "equivalent"]


def test_a_mistake_is_refused_in_one_line(repository, begin):
    with pytest.raises(ConfigError, match=r"--protect nothing\.py: no file of HEAD"):
        begin(protect=["nothing.py"])
    with pytest.raises(ConfigError, match=r"nothing\.sh: no such file"):
        start_campaign(make_campaign_request(["sh nothing.sh"], {}), repository / "other", repository)
    with pytest.raises(ConfigError, match="no such file; begin with `speedproof campaign start"):
        try_commit("HEAD", repository / "elsewhere", repository, None)
    assert not (repository / "elsewhere").exists()
    tried = begin()
    with pytest.raises(ConfigError, match=r"campaign\.json: already exists"):
        start_campaign(make_campaign_request(["sh train.sh"], {}), tried.out, repository)


def test_a_change_that_halves_the_time_is_kept(repository, speedproof_here):
    words = ("--tries", "4", "--device", "cpu", "--rounds", "6", "--", "sh train.sh")
    assert speedproof_here("campaign", "start", *words).returncode == 0
    sha = commit_change(repository, "Sleep less", "sleep 0.02\n")
    done = speedproof_here("campaign", "try", "--json", "--quiet")
    found = json.loads(done.stdout)
    assert (done.returncode, found["outcome"], found["commit"]) == (0, "kept", sha), done.stdout
    assert found["comparisons"] == 2 and found["low"] > 1
    assert sha[:12] in speedproof_here("campaign", "show").stdout
