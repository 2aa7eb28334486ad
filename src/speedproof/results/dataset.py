"""`dataset.json`: the data that variants read, whose every part was opened and found sound."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.results.files import digest_of


class Case(BaseModel):
    """One labelled volume. Paths are relative to the dataset's folder."""

    model_config = ConfigDict(extra="forbid")

    name: str
    image: str
    label: str
    image_sha256: str
    label_sha256: str
    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    foreground_voxels: int


def name_folder(folder: Path, dataset_json: Path) -> str:
    """Return `folder` as `dataset_json` names it: relative, so that both can move together, unless it was given as absolute."""
    if folder.is_absolute():
        return str(folder)
    # Resolved, since the way up from a folder that is a link does not lead back to where the link stands.
    return os.path.relpath(folder.resolve(), dataset_json.parent.resolve())


class Dataset(BaseModel):
    """The cases of a dataset, sorted by name, and where they came from."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    source: str
    name: str
    version: str
    licence: str
    synthetic: bool
    folder: str  # of the data, such as imagesTr/ and labelsTr/, relative to dataset.json, or absolute
    cases: list[Case] = []
    content_sha256: str | None = None  # of data other than volumes, computed by the step that prepared them

    @property
    def digest(self) -> str:
        """Return a digest of the content: names and checksums, not places or times."""
        return self.content_sha256 or digest_of([(case.name, case.image_sha256, case.label_sha256) for case in self.cases])

    def files(self, dataset_json: Path) -> list[dict[str, str]]:
        """Return `{"image": path, "label": path}` for each case, given where `dataset.json` lies."""
        folder = dataset_json.parent / self.folder
        return [{"image": str(folder / case.image), "label": str(folder / case.label)} for case in self.cases]

    def checksums(self, files: list[dict[str, str]]) -> dict[str, str]:
        """Return the SHA-256 of each of the cases' files, as :meth:`files` names them, by path."""
        pairs = zip(files, self.cases, strict=True)
        return {
            path: digest
            for file, case in pairs
            for path, digest in ((file["image"], case.image_sha256), (file["label"], case.label_sha256))
        }


def own_data(title: str) -> Dataset:
    """Return the dataset of programs that bring their data themselves; `title` is their workload's."""
    name = f"{title}: its programs' own data"
    return Dataset(source="own", folder=".", cases=[], name=name, version="", licence="unknown", synthetic=False)
