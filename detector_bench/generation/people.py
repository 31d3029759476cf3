"""How many people a picture shows, by any stage that finds faces or persons, and where to cut it between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import areas
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFailure, StageFunction, with_inputs
from detector_bench.weights import WeightsLocator

CutRule = Literal["between", "middle"]

_EDGE = 0.1
"""Share of a box's width that may lie beyond a cut before the cut goes through the person."""


class Cut(NamedTuple):
    """Where a picture is cut in two: the right half begins at this column of pixels."""

    at: int
    how: CutRule


class PeopleError(Exception):
    """A stage that could not look at a picture, with its reason."""


class PeopleFinder:
    """Finds the people in pictures; several threads may ask if the stages allow it.

    Args:
        stage: gives boxes of faces or persons (see `perception.boxes`).
        weights: where its networks are found.
        smallest: a box counts as a person if it has at least this share of the area of the largest one.

    Raises:
        ConfigError, MissingExtraError, WeightsError: it cannot be loaded.
    """

    def __init__(self, stage: Stage, weights: WeightsLocator, *, smallest: float) -> None:
        self._stage = stage
        self._smallest = smallest
        stages = with_inputs([stage])
        self.threads_may_share = all(each.lanes for each in stages)
        self._functions: list[tuple[Stage, StageFunction]] = [(each, each.load(weights)) for each in stages]

    def boxes(self, *pictures: NDArray[np.uint8]) -> list[Arrays]:
        """The boxes in each picture.

        Raises:
            PeopleError: the stage fails on one of them.
            ConfigError: what it gives are no boxes.
        """
        frames = [Frame(str(number), pixels=pixels) for number, pixels in enumerate(pictures)]
        for stage, function in self._functions:
            for frame, result in zip(frames, _called(stage, function, frames), strict=True):
                if isinstance(result, StageFailure):
                    raise PeopleError(f"{stage.kind}: {result.reason} {result.detail}".strip())
                frame.results[stage] = result
        found = [frame[self._stage] for frame in frames]
        if any("corners" not in each for each in found):
            raise ConfigError(
                f"{self._stage.kind} finds no boxes (accepted: a stage that finds faces or persons, such as "
                "yunet_faces, dlib_hog_faces or yolo_persons)"
            )
        return found

    def people(self, found: Sequence[Arrays]) -> list[NDArray[np.float64]]:
        """The corners of those boxes that count as people, `[person, left top right bottom]` for each picture.

        All pictures are parts of one: the largest box of any is what the others are compared with.
        """
        sizes = [areas(each) for each in found]
        largest = max((float(size.max()) for size in sizes if len(size)), default=0.0)
        return [
            np.asarray(each["corners"], dtype=np.float64)[size >= self._smallest * largest]
            for each, size in zip(found, sizes, strict=True)
        ]


def _called(stage: Stage, function: StageFunction, frames: list[Frame]) -> list[Arrays | StageFailure]:
    step = stage.images_per_call or len(frames)
    results: list[Arrays | StageFailure] = []
    for start in range(0, len(frames), step):
        results += function(frames[start : start + step])
    return results


def where_to_cut(width: int, people: NDArray[np.float64], *, rule: CutRule) -> Cut:
    """Where to cut a picture, so that each half shows one of two people.

    In the middle, as long as that separates them; else, by the rule `between`, halfway between the two, if there
    are exactly two.

    Args:
        width: of the picture in pixels.
        people: their corners, `[person, left top right bottom]`.
        rule: `middle` never cuts elsewhere.
    """
    middle = Cut(width // 2, "middle")
    if rule == "middle" or len(people) != 2:
        return middle
    first, second = people[np.argsort(people[:, 0] + people[:, 2])]
    if first[2] - _EDGE * (first[2] - first[0]) <= middle.at <= second[0] + _EDGE * (second[2] - second[0]):
        return middle
    return Cut(int(np.clip(round((first[2] + second[0]) / 2), 1, width - 1)), "between")


def on_each_side(people: NDArray[np.float64], at: int) -> tuple[int, int]:
    """How many people reach to the left of a cut, and how many to its right, by more than their box's edge."""
    edges = _EDGE * (people[:, 2] - people[:, 0])
    return int((people[:, 0] + edges < at).sum()), int((people[:, 2] - edges > at).sum())
