"""The GPUs that a trace of torch.profiler names, before its events."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

_DEVICES = re.compile(r'"deviceProperties"\s*:\s*')
_MOST = 1024  # of a machine


def read_devices(head: str) -> pa.Table:
    """Return number and name of each GPU that the head of a trace names."""
    given: object = None
    with suppress(ValueError, RecursionError):
        if found := _DEVICES.search(head):
            given, _ = json.JSONDecoder().raw_decode(head, found.end())
    devices = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    known = {number: name for number, name in map(_read_device, devices) if number is not None and name is not None}
    return pa.table({"device": pa.array(known.keys(), pa.int32()), "name": pa.array(known.values(), pa.string())})


def _read_device(given: Mapping[str, object]) -> tuple[int | None, str | None]:
    number, name = given.get("id"), given.get("name")
    return (
        number if type(number) is int and 0 <= number < _MOST else None,
        name if isinstance(name, str) and name.isprintable() else None,
    )
