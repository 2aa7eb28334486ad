"""Programs of which an average epoch and the whole say different things, proved for real; values by hand."""

import json
import os
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.report.ratio_phrases import describe_whole
from speedproof.stats.finding import find_whole
from tests.support import without_machine

pytestmark = pytest.mark.timed

# Each step takes $1 s, but every $3-th takes $2 s, and the first one $5 s more; there are $4.
PROGRAM = """
import sys, time
cheap, costly, every, steps, compiling = map(float, sys.argv[1:])
for step in range(int(steps)):
    started = time.perf_counter()
    time.sleep((costly if step % every == every - 1 else cheap) + (0 if step else compiling))
    print(f"step {step} took {time.perf_counter() - started:.4f} s", flush=True)
"""


NEAR = 0.2  # on a busy machine a sleep of 15 ms may take 20 ms


@pytest.fixture(autouse=True)
def program(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python").symlink_to(sys.executable)  # not every machine calls it so
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)


def prove(reference, candidate):
    commands = [f"python train.py {words}" for words in (reference, candidate)]
    words = ["--epoch-s", r"took (\S+) s", "--rounds", "4", "--device", "cpu", "--json", "--quiet", "--out", "out"]
    result = CliRunner().invoke(app, ["prove", *commands, *words])
    (found,) = json.loads(result.stdout)["candidates"]
    return result.exit_code, found, found["sentence"].replace("\N{NO-BREAK SPACE}", " ")


def test_a_costly_step_every_now_and_then_makes_a_program_slower():
    """As an optimizer that renews its preconditioner has it."""
    status, found, sentence = prove("0.03 0.03 1 20 0", "0.015 0.15 5 20 0")
    # Without the first step: 15 × 0.015 s and 4 × 0.15 s are 0.825 s, against 19 × 0.03 s.
    assert (found["outcome"], found["ratio"]) == ("slower", pytest.approx(0.57 / 0.825, rel=NEAR))
    assert (status, [one for one in without_machine(found["objections"]) if one["blocks"]]) == (0, [])
    assert sentence.startswith("Slower: B (… 0.015 0.15 5 …) is 0.")


def test_more_epochs_than_a_shorter_one_pays_for():
    """As a variant that learns less in each of them needs."""
    status, found, sentence = prove("0.06 0.06 1 5 0", "0.03 0.03 1 20 0")
    # 5 × 0.06 s against 20 × 0.03 s.
    assert (status, found["outcome"], found["ratio"]) == (2, "inconclusive", pytest.approx(2.0, rel=NEAR))
    (objection,) = [one for one in without_machine(found["objections"]) if one["blocks"]]
    assert objection["kind"] == "direction"
    assert (objection["values"]["epochs"], objection["values"]["other_epochs"]) == (20, 5)
    assert objection["values"]["all_epochs"] == pytest.approx(0.5, rel=NEAR)
    # The whole has to show half of the gain, as logarithms.
    assert objection["values"]["process_low"] < objection["values"]["process"] < objection["values"]["process_high"] < 2**0.5
    assert sentence.startswith("Inconclusive: B (… 0.03 0.03 1 20 …) ran 20 epochs and the other 5: it is ")
    assert "× as fast by its average epoch, but 0." in sentence and "×) as a whole process; " in sentence


def test_steps_that_do_not_pay_for_their_compilation():
    status, found, sentence = prove("0.04 0.04 1 8 0", "0.02 0.02 1 8 0.4")
    # 8 × 0.04 s against 0.4 s and 8 × 0.02 s.
    (objection,) = [one for one in without_machine(found["objections"]) if one["kind"] == "direction"]
    assert (status, objection["blocks"], objection["values"]["epoch"]) == (2, True, pytest.approx(2.0, rel=NEAR))
    assert objection["values"]["all_epochs"] == pytest.approx(0.32 / 0.56, rel=NEAR)
    assert " as fast by its average epoch, but 0." in sentence


def ratio_of(metric, outcome, centre, epochs=(), names="ab"):
    return SimpleNamespace(
        metric=metric, outcome=outcome, centre=centre, low=0.99 * centre, high=1.01 * centre, objections=[],
        work=SimpleNamespace(epochs=list(epochs)), reference=names[0], candidate=names[1], mode="timed", scope="here",
        experiment="experiment-1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "whole", "said"),
    [
        (("training_epoch_s", "faster", 2.0), ("faster", 1.5), ""),
        (("training_epoch_s", "faster", 2.0, (5, 20)), ("slower", 0.5), "0.500× (0.495–0.505×) for the process"),
        (("training_epoch_s", "faster", 2.0, (20, 5)), ("faster", 8.0), "8.00× (7.92–8.08×) for the process"),
        (("training_epoch_s", "equivalent", 1.0), ("slower", 0.45), "0.450× (0.446–0.455×) for the process"),
        (("training_epoch_s", "equivalent", 1.0), ("inconclusive", 0.9), ""),
        (("training_epoch_s", "inconclusive", 1.1), ("slower", 0.5), ""),
        (("samples_per_s", "equivalent", 1.0, (), "ba"), ("slower", 0.45), "0.450× (0.446–0.455×) for the process"),
    ],
)
def test_the_whole_process_is_named_if_it_disagrees(ratio, whole, said):
    ratio = ratio_of(*ratio)
    notes = {name: SimpleNamespace(better="higher" if name == "samples_per_s" else "lower") for name in (ratio.metric,)}
    comparison = SimpleNamespace(ratios=[ratio, ratio_of("process_s", *whole)], metrics=notes, title_of=lambda name: "process")
    assert "".join(describe_whole(find_whole(ratio, comparison))).replace("\N{NO-BREAK SPACE}", " ") == said
