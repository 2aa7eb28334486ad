"""The table of runs: each run's value of the headline's metric, its time by both clocks, and the machine's load."""

import pandas as pd

from speedproof.report.document import Table
from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.setup_sections import compose_runs
from speedproof.results.observations import MachineLoad, Observations
from tests.report.conftest import make_results
from tests.report.example import Example


def list_cells(evidence):
    (table,) = (one for one in compose_runs(evidence) if isinstance(one, Table))
    return [dict(zip(table.header, row, strict=True)) for row in table.rows], table.notes


def test_each_run_has_its_value_of_the_headlines_metric(tmp_path):
    evidence = read_evidence(make_results(tmp_path / "results", Example(experiments=1, rounds=4, modes=("timed",))))
    cells, notes = list_cells(evidence)
    fast = [row["Training epoch"].replace("\xa0", " ") for row in cells if "-fast-" in row["Run"]]
    assert len(fast) == 4 and all(1.0 < float(text.removesuffix(" s")) < 1.2 for text in fast)  # 1.08 s
    assert "Epoch by our clock" not in cells[0] and "Other programs" not in cells[0] and notes == []


def test_both_clocks_and_the_load_of_the_machine_stand_beside_it(tmp_path):
    evidence = read_evidence(make_results(tmp_path / "results", Example(experiments=1, rounds=4, modes=("timed",))))
    run = evidence.results.runs[0]
    # On two cores for 10 s, 5 s of others: a quarter. Without the first epoch 2 s as reported, and 3 s by our clock.
    load = MachineLoad(cores=2, seconds=10, others_cpu_s=5)
    run.run.observed = Observations(arrivals="seen", machine=load)
    columns = {"epoch": [1, 2, 3], "train_s": [9.0, 1.5, 2.0], "validation_s": [None, 0.5, None], "observed_s": [9.0, 3.0, 3.0]}
    epochs = {name: [None] * 3 for name in run.epochs.columns} | columns
    object.__setattr__(run, "epochs", pd.DataFrame(epochs).astype(float))
    run.derived.clear()
    (first, *others), notes = list_cells(evidence)
    shown = {name: first[name].replace("\xa0", " ") for name in ("Epoch as reported", "Epoch by our clock", "Other programs")}
    assert shown == {"Epoch as reported": "2.00 s", "Epoch by our clock": "3.00 s", "Other programs": "25 %"}
    assert {row["Epoch by our clock"] for row in others} == {"–"} and len(notes) == 2
