"""Detected against actual prompt bias scores, one panel for each detector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.figures.drawing import (
    INCHES,
    MINUS,
    MISSING,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    frame,
    interval_sentence,
    say_instead,
    sequential_colours,
    shortened,
    verdict_notes,
)
from detector_bench.figures.panels import name_axes, panel_grid
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

_BIN = 0.1
_FEW = 60
_POINT = "#D55E00"
_METRIC = "prompt_bias_score_difference"


class _Pairs(NamedTuple):
    actual: list[float]
    detected: list[float]
    without: int
    """Outputs without an actual or a detected score."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw how many outputs (prompt and T2I model) have which actual and which detected score.

    Points are outputs; on the diagonal the detector is right. Squares are 0.1 wide, centred on -1, -0.9, ..., 1;
    their shade is the number of outputs, on a logarithmic scale. Below the name: the mean distance and its
    interval.

    Raises:
        ConfigError: the attribute has more than two classes.
    """
    study.need_signed_scores()
    pairs = {detector: _pairs(study, detector) for detector in study.detectors}
    columns = 4 if width == "double" else 2 if len(pairs) <= 6 else 3
    panel = {("double", 4): 1.85, ("single", 2): 1.65, ("single", 3): 1.2}[width, columns]
    figure, grid = panel_grid(width, max(1, len(pairs)), columns=columns, panel_height=panel)
    reach = max([1.0, *(abs(score) for each in pairs.values() for score in each.detected)]) + _BIN / 2
    most = max([2, *(int(_histogram(each, reach).max()) for each in pairs.values())])
    numbers: list[tuple[str, Number]] = []
    for axes, (detector, each) in zip(grid, pairs.items(), strict=False):
        number = study.estimate(_METRIC, detector=detector)
        numbers.append((detector, number))
        _draw_panel(axes, each, reach=reach, most=most)
        _title(axes, detector, number, inches=0.85 * INCHES[width] / min(columns, len(pairs)))
    if pairs:
        _draw_colour_bar(grid, most, width=width)
    else:
        say_instead(grid[0], "no detector judges this attribute")
    name_axes(figure, grid, x="Actual prompt bias score", y="Detected prompt bias score")
    return Drawing(figure, _caption(study, numbers, pairs))


def _pairs(study: FinishedStudy, detector: str) -> _Pairs:
    actual, detected, without = [], [], 0
    for model in study.t2i_models:
        for category, prompt in study.prompts:
            place = {"t2i_model": model, "category": category, "prompt_id": prompt}
            true = study.estimate("prompt_bias_score", **place).value
            seen = study.estimate("prompt_bias_score", detector=detector, **place).value
            if math.isnan(true) or math.isnan(seen):
                without += 1
            else:
                actual.append(true)
                detected.append(seen)
    return _Pairs(actual, detected, without)


def _histogram(pairs: _Pairs, reach: float) -> NDArray[np.float64]:
    cells = round(2 * math.ceil(reach / _BIN - 0.5) + 1)
    edges = (np.arange(cells + 1) - cells / 2) * _BIN
    # Nudged towards 0, so that 0.15 and -0.15 fall the same way in spite of rounding.
    found, _, _ = np.histogram2d(
        np.asarray(pairs.actual) * (1 - 1e-9), np.asarray(pairs.detected) * (1 - 1e-9), bins=(edges, edges)
    )
    return np.asarray(found.T)


def _draw_panel(axes: Axes, pairs: _Pairs, *, reach: float, most: int) -> None:
    from matplotlib.colors import LogNorm

    found = _histogram(pairs, reach)
    half = found.shape[0] * _BIN / 2
    axes.imshow(
        np.ma.masked_equal(found, 0),
        origin="lower",
        extent=(-half, half, -half, half),
        cmap=_shades(),
        norm=LogNorm(0.7, most),
        interpolation="none",
        aspect="equal",
    )
    axes.set_xlim(-1 - _BIN / 2, 1 + _BIN / 2)
    axes.set_ylim(-half, half)
    axes.set_xticks([-1, 0, 1], [f"{MINUS}1", "0", "1"])
    axes.set_yticks([-1, 0, 1], [f"{MINUS}1", "0", "1"])
    frame(axes)
    if pairs.actual:
        axes.plot([-1, 1], [-1, 1], color="black", linewidth=0.5, linestyle=(0, (4, 2)))
        size = 7 if len(pairs.actual) <= _FEW else 1.5
        axes.scatter(pairs.actual, pairs.detected, s=size, color=_POINT, linewidths=0)
    else:
        say_instead(axes, "no output\nhas both scores")


def _title(axes: Axes, detector: str, number: Number, *, inches: float) -> None:
    text = MISSING if number.missing else f"{number.value:.3f}"
    if number.has_interval:
        text += f" ({number.ci_low:.3f}{MISSING}{number.ci_high:.3f})"
    axes.set_title(f"{shortened(detector, inches=inches)}\n{text}", size=SMALL_TEXT_SIZE, linespacing=1.1)


def _shades() -> Colormap:
    return sequential_colours("#08306B")


def _draw_colour_bar(grid: list[Axes], most: int, *, width: Width) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    bar = grid[0].figure.colorbar(
        ScalarMappable(LogNorm(0.7, most), _shades()),
        ax=grid,
        location="top",
        fraction=0.03,
        aspect=40,
        shrink=0.6 if width == "double" else 0.8,
        pad=0.02,
    )
    ticks = [count for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if count <= most]
    bar.set_ticks(ticks, labels=[str(count) for count in ticks])
    bar.ax.minorticks_off()
    bar.set_label("Outputs in a square", size="small", labelpad=3)
    bar.ax.set_xlim(0.7, most)
    bar.outline.set_linewidth(0.4)


def _caption(study: FinishedStudy, numbers: list[tuple[str, Number]], pairs: dict[str, _Pairs]) -> str:
    outputs = len(study.prompts) * len(study.t2i_models)
    keeps = {"detector": "the images that the detector keeps", "human": "the images that the humans call clear"}
    return caption(
        f"Prompt bias scores of {study.perceived} as each detector reports them, against those by "
        "the human "
        "labels; on the dashed line they are equal.",
        f"n = {counted(outputs, 'output')} ({counted(len(study.prompts), 'prompt')}, "
        f"{counted(len(study.t2i_models), 'T2I model')}); points are outputs; squares are {_BIN} "
        "wide, their shade is the number of outputs.",
        "Below each name: prompt bias score difference (mean distance); a detector's score is divided by "
        f"{keeps[study.lookup.n_clear]}.",
        interval_sentence(study, [number for _, number in numbers], drawn_as="In parentheses"),
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *(
                (name, f"{each.without} of {outputs} outputs without a score left out")
                for name, each in pairs.items()
                if each.without
            ),
        ],
    )
