"""What tests of several parts share."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# Before anybody imports torch: one thread a process, in what tests start, too. What they train is tiny and gains nothing by
# more; two tests at once would wait for each other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests measure on the processor beside each other: each process of theirs has locks of its own.
os.environ["SPEEDPROOF_LOCKS"] = f"tests {os.getpid()}"

REQUIRED = os.environ.get("SPEEDPROOF_REQUIRE", "").split(",")


def require(part: str, available: bool, reason: str) -> None:
    """Skip a test whose real part is missing, or fail it where SPEEDPROOF_REQUIRE (a comma-separated list) names the part."""
    if available:
        return
    if part in REQUIRED:
        pytest.fail(f"SPEEDPROOF_REQUIRE demands {part}: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def needs_nsys() -> None:
    require("nsys", shutil.which("nsys") is not None, "nsys is not on PATH")


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real inputs that are not ours to ship: $SPEEDPROOF_SAMPLES, else ../shared/samples beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "samples"
    folder = Path(os.environ.get("SPEEDPROOF_SAMPLES", beside))
    require("samples", folder.is_dir(), f"no samples in {folder}; set SPEEDPROOF_SAMPLES to their folder")
    return folder
