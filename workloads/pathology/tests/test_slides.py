"""Readers of whole slides give the same bytes; what is no slide is refused in one line."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from speedproof_pathology.slides import READERS, make_reader
from speedproof_pathology.stand_in import TILE, write_tiff
from speedproof_pathology.tiff import Slide, SlideError


@pytest.fixture
def slide(tiny_slides):
    return tiny_slides / "training/images/tumor_001.tif"


@pytest.mark.parametrize("place", [(0, 0, 512, 512), (200, 130, 96, 300), (256, 256, 1, 1), (255, 0, 2, 512)])
def test_a_region_is_what_libtiff_decodes(slide, place):
    """Pillow decodes whole slides by libtiff, from the same file."""
    top, left, height, width = place
    with Image.open(slide) as whole:
        expected = np.asarray(whole.convert("RGB"))[top : top + height, left : left + width]
    assert np.array_equal(Slide.open(str(slide)).read(*place), expected)


def test_what_lies_outside_a_slide_is_black(slide):
    whole = Slide.open(str(slide))
    beyond = whole.read(-3, 500, 20, 40)
    assert not beyond[:3].any() and not beyond[:, 12:].any()
    assert np.array_equal(beyond[3:, :12], whole.read(0, 500, 17, 12))
    assert not whole.read(900, 900, 4, 4).any()


@pytest.mark.parametrize("name", READERS)
def test_readers_agree_on_each_pixel(slide, name):
    pytest.importorskip(READERS[name], reason=f"the reader `{name}` needs a package that is not installed here")
    reader = make_reader(name)
    opened = reader.read(str(slide))
    for location, size in (((0, 0), (96, 96)), ((200, 130), (96, 300)), ((450, 450), (96, 96)), ((-9, -7), (20, 20))):
        pixels, meta = reader.get_data(opened, location=location, size=size, level=0)
        assert np.array_equal(np.moveaxis(np.asarray(pixels), 0, -1), Slide.open(str(slide)).read(*location, *size))
        assert meta["backend"] == name and pixels.dtype == np.uint8


def test_tiles_may_share_their_tables(tmp_path, slide):
    """As slides of scanners do: tables once, in a tag, and tiles without."""
    stream = io.BytesIO()
    with Image.open(slide) as whole:
        tile = whole.convert("RGB").crop((0, 0, TILE, TILE))
    tile.save(stream, "JPEG", quality=80)
    opened = Slide.open(str(slide))
    whole_stream, tables, parts = stream.getvalue(), b"", b"\xff\xd8"
    place = 2
    while whole_stream[place + 1] != 0xDA:  # segments up to the scan
        length = 2 + int.from_bytes(whole_stream[place + 2 : place + 4], "big")
        segment = whole_stream[place : place + length]
        if segment[1] in (0xDB, 0xC4):  # quantisation and Huffman tables
            tables += segment
        else:
            parts += segment
        place += length
    write_tiff(tmp_path / "shared.tif", TILE, TILE, iter([parts + whole_stream[place:]]))
    shared = Slide.open(str(tmp_path / "shared.tif"))
    with pytest.raises(SlideError, match=r"shared\.tif: tile 0 cannot be decoded"):
        shared.read(0, 0, 8, 8)
    shared.tables = b"\xff\xd8" + tables + b"\xff\xd9"
    assert np.array_equal(shared.read(0, 0, TILE, TILE), opened.read(0, 0, TILE, TILE))


def test_a_slide_of_more_pixels_than_memory_holds_is_read_tile_by_tile(tmp_path, slide):
    first = Slide.open(str(slide))
    with slide.open("rb") as file:
        file.seek(first.offsets[0])
        tile = file.read(first.lengths[0])
    write_tiff(tmp_path / "large.tif", 97_792, 221_184, iter([tile]))  # of CAMELYON16's size; one tile of it is there
    opened = Slide.open(str(tmp_path / "large.tif"))
    assert (opened.width, opened.height) == (97_792, 221_184)
    assert np.array_equal(opened.read(0, 0, TILE, TILE), first.read(0, 0, TILE, TILE))


def test_what_is_no_slide_is_refused_in_one_line(tmp_path):
    (tmp_path / "text.tif").write_text("text")
    with pytest.raises(SlideError, match=r"text\.tif: cannot be read as a TIFF; get it again"):
        Slide.open(str(tmp_path / "text.tif"))
    Image.new("RGB", (8, 8)).save(tmp_path / "plain.tif")
    with pytest.raises(SlideError, match=r"plain\.tif: is not a TIFF of JPEG tiles in YCbCr; set data\.reader"):
        Slide.open(str(tmp_path / "plain.tif"))


def change_tag(slide, path, tag, place, value):
    """Copy a TIFF with four bytes of a tag's entry changed: 0 its number and type, 4 its count, 8 its value."""
    content = bytearray(slide.read_bytes())
    (table,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, table)
    (entry,) = (at for at in range(table + 2, table + 2 + 12 * entries, 12) if struct.unpack_from("<H", content, at)[0] == tag)
    struct.pack_into("<I", content, entry + place, value)
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("tag", "place", "value"),
    [
        (324, 0, 4 << 16 | 333),
        (325, 0, 4 << 16 | 333),
        (323, 0, 4 << 16 | 333),
        (324, 4, 1),
        (325, 4, 1),
        (322, 8, 0),
    ],
)
def test_a_spoilt_slide_is_refused_in_one_line(tmp_path, slide, tag, place, value):
    """Without the tag of places, of lengths or of a tile's height; with too few of either; of tiles without a width."""
    with pytest.raises(SlideError, match=r"spoilt\.tif: is damaged, its tiles cannot be found; get it again"):
        Slide.open(change_tag(slide, tmp_path / "spoilt.tif", tag, place, value))


def test_a_slide_with_fewer_tiles_than_its_size_needs_is_refused_where_one_is_missing(tmp_path, slide):
    higher = Slide.open(change_tag(slide, tmp_path / "higher.tif", 257, 8, 1 << 20))
    with pytest.raises(SlideError, match=r"higher\.tif: has no tile \d+; get it again"):
        higher.read(1 << 19, 0, 9, 9)


def test_a_tile_of_another_size_is_refused_in_one_line(tmp_path, slide):
    tile = io.BytesIO()
    Image.new("RGB", (8, 8)).save(tile, "JPEG")
    write_tiff(tmp_path / "small.tif", TILE, TILE, iter([tile.getvalue()]))
    with pytest.raises(SlideError, match=r"small\.tif: tile 0 cannot be decoded; get it again"):
        Slide.open(str(tmp_path / "small.tif")).read(0, 0, 9, 9)


def test_a_missing_reader_is_named(monkeypatch):
    monkeypatch.setattr("speedproof_pathology.slides.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"^reader `openslide` needs openslide-python and openslide-bin, which is not"):
        make_reader("openslide")
