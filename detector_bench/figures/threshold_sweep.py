"""What each detector would report at other thresholds of its score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from detector_bench.errors import ConfigError
from detector_bench.evaluation.sweeps import even_thresholds, sweep_counts, sweep_table
from detector_bench.figures.drawing import Drawing, caption, counted, verdict_notes
from detector_bench.figures.finished_study import FinishedStudy
from detector_bench.figures.panels import legend_above, light_grid, name_axes, panel_grid, panel_title
from detector_bench.figures.style import BLUE, GREEN, VERMILLION, Width, say_instead
from detector_bench.vocabulary import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = 100
_LINES = {
    "recall": ("Recall", BLUE, "-", 1.2),
    "filter_rate": ("Filter rate", VERMILLION, (0, (5, 2)), 1.0),
    "prompt_bias_score_difference": ("Prompt bias score difference", GREEN, (0, (1.2, 1)), 1.4),
}


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw recall, filter rate and prompt bias score difference against the threshold, one panel per detector.

    Lines are pale where a run with that threshold could keep more images than the stored scores tell. A line ends
    where its number does. Computed from stored scores with `evaluation.sweeps`.

    Raises:
        DetectorBenchError: the image set or the predictions are not there.
    """
    sweeps, without = study.once("sweeps", lambda: _sweeps(study))
    columns = 4 if width == "double" else 2 if len(sweeps) <= 6 else 3
    figure, grid = panel_grid(
        width, max(1, len(sweeps)), columns=columns, panel_height=1.35 if columns != 3 else 1.15
    )
    for axes, (detector, table) in zip(grid, sweeps.items(), strict=False):
        _draw_panel(axes, table)
        panel_title(axes, detector, width=width, columns=min(columns, len(sweeps)))
    values = (
        pd.concat([table.loc[table["metric"].isin(_LINES), "value"] for table in sweeps.values()])
        if sweeps
        else None
    )
    grid[0].set_ylim(-0.02, max(1.02, 1.03 * (0.0 if values is None else float(values.max()))))
    if not sweeps:
        say_instead(grid[0], "no detector keeps images\nwith a score")
    legend_above(figure, _handles(), width=width)
    name_axes(figure, grid, x="Threshold of the score")
    return Drawing(figure, _caption(study, sweeps, without))


def _sweeps(study: FinishedStudy) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """The sweep of every detector that has scores, and why the others have none."""
    found, without = {}, {}
    thresholds = _thresholds(study)
    for detector, table in study.predictions.items():
        try:
            sweep = sweep_counts(
                study.image_set,
                table,
                detector=detector,
                attribute=study.attribute,
                thresholds=thresholds,
                allow_incomplete=True,
            )
        except ConfigError:
            without[detector] = "no kept image with a score, so nothing to sweep"
            continue
        numbers = sweep_table(sweep, n_clear=study.lookup.n_clear)
        found[detector] = numbers[numbers["t2i_model"] == ALL]
        if sweep.without_score:
            without[detector] = f"{counted(sweep.without_score, 'image')} kept without a score, at every threshold"
    return found, without


def _thresholds(study: FinishedStudy) -> np.ndarray:
    """From just below the lowest stored score to 1."""
    lowest = [pc.min(table["score"]).as_py() for table in study.predictions.values()]
    present = [score for score in lowest if score is not None and not math.isnan(score)]
    first = math.floor(10 * min(present, default=0.0)) / 10
    return even_thresholds(first=min(max(first, 0.0), 0.9), steps=_STEPS)


def _draw_panel(axes: Axes, table: pd.DataFrame) -> None:
    light_grid(axes, axis="both")
    axes.locator_params(axis="x", nbins=4)
    axes.locator_params(axis="y", nbins=5, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.margins(x=0)
    for metric, (_, colour, line, thick) in _LINES.items():
        rows = table[table["metric"] == metric]
        for known, opacity in ((True, 1.0), (False, 0.35)):
            # The first known threshold belongs to both, so that the line is whole.
            shown = rows["known"] if known else ~rows["known"].shift(1, fill_value=False)
            axes.plot(
                rows["threshold"],
                rows["value"].where(shown),
                color=colour,
                linestyle=line,
                linewidth=thick,
                alpha=opacity,
                clip_on=False,
            )


def _handles() -> list[object]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, linestyle=line, linewidth=thick, label=name)
        for name, colour, line, thick in _LINES.values()
    ]


def _caption(study: FinishedStudy, sweeps: dict[str, pd.DataFrame], without: dict[str, str]) -> str:
    pale = any(not table["known"].all() for table in sweeps.values())
    return caption(
        f"Recall, filter rate and prompt bias score difference on perceived {study.attribute} if each "
        "detector kept only "
        "images with a score of at least the threshold, over all T2I models; from stored scores.",
        f"n = {counted(study.estimate('images_clear').value, 'clear image')}, "
        f"{counted(len(study.prompts) * len(study.t2i_models), 'output')} (prompt and T2I model).",
        "Pale: a run with that threshold could keep more images than the stored scores tell." if pale else "",
        "A prompt of which no image is kept leaves the difference, so it rests on fewer prompts at high "
        "thresholds.",
        "Drawn without intervals.",
        attribute=study.attribute,
        notes=[*verdict_notes(study, study.detectors), *without.items()],
    )
