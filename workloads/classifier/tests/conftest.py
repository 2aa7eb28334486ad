import pytest

from speedproof_classifier.data.stand_in import StandIn, make_stand_in

# 72 images train: one whole batch and one of 8.
TINY = StandIn(classes=3, images_per_class=24, validation_images=6, test_images=3, pixels=16)


@pytest.fixture(scope="session")
def tiny_images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    make_stand_in(folder, TINY, workers=1)
    return folder
