"""What else the machine does while a run is measured: other processes, stolen time, quotas, clocks, other users of its GPU.

A few files of `/proc` and `/sys` are read before and after a run. What has no counter (the cores' clock, who is on the GPU) is
looked at once a second by a thread that sleeps in between.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean

from speedproof.results.observations import MachineLoad
from speedproof.util.guardian import find_descendants

_PROC, _CPUS = Path("/proc"), Path("/sys/devices/system/cpu")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY_S = 1.0
# To read a core's clock wakes it up: of many cores a few are looked at.
_MOST_CLOCKS = 4
# The columns of a line of /proc/stat, from proc(5); a guest's time is in the user's.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_BUSY = (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)


@dataclass(frozen=True)
class Counters:
    """What the system counted up to a moment. None: it does not tell."""

    at_s: float  # of the monotonic clock
    own_s: float  # CPU time of this process and of all below it that ended
    cores: int  # that this process may use
    busy_s: float | None  # CPU time of all processes on these cores
    stolen_s: float | None  # in which the hypervisor gave these cores to others
    quota_s: float | None  # in which the CPU quota of a control group held it back, all cores together
    thermal_events: int | None  # in which heat held a core's clock down


def read_counters() -> Counters:
    """Return what the system has counted up to now."""
    cores = _list_cores()
    busy_s, stolen_s = _read_cores(cores)
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return Counters(time.monotonic(), own_s, len(cores), busy_s, stolen_s, _read_quota(), _read_thermal(cores))


def describe_between(before: Counters, after: Counters) -> MachineLoad:
    """Return what the machine did between two readings, in which this process waited for all that it started."""
    busy_s, own_s = _less(after.busy_s, before.busy_s), after.own_s - before.own_s
    return MachineLoad(
        cores=after.cores,
        seconds=max(0.0, after.at_s - before.at_s),
        others_cpu_s=None if busy_s is None else max(0.0, busy_s - own_s),
        stolen_s=_less(after.stolen_s, before.stolen_s),
        quota_throttled_s=_less(after.quota_s, before.quota_s),
        thermal_events=None if (events := _less(after.thermal_events, before.thermal_events)) is None else int(events),
    )


def read_load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


@dataclass
class MachineWatch:
    """What is seen of the machine while a run goes on; :attr:`found` once it has ended."""

    name_on_gpu: Callable[[], Iterable[str]]
    load: float | None = field(default_factory=read_load)
    clocks_mhz: list[float] = field(default_factory=list)
    on_gpu: dict[str, None] = field(default_factory=dict)  # an ordered set
    found: MachineLoad | None = None

    def look(self, paths: list[Path]) -> None:
        """Look once at what nobody counts: the clocks that these files hold, and who else is on the GPU."""
        clocks = [float(text) / 1000 for path in paths if (text := _read(path)).isdigit()]
        if clocks:
            self.clocks_mhz.append(fmean(clocks))
        self.on_gpu.update(dict.fromkeys(self.name_on_gpu()))


@contextmanager
def watching_machine(name_on_gpu: Callable[[], Iterable[str]] | None = None) -> Iterator[MachineWatch]:
    """Watch the machine while the block runs; `name_on_gpu` names who is on the GPU besides, and is asked each second."""
    watch, stop = MachineWatch(name_on_gpu or tuple), threading.Event()
    paths = [path for path in map(_clock_file, sorted(_list_cores())[:_MOST_CLOCKS]) if path.exists()]

    def look_until_stopped() -> None:
        while not stop.wait(_LOOK_EVERY_S):
            watch.look(paths)

    looking = threading.Thread(target=look_until_stopped, daemon=True) if paths or name_on_gpu else None
    before = read_counters()
    if looking:
        looking.start()
    try:
        yield watch
    finally:
        after = read_counters()
        stop.set()
        if looking:
            looking.join()
        clock_mhz = fmean(watch.clocks_mhz) if watch.clocks_mhz else None
        seen = {"load": watch.load, "clock_mhz": clock_mhz, "gpu_processes": list(watch.on_gpu)}
        watch.found = describe_between(before, after).model_copy(update=seen)


def is_of_ours(process: int) -> bool:
    return process == os.getpid() or process in find_descendants(os.getpid())


def _list_cores() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return set(range(os.cpu_count() or 1))


def _read_cores(cores: set[int]) -> tuple[float | None, float | None]:
    """Return for how long these cores were busy and stolen, in seconds since the machine started."""
    busy, stolen, idle, found = 0, 0, 0, 0
    for line in _read(_PROC / "stat").splitlines():
        name, *values = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores and len(values) > _STEAL:
            ticks = list(map(int, values))
            busy, stolen, idle = busy + sum(ticks[one] for one in _BUSY), stolen + ticks[_STEAL], idle + ticks[_IDLE]
            found += 1
    if found < len(cores) or not busy + idle:  # sandboxes write zeros
        return None, None
    return busy / _TICKS_PER_S, stolen / _TICKS_PER_S


def _read_quota() -> float | None:
    """Return how long CPU quotas throttled this process' control groups; None if none of them counts it."""
    found = None
    for path in _list_quota_files():
        counts = dict(line.split(maxsplit=1) for line in _read(path).splitlines() if len(line.split()) == 2)
        for name, per_s in (("throttled_usec", 10**6), ("throttled_time", 10**9)):  # version 2 of control groups, and 1
            if counts.get(name, "").isdigit():
                found = (found or 0.0) + int(counts[name]) / per_s
    return found


@cache
def _list_quota_files() -> list[Path]:
    """Return `cpu.stat` of this process' control group and of those above it, as far as they are in sight."""
    root, found = Path("/sys/fs/cgroup"), []
    for line in _read(_PROC / "self/cgroup").splitlines():
        _, controllers, place = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = [part for part in place.split("/") if part not in ("", "..")]
        for top in (root / controllers, root / "cpu,cpuacct", root / "cpu") if controllers else (root, root / "unified"):
            folders = [top.joinpath(*names[:depth]) for depth in range(len(names) + 1)]
            found += [path for folder in folders if (path := folder / "cpu.stat").is_file()]
    return list({path.resolve(): path for path in found}.values())


def _read_thermal(cores: set[int]) -> int | None:
    """Return how often heat held a clock of these cores down since the machine started; None where it does not tell."""
    texts = [_read(_CPUS / f"cpu{core}/thermal_throttle/core_throttle_count") for core in sorted(cores)]
    counts = [int(text) for text in texts if text.isdigit()]
    return sum(counts) if counts else None


def _clock_file(core: int) -> Path:
    return _CPUS / f"cpu{core}/cpufreq/scaling_cur_freq"


def _read(path: Path) -> str:
    """Return a system file's text; empty if it does not exist."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(0.0, after - before)
