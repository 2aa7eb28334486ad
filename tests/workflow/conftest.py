"""Whole runs of the workflow, done once for all tests of a session."""

import pytest

from tests.workflow.checkout import check_out


@pytest.fixture(scope="session")
def finished_kineto(tmp_path_factory):
    """The ci configuration, run to its end with torch.profiler."""
    checkout = check_out(tmp_path_factory.mktemp("kineto"), "profiling={backend: kineto}", "measurement={device: cpu}")
    checkout.snakemake()
    return checkout


@pytest.fixture(scope="session")
def finished_nsys(tmp_path_factory, needs_nsys):
    """The ci configuration's profiled runs with Nsight Systems, and the report of them; timed runs know of no profiler."""
    checkout = check_out(tmp_path_factory.mktemp("nsys"), "profiling={backend: nsys}", "measurement={device: cpu, rounds: 0}")
    checkout.snakemake()
    return checkout
