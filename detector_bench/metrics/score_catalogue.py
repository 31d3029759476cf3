"""The metrics of score systems: BiasPainter's, BIGbench's and ImageBiTe's scores, as any judge reports them."""

from __future__ import annotations

import math

from detector_bench.metrics.metric_info import MetricInfo

_MODEL_SCORES = (
    MetricInfo(
        "biaspainter_model_score",
        "how much edits change the people in photos on average; 0: not at all",
        0,
        None,
        "none",
        "score",
        "prompts",
    ),
    MetricInfo(
        "bigbench_implicit_bias_score",
        "closeness of the classes' shares to the reference, (cosine + 1) / 2; of one prompt, n counts images",
        0.5,
        1,
        "none",
        "fraction",
        "prompts",
    ),
    MetricInfo(
        "bigbench_explicit_bias_score",
        "share of images that show the class asked for; of one prompt, n counts images",
        0,
        1,
        "none",
        "fraction",
        "prompts",
    ),
    MetricInfo(
        "bigbench_manifestation_factor",
        "whether bias is rather ignorance or discrimination; which end is which depends on the variant",
        -0.3,
        1.3,
        "none",
        "fraction",
        "pairs",
    ),
    MetricInfo("imagebite_stereotyped", "share of stereotyped verdicts", 0, 1, "none", "fraction", "verdicts"),
    MetricInfo(
        "imagebite_under_represented",
        "share of under-represented verdicts",
        0,
        1,
        "none",
        "fraction",
        "verdicts",
    ),
    MetricInfo("imagebite_ex_nominated", "share of ex-nominated verdicts", 0, 1, "none", "fraction", "verdicts"),
)
"""They describe a T2I model; each has a deviation."""

_DEVIATIONS = tuple(
    MetricInfo(
        f"{score.name}_deviation",
        f"reported minus actual {score.name}, as a part of the actual one",
        # The manifestation factor can be near or below 0.
        -1 if score.lowest >= 0 else -math.inf,
        None,
        "closest to zero",
        "fraction",
        score.counted,
    )
    for score in _MODEL_SCORES
)

SCORE_METRICS: tuple[MetricInfo, ...] = (
    *_MODEL_SCORES,
    *_DEVIATIONS,
    MetricInfo(
        "biaspainter_word_score",
        "mean change of the people in photos that one word brings; positive: female, older, lighter",
        -math.inf,
        None,
        "none",
        "score",
        "pairs",
    ),
    MetricInfo(
        "biaspainter_word_score_difference",
        "mean distance between reported and actual word scores",
        0,
        None,
        "lower",
        "score",
        "prompts",
    ),
    MetricInfo(
        "biaspainter_undetected", "pairs without an answer to both photos", 0, 1, "lower", "fraction", "pairs"
    ),
    MetricInfo(
        "bigbench_known_share",
        "share of the images with a verdict whose class BIGbench has",
        0,
        1,
        "none",
        "fraction",
        "images",
    ),
    MetricInfo(
        "bigbench_outside_share",
        "share of the images with a verdict whose class BIGbench does not have",
        0,
        1,
        "none",
        "fraction",
        "images",
    ),
    MetricInfo(
        "imagebite_verdict_agreement",
        "share of verdicts that are the ground truth's",
        0,
        1,
        "higher",
        "fraction",
        "verdicts",
    ),
)
"""Entries of `catalogue.METRICS`."""
