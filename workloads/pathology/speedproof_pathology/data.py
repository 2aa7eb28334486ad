"""The first step of the workflow: slides and regions that are there, and the `dataset.json` that says so."""

import hashlib
import shlex
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from pydantic import Field, ValidationError, model_validator

from speedproof.common.errors import ConfigError, DataError
from speedproof.config.base import Folder, Model, Natural, Positive
from speedproof.config.plain import read_yaml
from speedproof.config.problems import describe_problem
from speedproof.fetch.folders import Marker, check_free_space, make_once
from speedproof.records.dataset import Dataset, name_folder
from speedproof.records.files import digest_of, write_json
from speedproof_pathology import regions, stand_in
from speedproof_pathology.regions import FILES, RegionsError, list_regions
from speedproof_pathology.stand_in import StandIn, make_stand_in
from speedproof_pathology.tiff import Slide, SlideError

REGISTRY = Path(__file__).with_name("registry.yaml")
SHARED = ("reader", "region", "patch", "batch", "share", "workers")  # options of all sides
_LOOKED_AT = 2**20  # bytes of a slide's start and end that its digest is of: whole slides have gigabytes


class Data(Model):
    """`data` of the configuration: where slides come from, and what all sides share."""

    source: Literal["local", "stand_in"] = Field("local", description="A folder in CAMELYON16's layout, or synthetic")
    folder: Folder = Field("data", description="Where stand-ins are kept, relative to the working folder")
    registry_entry: str = Field("camelyon16", description="What the folder holds, as the registry knows it")
    local_folder: Folder | None = Field(None, description="A folder with training.csv, validation.csv and training/images")
    stand_in: StandIn = StandIn()
    reader: Literal["cucim", "openslide", "tiles"] = Field("cucim", description="What reads the slides")
    weights: Folder | None = Field(None, description="torchvision's file of ImageNet weights; null: random ones")
    region: Positive = Field(768, ge=96, le=100_000, description="Pixels of a region's side")
    patch: Positive = Field(224, ge=32, le=10_000, description="Pixels of a patch's side, of which a region has 3×3")
    batch: Positive = Field(64, le=10_000, description="Regions")
    share: float = Field(0.5, ge=0, le=1, description="Of the patches that are flipped, as of those turned and zoomed")
    workers: Natural = Field(8, le=1000, description="Processes that load")

    @model_validator(mode="after")
    def _fits(self) -> "Data":
        if self.patch > self.region // regions.GRID:
            raise ValueError(f"patches of {self.patch} pixels overlap in a region of {self.region}; make `patch` smaller")
        if self.patch % 32:
            raise ValueError(f"`patch` is {self.patch}; the network halves it five times, so take a multiple of 32")
        if self.source == "stand_in" and self.region > self.stand_in.slide_pixels:
            raise ValueError("`region` is larger than a slide of the stand-in; make `stand_in.slide_pixels` larger")
        if self.source == "local" and not self.local_folder:
            raise ValueError(f"source `local` needs `local_folder`; {_describe(self.registry_entry)}")
        return self


def check_data(values: Any, origin: str) -> Data:
    """Return a configuration's `data`, or raise a :class:`ConfigError` that names `origin` and the key."""
    try:
        return Data.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: data.{describe_problem(error, Data)}") from None


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what `data` says put into its sides, as options of their commands.

    Raises :class:`ConfigError`: `data` cannot be understood; the text names `origin` and the key.
    """
    data = check_data(values.get("data", {}), origin)
    shared = data.model_dump(include=set(SHARED))
    options = shlex.join(f"--{name}={value}" for name, value in shared.items())
    if data.weights:
        options += f" {shlex.join([f'--weights={Path(data.weights).absolute()}'])}"
    needs = {
        "dataset": data.source,
        "folders": {"data.folder": data.folder, "data.local_folder": data.local_folder or ""},
        "download_mib": 0,
        "data_mib": data.stand_in.estimate_bytes() / 2**20 if data.source == "stand_in" else 0.0,
    }
    sides = {}
    for name, side in values["completed"]["sides"].items():
        command = f"{side['command']} {options}"
        sides[name] = {**side, "command": command, "settings": {**side["settings"], "command": command}}
    made = {"sides": sides, "shared": {**shared, "pretrained": bool(data.weights)}, **needs}
    return {**values, "data": data.model_dump(mode="json"), "completed": {**values["completed"], **made}}


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Find or make the slides, look into every one, and write `out` (`dataset.json`) last.

    Whatever goes wrong is a :class:`DataError`.
    """
    try:
        if data.source == "stand_in":
            folder = _make_once(data, workers)
            slides = f"{data.stand_in.slides} slides of {data.stand_in.slide_pixels}×{data.stand_in.slide_pixels}"
            name, version, licence = "CAMELYON16 stand-in", f"{slides}, seed {data.stand_in.seed}", "Apache-2.0"
        else:
            folder, entry = Path(data.local_folder or ""), _find(data.registry_entry)
            name, version, licence = entry["title"], "as found", entry["licence"]
        dataset = Dataset(
            source=data.source,
            name=name,
            version=version,
            licence=licence,
            synthetic=data.source == "stand_in",
            folder=name_folder(folder, out),
            content_sha256=digest_content(folder),
        )
        if data.reader == "tiles":
            _open_all(folder)
        if data.weights and not Path(data.weights).is_file():
            raise DataError(f"data.weights: no file {data.weights}; name torchvision's, or leave it out")
        write_json(out, dataset)
    except (RegionsError, SlideError) as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or data.folder}: {error.strerror}; check the disk, or set `data.folder`") from None
    return dataset


def _make_once(data: Data, workers: int | None) -> Path:
    asked = data.stand_in

    def fill(empty: Path) -> None:
        check_free_space(empty, asked.estimate_bytes(), f"the stand-in of {asked.slides} slides")
        make_stand_in(empty, asked, data.region, workers)

    recipe = hashlib.sha256(Path(stand_in.__file__).read_bytes()).hexdigest()[:16]
    marker: Marker = {**asked.model_dump(), "region": data.region, "recipe": recipe}
    return make_once(Path(data.folder) / f"camelyon16-stand-in-{digest_of(marker)[:8]}", marker, fill)


def digest_content(folder: Path) -> str:
    """Return a digest of both lists, and of each slide's size, start and end.

    Raises:
        RegionsError: a list cannot be understood.
        DataError: a slide is missing, or is no TIFF.
    """
    digest = hashlib.sha256()
    for part, file in FILES.items():
        named = sorted({region["image"] for region in list_regions(folder, part)})
        digest.update((folder / file).read_bytes())
        for path in named:
            digest.update(f"{Path(path).name}\0".encode())
            digest.update(_sample(Path(path)))
    return digest.hexdigest()


def _open_all(folder: Path) -> None:
    for path in sorted({region["image"] for part in FILES for region in list_regions(folder, part)}):
        Slide.open(path)


def _sample(path: Path) -> bytes:
    try:
        with Image.open(path) as image:
            found = image.format
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT)
            file.seek(max(size - _LOOKED_AT, 0))
            end = file.read()
    except (OSError, SyntaxError, Image.DecompressionBombError):
        found = None
    if found != "TIFF":
        raise DataError(f"{path}: is missing, or no TIFF; get it again, or take its regions from the list")
    return str(size).encode() + start + end


def _find(name: str) -> dict[str, Any]:
    registry = read_yaml(REGISTRY) or {}
    if name not in registry:
        raise ConfigError(
            f"data.registry_entry: no dataset `{name}` in the registry; choose one of {', '.join(sorted(registry))}"
        )
    entry: dict[str, Any] = registry[name]
    return entry


def _describe(name: str) -> str:
    entry = _find(name)
    return (
        f"{entry['title']} ({entry['licence']}, some {entry['expected_gib']} GiB) is described at {entry['page']}, "
        "and how to lay it out in the workload's README"
    )
