"""Expressions of one million numbers: `python numexpr_expressions.py increment numpy` or `numexpr`."""

import sys

import numexpr
import numpy as np
from timing import print_times

EXPRESSIONS = {"increment": ("a + 1", 1000), "power": ("2*a + b**10", 100)}  # and the calls per repetition
expression, calls = EXPRESSIONS[sys.argv[1]]
numbers = np.random.default_rng(0)
a, b = numbers.random(1_000_000), numbers.random(1_000_000)
compiled = compile(expression, "expression", "eval")


def work():
    for _ in range(calls):
        if sys.argv[2] == "numpy":
            eval(compiled)
        else:
            numexpr.evaluate(expression)


work()  # numexpr compiles the expression at its first use
print_times(work)
