"""Cases in the Decathlon layout that are small enough to count by hand."""

import nibabel
import numpy as np

SHAPE = (4, 3, 2)
AFFINE = np.diag([0.5, 0.75, 5.0, 1.0])


def block_label(shape=SHAPE):
    """Return a label whose foreground is a block of 2 x 2 x 1 voxels."""
    label = np.zeros(shape, np.uint8)
    label[1:3, :2, 1] = 1
    return label


def save_image(folder, name, voxels=None):
    """Save an image, by default one of the voxels 0 to 23, and return its path."""
    return _save(folder / "imagesTr", name, np.arange(24).reshape(SHAPE).astype(np.int16) if voxels is None else voxels)


def save_label(folder, name, voxels=None):
    """Save a label, by default the block, and return its path."""
    return _save(folder / "labelsTr", name, block_label() if voxels is None else voxels)


def save_case(folder, name, image=None, label=None):
    """Save an image and its label."""
    save_image(folder, name, image)
    save_label(folder, name, label)


def _save(folder, name, voxels):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.nii.gz"
    nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), path)
    return path
