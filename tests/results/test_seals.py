"""A file that no other file vouches for vouches for itself: a digit that became another one is seen."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from speedproof.results.experiment import EXPERIMENT_FILE, read_experiment
from speedproof.results.files import write_json, write_sealed
from speedproof.results.folder import read_results
from speedproof.results.summary import SUMMARY_FILE, read_summary
from speedproof.results.trace_results import (
    DIFFERENCE_FILE,
    RANKS_FILE,
    Difference,
    RanksSummary,
    RankTimes,
    Term,
    read_difference,
    read_ranks_summary,
)
from speedproof.trace.diff import write_difference
from speedproof.trace.rank_waits import write_ranks_summary
from speedproof.trace.summarize import write_summary
from speedproof.util.errors import RecordError
from tests.report.example import Example, write_example
from tests.report.example_trace import example_summary


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    results = write_example(
        tmp_path_factory.mktemp("experiment") / "results", Example(experiments=1, rounds=1, modes=("timed",))
    )
    return read_experiment(results / "experiments/experiment-1")


def sealed(experiment):
    times = RankTimes(rank=0, epoch_s=1.5, waited_s=0.25, communication_s=None, exposed_s=None)
    term = Term(kind="gpu", part="training", name="forward", a_s=1, b_s=2, seconds_per_epoch=1, seconds_per_sample=None)
    of_pair = dict.fromkeys(("samples_a", "samples_b", "residual_per_sample_s", "total_per_sample_s"))
    epochs = {"epochs_a": 6, "epochs_b": 6, "epoch_a_s": 1, "epoch_b_s": 2, "residual_s": 0, "total_s": 1}
    return {
        EXPERIMENT_FILE: (experiment, read_experiment),
        SUMMARY_FILE: (example_summary("fast", Example(), "2025.3.1"), read_summary),
        RANKS_FILE: (
            RanksSummary(profiler="nsys", basis="backward phase", ranks=[times], waits=[], notes=[]),
            read_ranks_summary,
        ),
        DIFFERENCE_FILE: (Difference(a="one", b="other", terms=[term], **epochs, **of_pair), read_difference),
    }


KINDS = pytest.mark.parametrize("name", [EXPERIMENT_FILE, SUMMARY_FILE, RANKS_FILE, DIFFERENCE_FILE])


@KINDS
def test_another_digit_is_refused_wherever_it_stands(tmp_path, experiment, name):
    value, read = sealed(experiment)[name]
    path = tmp_path / name
    write_sealed(path, value)
    assert read(tmp_path) == value
    text = path.read_text()
    for digit in list(re.finditer(r"\d", text))[::37]:
        path.write_text(text[: digit.start()] + str((int(digit[0]) + 1) % 10) + text[digit.end() :])
        with pytest.raises(RecordError, match=re.escape(str(path))) as caught:
            read(tmp_path)
        assert "\n" not in str(caught.value)


@KINDS
def test_one_of_an_earlier_version_has_no_seal_and_is_read(tmp_path, experiment, name):
    value, read = sealed(experiment)[name]
    write_json(tmp_path / name, value.model_dump(mode="json", exclude={"seal"}))
    assert "seal" not in json.loads((tmp_path / name).read_text())
    assert read(tmp_path) == value


def test_what_speedproof_writes_is_sealed(tmp_path, experiment):
    """The writers themselves: else a kind of file would be read as an earlier version's for ever."""
    kinds = sealed(experiment)
    for name, write in ((SUMMARY_FILE, write_summary), (RANKS_FILE, write_ranks_summary), (DIFFERENCE_FILE, write_difference)):
        write(kinds[name][0], tmp_path)
        assert json.loads((tmp_path / name).read_text())["seal"]


def test_a_run_is_read_from_the_bytes_whose_digest_was_checked(tmp_path, monkeypatch):
    results = write_example(tmp_path / "results", Example(experiments=1, rounds=2, modes=("timed",)))
    opens = Counter()
    open_file = os.open
    monkeypatch.setattr(os, "open", lambda path, *flags: opens.update([Path(path).name]) or open_file(path, *flags))
    runs = read_results(results).runs
    assert len(runs) == 4
    assert (opens["epochs.csv"], opens["run.json"]) == (4, 4)
