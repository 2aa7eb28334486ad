"""Loops made up for tests: a host that launches kernels on one stream, and what is true of each of its steps.

The truth is a simulation of two clocks, the host's and the GPU's; it knows nothing of how iterations are found. Times are in
microseconds.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.trace.handmade import MAIN, TraceBuilder

_CALL, _DELAY = 2, 3  # how long a launch takes, and how soon after it a kernel begins at the earliest


@dataclass(frozen=True)
class MadeLoop:
    """A loop: in each step the host launches `kernels`, and works for `host` in all."""

    steps: int = 8
    kernels: tuple[tuple[str, int], ...] = (("gemm", 300), ("relu", 100), ("adam", 200))  # names and lengths
    host: int = 1000  # a step, without waiting; at least what its launches take
    waits: bool = True  # at the end of each step, for the GPU
    waits_every: int = 0  # at the end of every so many steps, whatever `waits` says
    queue: int = 0  # so many kernels may wait for the GPU, else the next launch waits; 0: any number
    copy: int = 0  # how long a copy lasts that each step launches first, on a stream of its own
    name: str | None = "step {}"  # of each step's range, with its number; None: no range marks them
    first: int = 0  # number in the first one's name
    siblings: tuple[str, ...] = ()  # ranges that divide the host's time of a step evenly
    start_up: tuple[tuple[str, int], ...] = ()  # kernels before the loop, one after the other
    after: tuple[tuple[str, int], ...] = ()  # and behind it
    stub: bool = False  # a range of the steps' name behind them, without a launch
    start: int = 0
    gpu: bool = True  # its kernels were traced
    thread: int = MAIN  # that runs it

    @property
    def busy(self) -> int:
        """How long the GPU works for a step."""
        return sum(length for _, length in self.kernels)


@dataclass(frozen=True)
class MadeStep:
    """What is true of a step."""

    host_start: int
    host_end: int
    start: int  # when the host has begun it and the GPU has done what was launched before
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def make_loop(loop: MadeLoop, trace: TraceBuilder | None = None) -> tuple[TraceBuilder, list[MadeStep]]:
    """Return a loop's trace, added to a given one if there is one, and its steps."""
    trace, gpu, clock, steps = trace or TraceBuilder(), loop.start, loop.start, list[MadeStep]()
    correlation, copied, begun = loop.start, loop.start, list[int]()

    def launch(at: int, kernel: tuple[str, int]) -> int:
        """Launch a kernel; return how long the host waits for room in the queue."""
        nonlocal gpu, correlation
        if not loop.gpu:
            return 0
        name, length = kernel
        ready = max(at, begun[-loop.queue]) if loop.queue and len(begun) >= loop.queue else at
        gpu, correlation = max(gpu, ready + _DELAY) + length, correlation + 1
        begun.append(gpu - length)
        trace.call("cudaLaunchKernel", at, ready + _CALL, correlation, thread=loop.thread)
        trace.kernel(gpu - length, gpu, correlation, name=name)
        return ready - at

    def copy(at: int) -> None:
        nonlocal copied, correlation
        copied, correlation = max(copied, at + _DELAY) + loop.copy, correlation + 1
        trace.call("cudaMemcpyAsync", at, at + _CALL, correlation, thread=loop.thread)
        trace.copy(copied - loop.copy, copied, correlation, "DtoH", "device", "pinned", stream=20)

    for kernel in loop.start_up:
        launch(clock, kernel)
        clock = gpu + 5
    for number in range(loop.steps):
        begin, before = clock, gpu
        late = 0
        if loop.copy:
            copy(begin)
            late += _CALL
        for place, kernel in enumerate(loop.kernels):
            late += launch(begin + late + loop.host * place // len(loop.kernels), kernel)
        clock = begin + late + loop.host
        waits = loop.waits or (loop.waits_every and number % loop.waits_every == loop.waits_every - 1)
        if waits and gpu > clock:
            trace.call("cudaDeviceSynchronize", clock, gpu, thread=loop.thread)
            clock = gpu
        for place, name in enumerate(loop.siblings):
            length = (clock - begin) // len(loop.siblings)
            trace.range(name, begin + length * place, begin + length * (place + 1) - 1, loop.thread)
        if loop.name is not None:
            trace.range(loop.name.format(loop.first + number), begin, clock, loop.thread)
        steps.append(MadeStep(begin, clock, max(begin, before), max(clock, gpu)))
    if loop.stub and loop.name is not None:
        trace.range(loop.name.format(loop.first + loop.steps), clock, clock + 18, loop.thread)
        trace.call("cudaDeviceSynchronize", clock + 18, max(gpu, clock) + 20, thread=loop.thread)
    for kernel in loop.after:
        launch(clock, kernel)
        clock += 30
    return trace, steps


@st.composite
def kernel_lists(draw: st.DrawFn, least: int = 2, most: int = 6) -> tuple[tuple[str, int], ...]:
    """Draw the kernels of a step; one of them comes once, so that no part of a step looks like all of it."""
    lengths = draw(st.lists(st.integers(50, 500), min_size=least, max_size=most))
    names = [f"layer_{'abcdef'[place]}" for place in range(len(lengths) - 1)]
    return tuple(zip([*names, "adam"], lengths, strict=True))


@st.composite
def made_loops(draw: st.DrawFn, least_steps: int = 4, **given: object) -> MadeLoop:
    """Draw a loop that waits for the GPU in each step, keeps up with it, or runs ahead of it; `given` parts are fixed."""
    kernels = draw(kernel_lists())
    host = max(draw(st.integers(200, 3000)), 10 * len(kernels))
    drawn = {"steps": draw(st.integers(least_steps, 12)), "kernels": kernels, "host": host, "waits": draw(st.booleans())}
    return MadeLoop(**(drawn | given))  # type: ignore[arg-type]
