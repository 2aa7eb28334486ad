"""`dataset.json` tells what the volumes are and where they lie; what is there is not made again; errors are one line."""

import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from speedproof.api import DataError, Dataset, read_record
from speedproof_spleen.config import Data, Phantom
from speedproof_spleen.data import prepare
from speedproof_spleen.data.prepare import prepare_dataset
from workloads.spleen.tests.data.volumes import save_case, save_image

TINY = Phantom(size="tiny", seed=5)
OUT = Path("results/study/dataset.json")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def local(folder):
    return Data(source="local", local_folder=str(folder))


def phantom(folder="data"):
    return Data(source="phantom", folder=str(folder), phantom=TINY)


def few_volumes(folder, size, seed, workers):
    save_case(folder, f"{size}_{seed}")


def assert_files_are_there(out):
    files = read_record(out, Dataset).files(out)
    assert all(Path(path).is_file() for file in files for path in file.values())


def test_a_phantom_is_made_and_described(place):
    dataset = prepare_dataset(phantom(), OUT, workers=1)
    assert read_record(OUT, Dataset) == dataset
    assert (dataset.source, dataset.synthetic) == ("phantom", True)
    assert (dataset.name, dataset.version, dataset.licence) == ("Spleen phantom", "tiny, seed 5", "Apache-2.0")
    assert [case.name for case in dataset.cases] == [f"spleen_{number}" for number in range(1, 9)]
    assert dataset.folder == "../../data/phantom-tiny-5"
    assert_files_are_there(OUT)


def test_a_phantom_is_made_once_for_each_recipe(place, monkeypatch):
    made = []

    def make(*arguments):
        made.append(arguments[1:])
        few_volumes(*arguments)

    monkeypatch.setattr(prepare, "make_phantom", make)
    first = prepare_dataset(phantom(), OUT, workers=1)
    assert prepare_dataset(phantom(), OUT, workers=1) == first
    assert made == [("tiny", 5, 1)]
    monkeypatch.setattr(prepare, "recipe_digest", lambda: "of other code")
    prepare_dataset(phantom(), OUT, workers=1)
    assert made == 2 * [("tiny", 5, 1)]


def test_a_phantom_that_finds_no_room_is_not_begun(place, monkeypatch):
    monkeypatch.setattr(prepare, "estimate_bytes", {"tiny": 2 * 2**20}.get)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(DataError, match=r"the phantom `tiny` needs 2 MiB, the disk has 1 MiB free; make room, or set"):
        prepare_dataset(phantom(), OUT)
    assert not OUT.exists()
    assert not list(place.rglob("imagesTr"))


def test_a_download_is_fetched_unpacked_and_described_once(place, publisher, monkeypatch):
    save_case(place / "made" / "Spleen", "spleen_1")
    with tarfile.open(place / "made.tar", "w") as tar:
        tar.add(place / "made" / "Spleen", "Spleen")
    publisher.content = (place / "made.tar").read_bytes()
    entry = publisher.entry()
    monkeypatch.setattr(prepare, "find_entry", lambda _, name: {"Task09_Spleen": entry}[name])
    dataset = prepare_dataset(Data(), OUT)
    assert (dataset.source, dataset.synthetic) == ("msd", False)
    assert (dataset.name, dataset.version, dataset.licence) == ("Spleen, handmade", "1", "CC0-1.0")
    assert dataset.folder == "../../data/Spleen"
    assert_files_are_there(OUT)
    assert prepare_dataset(Data(), OUT) == dataset
    assert len(publisher.asked) == 1


def test_a_download_that_is_unknown_is_an_error(place):
    with pytest.raises(DataError, match="no dataset `Task10_Colon` in the registry"):
        prepare_dataset(Data(registry_entry="Task10_Colon"), OUT)
    assert list(place.iterdir()) == []


def test_a_local_folder_is_described_and_left_as_it_is(place):
    save_case(place / "my volumes", "spleen_1")
    before = sorted(place.rglob("*"))
    dataset = prepare_dataset(local("my volumes"), OUT)
    assert (dataset.source, dataset.synthetic) == ("local", False)
    assert (dataset.name, dataset.version, dataset.licence) == ("my volumes", "unknown", "unknown")
    assert [case.name for case in dataset.cases] == ["spleen_1"]
    assert [path for path in sorted(place.rglob("*")) if "results" not in path.parts] == before


@pytest.mark.parametrize("given", ["volumes", "./volumes/", "results/../volumes"])
def test_a_relative_folder_stays_relative_so_that_both_can_move(place, given):
    save_case(place / "volumes", "spleen_1")
    (place / "results").mkdir()
    assert prepare_dataset(local(given), OUT).folder == "../../volumes"
    moved = place / "moved"
    moved.mkdir()
    for name in ("results", "volumes"):
        (place / name).rename(moved / name)
    assert_files_are_there(moved / OUT)


def test_an_absolute_folder_stays_absolute(place):
    save_case(place / "volumes", "spleen_1")
    assert prepare_dataset(local(place / "volumes"), OUT).folder == f"{place}/volumes"
    assert_files_are_there(OUT)


def test_a_relative_folder_is_found_where_results_are_a_link(place):
    save_case(place / "volumes", "spleen_1")
    (place / "other" / "disk" / "results").mkdir(parents=True)
    (place / "results").symlink_to("other/disk/results")
    assert prepare_dataset(local("volumes"), OUT).folder == "../../../../volumes"
    assert_files_are_there(OUT)


@pytest.mark.parametrize("there", [False, True])
def test_a_local_folder_without_volumes_is_an_error(place, there):
    if there:
        (place / "volumes").mkdir()
    with pytest.raises(DataError, match=r"^volumes: no imagesTr/\*\.nii\.gz; give a folder in the Decathlon layout"):
        prepare_dataset(local("volumes"), OUT)
    assert not OUT.exists()


def test_a_local_folder_with_a_bad_case_is_an_error_and_an_older_description_stays(place):
    save_case(place / "volumes", "spleen_1")
    before = prepare_dataset(local("volumes"), OUT)
    save_image(place / "volumes", "spleen_2")
    with pytest.raises(DataError, match=r"^volumes: repair or remove 1 of 2 cases: spleen_2: no label"):
        prepare_dataset(local("volumes"), OUT)
    assert read_record(OUT, Dataset) == before


def test_a_disk_that_cannot_be_written_to_is_one_line(place):
    (place / "data").write_text("no folder")
    with pytest.raises(DataError, match=r"^data: File exists; check the disk, or set `data\.folder`$"):
        prepare_dataset(phantom(), OUT)
