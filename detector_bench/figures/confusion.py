"""What each detector said about the images of each human label, with the filtered and the failed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from detector_bench.figures.drawing import (
    INCHES,
    MISSING,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    say_instead,
    sequential_colours,
    text_width,
)
from detector_bench.figures.panels import draw_cell, name_axes, panel_grid, panel_title, write_in_cell
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import label_in_words
from detector_bench.vocabulary import OTHERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw one matrix for each detector, over all T2I models: rows are human labels, columns verdicts.

    Cells hold the per cent of their row, and where there is room the number of images. Counted from the stored
    predictions, since the metric table does not hold these counts.

    Raises:
        DetectorBenchError: the image set or the predictions are not there.
    """
    counts = study.counts
    pooled = counts.verdicts.sum(axis=(1, 2))
    labels = list(counts.attribute.labels)
    if pooled.size and not pooled[:, labels.index(OTHERS)].any():
        pooled, labels = (
            np.delete(pooled, labels.index(OTHERS), axis=1),
            [name for name in labels if name != OTHERS],
        )
    verdicts = [*counts.attribute.classes, "filtered", "error"]
    detectors = [name for name in study.detectors if name in counts.detectors]
    columns = 4 if width == "double" else 2 if len(detectors) <= 10 else 3
    if len(verdicts) > 5:
        columns = 2 if width == "double" else 1
    tall = {("double", 4): 0.27, ("single", 2): 0.24, ("single", 3): 0.2}.get((width, columns), 0.22)
    figure, grid = panel_grid(
        width, max(1, len(detectors)), columns=columns, panel_height=tall * len(labels) + 0.25, other_height=0.75
    )
    for axes, detector in zip(grid, detectors, strict=False):
        found = pooled[counts.detectors.index(detector)]
        _draw_matrix(axes, found, with_counts=width == "double" or columns < 3)
        panel_title(axes, study.shown(detector), width=width, columns=min(columns, len(detectors)))
    grid[0].set_yticks(range(len(labels)), [label_in_words(label) for label in labels])
    grid[0].set_xticks(range(len(verdicts)), [label_in_words(name) for name in verdicts])
    room = 0.9 * INCHES[width] / min(columns, max(1, len(detectors))) / len(verdicts)
    upright = width == "single" or any(text_width(label_in_words(name)) > room for name in verdicts)
    for axes in grid:
        axes.tick_params(axis="x", labelrotation=90 if upright else 0)
    if not detectors:
        say_instead(grid[0], "no detector judges this attribute")
    name_axes(figure, grid, x="Detector's verdict", y="Human label")
    return Drawing(
        figure, _caption(study, int(counts.human.sum()), int(counts.unlabelled.sum()), int(counts.not_run.sum()))
    )


def _draw_matrix(axes: Axes, counts: NDArray[np.int64], *, with_counts: bool) -> None:
    rows, columns = counts.shape
    colours = sequential_colours()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for row, of_label in enumerate(counts):
        total = int(of_label.sum())
        for column, images in enumerate(of_label):
            share = images / total if total else 0.0
            colour = colours(0.9 * share) if total else PALE
            draw_cell(axes, column, row, colour=colour)
            percent = MISSING if not total else "100" if images == total else f"{100 * share:.1f}"
            place = row - 0.18 if with_counts and total else row
            size = SMALL_TEXT_SIZE
            write_in_cell(axes, column, place, percent, size=size, background=colour, muted=not total)
            if with_counts and total:
                write_in_cell(axes, column, row + 0.26, f"{images:,}", size=SMALL_TEXT_SIZE, background=colour)


def _caption(study: FinishedStudy, labelled: int, unlabelled: int, not_run: int) -> str:
    return caption(
        f"What each detector said about the images of each human label of {study.perceived}, over "
        "all T2I models: per cent of the row (upper number) and images.",
        f"n = {counted(labelled, 'labelled image')} for each detector.",
        "Filtered: the detector judged the image unfit; error: it gave no verdict.",
        f"{MISSING}: no image bears this label." if (study.counts.human.sum(axis=(0, 1))[:-1] == 0).any() else "",
        f"Left out: {counted(unlabelled, 'image')} without a human label." if unlabelled else "",
        f"Images that were never run ({not_run:,} over all detectors) count as errors." if not_run else "",
        "Counts, drawn without intervals.",
        attribute=study.attribute,
    )
