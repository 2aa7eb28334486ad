"""What a program can tell of the run that it is in: nothing in the warm-up, and nothing of us with `--blind`."""

import json
import re

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.run.proof.request import check_request
from speedproof.util.errors import ConfigError

pytestmark = pytest.mark.timed

SHOWING = 'pwd; readlink /proc/$$/fd/1; env | LC_ALL=C sort; ls "${SPEEDPROOF_RUN:-.}"; sleep 0.02\n'
# Of the names of temporary folders and terminals, the moment of the launch, and the seed.
OWN = re.compile(r"(?<=/run-)\w{8}|(?<=/compiled-)\w{8}|(?<=/dev/pts/)\d+|(?<=LAUNCHED=)\S+|(?<=SEED=)\d+")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "show.sh").write_text(SHOWING)
    return tmp_path


def prove(*words):
    return CliRunner().invoke(
        app, ["prove", "sh show.sh", "sh show.sh", "--rounds", "4", "--device", "cpu", "--out", "p", *words]
    )


def read_logs(place):
    timed = sorted(place.glob("p/results/experiments/experiment-1/runs/*/log.txt"))
    assert len(timed) == 8
    return (place / "p/warm-up/b.txt").read_text(), [path.read_text() for path in timed]


def test_a_warm_up_looks_like_any_timed_run(place):
    assert prove("--quiet").exit_code in (0, 1, 2)
    warm_up, timed = read_logs(place)
    assert "/dev/pts/" in warm_up and "SPEEDPROOF_RUN=" in warm_up and "SPEEDPROOF_EPOCHS" not in warm_up
    assert {OWN.sub("…", one) for one in timed} == {OWN.sub("…", warm_up)}
    run = json.loads(next(place.glob("p/results/experiments/experiment-1/runs/*/run.json")).read_text())
    assert run["observed"]["warm_up"]["process_s"] > 0 and run["observed"]["warm_up"]["watched_s"] is None


def test_blind_runs_see_nothing_of_speedproof_and_the_warm_up_does(place, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_MINE", "1")
    result = prove("--blind", "--json")
    assert result.exit_code in (0, 1, 2), result.output
    warm_up, timed = read_logs(place)
    assert "SPEEDPROOF_RUN=" in warm_up and "SPEEDPROOF_SEED=" in warm_up
    told = [line for one in timed for line in one.splitlines() if re.search(r"SPEEDPROOF_\w+=|^PYTHONPATH|/p/", line)]
    assert [line for line in told if not line.startswith("OLDPWD")] == []
    assert "blind: timed runs do not see speedproof" in " ".join(result.stderr.split())
    (candidate,) = json.loads(result.stdout)["candidates"]
    watched = [one for one in candidate["objections"] if one["kind"].startswith("watched run")]
    assert len(watched) == 2 and all(one["values"]["low_s"] < one["values"]["high_s"] for one in watched)
    assert "when watched" in (place / "p/results/report.md").read_text()


def test_what_blind_runs_cannot_have_is_refused_in_one_line(place):
    for asked, why in (
        (
            {"epoch_range": "epoch"},
            "blind and epoch_range: NVTX loads our library to record ranges; leave one of them out",
        ),
        ({"quality": r"acc (\S+)", "margin": 0.1}, "blind and margin: quality is judged across seeds"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_request({"commands": ["a", "b"], "blind": True, **asked}, "here")
    mark = '{"mark": "%s", "at_s": 1}'
    lines = "\n".join(mark % what for what in ("epoch-begins", "epoch-ends"))
    (place / "show.sh").write_text(f"cat >\"$SPEEDPROOF_RUN/marks.jsonl\" <<'E'\n{lines}\nE\n")
    result = prove("--blind")
    assert "marks its epochs, which blind runs cannot; print their times (--epoch-s), or drop --blind" in str(result.exception)
