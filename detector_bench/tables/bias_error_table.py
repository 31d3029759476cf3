"""The table of bias errors that do not depend on the number of images: what the report's verdict rests on."""

from __future__ import annotations

import pandas as pd

from detector_bench.metrics import NClear
from detector_bench.tables.metric_headings import METRIC_HEADINGS
from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE, NOT_EVALUATED, MetricLookup
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, score_cell, whole, with_interval

_METRICS = ("prompt_bias_error", "model_bias_score_error")


def bias_errors(
    metrics: pd.DataFrame,
    *,
    attribute: str = "gender",
    n_clear: NClear | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> Table:
    """How far each detector's prompt bias scores and model bias score are off, whatever the number of images.

    Each error has its interval, where the metric table has one. Nothing is bold: which detectors differ is a
    matter of tests (`compare`, `rank`), not of the smallest number. A dash stands where the detector could not
    run on the T2I model, or has no error; notes tell which and why.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        n_clear: see `prompt_bias_score_difference`.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets a dash there.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    n_clear = n_clear or lookup.n_clear
    columns = [
        Column(
            f"{model}_{metric}",
            METRIC_HEADINGS[metric],
            group=model,
            full_heading=f"{model}, {METRIC_HEADINGS[metric].lower()}",
            has_intervals=True,
        )
        for model in lookup.t2i_models
        for metric in _METRICS
    ]
    return Table(
        name="bias_errors",
        caption=(
            f"Bias errors of perceived {attribute_in_words(attribute)} that do not move with the number of "
            "images. Prompt bias error: root mean square distance of a detector's prompt bias scores from the "
            "actual ones, without the part that chance adds; 0 is right. Model bias score error: reported minus "
            "actual score, both corrected for the number of images; above 0 the detector overestimates the bias. "
            "The published differences and deviations do move: the fewer images, the larger. In brackets: "
            "confidence interval."
        ),
        attribute=attribute,
        columns=(Column("detector", "Detector", kind="name"), *columns),
        rows=tuple(_row(lookup, name, n_clear=n_clear) for name in lookup.detectors),
        notes=lookup.notes,
    )


def _row(lookup: MetricLookup, detector: str, *, n_clear: NClear) -> Row:
    notes = lookup.no_verdict_notes(detector, lookup.t2i_models)
    cells: list[Cell] = []
    left_out: list[str] = []
    for model in lookup.t2i_models:
        failed = lookup.could_not_run(detector, model)
        place = "" if len(lookup.t2i_models) == 1 else f" ({model})"
        for metric in _METRICS:
            found = (
                NOT_EVALUATED
                if failed
                else lookup.number(metric, detector=detector, t2i_model=model, n_clear=n_clear)
            )
            cells.append(with_interval(score_cell(found.value), found.ci_low, found.ci_high))
            if metric == "prompt_bias_error" and found.n_left_out > 0:
                left_out.append(f"{whole(found.n_left_out)} of {whole(found.n + found.n_left_out)}{place}")
    if left_out:
        notes.append(
            f"prompts left out, fewer than two images clear to detector and humans: {', '.join(left_out)}"
        )
    return Row(detector, (Cell(detector), *cells), tuple(notes))
