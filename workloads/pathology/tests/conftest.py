import pytest

from speedproof_pathology.stand_in import StandIn, make_stand_in

REGION, PATCH = 96, 32
TINY = StandIn(training_slides=1, validation_slides=1, slide_pixels=512, training_regions=6, validation_regions=2)


@pytest.fixture(scope="session")
def tiny_slides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    make_stand_in(folder, TINY, REGION, workers=1)
    return folder


@pytest.fixture
def tiny():
    return TINY
