"""The lines of known programs, as they print them: each is recognized by its own entry, with its epochs and its unit."""

import re
from pathlib import Path

import pytest

from speedproof.run.known_formats import KNOWN_FORMATS, PATTERNS, recognize, recognize_steps
from speedproof.run.printed_output import LineClock

PRINTED = Path(__file__).parent / "printed"  # what each program prints, a file each
ARRIVED = 1.0  # between two reads below

SAMPLES = [
    ("nanogpt", "nanoGPT", [4.14352, 0.01531, 0.0151]),
    ("modded-nanogpt", "modded-nanogpt", [0.148, 0.021, 0.097]),
    ("llm-c", "llm.c", [3.05636, 3.0004]),
    ("llm-c-python", "llm.c", [1.31252, 1.20541]),
    ("llm-c-cpu", "llm.c on a CPU", [1.987546, 1.92723]),
    ("megatron", "Megatron-LM", [2.716, 1.5005]),
    ("nnu-net", "nnU-Net", [73.05, 60.0]),
    ("hugging-face-trainer", "Hugging Face's Trainer", [0.04]),
    ("hugging-face-trainer-5", "Hugging Face's Trainer", [0.04]),
    ("timm", "timm", [3.123, 0.31]),
    ("openmmlab", "OpenMMLab", [0.0149, 0.0154]),
    ("detectron2", "detectron2", [0.8241, 0.8110]),
    ("torchvision", "torchvision's references", [65, 60]),
    ("pytorch-examples-imagenet", "pytorch/examples, ImageNet", [4.212, 0.25]),
    ("mlperf", "MLPerf", [ARRIVED]),
    ("keras", "Keras", [3 * ARRIVED]),
    ("keras-quiet", "Keras", [2 * ARRIVED]),
    ("lightning", "Lightning's bar", [2 * ARRIVED, ARRIVED]),
    ("lightgbm", "LightGBM", [ARRIVED]),
    ("lightgbm-cli", "LightGBM", [0.25, 0.5]),
    ("xgboost", "XGBoost", [ARRIVED, ARRIVED]),
]


def print_slowly(sample):
    """Return the lines that are searched of a sample whose lines, and draws of a bar, come one a second."""
    clock = LineClock(PATTERNS)
    reads = re.findall(rb"\r?[^\r\n]*\n?", (PRINTED / f"{sample}.txt").read_bytes())
    for at_s, read in enumerate(reads):
        clock.take(read, float(at_s))
    return clock.close(float(len(reads)))


@pytest.mark.parametrize(("sample", "name", "epochs_s"), SAMPLES)
def test_a_known_program_is_recognized_by_what_it_prints(sample, name, epochs_s):
    found = recognize(print_slowly(sample))
    assert found.format.name == name
    assert [epoch.train_s for epoch in found.marks.epochs] == pytest.approx(epochs_s)


@pytest.mark.parametrize("sample", [one[0] for one in SAMPLES])
def test_no_two_known_programs_print_the_same(sample):
    lines = [line.text for line in print_slowly(sample)]
    found = {
        one.name for one in KNOWN_FORMATS if all(any(re.search(pattern, text) for text in lines) for pattern in one.patterns)
    }
    assert len(found) == 1


def test_every_entry_has_a_sample_and_every_sample_an_entry():
    assert {one.name for one in KNOWN_FORMATS} == {name for _, name, _ in SAMPLES}
    assert {path.stem for path in PRINTED.iterdir()} == {sample for sample, _, _ in SAMPLES}


def test_the_first_line_is_shown():
    assert recognize(print_slowly("nanogpt")).sample == "iter 0: loss 4.2667, time 4143.52ms, mfu -100.00%"


def print_steps(*arrivals_s):
    """Return nanoGPT's lines, each of a step of 20 ms, as they come."""
    clock = LineClock(PATTERNS)
    for number, at_s in enumerate(arrivals_s):
        clock.take(f"iter {10 * number}: loss 3.2, time 20.00ms, mfu 1.00%\n".encode(), at_s)
    return clock.close(arrivals_s[-1])


def test_of_times_of_a_few_steps_the_intervals_between_their_lines_are_read():
    # A line every ten steps of 20 ms; 0.1 s of evaluation lie in the second interval.
    found = recognize_steps(print_steps(1.0, 1.2, 1.5, 1.7))
    assert [epoch.train_s for epoch in found.marks.epochs] == pytest.approx([0.2, 0.3, 0.2])
    assert found.format.name == "nanoGPT" and found.marks.times == []


def test_printed_times_of_all_steps_are_read_even_if_the_program_evaluates_between_some():
    found = recognize_steps(print_steps(1.0, 1.02, 1.12, 1.14))
    assert [epoch.train_s for epoch in found.marks.epochs] == pytest.approx([0.02] * 4)


OTHERS = ["epoch 1 took 3 s", "Epoch 1/2\nEpoch 2/2", "iter 10: loss 3.2, time 15", "Epoch time: 3.0 s", ""]


@pytest.mark.parametrize("printed", OTHERS)
def test_other_lines_are_not_guessed_at(printed):
    clock = LineClock(PATTERNS)
    clock.take(printed.encode(), 1.0)
    assert recognize(clock.close(2.0)) is None


def test_an_entry_with_a_time_states_its_unit():
    for one in KNOWN_FORMATS:
        assert one.unit or one.epoch or one.rate or one.name == "torchvision's references"  # prints h:mm:ss
