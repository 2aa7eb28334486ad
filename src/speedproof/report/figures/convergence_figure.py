"""What quality each variant reaches, and when."""

from typing import Any

import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Comparison
from speedproof.results.folder import MeasuredRun


def draw_convergence(evidence: Evidence) -> Figure:
    """Draw the quality of every timed run, over epochs and over the time since its process started."""
    titles, quality = evidence.results.variants, evidence.comparison.quality
    timed = [(variant, run) for variant in titles for run in evidence.results.select(variant, "timed")]
    runs = pd.concat([_read_qualities(run).assign(variant=variant, run=number) for number, (variant, run) in enumerate(timed)])
    whole = runs[~runs["continued"]]  # no single process covers the whole of a continued run
    figure = style.new_figure(3.9)
    by_epoch, by_time = figure.subplots(1, 2, sharey=True)
    # Each run is a line: what is averaged, and its interval, is decided in the comparison, never by a library of figures.
    look: Any = {"y": "quality", "units": "run", "estimator": None, "errorbar": None, "alpha": 0.9, "dashes": False}
    look |= {f"{kind}_order": list(titles) for kind in ("hue", "style", "size")} | dict.fromkeys(
        ("hue", "style", "size"), "variant"
    )
    # Variants of equal quality lie on each other: the later ones are thinner.
    look |= {"markers": style.list_markers(len(titles)), "markersize": 5.5, "sizes": (1.2, 2.4)}
    seaborn.lineplot(runs, x="epoch", ax=by_epoch, legend="full", **look)
    seaborn.lineplot(whole, x="seconds", ax=by_time, legend=False, **look)
    by_epoch.set(xlabel="epoch", ylabel=f"{quality.title}, {quality.unit}" if quality.unit else quality.title)
    by_epoch.set_xlim(left=0)
    by_epoch.xaxis.get_major_locator().set_params(integer=True)
    by_time.set_xlabel("seconds since the process started")
    style.scale_seconds(by_time, whole["seconds"].tolist())
    keys = style.take_keys(by_epoch)
    for key in keys:
        key.set_label(style.name_variant(titles[str(key.get_label())]))
    style.draw_keys(figure, [*keys, *_draw_target(figure, evidence.comparison, runs["quality"].tolist())])
    return figure


def _draw_target(figure: Figure, comparison: Comparison, found: list[float]) -> list[Line2D]:
    """Draw the highest target that any run reached, and return its key."""
    quality = comparison.quality
    best = max(found) if quality.better == "higher" else min(found)
    reached = [target for target in quality.targets if quality.reaches(best, target)][-1:]
    look: Any = {"color": style.INK, "linewidth": 1.4, "linestyle": ":", "zorder": 1.5}
    for axes in figure.axes:
        for target in reached:
            axes.axhline(target, **look)
    return [Line2D([], [], label=f"{quality.title} {target:g}", **look) for target in reached]


def _read_qualities(run: MeasuredRun) -> pd.DataFrame:
    """Return the epochs that validated, the seconds from the start of the process to their ends, and their quality."""
    epochs = run.epochs
    ends_s = run.run.start_up_s + (epochs["train_s"] + epochs["validation_s"].fillna(0.0)).cumsum()
    table = epochs[["epoch", "quality"]].assign(seconds=ends_s, continued=bool(run.run.continued))
    return table[epochs["quality"].notna()]
