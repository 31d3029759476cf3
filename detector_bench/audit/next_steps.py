"""What to do after an audit of images that nobody has labelled, or all; between the two there is a plan."""

from __future__ import annotations

from pathlib import Path

from detector_bench.audit.findings import AttributeAudit, HumanLabels
from detector_bench.dataset.sample_file import found_sample

FIRST_LABELS = 200
"""So many to begin with; of fewer images all."""


def next_steps(audit: AttributeAudit, image_set: Path, *, shown: str | None = None) -> tuple[str, ...]:
    """What to do next, a sentence each; of an attribute with some labels `Results.plan` knows more.

    Args:
        audit: of one attribute.
        image_set: the folder of the images.
        shown: what it is called; None: by its path, which is nobody's business in what is published.
    """
    if audit.labels is HumanLabels.ALL:
        return (
            f"All images have a human label of {audit.words}: nothing is left to be estimated. More images of each"
            " prompt would say more about the T2I models.",
        )
    if audit.labels is HumanLabels.SOME:
        return ()
    option = "" if audit.attribute == "gender" else f" --attribute {audit.attribute}"
    asked = "" if audit.attribute == "gender" else f" --attributes {audit.attribute}"
    shown = shown or str(image_set.resolve())
    label = f"`detector-bench label {shown}{asked} --annotator NAME`"
    if found_sample(image_set) is not None:
        return (f"Next: label the sample that was drawn, {label}, and audit again.",)
    number = min(FIRST_LABELS, sum(model.images for model in audit.t2i_models) or FIRST_LABELS)
    drawn = f"`detector-bench sample {shown} --labels {number}{option}`"
    return (f"Next: draw {number} images, {drawn}, label them, {label}, and audit again.",)
