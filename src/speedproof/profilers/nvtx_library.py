"""The library that NVTX loads into programs: built once by the local C compiler and kept; and the ranges that it wrote."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedproof.util.environment import python_command, python_environment
from speedproof.util.errors import ConfigError, RecordError
from speedproof.util.temporary_folder import removable_folder

SUFFIX = ".ranges"
MARK, PUSHED, STARTED, _DOMAIN_NAME = 1, 2, 3, 4
NAME_BYTES = 80

_HEADER = np.dtype(
    [
        ("magic", "S8"), ("version", "<u4"), ("record_bytes", "<u4"), ("header_bytes", "<u4"), ("process", "<u4"),
        ("opened_ns", "<u8"), ("most", "<u8"), ("records", "<u8"), ("dropped", "<u8"), ("others", "<u8"),
        ("unmatched", "<u8"), ("modules", "<u8"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("begin_ns", "<u8"), ("end_ns", "<u8"), ("id", "<u8"), ("thread", "<u4"), ("end_thread", "<u4"), ("domain", "<u4"),
        ("level", "<u2"), ("cut", "<u2"), ("kind", "<u4"), ("reserved", "<u4"), ("name", f"S{NAME_BYTES}"),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class ProcessRanges:
    """What a process left. Moments are nanoseconds of the machine's monotonic clock.

    `records` are of :data:`RECORD`, in the order in which they began: marks, pushed and started ranges; one that never ended
    has an `end_ns` of 0. `domains` are names by number, 0 that of no domain.
    """

    process: int
    opened_ns: int
    records: np.ndarray
    domains: dict[int, str]
    dropped: int  # wanted, but not kept: there were too many, or no room on the disk
    others: int  # of names that were not wanted
    unmatched: int  # ends of what never began
    unfinished: int  # records that the process' end cut off
    modules: int  # how many modules of the program have an NVTX of their own


def read_ranges(folder: Path) -> list[ProcessRanges]:
    """Read what all processes left in a folder, in the order in which they began it.

    Raises:
        RecordError: a file cannot be what the library writes.
    """
    return sorted((_read_file(path) for path in folder.glob(f"*{SUFFIX}")), key=lambda one: (one.opened_ns, one.process))


def decode_name(name: bytes) -> str:
    """Return a record's name; of a longer one its begin, without a character that was cut."""
    return name.decode("utf-8", "ignore" if len(name) >= NAME_BYTES - 4 else "replace")


def _read_file(path: Path) -> ProcessRanges:
    data = path.read_bytes()
    if len(data) < _HEADER.itemsize:
        raise RecordError(f"{path}: {len(data)} bytes, too short for a file of ranges; run it again")
    header = np.frombuffer(data, _HEADER, 1)[0]
    if header["magic"] != b"SPRANGES" or header["version"] != 1 or header["record_bytes"] != RECORD.itemsize:
        raise RecordError(f"{path}: not a file of ranges of this version; run it again")
    begin, promised = int(header["header_bytes"]), min(int(header["records"]), int(header["most"]))
    there = max(0, len(data) - begin) // RECORD.itemsize
    records = np.frombuffer(data, RECORD, min(promised, there), begin) if promised and there else np.empty(0, RECORD)
    whole = records[records["kind"] > 0]
    names = whole[whole["kind"] == _DOMAIN_NAME]
    events = whole[whole["kind"] != _DOMAIN_NAME]
    # A record that found no room was counted as dropped, and left a gap or nothing.
    lost = int(header["dropped"]) - max(0, int(header["records"]) - int(header["most"]))
    return ProcessRanges(
        process=int(header["process"]),
        opened_ns=int(header["opened_ns"]),
        records=events[np.argsort(events["begin_ns"], kind="stable")],
        domains={0: "", **{int(one["domain"]): decode_name(one["name"]) for one in names}},
        dropped=int(header["dropped"]),
        others=int(header["others"]),
        unmatched=int(header["unmatched"]),
        unfinished=max(0, promised - len(whole) - max(0, lost)),
        modules=int(header["modules"]),
    )


# By this variable NVTX finds what it loads, and so does Nsight Systems with a library of its own.
INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"
RANGES_FOLDER_VARIABLE, NAMES_VARIABLE, MOST_VARIABLE = "SPEEDPROOF_RANGES", "SPEEDPROOF_RANGE_NAMES", "SPEEDPROOF_RANGE_MOST"
SOURCE = Path(__file__).with_name("nvtx_injection.c")
# Never unloaded: a module whose NVTX is refused closes the library, while others go on calling it.
_FLAGS = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wl,-z,nodelete"]
_BUILD_LIMIT_S = 120
# Set by Nsight Systems in what it profiles.
_NSYS_VARIABLE = "NSYS_PROFILING_SESSION_ID"


# Of several loops the fastest: other work of the machine only ever adds.
_MEASURING = """
import ctypes, sys
cost = ctypes.CDLL(sys.argv[1]).speedproof_range_ns
cost.restype = ctypes.c_double
for name in (b"wanted", b"other"):
    print(min(cost(name, 1000) for _ in range(5)))
"""


@dataclass(frozen=True)
class RangeCost:
    """What the library costs a program for each range that it pushes and pops, in nanoseconds: a wanted one, another."""

    wanted_ns: float
    other_ns: float


@dataclass(frozen=True)
class Injected:
    """Extra variables for a program, and the folder for its ranges; both empty if none are recorded."""

    variables: dict[str, str]
    folder: Path | None

    def read(self) -> list[ProcessRanges]:
        """Return what each of the program's processes left. Raises :class:`RecordError` where this cannot be read."""
        return [] if self.folder is None else read_ranges(self.folder)


@contextmanager
def injecting(names: Sequence[str], environ: Mapping[str, str]) -> Iterator[Injected]:
    """Yield what makes a program record its ranges of these `names`, in a temporary folder; nothing without names.

    Raises:
        ConfigError: as :func:`injected_variables`.
    """
    if not names:
        yield Injected({}, None)
        return
    # On this machine's own disk: the library maps its files.
    with removable_folder() as folder:
        yield Injected(injected_variables(folder, names, environ), folder)


def injected_variables(folder: Path, names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables under which a program leaves its ranges of these `names` in `folder`; `*` stands for anything.

    Raises:
        ConfigError: the library cannot be built, or another one is to be loaded in its place.
    """
    if _NSYS_VARIABLE in environ:
        raise ConfigError("source `ranges`: this runs under Nsight Systems, which uses NVTX itself; start it without nsys")
    if INJECTION_VARIABLE in environ:
        raise ConfigError(f"source `ranges`: {INJECTION_VARIABLE} is set already, and can name only one library; unset it")
    return {
        INJECTION_VARIABLE: str(build_library(environ)),
        RANGES_FOLDER_VARIABLE: str(folder.absolute()),
        NAMES_VARIABLE: "\n".join(names),
    }


def measure_cost(environ: Mapping[str, str]) -> RangeCost:
    """Return what a range costs here, measured in a process of its own within some hundredths of a second.

    Raises:
        ConfigError: as :func:`injected_variables`.
    """
    with removable_folder() as folder:
        given = injected_variables(folder, ["wanted"], environ)
        command = python_command("-c", _MEASURING, given[INJECTION_VARIABLE])
        printed = _run(command, {**environ, **python_environment(environ), **given})
    wanted_ns, other_ns = map(float, printed.split())
    return RangeCost(wanted_ns, other_ns)


def build_library(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the library; build it unless the cache holds one of this source and compiler.

    Raises :class:`ConfigError` if the compiler is missing or fails.
    """
    compiler = shutil.which("cc", path=environ.get("PATH"))
    if compiler is None:
        raise ConfigError("source `ranges` is unavailable: no C compiler (cc) found; install one, or choose another source")
    version = _run([compiler, "--version"])
    digest = hashlib.sha256("\0".join([SOURCE.read_text(encoding="utf-8"), version, *_FLAGS]).encode()).hexdigest()[:16]
    kept = _own_folder(environ) / f"nvtx-{digest}.so"
    if not kept.is_file():
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix="build-") as made:
            built = Path(made, kept.name)
            _run([compiler, *_FLAGS, "-o", str(built), str(SOURCE)])
            built.replace(kept)
    return kept


def _run(command: list[str], environ: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", timeout=_BUILD_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"source `ranges` is unavailable: {command[0]} cannot be run ({error})") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ConfigError(f"source `ranges` is unavailable: {command[0]} failed ({' '.join(last)[:200]})")
    return done.stdout


def _own_folder(environ: Mapping[str, str]) -> Path:
    """Return a folder that nobody else can write to, since what lies there is loaded into programs."""
    home = environ.get("XDG_CACHE_HOME") or (Path(environ["HOME"], ".cache") if environ.get("HOME") else None)
    places = [Path(home, "speedproof")] if home else []
    places.append(Path(tempfile.gettempdir(), f"speedproof-{os.geteuid()}"))
    for place in places:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if ours and place.is_dir() and not place.is_symlink() and os.access(place, os.W_OK):
            return place.absolute()
    raise ConfigError(f"source `ranges` is unavailable: none of {', '.join(map(str, places))} is a folder of yours alone")
