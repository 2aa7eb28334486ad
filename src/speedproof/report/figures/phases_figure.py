"""What an epoch's time is spent on."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from speedproof.report.figures import style
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.summary import EpochPart, Summary, name_one
from speedproof.util.numbers import format_value

_OTHER = "between phases"
_LABELLED_SHARE = 0.08  # a narrower piece has no room for its number


def draw_phases(evidence: Evidence) -> Figure:
    """Draw the mean length of each phase in the training part of an epoch, and in its validation part if it has one."""
    summaries = {variant: summary for variant, (_, summary) in evidence.traces.items()}
    titles = [style.name_variant(evidence.results.variants[variant]) for variant in summaries]
    parts: list[tuple[EpochPart, dict[str, str]]] = [
        ("training", style.colour_phases(name_phases(summaries.values(), "training"), style.TRAINING_COLOURS))
    ]
    if any(epoch.validates for summary in summaries.values() for epoch in summary.epochs):
        names = name_phases(summaries.values(), "validation")
        parts.append(("validation", style.colour_phases(names, style.VALIDATION_COLOURS)))
    figure = style.new_figure(0.8 + len(parts) * (0.75 + 0.38 * len(summaries)))
    for axes, (part, colours) in zip(figure.subplots(len(parts), 1, squeeze=False)[:, 0], parts, strict=True):
        rows = [mean_phases(summary, part, list(colours)) for summary in summaries.values()]
        _draw_part(axes, rows, titles, colours | {_OTHER: style.PALE})
        axes.set_title(f"{part} part of {name_one(evidence.unit)}")
    axes.set_xlabel(f"seconds per {evidence.unit} (mean over the profiled run); percent: of the part")
    colours = {name: colour for _, colours in parts for name, colour in colours.items()} | {_OTHER: style.PALE}
    keys = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=5, handlelength=1.2)
    return figure


def name_phases(summaries: Iterable[Summary], part: EpochPart) -> list[str]:
    """Return the names of the phases of a part, each once, in the order in which they first appear."""
    return list(dict.fromkeys(phase.name for summary in summaries for phase in summary.phases if phase.part == part))


def mean_phases(summary: Summary, part: EpochPart, names: list[str]) -> dict[str, float]:
    """Return the seconds an epoch that each phase takes on the CPU, and what lies between phases.

    Training is averaged over all epochs, validation over those that validate; a phase's name may repeat over the
    parts, so only its rows of `part` count.
    """
    counted = [epoch for epoch in summary.epochs if part == "training" or epoch.validates]
    if not counted:
        return dict.fromkeys([*names, _OTHER], 0.0)
    lengths = [epoch.training_s if part == "training" else epoch.duration_s - epoch.training_s for epoch in counted]
    seconds = dict.fromkeys(names, 0.0)
    for phase in summary.phases:
        if phase.part == part and phase.name in seconds:
            seconds[phase.name] += phase.wall_s / len(counted)
    seconds[_OTHER] = max(0.0, sum(lengths) / len(counted) - sum(seconds.values()))
    return seconds


def _draw_part(axes: Axes, rows: list[dict[str, float]], titles: list[str], colours: dict[str, str]) -> None:
    longest = max(sum(row.values()) for row in rows)
    for number, row in enumerate(rows):
        left = 0.0
        for name, colour in colours.items():
            axes.barh(number, row[name], 0.6, left=left, color=colour, edgecolor="white", linewidth=0.5)
            if row[name] > _LABELLED_SHARE * longest:
                text = format_value(row[name] / sum(row.values()), "%")
                axes.text(left + row[name] / 2, number, text, ha="center", va="center", color=_text_colour(colour))
            left += row[name]
    style.label_rows(axes, titles)
    axes.set_xlim(0, 1.02 * longest or None)


def _text_colour(background: str) -> str:
    """Return white or black, whichever reads better, by the luminance of ITU-R BT.709."""
    red, green, blue = (int(background[start : start + 2], 16) for start in (1, 3, 5))
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 140 else "black"
