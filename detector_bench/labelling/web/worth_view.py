"""What the coordinator's page says about the worth of the labels so far, in sentences."""

from __future__ import annotations

import math
from typing import Any

from detector_bench.labelling.web.agreement_view import number
from detector_bench.labelling.worth import LabelsWorth, WorthNow


def worth_view(now: WorthNow, *, attribute: str) -> dict[str, Any]:
    """`lines`, a sentence for each T2I model and score of an attribute, and `problem`, "" where there is none."""
    lines = [sentence(one) for one in now.found if one.attribute == attribute]
    problem = now.problem if now.problem or lines else f"no detector judges {attribute}"
    return {"lines": lines, "problem": f"It cannot be said yet: {problem}." if problem else ""}


def sentence(worth: LabelsWorth) -> str:
    """For example: "Model bias score of sd35: 0.31 ± 0.08 with 60 labels; 117 more for ± 0.05"."""
    name = worth.score_name.replace("_", " ").capitalize()
    labels = f"{worth.labels:,} {'label' if worth.labels == 1 else 'labels'}"
    if math.isnan(worth.estimate) or math.isnan(worth.half_width):
        return f"{name} of {worth.t2i_model}: cannot be said yet with {labels}"
    target = f"± {worth.target_half_width:.2g}"
    rest = {None: f"how many more for {target} cannot be said yet", 0: f"{target} is reached"}.get(
        worth.more_labels, f"{worth.more_labels or 0:,} more for {target}"
    )
    return f"{name} of {worth.t2i_model}: {number(worth.estimate)} ± {worth.half_width:.2f} with {labels}; {rest}"
