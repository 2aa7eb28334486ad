"""A quiet machine for a proof: what is found of it, and waiting until other programs leave it."""

import time
from collections.abc import Callable, Sequence

from speedproof.cluster.gpu_monitor import list_gpu_uuids, name_gpu_processes
from speedproof.cluster.machine_load import Counters, describe_between, read_counters
from speedproof.results.experiment import PlannedRun
from speedproof.results.observations import MachineLoad
from speedproof.run.locks import Waiting
from speedproof.run.observer import EndedRun, Observer
from speedproof.run.proof.live_status import Status
from speedproof.util.errors import SpeedproofError
from speedproof.util.numbers import format_count, format_duration, format_value

# The system counts in ticks of 10 ms: two cores have 40 of them in the first look, which costs each round that much.
_FIRST_LOOK_S, _LOOK_S = 0.2, 1.0
_LOG_EVERY_S = 60.0
_LEAST_S = 0.5  # over a shorter time, what other programs took is not reported


def describe_machine(load: float | None, before: Counters, on_gpu: Sequence[str] | None, waits: bool) -> str:
    """Return what was found of the machine since a reading of its counters, for the plan.

    `load` is the load average of then, `on_gpu` names the GPU's other users, None if there is no GPU; `waits`: whether
    --wait-for-quiet was given.
    """
    found = describe_between(before, read_counters())
    cores = format_count(found.cores, "core")
    said = [cores if load is None else f"load {load:.1f} on {cores}"]
    is_busy = found.seconds >= _LEAST_S and found.is_busy
    if is_busy:
        said.append(f"other programs used {found.others_cores:.2g} of them since the start")
    if on_gpu is not None:
        said.append(f"on the GPU: {', '.join(on_gpu)}" if on_gpu else "no other process on the GPU")
    hint = "; --wait-for-quiet 10 waits up to 10 minutes for them" if (is_busy or on_gpu) and not waits else ""
    return f"machine: {', '.join(said)}{hint}"


def _format_cores(found: MachineLoad) -> str:
    return f"{found.others_cores:.2g} of {format_count(found.cores, 'core')}"


def wait_aloud(status: Status) -> Waiting:
    """Return a function that prints what is waited for, and for how long so far."""

    def tell(text: str) -> None:
        if status.activity != text:  # the seconds count from its first time
            status.say(text)
            status.go_on_with(text, log_every_s=_LOG_EVERY_S)

    return tell


class QuietWait:
    """Waits until other programs leave the machine, in total at most so many minutes; with None not at all."""

    def __init__(
        self, minutes: float | None, device: str, gpus: int, status: Status, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._left_s, self._status, self._sleep = 60 * (minutes or 0.0), status, sleep
        self._minutes, self._gpus = minutes, gpus if device != "cpu" and list_gpu_uuids() else 0

    def wait(self) -> None:
        """Return once the machine is quiet, or the time is up; print when a wait begins and how it ends."""
        look_s, before_s = _FIRST_LOOK_S, self._left_s
        while self._left_s > 0 and (company := self._find_company(look_s)):
            if look_s != _LOOK_S:
                waiting = f"waiting for a quiet machine: {company}"
                self._status.say(waiting)
                self._status.go_on_with(waiting, log_every_s=_LOG_EVERY_S)
                look_s = _LOOK_S
            if self._left_s <= 0:
                self._status.say(
                    f"the machine is still busy after {format_value(self._minutes, 'min')}: {company}; measuring anyway"
                )
                return
        if self._left_s < before_s:
            self._status.say(f"the machine is quiet after {format_duration(before_s - self._left_s)} of waiting; continuing")

    def _find_company(self, seconds: float) -> str:
        """Look for so many seconds; return who else uses the machine, or nothing."""
        before = read_counters()
        self._sleep(seconds)
        found = describe_between(before, read_counters())
        if on_gpu := name_gpu_processes(self._gpus):
            company = f"on the GPU: {', '.join(on_gpu)}"
        elif found.is_busy:
            company = f"other programs use {_format_cores(found)}"
        else:
            return ""
        self._left_s -= max(found.seconds, seconds)
        return company


class QuietRounds(Observer):
    """Waits before each round until the machine is quiet; tells another observer of all runs."""

    def __init__(self, quiet: QuietWait, told: Observer) -> None:
        self._quiet, self._told, self._round = quiet, told, -1

    def begin_run(self, planned: PlannedRun) -> None:
        """Wait if a round begins."""
        if planned.mode == "timed" and planned.round != self._round:
            self._round = planned.round
            self._quiet.wait()
        self._told.begin_run(planned)

    def end_run(self, ended: EndedRun) -> None:
        self._told.end_run(ended)

    def lose_trace(self, planned: PlannedRun, error: SpeedproofError) -> None:
        self._told.lose_trace(planned, error)
