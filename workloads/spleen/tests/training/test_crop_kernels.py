"""Patches that one kernel takes are those of plain torch, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from speedproof_accelerate.resident import TORCH, Buffers, Crops, ResidentVolumes, Volume
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training import loaders
from speedproof_spleen.training.rehearsal import list_kernel_tasks
from speedproof_spleen.training.techniques import choose_crops
from speedproof_spleen.variant import SpleenVariant
from workloads.spleen.tests.training.kernel_checks import DEVICE, TURBO, few, take_patches

CPU, GPU = torch.device("cpu"), torch.device("cuda")
PRECISIONS = [torch.float16, torch.bfloat16, torch.float32]


def random_volumes(shapes, precision=torch.float16):
    """Return volumes; without a GPU of what this precision can hold, since Triton's interpreter does not round to bfloat16."""
    torch.manual_seed(0)
    held = precision if DEVICE.type == "cpu" else torch.float16
    made = [(torch.rand(shape).to(held).half(), torch.randint(0, 256, shape, dtype=torch.uint8)) for shape in shapes]
    return [Volume(image.to(DEVICE), label.to(DEVICE)) for image, label in made]


def assert_crops_as_torch_does(modules, shapes, sides, chosen, corners, precision):
    volumes = random_volumes(shapes, precision)
    chosen, corners = torch.tensor(chosen, device=DEVICE), torch.tensor(corners, device=DEVICE)
    ours, torchs = (
        take_patches(ResidentVolumes(volumes, sides, crops), chosen, corners, precision)
        for crops in (modules.random_crop.CROPS, TORCH)
    )
    for one, other, kind in zip(ours, torchs, (precision, torch.uint8), strict=True):
        assert one.shape == (len(chosen), 1, *sides) and one.dtype == kind and one.is_contiguous()
        assert torch.equal(one, other)


def test_two_patches_worked_out_by_hand(modules):
    """Voxels numbered through two volumes of 2×3×4 and 3×2×3: the last patch begins at 24 + (1·2 + 0)·3 + 1 = 31."""
    numbers = torch.arange(42, dtype=torch.uint8, device=DEVICE).split([24, 18])
    numbered = [one.view(shape) for one, shape in zip(numbers, [(2, 3, 4), (3, 2, 3)], strict=True)]
    volumes = [Volume(one.half(), one) for one in numbered]
    chosen, corners = torch.tensor([0, 1], device=DEVICE), torch.tensor([[0, 0, 0], [1, 0, 1]], device=DEVICE)
    resident = ResidentVolumes(volumes, (2, 1, 2), modules.random_crop.CROPS)
    images, labels = take_patches(resident, chosen, corners, torch.float32)
    assert images.flatten().tolist() == labels.flatten().tolist() == [0, 1, 12, 13, 31, 32, 37, 38]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lowest_and_highest_corners_of_odd_volumes(modules, precision):
    """Patches of more rows, and of longer ones, than a tile has."""
    shapes, sides = [(7, 41, 45), (5, 39, 71), (11, 37, 39)], (3, 37, 39)
    chosen = [2, 0, 0, 1, 2]
    corners = [(0, 0, 0), (4, 4, 6), (0, 0, 0), (2, 2, 32), (8, 0, 0)]
    assert_crops_as_torch_does(modules, shapes, sides, chosen, corners, precision)


@few
@given(st.data(), st.sampled_from(PRECISIONS))
def test_any_patch_of_any_volume(modules, data, precision):
    sides = data.draw(st.tuples(*[st.integers(1, 5), st.integers(1, 40), st.integers(1, 40)]))
    over = st.tuples(*[st.integers(0, 9)] * 3)  # by how much a volume is larger than a patch
    more = data.draw(st.lists(over, min_size=1, max_size=3))
    chosen = data.draw(st.lists(st.integers(0, len(more) - 1), min_size=1, max_size=3))
    corners = [data.draw(st.tuples(*[st.integers(0, room) for room in more[number]])) for number in chosen]
    shapes = [tuple(side + room for side, room in zip(sides, rooms, strict=True)) for rooms in more]
    assert_crops_as_torch_does(modules, shapes, sides, chosen, corners, precision)


def test_patches_are_placed_as_torch_places_them(modules):
    """Volumes with foreground and background, with one of the two alone, and of a patch's own size."""
    torch.manual_seed(0)
    volumes = random_volumes([(9, 7, 8), (5, 6, 11), (12, 5, 5), (4, 5, 3)])
    for number, label in ((1, 0), (2, 1)):
        volumes[number].label.fill_(label)
    chosen = torch.randint(0, 4, (300,), device=DEVICE)  # for more programs than one
    chances = torch.rand((2, 300), dtype=torch.float64, device=DEVICE)
    chances[:, :3] = torch.tensor([[0.0, 0.5, 1 - 2**-53], [1 - 2**-53, 0.0, 0.5]], dtype=torch.float64)
    ours, torchs = (ResidentVolumes(volumes, (4, 5, 3), crops) for crops in (modules.random_crop.CROPS, TORCH))
    found = modules.random_crop.place_patches(ours._buffers, chosen, chances, (4, 5, 3))
    assert torch.equal(found, TORCH.place(torchs._buffers, chosen, chances, (4, 5, 3)))
    assert found[chosen == 3].unique(dim=0).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (6,)])
def test_corners_that_do_not_go_with_their_volumes_are_refused(modules, shape):
    resident = ResidentVolumes(random_volumes([(4, 4, 4)]), (2, 2, 2), modules.random_crop.CROPS)
    corners = torch.zeros(shape, dtype=torch.long, device=DEVICE)
    with pytest.raises(ValueError, match="do not go with 2 chosen volumes"):
        take_patches(resident, torch.zeros(2, dtype=torch.long, device=DEVICE), corners, torch.float16)


def test_the_kernels_are_for_a_gpu_and_a_variant_that_names_it(modules):
    variant = SpleenVariant.model_validate(TURBO)
    assert choose_crops(variant, GPU) is modules.random_crop.CROPS
    assert choose_crops(variant, CPU) is TORCH
    assert choose_crops(variant.model_copy(update={"kernels": ["loss"]}), GPU) is TORCH


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_what_is_rehearsed_is_what_a_loader_asks_for(modules, monkeypatch, ci_config, volumes, precision):
    """On a processor in fp32 whatever the precision, as half precision is a GPU's."""
    calls = []

    def note(*inputs):
        tensors = [one for given in inputs for one in (vars(given).values() if isinstance(given, Buffers) else [given])]
        calls[-1].append([one.dtype if isinstance(one, torch.Tensor) else one for one in tensors if not isinstance(one, tuple)])

    def noting_place(*inputs):
        calls.append([])
        note(*inputs)
        return TORCH.place(*inputs)

    def noting_gather(*inputs):
        note(*inputs)
        return TORCH.gather(*inputs)

    noting = Crops(noting_place, noting_gather)
    monkeypatch.setattr(modules.random_crop, "CROPS", noting)
    monkeypatch.setattr(loaders, "choose_crops", lambda variant, device: noting)
    variant = SpleenVariant.model_validate(TURBO | {"kernels": ["crops"], "precision": precision})
    (task,) = list_kernel_tasks(variant, torch.nn.Identity(), torch.bfloat16, CPU)
    task()
    case = build_case("spleen", ci_config.workload, variant, CPU)
    batch = next(iter(loaders.build_loaders(case, variant, volumes[:3], volumes[3:], CPU).training))
    rehearsed, used = calls[0], calls[-1]  # each: a pass placed, and its first batch gathered
    assert len(rehearsed) == 2
    assert rehearsed == used[:2]
    assert batch["image"].dtype == torch.float32
