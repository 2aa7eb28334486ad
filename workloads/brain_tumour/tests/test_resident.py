"""Crops of resident volumes are those of the documented chain, with equal seeds, but for half precision."""

import nibabel
import numpy as np
import pytest
import torch
from monai.data import CacheDataset
from monai.utils import set_determinism

from speedproof_brain_tumour import phantom
from speedproof_brain_tumour.chains import training_chain
from speedproof_brain_tumour.resident import Draw, ResidentCases, pack_regions, unpack_regions, vary
from speedproof_brain_tumour.variants import FAST

CPU = torch.device("cpu")
CROP = (16, 16, 8)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir()
    for index in range(2):
        phantom.write_case(folder, "tiny", 0, index)
    return [{key: str(folder / f"{key}sTr/BRATS_{n:03d}.nii.gz") for key in ("image", "label")} for n in (1, 2)]


@pytest.fixture
def seeded():
    def chain():
        set_determinism(seed=7)
        return training_chain(FAST, CROP, CPU)

    yield chain
    set_determinism(seed=None)


def lay_out(path, affine, folder):
    """Write a volume's voxels as they are, lying otherwise."""
    image = nibabel.load(path)
    written = folder / f"{path.split('/')[-2]}-{path.split('/')[-1]}"
    nibabel.save(nibabel.Nifti1Image(np.asanyarray(image.dataobj), affine), written)
    return str(written)


LAID_OUT = {
    "as they are": np.diag([1.0, 1.0, 1.0, 1.0]),
    "turned": np.array([[-1.0, 0, 0, 30.0], [0, 1.0, 0, 0], [0, 0, -1.0, -7.0], [0, 0, 0, 1.0]]),
    "another axis first": np.array([[0, 1.0, 0, 0], [1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_crops_are_those_of_the_chain(cases, seeded, name, tmp_path):
    cases = [{key: lay_out(path, LAID_OUT[name], tmp_path) for key, path in case.items()} for case in cases]
    documented = CacheDataset(cases, seeded(), num_workers=1, progress=False)
    resident = ResidentCases(cases, seeded(), CPU, torch.float32, bits=False, kernels=False)
    for number in (0, 1, 1, 0, 1, 0):  # some flipped, scaled and shifted, some not
        expected, found = documented[number], resident[number]
        assert torch.equal(found["label"], torch.as_tensor(expected["label"]).as_subclass(torch.Tensor))
        image = torch.as_tensor(expected["image"]).as_subclass(torch.Tensor)
        torch.testing.assert_close(found["image"], image, rtol=0, atol=2**-8)  # of values to 4: half precision's last bit


def test_regions_are_packed_to_bits_and_back():
    regions = torch.tensor([[0, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0]]).view(3, 4, 1, 1).float()
    bits = pack_regions(regions)
    assert bits.flatten().tolist() == [0, 3, 7, 2]
    assert torch.equal(unpack_regions(bits), regions)


def test_a_crop_worked_out_by_hand():
    """Of 0, 1 and 3: mean 2 and deviation 1 of what is not 0; flipped, twice as large, shifted by 5. A second channel of 4s."""
    crop = torch.tensor([[0.0, 1.0, 3.0], [4.0, 4.0, 0.0]]).view(2, 3, 1, 1).half()
    out = vary(crop, Draw((), (1,), factor=1.0, offset=5.0))
    assert out.flatten(1).tolist() == [[7.0, 3.0, 5.0], [5.0, 5.0, 5.0]]
