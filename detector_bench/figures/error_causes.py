"""How much of each detector's bias error comes from filtering, and how much from classification."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from detector_bench.figures.drawing import (
    BLACK,
    GREY,
    SKY,
    VERMILLION,
    Drawing,
    Width,
    caption,
    counted,
    interval_sentence,
    left_out_notes,
    say_instead,
    verdict_notes,
)
from detector_bench.figures.panels import (
    legend_above,
    light_grid,
    mark_missing,
    name_axes,
    name_rows,
    panel_grid,
    panel_title,
    why_missing,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.vocabulary import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "prompt_bias_score_difference"
_LOOKS = {
    "filtering": ("filtering", SKY, ""),
    "classification": ("classification", VERMILLION, "/////"),
    "no_verdict": ("no verdict", GREY, "....."),
}


class _Split(NamedTuple):
    filtering: float
    classification: float
    no_verdict: float
    error: Number


_NO_SPLIT = _Split(float("nan"), float("nan"), float("nan"), NOT_EVALUATED)


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw the two Shapley parts of each detector's prompt bias score difference as stacked bars, with their sum.

    What images without a verdict add is a third part, where there is any. A part below 0 works against the others.
    One panel over all T2I models; the double-column form adds one for each.
    """
    splits = _splits(study)
    models = study.t2i_models
    shown = [ALL, *models] if width == "double" and 1 < len(models) <= 3 else [ALL]
    drawn = {place: split for place, split in splits.items() if place[1] in shown}
    figure, panels = panel_grid(
        width, len(shown), columns=4, panel_height=max(1, len(study.detectors)) * 0.16 + 0.3, other_height=0.6
    )
    for axes, model in zip(panels, shown, strict=True):
        _draw_panel(axes, study, splits, model)
        if len(shown) > 1:
            title = "All T2I models" if model == ALL else study.shown(model)
            panel_title(axes, title, width=width, columns=len(shown))
        name_rows(axes, [study.shown(name) for name in study.detectors], width=width)
    if not study.detectors:
        say_instead(panels[0], "no detector judges this attribute")
    legend_above(figure, _handles(drawn), width=width)
    name_axes(figure, panels, x="Prompt bias score difference")
    return Drawing(figure, _caption(study, splits))


def _splits(study: FinishedStudy) -> dict[tuple[str, str], _Split]:
    """By detector and T2I model ("all" included)."""
    if not study.detectors:
        return {}
    table = study.rows("causes")
    rows = table[(table["category"] == ALL) & (table["error_metric"] == METRIC)]
    splits = {}
    for row in rows.to_dict("records"):
        detector, model = row["detector"], row["t2i_model"]
        if not study.lookup.is_withheld(METRIC, detector=detector, t2i_model=model):
            error = study.estimate(METRIC, detector=detector, t2i_model=model)
            parts = (row["filtering"], row["classification"], row["with_both"])
            splits[detector, model] = _Split(*parts, error)
    return splits


def _shown_parts(splits: dict[tuple[str, str], _Split]) -> list[str]:
    """The two steps, and images without a verdict where they add anything."""
    no_verdict = any(split.no_verdict for split in splits.values() if not split.error.missing)
    return [part for part in _LOOKS if part != "no_verdict" or no_verdict]


def _draw_panel(axes: Axes, study: FinishedStudy, splits: dict[tuple[str, str], _Split], model: str) -> None:
    light_grid(axes)
    if all(splits.get((detector, model), _NO_SPLIT).error.missing for detector in study.detectors):
        axes.set_xlim(0, 1)
    axes.locator_params(axis="x", nbins=5)
    axes.axvline(0, color="black", linewidth=0.6, zorder=1)
    for row, detector in enumerate(study.detectors):
        split = splits.get((detector, model), _NO_SPLIT)
        if split.error.missing:
            mark_missing(axes, [why_missing(study, detector, model)], row=row)
            continue
        ends = {True: 0.0, False: 0.0}
        for part in _shown_parts(splits):
            _, colour, hatch = _LOOKS[part]
            size = getattr(split, part)
            axes.barh(
                row,
                size,
                left=ends[size >= 0],
                height=0.62,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.3,
            )
            ends[size >= 0] += size
        error = split.error
        if error.has_interval:
            axes.plot([error.ci_low, error.ci_high], [row, row], color=BLACK, linewidth=0.8, zorder=3)
        axes.plot(
            [error.value],
            [row],
            "D",
            color=BLACK,
            markeredgecolor="white",
            markeredgewidth=0.4,
            markersize=3.4,
            zorder=4,
        )


def _handles(splits: dict[tuple[str, str], _Split]) -> list[object]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    parts = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
        for name, colour, hatch in (_LOOKS[part] for part in _shown_parts(splits))
    ]
    return [*parts, Line2D([], [], marker="D", color=BLACK, markersize=3.4, linewidth=0.8, label="sum: error")]


def _caption(study: FinishedStudy, splits: dict[tuple[str, str], _Split]) -> str:
    return caption(
        f"Causes of each detector's bias error on {study.perceived}: what filtering and what "
        "classification "
        "adds to its prompt bias score difference (Shapley values of replacing the filter, or the classes, by the "
        "human's)."
        + (" No verdict: what images without one add." if "no_verdict" in _shown_parts(splits) else "")
        + " The parts add up to the error; one below 0 works against the others.",
        f"n = {counted(len(study.prompts), 'prompt')} for each of {counted(len(study.t2i_models), 'T2I model')}, "
        f"{counted(round(study.estimate('images').value), 'labelled image')}.",
        interval_sentence(study, [split.error for split in splits.values()], drawn_as="Lines"),
        "On clear images that a detector filtered, its classifier is assumed to err as on those that it kept.",
        attribute=study.attribute,
        notes=[
            *verdict_notes(study, study.detectors),
            *left_out_notes(
                ((detector, split.error) for (detector, model), split in splits.items() if model == ALL),
                what="outputs without a score left out",
            ),
        ],
    )
