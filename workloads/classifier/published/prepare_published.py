"""Makes ready what the published programs and ours train on: the programs, fetched or found, and the images."""

from pathlib import Path
from typing import Any

from speedproof.api import run_app
from speedproof_common.commands import make_preparing_app


def make_ready(data: dict[str, Any], out: Path) -> Path:
    """Make a folder beside `out` in which `programs` and `images` are links, and write `out`. Errors are those of both."""
    from speedproof_classifier.data.prepare import Data, prepare_dataset
    from speedproof_common.data import check_source
    from speedproof_common.published import lay_beside

    def check(own: dict[str, Any]) -> Data:
        return check_source(Data, own, "config")

    return lay_beside("kaust_classifier", data, out, check, prepare_dataset, {"images": "."})


if __name__ == "__main__":
    run_app(make_preparing_app(make_ready))
