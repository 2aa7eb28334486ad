"""Serialize an array of 50,000 x 100 numbers to JSON: `python json_numpy.py json` or `orjson`."""

import json
import sys

import numpy as np
import orjson
from timing import print_times

array = np.random.default_rng(0).random((50_000, 100))


def work():
    for _ in range(2):
        if sys.argv[1] == "json":
            json.dumps(array, default=np.ndarray.tolist).encode()
        else:
            orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)


print_times(work, repetitions=3)
