"""The seed of a proof's order: drawn for each proof, so that nobody knows beforehand what runs before what."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from speedproof.config.base import Seed
from speedproof.results.files import digest_of, read_record, write_json
from speedproof.results.run_record import PROGRAMS
from speedproof.run.proof.snapshot import DIGESTS
from speedproof.util.errors import RecordError
from speedproof.util.sources import digest_files

ORDER_FILE = "order.json"


class _DrawnOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seed: Seed
    measured: str  # digest of what decides what is measured


def draw_order_seed(out: Path, decides: Sequence[Any]) -> int:
    """Return the order's seed: that of an earlier call if commands and files are the same, else a new one, which is kept.

    `decides` holds what decides what is measured besides the copy of the working folder in `out`.
    """
    measured = digest_of([*decides, digest_files(out / PROGRAMS, [DIGESTS])])
    try:
        kept = read_record(out / ORDER_FILE, _DrawnOrder)
        if kept.measured == measured:
            return kept.seed
    except RecordError:
        pass
    drawn = _DrawnOrder(seed=secrets.randbelow(2**31), measured=measured)
    write_json(out / ORDER_FILE, drawn)
    return drawn.seed
