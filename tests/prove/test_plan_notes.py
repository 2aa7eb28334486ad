"""Lines of a proof's plan about the work that is compared."""

import pytest

from speedproof.config.reading import Reading
from speedproof.run.known_formats import KNOWN_FORMATS
from speedproof.run.proof.plan_notes import (
    count_plural,
    count_readings,
    describe_stop_after,
    describe_warm_caches,
    find_counted,
    name_rate,
    question_batch_sizes,
)
from speedproof.stats.measure_names import title_metric

NANOGPT = KNOWN_FORMATS[0]


@pytest.mark.parametrize(
    ("reading", "counted"),
    [
        (NANOGPT.reading, "step"),
        (NANOGPT.by_arrival().reading, "interval"),
        (Reading(source="lines", epoch_s=r"took (\S+)"), "epoch"),
        (Reading(source="lines", epoch="done"), "epoch"),
        (Reading(source="lines", epoch=r"\[Batch 0/"), "epoch"),
        (Reading(source="lines", epoch=r"^\s*\d+\sstep"), "step"),
        (Reading(source="lines", epoch_s=r"iter_dt (\S+)ms"), "step"),
        (Reading(source="lines", epoch_s=r"Epoch of 9 steps took (\S+)"), "epoch"),
        (Reading(source="lines", epoch="literal"), "epoch"),
        (Reading(source="marks"), "epoch"),
    ],
)
def test_an_epoch_is_called_what_it_is(reading, counted):
    assert find_counted(reading) == counted


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"achieved tok/s: (\S+)", "tok/s"),
        (r"(\d+)\s+images per second", "images/s"),
        (r"([\d.]+)\sit/sec", "it/s"),
        (r"SPS: (\d+)", "SPS"),
        (r"throughput (\S+)", "rate"),
        (r"(\S+) samples/s", None),
        (r"train_samples_per_second': (\S+)", None),
    ],
)
def test_a_rate_is_called_by_the_unit_in_its_pattern(pattern, name):
    reading = Reading(source="lines", rate=pattern)
    assert name_rate(reading) == name
    assert count_readings(2, reading) == "2 printed rates"
    title = title_metric("samples_per_s", "training samples per second", "epoch", name)
    assert title == (name or "training samples per second")


def test_intervals_are_counted():
    assert [count_plural(number, "interval") for number in (1, 2)] == ["1 interval between lines", "2 intervals between lines"]


def test_of_two_epochs_the_first_is_compared_too_and_of_three_it_is_not():
    said = "ended early: each run ends after its first"
    assert describe_stop_after(2, "step") == (
        f"{said} 2 steps; start-up in the first one is compared, too: --stop-after 4 leaves it out"
    )
    assert describe_stop_after(3, "epoch") == f"{said} 3 epochs; the first one may include start-up and is not compared"


def test_warm_caches_are_named_if_a_command_compiles():
    commands = ["python a.py", "python a.py --compile"]
    assert "--caches cold compares with cold ones" in describe_warm_caches(commands, "warm", 3)
    assert describe_warm_caches(commands, "cold", 0) is None
    assert describe_warm_caches(commands, "warm", 0) is None
    assert describe_warm_caches(["python a.py", "python b.py"], "warm", 3) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--batch-size 64", "--batch-size=128"), "condition: batch-size is 64 against 128, so a step is different work"),
        (("--lr 1", "--batch_size=128"), "condition: batch_size is the default against 128"),
        (("-b 64", "-b 32"), "condition: b is 64 against 32"),
        (("--batch-size 64", "--batch-size 64"), None),
        (("--workers 4", "--workers 8"), None),
    ],
)
def test_steps_of_different_batches_are_different_work(options, said):
    question = question_batch_sizes([f"python train.py {one}" for one in options], "step")
    assert question is None if said is None else question.startswith(said)
    assert question_batch_sizes([f"python train.py {one}" for one in options], "epoch") is None
