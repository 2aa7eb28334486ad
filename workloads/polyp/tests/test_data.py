"""Where the pairs come from: the stand-in, a folder of Kvasir-SEG's layout, its split, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from speedproof.api import ConfigError, DataError, read_registry
from speedproof_polyp.data import REGISTRY
from speedproof_polyp.data.prepare import Data, complete, digest_content, prepare_dataset, split_pairs
from speedproof_polyp.data.stand_in import StandIn, make_stand_in
from speedproof_polyp.pairs import Pair, list_pairs

SMALL = StandIn(train=2, valid=1, test=1, smallest=(16, 24), largest=(40, 32))


def test_the_stand_in_has_the_split_layout_and_the_range_of_sizes(tiny_pairs):
    pairs = list_pairs(tiny_pairs / "train")
    assert (len(pairs), len(list_pairs(tiny_pairs / "valid"))) == (10, 2)
    sizes = []
    for pair in pairs:
        with Image.open(pair.image) as image, Image.open(pair.mask) as mask:
            assert (image.format, image.mode, mask.mode) == ("JPEG", "RGB", "L")
            assert image.size == mask.size
            sizes.append(image.size)
    assert (sizes[0], sizes[1]) == ((20, 24), (40, 32))
    assert all(20 <= width <= 40 and 24 <= height <= 32 for width, height in sizes)


def test_what_the_mask_marks_can_be_seen_in_the_image(tmp_path):
    make_stand_in(tmp_path, StandIn(train=1, valid=1, test=0, smallest=(200, 160), largest=(200, 160)), workers=1)
    for split in ("train", "valid"):
        (pair,) = list_pairs(tmp_path / split)
        inside = np.asarray(Image.open(pair.mask)) > 127
        brightness = np.asarray(Image.open(pair.image)).mean(2)
        assert 0.05 < inside.mean() < 0.6
        assert brightness[inside].mean() > brightness[~inside].mean() + 20


def test_the_same_recipe_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in [("one", 0), ("again", 0), ("other", 1)]:
        (tmp_path / name).mkdir()
        make_stand_in(tmp_path / name, SMALL.model_copy(update={"seed": seed}), 1)
    one, again, other = (digest_content(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again != other


def test_of_the_real_sizes_it_has_the_real_numbers():
    assert StandIn().pairs == 1000
    assert 30e6 < StandIn().estimate_bytes() < 200e6


def test_dataset_json_says_where_and_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    out = tmp_path / "results/dataset.json"
    data = Data(source="stand_in", stand_in=SMALL)
    dataset = prepare_dataset(data, out, workers=1)
    assert (dataset.synthetic, dataset.version) == (True, "4 pairs of 16×24 to 40×32, seed 0")
    folder = out.parent / json.loads(out.read_text())["folder"]
    assert dataset.digest == digest_content(folder)
    made = folder.stat().st_ctime_ns
    prepare_dataset(data, out, workers=1)
    assert folder.stat().st_ctime_ns == made
    local = prepare_dataset(Data(source="local", local_folder=str(folder)), out)
    assert (local.digest, local.synthetic) == (dataset.digest, False)


def test_pairs_of_the_publishers_archive_are_split_by_a_seed(tiny_pairs, tmp_path, monkeypatch):
    """Its layout: one folder with images/ and masks/, beside which a file of boxes lies."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_pairs / "train", tmp_path / "archive/Kvasir-SEG")
    (tmp_path / "archive/Kvasir-SEG/kavsir_bboxes.json").write_text("{}")
    digests = {}
    for seed in (0, 0, 1):
        data = Data(source="local", local_folder="archive", split_seed=seed)
        dataset = prepare_dataset(data, tmp_path / "dataset.json")
        folder = tmp_path / dataset.folder
        parts = {split: [pair.image.name for pair in list_pairs(folder / split)] for split in ("train", "valid", "test")}
        assert {split: len(own) for split, own in parts.items()} == {"train": 8, "valid": 1, "test": 1}
        assert sorted(name for names in parts.values() for name in names) == [f"polyp_{number:05d}.jpg" for number in range(10)]
        assert digests.setdefault(seed, dataset.digest) == dataset.digest
    assert digests[0] != digests[1]


def test_the_real_number_is_split_as_documented(tmp_path):
    names = [tmp_path / f"{number}.jpg" for number in range(1000)]
    for name in names:
        name.touch()
    split_pairs([Pair(name, name) for name in names], 0, tmp_path / "split")
    assert {split: len(list_pairs(tmp_path / "split" / split)) for split in ("train", "valid", "test")} == {
        "train": 800,
        "valid": 100,
        "test": 100,
    }


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("cut", "is not a whole image"),
        ("other size", "its image"),
        ("no mask", "has no image or no mask"),
        ("absent", r"valid: no images/"),
        ("mask of 0 and 1", r"its brightest pixel is 1 of 255; write polyps as white \(255\)"),
        ("too large", "has more pixels than fit into memory"),
        ("another kind", r"one\.png: images and masks are read from \.jpg alone"),
    ],
)
def test_a_folder_that_cannot_be_trained_with_is_refused_in_one_line(tiny_pairs, tmp_path, monkeypatch, spoil, said):
    folder = shutil.copytree(tiny_pairs, tmp_path / "copy")
    pair = list_pairs(folder / "valid")[0]
    if spoil == "cut":
        pair.image.write_bytes(pair.image.read_bytes()[:-200])
    elif spoil == "other size":
        Image.new("L", (50, 50)).save(pair.mask)
    elif spoil == "no mask":
        pair.mask.unlink()
    elif spoil == "mask of 0 and 1":
        with Image.open(pair.image) as image:
            Image.new("L", image.size, 1).save(pair.mask)
    elif spoil == "too large":
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    elif spoil == "another kind":
        Image.new("L", (50, 50)).save(pair.image.with_name("one.png"))
    else:
        shutil.rmtree(folder / "valid")
    with pytest.raises(DataError, match=said) as caught:
        prepare_dataset(Data(source="local", local_folder=str(folder)), tmp_path / "dataset.json")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dataset.json").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"source": "msd"}, "my.yaml: data.source"),
        ({"source": "local"}, "local_folder"),
        ({"pixels": 250}, "data.pixels"),
        ({"stand_in": {"smallest": [100, 100], "largest": [90, 200]}}, "the other way round"),
        ({"stand_in": {"train": 0}}, "data.stand_in.train"),
        ([], "my.yaml: data"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_by_its_key(data, said):
    with pytest.raises(ConfigError) as caught:
        complete({"data": data, "completed": {}}, "my.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_data_need_and_mean_is_told_before_they_are_fetched(tmp_path):
    image = tmp_path / "tf.sif"
    image.write_bytes(b"an image")
    variants = {
        name: {"command": name, "image": None, "settings": {"framework": name, "command": name}}
        for name in ("tensorflow", "torch")
    }
    completed = complete({"data": {"tensorflow_image": str(image)}, "completed": {"variants": variants}}, "my.yaml")[
        "completed"
    ]
    assert (completed["download_mib"], completed["dataset"], completed["data_mib"]) == (45, "download", 135)
    told = completed["variants"]["tensorflow"]
    assert told["command"] == "tensorflow --pixels 256 --filters 16" == told["settings"]["command"]
    assert (told["image"], told["settings"]["image"]) == (str(image), "tf.sif")
    image.write_bytes(b"another")
    changed = complete({"data": {"tensorflow_image": str(image)}, "completed": {"variants": variants}}, "my.yaml")["completed"]
    assert changed["variants"]["tensorflow"]["settings"]["image_id"] != told["settings"]["image_id"]
    with pytest.raises(ConfigError, match=r"data.tensorflow_image: .*none.sif: No such file"):
        complete({"data": {"tensorflow_image": str(tmp_path / "none.sif")}, "completed": {"variants": variants}}, "my.yaml")
    assert completed["variants"]["torch"]["image"] is None
    asked = {"data": {"tensorflow_image": "/images/tf.sif"}, "measurement": {"variants": ["torch"]}}
    with pytest.raises(ConfigError, match=r"my.yaml: data.tensorflow_image: none of measurement.variants is a variant of"):
        complete({**asked, "completed": {"variants": variants}}, "my.yaml")
    with pytest.raises(DataError, match="no dataset `cvc` in the registry"):
        complete({"data": {"registry_entry": "cvc"}, "completed": {}}, "my.yaml")


def test_the_registry_has_the_published_archive():
    entry = read_registry(REGISTRY)["kvasir_seg"]
    assert (entry.archive, entry.checksum[0]) == ("kvasir-seg.zip", "sha256")
