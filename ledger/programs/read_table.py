"""Read a table of a million rows of two columns: `python read_table.py csv` or `feather`."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from timing import print_times

SIZE = 1_000_000
file = Path("test." + sys.argv[1])
table = pd.DataFrame({"A": np.random.default_rng(42).standard_normal(SIZE), "B": [1] * SIZE})
if sys.argv[1] == "csv":
    table.to_csv(file)
else:
    table.to_feather(file)


def work():
    for _ in range(20):
        if sys.argv[1] == "csv":
            pd.read_csv(file, index_col=0)
        else:
            pd.read_feather(file)


work()  # warms up
print_times(work, repetitions=3)
file.unlink()
