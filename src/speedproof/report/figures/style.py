"""One look for all figures, and one way to save them: colour-blind safe, legible at half a page, the same bytes each time."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from speedproof.results.files import replacing, write_text
from speedproof.util.text import printable, shorten

WIDTH_IN = 7.2
PNG_DPI = 200
_LONGEST = 36  # characters of a name in a figure
_LINE, _KEY = 76, 5  # characters as wide as a figure, and as a key's mark with its distance
_FOOT_LINE, _FOOT_SIZE = 84, 9.5
_TENFOLD = 10.0
# The first digits of a logarithmic axis' labels, by how far apart its ends are.
_TICK_DIGITS = ((100.0, (1.0,)), (4.0, (1.0, 2.0, 5.0)), (0.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))

# Okabe and Ito's palette, which people with any common colour blindness tell apart (jfly.uni-koeln.de/color).
_BLUE, _VERMILLION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_ORANGE, _SKY, _YELLOW, _BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY = "#8C8C8C"
PALE = "#E4E4E4"
FOOT_COLOUR = "#3B3B3B"
INK = "#262626"  # seaborn's, which the page shows in its own

TRAINING, VALIDATED = _BLUE, _ORANGE
FASTER, SLOWER, EQUIVALENT, WITHHELD = _BLUE, _VERMILLION, _GREEN, _PURPLE

GPU_COLOURS = {"kernels": "#3B3B3B", "copies": "#7F7F7F"}
# Phases that many a loop has, as its NVTX ranges are called, in the order of an epoch.
TRAINING_COLOURS = {"dataload": _ORANGE, "forward": _SKY, "backward": _BLUE, "update": _YELLOW}
VALIDATION_COLOURS = {
    "validation dataload": _VERMILLION,
    "sliding window": _GREEN,
    "decollate batch": _PURPLE,
    "compute metric": _BLACK,
}
_OTHER_PHASES = (_SKY, _BLUE, _YELLOW, _ORANGE, _GREEN, _VERMILLION, _PURPLE, _BLACK)
_SETTINGS = {
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.1,
    "legend.frameon": False,
    "text.parse_math": False,  # a title with dollar signs is a title
    "svg.fonttype": "none",  # words stay words, in the page's own colours, to be found and read aloud
    "svg.hashsalt": "speedproof",  # fixes the ids that matplotlib would draw by lot
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and save in the figures' style, whatever the user's matplotlib is set to."""
    with mpl.rc_context():
        mpl.rcdefaults()
        seaborn.set_theme("notebook", "whitegrid", "colorblind", font="DejaVu Sans", color_codes=False, rc=_SETTINGS)
        yield


def new_figure(height_in: float) -> Figure:
    """Return an empty figure as wide as a page of text."""
    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def list_markers(count: int) -> list[str]:
    """Return markers that can be distinguished in print, too; they repeat after six."""
    return list(islice(cycle("os^DvP"), count))


def name_variant(title: str) -> str:
    """Return a variant's name, shortened to one line: a command may be longer than any figure."""
    return shorten(printable(title), _LONGEST)


def label_rows(axes: Axes, labels: Sequence[str], room: float = 0.5) -> None:
    """Name the rows of a chart from top to bottom; `room` is that above the first."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 1 + room, -room)
    axes.set_ylabel("")


def scale_seconds(axes: Axes, seconds: Sequence[float], log: bool = False) -> None:
    """Scale the axis to show all `seconds`: logarithmic if asked or if they differ tenfold, else from 0 on."""
    low, high = min(seconds, default=0.0), max(seconds, default=1.0)
    if low <= 0 or not (log or high >= _TENFOLD * low):
        axes.set_xlim(0, 1.05 * high)
        return
    axes.set_xscale("log")
    room = max(1.1, (high / low) ** 0.05)
    axes.set_xlim(low / room, high * room)
    digits = next(digits for least, digits in _TICK_DIGITS if high >= least * low)
    axes.xaxis.set_major_locator(LogLocator(subs=digits))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def write_beside(axes: Axes, row: float, text: str, **look: Any) -> None:
    """Write text at the right of a row, outside of the axes."""
    place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "fontsize": 11}
    axes.annotate(text, (1, row), (8, 0), **(place | look))


def take_keys(axes: Axes) -> list[Artist]:
    """Remove seaborn's legend from the axes, and return its keys."""
    if legend := axes.get_legend():
        legend.remove()
    return list(axes.get_legend_handles_labels()[0])


def draw_keys(figure: Figure, keys: Sequence[Artist]) -> None:
    """Draw the keys at the upper left, in as many columns as fit."""
    longest = max((len(str(key.get_label())) for key in keys), default=0)
    columns = max(1, min(len(keys), int(_LINE / (longest + _KEY))))
    figure.legend(handles=keys, loc="outside upper left", ncols=columns, borderaxespad=0.2, handlelength=1.4, columnspacing=1.4)


def write_foot(figure: Figure, origin: Sequence[str]) -> None:
    """Write below a figure what it is of; a figure travels without its page."""
    lines = [""]
    for part in origin:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) > _FOOT_LINE:
            lines.append(part)
        else:
            lines[-1] = longer
    text = "\n".join(lines)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=_FOOT_SIZE, color=FOOT_COLOUR, linespacing=1.3)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write `<name>.svg` and `<name>.png` without a date, a version or invisible text."""
    for text in figure.findobj(Text):
        text.set_text(printable(text.get_text(), keep="\n"))
    # Each canvas draws once, and the layout is found once, for both: `savefig` would draw each twice, with a layout of its own.
    drawn = io.StringIO()
    FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None, "Creator": None})
    write_text(folder / f"{name}.svg", _number_clips(drawn.getvalue()))
    figure.set_layout_engine("none")
    figure.set_dpi(PNG_DPI)
    with replacing(folder / f"{name}.png") as temporary:
        FigureCanvasAgg(figure).print_png(temporary, metadata={"Software": None})


def _number_clips(svg: str) -> str:
    """Name clip paths by their order: matplotlib hashes positions, whose last bit the solver leaves to chance."""
    names = list(dict.fromkeys(re.findall(r"url\(#(p[0-9a-f]{10})\)", svg)))
    numbers = {name: f"clip{number}" for number, name in enumerate(names, start=1)}
    return re.sub(r"\bp[0-9a-f]{10}\b", lambda found: numbers.get(found[0], found[0]), svg)


def colour_phases(names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each phase: the `known` ones in their order, if one of them is among `names`, then all others."""
    seen = dict.fromkeys(names)
    others = [name for name in seen if name not in known]
    colours = dict(known) if len(others) < len(seen) or not seen else {}
    return colours | dict(zip(others, cycle(_OTHER_PHASES), strict=False))
