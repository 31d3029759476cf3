"""Finds what is wrong with a detector's stored predictions, and says it so that it can be mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import IncompletePredictionsError, Problem

_LISTED_PER_KIND = 20


class Mistakes:
    """The mistakes in the predictions of one detector for one attribute.

    Args:
        detector: its name.
        table: its predictions for the attribute.
    """

    def __init__(self, detector: str, table: pa.Table) -> None:
        self._place = f"predictions of {detector}"
        self._table = table
        self.problems: list[Problem] = []

    def add(self, rows: NDArray[np.integer], *, column: str, message: str, accepted: str) -> None:
        """Describe the mistake in each of these rows (0 is the first); beyond a number they are only counted."""
        if not rows.size:
            return
        columns = list(dict.fromkeys(["image_id", column]))
        for record in self._table.select(columns).take(pa.array(rows[:_LISTED_PER_KIND])).to_pylist():
            value = record[column]
            self.problems.append(
                Problem(
                    file=self._place,
                    column=column,
                    message=message if column == "image_id" else f"image {record['image_id']!r}: {message}",
                    value="(empty)" if value is None else value,
                    accepted=accepted,
                )
            )
        rest = len(rows) - _LISTED_PER_KIND
        if rest > 0:
            self.problems.append(
                Problem(file=self._place, column=column, message=f"... and {rest:,} more of this kind ({message})")
            )


@dataclass(frozen=True, slots=True)
class Missing:
    """The images that one detector has no prediction for."""

    detector: str
    images: int
    first: str


def incomplete_error(attribute: str, missing: Sequence[Missing], *, images: int) -> IncompletePredictionsError:
    """Say which detectors lack predictions for how many images, and what to do.

    Args:
        attribute: its name.
        missing: one entry for each detector that lacks some.
        images: how many images there should be.
    """
    lines = [
        f"  {each.detector}: {each.images:,} of {images:,} labelled images without a prediction,"
        f" the first is {each.first!r}"
        for each in missing
    ]
    return IncompletePredictionsError(
        "\n".join(
            [
                f"the predictions of {attribute} do not cover the image set:",
                *lines,
                "run `detector-bench run` again: it judges only what is missing; or leave these images out"
                " of the numbers with --allow-incomplete",
            ]
        )
    )
