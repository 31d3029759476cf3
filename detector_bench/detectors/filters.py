"""Filters: which images a detector throws out before it classifies. Pure functions of box stages."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.perception.boxes import areas
from detector_bench.perception.stage import Frame, Stage, StageField


class FaceFilter(Declaration):
    """Throws out images without a face: reason `no_face`."""

    kind: Literal["face"] = "face"
    faces: StageField

    def stage(self) -> Stage:
        """The stage that finds the faces."""
        return self.faces

    def reason(self, frame: Frame) -> str | None:
        """Why the image is thrown out; None keeps it."""
        return "no_face" if len(frame[self.faces]["scores"]) == 0 else None


class SingleSubjectFilter(Declaration):
    """Throws out images with several people: reason `several_people`.

    An image goes if the second-largest box has more than `max_area_ratio` of the largest one's area: then a second
    person may influence how the main subject is perceived (Lyu 2025, section 5.1, with person boxes and 0.5).
    """

    kind: Literal["single_subject"] = "single_subject"
    boxes: StageField
    max_area_ratio: float = Field(default=0.5, ge=0, le=1)
    without_box: Literal["keep", "filter"] = "keep"
    """What to do with an image without a box. The paper does not say. Keeping it leaves the decision to the other
    filters: a person detector that misses a close-up of a face would otherwise throw out a clear image."""

    def stage(self) -> Stage:
        """The person or face boxes."""
        return self.boxes

    def reason(self, frame: Frame) -> str | None:
        """Why the image is thrown out; None keeps it."""
        sizes = np.sort(areas(frame[self.boxes]))[::-1]
        if len(sizes) == 0:
            return None if self.without_box == "keep" else "no_person"
        if len(sizes) > 1 and sizes[1] > self.max_area_ratio * sizes[0]:
            return "several_people"
        return None


Filter = Annotated[FaceFilter | SingleSubjectFilter, Field(discriminator="kind")]


def first_reason(filters: tuple[Filter, ...], frame: Frame) -> str | None:
    """The reason of the first filter that throws the image out; None if all keep it."""
    return next((reason for each in filters if (reason := each.reason(frame)) is not None), None)
