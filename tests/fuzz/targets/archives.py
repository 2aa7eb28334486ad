"""A tar archive of a stranger: unpacked as a download is; nothing lands elsewhere, and nothing but its own bytes lands here."""

import bz2
import gzip
import io
import lzma
import tarfile
from pathlib import Path
from random import Random

from speedproof.results.download import unpack
from tests.fuzz.calling import Outcome, attempt
from tests.fuzz.mutation import Files, mutate_bytes

NAMES = ["Task/imagesTr/a.nii.gz", "Task/labelsTr/a.nii.gz", "Task/dataset.json", "Task/._dataset.json"]
HOSTILE_NAMES = [
    "../canary", "/etc/canary", "Task/../../canary", "Task/../x", ".", "..", "", "Task",
    "Task/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/",
    "Task/\x1b[31m", "Task/a\nb", "Task/\udcff", ".unpacked", "../.speedproof.json", "Task//x", "Task/imagesTr",
    "Task/link/x", "Task/imagesTr/a.nii.gz/b", "other/x", "~/x", "C:\\x", "Task/\u202ex", "imagesTr",
]  # fmt: skip
KINDS = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
         tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"x", b"Z"]  # fmt: skip
PACKERS = {"tar": bytes, "tar.gz": gzip.compress, "tar.bz2": bz2.compress, "tar.xz": lzma.compress}


def seeds() -> list[Files]:
    return [{f"archive.{kind}": packer(_pack([(name, {}) for name in NAMES]))} for kind, packer in PACKERS.items()]


def _pack(members: list[tuple[str, dict]], form: int = tarfile.GNU_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for name, values in members:
            member = tarfile.TarInfo(name)
            content = name.encode("utf-8", "surrogateescape") * 3
            member.size = len(content)
            for key, value in values.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content.ljust(member.size, b".")) if member.isreg() else None)
    return file.getvalue()


def mutate(random: Random, files: Files) -> Files:
    ((name, content),) = files.items()
    kind = name.partition(".")[2]
    if random.random() < 0.3:
        return {name: mutate_bytes(random, content, random.choice([1, 1, 4, 20]))}
    members = [(NAMES[number], {}) for number in range(len(NAMES))]
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(members) + 1)
        path = random.choice([random.choice(HOSTILE_NAMES), random.choice(NAMES)])
        links = random.choice(
            ["../canary", "/etc/passwd", "../../canary/secret", "Task/imagesTr/a.nii.gz", ".", "a" * 200, "/", ""]
        )
        values = {
            "type": random.choice(KINDS), "linkname": links, "mode": random.choice([0, 0o777, 0o6755, 0o444]),
            "mtime": random.choice([0, -1, 2**40]), "uid": random.choice([0, 2**31]), "uname": "root",
        }  # fmt: skip
        if random.random() < 0.3:
            values["type"] = tarfile.SYMTYPE
            members[at:at] = [("Task/link", {**values, "size": 0}), ("Task/link/x", {})]
        else:
            members.insert(at, (path, {key: values[key] for key in random.sample(sorted(values), random.randrange(1, 4))}))
    try:
        packed = bytearray(_pack(members, random.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])))
    except (ValueError, OSError, UnicodeError):
        packed = bytearray(_pack(members[:2]))
    if random.random() < 0.15:  # a size that the header alone claims, with a checksum that holds
        header = packed[:512]
        header[124:136] = random.choice(
            [b"77777777777\0", b"\x80" + b"\xff" * 11, b"00000000000\0", b"-0000000001\0", b"\x80\0\0\0\0\0\0\xff\0\0\0\0"]
        )
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        packed[:512] = header
    return {name: PACKERS[kind](bytes(packed))}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    ((name, content),) = files.items()
    (folder / "canary").mkdir()
    (folder / "canary/secret").write_text("unchanged")
    (folder / name).write_bytes(content)
    target = folder / "data" / "unfinished"
    target.mkdir(parents=True)
    before = _list_tree(folder, target)
    ended = attempt(lambda: _unpack_as_a_download(folder / name, target), name, "unfinished", "No space", "File too large")
    if _list_tree(folder, target) != before:
        return Outcome("silent", f"something changed outside: {_list_tree(folder, target)}")
    if isinstance(ended, Outcome):
        return ended
    try:
        held = _read_members(content)
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError) as error:
        return Outcome("silent", f"unpacked, though reading it member by member says: {error}")
    unpacked = list(target.rglob("*"))
    for path in unpacked:
        if path.is_symlink() and not path.resolve().is_relative_to(target.resolve()):
            return Outcome("silent", f"{path.name} leads outside, to {path.resolve()}")
        if not (path.is_dir() or path.is_file() or path.is_symlink()):
            return Outcome("silent", f"{path.name} is no plain file")
        if path.is_file() and path.read_bytes() not in held:
            return Outcome("silent", f"{path.name} holds what no member does")
        if path.is_file() and path.stat().st_mode & 0o6022:
            return Outcome("silent", f"{path.name} has the mode {path.stat().st_mode:o}")
    return Outcome("same" if _list_tree(target) == _SOUND else "right")


_SOUND = [(name.removeprefix("Task/"), (name * 3).encode()) for name in sorted(NAMES) if "._" not in name]


def _unpack_as_a_download(archive: Path, target: Path) -> None:
    """Unpack as `speedproof_spleen data` does, which says itself what a disk refuses."""
    from speedproof.util.errors import DataError

    try:
        unpack(archive, target)
    except OSError as error:
        raise DataError(f"{error.filename or target}: {error.strerror}") from None


def _list_tree(folder: Path, without: Path | None = None) -> list[tuple[str, bytes]]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not (without and path.is_relative_to(without)))
    return [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]


def _read_members(content: bytes) -> set[bytes]:
    held = set()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            held.add(file.read(64 << 20) if file else b"")
    return held
