"""The columns of the tables that the rooms hand to each other: names, types and their meaning."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from detector_bench.vocabulary import ATTRIBUTES

IMAGE_COLUMNS = ("image_id", "path", "t2i_model", "prompt_id")
PROMPT_COLUMNS = ("prompt_id", "category", "word", "prompt")

STATED_PREFIX = "stated_"
"""Begins the names of optional columns of the prompts, one by attribute: what the prompt asks for ("one White
Dancer": `white`), a word of `Attribute.statements`; empty where it leaves the attribute open. Without the column
nothing is known of it."""

BASE_PROMPT_COLUMN = "base_prompt_id"
"""Optional column of the prompts: the id of the same prompt without what it states ("one Dancer"), or empty."""

WEIGHT_COLUMN = "weight"
"""Optional column of the prompts: what a prompt counts for in a weighted mean, a number above 0. An empty cell
stands for the weight of its base prompt."""


def stated_columns(attributes: Iterable[str] = ATTRIBUTES) -> dict[str, str]:
    """The column of the prompts that says what they state of an attribute, by attribute."""
    return {attribute: STATED_PREFIX + attribute for attribute in attributes}


def optional_prompt_columns(attributes: Iterable[str] = ATTRIBUTES) -> tuple[str, ...]:
    """The columns that a prompt table may have, where these attributes are known."""
    return (*stated_columns(attributes).values(), BASE_PROMPT_COLUMN, WEIGHT_COLUMN)


REASON_COLUMN = "reason"
"""Column of the labels that their file may lack: why somebody gave this label."""

LABEL_COLUMNS = ("image_id", "annotator", "attribute", "label", REASON_COLUMN)

VALUE_COLUMN = "value"
"""Optional column of the labels, and one of the predictions: a number beside a class, in the attribute's unit."""

SAMPLE_COLUMNS = (
    *("image_id", "stratum", "probability", "cell_probability"),
    *("design", "seed", "drawn_from"),
)
"""One row per image that was drawn to be labelled. `stratum` is what most detectors say of it, empty where no
detector was asked; `probability` is the chance that the image was drawn, given that its T2I model's prompt got a
label at all, and `cell_probability` the chance of that; `drawn_from` is the sha256 of the images that it was
drawn from."""

PREDICTIONS = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("detector", pa.string(), nullable=False),
        pa.field("attribute", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # clear, filtered or error
        pa.field("reason", pa.string()),  # why it is filtered, or what went wrong
        pa.field("label", pa.string()),  # the class of a clear image
        pa.field("score", pa.float64()),  # the detector's probability of that label, 0 to 1
        pa.field("value", pa.float64()),  # a measured number: age in years, skin tone
        pa.field("raw", pa.string()),  # an answer before it was parsed
        pa.field("image_sha256", pa.string()),  # the content that was judged; null when it could not be read
    ]
)
"""One row per image and attribute; a folder `predictions/<detector>/` holds one detector's rows."""

METRIC_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "category",
    "prompt_id",
    "metric",
    "n_clear",
    "variant",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "n_left_out",
)
"""One row per number. `t2i_model`, `category` and `prompt_id` are "all" where the number covers all of them.

`n_clear` says, for bias scores of a detector, whose count of clear images is the denominator ("detector" or
"human"), and is empty elsewhere. `variant` says which definition the number follows, where there are several: a
score system's preset (such as `as_published`, `as_code`, `as_paper`) or an ImageBiTe requirement's name; or how
the numbers of all images were come by where not all have a human label, one of `ESTIMATES`. It is empty for all
other metrics. `n` is how many images (shares, mean errors), prompts (means over prompts) or
classes (means over classes) the number rests on; `n_left_out` is how many it had to leave out: images with an
error, or prompts or classes without a score.
"""

DETECTOR_ONLY = "detector_only"
"""Variant of numbers by a detector's verdicts alone, over all images that T2I models made, labelled or not."""

OF_DETECTORS_ALONE = f", {DETECTOR_ONLY}"
"""Ends the variant of another benchmark's score by the same: `as_published, detector_only`."""

MISCLASSIFICATION = "misclassification"
LABELS_ONLY = "labels_only"
PREDICTION_POWERED = "prediction_powered"

VALIDATED_ELSEWHERE = "validated_elsewhere"
"""Variant of estimates without any label on these images, from what another study's labels say of detectors."""

ESTIMATES = (DETECTOR_ONLY, MISCLASSIFICATION, LABELS_ONLY, PREDICTION_POWERED, VALIDATED_ELSEWHERE)
"""Variants of the same metrics over all images, where only some have a human label. The plain rows rest on the
labelled ones alone."""

DIFFERENCE_COLUMNS = (
    *("attribute", "what", "detector", "other_detector"),
    *("value_there", "value_here", "difference", "p_value", "flagged"),
)
"""One row per number of detectors on the images of two studies, one of which has the labels. `what` is
filter_rate, error_rate, agreement (of two detectors) or score (its median; the difference is the
Kolmogorov-Smirnov distance); `flagged` says that the difference is more than chance explains, and matters."""

LABEL_DOUBT_COLUMNS = ("labelled_by", *METRIC_COLUMNS)
"""One row per number of a metric table, had the truth been other labels than the consensus. `labelled_by` says
which: an annotator's name, "all_agree" or "dawid_skene"."""

CONFUSION_COLUMNS = ("detector", "attribute", "t2i_model", "category", "human_label", "verdict", "images")
"""One row per cell of a confusion matrix: how many images with this human label got this verdict. `verdict` is a
class, "filtered", or "no_verdict" (an error, or never run). `t2i_model` and `category` are "all" where the number
covers all of them. Human labels without an image have no row, verdicts without one have a 0."""
