"""Honest programs, through the command line: none is accused, and what is measured is what an outside clock measures."""

import shutil

import pytest

from tests.adversary.ahead import Ahead, group_trials
from tests.adversary.seeds import choose_seeds
from tests.honest.honest_kinds import HONEST, examine_again
from tests.support import require


@pytest.fixture(scope="session")
def examined_ahead():
    trials = Ahead(lambda honest: examine_again(honest) if is_runnable(honest) else None)
    yield trials
    trials.stop()


def is_runnable(honest):
    return not honest.needs or shutil.which(honest.needs) is not None


def list_honest() -> list:
    """Return each program; `make test` tries one in five, others after the next commit."""
    (seed, *_) = choose_seeds()
    later = [[] if (number + seed) % 5 == 0 else [pytest.mark.adversary] for number in range(len(HONEST))]
    return [
        pytest.param((honest,), id=honest.name, marks=[group_trials("honest", number // 5), *later[number]])
        for number, honest in enumerate(HONEST)
    ]


@pytest.mark.parametrize("tried", list_honest())
def test_it_is_not_accused(tried, examined_ahead, request):
    (honest,) = tried
    if honest.needs:
        require(honest.needs, is_runnable(honest), f"{honest.needs} is not on PATH")
    examined = examined_ahead.result_of(request.node)
    proof = examined.proof
    assert proof.status in (0, 1, 2) and proof.interval, proof.said
    assert [one["sentence"] for one in proof.objections if one["blocks"]] == []
    assert examined.agrees, f"{proof.said} Outside: {examined.outside}"
