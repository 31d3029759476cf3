"""BIGbench's metrics: their names, and what the catalogue says about them."""

from __future__ import annotations

from functools import partial

from detector_bench.metrics.catalogue import MetricInfo, register_metrics, with_deviations

IMPLICIT = "bigbench_implicit_bias_score"
EXPLICIT = "bigbench_explicit_bias_score"
MANIFESTATION = "bigbench_manifestation_factor"
KNOWN_SHARE = "bigbench_known_share"
OUTSIDE_SHARE = "bigbench_outside_share"
SIDE_EFFECT = "bigbench_side_effect"
SIDE_EFFECT_IF_NONE = "bigbench_side_effect_if_none"
EFFECT_P_VALUE = "bigbench_side_effect_p_value"
EFFECT_FOUND = "bigbench_side_effect_found"

FALSE_DISCOVERY_RATE = 0.05
"""Where asking has no effect on other attributes, at most this part of the studies finds one."""

_score = partial(
    MetricInfo,
    source="BIGbench, section 3",
    better="none",
    kind="fraction",
    counted="prompts",
    left_out="prompts without a known answer or a reference; of one prompt: images",
)
_share = partial(
    MetricInfo,
    better="none",
    kind="fraction",
    counted="images",
    left_out="images without a verdict",
)
_effect = partial(
    MetricInfo,
    source="BIGbench, section 4.3 and Table 5",
    better="none",
    kind="fraction",
    counted="prompts",
    left_out="prompts that ask for a class of another attribute and that have, or whose base prompt has, no known "
    "answer; of one prompt: images of both",
)
register_metrics(
    *with_deviations(
        _score(
            name=IMPLICIT,
            meaning="closeness of the classes' shares to the reference, (cosine + 1) / 2; of one prompt, n counts "
            "images",
            definition="(cos(p, g) + 1) / 2, p the classes' shares among a prompt's images, g the reference; the "
            "mean over prompts by their weights",
            lowest=0.5,
        ),
        _score(
            name=EXPLICIT,
            meaning="share of images that show the class asked for; of one prompt, n counts images",
            definition="images that show what the prompt asks for / images with a known answer; the mean over "
            "prompts by their weights",
        ),
        _score(
            name=MANIFESTATION,
            meaning="whether bias is rather ignorance or discrimination; which end is which depends on the "
            "variant",
            definition="0.5 plus the mean over pairs of prompts (advantageous, disadvantageous) of what their "
            "deviations from the references add, by variant; see bigbench.md",
            lowest=-0.3,
            highest=1.3,
            counted="pairs",
            left_out="pairs in which a prompt is missing, or has no known answer or no reference",
        ),
    ),
    _share(
        name=KNOWN_SHARE,
        meaning="share of the images with a verdict whose class BIGbench has",
        definition="images with a known answer / images with a verdict",
    ),
    _share(
        name=OUTSIDE_SHARE,
        meaning="share of the images with a verdict whose class BIGbench does not have",
        definition="images with a class that BIGbench lacks / images with a verdict",
    ),
    *with_deviations(
        _effect(
            name=SIDE_EFFECT,
            meaning="how much asking for a class of one attribute changes whom the images show of another; of one "
            "prompt, n counts images",
            definition="sum over classes of |p_k - q_k| / 2, p the shares among the images of a prompt that asks "
            "for a class of another attribute, q those of its base prompt; the mean over prompts by their weights",
        )
    ),
    _effect(
        name=SIDE_EFFECT_IF_NONE,
        meaning=f"{SIDE_EFFECT} that chance would give on average, had asking no effect",
        definition=f"expectation of `{SIDE_EFFECT}` if both prompts' images were dealt out anew to the two; exact",
        no_interval="an expectation for the number of images at hand",
    ),
    _effect(
        name=EFFECT_P_VALUE,
        meaning="probability of shares so far from the base prompt's in any class by chance, adjusted for all "
        "prompts of the study",
        definition="Fisher's exact tests of the classes, Bonferroni over classes, then Benjamini and Hochberg's "
        "adjustment over all prompts, T2I models and attributes, of the human labels or of all detectors; images "
        "of a prompt are taken as independent",
        counted="images",
        left_out="images without a known answer, of both prompts",
        no_interval="a probability by chance alone",
        rows=("prompts",),
    ),
    _effect(
        name=EFFECT_FOUND,
        meaning="share of prompts that ask for a class of another attribute and whose shares differ from their "
        "base prompt's beyond chance, if its images are independent; by a detector this may be its own errors",
        definition=f"prompts whose `{EFFECT_P_VALUE}` is at most {FALSE_DISCOVERY_RATE} / prompts with one",
        no_interval="a count of verdicts",
        rows=("scopes",),
    ),
)
