"""No record is accused: what speaks against the ratios of all of them, by all checks."""

from pathlib import Path

import pytest

from speedproof.results.folder import read_results
from speedproof.stats.measurements import measure_ratio

ROOT = Path(__file__).parents[2]
RECORDS = sorted(path for path in (ROOT / "records").iterdir() if path.is_dir())


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
def test_no_ratio_of_a_record_is_contested(record):
    results = read_results(record, summaries=False)
    ratios = [
        ratio
        for reference, candidate in results.compared_pairs
        for metric in ("training_epoch_s", "process_s")
        for ratio in measure_ratio(results, reference, candidate, "timed", metric)
    ]
    assert ratios or not results.compared_pairs
    blocking = [objection for ratio in ratios for objection in ratio.objections if objection.blocks]
    assert blocking == []
