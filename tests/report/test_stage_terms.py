"""Which stage changes which part of an epoch: hand-made accounts, in seconds."""

from types import SimpleNamespace

import pytest

from speedproof.report.accounts import Account
from speedproof.report.stage_terms import compose_stage_terms, read_stage_accounts

BACKWARD, LAUNCH, COPIES = ("gpu", "backward"), ("idle", "launch-bound"), ("gpu", "dataload")


def make_stages(*stages, unit="epoch"):
    return [Account(title, unit, terms) for title, terms in stages]


def read_rows(stages):
    (table,) = compose_stage_terms(stages)
    return [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.rows]


@pytest.fixture
def stages():
    return make_stages(
        ("first", {BACKWARD: 1.0, LAUNCH: 0.1}),
        ("+ layout", {BACKWARD: 0.5, LAUNCH: 0.3}),
        ("+ kernels", {BACKWARD: 0.2, LAUNCH: 0.31}),
        ("last", {BACKWARD: 0.2, LAUNCH: 0.05, COPIES: 0.01}),
    )


def test_each_part_names_the_stages_that_change_it_and_adds_up(stages):
    assert compose_stage_terms(stages)[0].header[1:3] == ["first", "last"]
    assert read_rows(stages) == [
        ["backward kernels", "1.00 s", "0.200 s", "−0.800 s", "+ layout −0.500 s; + kernels −0.300 s"],
        ["idle GPU, launch-bound", "0.100 s", "50.0 ms", "−50.0 ms", "last −0.260 s; + layout +0.200 s"],
        ["dataload kernels", "0 s", "10.0 ms", "+10.0 ms", "last +10.0 ms"],
        ["all", "1.10 s", "0.260 s", "−0.840 s", "+ layout −0.300 s; + kernels −0.290 s; last −0.250 s"],
    ]


def test_parts_beyond_the_largest_make_one_row():
    many = {("gpu", f"phase {number}"): 0.1 for number in range(12)}
    rows = read_rows(make_stages(("a", many), ("b", many | {BACKWARD: 1.0}), ("c", {BACKWARD: 1.0})))
    assert [row[0] for row in rows[-2:]] == ["5 parts that change less", "all"]
    assert rows[-2][1:] == ["0.500 s", "0 s", "−0.500 s", "c −0.500 s"]


def test_a_ninth_part_has_a_row_of_its_own_and_rounding_is_no_change():
    """0.1 + 0.2 is 0.3 up to 6e-17."""
    many = {("gpu", f"phase {number}"): 0.1 for number in range(8)}
    steady = {BACKWARD: 0.1 + 0.2}
    rows = read_rows(make_stages(("a", many | steady), ("b", steady), ("c", {BACKWARD: 0.3})))
    assert len(rows) == 10
    assert rows[-2] == ["backward kernels", "0.300 s", "0.300 s", "+0 s", ""]


def test_two_stages_or_unlike_units_make_no_table(stages):
    assert compose_stage_terms(stages[:2]) == []
    assert compose_stage_terms([*stages[:3], *make_stages(("last", {BACKWARD: 0.1}), unit="step")]) == []


def run_of(stage, traced=True, by="ranges"):
    shares = [SimpleNamespace(epoch=1, kind="gpu", name="backward", part="training", total_ns=10**9)]
    epochs, found = [SimpleNamespace(index=1)], SimpleNamespace(unit="epoch", by=by, name="epoch", one="a range")
    of_epochs = {"epochs": epochs, "steady_epochs": epochs, "account": shares, "count_epochs_behind": lambda _: 1}
    summary = SimpleNamespace(**of_epochs, found=found, recorded=True, has_gpu=True)
    return SimpleNamespace(run=SimpleNamespace(variant=stage), title=f"+ {stage}", summary=summary if traced else None)


def test_a_traced_stage_also_names_those_before_it_that_were_not_traced_or_do_not_compare():
    """No trace of b and e; the iterations of c were found in another way."""
    runs = {stage: run_of(stage, traced=stage not in ("b", "e"), by="marks" if stage == "c" else "ranges") for stage in "abcde"}
    results = SimpleNamespace(ablation=list("zabcde"), runs=runs.values(), trace_of=runs.get)
    results.of_ablation = lambda: results
    assert [account.title for account in read_stage_accounts(results)] == ["+ a", "+ b and + c and + d"]
