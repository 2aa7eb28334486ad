"""Which tests stay in one process of a run with several."""

import pytest

from tests.support import CLUSTER, PARTS


@pytest.fixture(scope="module")
def made_once() -> object:
    return object()


def group_of(request: pytest.FixtureRequest) -> str | None:
    marker = request.node.get_closest_marker("xdist_group")
    return marker and marker.args[0]


def test_those_that_share_what_their_module_makes_stay_together(request: pytest.FixtureRequest, made_once: object) -> None:
    assert group_of(request) == "tests/test_grouping.py"


def test_others_go_wherever_there_is_room(request: pytest.FixtureRequest, samples_of_nobody: None) -> None:
    assert group_of(request) is None


@pytest.fixture
def samples_of_nobody() -> None:
    """A fixture of each test's own binds it to no process."""


def test_what_needs_a_cluster_needs_a_part() -> None:
    assert CLUSTER < PARTS
