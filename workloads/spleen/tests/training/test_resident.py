"""The resident cache: the same volumes and the same chances as MONAI's own chain, without its detours."""

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from monai.metrics import DiceMetric
from monai.networks.utils import one_hot
from monai.transforms import RandCropByPosNegLabeld
from scipy.stats import chisquare

from speedproof.api import Case, Dataset, available_cores, read_epochs, read_run, sha256_of
from speedproof_accelerate.resident import PatchLoader, ResidentVolumes, Volume
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.segmentation.dice import DeviceDice
from speedproof_spleen.training.loaders import build_loaders, build_store
from speedproof_spleen.training.preparation import Store, prepare_volumes
from speedproof_spleen.training.reading import Readings, begin_early
from speedproof_spleen.training.run import Request, run_training
from speedproof_spleen.variant import SpleenVariant
from workloads.spleen.tests.training.kernel_checks import take_patches

CPU = torch.device("cpu")
TURBO = {
    "title": "Turbo",
    "cache": "resident",
    "track_meta": False,
    "batch_size": 2,
    "optimizer": {"name": "adam", "learning_rate": 1e-3, "fused": True},
    "precision": "bf16",
    "memory_format": "channels_last",
    "cudnn": "heuristic",
    "scoring": "device",
    "toolkit": "torch",
    "window_batch": 8,
    "epochs": 2,
    "validate_every": 1,
}


@pytest.fixture(autouse=True)
def _as_in_a_fresh_process():
    torch.manual_seed(0)


@pytest.fixture
def turbo_config(ci_config, tmp_path):
    # In fp32: half-precision sums on a CPU differ from run to run.
    turbo = TURBO | {"prepared_folder": str(tmp_path / "prepared"), "precision": "fp32"}
    turbo |= {"kernels": ["norm", "convolutions", "loss", "crops"], "launch": "graphs", "loss": {"name": "dice_ce"}}
    variants = {**ci_config.variants, "turbo": SpleenVariant.model_validate(turbo)}
    return ci_config.model_copy(update={"variants": variants})


def example_volume(shape, foreground):
    """Return a volume with a few foreground voxels, half of whose background is darker than any patch may be centred on."""
    image = torch.rand(shape)
    image[image < 0.5] = 0.0
    label = torch.zeros(shape, dtype=torch.uint8)
    for place in foreground:
        label[place] = 1
    return Volume(image.half(), label)


def corner_chances(volume, patch):
    """Return the chance of each corner by the documented rule, worked out voxel by voxel."""
    chances = Counter()
    kinds = [np.argwhere((volume.label > 0).numpy()), np.argwhere(((volume.label == 0) & (volume.image > 0)).numpy())]
    for places in kinds:
        for place in places:
            limits = zip(place, volume.image.shape, patch, strict=True)
            corner = tuple(int(np.clip(p - length // 2, 0, size - length)) for p, size, length in limits)
            chances[corner] += 0.5 / len(places)
    return chances


def assert_drawn_by_chance(corners, chances):
    assert set(corners) <= set(chances)
    found = Counter(corners)
    expected = np.array([chances[corner] for corner in chances]) * len(corners)
    assert chisquare([found[corner] for corner in chances], expected).pvalue > 1e-3


def test_corners_are_drawn_with_the_chances_that_monais_crop_has():
    volume = example_volume((7, 6, 5), [(0, 0, 0), (3, 3, 2), (6, 5, 4)])
    patch = (4, 3, 4)
    chances = corner_chances(volume, patch)
    ours = ResidentVolumes([volume], patch).draw_corners(torch.zeros(20_000, dtype=torch.long))
    assert_drawn_by_chance([tuple(corner) for corner in ours.tolist()], chances)
    places = torch.arange(volume.image.numel()).view(1, *volume.image.shape).float()
    crop = RandCropByPosNegLabeld(["place"], "label", patch, pos=1, neg=1, num_samples=1500, image_key="image")
    crop.set_random_state(0)
    cropped = crop({"place": places, "label": volume.label[None], "image": volume.image[None].float()})
    firsts = [int(one["place"].flatten()[0]) for one in cropped]
    assert_drawn_by_chance([tuple(map(int, np.unravel_index(first, volume.image.shape))) for first in firsts], chances)


def test_a_patch_is_the_piece_of_its_volume_at_the_corner():
    volumes = [example_volume((6, 9, 7), [(1, 1, 1)]), example_volume((8, 5, 6), [(2, 2, 2)])]
    resident = ResidentVolumes(volumes, (3, 4, 5))
    corners = torch.tensor([[0, 0, 0], [5, 1, 1], [3, 5, 2]])
    chosen = torch.tensor([1, 1, 0])
    images, labels = take_patches(resident, chosen, corners, torch.float16)
    assert images.shape == labels.shape == (3, 1, 3, 4, 5)
    for number, (x, y, z) in zip(range(3), corners.tolist(), strict=True):
        volume = volumes[chosen[number]]
        assert torch.equal(images[number, 0], volume.image[x : x + 3, y : y + 4, z : z + 5])
        assert torch.equal(labels[number, 0], volume.label[x : x + 3, y : y + 4, z : z + 5])


@pytest.mark.parametrize("foreground", [[], [(x, y, z) for x in range(4) for y in range(4) for z in range(4)]])
def test_a_volume_without_one_kind_of_voxel_is_centred_on_the_other(foreground):
    volume = example_volume((4, 4, 4), foreground)
    corners = ResidentVolumes([volume], (2, 2, 2)).draw_corners(torch.zeros(500, dtype=torch.long))
    assert corners.min() == 0 and corners.max() == 2


def test_a_volume_smaller_than_a_patch_is_refused():
    with pytest.raises(ValueError, match=r"volume 1 of \(4, 3, 4\) voxels is smaller than a patch"):
        ResidentVolumes([example_volume((4, 4, 4), []), example_volume((4, 3, 4), [])], (4, 4, 4))


def test_an_epoch_takes_every_volume_once_and_each_in_patches():
    volumes = [Volume(torch.full((4, 4, 4), number / 8).half(), torch.zeros(4, 4, 4).byte()) for number in range(1, 6)]
    loader = PatchLoader(ResidentVolumes(volumes, (2, 2, 2)), batch_size=2, patches_per_volume=3, precision=torch.float32)
    batches = [[float(patch.mean()) for patch in batch["image"]] for batch in loader]
    assert [len(batch) for batch in batches] == [6, 6, 3]
    assert len(loader) == 3
    values = [value for batch in batches for value in batch]
    assert Counter(values) == {number / 8: 3 for number in range(1, 6)}
    assert values[:6] == [values[0]] * 3 + [values[3]] * 3  # a volume's patches stand together, as MONAI's loader has them


def test_a_pass_is_drawn_before_the_one_before_ends_and_by_its_number_alone():
    """Whatever else draws random numbers, and whether the passes before were seen: a continued run sees what it would have."""
    places = torch.arange(12**3).view(12, 12, 12)  # the value of a voxel says where it is
    volumes = ResidentVolumes(
        [Volume((places % 997 / 1024).half(), torch.zeros(12, 12, 12).byte()) for _ in range(4)], (2, 2, 2)
    )
    drawn = []
    draw = volumes.draw_corners
    volumes.draw_corners = lambda *inputs: drawn.append(len(batches)) or draw(*inputs)

    def load(seed, passes=0):
        torch.manual_seed(seed)
        loader = PatchLoader(volumes, 2, 2, torch.float32)
        loader.load_state_dict({"passes": passes})
        return loader

    batches = []
    loader = load(5)
    for _ in range(2):
        batches += [batch["image"].clone() for batch in loader]
    assert drawn == [0, 0, 2]  # the second pass and the third: before the last batch of those before is given out
    torch.rand(7)
    again = [batch["image"].clone() for batch in load(5, passes=1)]
    assert all(torch.equal(*pair) for pair in zip(batches[2:], again, strict=True))
    assert loader.state_dict() == {"passes": 2}
    assert not torch.equal(batches[0], batches[2])
    assert not torch.equal(batches[0], next(iter(load(6)))["image"])


def test_prepared_volumes_are_those_of_monais_chain(ci_config, volumes):
    variant = SpleenVariant.model_validate(TURBO)
    case = build_case("spleen", ci_config.workload, variant, CPU)
    prepared = prepare_volumes(volumes, case.preparation_transform, CPU)
    documented = build_case("spleen", ci_config.workload, ci_config.variants["baseline"], CPU).validation_transform()
    for volume, files in zip(prepared.volumes, volumes, strict=True):
        expected = documented(files)
        assert torch.allclose(volume.image.float(), expected["image"][0].as_tensor(), atol=2**-11)
        assert torch.equal(volume.label, expected["label"][0].as_tensor().byte())


def prepare(cases, store):
    """Prepare cases without files, each told from others by the length of its name alone."""

    def transform(number):
        return {"image": torch.full((1, 2, 2, 2), number / 256), "label": torch.ones(1, 2, 2, 2)}

    return prepare_volumes(cases, lambda: transform, CPU, store, Readings(lambda case: float(len(case["image"]))))


def test_prepared_volumes_are_kept_by_content_and_settings(tmp_path):
    cases = [{"image": "a", "label": "a"}, {"image": "bb", "label": "bb"}]
    checksums = {"a": "1", "bb": "2"}
    store = Store(tmp_path, {"spacing_mm": [1, 1, 1]}, checksums)
    first = prepare(cases, store)
    again = prepare(cases, store)
    assert (first.from_store, again.from_store) == (0, 2)
    assert all(torch.equal(one.image, other.image) for one, other in zip(first.volumes, again.volumes, strict=True))
    assert prepare(cases, Store(tmp_path, {"spacing_mm": [2, 1, 1]}, checksums)).from_store == 0
    assert prepare(cases, Store(tmp_path, store.settings, checksums | {"a": "3"})).from_store == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def change_a_voxel(content):
    """A prepared volume of which a voxel changed: the file as such is whole."""
    kept = torch.load(io.BytesIO(content), weights_only=True)
    kept["image"][0, 0, 0] += 1
    changed = io.BytesIO()
    torch.save(kept, changed)
    return changed.getvalue()


def other_pickle(content):
    saved = io.BytesIO()
    torch.save([1], saved)
    return saved.getvalue()


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:200], lambda content: b"", lambda content: b"no volume", change_a_voxel, other_pickle],
    ids=["short", "empty", "text", "voxel", "list"],
)
def test_a_damaged_prepared_volume_is_prepared_again(tmp_path, caplog, damage):
    store = Store(tmp_path, {}, {"a": "1"})
    case = {"image": "a", "label": "a"}
    prepare([case], store)
    path = store.path_of(case)
    path.write_bytes(damage(path.read_bytes()))
    assert prepare([case], store).from_store == 0
    assert f"{path}: not readable" in caplog.text
    assert prepare([case], store).from_store == 1


def test_no_transform_is_built_where_all_volumes_are_kept(tmp_path):
    store = Store(tmp_path, {}, {"a": "1", "bb": "2"})
    cases = [{"image": "a", "label": "a"}, {"image": "bb", "label": "bb"}]
    prepare(cases, store)
    assert prepare_volumes(cases, None, CPU, store).from_store == 2  # what is not there cannot be called


def test_the_largest_files_are_read_first_and_volumes_come_in_the_cases_order(tmp_path):
    cases = []
    for name, size in (("small", 1), ("large", 30), ("middle", 20)):
        (tmp_path / name).write_bytes(bytes(size))
        cases.append({"image": str(tmp_path / name), "label": str(tmp_path / name)})
    read = []

    def read_size(case):
        read.append(Path(case["image"]).name)
        return Path(case["image"]).stat().st_size

    def transform(size):
        return {"image": torch.full((1, 2, 2, 2), size / 32), "label": torch.ones(1, 2, 2, 2)}

    volumes = prepare_volumes(cases, lambda: transform, CPU, readings=Readings(read_size)).volumes
    assert [float(volume.image.mean()) * 32 for volume in volumes] == [1, 30, 20]
    assert sorted(read) == ["large", "middle", "small"]
    assert read[0] == "large" or available_cores() > 1  # threads beside each other may overtake


def test_what_a_run_surely_needs_is_read_before_torch_is_there(volumes):
    with begin_early(SpleenVariant.model_validate(TURBO), volumes) as readings:
        assert len(readings) == 5
        assert readings.take(volumes[0])["label"].shape == (40, 36, 28)
        assert len(readings) == 4
    for other in ({"prepared_folder": "kept"}, {"gpus": 2}, {"cache": "gpu", "toolkit": "monai"}):
        assert len(begin_early(SpleenVariant.model_validate(TURBO | other), volumes)) == 0


def test_a_case_that_comes_twice_is_prepared_once():
    case = {"image": "a", "label": "a"}
    assert len(prepare([case, case], None).volumes) == 2


def test_a_disk_that_takes_nothing_costs_only_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "prepared", {}, {"a": "1"})
    assert len(prepare([{"image": "a", "label": "a"}], store).volumes) == 1
    assert "not kept" in caplog.text


def test_dice_counted_on_the_device_is_monais():
    predicted = torch.randint(0, 2, (4, 6, 5, 4))
    true = torch.randint(0, 2, (4, 6, 5, 4))
    true[1] = 0  # a volume without foreground counts for the background only
    ours, monais = DeviceDice(2), DiceMetric(include_background=True, reduction="mean_batch")
    for one, other in zip(predicted, true, strict=True):
        ours([one], [other])
        monais(y_pred=[one_hot(one[None], 2, dim=0)], y=[one_hot(other[None], 2, dim=0)])
    assert torch.allclose(ours.aggregate(), monais.aggregate(), atol=1e-6)


def test_a_variant_of_all_these_techniques_trains_and_finds_its_volumes_prepared(turbo_config, volumes, tmp_path):
    cases = [
        Case(
            name=str(number),
            image=files["image"],
            label=files["label"],
            image_sha256=sha256_of(Path(files["image"])),
            label_sha256=sha256_of(Path(files["label"])),
            shape=(40, 36, 28),
            spacing_mm=(8.0, 8.0, 8.0),
            foreground_voxels=1,
        )
        for number, files in enumerate(volumes)
    ]
    dataset = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=cases)
    for name, kept in (("cold", 0), ("warm", 5)):
        run_training(turbo_config, dataset, volumes, Request("turbo", "timed", 0, 0, "none"), tmp_path / name)
        run = read_run(tmp_path / name)
        assert run.outcome == "completed"
        assert [("did not start warm" in warning) for warning in run.warnings] == ([] if kept == 5 else [True])
        assert f"{kept} of 5 prepared volumes were kept" in (tmp_path / name / "log.txt").read_text()
    cold, warm = (read_epochs(tmp_path / name) for name in ("cold", "warm"))
    assert list(cold.loss) == pytest.approx(list(warm.loss), rel=1e-4)
    assert 0 <= cold.quality.iloc[-1] <= 1
    assert (cold.samples_per_s * cold.train_s).round().tolist() == [6.0, 6.0]  # 3 volumes of 2 patches


def test_nothing_is_kept_unless_a_folder_is_named(ci_config, volumes):
    variant = SpleenVariant.model_validate(TURBO)
    case = build_case("spleen", ci_config.workload, variant, CPU)
    dataset = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])
    assert build_store(case, variant, dataset, volumes, CPU) is None
    (together,) = build_loaders(case, variant, volumes[:3], volumes[3:], CPU).validation
    assert len(together["image"]) == 2
