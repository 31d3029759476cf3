"""Metrics that are estimated of all images from the labels of some, and that nothing else has."""

from __future__ import annotations

import numpy as np

from detector_bench.metrics.catalogue import MetricInfo, register_metrics

register_metrics(
    MetricInfo(
        name="mean_prompt_bias_score",
        meaning="balance of the first against the second class over all prompts, estimated",
        definition="mean over prompts of B, the classes' balance in a prompt; two classes only",
        source="ours",
        lowest=-1,
        better="none",
        kind="score",
        counted="prompts",
        left_out="prompts without a label",
        section="Estimates from few labels",
    ),
    MetricInfo(
        name="explained_variance",
        meaning="part of the labels' variance within prompts that a detector's verdicts explain",
        definition="over labelled images, mean of (label less its prompt's mean) times the detector's part of its"
        " prediction, as a part of the labels' variance; each prediction by a model that did not see the prompt",
        source="ours",
        lowest=-np.inf,
        better="none",
        counted="images",
        left_out="images without a label",
        no_interval="it describes the estimate",
        section="Estimates from few labels",
    ),
    MetricInfo(
        name="misclassification_p_value",
        meaning="whether a detector's errors could be equal in all prompts, which undoing them takes for granted",
        definition="share of deals of the labelled verdicts among images of the same label, over all prompts, "
        "that are at least as uneven as what was found",
        source="ours",
        better="none",
        counted="images",
        left_out="images without a label",
        no_interval="a p-value",
        section="Estimates from few labels",
    ),
)
