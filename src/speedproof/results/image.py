"""`<image>.json`: which container image jobs run in. Small, and so compared by content: a touched image retrains nothing."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ImageRecord(BaseModel):
    """An image and the digest of its file."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    source: str  # the address it was fetched from, the base it was built upon, or the name of a file that was given
    digest: str  # sha256:<SHA-256 of the .sif file>
    size_mib: int
