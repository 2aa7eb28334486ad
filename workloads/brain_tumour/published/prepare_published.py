"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the volumes."""

from pathlib import Path
from typing import Any

from speedproof.api import run_app
from speedproof_common.commands import make_preparing_app


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` in which `programs` and `Task01_BrainTumour` are links, and write `out`.

    Raises :class:`SpeedproofError`: those of the programs and of the volumes.
    """
    from speedproof_brain_tumour.data import Data, prepare_dataset
    from speedproof_common.data import check_source
    from speedproof_common.published import lay_beside

    def check(own: dict[str, Any]) -> Data:
        return check_source(Data, own, "config")

    # As MONAI's DecathlonDataset finds them, and as dataset.json names them.
    volumes = {"Task01_BrainTumour": ".", "imagesTr": "imagesTr", "labelsTr": "labelsTr"}
    return lay_beside("monai_brain_tumour", data, out, check, prepare_dataset, volumes)


if __name__ == "__main__":
    run_app(make_preparing_app(make_ready))
