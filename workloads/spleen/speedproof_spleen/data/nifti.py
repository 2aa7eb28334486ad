"""Read NIfTI files quickly and to their end: the same voxels and header as nibabel's, or an error.

The checksum of every compressed piece is compared, which nibabel does not reach. A header is trusted only as far as the file
can hold what it claims. Decompression lets other threads run, so files are read in parallel, and while torch is imported,
which nothing here needs. Voxels keep the type of the file, mostly 16-bit integers; the caller converts them.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError
from numpy.typing import NDArray

from speedproof.api import DataError

Affine = NDArray[np.float64]

MOST_VOXELS = 2**30  # 1024×1024×1024; a CT has 512×512×150
SPACINGS_MM = (0.01, 100.0)  # between voxels

# A byte of deflate's stands for 1032 of its output at most (zlib's documentation): a file that claims more is damaged.
_LARGEST_RATIO = 1032
_GZIP_WBITS = zlib.MAX_WBITS + 16
_CHUNK_BYTES = 1 << 16  # of the file at once: what comes out of them is still in the processor's cache when it is copied
_HEADER_BYTES = 348
_OFFSETS = (352, 2**24)  # where voxels may begin: behind the header, and what programs add to it


_PROBLEMS = (
    ImageFileError,
    HeaderDataError,
    WrapStructError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    MemoryError,
    zlib.error,
)


class UnreadableError(Exception):
    """Why a file is not to be read as NIfTI-1."""


def read_case(case: Mapping[str, str], digests: Mapping[str, str] | None = None) -> dict[str, nibabel.Nifti1Image]:
    """Return the volumes of a case's files, by what they are; `digests` are the SHA-256 that files must have, by path."""
    return {kind: read_nifti(Path(path), (digests or {}).get(path)) for kind, path in case.items()}


def read_nifti(path: Path, digest: str | None = None) -> nibabel.Nifti1Image:
    """Return a volume whose voxels are in memory, in the file's type unless its header scales them.

    Raises:
        DataError: the file is not to be read as NIfTI-1, or its SHA-256 is not `digest`.
    """
    try:
        return parse_file(path, digest)
    except UnreadableError as error:
        raise DataError(f"{path}: not readable as NIfTI ({error}); get the file again, and run the step `data`") from None


def parse_file(path: Path, digest: str | None = None) -> nibabel.Nifti1Image:
    """Do as :func:`read_nifti`, but raise an :class:`UnreadableError` that says why alone."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError("no such file" if not path.exists() else "is no file")
        if path.stat().st_size > 8 * MOST_VOXELS:
            raise ValueError(f"{path.stat().st_size:,} bytes are more than a volume has")
        content = path.read_bytes()
        if digest is not None and hashlib.sha256(content).hexdigest() != digest:
            raise ValueError("it was changed after `dataset.json` was written")
        if path.suffix != ".gz":
            return _parse(_fill(iter([content]), len(content)))
        whole = None if digest is None else _decompress_at_once(content)  # with a digest, it was once read to its end
        return _parse(_fill(_decompress(content), _LARGEST_RATIO * len(content)) if whole is None else whole)
    except _PROBLEMS as error:
        raise UnreadableError(_say(error)) from None


def read_header(path: Path) -> nibabel.Nifti1Image:
    """Return a volume of which only the header was read: its shape and affine hold, its voxels are all 0.

    Raises:
        DataError: the file does not begin as NIfTI-1.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_CHUNK_BYTES)
        head = zlib.decompressobj(_GZIP_WBITS).decompress(head) if path.suffix == ".gz" else head
        _read_length(head)
        header = nibabel.Nifti1Header(head[:_HEADER_BYTES])
        return nibabel.Nifti1Image(np.broadcast_to(np.uint8(0), header.get_data_shape()), header.get_best_affine(), header)
    except _PROBLEMS as error:
        raise DataError(f"{path}: not readable as NIfTI ({_say(error)}); get the file again, and run the step `data`") from None


def affine_of(image: nibabel.Nifti1Image) -> Affine:
    """Return an image's affine; if it contradicts the header's spacing, the header's other one (qform), as MONAI does.

    Its numbers are not finite if that other one is not a rotation.
    """
    affine: Affine = image.affine
    if np.allclose(image.header.get_zooms()[:3], nibabel.affines.voxel_sizes(affine)):
        return affine
    try:
        other = image.header.get_qform()
    except ValueError:  # a quaternion longer than 1
        return np.full((4, 4), np.nan)
    return np.asarray(other, np.float32).astype(np.float64)  # a header holds 32 bits of it


def _say(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return " ".join((reason or type(error).__name__).split())[:200]


def _decompress_at_once(content: bytes) -> NDArray[np.uint8] | None:
    """Return all bytes of a gzip file of one compressed piece, as long as its header claims; None for any other file.

    It takes Python's lock a few times, and not for each chunk, so the thread that imports torch meanwhile is not held up. It is
    for known files only: how much comes out of an unknown one is not bounded, and what is behind the piece is not seen.
    """
    head = zlib.decompressobj(_GZIP_WBITS).decompress(memoryview(content)[:_CHUNK_BYTES], _HEADER_BYTES)
    length = _read_length(head) if len(head) == _HEADER_BYTES else 0
    if not 0 < length <= _LARGEST_RATIO * len(content):
        return None
    made = zlib.decompress(content, _GZIP_WBITS, length)  # into a buffer of the right size: nothing is copied
    return np.frombuffer(made, np.uint8) if len(made) == length else None


def _decompress(content: bytes) -> Iterator[bytes]:
    """Yield what comes out of a gzip file, one compressed piece after the other; each one's checksum is compared."""
    view, position = memoryview(content), 0
    while position < len(content):
        stream = zlib.decompressobj(_GZIP_WBITS)
        while not stream.eof:
            if position >= len(content):
                raise EOFError("it ends before its checksum")
            chunk = view[position : position + _CHUNK_BYTES]
            position += len(chunk)
            yield stream.decompress(chunk)
        position -= len(stream.unused_data)


def _fill(pieces: Iterator[bytes], largest: int) -> NDArray[np.uint8]:
    """Return all bytes of a file whose pieces come one by one, once its header has said how many there will be."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= _HEADER_BYTES:
            break
    length = _read_length(head)
    if length > largest:
        raise ValueError(f"its header claims {length:,} bytes, more than the file can hold")
    whole = np.empty(length, np.uint8)
    filled = 0
    for piece in chain([head], pieces):
        if filled + len(piece) > length:
            raise ValueError("something is behind its last voxel")
        whole[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
    if filled < length:
        raise ValueError(f"it ends after {filled:,} of {length:,} bytes")
    return whole


def _read_length(head: bytes) -> int:
    """Return how long a file is by its header, of which nothing is corrected."""
    header = nibabel.Nifti1Header(head[:_HEADER_BYTES], check=False)
    if header["sizeof_hdr"] != _HEADER_BYTES or header["magic"].item() != b"n+1":
        raise ValueError("no header of NIfTI-1 in one file")
    dimensions = int(header["dim"][0])
    shape = [int(length) for length in header["dim"][1 : 1 + dimensions]]
    if not 1 <= dimensions <= 7 or min(shape) < 1:
        raise ValueError(f"its header claims a shape of {shape}")
    voxels = int(np.prod(shape, dtype=object))
    if voxels > MOST_VOXELS:
        raise ValueError(f"its header claims {voxels:,} voxels, {MOST_VOXELS:,} are allowed")
    try:
        kind = header.get_data_dtype()
    except KeyError as code:
        raise ValueError(f"its voxels are of the unknown type {code}") from None
    if kind.kind not in "iuf" or kind.itemsize > 8:
        raise ValueError(f"its voxels are not plain numbers but {kind.name if kind.fields is None else 'colours'}")
    spacings = [float(spacing) for spacing in header["pixdim"][1 : 1 + min(dimensions, 3)]]
    if not all(SPACINGS_MM[0] <= spacing <= SPACINGS_MM[1] for spacing in spacings):
        said = ", ".join(f"{spacing:g}" for spacing in spacings)
        raise ValueError(f"its header claims voxels {said} mm apart, {SPACINGS_MM[0]:g} to {SPACINGS_MM[1]:g} are allowed")
    offset = header.get_data_offset()
    if not _OFFSETS[0] <= offset <= _OFFSETS[1]:
        raise ValueError(f"its header claims that voxels begin at byte {offset}")
    return offset + voxels * int(kind.itemsize)


def _parse(whole: NDArray[np.uint8]) -> nibabel.Nifti1Image:
    header = nibabel.Nifti1Header(whole[:_HEADER_BYTES].tobytes(), check=False)
    if not np.isfinite(header.get_best_affine()).all():
        raise ValueError("its affine is not of finite numbers")
    offset = header.get_data_offset()
    image = nibabel.Nifti1Image.from_bytes(whole[:offset].tobytes())
    stored: Any = image.dataobj  # nibabel would copy these bytes whenever it is asked for voxels
    if (stored.slope, stored.inter) == (1.0, 0.0):
        voxels = np.frombuffer(whole, stored.dtype, int(np.prod(stored.shape)), offset)
        voxels = voxels.reshape(stored.shape, order="F")
    else:
        voxels = np.asanyarray(nibabel.Nifti1Image.from_bytes(whole.tobytes()).dataobj)
    return nibabel.Nifti1Image(voxels, image.affine, image.header)
