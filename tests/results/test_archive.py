"""An archive is unpacked without its top folder, into the folder and nowhere else, or one line says why not."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from speedproof.results.download import unpack
from speedproof.util.errors import DataError

KINDS = ["", "gz", "bz2", "xz"]


@pytest.fixture
def folder(tmp_path):
    """An empty folder to unpack into."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def write_archive(folder, *members, kind=""):
    """Write an archive of `(name, content)` and of ready-made members, and return its path."""
    path = folder / "set.tar"
    with tarfile.open(path, f"w:{kind}") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                name, content = member
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return path


def special(kind, name="set/special", target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def sized(size, name="set/sized"):
    """Return a member that claims a size, by a header of its own: a tape's largest is 8 GiB."""
    member = tarfile.TarInfo(name)
    member.pax_headers = {"size": str(size)}
    return member


def sparse():
    """Return a member of no bytes that claims to become 4 GiB."""
    member = tarfile.TarInfo("set/sparse")
    member.pax_headers = {"GNU.sparse.size": str(2**32), "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}
    return member


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_top_folder_lands_in_the_folder(tmp_path, folder, kind):
    archive = write_archive(tmp_path, ("set/dataset.json", b"{}"), ("set/imagesTr/one.nii.gz", b"image"), kind=kind)
    unpack(archive, folder)
    assert files(folder) == {"dataset.json": b"{}", "imagesTr/one.nii.gz": b"image"}
    assert sorted(path.name for path in folder.iterdir()) == ["dataset.json", "imagesTr"]
    assert archive.exists()


def test_an_archive_without_a_top_folder_lands_as_it_is(tmp_path, folder):
    unpack(write_archive(tmp_path, ("imagesTr/one", b"image"), ("labelsTr/one", b"label")), folder)
    assert files(folder) == {"imagesTr/one": b"image", "labelsTr/one": b"label"}


def test_a_single_file_is_no_top_folder(tmp_path, folder):
    unpack(write_archive(tmp_path, ("one", b"image")), folder)
    assert files(folder) == {"one": b"image"}


def test_what_a_mac_adds_stays_behind(tmp_path, folder):
    unpack(write_archive(tmp_path, ("._set", b"mac"), ("set/one", b"image"), ("set/imagesTr/._one", b"mac")), folder)
    assert files(folder) == {"one": b"image"}


@pytest.mark.parametrize(
    "member",
    [
        ("../outside", b"bad"),
        ("set/../../../outside", b"bad"),
        special(tarfile.SYMTYPE, target="../../../outside"),
        special(tarfile.SYMTYPE, target="/outside"),
        special(tarfile.LNKTYPE, target="../../outside"),
        special(tarfile.SYMTYPE, target="one"),
        special(tarfile.LNKTYPE, target="set/one"),
        special(tarfile.FIFOTYPE),
        special(tarfile.CHRTYPE),
        sized(-512),
        sparse(),
    ],
    ids=[
        "up",
        "down and up",
        "link up",
        "link off",
        "hard link",
        "link",
        "second name",
        "pipe",
        "device",
        "below 0",
        "sparse",
    ],
)
def test_a_member_that_would_leave_the_folder_is_refused(tmp_path, folder, member):
    name = member[0] if isinstance(member, tuple) else member.name
    archive = write_archive(tmp_path, ("set/one", b"image"), member)
    with pytest.raises(DataError) as raised:
        unpack(archive, folder)
    assert str(raised.value) == f"{archive}: {name} would land outside the folder or is not a regular file; do not use it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "set.tar"]


def test_an_absolute_name_lands_in_the_folder(tmp_path, folder):
    unpack(write_archive(tmp_path, (f"{tmp_path}/outside", b"image")), folder)
    assert list(files(folder).values()) == [b"image"]
    assert not (tmp_path / "outside").exists()


def test_rights_are_not_taken_over(tmp_path, folder):
    """Neither the right to run as its owner, nor for others to write; a file for its owner alone could not be shared."""
    member = tarfile.TarInfo("set/one")
    member.mode = 0o6777
    unpack(write_archive(tmp_path, member, ("set/two", b"image")), folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes["one"] == modes["two"] == 0o666 & ~current_umask()


def current_umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_of_a_file_that_stands_twice_the_later_one_counts(tmp_path, folder):
    unpack(write_archive(tmp_path, ("set/one", b"old"), ("set/one", b"new")), folder)
    assert files(folder) == {"one": b"new"}


def test_a_file_in_a_file_is_no_archive(tmp_path, folder):
    assert_not_readable(write_archive(tmp_path, ("set/one", b"image"), ("set/one/two", b"image")), folder)


@pytest.mark.parametrize("kind", ["", "gz"])
def test_a_header_that_claims_more_than_any_memory_is_no_archive(tmp_path, folder, kind):
    header = bytearray(tarfile.TarInfo("set/one").tobuf())
    header[156:157] = tarfile.XHDTYPE  # what follows describes the next file
    header[124:136] = b"\x80" + (2**62).to_bytes(11)
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * ord(" "))
    path = tmp_path / "set.tar"
    path.write_bytes(gzip.compress(bytes(header) * 4) if kind else bytes(header) * 4)
    assert_not_readable(path, folder)


def test_a_terminals_codes_in_a_name_are_shown_and_not_obeyed(tmp_path, folder):
    archive = write_archive(tmp_path, special(tarfile.FIFOTYPE, name="\x1b[2J\nset"))
    with pytest.raises(DataError) as raised:
        unpack(archive, folder)
    assert r": \x1b[2J\x0aset would land outside" in str(raised.value)


def test_python_before_its_tarfile_had_filters_unpacks_alike(tmp_path, folder, monkeypatch):
    """3.11.2, that of Debian 12: what newer versions added is not there."""
    for name in ("FilterError", "data_filter", "tar_filter", "fully_trusted_filter"):
        monkeypatch.delattr(tarfile, name, raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda self, path=".", members=None, *, numeric_owner=False: None)
    unpack(write_archive(tmp_path, ("set/one", b"image")), folder)
    assert files(folder) == {"one": b"image"}
    with pytest.raises(DataError, match="would land outside"):
        unpack(write_archive(tmp_path, ("../outside", b"bad")), folder)


def assert_not_readable(archive, folder):
    with pytest.raises(DataError, match=r"set\.tar: not a readable tar archive \(.+\); delete it and run again") as raised:
        unpack(archive, folder)
    assert "\n" not in str(raised.value)


def random_bytes(count):
    return np.random.default_rng(0).bytes(count)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_that_ends_early_is_named(tmp_path, folder, kind):
    archive = write_archive(tmp_path, ("set/one", random_bytes(50_000)), ("set/two", b"image"), kind=kind)
    archive.write_bytes(archive.read_bytes()[:30_000])
    assert_not_readable(archive, folder)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_damaged_archive_is_named(tmp_path, folder, kind):
    """The damage is behind what bzip2 packs at once, 900 kB: what is before can be read."""
    archive = write_archive(tmp_path, ("set/one", random_bytes(2_000_000)), kind=kind)
    content = archive.read_bytes()
    archive.write_bytes(content[:1_500_000] + bytes(100_000) + content[1_600_000:])
    assert_not_readable(archive, folder)


@pytest.mark.parametrize("content", [b"", b"<html>no archive</html>", bytes(10240)], ids=["nothing", "a page", "no members"])
def test_what_is_no_archive_is_named(tmp_path, folder, content):
    archive = tmp_path / "set.tar"
    archive.write_bytes(content)
    assert_not_readable(archive, folder)


def test_too_little_room_is_said_before_anything_is_unpacked(tmp_path, folder, monkeypatch):
    archive = write_archive(tmp_path, ("set/one", bytes(2 * 2**20)), ("set/two", bytes(2**20)))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(DataError, match=r"folder: unpacking set\.tar needs 3 MiB, the disk has 1 MiB free; make room, or set"):
        unpack(archive, folder)
    assert files(folder) == {}


def test_a_disk_that_fails_is_not_taken_for_a_broken_archive(tmp_path, folder, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", fail)
    with pytest.raises(OSError, match="No space left"):
        unpack(write_archive(tmp_path, ("set/one", b"image")), folder)


def write_zip(folder, *members, **attributes):
    """Write a ZIP archive of `(name, content)`; `attributes` are those of all its members."""
    path = folder / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members:
            member = zipfile.ZipInfo(name)
            for attribute, value in attributes.items():
                setattr(member, attribute, value)
            packed.writestr(member, content)
    return path


def test_a_zip_archive_lands_as_a_tar_archive_does(tmp_path, folder):
    unpack(
        write_zip(tmp_path, ("set/", b""), ("set/val/one.JPEG", b"image"), ("set/._one", b"a Mac's"), ("set/two", b"")), folder
    )
    assert files(folder) == {"val/one.JPEG": b"image", "two": b""}
    assert sorted(path.name for path in folder.iterdir()) == ["two", "val"]


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("../outside", {}), ("set/../../outside", {}), ("set/link", {"external_attr": (stat.S_IFLNK | 0o777) << 16})],
)
def test_what_would_leave_the_folder_of_a_zip_archive_is_refused(tmp_path, folder, name, attributes):
    archive = write_zip(tmp_path, (name, b"/etc"), **attributes)
    with pytest.raises(DataError, match="would land outside the folder or is not a regular file; do not use it"):
        unpack(archive, folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "set.zip"]
    assert files(folder) == {}


@pytest.mark.parametrize("spoil", ["early end", "damage", "password", "nothing", "tar"])
def test_a_zip_archive_that_cannot_be_read_is_named(tmp_path, folder, spoil):
    archive = write_zip(tmp_path, ("set/one", random_bytes(50_000)))
    content = bytearray(archive.read_bytes())
    if spoil == "early end":
        content = content[:30_000]
    elif spoil == "damage":
        content[20_000:20_010] = bytes(10)
    elif spoil == "password":  # a flag in the member's own header and in the list at the end
        content[6] |= 1
        content[content.index(b"PK\1\2") + 8] |= 1
    elif spoil == "nothing":
        content = bytearray()
    else:
        content = bytearray(write_archive(tmp_path, ("set/one", b"image")).read_bytes())
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"set\.zip: not a readable ZIP archive \(.+\); delete it and run again") as raised:
        unpack(archive, folder)
    assert "\n" not in str(raised.value)
