"""What tests of the ledger share: an entry of two shell scripts, and a proof that measures nothing."""

import hashlib

import pytest
import yaml

from speedproof.run import outside_watch
from speedproof.run.proof.executor import LocalExecutor
from tests.prove.recorded import EPOCHS, leave_experiment, share_warm_ups
from tests.results.publisher import publisher  # noqa: F401 (a fixture)

# Of six rounds, each of which is off by less than a percent.
NOISE = {"a": (1.0, 1.004, 0.996, 1.005, 0.995, 1.0), "b": (1.004, 1.0, 1.0, 0.996, 1.005, 0.995)}


def describe_mine(**changes):
    """Return an entry's keys: about 2×, by a program of ours."""
    values = {
        "title": "Mine against theirs",
        "source": {
            "project": "Example",
            "address": "https://example.org/page",
            "place": "table 1",
            "hardware": "Example 7",
            "data": "none",
        },
        "number": {"text": "Theirs takes 2 s, mine 1 s", "stated": {"comparator": "about", "value": "2.0"}},
        "ours": ["a.sh"],
        "proof": {"commands": ["sh a.sh 2", "sh a.sh 1"], "epoch_s": r"took (\S+)", "rounds": 6},
        "conditions": ["a shell script"],
        "needs": {"minutes": 1},
    }
    return values | changes


def describe_published(content: bytes, path: str = "src/a.sh"):
    """Return keys of an entry whose program is published with this content."""
    files = {path: hashlib.sha256(content).hexdigest()}
    repository = {"repository": "https://github.com/one/two", "commit": "0123456789" * 4}
    return {"published": [{"title": "Two", **repository, "licence": "MIT", "files": files}], "ours": []}


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """A checkout with one entry, `mine`; a function that writes it again with other keys."""
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / "ledger/programs"
    programs.mkdir(parents=True)
    (programs / "a.sh").write_text(EPOCHS)

    def write(**changes):
        text = yaml.safe_dump(describe_mine(**changes), sort_keys=False)
        (tmp_path / "ledger/mine.yaml").write_text(text)

    write()
    return write


@pytest.fixture
def measured(monkeypatch):
    """Have the next proof measure these epochs in seconds."""
    monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())
    share_warm_ups(monkeypatch)

    def measure(a, b):
        seconds = {"a": a, "b": b}

        def leave(executor, setup, progress):
            return leave_experiment(
                executor._out, setup.config, lambda variant, number: seconds[variant] * NOISE[variant][number]
            )

        monkeypatch.setattr(LocalExecutor, "measure", leave)

    return measure
