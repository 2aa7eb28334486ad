"""Counted FLOP beside what the GPUs of a run can do: how well they are used, and whether a speed is possible at all."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from speedproof.results.comparison import Utilization
from speedproof.results.comparison_rows import Objection, Origin
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.observations import CountedFlop
from speedproof.results.run_record import EPOCHS_FILE, OBSERVED, RUN_FILE
from speedproof.stats.run_values import all_epochs_s, read_column, training_epoch_s, warm_up_epochs
from speedproof.util.gpu_peaks import BEYOND, GpuPeaks, find_peaks

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# Reports that covered less of the counted run leave out work whose share of a timed run is not known.
_LEAST_SHARE = 0.9
_ALIKE = 0.01  # of the larger: shapes that depend on random data make FLOP differ by less


@dataclass(frozen=True)
class _Use:
    """How long a run took for the FLOP that were counted, by its reports and by our clock."""

    counted: CountedFlop
    peaks: GpuPeaks | None
    gpus: int
    reported_s: float | None  # as if its reports covered all of that time, as far as they did while it was counted
    observed_s: float | None

    @property
    def seconds(self) -> float | None:
        """Return the time by our clock, if it saw the epochs."""
        return self.observed_s or self.reported_s

    def least_s(self, beyond: bool = False) -> float | None:
        """Return how long the FLOP take at the peaks; or at speeds that are `beyond` them by all that datasheets leave open."""
        if self.peaks is None or self.counted.device != "cuda" or not self.counted.total:
            return None
        if beyond:
            speeds = {kind: self.peaks.most_flop_per_s(kind) for kind in self.counted.flop}
        else:
            speeds = {kind: self.peaks.flop_per_s(kind) for kind in self.counted.flop}
        known = {kind: speed for kind, speed in speeds.items() if speed}
        if not beyond and len(known) < len(speeds):
            return None
        least_s = sum(self.counted.flop[kind] / speed for kind, speed in known.items())
        return least_s / self.gpus / (BEYOND if beyond else 1.0)


def _read_use(run: MeasuredRun) -> _Use | None:
    seen = run.run.observed
    if seen is None or seen.warm_up is None or seen.warm_up.flop is None:
        return None
    counted, gpu = seen.warm_up.flop, run.run.conditions.gpu
    by_epoch = counted.of == "epoch"
    reported_s = training_epoch_s(run.epochs, warm_up_epochs(run.run)) if by_epoch else all_epochs_s(run.epochs)
    known = reported_s is not None and math.isfinite(reported_s) and (counted.reported_share or 0.0) >= _LEAST_SHARE
    return _Use(
        counted=counted,
        peaks=find_peaks(gpu.name if gpu else None),
        gpus=max(1, seen.gpus or 1, seen.ranks, run.run.ranks),
        reported_s=(reported_s or 0.0) / (counted.reported_share or 1.0) if known else None,
        observed_s=_find_observed_epoch(run) if by_epoch else run.run.process_s,
    )


def _find_observed_epoch(run: MeasuredRun) -> float | None:
    """Return the median epoch by our clock; None if it saw none."""
    if OBSERVED not in run.epochs:
        return None
    known = [seconds for seconds in read_column(run.epochs, OBSERVED).tolist() if math.isfinite(seconds)]
    return median(known) if known else None


def check_hardware(examined: "Examined") -> list[Objection]:
    """Object to variants that would compute faster than their GPUs can, and state if one computes less than the other."""
    uses = [_read_uses([pair[place] for pair in examined.pairs]) for place in (0, 1)]
    found = []
    for variant, own in zip(examined.variants, uses, strict=True):
        found += [_object(variant, own)] if own and _is_impossible(own) else []
    if all(uses):
        found += _compare(examined, uses[0][0].counted, uses[1][0].counted)
    return found


def _read_uses(runs: Sequence[MeasuredRun]) -> list[_Use]:
    """Return the use of each run; nothing if it is not known of one."""
    uses = [use for use in map(_read_use, runs) if use is not None]
    return uses if len(uses) == len(runs) else []


def _find_fastest(uses: Sequence[_Use]) -> float | None:
    """Return the shorter of the median times by either clock; None if none is known."""
    reported = [use.reported_s for use in uses if use.reported_s]
    observed = [use.observed_s for use in uses if use.observed_s]
    return min((median(times) for times in (reported, observed) if times), default=None)


def _is_impossible(uses: Sequence[_Use]) -> bool:
    fastest_s, least_s = _find_fastest(uses), uses[0].least_s(beyond=True)
    return fastest_s is not None and least_s is not None and fastest_s < least_s


def _object(variant: str, uses: Sequence[_Use]) -> Objection:
    first = uses[0]
    values = {"flop": float(first.counted.total), "seconds": _find_fastest(uses) or 0.0, "gpus": float(first.gpus)}
    values["least_s"] = (first.least_s(beyond=True) or 0.0) * BEYOND
    return Objection(
        kind="beyond hardware", variant=variant, blocks=True, values=values, names=[first.peaks.product if first.peaks else ""]
    )


def _compare(examined: "Examined", reference: CountedFlop, candidate: CountedFlop) -> list[Objection]:
    """State that the faster variant computes less or more; fewer FLOP are a way to be faster, not a fault."""
    own, other = (candidate, reference) if examined.gains else (reference, candidate)
    if own.of != other.of or not own.total or not other.total:
        return []
    if abs(own.total - other.total) <= _ALIKE * max(own.total, other.total):
        return []
    values = {"own": float(own.total), "other": float(other.total), "epoch": float(own.of == "epoch")}
    variant = examined.candidate if examined.gains else examined.reference
    return [Objection(kind="flop", variant=variant, blocks=False, values=values)]


_EXPRESSION = (
    "observed.warm_up.flop of run.json, counted in one discarded run; seconds: the median over runs of the median epoch by "
    "our clock, else of the reported one by the share that reports covered in the counted run, or of process_s; mfu: the FLOP "
    "at the peaks of the datasheet, by seconds and GPUs"
)


def measure_utilization(results: Results) -> Iterator[Utilization]:
    """Yield how well each variant's timed runs use their GPUs, if FLOP were counted."""
    for variant in results.variants:
        runs: Sequence[MeasuredRun] = results.select(variant, "timed")
        uses = _read_uses(runs)
        times = [use.seconds for use in uses if use.seconds]
        if not times or len(times) < len(uses) or not uses[0].counted.total:
            continue
        first, seconds = uses[0], median(times)
        least_s = first.least_s()
        yield Utilization(
            variant=variant,
            title=runs[0].title,
            of=first.counted.of,
            flop=first.counted.flop,
            seconds=seconds,
            flop_per_s=first.counted.total / seconds,
            product=first.peaks.product if first.peaks and first.counted.device == "cuda" else None,
            source=_name_source(first.peaks, first.counted.flop) if first.peaks and first.counted.device == "cuda" else None,
            gpus=first.gpus,
            mfu=None if least_s is None or _is_impossible(uses) else least_s / seconds,
            origin=Origin(files=[run.file(name) for run in runs for name in (EPOCHS_FILE, RUN_FILE)], expression=_EXPRESSION),
        )


def _name_source(peaks: GpuPeaks, flop: Mapping[str, float]) -> str:
    """Return where the peaks are from, and which one float32 is held against: a program may use it or not."""
    return f"{peaks.source}, TF32 for float32" if peaks.tf32 and flop.get("float32") else peaks.source
