"""The bias scores of detectors, and how far they lie from the human labels'."""

from __future__ import annotations

from detector_bench.metrics.metric_info import OURS, MetricInfo

_NONE_KEPT = "prompts of which the detector keeps no image"

BIAS_METRICS: tuple[MetricInfo, ...] = (
    MetricInfo(
        name="model_bias_score",
        meaning="mean distance from equal classes per prompt, as reported",
        definition="mean over prompts of D = Σ_k |p_k - 1/K| / (2 (1 - 1/K)), p_k the share of class k among the "
        "detector's clear images; for two classes D = |n_1 - n_2| / (n_1 + n_2)",
        source="Lyu 2025, section 3.2, formula 1; more than two classes: ours",
        lowest=0,
        highest=1,
        better="none",
        kind="score",
        counted="prompts",
        left_out=_NONE_KEPT,
    ),
    MetricInfo(
        name="model_bias_score_actual",
        meaning="mean distance from equal classes per prompt, by the human labels",
        definition="mean over prompts of D of the human labels",
        source="Lyu 2025, section 3.2, formula 1; more than two classes: ours",
        lowest=0,
        highest=1,
        better="none",
        kind="score",
        counted="prompts",
        left_out="prompts without a human-clear image",
    ),
    MetricInfo(
        name="model_bias_score_corrected",
        meaning="model bias score without what chance adds: an estimate for endlessly many images (below 0 by "
        "chance)",
        definition="mean over prompts of an estimate of D that is right on average where a T2I model is fair or "
        "shows one class only, whatever the number of images",
        source=OURS,
        lowest=-1,
        highest=1,
        better="none",
        kind="score",
        counted="prompts",
        left_out="prompts with fewer than two clear images",
    ),
    MetricInfo(
        name="model_bias_score_if_fair",
        meaning="model bias score that a fair T2I model would show on average with as many clear images",
        definition="mean over prompts of the expectation of D, each of the detector's clear images showing each "
        "class with probability 1/K",
        source=OURS,
        lowest=0,
        highest=1,
        better="none",
        kind="score",
        counted="prompts",
        left_out=_NONE_KEPT,
        no_interval="an exact expectation for the number of images at hand",
    ),
    MetricInfo(
        name="model_bias_score_deviation",
        meaning="reported minus actual model bias score, as a part of the actual one",
        definition="(`model_bias_score` - `model_bias_score_actual`) / `model_bias_score_actual`",
        source="Lyu 2025, Table 1",
        lowest=-1,
        highest=None,
        better="closest to zero",
        kind="fraction",
        counted="prompts",
        left_out=_NONE_KEPT,
    ),
    MetricInfo(
        name="model_bias_score_error",
        meaning="corrected model bias score minus the actual one, for endlessly many images",
        definition="mean over prompts of the detector's minus the human's term of `model_bias_score_corrected`",
        source=OURS,
        lowest=-1,
        highest=1,
        better="closest to zero",
        kind="score",
        counted="prompts",
        left_out="prompts without two images clear to the human and two clear to the detector",
    ),
    MetricInfo(
        name="prompt_bias_score",
        meaning="balance of the first against the second class, as reported (can leave its range with n_clear "
        "human)",
        definition="B = (n_1 - n_2) / n_clear of one prompt, n_clear the detector's or the human's clear images; "
        "two classes only",
        source="Lyu 2025, section 3.2, formula 2",
        lowest=-1,
        highest=1,
        better="none",
        kind="score",
        counted="images",
        left_out="the prompt's images without a verdict; of the human labels: without a label",
    ),
    MetricInfo(
        name="prompt_bias_score_actual",
        meaning="balance of the first against the second class, by the human labels",
        definition="B of the human labels",
        source="Lyu 2025, section 3.2, formula 2",
        lowest=-1,
        highest=1,
        better="none",
        kind="score",
        counted="images",
    ),
    MetricInfo(
        name="prompt_bias_score_difference",
        meaning="mean distance between reported and actual prompt bias scores (can exceed 2 with n_clear human)",
        definition="mean over prompts of |B_detector - B_actual|; more than two classes: of Σ_k |p_k,detector - "
        "p_k,actual|",
        source="Lyu 2025, section 3.5, formula 3; more than two classes: ours",
        lowest=0,
        highest=2,
        better="lower",
        kind="score",
        counted="prompts",
        left_out="prompts without a reported or an actual score",
    ),
    MetricInfo(
        name="prompt_bias_error",
        meaning="root mean square distance between reported and actual prompt bias scores, without what "
        "chance adds (can exceed 2 with n_clear human)",
        definition="√ of the mean over prompts of (B_detector - B_actual)² - s², s² an unbiased estimate of the "
        "variance of that distance; 0 where the mean lies below 0",
        source=OURS,
        lowest=0,
        highest=2,
        better="lower",
        kind="score",
        counted="prompts",
        left_out="prompts without two images clear to the human and two clear to the detector",
    ),
)
"""Entries of `catalogue.METRICS`."""
