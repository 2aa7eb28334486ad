"""How fast each side learns."""

from matplotlib.figure import Figure

from speedproof.report.figures.figure_data import Evidence
from speedproof.report.figures.style import GREY, name_side, new_figure, side_colours, side_markers
from speedproof.results.folder import MeasuredRun


def draw_convergence(evidence: Evidence) -> Figure:
    """Draw the quality of every timed run over its epochs and over its wall-clock time, start-up included."""
    variants = evidence.results.variants
    colours, markers = side_colours(variants), side_markers(variants)
    figure = new_figure(2.9)
    by_epoch, by_time = figure.subplots(1, 2, sharey=True)
    for variant, title in variants.items():
        for number, run in enumerate(evidence.results.select(variant, "timed")):
            epochs, seconds, values = _qualities_of(run)
            style = {"color": colours[variant], "marker": markers[variant], "markersize": 4, "linewidth": 1.1, "alpha": 0.8}
            by_epoch.plot(epochs, values, label=name_side(title) if number == 0 else None, **style)
            if not run.run.continued:  # no process of it holds its whole way
                by_time.plot(seconds, values, **style)
    quality, low, high = evidence.comparison.quality, by_epoch.dataLim.y0, by_epoch.dataLim.y1
    label = f"{quality.title}, {quality.unit}" if quality.unit else quality.title
    by_epoch.set(xlabel="epoch", ylabel=label, title="over epochs")
    if quality.within:
        middle = sum(quality.within) / 2
        by_epoch.set_ylim(middle if low > middle else quality.within[0], quality.within[1])
    by_epoch.xaxis.get_major_locator().set_params(integer=True)
    by_time.set(xlabel="seconds since the process started", title="over wall-clock time")
    best = high if quality.better == "higher" else low
    reached = [target for target in quality.targets if quality.reaches(best, target)]
    for axes in (by_epoch, by_time):
        for target in reached[-1:]:
            axes.axhline(
                target,
                color=GREY,
                linewidth=1.0,
                linestyle=":",
                label=f"{quality.title} {target:g}" if axes is by_epoch else None,
            )
        if axes.has_data():
            axes.set_xlim(0, 1.04 * axes.dataLim.x1)
        axes.grid()
    figure.legend(loc="outside lower center", ncols=min(4, len(variants) + len(reached[-1:])))
    return figure


def _qualities_of(run: MeasuredRun) -> tuple[list[int], list[float], list[float]]:
    """Return the epochs that validated, the seconds from the start of the process to their ends, and their quality."""
    totals_s = run.epochs["train_s"] + run.epochs["validation_s"].fillna(0.0)
    ends_s = run.run.start_up_s + totals_s.cumsum()
    validated = run.epochs["quality"].notna()
    table = run.epochs[validated]
    return table["epoch"].tolist(), ends_s[validated].tolist(), table["quality"].tolist()
