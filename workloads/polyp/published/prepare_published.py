"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the pairs."""

from pathlib import Path
from typing import Any

from speedproof.api import run_app
from speedproof_common.commands import make_preparing_app


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` in which `programs` and `pairs` are links, and write `out`.

    Raises :class:`SpeedproofError`: those of the programs and of the pairs.
    """
    from speedproof.api import ConfigError
    from speedproof_common.data import check_source
    from speedproof_common.published import lay_beside
    from speedproof_polyp.data.prepare import Data, prepare_dataset

    def check(own: dict[str, Any]) -> Data:
        checked = check_source(Data, own, "config")
        if (checked.pixels, checked.filters) != (256, 16) or checked.tensorflow_image:
            raise ConfigError("data: the published programs train with 256 pixels and 16 filters, and in no image here")
        return checked

    return lay_beside("gist_polyp", data, out, check, prepare_dataset, {"pairs": "."})


if __name__ == "__main__":
    run_app(make_preparing_app(make_ready))
