"""A stand-in for Task09_Spleen: some of the spleen workload's synthetic CTs, in the Decathlon's layout."""

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from speedproof.api import Positive, Seed, write_json
from speedproof_common import data as common
from speedproof_common.pool import do_each
from speedproof_spleen.data.phantom import describe_phantom, write_volume
from speedproof_spleen.data.sizes import SIZES, estimate_bytes

FEWEST_CASES = 5  # nnU-Net splits them into five folds


class StandIn(common.StandIn):
    """Which synthetic CTs."""

    size: Literal["tiny", "small", "medium", "full"] = Field("full", description="Voxels of a CT; full: 512×512×50–150")
    cases: Positive | None = Field(None, ge=FEWEST_CASES, description="Number of CTs; null: as many as the size has")
    seed: Seed = Field(0, description="Another seed gives other CTs")

    @model_validator(mode="after")
    def _there_are_as_many(self) -> "StandIn":
        if self.count > (most := SIZES[self.size].volumes):
            raise ValueError(f"`cases` is {self.cases}, but size `{self.size}` has {most}; lower it, or choose another size")
        return self

    @property
    def count(self) -> int:
        """Return the number of CTs."""
        return self.cases or SIZES[self.size].volumes

    def estimate_bytes(self) -> int:
        """Return about how much disk space the CTs take."""
        return estimate_bytes(self.size) * self.count // SIZES[self.size].volumes


def make_phantom_task(folder: Path, stand_in: StandIn, workers: int | None = None) -> None:
    """Write the CTs and their description into the new `folder`; `workers` processes share them, None: one per core."""
    for name in ("imagesTr", "labelsTr", "imagesTs"):  # nnU-Net requires the last, which may be empty
        (folder / name).mkdir(parents=True)
    do_each(partial(write_volume, folder, stand_in.size, stand_in.seed), list(range(stand_in.count)), workers)
    write_json(folder / "dataset.json", describe_phantom(stand_in.size, stand_in.seed, stand_in.count))
