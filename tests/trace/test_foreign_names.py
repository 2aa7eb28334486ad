"""Names are names: a trace whose ranges are called otherwise has the same iterations, phases, causes and account."""

import json
from pathlib import Path

import pytest

from speedproof.trace.roles import handles_samples, loads_data, updates, validates
from speedproof.trace.summarize import analyze_trace
from tests.trace.handmade import LOADER, TraceBuilder, two_epochs

# As PyTorch, Lightning and people name what our loop names by the words on the left.
FOREIGN = {
    "epoch": "Epoch {}",
    "dataload": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "forward": "fwd",
    "backward": "loss.backward",
    "update": "Optimizer.step#Adam.step",
    "validation dataload": "validation data loading",
    "sliding window": "evaluate",
    "decollate batch": "eval postprocess",
    "compute metric": "eval score",
    "LoadImage": "read_nifti",
    "RandCrop": "crop",
    "Spacing": "resample",
}


def loaded_by_a_thread() -> TraceBuilder:
    trace = two_epochs()
    trace.range("RandCrop", 8100, 9900, thread=LOADER)
    trace.range("update", 9000, 9950)
    return trace


def exchange(trace: TraceBuilder) -> TraceBuilder:
    epochs = 0
    for row in trace.rows["ranges"]:
        epochs += row["name"] == "epoch"
        row["name"] = FOREIGN[row["name"]].format(epochs)
    return trace


def plain(summary) -> dict:
    """Return a summary under our names, which number no epochs."""
    epochs = [{**epoch.model_dump(), "number": None} for epoch in summary.epochs]
    text = json.dumps({**summary.model_dump(), "found": None, "epochs": epochs})
    for ours, theirs in FOREIGN.items():
        name = theirs.replace("{}", "#")
        for form in (f'"{name}"', f"`{name}`"):
            text = text.replace(form, form.replace(name, ours))
    return json.loads(text)


@pytest.mark.parametrize("make", [two_epochs, loaded_by_a_thread])
def test_only_names_differ_where_only_names_differ(tmp_path, make):
    ours = analyze_trace(make().write(tmp_path / "ours"))
    theirs = analyze_trace(exchange(make()).write(tmp_path / "theirs"))
    assert plain(theirs) == plain(ours)
    assert ours.idle_gaps  # of every kind that the handmade traces have
    assert {idle_gap.cause for idle_gap in ours.idle_gaps} >= {
        "transforms on the CPU",
        "waiting for data",
        "batches made on the CPU",
    }


@pytest.mark.parametrize(
    "name",
    [
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
        "IteratorGetNext",
        "Iterator::Root::Prefetch",
        "Load Data",
        "data_loading",
        "get_batch",
        "data",
        "next batch",
        "Data loading",
        "load",
        "trainGetBatch",
        "prefetch_batch",
    ],
)
def test_what_loads_data_is_known(name):
    assert loads_data(name)


@pytest.mark.parametrize(
    "name",
    [
        *("forward", "DataParallel.forward", "data_parallel", "Optimizer.step#SGD.step", "metadata", "all_gather", "XlaModule"),
        *("compute target batch", "forget_input gate", "widget_sample"),
    ],
)
def test_what_loads_none_is_not_taken_for_it(name):
    assert not loads_data(name)


def test_parts_of_an_epoch_are_known_by_other_names():
    assert all(map(validates, ["validation", "Eval loop", "val_step", "evaluate"]))
    assert not any(map(validates, ["interval", "retrieval", "forward", "autograd::engine::evaluate_function: MulBackward0"]))
    assert updates("Optimizer.step#Adam.step") and updates("optimizer_step") and not updates("epoch update rule")
    assert handles_samples("collate_fn") and handles_samples("preprocess") and not handles_samples("forward")


def test_libraries_ranges_are_no_phases(tmp_path):
    trace = TraceBuilder()
    for number in range(3):
        trace.range(f"step {number}", 100 * number, 100 * number + 100)
        trace.range("forward", 100 * number, 100 * number + 50)
        trace.range("ncclAllReduce", 100 * number + 60, 100 * number + 70)
        trace.range("cub::DeviceRadixSort", 100 * number + 80, 100 * number + 90)
    assert {phase.name for phase in analyze_trace(trace.write(Path(tmp_path))).phases} == {"forward"}
