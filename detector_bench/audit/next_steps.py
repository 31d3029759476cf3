"""What to do after an audit: label a first sample, label more, or nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from detector_bench.audit.findings import AttributeAudit, HumanLabels
from detector_bench.dataset.sample_file import SAMPLE_FILE, found_sample

FIRST_LABELS = 200
"""So many to begin with."""

HALF_WIDTH = 0.05
"""What an interval of the model bias score should be, to either side, unless something else is asked for."""


def next_steps(
    audits: Sequence[AttributeAudit], image_set: Path, *, half_width: float = HALF_WIDTH
) -> tuple[str, ...]:
    """What to do next, a sentence each.

    Args:
        audits: of a study's attributes.
        image_set: the folder of the images.
        half_width: what is wanted of the intervals of the model bias score.
    """
    return tuple(step for audit in audits for step in _of_attribute(audit, image_set, half_width))


def half_width_of(audit: AttributeAudit) -> float:
    """Of the widest interval of a model bias score, to either side; NaN where there is none."""
    widths = [(each.score.ci_high - each.score.ci_low) / 2 for each in audit.t2i_models if each.score.has_interval]
    return max(widths, default=math.nan)


def _of_attribute(audit: AttributeAudit, image_set: Path, half_width: float) -> list[str]:
    option = "" if audit.attribute == "gender" else f" --attribute {audit.attribute}"
    asked = "" if audit.attribute == "gender" else f" --attributes {audit.attribute}"
    if audit.labels is HumanLabels.ALL:
        return [
            f"All images have a human label of {audit.words}: nothing is left to be estimated. Only more images of each prompt"
            " would say more about the T2I models."
        ]
    if audit.labels is HumanLabels.NONE:
        if found_sample(image_set) is not None:
            return [
                f"Next: label the sample that was drawn, `detector-bench label {image_set}{asked}`, then audit again."
            ]
        return [
            f"Next: draw {FIRST_LABELS} images, `detector-bench sample {image_set} --labels {FIRST_LABELS}{option}`,"
            f" label them, `detector-bench label {image_set}{asked}`, then audit again."
        ]
    width = half_width_of(audit)
    if math.isnan(width):
        return []
    now = f"The widest interval of a model bias score of {audit.words} is \N{PLUS-MINUS SIGN}{width:.2f}"
    if width <= half_width:
        return [f"{now}, as narrow as asked for (\N{PLUS-MINUS SIGN}{half_width:g}): no further label is needed."]
    file = image_set / SAMPLE_FILE
    grow = f" --add-to {file}" if found_sample(image_set) is not None else ""
    return [
        f"{now}; \N{PLUS-MINUS SIGN}{half_width:g} is asked for. Next: draw further images, `detector-bench sample {image_set} --labels"
        f" N{option}{grow}`, label them, `detector-bench label {image_set}{asked}`, then audit again."
    ]
