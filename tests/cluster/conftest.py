"""Real Apptainer and real Slurm, and what runs in each, once for all tests of a session."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.in_container import AS_BUILDER, ENVIRONMENT, UNUSUAL, measure_program
from tests.cluster.scenarios import Scenarios
from tests.support import require
from tests.workflow.checkout import Checkout, check_out


@pytest.fixture(scope="session")
def base_image() -> Path:
    """The stand-in for NVIDIA's image: $SPEEDPROOF_BASE_IMAGE, made by .ci/base-image.sh."""
    base = Path(os.environ.get("SPEEDPROOF_BASE_IMAGE", "none"))
    require("apptainer", shutil.which("apptainer") is not None, "apptainer is not on PATH")
    require("apptainer", base.is_file(), "SPEEDPROOF_BASE_IMAGE names no image; .ci/base-image.sh makes one")
    return base


def slurm_answers() -> bool:
    return shutil.which("sinfo") is not None and subprocess.run(["sinfo", "-h"], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def needs_slurm() -> None:
    require("slurm", slurm_answers(), "no Slurm answers here; .ci/slurm.sh starts one")


@pytest.fixture(scope="session")
def measuring_container(tmp_path_factory, base_image) -> Iterator[tuple[Checkout, subprocess.Popen[bytes]]]:
    """A tiny program, measured in the container, which was built first; checkout and working folder have unusual names.

    Its image and the doctor's findings are there, its experiment has begun.
    """
    checkout = check_out(tmp_path_factory.mktemp("container") / UNUSUAL, f"container={{base: {base_image}, scratch_gib: 5}}")
    checkout.configuration = str(measure_program(checkout.folder, "tiny", profiled=1))
    command = [*AS_BUILDER, *checkout.command("--use-singularity")]
    with (checkout.folder / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=ENVIRONMENT, cwd=checkout.folder)
    try:
        while process.poll() is None and not (checkout.results / "experiments/experiment-1/plan.json").exists():
            time.sleep(0.5)
        assert not process.poll(), f"{(checkout.folder / 'said').read_text()}\n{checkout.logs()}"
        yield checkout, process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory, measuring_container) -> Iterator[Scenarios]:
    """What runs on Slurm, where it answers: begun before anybody waits for the end of what the container measures."""
    all_of_them = Scenarios(tmp_path_factory.mktemp("slurm"), measuring_container[0])
    with ThreadPoolExecutor(len(all_of_them.all())) as pool:
        if slurm_answers():
            all_of_them.start(pool)
        yield all_of_them


@pytest.fixture(scope="session")
def finished_container(measuring_container, scenarios) -> Checkout:
    """That of `measuring_container`, to its end."""
    checkout, process = measuring_container
    assert process.wait() == 0, f"{(checkout.folder / 'said').read_text()}\n{checkout.logs()}"
    return checkout
