"""A short run of every target, always of the same inputs: `make fuzz` runs them long. docs/fuzzing.md says what they are."""

import pytest

from tests.fuzz.calling import GOOD
from tests.fuzz.driver import TARGETS, Worker

# By what one of them takes: all of them together take some ten seconds.
INPUTS = {
    "configuration": 50,
    "claims": 50,
    "registry": 100,
    "records": 15,
    "exports": 25,
    "parquet": 40,
    "nifti": 100,
    "archives": 100,
    "leavings": 20,
    "command_line": 14,
}


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_spoilt_is_refused_in_one_line_or_read_as_it_stands(worker, target):
    outcomes = {index: worker.attempt(target, 0, index) for index in range(INPUTS[target])}
    failed = {index: outcome for index, outcome in outcomes.items() if outcome.kind not in GOOD}
    assert not failed, f"python -m tests.fuzz {target} --inputs {INPUTS[target]}"
    assert len({outcome.kind for outcome in outcomes.values()}) > 1  # not all alike, as where a target runs nothing
