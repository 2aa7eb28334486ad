"""Reading NIfTI files quickly: the same voxels and header as nibabel's, decompressed straight to where they stay.

Decompression lets other threads run, so that files are read in parallel, and while torch is imported, which nothing here needs.
What is read stays as the file has it, 16-bit integers mostly: whoever wants others converts them where that is cheap.
"""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from speedproof.errors import TrainingError

# A byte of deflate's stands for 1032 of its output at most (zlib's documentation): a file that claims more is damaged.
_LARGEST_RATIO = 1032
_GZIP_WBITS = zlib.MAX_WBITS + 16


def read_case(case: Mapping[str, str]) -> dict[str, nibabel.Nifti1Image]:
    """Return the volumes of a case's files, by what they are."""
    return {kind: read_nifti(Path(path)) for kind, path in case.items()}


def read_nifti(path: Path) -> nibabel.Nifti1Image:
    """Return a volume whose voxels are in memory, read-only and in the file's type unless its header scales them.

    Raises:
        TrainingError: the file is not to be read as NIfTI-1.
    """
    try:
        content = path.read_bytes()
        return _parse_compressed(content) if path.suffix == ".gz" else _parse(content)
    except (ImageFileError, HeaderDataError, WrapStructError, OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise TrainingError(f"{path}: not readable as NIfTI ({reason}); get the file again, and run the step `data`") from None


def _parse_compressed(content: bytes) -> nibabel.Nifti1Image:
    """Parse a compressed file, whose last four bytes are its length: with that, what comes out is never copied."""
    length = int.from_bytes(content[-4:], "little")
    try:
        return _parse(zlib.decompress(content, _GZIP_WBITS, max(1, min(length, _LARGEST_RATIO * len(content)))))
    except (WrapStructError, OSError, ValueError):  # too short: written by several processors, it is one piece after the other
        return _parse(gzip.decompress(content))


def _parse(content: bytes) -> nibabel.Nifti1Image:
    image = nibabel.Nifti1Image.from_bytes(content)
    stored: Any = image.dataobj  # nibabel would copy these bytes whenever it is asked for voxels
    if (stored.slope, stored.inter) == (1.0, 0.0):
        voxels = np.frombuffer(content, stored.dtype, int(np.prod(stored.shape)), stored.offset)
        voxels = voxels.reshape(stored.shape, order="F")
    else:
        voxels = np.asanyarray(stored)
    return nibabel.Nifti1Image(voxels, image.affine, image.header)
