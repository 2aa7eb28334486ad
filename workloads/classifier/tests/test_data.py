"""Where the images come from: the stand-in, a folder of Tiny ImageNet's layout, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from speedproof.api import ConfigError, DataError, read_registry
from speedproof_classifier.data import REGISTRY
from speedproof_classifier.data.prepare import Data, complete, digest_content, prepare_dataset
from speedproof_classifier.data.stand_in import StandIn, make_stand_in
from speedproof_classifier.folder import FolderError, list_images


def cut(image):
    image.write_bytes(image.read_bytes()[:200])


def keep_one_class(folder):
    for other in sorted((folder / "train").iterdir())[1:]:
        shutil.rmtree(other)


SMALL = StandIn(classes=2, images_per_class=3, validation_images=3, test_images=2, pixels=8)


def test_the_stand_in_has_tiny_imagenets_layout(tiny_images):
    train = list_images(tiny_images / "train")
    assert (len(train.paths), train.classes) == (72, ["n00000000", "n00000001", "n00000002"])
    assert train.paths[24].endswith("train/n00000001/images/n00000001_0.JPEG")
    assert [train.labels.count(label) for label in range(3)] == [24, 24, 24]
    with Image.open(train.paths[0]) as image:
        assert (image.format, image.size, image.mode) == ("JPEG", (16, 16), "RGB")
    val = list_images(tiny_images / "val", train.classes)
    assert val.labels == [0, 1, 2, 0, 1, 2]
    assert (tiny_images / "val/val_annotations.txt").read_text().splitlines()[1] == "val_1.JPEG\tn00000001\t0\t0\t15\t15"
    assert len(list_images(tiny_images / "test").paths) == 3


def test_its_classes_can_be_told_apart_by_their_colours(tiny_images):
    """An image's mean colour is nearer to that of its own class' others than to any other class'."""
    train = list_images(tiny_images / "train")
    colours = np.array([np.asarray(Image.open(path)).mean((0, 1)) for path in train.paths])
    labels = np.array(train.labels)
    centres = np.array([colours[labels == label].mean(0) for label in range(3)])
    nearest = np.linalg.norm(colours[:, None] - centres, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.9


def test_the_same_recipe_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed, workers in [("one", 0, 1), ("again", 0, 2), ("other", 1, 1)]:
        (tmp_path / name).mkdir()
        make_stand_in(tmp_path / name, SMALL.model_copy(update={"seed": seed}), workers)
    one, again, other = (digest_content(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again != other


def test_of_the_real_sizes_it_has_the_real_numbers():
    assert StandIn().images == 120_000
    assert 0.4e9 < StandIn().estimate_bytes() < 0.6e9


def test_dataset_json_says_where_and_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    out = tmp_path / "results/dataset.json"
    data = Data(source="stand_in", stand_in=SMALL)
    dataset = prepare_dataset(data, out, workers=1)
    assert (dataset.synthetic, dataset.version) == (True, "11 JPEGs of 8×8, seed 0")
    folder = out.parent / json.loads(out.read_text())["folder"]
    assert dataset.digest == digest_content(folder)
    made = (folder / "wnids.txt").stat().st_mtime_ns
    prepare_dataset(data, out, workers=1)
    assert (folder / "wnids.txt").stat().st_mtime_ns == made
    local = prepare_dataset(Data(source="local", local_folder=str(folder)), out)
    assert (local.digest, local.synthetic) == (dataset.digest, False)


def test_one_changed_image_is_another_dataset(tiny_images, tmp_path):
    folder = shutil.copytree(tiny_images, tmp_path / "copy")
    before = digest_content(folder)
    image = folder / "val/images/val_2.JPEG"
    image.write_bytes(image.read_bytes() + b"\0")  # behind the image's end
    assert digest_content(folder) != before


def test_a_validation_folder_arranged_by_class_is_read_as_well(tiny_images, tmp_path):
    train = list_images(tiny_images / "train")
    val = list_images(tiny_images / "val", train.classes)
    for path, label in zip(val.paths, val.labels, strict=True):
        place = tmp_path / "val" / train.classes[label] / "images"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    assert list_images(tmp_path / "val", train.classes).labels == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: cut(folder / "val/images/val_4.JPEG"), r"val_4\.JPEG: is not a whole image"),
        (lambda folder: (folder / "val/images/val_4.JPEG").write_text("text"), r"val_4\.JPEG: is not a whole image"),
        (
            lambda folder: Image.new("RGB", (16, 8)).save(folder / "val/images/val_4.JPEG"),
            r"val_4\.JPEG: 16×8 pixels, others 16×16",
        ),
        (
            lambda folder: (folder / "val/val_annotations.txt").write_bytes(b"\xff"),
            r"val_annotations\.txt: is not text in UTF-8",
        ),
        (keep_one_class, r"train: 1 classes, where the network tells 2 to 1000 apart"),
    ],
)
def test_images_that_cannot_be_trained_on_are_named(tiny_images, tmp_path, spoil, said):
    folder = shutil.copytree(tiny_images, tmp_path / "copy")
    spoil(folder)
    with pytest.raises(DataError, match=said):
        prepare_dataset(Data(source="local", local_folder=str(folder)), tmp_path / "dataset.json")


@pytest.mark.parametrize("spoil", ["empty", "absent", "strange class", "no class"])
def test_a_folder_of_another_layout_is_refused_in_one_line(tiny_images, tmp_path, spoil):
    folder = shutil.copytree(tiny_images, tmp_path / "copy")
    annotations = folder / "val/val_annotations.txt"
    if spoil == "empty":
        shutil.rmtree(folder / "train")
        (folder / "train").mkdir()
    elif spoil == "absent":
        shutil.rmtree(folder / "val")
    else:
        annotations.write_text({"strange class": "val_0.JPEG\tn9\t0\t0\t1\t1\n", "no class": "val_0.JPEG\n"}[spoil])
    with pytest.raises(DataError, match=r"train|val") as caught:
        prepare_dataset(Data(source="local", local_folder=str(folder)), tmp_path / "dataset.json")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dataset.json").exists()


def test_an_image_that_is_annotated_and_missing_is_named(tiny_images, tmp_path):
    folder = shutil.copytree(tiny_images, tmp_path / "copy")
    (folder / "val/images/val_4.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_4\.JPEG"):
        prepare_dataset(Data(source="local", local_folder=str(folder)), tmp_path / "dataset.json")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"source": "msd"}, "my.yaml: data.source"),
        ({"source": "local"}, "local_folder"),
        ({"stand_in": {"pixel": 64}}, "data.stand_in.pixel"),
        ({"stand_in": {"classes": 0}}, "data.stand_in.classes"),
        ([], "my.yaml: data"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_by_its_key(data, said):
    with pytest.raises(ConfigError) as caught:
        complete({"data": data, "completed": {}}, "my.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_data_need_is_told_before_they_are_fetched():
    needs = complete({"completed": {"variants": {}}}, "my.yaml")["completed"]
    assert (needs["variants"], needs["download_mib"], needs["dataset"]) == ({}, 237, "download")
    assert 450 < needs["data_mib"] < 1000
    made = {"source": "stand_in", "folder": "/scratch/mine", "stand_in": SMALL.model_dump()}
    needs = complete({"data": made, "completed": {}}, "my.yaml")["completed"]
    assert (needs["download_mib"], needs["folders"]["data.folder"]) == (0, "/scratch/mine")
    assert needs["data_mib"] == 11 * 4096 / 2**20
    with pytest.raises(DataError, match="no dataset `cifar` in the registry"):
        complete({"data": {"registry_entry": "cifar"}, "completed": {}}, "my.yaml")


def test_the_registry_has_the_published_archive():
    entry = read_registry(REGISTRY)["tiny_imagenet_200"]
    assert (entry.size_bytes, entry.archive) == (248_100_043, "tiny-imagenet-200.zip")


def test_no_images_at_all_is_an_error_of_its_own(tmp_path):
    with pytest.raises(FolderError, match="no images"):
        list_images(tmp_path / "nowhere")
