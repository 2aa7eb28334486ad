"""Where slides come from: the stand-in, a folder of CAMELYON16's layout, and what is refused."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from speedproof.api import ConfigError, DataError
from speedproof_common.data import check_source
from speedproof_pathology.data import Data, complete, digest_content, prepare_dataset
from speedproof_pathology.regions import RegionsError, list_regions
from speedproof_pathology.stand_in import StandIn, draw_regions, draw_tile, make_stand_in

LOCAL = {"source": "local", "region": 96, "patch": 32}


def test_the_stand_in_has_camelyons_layout(tiny_slides):
    assert sorted(path.name for path in (tiny_slides / "training/images").iterdir()) == ["tumor_001.tif", "tumor_002.tif"]
    with Image.open(tiny_slides / "training/images/tumor_001.tif") as slide:
        assert (slide.size, slide.info["compression"], slide.tag_v2[322], slide.tag_v2[323]) == ((512, 512), "jpeg", 256, 256)
    lines = list(csv.reader((tiny_slides / "training.csv").open()))
    assert [len(line) for line in lines] == [12] * 6
    assert {line[0] for line in lines} == {"tumor_001"}
    assert all(48 <= int(place) <= 512 - 48 for line in lines for place in line[1:3])
    assert len(list_regions(tiny_slides, "validate")) == 2


def test_a_patch_is_tumour_where_its_centre_is():
    """Tumour is more violet: less green beside blue. The lists' labels say where."""
    stand_in = StandIn(training_slides=1, validation_slides=1, slide_pixels=512, training_regions=40)
    rows = [np.hstack([draw_tile(stand_in, 0, row, column) for column in (0, 1)]) for row in (0, 1)]
    slide = np.vstack(rows)
    told = 0
    for _, x, y, *labels in draw_regions(stand_in, range(1), 40, 96):
        for number, label in enumerate(labels):
            column, row = divmod(number, 3)  # column by column, as the published lists have them
            down, right = y + (row - 1) * 32, x + (column - 1) * 32
            red, green, _ = slide[down - 4 : down + 4, right - 4 : right + 4].mean(axis=(0, 1))
            told += (green + red < 265) == bool(label)
    assert told >= 0.95 * 360


def test_one_recipe_gives_the_same_bytes(tiny_slides, tiny, tmp_path):
    make_stand_in(tmp_path / "again", tiny, 96, workers=1)
    assert digest_content(tmp_path / "again") == digest_content(tiny_slides)


def test_a_region_is_read_by_its_columns(tmp_path):
    (tmp_path / "training.csv").write_text("tumor_001,700,900,1,0,0,0,1,0,1,1,0\n")
    (region,) = list_regions(tmp_path, "train")
    assert region["image"].endswith("training/images/tumor_001.tif")
    assert region["location"] == [900, 700]
    assert region["label"] == [1, 0, 1, 0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no line"),
        ("tumor_001,1,2,0,0,0\n", "training.csv:1: is none of a slide, x, y"),
        ("a,1,2" + ",0" * 9 + "\na,x,2" + ",0" * 9, "training.csv:2: is none"),
        ("a,1,2" + ",2" * 9, "labels of 0 or 1"),
    ],
)
def test_a_list_that_cannot_be_understood_is_refused_by_its_line(tmp_path, text, said):
    (tmp_path / "training.csv").write_text(text)
    with pytest.raises(RegionsError, match=said):
        list_regions(tmp_path, "train")


def test_a_folder_of_ones_own_is_looked_into(tiny_slides, tmp_path):
    data = check_source(Data, {**LOCAL, "local_folder": str(tiny_slides)}, "config.yaml")
    dataset = prepare_dataset(data, tmp_path / "dataset.json")
    assert (dataset.name, dataset.licence, dataset.synthetic) == ("CAMELYON16", "CC0-1.0", False)
    assert json.loads((tmp_path / "dataset.json").read_text())["content_sha256"] == digest_content(tiny_slides)


@pytest.mark.parametrize("spoil", [lambda slide: slide.unlink(), lambda slide: slide.write_text("no slide")])
def test_a_slide_that_is_none_is_named(tiny_slides, tmp_path, spoil):
    mine = tmp_path / "mine"
    shutil.copytree(tiny_slides, mine)
    spoil(mine / "training/images/tumor_002.tif")
    data = check_source(Data, {**LOCAL, "local_folder": str(mine)}, "config.yaml")
    with pytest.raises(DataError, match=r"tumor_002\.tif: is missing, or no TIFF"):
        prepare_dataset(data, tmp_path / "dataset.json")
    assert not (tmp_path / "dataset.json").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tumor_001,900000000,100,0,0,0,0,0,0,0,0,0", r"training\.csv:1: the region's centre lies outside its slide"),
        ("tumor_001,100,-5,0,0,0,0,0,0,0,0,0", r"training\.csv:1: the region's centre lies outside its slide"),
        (f"tumor_001,100,{'1' * 200_000}", r"training\.csv: cannot be read"),
    ],
)
def test_a_region_that_is_on_no_slide_is_named_by_its_line(tiny_slides, tmp_path, line, said):
    mine = shutil.copytree(tiny_slides, tmp_path / "mine")
    listed = mine / "training.csv"
    listed.write_text(f"{line}\n{listed.read_text()}")
    data = check_source(Data, {**LOCAL, "local_folder": str(mine)}, "config.yaml")
    with pytest.raises(DataError, match=said):
        prepare_dataset(data, tmp_path / "dataset.json")


def test_what_cannot_be_read_or_begun_with_is_refused_before_anything_trains(tiny_slides, tmp_path):
    mine = tmp_path / "mine"
    shutil.copytree(tiny_slides, mine)
    Image.new("RGB", (512, 512)).save(mine / "training/images/tumor_002.tif")
    told = {**LOCAL, "local_folder": str(mine), "reader": "tiles"}
    with pytest.raises(DataError, match=r"tumor_002\.tif: is not a TIFF of JPEG tiles in YCbCr; set data\.reader to cucim"):
        prepare_dataset(check_source(Data, told, "config.yaml"), tmp_path / "dataset.json")
    told = {**LOCAL, "local_folder": str(tiny_slides), "weights": "/nowhere/a.pth"}
    with pytest.raises(DataError, match=r"data\.weights: no file /nowhere/a\.pth"):
        prepare_dataset(check_source(Data, told, "config.yaml"), tmp_path / "dataset.json")
    assert not (tmp_path / "dataset.json").exists()


def test_another_slide_is_another_digest(tiny_slides, tmp_path):
    mine = tmp_path / "mine"
    shutil.copytree(tiny_slides, mine)
    shutil.copy(mine / "training/images/tumor_002.tif", mine / "training/images/tumor_001.tif")
    assert digest_content(mine) != digest_content(tiny_slides)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, r"config\.yaml: data\..*source `local` needs `local_folder`: CAMELYON16 \(CC0-1\.0, some 900 GiB\)"),
        ({**LOCAL, "local_folder": "/a", "patch": 64}, "patches of 64 pixels overlap in a region of 96"),
        ({**LOCAL, "local_folder": "/a", "region": 300, "patch": 50}, "take a multiple of 32"),
        ({"source": "stand_in", "region": 9000}, "larger than a slide"),
        ({"source": "stand_in", "reader": "pillow"}, "data.reader"),
        ({"registry_entry": "camelyon18"}, "no dataset `camelyon18` in the registry; choose one of camelyon16"),
    ],
)
def test_data_that_cannot_be_understood_are_refused(values, said):
    with pytest.raises(ConfigError, match=said) as caught:
        check_source(Data, values, "config.yaml")
    assert "\n" not in str(caught.value)


def test_what_variants_share_is_told_to_each():
    variant = {"command": "train --variant a --data {data}", "settings": {"transforms": "cpu", "command": "x"}}
    values = {
        "data": {"source": "stand_in", "reader": "tiles", "weights": "/w/a b.pth"},
        "completed": {"variants": {"a": variant}},
    }
    completed = complete(values, "config.yaml")["completed"]
    a = completed["variants"]["a"]
    assert a["command"] == (
        "train --variant a --data {data} "
        "--reader=tiles --region=768 --patch=224 --batch=64 --share=0.5 --workers=8 '--weights=/w/a b.pth'"
    )
    assert a["settings"] == {"transforms": "cpu", "command": a["command"]}
    shared = {"reader": "tiles", "region": 768, "patch": 224, "batch": 64, "share": 0.5, "workers": 8, "pretrained": True}
    assert completed["shared"] == shared
    assert completed["data_mib"] > 100
