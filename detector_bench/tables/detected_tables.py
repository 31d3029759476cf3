"""Tables of what detectors report by themselves, over all images, where not all have a human label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from detector_bench.results.metric_lookup import MetricLookup
from detector_bench.tables.building import TableLayout, TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.table import Column, MetricColumn, Table
from detector_bench.vocabulary.columns import DETECTOR_ONLY


def _of_labels(_: TableNumbers) -> Sequence[MetricColumn]:
    return [Column.of("label_share_<label>", group="Share (%)"), Column.of("images")]


_SCORES = TableLayout(
    name="detected_bias_scores",
    caption="Model bias scores of perceived {attribute} as each detector reports them, over all images, whether "
    "they have a human label or not; how right the detectors are is not asked here. As published: of these "
    "images. Corrected: without what chance adds. If fair: what a T2I model without bias would show on average "
    "with as many clear images.",
    columns=(
        Column.of("model_bias_score", heading="As published"),
        Column.of("model_bias_score_corrected", heading="Corrected"),
        Column.of("model_bias_score_if_fair", heading="If fair"),
    ),
    columns_for="t2i_model",
)
_SHARES = TableLayout(
    name="detected_shares",
    caption="Verdicts on perceived {attribute}, over all images, whether they have a human label or not, in per "
    "cent of the images with a verdict. Low-quality: what the detector filters.",
    rows=("t2i_model", "detector"),
    columns=_of_labels,
    best=False,
)


@makes_table("detected_bias_scores", needs_labels=False)
def detected_bias_scores(numbers: TableNumbers) -> Table | None:
    """Each T2I model's bias as every detector reports it, over all images; None where all have a label."""
    return _of_detectors(_SCORES, numbers)


@makes_table("detected_shares", needs_labels=False)
def detected_shares(numbers: TableNumbers) -> Table | None:
    """How often each detector says what, over all images; None where all have a label."""
    return _of_detectors(_SHARES, numbers)


def _of_detectors(layout: TableLayout, numbers: TableNumbers) -> Table | None:
    of_variant = numbers.metrics["variant"] == DETECTOR_ONLY
    if not (of_variant & (numbers.metrics["attribute"] == numbers.attribute)).any():
        return None
    alone = MetricLookup.of_table(
        numbers.metrics,
        attribute=numbers.attribute,
        max_error_share=numbers.lookup.max_error_share,
        variant=DETECTOR_ONLY,
    )
    return layout.build(replace(numbers, lookup=alone))
