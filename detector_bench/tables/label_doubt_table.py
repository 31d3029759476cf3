"""The table of doubt in the labels: the headline numbers by whom the images were labelled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.evaluation.label_doubt import MIN_SHARE
from detector_bench.metrics import HEADLINE_METRICS, metric_info
from detector_bench.tables.label_doubt_lookup import LabelDoubtLookup
from detector_bench.tables.metric_headings import METRIC_HEADINGS
from detector_bench.tables.metric_lookup import (
    DEFAULT_MAX_ERROR_SHARE,
    NOT_EVALUATED,
    MetricLookup,
    Number,
)
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    per_cent_cell,
    score_cell,
    whole,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_GROUP = "Labelled by"
_IN_WORDS = {ALL_AGREE: "All agree", DAWID_SKENE: "Dawid-Skene"}
_ESTIMATED = (
    "Dawid-Skene: by the likeliest true labels, if annotators err independently of each other given the truth; "
    "not part of the band."
)


def label_doubt_table(
    metrics: pd.DataFrame,
    doubt: pd.DataFrame,
    *,
    attribute: str = "gender",
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> Table | None:
    """What the headline numbers would be by other labels, beside their intervals.

    One row per metric, detector and, for bias scores, T2I model: the consensus's number with its interval; each
    annotator's; the one where all annotators agree; and from the lowest to the highest of them.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        doubt: columns as in `schema.LABEL_DOUBT_COLUMNS`.
        attribute: which one.
        max_error_share: a detector that fails on a larger share of the images gets a dash.

    Returns:
        None where fewer than two people labelled an image.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    consensus = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    others = LabelDoubtLookup.of_table(doubt, attribute=attribute, max_error_share=max_error_share)
    if not others.by_labels:
        return None
    names = [Column("metric", "Metric", kind="name"), Column("detector", "Detector", kind="name")]
    if len(consensus.t2i_models) > 1:
        names.append(Column("t2i_model", "T2I model", kind="name"))
    return Table(
        name="label_doubt",
        caption=(
            f"Doubt in the labels of perceived {attribute_in_words(attribute)}: what the numbers would be, had "
            "other labels been the truth. In brackets: confidence interval. Band: from the lowest to the highest "
            "of consensus, annotators, and images on which all of them agree."
        ),
        attribute=attribute,
        columns=(
            *names,
            Column("consensus", "Consensus", group=_GROUP, full_heading="Consensus", has_intervals=True),
            *(_column(name) for name in others.by_labels),
            Column("lowest", "from", group="Band", full_heading="Band from"),
            Column("highest", "to", group="Band", full_heading="Band to"),
        ),
        rows=tuple(_rows(consensus, others)),
        notes=(*consensus.notes, *_notes(consensus, others)),
        grouped=True,
    )


def _column(labelled_by: str) -> Column:
    heading = _IN_WORDS.get(labelled_by, labelled_by)
    full = heading if labelled_by in _IN_WORDS else f"Labelled by {labelled_by}"
    return Column(labelled_by, heading, group=_GROUP, full_heading=full)


def _rows(consensus: MetricLookup, others: LabelDoubtLookup) -> Iterator[Row]:
    several = len(consensus.t2i_models) > 1
    to_be_noted = set(consensus.detectors)  # once, though a detector has many rows
    for metric in HEADLINE_METRICS:
        over_prompts = metric_info(metric).counted == "prompts"
        for detector in consensus.detectors:
            for model in consensus.t2i_models if over_prompts else (ALL,):
                cells = _cells(metric, consensus, others, detector=detector, t2i_model=model)
                if cells is None:
                    continue
                names = [Cell(METRIC_HEADINGS[metric], key=metric), Cell(detector)]
                if several:
                    names.append(Cell("all" if model == ALL else model, key=model))
                notes: list[str] = []
                if detector in to_be_noted:
                    to_be_noted.remove(detector)
                    notes = consensus.no_verdict_notes(detector, consensus.t2i_models)
                yield Row(detector, (*names, *cells), tuple(notes))


def _cells(
    metric: str, consensus: MetricLookup, others: LabelDoubtLookup, *, detector: str, t2i_model: str
) -> list[Cell] | None:
    """The row's numbers; None where the metric table does not have the metric."""
    place = {"detector": detector, "t2i_model": t2i_model, "n_clear": consensus.n_clear}
    found = consensus.number(metric, **place)
    if found is NOT_EVALUATED:
        return None
    by_labels: Sequence[Number] = [others.number(metric, labelled_by=name, **place) for name in others.by_labels]
    band: Sequence[float] = others.band(metric, found, **place)
    if consensus.could_not_run(detector, t2i_model):
        found, by_labels = NOT_EVALUATED, [NOT_EVALUATED] * len(by_labels)
        band = (NOT_EVALUATED.value, NOT_EVALUATED.value)
    is_fraction = metric_info(metric).kind == "fraction"
    return [
        _cell(found.value, found.ci_low, found.ci_high, per_cent=is_fraction),
        *(_cell(value, per_cent=is_fraction) for value in (*(each.value for each in by_labels), *band)),
    ]


def _cell(value: float, low: float = math.nan, high: float = math.nan, *, per_cent: bool) -> Cell:
    """Every number with the decimals that stand beside an interval, so that neighbours compare."""
    cell = per_cent_cell(value) if per_cent else score_cell(value)
    return with_interval(cell, low, high, per_cent=per_cent)


def _notes(consensus: MetricLookup, others: LabelDoubtLookup) -> Iterator[str]:
    lookups = {"consensus": consensus} | {
        _IN_WORDS.get(name, name): each for name, each in others.by_labels.items()
    }
    images = [
        f"{name} {whole(lookup.number('images', detector=GROUND_TRUTH).value)}" for name, lookup in lookups.items()
    ]
    yield f"Images: {', '.join(images)}."
    yield "Nobody's labels are the truth; images on which all agree are the easy ones."
    yield f"An annotator who labelled less than {100 * MIN_SHARE:.0f} % of the labelled images has no column."
    if DAWID_SKENE in others.by_labels:
        yield _ESTIMATED
