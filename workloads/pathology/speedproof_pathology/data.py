"""The first step of the workflow: check that all slides and regions exist, and write `dataset.json`."""

import hashlib
import operator
import shlex
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from speedproof.api import ConfigError, DataError, Dataset, Folder, Natural, Positive, digest_of, read_yaml
from speedproof_common.data import Found, Source, check_source, make_stand_in_once, write_dataset
from speedproof_pathology import regions, stand_in
from speedproof_pathology.regions import FILES, RegionsError, list_regions
from speedproof_pathology.stand_in import StandIn, make_stand_in
from speedproof_pathology.tiff import HEIGHT, WIDTH, Slide, SlideError, read_tags

REGISTRY = Path(__file__).with_name("registry.yaml")
SHARED = ("reader", "region", "patch", "batch", "share", "workers")  # options of all variants
_LOOKED_AT = 2**20  # bytes of a slide's start and end that its digest is of: whole slides have gigabytes


class Data(Source):
    """`data` of the configuration: where slides come from, and what all variants share."""

    registry: ClassVar[Path] = REGISTRY

    source: Literal["local", "stand_in"] = Field("local", description="A folder in CAMELYON16's layout, or synthetic")
    registry_entry: str = Field("camelyon16", description="What the folder holds, as the registry knows it")
    stand_in: StandIn = StandIn()
    reader: Literal["cucim", "openslide", "tiles"] = Field("cucim", description="What reads the slides")
    weights: Folder | None = Field(None, description="torchvision's file of ImageNet weights; null: random ones")
    region: Positive = Field(768, ge=96, le=100_000, description="Width of a region, pixels")
    patch: Positive = Field(224, ge=32, le=10_000, description="Width of a patch, pixels; a region has 3×3")
    batch: Positive = Field(64, le=10_000, description="Regions")
    share: float = Field(0.5, ge=0, le=1, description="Of the patches that are flipped, as of those turned and zoomed")
    workers: Natural = Field(8, le=1000, description="Processes that load")

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        entry = _find(self.registry_entry)
        return (
            f"{entry['title']} ({entry['licence']}, some {entry['expected_gib']} GiB) is described at {entry['page']}, "
            "and how to lay it out in the workload's README"
        )

    @model_validator(mode="after")
    def _fits(self) -> "Data":
        if self.patch > self.region // regions.GRID:
            raise ValueError(f"patches of {self.patch} pixels overlap in a region of {self.region}; make `patch` smaller")
        if self.patch % 32:
            raise ValueError(f"`patch` is {self.patch}; the network halves it five times, so take a multiple of 32")
        if self.source == "stand_in" and self.region > self.stand_in.slide_pixels:
            raise ValueError("`region` is larger than a slide of the stand-in; make `stand_in.slide_pixels` larger")
        return self


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what `data` says put into its variants, as options of their commands.

    Raises :class:`ConfigError`: `data` cannot be understood; the text names `origin` and the key.
    """
    data = check_source(Data, values.get("data", {}), origin)
    shared = data.model_dump(include=set(SHARED))
    options = shlex.join(f"--{name}={value}" for name, value in shared.items())
    if data.weights:
        options += f" {shlex.join([f'--weights={Path(data.weights).absolute()}'])}"
    variants = {}
    for name, variant in values["completed"]["variants"].items():
        command = f"{variant['command']} {options}"
        variants[name] = {**variant, "command": command, "settings": {**variant["settings"], "command": command}}
    made = {"variants": variants, "shared": {**shared, "pretrained": bool(data.weights)}, **data.describe_needs()}
    return {**values, "data": data.model_dump(mode="json"), "completed": {**values["completed"], **made}}


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Find or make the slides, look into every one, and write `out` (`dataset.json`) last.

    Whatever goes wrong is a :class:`DataError`.
    """
    return write_dataset(data, out, lambda: _look_into(data, workers), digest_content, RegionsError, SlideError)


def _look_into(data: Data, workers: int | None) -> Found:
    if data.weights and not Path(data.weights).is_file():
        raise DataError(f"data.weights: no file {data.weights}; name torchvision's, or leave it out")
    if data.source == "stand_in":
        asked, region = data.stand_in, data.region
        told = {**asked.model_dump(), "region": region}
        place = Path(data.folder, f"camelyon16-stand-in-{digest_of(told)[:8]}")
        folder = make_stand_in_once(
            place, told, asked.estimate_bytes(), stand_in, lambda empty: make_stand_in(empty, asked, region, workers)
        )
        slides = f"{asked.slides} slides of {asked.slide_pixels}×{asked.slide_pixels}"
        found = Found(folder, "CAMELYON16 stand-in", f"{slides}, seed {asked.seed}", "Apache-2.0")
    else:
        entry = _find(data.registry_entry)
        found = Found(Path(data.local_folder or ""), entry["title"], "as found", entry["licence"])
    if data.reader == "tiles":
        _open_all(found.folder)
    return found


def digest_content(folder: Path) -> str:
    """Return a digest of both lists, and of each slide's size, start and end.

    Raises:
        RegionsError: a list cannot be understood.
        DataError: a slide is missing or not a TIFF, or a region lies outside of it.
    """
    digest = hashlib.sha256()
    for part, file in FILES.items():
        listed = list_regions(folder, part)
        sizes = {path: _measure(path) for path in sorted({region["image"] for region in listed})}
        for number, region in enumerate(listed, start=1):
            if any(not 0 <= at < size for at, size in zip(region["location"], sizes[region["image"]], strict=True)):
                raise DataError(f"{folder / file}:{number}: the region's centre lies outside its slide; correct or remove it")
        digest.update((folder / file).read_bytes())
        for path in sizes:
            digest.update(f"{Path(path).name}\0".encode())
            digest.update(_sample(Path(path)))
    return digest.hexdigest()


def _open_all(folder: Path) -> None:
    for path in sorted({region["image"] for part in FILES for region in list_regions(folder, part)}):
        Slide.open(path)


def _measure(path: str) -> tuple[int, int]:
    """Return a slide's height and width."""
    try:
        tags = read_tags(path)
        return operator.index(tags[HEIGHT]), operator.index(tags[WIDTH])
    except (OSError, SyntaxError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: is missing, or no TIFF; get it again, or take its regions from the list") from None


def _sample(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
        file.seek(max(size - _LOOKED_AT, 0))
        return str(size).encode() + start + file.read()


def _find(name: str) -> dict[str, Any]:
    registry = read_yaml(REGISTRY) or {}
    if name not in registry:
        raise ConfigError(
            f"data.registry_entry: no dataset `{name}` in the registry; choose one of {', '.join(sorted(registry))}"
        )
    entry: dict[str, Any] = registry[name]
    return entry
