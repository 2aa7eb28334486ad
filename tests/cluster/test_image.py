import os
from pathlib import Path

import pytest

from speedproof.cluster.build_image import image_path, image_record_path, make_image, record_image, require_space
from speedproof.config.job_resources import Container
from speedproof.results.files import read_record
from speedproof.results.image import ImageRecord
from speedproof.util.errors import ConfigError, SpeedproofError
from speedproof.util.image_file import identify_image


def test_where_the_image_and_its_record_are():
    assert image_path(Container()) == Path("container/speedproof.sif")
    assert image_record_path(Container()) == Path("container/speedproof.json")
    fetched = Container(image="docker://ghcr.io/a/b:1", folder="images")
    assert image_path(fetched) == Path("images/speedproof.sif")
    given = Container(image="/shared/own.sif")
    assert image_path(given) == Path("/shared/own.sif")
    assert image_record_path(given) == Path("container/own.json")


@pytest.mark.parametrize("image", ["my image.sif", "a;touch x.sif", "$(id).sif"])
def test_an_image_that_snakemake_would_execute_is_refused(image):
    with pytest.raises(ValueError, match="image"):
        Container(image=image)


def test_touching_or_copying_an_image_keeps_its_identity_and_another_build_changes_it(tmp_path):
    image = tmp_path / "a.sif"
    image.write_bytes(b"header one" + bytes(10**6))
    before = identify_image(image)
    os.utime(image, (1, 1))
    assert identify_image(image) == before
    image.write_bytes(b"header two" + bytes(10**6))
    assert identify_image(image) != before


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"container\.image: .*none\.sif"):
        identify_image(tmp_path / "none.sif")


def test_the_record_holds_the_files_digest(tmp_path):
    image = tmp_path / "a.sif"
    image.write_bytes(b"abc")
    record_image("a.sif", image, tmp_path / "a.json")
    record = read_record(tmp_path / "a.json", ImageRecord)
    # printf abc | sha256sum
    assert record.digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_too_little_space_is_said_before_anything_is_built(tmp_path):
    require_space(tmp_path, 0)
    with pytest.raises(SpeedproofError, match=r"GiB free, an image needs 1000000 GiB .*container\.scratch"):
        require_space(tmp_path, 10**6)
    with pytest.raises(SpeedproofError, match="no such folder"):
        require_space(tmp_path / "none", 1)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """An `apptainer` that does what a shell script says."""

    def install(script: str) -> None:
        program = tmp_path / "bin" / "apptainer"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    return install


def test_a_failed_build_says_its_first_fatal_line_and_leaves_nothing(tmp_path, stand_in):
    stand_in('echo "INFO: Starting"; echo "FATAL:   no such host"; echo "FATAL:   while building"; exit 255')
    container = Container(scratch=str(tmp_path), scratch_gib=0)
    with pytest.raises(SpeedproofError, match=r"^apptainer build failed: no such host; .*container\.image"):
        make_image(container, tmp_path, tmp_path / "images" / "speedproof.sif")
    assert list((tmp_path / "images").iterdir()) == []
    assert not list(tmp_path.glob("speedproof-image-*"))


def test_a_build_works_in_the_definitions_folder_with_scratch_and_cache_on_local_disk(tmp_path, stand_in):
    stand_in('for word; do image=$before; before=$word; done; echo "$PWD $APPTAINER_TMPDIR $APPTAINER_CACHEDIR" > "$image"')
    definition = tmp_path / "containers"
    definition.mkdir()
    image = tmp_path / "images" / "speedproof.sif"
    make_image(Container(scratch=str(tmp_path), scratch_gib=0), definition, image)
    place, scratch, cache = image.read_text().split()
    assert place == str(definition)
    assert scratch.startswith(f"{tmp_path}/speedproof-image-")
    assert cache.startswith(f"{tmp_path}/speedproof-image-")
