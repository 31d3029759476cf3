"""The metrics of representation: their names, and what the catalogue says about them."""

from __future__ import annotations

from functools import partial

from detector_bench.metrics.catalogue import MetricInfo, register_metrics, with_deviations

TOTAL_VARIATION = "representation_total_variation"
KL_DIVERGENCE = "representation_kl_divergence"
MEAN_ABSOLUTE_DEVIATION = "representation_mean_absolute_deviation"
POOLED = "representation_pooled_total_variation"
P_VALUE = "representation_p_value"
DIFFERING = "representation_differing_prompts"
CLEAR_SHARE = "representation_clear_share"
SHARES_FILE = "representation_shares.csv"

FALSE_DISCOVERY_RATE = 0.05
"""Of the prompts that the human labels, or the detectors, say to differ from the reference, at most so large a
part does not, on average; and any is said to in at most this part of the studies in which nothing differs."""


def if_reference(metric: str) -> str:
    """The metric whose value is what chance gives."""
    return f"{metric}_if_reference"


_LEFT_OUT = (
    "prompts without a clear image or a reference, or that state the attribute; of one prompt: other images"
)
_distance = partial(
    MetricInfo, better="none", kind="score", counted="prompts", left_out=_LEFT_OUT, section="Representation"
)
_EXACT = "an expectation for the number of images at hand"
_OF_POOLED = "images that are not clear, or of prompts without a reference, or that state the attribute"


def _with_chance(info: MetricInfo) -> tuple[MetricInfo, MetricInfo]:
    expected = _distance(
        name=if_reference(info.name),
        meaning=f"{info.name} that a T2I model would show on average that shows exactly the reference's shares",
        definition=f"expectation of `{info.name}` of as many clear images, drawn from the reference; exact",
        highest=info.highest,
        counted=info.counted,
        left_out=info.left_out,
        no_interval=_EXACT,
    )
    return info, expected


_TOTAL, _TOTAL_IF = _with_chance(
    _distance(
        name=TOTAL_VARIATION,
        meaning="part of the images that would have to show another class for the shares to be the reference's; "
        "of one prompt, n counts images",
        definition="sum over classes of |p_k - r_k| / 2, p the shares among a prompt's clear images, r the "
        "reference; mean over prompts",
    )
)
register_metrics(
    *with_deviations(_TOTAL),
    _TOTAL_IF,
    *_with_chance(
        _distance(
            name=KL_DIVERGENCE,
            meaning="divergence of the shares from the reference in nats; infinite where a class is shown that "
            "the reference does not have",
            definition="KL(p || r) = sum over classes of p_k ln(p_k / r_k); mean over prompts",
            highest=None,
        )
    ),
    *_with_chance(
        _distance(
            name=MEAN_ABSOLUTE_DEVIATION,
            meaning="mean distance of a class's share from the reference; 2 / K times the total variation",
            definition="sum over classes of |p_k - r_k| / K; mean over prompts",
            source="DALL-Eval (against equal shares)",
        )
    ),
    *_with_chance(
        _distance(
            name=POOLED,
            meaning="total variation of all images together: what prompts show too much and others too little of "
            "evens out",
            definition="total variation of the shares among all clear images from the mean of the prompts' "
            "references, weighted by their clear images",
            counted="images",
            left_out=_OF_POOLED,
        )
    ),
    _distance(
        name=P_VALUE,
        meaning="probability of shares as far from the reference in any class by chance, adjusted for all "
        "prompts of the study",
        definition="exact binomial tests of the classes, Bonferroni over classes, then Benjamini and Hochberg's "
        "adjustment over all prompts, T2I models, attributes and references, of the human labels or of all "
        "detectors",
        counted="images",
        left_out="images that are not clear",
        no_interval="a probability by chance alone",
        rows=("prompts",),
    ),
    _distance(
        name=DIFFERING,
        meaning="share of prompts whose shares differ from the reference beyond chance",
        definition=f"prompts whose `{P_VALUE}` is at most {FALSE_DISCOVERY_RATE} / prompts with one",
        kind="fraction",
        left_out="prompts without a clear image or a reference, or that state the attribute",
        no_interval="a count of verdicts",
        rows=("scopes",),
    ),
    _distance(
        name=CLEAR_SHARE,
        meaning="share of the images with a verdict that are clear, in both attributes of a pair",
        definition="clear images / images with a verdict",
        kind="fraction",
        counted="images",
        left_out="images without a verdict",
    ),
)
