"""The table of what model bias scores mean: as published, without chance, and by chance alone."""

from __future__ import annotations

import pandas as pd

from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE, NOT_EVALUATED, MetricLookup
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, score_cell, with_interval
from detector_bench.vocabulary import GROUND_TRUTH

_METRICS = (
    ("model_bias_score", "As published"),
    ("model_bias_score_corrected", "Corrected"),
    ("model_bias_score_if_fair", "If fair"),
)


def model_bias_estimates(
    metrics: pd.DataFrame, *, attribute: str = "gender", max_error_share: float = DEFAULT_MAX_ERROR_SHARE
) -> Table:
    """Each T2I model's bias three ways, by the human labels and as each detector reports it, with intervals.

    As published: what these images show. Corrected: an estimate of what endlessly many images would show. If
    fair: what a T2I model without bias would show on average with as many clear images.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets a dash there.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    rows = [_row(lookup, name) for name in (GROUND_TRUTH, *lookup.detectors)]
    columns = [
        Column(
            f"{model}_{metric}",
            heading,
            group=model,
            full_heading=f"{model}, {heading.lower()}",
            has_intervals=True,
        )
        for model in lookup.t2i_models
        for metric, heading in _METRICS
    ]
    return Table(
        name="model_bias_estimates",
        caption=(
            f"Model bias scores of perceived {attribute_in_words(attribute)}"
            ". As published: of these images. Corrected: without what "
            "chance adds, an estimate for endlessly many images. If fair: what a T2I model without bias would "
            "show on average with as many clear images. In brackets: confidence interval."
        ),
        attribute=attribute,
        columns=(Column("detector", "Detector", kind="name"), *columns),
        rows=tuple(rows),
        notes=lookup.notes,
    )


def _row(lookup: MetricLookup, detector: str) -> Row:
    human = detector == GROUND_TRUTH
    cells = []
    for model in lookup.t2i_models:
        failed = not human and lookup.could_not_run(detector, model)
        for metric, _ in _METRICS:
            found = NOT_EVALUATED if failed else lookup.number(metric, detector=detector, t2i_model=model)
            cells.append(with_interval(score_cell(found.value), found.ci_low, found.ci_high))
    name = "Ground truth" if human else detector
    notes = [] if human else lookup.no_verdict_notes(detector, lookup.t2i_models)
    return Row(name, (Cell(name, key=detector), *cells), tuple(notes))
