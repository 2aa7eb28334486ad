"""What two experiments must not share: a folder, which both would fill, and a device, whose times each would spoil.

The system keeps the locks and frees them when an experiment ends, in whatever way: none is ever stale. A folder's lock is one
of its file system; over a network it holds if that has locks, as NFS 4 and most clusters' have. A device's is a socket of a
name without a file, one for all users of a machine: there is nothing to plant, and containers that share the machine's network,
as Apptainer's do, share it too. On systems without such sockets a user's experiments share one lock.
"""

import errno
import fcntl
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from speedproof.cluster.gpu_monitor import list_gpu_uuids
from speedproof.util.errors import BusyError, RecordError

LOCK_FILE = ".lock"
# Experiments of another value do not know of each other; for tests.
LOCKS_VARIABLE = "SPEEDPROOF_LOCKS"
# What a killed experiment started is killed at once, but a process that wrote to a disk, or used a GPU, takes a moment to die.
_PATIENCE_S = 3
Waiting = Callable[[str], None]  # receives whom one waits for, every few seconds
_LISTENS = "00010000"  # among the flags of /proc/net/unix: __SO_ACCEPTCON of linux/net.h


@contextmanager
def holding_folder(folder: Path, waiting: Waiting | None = None) -> Iterator[None]:
    """Keep other experiments out of a folder while this one fills it; with `waiting`, wait until it is free.

    Raises:
        BusyError: one fills it already.
        RecordError: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except (FileExistsError, NotADirectoryError):
        raise RecordError(f"{folder}: this path is, or leads through, a file; name another folder") from None
    except OSError as error:
        raise RecordError(f"{folder / LOCK_FILE}: cannot be written ({error.strerror}); name another folder") from None
    try:
        while not _try_patiently(lambda: _lock_file(file)):
            holder = os.pread(file, 200, 0).decode(errors="replace").strip() or "another process"
            if waiting is None:
                raise BusyError(f"{folder}: is in use by {holder}; wait for it to end, or stop it, then run again")
            waiting(f"waiting for {holder}, which uses {folder}")
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


@contextmanager
def holding_devices(
    device: str, gpus: int, environ: Mapping[str, str] = os.environ, waiting: Waiting | None = None
) -> Iterator[None]:
    """Keep other experiments off this one's devices: its first `gpus` GPUs for `cuda`, else all processor cores it may use.

    With `waiting`, wait until they are free. Meanwhile none of them is held, as whoever measures would take it for company.

    Raises:
        BusyError: an experiment measures there already.
    """
    if not sys.platform.startswith("linux"):  # whose own are sockets without a file
        with holding_folder(Path(tempfile.gettempdir()) / f"speedproof-{os.geteuid()}", waiting):
            yield
        return
    if device == "cuda":
        names = [f"GPU {uuid}" for uuid in list_gpu_uuids(environ)[:gpus]] or ["GPU unknown to NVML"]
        cores = {}
    else:
        # Where Slurm calls a part of a machine a node, a job has that part for itself.
        node = environ.get("SLURMD_NODENAME", "")
        cores = {f"core {number} of the processor{node and ' of '}{node}": number for number in sorted(os.sched_getaffinity(0))}
        names = list(cores)
    with ExitStack() as stack:
        while True:
            try:
                with ExitStack() as held:
                    for name in names:
                        held.enter_context(_holding(name, cores, environ, waiting))
                    stack.push(held.pop_all())
                break
            except BusyError:
                if waiting is None:
                    raise
        yield


def others_measure(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether another experiment measures on this machine now, be it on other devices; False where nothing tells."""
    try:
        listed = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
        own = set(_list_open())
    except OSError:
        return False
    prefix = _address("", environ).replace("\0", "@")
    held = (line.split(maxsplit=7) for line in listed)
    return any(
        len(cells) == 8
        and cells[3] == _LISTENS  # a process that was refused and asks for the holder is listed there, too
        and cells[7].startswith(prefix)
        and f"socket:[{cells[6]}]" not in own
        for cells in held
    )


def _list_open() -> Iterator[str]:
    """Yield what this process has open, sockets as `socket:[INODE]`: a file's inode may have the number of another's socket."""
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            yield str(file.readlink())


def _address(name: str, environ: Mapping[str, str]) -> str:
    return f"\0speedproof {environ.get(LOCKS_VARIABLE, '')[-40:]} {name}"[:107]


@contextmanager
def _holding(name: str, cores: Mapping[str, int], environ: Mapping[str, str], waiting: Waiting | None) -> Iterator[None]:
    """Hold one of the `cores` of this experiment, which are held in their order, or a GPU."""
    with socket.socket(socket.AF_UNIX) as own:
        address = _address(name, environ)
        if not _try_patiently(lambda: _bind(own, address)):
            holder = _find_holder(address)
            if waiting is not None:
                waiting(f"waiting for {holder} to end")
            raise BusyError(
                f"{name}: {holder} is measuring on it; wait until it ends (prove --wait){_propose_others(name, cores, environ)}"
            )
        own.listen()
        yield


def _propose_others(name: str, cores: Mapping[str, int], environ: Mapping[str, str]) -> str:
    """Return on which devices an experiment could measure instead of `name`, if that may work."""
    if name not in cores:
        return ", or give this one another GPU (CUDA_VISIBLE_DEVICES)"
    before = list(cores).index(name)  # these are this experiment's
    free = [number for place, (core, number) in enumerate(cores.items()) if place < before or _is_free(core, environ)]
    return f", or give this one other cores (taskset -c {','.join(map(str, free))})" if free else ""


def _is_free(name: str, environ: Mapping[str, str]) -> bool:
    with socket.socket(socket.AF_UNIX) as own:
        return _bind(own, _address(name, environ))


def _try_patiently(attempt: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while not (done := attempt()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return done


def _lock_file(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bind(own: socket.socket, address: str) -> bool:
    try:
        own.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def _find_holder(address: str) -> str:
    """Return who listens on a socket, as the system tells."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(address)
            process, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return "another experiment"
    return f"another experiment, process {process} of user {user}," if process else "another experiment"
