"""The GPU as NVML sees it: what it is, and what it does ten times a second while a run trains."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import pynvml

from speedproof.results.run_record import GPU_COLUMNS, Gpu
from speedproof.util.units import MIB

# NVML's bits, in words.
THROTTLE_REASONS = {
    pynvml.nvmlClocksThrottleReasonGpuIdle: "gpu idle",
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "application clocks",
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "software thermal slowdown",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hardware thermal slowdown",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display clocks",
}


log = logging.getLogger("speedproof")


def describe_gpu(environ: Mapping[str, str] = os.environ) -> Gpu | None:
    """Return the GPU that torch would use first under `environ`; None without a GPU, or if NVML fails."""
    handle = find_gpu(environ, 0)
    if handle is None:
        return None
    try:
        return _describe(handle)
    except (pynvml.NVMLError, UnicodeDecodeError) as error:
        log.warning("NVML does not describe the GPU (%s)", error)
        return None


def _describe(handle: Any) -> Gpu:
    ecc = ask_nvml(lambda: pynvml.nvmlDeviceGetEccMode(handle)[0])
    mig = ask_nvml(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    power_mw = ask_nvml(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    return Gpu(
        name=pynvml.nvmlDeviceGetName(handle),
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        driver=pynvml.nvmlSystemGetDriverVersion(),
        memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB,
        power_limit_w=None if power_mw is None else power_mw / 1000,
        max_sm_clock_mhz=ask_nvml(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        application_sm_clock_mhz=ask_nvml(lambda: pynvml.nvmlDeviceGetApplicationsClock(handle, pynvml.NVML_CLOCK_SM)),
        ecc=None if ecc is None else bool(ecc),
        mig=None if mig is None else bool(mig),
    )


def list_gpu_uuids(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the UUIDs of all GPUs that CUDA sees under `environ`, in its order."""
    handles = (find_gpu(environ, number) for number in count())
    uuids = [
        ask_nvml(partial(pynvml.nvmlDeviceGetUUID, handle)) for handle in takewhile(lambda found: found is not None, handles)
    ]
    return [uuid for uuid in uuids if uuid is not None]


def find_compute_capability(environ: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """Return the compute capability of the GPU that CUDA sees first under `environ`; None if NVML does not report it."""
    handle = find_gpu(environ, 0)
    found = None if handle is None else ask_nvml(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    return None if found is None else (found[0], found[1])


def name_gpu_processes(gpus: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return number and program of each process that computes on the first `gpus` GPUs, which nobody of ours does between runs.

    A process of another container may have no name here.
    """
    handles = [handle for number in range(gpus) if (handle := find_gpu(environ, number)) is not None]
    return [_name_process(number) for number in _list_computing(handles)]


def naming_others(
    gpus: int, is_ours: Callable[[int], bool], environ: Mapping[str, str] = os.environ
) -> Callable[[], list[str]] | None:
    """Return a function that names the processes on the first `gpus` GPUs that are not ours; None if there is no GPU.

    Processes of other containers are left out: they cannot be distinguished from a run's own.
    """
    handles = [handle for number in range(gpus) if (handle := find_gpu(environ, number)) is not None]
    if not handles:
        return None

    def name_others() -> list[str]:
        others = [number for number in _list_computing(handles) if not is_ours(number)]
        return [_name_process(number) for number in others if _name_program(number)]  # named last: it may have ended meanwhile

    return name_others


def _list_computing(handles: Sequence[Any]) -> list[int]:
    """Return the numbers of the processes that compute on these GPUs, except this one."""
    found = [ask_nvml(partial(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)) or [] for handle in handles]
    return list(dict.fromkeys(one.pid for processes in found for one in processes if one.pid != os.getpid()))


def _name_process(number: int) -> str:
    return f"process {number}{_name_program(number)}"


def _name_program(number: int) -> str:
    try:
        name = Path(f"/proc/{number}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return f" ({name})" if name else ""


class GpuMonitor:
    """Samples the `number`-th GPU into a CSV file of :data:`GPU_COLUMNS` in a `with` block; without a GPU, writes the header.

    Rows are written at once, so a run that crashes keeps its samples; they are appended to an existing file.
    `origin_s` is the zero of `time_s`, on the clock of :func:`time.perf_counter`. If the samples end before the block does, or
    lack what the GPU reported before, :attr:`problem` describes it, and the run goes on.
    """

    def __init__(
        self,
        path: Path,
        samples_per_s: int,
        origin_s: float,
        environ: Mapping[str, str] = os.environ,
        number: int = 0,
    ) -> None:
        self._path = path
        self._number = number
        self._interval_s = 1 / samples_per_s
        self._origin_s = origin_s
        self._environ = environ
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.sees_gpu = True
        self._lost = 0
        self._rows = 0
        self._end = ""

    @property
    def problem(self) -> str | None:
        """Return what could not be sampled, once the `with` block has ended; None if nothing is missing."""
        if self._end:
            return f"samples of the GPU end after {self._rows}: {self._end}"
        return f"NVML reported nothing in {self._lost} of {self._rows} samples of the GPU" if self._lost else None

    def __enter__(self) -> "GpuMonitor":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a", encoding="utf-8", newline="\n", buffering=1)
        if not file.tell():
            file.write(",".join(GPU_COLUMNS) + "\n")
        handle = find_gpu(self._environ, self._number)
        if handle is None:
            self.sees_gpu = False
            file.close()
        else:
            self._thread = threading.Thread(target=self._sample_until_stopped, args=(handle, file), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _sample_until_stopped(self, handle: Any, file: TextIO) -> None:
        try:
            with file:
                self._sample(handle, file)
        except Exception as error:  # a thread's own end: nobody else would hear of it
            self._end = f"{type(error).__name__}: {' '.join(str(error).split())}"

    def _sample(self, handle: Any, file: TextIO) -> None:
        next_s = time.perf_counter()
        while True:
            time_s = time.perf_counter() - self._origin_s
            values = _read_sample(handle)
            file.write(",".join([f"{time_s:.6f}", *("" if value is None else str(value) for value in values)]) + "\n")
            self._rows += 1
            self._lost += all(value is None for value in values)
            next_s = max(next_s + self._interval_s, time.perf_counter())  # a late sample is not made up for
            if self._stop.wait(next_s - time.perf_counter()):
                return


def _read_sample(handle: Any) -> list[Any]:
    """Return the values of one line of the table, without its time; what the GPU does not tell is None."""
    utilization = ask_nvml(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    used_bytes = ask_nvml(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    power_mw = ask_nvml(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    return [
        None if utilization is None else utilization.gpu,
        None if utilization is None else utilization.memory,
        None if used_bytes is None else int(used_bytes) // MIB,
        ask_nvml(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        ask_nvml(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        None if power_mw is None else f"{power_mw / 1000:.3f}",
        ask_nvml(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        _name_reasons(ask_nvml(lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
    ]


def _name_reasons(bits: int | None) -> str | None:
    """Return why the clocks are lower than they could be, joined by `|`; "none" where nothing holds them down."""
    if bits is None:
        return None
    named = [name for bit, name in THROTTLE_REASONS.items() if bits & bit]
    return "|".join(named) or ("none" if not bits else "other")


def find_gpu(environ: Mapping[str, str], number: int) -> Any:
    """Return NVML's handle of the GPU with this CUDA number; None if CUDA sees fewer GPUs.

    CUDA_VISIBLE_DEVICES holds indices or (beginnings of) UUIDs. NVML orders GPUs by PCI address and CUDA by speed (its
    default): the same order if all GPUs of a node are of one model.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number)] if visible is None else [name.strip() for name in visible.split(",")][number : number + 1]
    if not names or not names[0]:
        return None
    (name,) = names
    try:
        pynvml.nvmlInit()
        if name.isdigit():
            return pynvml.nvmlDeviceGetHandleByIndex(int(name))
        if name.startswith("MIG-"):
            return pynvml.nvmlDeviceGetHandleByUUID(name)
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return next((handle for handle in handles if pynvml.nvmlDeviceGetUUID(handle).startswith(name)), None)
    except pynvml.NVMLError:
        return None


def ask_nvml(question: Callable[[], Any]) -> Any:
    """Return NVML's answer; None if this GPU or driver does not support the question."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


_INTERVAL_S = 0.25


class GpuUse:
    """Which of a machine's GPUs had processes that were not there before, so far."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles
        self._before = [self._list_processes(handle) for handle in handles]
        self._used: set[int] = set()

    @property
    def gpus(self) -> int | None:
        """Return how many GPUs have been used; None if there are none, or none was seen used, as by a run of a moment."""
        return len(self._used) or None

    def look(self) -> None:
        """Take note of the GPUs that are used now."""
        for number, handle in enumerate(self._handles):
            if number not in self._used and self._list_processes(handle) - self._before[number]:
                self._used.add(number)

    def look_until(self, stop: threading.Event) -> None:
        """Look four times a second."""
        while not stop.wait(_INTERVAL_S):
            self.look()

    @staticmethod
    def _list_processes(handle: Any) -> set[int]:
        # In a container NVML may number processes as the host does, so their parents do not identify them.
        found = ask_nvml(partial(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)) or []
        return {one.pid for one in found if one.pid != os.getpid()}


@contextmanager
def counting_gpus(environ: Mapping[str, str]) -> Iterator[GpuUse]:
    """Count the GPUs that are used while the block runs, of those that CUDA sees under `environ`."""
    handles = takewhile(lambda found: found is not None, (find_gpu(environ, number) for number in count()))
    use, stop = GpuUse(list(handles)), threading.Event()
    watcher = threading.Thread(target=use.look_until, args=(stop,), daemon=True)
    watcher.start()
    try:
        yield use
    finally:
        stop.set()
        watcher.join()
