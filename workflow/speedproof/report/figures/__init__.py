"""The figures of a report. Each module draws one subject, each function one figure."""

from speedproof.report.figures.draw import draw_figures
from speedproof.report.figures.index import FIGURES_FILE, FigureIndex, read_figure_index

__all__ = ["FIGURES_FILE", "FigureIndex", "draw_figures", "read_figure_index"]
