"""A program's own NVTX ranges as its epochs: which are taken, and what is refused. Values by hand."""

import json
import os
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from speedproof.config.load import check_config
from speedproof.config.reading import Reading
from speedproof.config.workload import find_workload
from speedproof.profilers.nvtx_library import MARK, PUSHED, RECORD, ProcessRanges
from speedproof.report.findings import describe_limits
from speedproof.results.dataset import Dataset
from speedproof.results.run_record import ObservedRanges, read_epochs, read_run
from speedproof.run.conditions import describe_conditions
from speedproof.run.program import ProgramRun, Request, run_program
from speedproof.run.proof.request import check_request
from speedproof.run.read_ranges import read_epoch_ranges
from speedproof.stats.limits import find_observed_ranges
from speedproof.util.errors import ConfigError, RecordError
from tests.profilers.programs import needs_compiler

NO_DATA = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".", cases=[])
# Three epochs of 20 ms, each with ten steps and a validation in it; it prints what it measured itself.
PROGRAM = """
import time, nvtx
for epoch in range(3):
    with nvtx.annotate("epoch"):
        begin = time.perf_counter()
        for step in range(10):
            with nvtx.annotate(f"Batch{step}"):
                time.sleep(0.002)
        took = time.perf_counter() - begin
    print("took", took, "acc", epoch / 2, flush=True)
"""


def left(*ranges, process=1, dropped=0, others=0):
    """A process that left ranges of (name, begin, end) in seconds; an end of 0: it has not ended."""
    records = np.zeros(len(ranges), RECORD)
    for record, (name, begin_s, end_s) in zip(records, ranges, strict=True):
        record["name"], record["begin_ns"], record["end_ns"] = name, begin_s * 1e9, end_s * 1e9
        record["kind"] = MARK if begin_s == end_s else PUSHED
    return ProcessRanges(process, process, records, {0: ""}, dropped, others, 0, 0, 1)


def test_each_range_that_ended_is_an_epoch():
    found = read_epoch_ranges([left(("epoch", 1, 3), ("epoch", 4, 4), ("epoch", 4, 5.5), ("epoch", 6, 0))], "epoch")
    assert [epoch.train_s for epoch in found.epochs] == [2, 1.5]


def test_of_several_ranks_the_first_ones_are_the_epochs():
    found = read_epoch_ranges([left(("Batch0", 1, 2), ("Batch1", 2, 3)), left(("Batch0", 1, 2), ("Batch1", 2, 4))], "Batch*")
    assert [epoch.train_s for epoch in found.epochs] == [1, 1]


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ([], "NVTX did not load into the program"),
        ([left(others=7)], "no range that ended is called 'e*', and 7 are not"),
        ([left(("epoch", 1, 0))], "no range that ended"),
        ([left(("epoch", 1, 2), dropped=3)], "3 ranges called 'e*' did not fit into the buffer"),
        ([left(("epoch", 1, 2), ("end", 2, 3))], "2 kinds of ranges (end, epoch)"),
        ([left(("e1", 1, 4), ("e2", 2, 3))], "overlap, so they cannot be epochs"),
        (
            [left(("e1", 1, 2)), left(("e1", 1, 2), ("e2", 3, 4))],
            "processes have different numbers of ranges called 'e*': 1, 2",
        ),
    ],
)
def test_what_cannot_be_epochs_is_refused(processes, why):
    with pytest.raises(RecordError, match=re.escape(why)):
        read_epoch_ranges(processes, "e*")


def run_variant(tmp_path, program, mode="timed", **variant):
    folder, run = tmp_path / "mine", tmp_path / "01-one"
    folder.mkdir()
    run.mkdir()
    (folder / "train.py").write_text(program)
    variants = {"one": {"title": "One", "command": "{python} {workload}/train.py", **variant}}
    (folder / "workload.yaml").write_text(json.dumps({"title": "Mine", "variants": variants}))
    measured = {"variants": ["one"], "rounds": 2, "profiled": 0, "device": "cpu"}
    config, found = check_config({"case": str(folder), "measurement": measured}), describe_conditions("cpu", 1, NO_DATA)
    request = Request("one", mode, 0, 7, "none" if mode == "timed" else "nsys")
    environ = {"PATH": os.environ["PATH"]}
    with (run / "log.txt").open("wb") as log:
        asked = ProgramRun(config, find_workload(str(folder)), request, run, tmp_path, environ)
        run_program(asked, found, log.fileno())
    return read_run(run), read_epochs(run), (run / "log.txt").read_text()


@needs_compiler
def test_an_unchanged_programs_ranges_agree_with_what_it_prints(tmp_path):
    reads = {"source": "ranges", "epoch_range": "epoch", "quality": r"acc (\S+)"}
    run, epochs, said = run_variant(tmp_path, PROGRAM, epochs=3, reads=reads)
    assert (run.outcome, run.reason) == ("completed", "")
    printed = [float(took) for took in re.findall(r"took (\S+)", said)]
    assert list(epochs["train_s"]) == pytest.approx(printed, rel=0.01, abs=2e-4)
    assert list(epochs["quality"].dropna()) == [0.0, 0.5, 1.0]
    assert (run.observed_ranges.kept, run.observed_ranges.others) == (3, 30)
    assert 1 < run.observed_ranges.other_ns < run.observed_ranges.kept_ns and run.observed_ranges.cost_s < 0.01 * run.process_s


@needs_compiler
def test_a_program_without_epochs_gives_its_steps(tmp_path):
    run, epochs, _ = run_variant(tmp_path, PROGRAM, epochs=30, reads={"source": "ranges", "epoch_range": "Batch*"})
    assert (run.outcome, len(epochs)) == ("completed", 30)
    assert (epochs["train_s"] >= 0.002).all()


@needs_compiler
def test_a_program_that_makes_no_ranges_fails_by_name(tmp_path):
    run, epochs, _ = run_variant(tmp_path, "print(1)", epochs=3, reads={"source": "ranges", "epoch_range": "epoch"})
    assert run.outcome == "failed" and "NVTX did not load" in run.reason and epochs.empty


def test_a_profiled_run_is_never_given_the_library(tmp_path):
    program = "import os; print(sorted(name for name in os.environ if 'NVTX' in name or 'RANGES' in name))"
    run, epochs, said = run_variant(tmp_path, program, "profiled", epochs=3, reads={"source": "ranges", "epoch_range": "epoch"})
    assert (run.outcome, run.epochs, len(epochs), said) == ("completed", 0, 0, "[]\n")


def test_where_nvtx_is_taken_already_it_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/other.so")
    with pytest.raises(ConfigError, match="NVTX_INJECTION64_PATH is set already"):
        run_variant(tmp_path, PROGRAM, epochs=3, reads={"source": "ranges", "epoch_range": "epoch"})


def test_the_library_is_in_all_variants_or_none(tmp_path):
    variants = {
        "one": {"title": "One", "command": "true", "reads": {"source": "ranges", "epoch_range": "epoch"}},
        "two": {"title": "Two", "command": "true"},
    }
    (tmp_path / "workload.yaml").write_text(json.dumps({"title": "Mine", "variants": variants}))
    with pytest.raises(
        ConfigError, match=r"`one` reads epochs from NVTX ranges and `two` does not.*for all variants, or for none"
    ):
        check_config({"case": str(tmp_path), "measurement": {"variants": ["one", "two"], "rounds": 2}})


@pytest.mark.parametrize(
    "values", [{"source": "ranges"}, {"epoch_range": "epoch"}, {"source": "ranges", "epoch_range": "e", "epoch": "e"}]
)
def test_a_source_says_what_it_needs(values):
    with pytest.raises(ValueError, match="ranges"):
        Reading(**values)


def test_prove_takes_the_name_of_the_ranges():
    request = check_request({"commands": ["a", "b"], "epoch_range": "Batch*"}, "prove")
    assert request.named_reading() == Reading(source="ranges", epoch_range="Batch*")
    with pytest.raises(ConfigError, match="epoch_range: is a source by itself"):
        check_request({"commands": ["a", "b"], "epoch_range": "e", "epoch_s": "(e)"}, "prove")


@needs_compiler
def test_the_warm_up_counts_the_ranges(tmp_path, monkeypatch):
    from speedproof.run.proof.left_files import take_snapshot
    from speedproof.run.proof.warm_up import warm_up
    from speedproof.run.proof.workspace import ProofBasis

    source, out = tmp_path / "here", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / "a.py").write_text(PROGRAM)
    request = check_request({"commands": [f"{sys.executable} a.py"] * 2, "epoch_range": "epoch", "device": "cpu"}, "prove")
    commands = dict(zip("ab", request.commands, strict=True))
    reading = request.named_reading()
    measured = ProofBasis(out, request, commands, take_snapshot(source, out), os.environ).describe(reading, {})
    assert warm_up(out, measured.config, measured.workload, request).epochs == {"a": 3, "b": 3}


def test_the_report_says_what_a_variants_ranges_cost_it_at_most():
    def run(kept, others):
        observed = ObservedRanges(kept=kept, others=others, kept_ns=200.0, other_ns=25.0)
        return SimpleNamespace(run=SimpleNamespace(observed_ranges=observed, process_s=10.0))

    runs = {"one": [run(5, 0), run(5, 400_000)], "two": [SimpleNamespace(run=SimpleNamespace(observed_ranges=None))]}
    results = SimpleNamespace(variants={"one": "One", "two": "Two"}, select=lambda variant, mode: runs[variant])
    said = [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in describe_limits(find_observed_ranges(results))]
    assert said == [  # 5 × 200 ns and 400,000 × 25 ns are 10.001 ms of 10 s
        "One: recording its NVTX ranges took at most 0.1 % of a run's time (5 ranges of the epochs' name at 200 ns each, "
        "400000 others at 25 ns, as measured before the run)."
    ]
