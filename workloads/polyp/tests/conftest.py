import pytest

from speedproof_polyp.data.stand_in import StandIn, make_stand_in

# 10 pairs train: one whole batch and one of 2.
TINY = StandIn(train=10, valid=2, test=0, smallest=(20, 24), largest=(40, 32))


@pytest.fixture(scope="session")
def tiny_pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    make_stand_in(folder, TINY, workers=1)
    return folder
