"""Reading NIfTI files quickly: the same voxels and header as nibabel's, decompressed in one piece.

Decompression lets other threads run, so that files are read in parallel, and while other code is imported; nothing here needs
torch or MONAI. What is read stays as the file has it, 16-bit integers mostly: whoever wants others converts them where that is
cheap.
"""

import gzip
import zlib
from pathlib import Path

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from speedproof.errors import TrainingError


def read_nifti(path: Path) -> nibabel.Nifti1Image:
    """Return a volume whose voxels are in memory, read-only and in the file's type unless its header scales them.

    Raises:
        TrainingError: the file is not to be read as NIfTI-1.
    """
    try:
        content = path.read_bytes()
        return _parse(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (ImageFileError, HeaderDataError, WrapStructError, OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise TrainingError(f"{path}: not readable as NIfTI ({reason}); get the file again, and run the step `data`") from None


def _parse(content: bytes) -> nibabel.Nifti1Image:
    image = nibabel.Nifti1Image.from_bytes(content)
    stored = image.dataobj  # nibabel would copy these bytes whenever it is asked for voxels
    if (stored.slope, stored.inter) == (1.0, 0.0):
        voxels = np.frombuffer(content, stored.dtype, int(np.prod(stored.shape)), stored.offset)
        voxels = voxels.reshape(stored.shape, order="F")
    else:
        voxels = np.asanyarray(stored)
    return nibabel.Nifti1Image(voxels, image.affine, image.header)
