"""Prepare what the published program and ours need: the program, fetched or found, the slides, and the options of both."""

import json
from pathlib import Path
from typing import Any

from speedproof.api import run_app
from speedproof_common.commands import make_preparing_app


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` with links `programs` and `slides` and with options.json, and write `out`.

    Raises :class:`SpeedproofError`: those of the program and of the slides.
    """
    from speedproof.api import ConfigError
    from speedproof_common.data import check_source
    from speedproof_common.published import lay_beside
    from speedproof_pathology.data import SHARED, Data, prepare_dataset

    def check(own: dict[str, Any]) -> Data:
        checked = check_source(Data, own, "config")
        if checked.reader == "tiles" or checked.weights:
            raise ConfigError("data: the published program reads by cucim or openslide, and begins with random weights here")
        return checked

    both = lay_beside("monai_pathology", data, out, check, prepare_dataset, {"slides": "."})
    own = {key: value for key, value in data.items() if key != "published_folder"}
    told = check(own).model_dump(include=set(SHARED))
    (both / "options.json").write_text(json.dumps(told), encoding="utf-8")
    return both


if __name__ == "__main__":
    run_app(make_preparing_app(make_ready))
