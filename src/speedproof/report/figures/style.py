"""One look for all figures, and one way to save them: colour-blind safe, legible at half a page, the same bytes each time."""

import io
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

from speedproof.results.files import replacing, write_text
from speedproof.util.text import printable, shorten

Key = TypeVar("Key", bound=Hashable)

WIDTH_IN = 7.2
_LONGEST = 60  # characters of a name in a figure
PNG_DPI = 200

# Okabe and Ito's palette, which people with any common colour blindness tell apart (jfly.uni-koeln.de/color).
_BLUE, _VERMILLION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_ORANGE, _SKY, _YELLOW, _BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY = "#8C8C8C"
PALE = "#E4E4E4"
EPOCH_COLOUR = "#E8000B"  # red, as the documented ranges have it; no phase uses it

FASTER, SLOWER, WITHHELD = _BLUE, _VERMILLION, _PURPLE

VARIANT_COLOURS = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY)
VARIANT_MARKERS = ("o", "s", "^", "D", "v", "P")
GPU_COLOURS = {"kernels": "#3B3B3B", "copies": "#A8A8A8"}
# Phases that many a loop has, as its NVTX ranges are called, in the order of an epoch.
TRAINING_COLOURS = {"dataload": _ORANGE, "forward": _SKY, "backward": _BLUE, "update": _YELLOW}
VALIDATION_COLOURS = {
    "validation dataload": _VERMILLION,
    "sliding window": _GREEN,
    "decollate batch": _PURPLE,
    "compute metric": _BLACK,
}
_OTHER_PHASES = (_SKY, _BLUE, _YELLOW, _ORANGE, _GREEN, _VERMILLION, _PURPLE, _BLACK)


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and save in the figures' style, whatever the user's matplotlib is set to."""
    with mpl.rc_context(fname=Path(__file__).with_name("figures.mplstyle")):
        yield


def new_figure(height_in: float) -> Figure:
    """Return an empty figure as wide as a page of text."""
    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def variant_colours(variants: Iterable[Key]) -> dict[Key, str]:
    """Return one colour for each variant, in their order; they repeat after six."""
    return dict(zip(variants, cycle(VARIANT_COLOURS), strict=False))


def variant_markers(variants: Iterable[Key]) -> dict[Key, str]:
    """Return one marker for each variant, so that variants can be distinguished in print, too."""
    return dict(zip(variants, cycle(VARIANT_MARKERS), strict=False))


def name_variant(title: str) -> str:
    """Return a variant's name, shortened to one line: a command may be longer than any figure."""
    return shorten(printable(title), _LONGEST)


def label_rows(axes: Axes, labels: Sequence[str], room: float = 0.5) -> None:
    """Name the rows of a chart of bars from top to bottom, and draw its grid; `room` is that above the first."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 1 + room, -room)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="both")


def annotate(axes: Axes, text: str, place: tuple[float, float], points: tuple[float, float], **style: Any) -> None:
    """Write text so many points beside a place."""
    axes.annotate(text, place, points, textcoords="offset points", **({"fontsize": 8} | style))


def draw_legend_above(axes: Axes, height: float = 1.0, **options: Any) -> None:
    """Draw a legend at the right above the axes."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, height), **options)


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
