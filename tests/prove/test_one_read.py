"""Each file of a proof's results is opened a few times only, however many steps use it."""

import builtins
import io
import os
from collections import Counter

import pytest

from speedproof.results.run_record import EPOCHS_FILE
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.proof import prove_request
from speedproof.run.proof.request import check_options

PROGRAM = "for n in 1 2 3; do echo epoch took 100 us; done\n"
# Its digest when the run ends; what the rounds are decided by; the results, from the very bytes whose digest is checked.
MOST_OPENS = 3


@pytest.fixture
def opened(monkeypatch):
    """Count by path how often an `epochs.csv` is opened."""
    counts = Counter()

    def counting(before):
        def opens(path, *words, **named):
            if str(path).endswith(EPOCHS_FILE):
                counts[str(path)] += 1
            return before(path, *words, **named)

        return opens

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", counting(module.open))
    return counts


def prove(place):
    asked = {"commands": ["sh a.sh", "sh b.sh"], "rounds": 4, "epoch_s": r"took (\S+)", "device": "cpu"}
    prove_request(check_options(asked), place / "out", place, Status(quiet=True))


def test_a_proof_opens_the_epochs_of_a_run_four_times_and_reads_finished_results_once(place, opened):
    for name in ("a.sh", "b.sh"):
        (place / name).write_text(PROGRAM)
    prove(place)
    assert len(opened) == 8 and max(opened.values()) <= MOST_OPENS
    assert (place / "out/results/figures/epoch_times.svg").exists()
    opened.clear()
    prove(place)  # nothing is measured
    assert len(opened) == 8 and max(opened.values()) <= 2
