"""Read a dataset row by row, shuffled or rewritten in its new order: `python dataset_order.py shuffled` or `flattened`."""

import sys

import datasets
from timing import print_times

ROWS = 20_000
datasets.disable_progress_bars()
columns = {"text": [f"{i} " * 50 for i in range(ROWS)], "label": list(range(ROWS))}
dataset = datasets.Dataset.from_dict(columns).shuffle(seed=42)
if sys.argv[1] == "flattened":
    dataset = dataset.flatten_indices()


def work():
    for _ in dataset:
        pass


print_times(work)
