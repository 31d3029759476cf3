"""The paper's figures, drawn from the result folder of a finished study.

Each figure is a module with one function `draw(study, *, width)`; it takes its numbers from the metric table and
computes none that stand there. All look alike through `drawing`. matplotlib (extra `figures`) is imported when the
first figure is drawn.
"""

from __future__ import annotations

from detector_bench.figures.drawing import FORMATS, WIDTHS, Drawing, Format, Width
from detector_bench.figures.figure_files import (
    FIGURES,
    WrittenFigures,
    draw_figure,
    figures_of,
    known_figures,
    write_figures,
)
from detector_bench.results.finished_study import FinishedStudy

__all__ = [
    "FIGURES",
    "FORMATS",
    "WIDTHS",
    "Drawing",
    "FinishedStudy",
    "Format",
    "Width",
    "WrittenFigures",
    "draw_figure",
    "figures_of",
    "known_figures",
    "write_figures",
]
