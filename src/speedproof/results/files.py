"""Reading and writing whole files: nothing half-written is ever found under a final name, nothing odd is taken for a record."""

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from speedproof.results.evidence_archive import EVIDENCE_FILE, find_archive, read_packed
from speedproof.results.older_versions import convert_older
from speedproof.util.errors import RecordError, StorageError, explain_os_error
from speedproof.util.temporary_folder import try_lock
from speedproof.util.units import MIB

Record = TypeVar("Record", bound=BaseModel)

SELF_DIGEST = "seal"  # the field with a record's checksum of itself; records of older versions have none

LIMIT_MIB = 256  # of a JSON or CSV file: the summary of a trace of 20 million events is a few

# What restores a missing or damaged file, by its name. Deleting it does not help: a finished step does not run again, and a
# finished experiment has checksums of its files.
_OF_RECORD = "for a record, get the files again"
_OF_ARCHIVE = f"get the record's {EVIDENCE_FILE} again"
_AGAIN = (
    f"delete its run's folder and start the workflow with `--forcerun experiment`, which keeps the other runs; {_OF_RECORD}"
)
_OF_EXPERIMENT = f"start the workflow with `--forcerun experiment`, which writes it again and keeps whole runs; {_OF_RECORD}"
_DERIVED = "`speedproof results rebuild` recomputes it from the experiments"
_CURES = {
    **dict.fromkeys(["run.json", "epochs.csv", "gpu.csv", "trace.json"], _AGAIN),
    **dict.fromkeys(["plan.json", "experiment.json", "prepared.json"], _OF_EXPERIMENT),
    **dict.fromkeys(["summary.json", "ranks.json", "difference.json", "comparison.json", "figures.json"], _DERIVED),
    "dataset.json": "start the workflow with `--forcerun data`, which writes it again",
    "doctor.json": "start the workflow with `--forcerun doctor`, which writes it again; reports work without it",
    "config.json": "the next start of the workflow writes it again",
}

_TEMPORARY = re.compile(r"\.[0-9a-f]{12}(\.\w+)?")

# What only the place where a file is written, or the disk under it, can be the reason of.
_OF_THE_PLACE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG, errno.ENOENT}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it takes the final name, else it is removed.

    Those that killed processes left beside it are removed: one that is being written is locked. Raises :class:`StorageError`
    where the system does not let it be written.
    """
    if path.exists() and not path.is_file():
        why = "is a folder" if path.is_dir() else "is a device or a pipe"
        raise StorageError(f"{path}: {why}, where a file belongs; choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path.parent)
        temporary, handle = _make_locked(path)
    except OSError as error:
        raise explain_os_error(error, Path(error.filename) if error.errno == errno.ENOTDIR else path) from None
    try:
        yield temporary
        _take_name(temporary, path)
    except OSError as error:
        if error.errno in _OF_THE_PLACE and error.filename in (None, str(temporary), temporary):
            raise explain_os_error(error, path) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _make_locked(path: Path) -> tuple[Path, int]:
    while True:
        temporary = path.with_name(f".{secrets.token_hex(6)}{path.suffix}")
        # By open itself, so that the user's umask counts; never through a link that lies there.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try_lock(handle)
        if os.fstat(handle).st_nlink:  # else another process took it for one that was left
            return temporary, handle
        os.close(handle)


def _remove_left(folder: Path) -> None:
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if try_lock(handle):
                        path.unlink()
                finally:
                    os.close(handle)


def _take_name(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:
        raise explain_os_error(error, path) from None


def write_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, _format_json(value))


def write_sealed(path: Path, value: BaseModel) -> None:
    """Write a model with a checksum of itself: no other file holds one."""
    plain = value.model_dump(mode="json", exclude={SELF_DIGEST})
    write_json(path, plain | {SELF_DIGEST: digest_of(plain)})


def write_json_if_changed(path: Path, value: BaseModel) -> None:
    """Write a model as JSON unless the file holds just that already, so that its time tells when it changed."""
    text = _format_json(value)
    try:
        unchanged = read_text(path) == text
    except RecordError:  # missing, or not readable as text
        unchanged = False
    if not unchanged:
        write_text(path, text)


# A list without lists or objects, over several lines: it is written on one. No text of JSON holds a line break as such.
_PLAIN_LIST = re.compile(r"\[\n\s*([^\[\]{}]*?)\n\s*\]")
_BREAK = re.compile(r",\n\s*")


def _format_json(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return _PLAIN_LIST.sub(lambda found: f"[{_BREAK.sub(', ', found[1])}]", text) + "\n"


# Contents of files that were read to be checked, by path; None outside of :func:`reading_once`.
_checked: ContextVar[dict[Path, bytes] | None] = ContextVar("checked", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """Keep what :func:`sha256_of` checks with `keep`: what is read of such a file next is what was checked."""
    token = _checked.set({})
    try:
        yield
    finally:
        _checked.reset(token)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader | io.BytesIO]:
    """Open a file for reading, on disk or in its record's archive.

    A missing one, and one that is none, such as a folder or a pipe, is a :class:`RecordError`.
    """
    if path in (checked := _checked.get() or {}):
        yield io.BytesIO(checked.pop(path))
        return
    try:
        # Without waiting for somebody to write into a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        content = read_packed(path)
        if content is None:
            refuse_record(path, "no such file")
        yield io.BytesIO(content)
        return
    except (OSError, ValueError) as error:
        refuse_record(path, getattr(error, "strerror", None) or str(error))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            refuse_record(path, "not a regular file")
        yield file


def read_text(path: Path) -> str:
    """Read a file of UTF-8; any other, a missing and a huge one is a :class:`RecordError` that names it."""
    with opened(path) as file:
        if file.seek(0, os.SEEK_END) > LIMIT_MIB * MIB:
            refuse_record(path, f"larger than {LIMIT_MIB} MiB")
        file.seek(0)
        try:
            return file.read(LIMIT_MIB * MIB).decode("utf-8")
        except UnicodeDecodeError as error:
            refuse_record(path, f"not UTF-8, at byte {error.start}")
        except OSError as error:
            refuse_record(path, error.strerror or str(error))


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing, broken or ambiguous one is a :class:`RecordError` that names it."""
    text = read_text(path)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite, object_pairs_hook=_without_doubles)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a character can be read, and never written
        _check_depth(value)
    except RecursionError:
        refuse_record(path, "not readable as JSON: nested too deeply")
    except ValueError as error:  # not JSON; a number that is too long; what the helpers below refuse
        refuse_record(path, f"not readable as JSON ({error})")
    return value


def refuse_record(path: Path, why: str) -> NoReturn:
    """Raise :class:`RecordError` of a file: why it is none of ours, and what to do about it."""
    raise RecordError(f"{path}: {why}; {cure_of(path)}") from None


def cure_of(path: Path) -> str:
    """Return what restores a file of a results folder that cannot be used."""
    cure = _AGAIN if path.suffix == ".parquet" else _CURES.get(path.name, "run the step that writes it")
    return cure if cure == _DERIVED or find_archive(path) is None else _OF_ARCHIVE


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text:.20} is too large")
    return value


def _check_depth(value: Any, left: int = 100) -> None:
    """Raise :class:`RecursionError` if lists and mappings are nested deeper than in any record."""
    if not left:
        raise RecursionError
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            _check_depth(inner, left - 1)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r:.60}: duplicate key")
    return value


def read_record(path: Path, model: type[Record]) -> Record:
    """Read a JSON file as `model`; what does not fit is a :class:`RecordError` that names file and field.

    A file of an earlier version is converted if a converter exists (:mod:`speedproof.results.older_versions`).
    """
    value = read_json(path)
    if isinstance(value, dict):
        if SELF_DIGEST in model.model_fields and (digest := value.pop(SELF_DIGEST, None)) not in (None, digest_of(value)):
            refuse_record(path, f"{SELF_DIGEST}: {digest!r:.20} does not match the file's content: it was changed")
        value = convert_older(model.__name__, value)
    expected = model.model_fields["schema_version"].default if "schema_version" in model.model_fields else None
    found = value.get("schema_version") if isinstance(value, dict) else None
    if expected is not None and found != expected:
        hint = _DERIVED if cure_of(path) == _DERIVED else "use a matching version"
        raise RecordError(f"{path}: schema version {found!r:.20}, this speedproof reads {expected}; {hint}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        refuse_record(path, f"{where:.200}: {first['msg']}")


def sha256_of(path: Path, keep: bool = False) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal; inside of :func:`reading_once` the content can be kept."""
    checked = _checked.get() if keep else None
    with opened(path) as file:
        if checked is None or file.seek(0, os.SEEK_END) > LIMIT_MIB * MIB:
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        checked[path] = file.read()
    return hashlib.sha256(checked[path]).hexdigest()


def digest_of(value: Any) -> str:
    """Return a short, stable digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
