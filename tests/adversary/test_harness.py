"""The harness of adversaries: copies do the same in other words, clocks outside are read right, the page says what was seen."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversary.bench import Interval, Outside, Proof, placing, relate_shortest, time_outside
from tests.adversary.document import Row, Seen, make_row, read_rows, write_document
from tests.adversary.kinds import CHECKED, KINDS, Kind
from tests.adversary.mutated import WORDINGS, keep_imports, mutate, read_purpose
from tests.adversary.seeds import VARIABLE, choose_seeds
from tests.adversary.trial import PROGRAMS, Pair, Trial, draw_pair

PROGRAM = '''"""Says what it does."""

import sys
from math import sqrt

COUNT = 3


def add(total, step=1):
    """Add."""
    return total + step


total = 0
for number in range(COUNT):
    total = add(total, step=number)
print(f"{total} {sqrt(4)}", file=sys.stdout)
'''


def run(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout


def test_a_copy_does_the_same_under_other_names():
    copies = {mutate(PROGRAM, random.Random(seed), {}, {}, {})[0] for seed in range(5)}
    assert len(copies) == 5
    assert {run(copy) for copy in copies} == {"3 2.0\n"}
    assert not any(re.search(r"\b(add|total|number|COUNT)\b|Says", copy) for copy in copies)


def test_constants_and_shared_names_are_those_that_were_drawn():
    copy, names = mutate(PROGRAM, random.Random(1), {"add": "shared_add"}, {"math": "math"}, {"COUNT": 5})
    assert "def shared_add" in copy and names["add"] == "shared_add"
    assert run(copy) == "10 2.0\n"


def test_a_seed_draws_the_same_pair_again():
    def draw(seed):
        with placing() as place:
            pair = draw_pair(KINDS[0], place, random.Random(seed))
            texts = sorted(path.read_text().replace(place.tag, "") for path in place.work.iterdir())
            return pair, texts

    assert draw(1) == draw(1) != draw(2)


def test_only_imports_are_kept_of_a_program():
    assert keep_imports(PROGRAM) == "import sys\nfrom math import sqrt\n"


@pytest.mark.parametrize("wording", sorted(WORDINGS))
def test_each_wording_is_read(wording):
    line = wording.format(epoch=3, seconds=0.0204, milliseconds=20.4)
    (read,) = re.findall(WORDINGS[wording], line)
    assert float(read) in (pytest.approx(0.0204), pytest.approx(20.4))


def test_each_program_says_what_it_does_and_is_used():
    used = {kind.program for kind in KINDS} | {kind.reference for kind in KINDS} | {"work"}
    used |= {Path(name).stem for kind in KINDS for name in kind.beside if name.endswith(".py")}
    used |= {name for kind in KINDS for name in kind.packages}
    programs = {path.stem: read_purpose(path) for path in PROGRAMS.glob("*.py")}
    assert programs.keys() == used and all(programs.values())
    assert len({kind.title for kind in KINDS}) == len(KINDS) >= 40
    assert {kind.check for kind in KINDS} == CHECKED.keys()


def test_the_shortest_runs_are_compared_less_their_starts():
    # 0.5 - 0.1 against 0.3 - 0.1; each is known to 0.02 s: 0.36 / 0.24 and 0.44 / 0.16.
    seen = relate_shortest([[0.5, 0.52], [0.3, 0.32], [0.1, 0.12], [0.1, 0.12]])
    assert seen.ratio == pytest.approx(2.0)
    assert (seen.interval.low, seen.interval.high) == (pytest.approx(1.5), pytest.approx(2.75))
    assert seen.meets(2.7, 3.0) and not seen.meets(2.8, 3.0)


def test_a_program_lasts_until_all_that_it_started_has_ended():
    text = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(0.5)\n"
    with placing() as place:
        (place.work / "leaves.py").write_text(text)
        whole, status, _ = time_outside(place, ["python", "leaves.py"], place.work)
        alone, _, _ = time_outside(place, ["python", "leaves.py"], place.work, whole_tree=False)
    assert status == 0
    assert whole >= 0.5 and whole > alone


def make_trial(status=0, low=1.9, high=2.1, said="Faster: python b.py", truth=1.0, **kind):
    verdict = {"candidates": [{"ratio": 2.0, "low": low, "high": high, "sentence": said, "objections": []}]}
    pair = Pair(["python a.py", "python b.py"], [], truth, 1)
    outside = Outside(truth, Interval(truth, truth))
    return Trial(Kind("says_half", "clocks", **kind), pair, outside, Proof(status, said, verdict, ""))


@pytest.mark.parametrize(
    ("trial", "verdict"),
    [
        (make_trial(), "believed"),
        (make_trial(truth=2.0), "true"),
        (make_trial(low=0.99), "true"),
        (make_trial(low=1.03), "believed"),
        (make_trial(low=1.98, truth=1.88), "true"),
        (make_trial(low=1.98, truth=1.8), "believed"),
        (make_trial(status=2), "not confirmed"),
        (make_trial(status=1), "not confirmed"),
        (make_trial(status=3), "refused"),
        (make_trial(truth=2.0, worse=True), "believed"),
        (make_trial(truth=2.0, names="unequal work"), "believed"),
        (make_trial(truth=2.0, names="unequal work", said="Faster, unequal work"), "true"),
    ],
)
def test_a_wrong_ratio_that_is_confirmed_was_believed(trial, verdict):
    assert trial.verdict == verdict


def test_a_row_survives_the_results_file_and_names_no_drawn_program(tmp_path):
    row = make_row(make_trial(), 7)
    items = "".join(f'<property name="{name}" value="{value}"/>' for name, value in row.properties())
    case = f"<testcase><properties>{items}</properties></testcase>"
    (tmp_path / "seen.xml").write_text(
        f'<testsuites><testsuite timestamp="2026-11-26T01:02:03">{case}</testsuite></testsuites>'
    )
    assert read_rows(tmp_path / "seen.xml") == [Seen(row, "2026-11-26")]
    assert row.said == "Faster: B"


def test_the_page_names_what_was_believed_and_what_cannot_be_caught():
    def see(kind, verdict, unreachable=""):
        return Seen(Row(kind, "clocks", "does | it", "1", "said", "0", verdict, unreachable, "1"), "2026-11-26")

    page = write_document([see("one", "believed"), see("two", "not confirmed"), see("two", "believed", "")])
    assert "2 kinds, 3 programs, 2026-11-26: 0 kinds are caught, 0 cannot be, **2 should be and are not**." in page
    page = write_document([see("one", "believed", "it is root"), see("two", "not confirmed")])
    assert "2 kinds, 2 programs, 2026-11-26: 1 kinds are caught, 1 cannot be." in page
    assert "| `one` | does \\| it | 1 | 0 | said | no: it is root |" in page
    with pytest.raises(SystemExit, match="no row"):
        write_document([])


def test_seeds_are_the_commits_or_those_that_are_named(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (one,) = choose_seeds()
    monkeypatch.setenv(VARIABLE, "3 by commit")
    assert choose_seeds() == [one, one + 1, one + 2]
    monkeypatch.setenv(VARIABLE, "17 4")
    assert choose_seeds() == [17, 4]
