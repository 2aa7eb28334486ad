"""Synthetic abdominal CTs in the Decathlon layout: the same size and seed give the same volumes, however many processes work.

Every size shows the same trunk; a smaller one has fewer, larger voxels. The shapes are found on a grid that is coarser than
the voxels in the plane (about 3 mm; the slices are the same) and painted slice by slice, so a volume of 512×512×150 voxels
needs a few hundred MiB.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speedproof.api import DataError, available_cores, digest_of, end_with_parent, report_progress, write_json
from speedproof_spleen.data.anatomy import AIR_HU, Anatomy, Layer, draw_body
from speedproof_spleen.data.shapes import Field, interpolate
from speedproof_spleen.data.sizes import SIZES, Size

BLUR_MM = 1.2  # of the scanner: boundaries fade over about this width
SLICES_AT_ONCE = 8


def make_phantom(folder: Path, size: str, seed: int, workers: int | None = None) -> None:
    """Write a phantom into `folder`: imagesTr/ (int16 Hounsfield units), labelsTr/ (uint8, 1 the spleen) and dataset.json.

    `workers` processes share the volumes; None: one a core.
    """
    volumes = SIZES[size].volumes
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    workers = min(workers or available_cores(), volumes)
    # Spawned, not forked: a caller may have threads, and a fork copies their locks but not them.
    with (
        ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool,
        report_progress(f"Phantom {size}", volumes, "volumes") as advance,
    ):
        jobs = [pool.submit(write_volume, folder, size, seed, index) for index in range(volumes)]
        for job in as_completed(jobs):
            _await_volume(job)
            advance(1)
    write_json(folder / "dataset.json", describe_phantom(size, seed, SIZES[size].volumes))


def _await_volume(job: Future[None]) -> None:
    try:
        job.result()
    except BrokenProcessPool:
        raise DataError("phantom: a process was killed, likely for memory; each needs about 500 MiB: use fewer") from None


def recipe_digest() -> str:
    """Return a digest of the code that draws: a phantom of other code is another phantom."""
    sources = (Path(__file__).with_name(f"{name}.py") for name in ("shapes", "anatomy", "sizes", "phantom"))
    return digest_of([source.read_text(encoding="utf-8") for source in sources])


def write_volume(folder: Path, size: str, seed: int, index: int) -> None:
    """Write volume `index` of a phantom: it depends on size, seed and index alone."""
    import nibabel  # a login node, which asks for sizes alone, need not have it

    image, label, affine = draw_volume(size, seed, index)
    for subfolder, voxels in (("imagesTr", image), ("labelsTr", label)):
        nifti = nibabel.Nifti1Image(voxels, affine)
        nifti.header.set_xyzt_units("mm")
        nifti.set_qform(affine, code=1)
        nifti.set_sform(affine, code=1)
        nibabel.save(nifti, folder / subfolder / f"{_name(index)}.nii.gz")  # without name or time: the same bytes each time


def draw_volume(size: str, seed: int, index: int) -> tuple[NDArray[np.int16], NDArray[np.uint8], NDArray[np.float64]]:
    """Return image (x, y, z) in Hounsfield units, label (x, y, z) and affine (RAS, mm) of one volume."""
    spec = SIZES[size]
    rng = np.random.default_rng([seed, spec.pixels, index])
    body = draw_body(rng)
    pixel_mm = float(np.clip(2 * body.skin[0] * rng.uniform(1.06, 1.16), 360, 420) / spec.pixels)
    z_mm = _draw_slices(rng, spec, top_mm=body.dome + rng.uniform(25, 50))
    points_mm = _centered(spec.pixels // spec.coarseness, pixel_mm * spec.coarseness)
    anatomy = Anatomy(body, rng, z_mm, points_mm, points_mm)
    strokes = list(_plan_strokes(anatomy.layers(), max(BLUR_MM, pixel_mm)))
    texture_hu = anatomy.texture_hu()
    noise_hu = rng.uniform(8, 14)

    shape = (len(z_mm), spec.pixels, spec.pixels)
    image, label = np.empty(shape, np.int16), np.empty(shape, np.uint8)
    for first in range(0, len(z_mm), SLICES_AT_ONCE):
        slices = slice(first, min(first + SLICES_AT_ONCE, len(z_mm)))
        hu, spleen = _paint(strokes, slices, spec)
        hu += _refine(texture_hu[slices], spec.coarseness)
        hu += _draw_noise(rng, hu.shape, noise_hu)
        image[slices] = np.clip(np.rint(hu), -1024, 3071)
        label[slices] = spleen > 0.5
    half_mm = (spec.pixels - 1) / 2 * pixel_mm
    spacing_mm = float(z_mm[1] - z_mm[0])
    affine = np.diag([pixel_mm, pixel_mm, spacing_mm, 1.0])
    affine[:3, 3] = -half_mm, -half_mm, z_mm[0]
    return image.T, label.T, affine


@dataclass(frozen=True)
class _Stroke:
    """The visible part of a layer. `depth` is its distance in widths of its edge, which is 1 wide around 0."""

    box: tuple[slice, slice, slice]
    depth: Field
    hu: float | Field
    is_spleen: bool


def _plan_strokes(layers: Iterator[Layer], blur_mm: float) -> Iterator[_Stroke]:
    """Yield a stroke for each layer that is seen at all.

    A slice averages over its thickness: a boundary that is slanted against it is as wide as it moves from slice to slice.
    """
    for layer in layers:
        slant_mm = np.gradient(layer.distance_mm, axis=0)
        depth = layer.distance_mm / np.sqrt(np.float32(blur_mm**2) + slant_mm * slant_mm)
        seen = np.asarray(depth < 0.5)
        if not seen.any():
            continue
        y, x = _extent(seen, axis=1, margin=2), _extent(seen, axis=2, margin=2)  # as far as a spline reaches
        box = (_extent(seen, axis=0, margin=0), y, x)
        hu = layer.hu if isinstance(layer.hu, float | int) else layer.hu[box].copy()
        yield _Stroke(box, depth[box].copy(), hu, layer.is_spleen)


def _extent(seen: NDArray[np.bool_], axis: int, margin: int) -> slice:
    others = tuple(other for other in range(seen.ndim) if other != axis)
    where = np.flatnonzero(np.any(seen, axis=others))
    return slice(max(int(where[0]) - margin, 0), min(int(where[-1]) + margin + 1, seen.shape[axis]))


def _paint(strokes: list[_Stroke], slices: slice, spec: Size) -> tuple[Field, Field]:
    """Return Hounsfield units and the share of spleen of each voxel (z, y, x) of some slices."""
    shape = (slices.stop - slices.start, spec.pixels, spec.pixels)
    hu, spleen = np.full(shape, AIR_HU, np.float32), np.zeros(shape, np.float32)
    for stroke in strokes:
        first, last = max(stroke.box[0].start, slices.start), min(stroke.box[0].stop, slices.stop)
        if first >= last:
            continue
        within = slice(first - stroke.box[0].start, last - stroke.box[0].start)
        share = np.clip(np.float32(0.5) - _refine(stroke.depth[within], spec.coarseness), 0, 1)
        color = stroke.hu if isinstance(stroke.hu, float | int) else _refine(stroke.hu[within], spec.coarseness)
        y, x = (slice(at.start * spec.coarseness, at.stop * spec.coarseness) for at in stroke.box[1:])
        here = (slice(first - slices.start, last - slices.start), y, x)
        hu[here] += share * (color - hu[here])
        spleen[here] *= 1 - share
        if stroke.is_spleen:
            spleen[here] += share
    return hu, spleen


def _refine(values: Field, coarseness: int) -> Field:
    """Return a field (z, y, x) of the shapes' grid on that of the voxels, `coarseness` times as many in the plane."""
    if coarseness == 1:
        return values
    positions = [(np.arange(points * coarseness, dtype=np.float32) + 0.5) / coarseness - 0.5 for points in values.shape[1:]]
    return interpolate(values, positions)


def _draw_noise(rng: np.random.Generator, shape: tuple[int, ...], deviation_hu: float) -> Field:
    """Return normal noise that is correlated between neighbours in the plane, as a reconstruction's is, not between slices."""
    noise = rng.standard_normal((shape[0], shape[1] + 2, shape[2] + 2), np.float32)
    noise = noise[:, :-2] + 2 * noise[:, 1:-1] + noise[:, 2:]
    noise = noise[:, :, :-2] + 2 * noise[:, :, 1:-1] + noise[:, :, 2:]
    return noise * np.float32(deviation_hu / 6)  # 1 + 4 + 1, the square root of it an axis


def _draw_slices(rng: np.random.Generator, spec: Size, top_mm: float) -> Field:
    """Return the slices' heights: from above the diaphragm down, 220 to 420 mm of the body where the numbers allow it."""
    spacing_mm = float(rng.choice(spec.spacings_mm))
    low, high = spec.slices
    fewest, most = np.clip([np.ceil(220 / spacing_mm), np.floor(420 / spacing_mm)], low, high).astype(int)
    count = int(rng.integers(fewest, most + 1))
    return (top_mm - spacing_mm * np.arange(count)[::-1]).astype(np.float32)


def _centered(count: int, spacing_mm: float) -> Field:
    return ((np.arange(count) - (count - 1) / 2) * spacing_mm).astype(np.float32)


def _name(index: int) -> str:
    return f"spleen_{index + 1}"


def describe_phantom(size: str, seed: int, volumes: int) -> dict[str, object]:
    """Return a phantom's `dataset.json`, in the Decathlon's layout."""
    names = [f"{_name(index)}.nii.gz" for index in range(volumes)]
    return {
        "name": "Spleen phantom",
        "description": f"Synthetic abdominal CTs, size {size}, seed {seed}. No patient was scanned.",
        "tensorImageSize": "3D",
        "modality": {"0": "CT"},
        "labels": {"0": "background", "1": "spleen"},
        "numTraining": len(names),
        "numTest": 0,
        "training": [{"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"} for name in names],
        "test": [],
    }
