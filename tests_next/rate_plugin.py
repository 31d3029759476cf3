"""A plugin as somebody else would write it: a metric, and a table that shows it."""

from __future__ import annotations

from typing import Any

from detector_bench_next.metrics import Score, class_count, fraction, metric
from detector_bench_next.tables import Col, declare


@metric(over="images", better="lower", interval="ratio", column="Lost", left_out="clear images without an answer")
def lost_share(c: Any) -> Score:
    """Share of human-clear images that the detector filters: filtered / human-clear images with an answer."""
    k = class_count(c)
    return fraction(c[:k, k].sum(0), c[:k, : k + 1].sum((0, 1)), c[:k, -1].sum(0))


@metric(
    "leaning_<class>", over="prompts", per_class=True, rows=("scopes",), kind="score", lowest=-1, interval="plain"
)
def leaning(c: Any) -> Any:
    """Reported minus actual share of a class: mean over prompts of p_k - q_k."""
    k = class_count(c)
    shown, true = c[:, :k].sum(0), c[:k].sum(1)
    return fraction(shown, shown.sum(0), 0).value - fraction(true, true.sum(0), 0).value


declare(
    "lost_images",
    "Clear images lost to the filter, and where detectors lean, on perceived {attribute}.",
    [Col("lost_share"), Col("leaning_<class>", group="Leaning")],
    "detector",
    across="t2i_model",
    best=True,
)
