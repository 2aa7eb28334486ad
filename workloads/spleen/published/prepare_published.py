"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the volumes."""

from pathlib import Path
from typing import Any

from speedproof.api import run_app
from speedproof_common.commands import make_preparing_app


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` with links to programs and volumes and a `dataset.json` of its own, and write `out`.

    Raises :class:`SpeedproofError`: those of the programs and of the volumes.
    """
    from speedproof.api import Dataset, read_record, write_json
    from speedproof_common.data import check_source
    from speedproof_common.published import lay_beside
    from speedproof_spleen.config import Data
    from speedproof_spleen.data.prepare import prepare_dataset

    volumes = {kind: kind for kind in ("imagesTr", "labelsTr")}
    both = lay_beside(
        "monai_spleen_profiling", data, out, lambda own: check_source(Data, own, "config"), prepare_dataset, volumes
    )
    write_json(both / out.name, read_record(out, Dataset).model_copy(update={"folder": "."}))
    return both


if __name__ == "__main__":
    run_app(make_preparing_app(make_ready))
