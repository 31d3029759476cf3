"""What T2I models refused and where they failed, beside what is low-quality: for each T2I model and category."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import MAX_HEIGHT, Drawing, Width, caption, counted, series_style
from detector_bench.figures.panels import (
    draw_mark,
    legend_above,
    light_grid,
    mark_missing,
    name_axes,
    name_rows,
    panel_grid,
    panel_title,
    places_in_row,
    row_height,
)
from detector_bench.metrics import LABEL_SHARE
from detector_bench.metrics.refusals import GENERATION_ERROR_RATE, REFUSAL_RATE
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import MetricLookup, Number
from detector_bench.tables.wording import in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY
from detector_bench.vocabulary.columns import PREDICTION_POWERED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS: dict[Width, int] = {"single": 2, "double": 4}
_LEAST_HIGHEST = 10.0
"""Per cent: the axis reaches at least so far."""


_OF_REQUESTS = (
    ("refused, of answered requests", REFUSAL_RATE, "no request answered"),
    ("failed, of requests that ended", GENERATION_ERROR_RATE, "no request ended"),
)


class _Series(NamedTuple):
    words: str
    metric: str
    lookup: MetricLookup
    nothing: str
    """Why there may be no number."""


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw one panel for all prompts and one for each category; a row is a T2I model, a mark a share.

    Raises:
        ConfigError: nothing is known of the requests behind the images.
    """
    requests = study.results.requests
    if requests is None:
        raise ConfigError("nothing is known of the requests behind these images: there is no generations.parquet")
    series = tuple(_series(study, requests))
    scopes = [ALL, *requests.categories] if len(requests.categories) > 1 else [ALL]
    columns = min(_COLUMNS[width], len(scopes))
    models = requests.t2i_models
    height = len(models) * row_height(len(series)) + 0.3
    panel_rows = max(1, min(math.ceil(len(scopes) / columns), int((MAX_HEIGHT - 0.6) / height)))
    shown = scopes[: panel_rows * columns]
    figure, panels = panel_grid(
        width, len(shown), columns=columns, panel_height=min(height, (MAX_HEIGHT - 0.6) / panel_rows)
    )
    highest = _LEAST_HIGHEST
    for axes, category in zip(panels, shown, strict=True):
        highest = max(highest, _draw_panel(axes, series, models, category))
        if len(shown) > 1:
            title = "All prompts" if category == ALL else in_words(category)
            panel_title(axes, title, width=width, columns=columns)
    for axes in panels:
        name_rows(axes, [study.shown(name) for name in models], width=width)
        # Room for the marks at 0, which is where most T2I models stand.
        axes.set_xlim(-0.02 * highest, min(1.04 * highest, 104))
    _legend(figure, series, width=width)
    name_axes(figure, panels, x="Share (%)")
    hidden = [in_words(name).lower() for name in scopes[len(shown) :]]
    return Drawing(figure, _caption(study, requests, hidden, has_labels=len(series) > len(_OF_REQUESTS)))


def _series(study: FinishedStudy, requests: MetricLookup) -> Iterator[_Series]:
    for words, metric, nothing in _OF_REQUESTS:
        yield _Series(words, metric, requests, nothing)
    estimated = _is_estimated(study)
    lookup = (
        MetricLookup.of_table(study.metrics, attribute=study.attribute, variant=PREDICTION_POWERED)
        if estimated
        else study.lookup
    )
    if lookup.has_labels or estimated:
        yield _Series("low-quality, of images", f"{LABEL_SHARE}{LOW_QUALITY}", lookup, "no image")


def _is_estimated(study: FinishedStudy) -> bool:
    """Whether shares of labels are estimated over all images."""
    return bool((study.metrics["variant"] == PREDICTION_POWERED).any())


def _draw_panel(axes: Axes, series: tuple[_Series, ...], models: tuple[str, ...], category: str) -> float:
    """Draw a panel; gives the highest number in it, in per cent."""
    light_grid(axes)
    highest = 0.0
    reasons = [["" for _ in series] for _ in models]
    for index, (each, offset) in enumerate(zip(series, places_in_row(len(series)), strict=True)):
        for row, model in enumerate(models):
            number = each.lookup.number(each.metric, detector=GROUND_TRUTH, t2i_model=model, category=category)
            draw_mark(axes, number, y=row + offset, style=series_style(index), scale=100)
            highest = max(highest, *(100 * limit for limit in _ends(number)))
            if number.missing:
                reasons[row][index] = each.nothing
    for row, reason in enumerate(reasons):
        mark_missing(axes, reason, row=row)
    return highest


def _ends(number: Number) -> Iterator[float]:
    yield from (0.0 if math.isnan(each) else each for each in (number.value, number.ci_high))


def _legend(figure, series: tuple[_Series, ...], *, width: Width) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.lines import Line2D

    styles = [series_style(index) for index in range(len(series))]
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, markersize=3.8, linewidth=0.8, label=each.words)
        for look, each in zip(styles, series, strict=True)
    ]
    legend_above(figure, handles, width=width)


def _caption(study: FinishedStudy, requests: MetricLookup, hidden: list[str], *, has_labels: bool) -> str:
    counts = {
        name: round(requests.number(f"requests_{name}", detector=GROUND_TRUTH).value)
        for name in ("made", "blocked", "error", "waiting")
    }
    became = [
        f"{counts['made']:,} made an image",
        f"{counts['blocked']:,} {'was' if counts['blocked'] == 1 else 'were'} refused",
        f"{counts['error']:,} failed",
    ]
    if waiting := counts["waiting"]:
        became.append(f"{waiting:,} {'waits' if waiting == 1 else 'wait'}")
    shares = "Refused among answered requests and failed among requests that came to an end"
    if has_labels:
        whose = "as estimated over all images" if _is_estimated(study) else "by the human labels"
        shares = f"{shares.replace(' and ', ', ')}, and low-quality among images, {whose} of {study.perceived}"
    intervals = study.intervals
    lines = f"Lines: {100 * intervals.level:g} % confidence intervals." if intervals.method != "none" else ""
    return caption(
        f"{shares}.",
        f"n = {counted(sum(counts.values()), 'request')}: {', '.join(became)}.",
        "What a refused image would have shown nobody knows.",
        f"Categories without room: {', '.join(hidden)}." if hidden else "",
        lines,
        attribute=study.attribute,
    )
