"""Output as programs write it: progress bars that are drawn again and again, tables, notebooks, padded columns."""

import json

import pytest

from speedproof.config.reading import Reading
from speedproof.run.printed_output import LineClock
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import read_lines
from speedproof.util.errors import RecordError


def read(*outputs, **reading):
    """Read what came in several reads, one each second."""
    asked = Reading(source="lines", **reading)
    clock = LineClock(asked.patterns)
    for at_s, output in enumerate(outputs):
        clock.take(output.encode(), float(at_s))
    return read_lines(clock.close(float(len(outputs))), asked)


def test_of_a_keras_bar_the_last_state_is_its_epochs():
    bars = [
        "Epoch 1/2\n",
        "\r\x1b[1m  1/469\x1b[0m \x1b[37m━━━━━━━━\x1b[0m \x1b[1m1:23\x1b[0m 178ms/step - loss: 2.3\b\b",
        "\r\x1b[1m300/469\x1b[0m ━━━━━━\x1b[37m━━\x1b[0m 2s 4ms/step - loss: 1.1",
        "\r\x1b[1m469/469\x1b[0m ━━━━━━━━ 3s 3ms/step - loss: 0.9\n",
        "Epoch 2/2\n\r200/469 ━━━━━━ 2s 9ms/step - loss: 0.7\r469/469 ━━━━━━━━ 3s 5ms/step - loss: 0.5\n",
    ]
    found = read(*bars, epoch_s=r"(\d+)ms/step", quality=r"loss: (\S+)")
    assert [epoch.train_s for epoch in found.epochs] == [0.003, 0.005]
    assert [value for _, value, _ in found.qualities] == [0.9, 0.5]


def test_of_a_tqdm_bar_the_complete_state_counts_once():
    bars = [
        "\rEpoch 1/2:   0%|          | 0/10 [00:00<?, ?it/s]",
        "\rEpoch 1/2:  50%|█████     | 5/10 [00:01<00:01,  4.00it/s]",
        2 * "\rEpoch 1/2: 100%|██████████| 10/10 [00:02<00:00,  5.00it/s]",
        "\nEpoch 2/2: 100%|██████████| 10/10 [00:01<00:00,  8.00it/s]\n",
    ]
    assert [epoch.train_s for epoch in read(*bars, rate=r"([\d.]+)it/s").epochs] == [0.2, 0.125]


def test_a_bar_that_names_its_epochs_has_as_many_and_the_last_one_ends_with_its_last_draw():
    # One row for all epochs, as Lightning draws it, with a row of its own for validation.
    bars = [
        "\rEpoch 0:   0%|          | 0/10",
        "\rEpoch 0: 100%|██████████| 10/10\n\rValidation:  50%|█████     | 1/2",
        "\rEpoch 0: 100%|██████████| 10/10",
        "\rEpoch 1:   0%|          | 0/10",
        "\rEpoch 1: 100%|██████████| 10/10\n",
    ]
    assert [epoch.train_s for epoch in read(*bars, epoch=r"Epoch \d+").epochs] == [3.0, 1.0]
    assert [epoch.train_s for epoch in read(*bars[:4], epoch=r"Epoch \d+").epochs] == [3.0]  # the last has not ended


def test_lines_that_merely_repeat_are_epochs_each():
    assert len(read("Epoch 1\n", "Epoch 1\n", "Epoch 1\n", epoch="^Epoch").epochs) == 2
    redrawn = ("took 1 s\r", "took 1 s\r", "took 2 s\n")  # no bar
    assert [epoch.train_s for epoch in read(*redrawn, epoch_s=r"took (\S+) s").epochs] == [1, 1, 2]


def test_lines_that_end_as_on_windows_are_no_bars():
    found = read("=== Epoch 1/2 took 3 s ===\r\n=== Epoch 2/2 took 4 s ===\r", "\n", epoch_s=r"took (\S+) s")
    assert [epoch.train_s for epoch in found.epochs] == [3, 4]


def test_bars_that_never_end_are_named():
    with pytest.raises(RecordError, match="matches progress bars only, none of which comes to its end"):
        read("\r 10%|█    | 1/10 [00:01, 1.0it/s]", "\r 20%|██   | 2/10 [00:02, 1.0it/s]\n", rate=r"([\d.]+)it/s")


def test_a_table_of_rich_is_read():
    table = "┏━━━━━━━┳━━━━━━━━━┓\n┃ epoch ┃ seconds ┃\n┡━━━━━━━╇━━━━━━━━━┩\n"
    table += "\x1b[1m│     1 │\x1b[0m    0.52 │\n│     2 │    0.41 │\n└───┘\n"
    assert [epoch.train_s for epoch in read(table, epoch_s=r"│\s+\d+ │\s+(\S+)").epochs] == [0.52, 0.41]


def test_padded_columns_of_a_table_are_read(tmp_path):
    (tmp_path / "log.csv").write_text("\ufeffepoch ,  took,   acc\n    1 ,   0.5,  0.25\n    2 ,   0.4,  0.50\n")
    found = read_file(tmp_path, Reading(source="file", file="log.csv", epoch_s="took", quality="acc"))
    assert [(epoch.train_s, epoch.quality) for epoch in found.epochs] == [(0.5, 0.25), (0.4, 0.5)]


def test_the_cells_of_a_notebook_are_read_by_patterns(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["took 9 s"]},
        {"cell_type": "code", "outputs": [{"name": "stdout", "text": ["epoch 1 took 0.5 s\n", "epoch 2 took 0.4 s"]}]},
        {"cell_type": "code", "outputs": [{"data": {"text/plain": "'acc: 0.75'"}}]},
    ]
    (tmp_path / "done.ipynb").write_text(json.dumps({"cells": cells}))
    asked = Reading(source="file", file="*.ipynb", epoch_s=r"took (\S+) s", quality=r"acc: ([\d.]+)")
    found = read_file(tmp_path, asked)
    assert [epoch.train_s for epoch in found.epochs] == [0.5, 0.4]
    assert found.qualities[-1][1] == 0.75


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("{}", r"took (\S+)", "done.ipynb: is not a notebook; name another file"),
        ('{"cells": [1]}', r"took (\S+)", "done.ipynb: is not a notebook; name another file"),
        ('{"cells": []}', "took", r"done.ipynb: a notebook is read by a pattern with one \(group\)"),
        ('{"cells": []}', r"took (\S+)", "no printed line matches"),
    ],
)
def test_what_is_wrong_with_a_notebook_is_said(tmp_path, text, column, said):
    (tmp_path / "done.ipynb").write_text(text)
    with pytest.raises(RecordError, match=said):
        read_file(tmp_path, Reading(source="file", file="*.ipynb", epoch_s=column))


def test_what_is_printed_behind_a_bar_is_no_part_of_it():
    """Bar and line come by two streams to one terminal, and the bar is never drawn at its end."""
    draws = [f"\r{10 * step:3d}%|{'#' * step:<10}| {step}/10 [00:00, 5.0it/s]" for step in range(10)]
    found = read(*draws, "epoch 0 took 0.5 s\r\n", *draws, "epoch 1 took 0.25 s\r\n", epoch_s=r"took (\S+) s")
    assert [epoch.train_s for epoch in found.epochs] == [0.5, 0.25]
    with pytest.raises(RecordError, match="progress bars only"):
        read(*draws, "took 0.5 s", epoch_s=r"took (\S+) s")  # ended in the middle of a row
