"""The pairs of runs behind a finding: their mean is its ratio."""

import math
from pathlib import Path
from statistics import fmean

import pytest

from speedproof.report.figures.figure_data import read_evidence
from speedproof.stats.pair_ratios import list_pair_ratios

RECORDS = Path(__file__).parents[2] / "records"


@pytest.mark.parametrize(
    "record",
    [
        "2026-11-22-h200-turbo-four-gpus",  # a scaling
        "2026-11-24-h100-mixed-precision",  # a documented ratio below 1, and one of memory
        "2026-11-27-h100-published-turbo",  # several experiments, and a control
        "2026-11-25-h200-tutorial-pair",  # ratios of the faster variant, whichever is the reference
    ],
)
def test_the_mean_of_the_pairs_is_the_ratio(record):
    evidence = read_evidence(RECORDS / record)
    answer = evidence.answer
    for found in [*answer.mains, *([answer.noise] if answer.noise else [])]:
        ratios = list_pair_ratios(evidence.results, found)
        assert len(ratios) == found.pairs
        assert math.exp(fmean(map(math.log, ratios))) == pytest.approx(found.centre, rel=1e-6)
