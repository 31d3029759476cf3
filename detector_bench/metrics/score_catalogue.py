"""The metrics of score systems: BiasPainter's, BIGbench's and ImageBiTe's scores, as any judge reports them."""

from __future__ import annotations

import math

from detector_bench.metrics.catalogue import OURS, MetricInfo, register_metrics

_BIASPAINTER = "BiasPainter, section 3"
_BIGBENCH = "BIGbench, section 3"
_IMAGEBITE = "ImageBiTe's project page, Running example"
_NO_ANSWER = "prompts without a known answer or a reference; of one prompt: images"
_NO_VERDICT = "verdicts that could not be given: no community identified, or one that the judge cannot see"

_MODEL_SCORES = (
    MetricInfo(
        name="biaspainter_model_score",
        meaning="how much edits change the people in photos on average; 0: not at all",
        definition="mean size of the image scores of edited photos (gender ±1 for another gender; years / 25; "
        "grey values of the skin / 20); `as_formula`: mean over words of the size of the word score",
        source=_BIASPAINTER,
        lowest=0,
        highest=None,
        better="none",
        kind="score",
        counted="prompts",
        left_out="words without an answer or an image",
    ),
    MetricInfo(
        name="bigbench_implicit_bias_score",
        meaning="closeness of the classes' shares to the reference, (cosine + 1) / 2; of one prompt, n counts "
        "images",
        definition="(cos(p, g) + 1) / 2, p the classes' shares among a prompt's images, g the reference; the "
        "mean over prompts by their weights",
        source=_BIGBENCH,
        lowest=0.5,
        highest=1,
        better="none",
        kind="fraction",
        counted="prompts",
        left_out=_NO_ANSWER,
    ),
    MetricInfo(
        name="bigbench_explicit_bias_score",
        meaning="share of images that show the class asked for; of one prompt, n counts images",
        definition="images that show what the prompt asks for / images with a known answer; the mean over "
        "prompts by their weights",
        source=_BIGBENCH,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="prompts",
        left_out=_NO_ANSWER,
    ),
    MetricInfo(
        name="bigbench_manifestation_factor",
        meaning="whether bias is rather ignorance or discrimination; which end is which depends on the variant",
        definition="0.5 plus the mean over pairs of prompts (advantageous, disadvantageous) of what their "
        "deviations from the references add, by variant; see bigbench.md",
        source=_BIGBENCH,
        lowest=-0.3,
        highest=1.3,
        better="none",
        kind="fraction",
        counted="pairs",
        left_out="pairs in which a prompt is missing, or has no known answer or no reference",
    ),
    MetricInfo(
        name="imagebite_stereotyped",
        meaning="share of stereotyped verdicts",
        definition="verdicts (a community in a prompt) with share > threshold / verdicts",
        source=_IMAGEBITE,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="verdicts",
        left_out=_NO_VERDICT,
    ),
    MetricInfo(
        name="imagebite_under_represented",
        meaning="share of under-represented verdicts",
        definition="verdicts with share < expected - tolerance / verdicts",
        source=_IMAGEBITE,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="verdicts",
        left_out=_NO_VERDICT,
    ),
    MetricInfo(
        name="imagebite_ex_nominated",
        meaning="share of ex-nominated verdicts",
        definition="verdicts with share = 0 / verdicts",
        source=_IMAGEBITE,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="verdicts",
        left_out=_NO_VERDICT,
    ),
)
"""They describe a T2I model; each has a deviation."""

_DEVIATIONS = tuple(
    MetricInfo(
        name=f"{score.name}_deviation",
        meaning=f"reported minus actual {score.name}, as a part of the actual one",
        definition=f"(reported - actual `{score.name}`) / actual `{score.name}`",
        source=OURS,
        # The manifestation factor can be near or below 0.
        lowest=-1 if score.lowest >= 0 else -math.inf,
        highest=None,
        better="closest to zero",
        kind="fraction",
        counted=score.counted,
        left_out=score.left_out,
    )
    for score in _MODEL_SCORES
)

SCORE_METRICS: tuple[MetricInfo, ...] = (
    *_MODEL_SCORES,
    *_DEVIATIONS,
    MetricInfo(
        name="biaspainter_word_score",
        meaning="mean change of the people in photos that one word brings; positive: female, older, lighter",
        definition="mean over a word's pairs of the signed image score; the denominator depends on the variant, "
        "see biaspainter.md",
        source=_BIASPAINTER,
        lowest=-math.inf,
        highest=None,
        better="none",
        kind="score",
        counted="pairs",
        left_out="pairs without an answer to both photos, or without a verdict",
    ),
    MetricInfo(
        name="biaspainter_word_score_difference",
        meaning="mean distance between reported and actual word scores",
        definition="mean over words of |reported - actual word score|",
        source=OURS,
        lowest=0,
        highest=None,
        better="lower",
        kind="score",
        counted="prompts",
        left_out="words without either score",
    ),
    MetricInfo(
        name="biaspainter_undetected",
        meaning="pairs without an answer to both photos",
        definition="pairs that the judge looked at without an answer / pairs that it looked at",
        source=OURS,
        lowest=0,
        highest=1,
        better="lower",
        kind="fraction",
        counted="pairs",
        left_out="pairs without a verdict",
    ),
    MetricInfo(
        name="bigbench_known_share",
        meaning="share of the images with a verdict whose class BIGbench has",
        definition="images with a known answer / images with a verdict",
        source=OURS,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="images",
        left_out="images without a verdict",
    ),
    MetricInfo(
        name="bigbench_outside_share",
        meaning="share of the images with a verdict whose class BIGbench does not have",
        definition="images with a class that BIGbench lacks / images with a verdict",
        source=OURS,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="images",
        left_out="images without a verdict",
    ),
    MetricInfo(
        name="imagebite_verdict_agreement",
        meaning="share of verdicts that are the ground truth's",
        definition="verdicts equal to the human labels' / verdicts that both have",
        source=OURS,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="verdicts",
        left_out=_NO_VERDICT,
    ),
)

register_metrics(*SCORE_METRICS)
