"""What a reader must know about how a loop's iterations were found, and what is in none of them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from speedproof.trace.events import Trace, bounds_of, cover_events
from speedproof.trace.intervals import coverage, total
from speedproof.trace.iterations import Iterations
from speedproof.util.numbers import format_value
from speedproof.util.units import NS_PER_MS


def list_notes(trace: Trace, iterations: Iterations, epochs: pd.DataFrame) -> Iterator[str]:
    """Yield the notes about iterations; `epochs` are those that are left, with the bounds that they have in the end."""
    found = iterations.found
    kernels = cover_events(trace.activity[(trace.activity["process"] == iterations.process) & trace.activity["kernel"]])
    held_ns, whole_ns = int(coverage(kernels, *bounds_of(epochs)).sum()), total(kernels)
    share = format_value(held_ns / max(whole_ns, 1), "%")
    if trace.info.left_out:
        yield f"this record keeps only the last {len(epochs)} {found.plural}; {trace.info.left_out} before them are left out"
    yield from iterations.set_aside
    if found.by == "repetition":
        yield _describe_kernels(iterations, epochs, share)
    elif iterations.pattern is not None:
        yield f"no range holds the loop: its {len(epochs)} iterations are repetitions of {iterations.pattern.of_what}"
    yield from iterations.notes
    if trace.of_operators and found.by == "nothing":
        yield "only operators were recorded, which mark no iteration: the whole trace counts as one stretch"
    elif found.by == "nothing":
        none = "no iterations were found" if iterations.notes or iterations.set_aside else "nothing repeats"
        yield f"{none}: the whole trace counts as one stretch; name the range of an iteration (--epoch)"
    if trace.open_ranges:
        yield f"{trace.open_ranges} ranges never ended"
    if found.by == "ranges" and 2 * held_ns < whole_ns:
        yield f"the {found.plural} hold {share} of the time in which the GPU runs kernels; the rest is left out"


def _describe_kernels(iterations: Iterations, epochs: pd.DataFrame, share: str) -> str:
    low, middle, high = np.percentile(epochs["end_ns"] - epochs["start_ns"], [10, 50, 90]) / NS_PER_MS
    of_what, cut = (iterations.pattern.of_what, iterations.pattern.cut) if iterations.pattern else ("kernels", False)
    last = ", and the last of them, whose end no launch shows" if cut else ""
    its = "the loop's" if iterations.set_aside else "no range marks the loop: its"
    return (
        f"{its} {len(epochs)} iterations are repetitions of {of_what}; 80 % of them last {low:.4g} to {high:.4g} ms, median "
        f"{middle:.4g}. They hold {share} of the time in which the GPU runs kernels; left out is what is launched before, "
        f"between and after them{last}"
    )
