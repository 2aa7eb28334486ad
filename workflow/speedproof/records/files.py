"""Reading and writing whole files: nothing half-written is ever found under a final name."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from speedproof.errors import RecordError

Record = TypeVar("Record", bound=BaseModel)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it takes the final name, else it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value, or a pydantic model, in a stable, readable form."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_if_changed(path: Path, value: BaseModel) -> None:
    """Write a model as JSON unless the file holds just that already, so that its time tells when it changed."""
    text = json.dumps(value.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing or broken one is a :class:`RecordError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"{path}: no such file; run the step that writes it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: not readable as JSON ({error}); delete it and run the step that writes it") from None


def read_record(path: Path, model: type[Record]) -> Record:
    """Read a JSON file as `model`; what does not fit is a :class:`RecordError` that names file and field."""
    value = read_json(path)
    expected = model.model_fields["schema_version"].default if "schema_version" in model.model_fields else None
    found = value.get("schema_version") if isinstance(value, dict) else None
    if expected is not None and found != expected:
        raise RecordError(f"{path}: schema version {found}, this speedproof reads {expected}; use a matching version")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{path}: {where}: {first['msg']}; delete it and run the step that writes it") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Return a short, stable digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
