"""How near a training epoch comes to what the GPU could do: its least work at the rates that the GPU was measured to have."""

from collections.abc import Iterator
from statistics import geometric_mean

from speedproof.results.comparison import Origin, RooflinePoint
from speedproof.results.folder import Results
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE
from speedproof.stats.metrics import METRICS, measure_run

_EXPRESSION = (
    "geometric means over runs of rates; arithmetic_s: flop_per_epoch / flop_per_s; traffic_s: bytes_per_epoch / bytes_per_s; "
    f"share: the larger of the two / measured_s, that over runs of: {METRICS['training_epoch_s'].expression}"
)


def place_variants(results: Results) -> Iterator[RooflinePoint]:
    """Yield each variant's timed training epoch beside its bounds; variants whose runs did not count work are left out.

    The bound is the larger of arithmetic at the measured rate of matrix products and traffic at the measured rate of copies:
    S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
    Communications of the ACM 52 (2009).
    """
    for variant in dict.fromkeys([*results.variants, *results.ladder]):
        runs = [run for run in results.select(variant, "timed") if run.run.work and run.run.rates]
        epochs = [epoch for run in runs if (epoch := measure_run(run, "training_epoch_s"))]
        if not runs or len(epochs) < len(runs):
            continue
        works = [run.run.work for run in runs if run.run.work]
        rates = [run.run.rates for run in runs if run.run.rates]
        flop, moved = works[0].flop_per_epoch, works[0].bytes_per_epoch
        flop_per_s, bytes_per_s = (
            geometric_mean(getattr(rate, name) for rate in rates) for name in ("flop_per_s", "bytes_per_s")
        )
        arithmetic_s, traffic_s, measured_s = flop / flop_per_s, moved / bytes_per_s, geometric_mean(epochs)
        yield RooflinePoint(
            variant=variant,
            title=runs[0].title,
            flop_per_epoch=flop,
            bytes_per_epoch=moved,
            flop_per_s=flop_per_s,
            bytes_per_s=bytes_per_s,
            arithmetic_s=arithmetic_s,
            traffic_s=traffic_s,
            measured_s=measured_s,
            share=max(arithmetic_s, traffic_s) / measured_s,
            origin=Origin(files=[run.file(name) for run in runs for name in (EPOCHS_FILE, RUN_FILE)], expression=_EXPRESSION),
        )
