"""Where the labels of points stand so that none covers another; the same points give the same places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle by its centre and half its size."""

    x: float
    y: float
    half_width: float
    half_height: float

    def overlap(self, other: Box) -> float:
        """Area that two rectangles share; 0 if they only touch."""
        width = self.half_width + other.half_width - abs(self.x - other.x)
        height = self.half_height + other.half_height - abs(self.y - other.y)
        return max(width, 0.0) * max(height, 0.0)

    def outside(self, width: float, height: float) -> float:
        """How far it sticks out of the rectangle from (0, 0) to (width, height)."""
        return (
            max(0.0, self.half_width - self.x)
            + max(0.0, self.x + self.half_width - width)
            + max(0.0, self.half_height - self.y)
            + max(0.0, self.y + self.half_height - height)
        )


_DIRECTIONS = 16
_DOUBT = 1e-4
"""What it costs to stand nearer to another point than to one's own: less than to cover anything."""

_BAR = 2e-4
"""What it costs to cover an interval."""

_GAPS = (0.0, 0.4, 0.8, 1.3, 1.9, 2.6, 3.4, 4.4, 5.6, 7.0, 9.0)
"""Between a point and its label, in heights of the label."""


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    *,
    width: float,
    height: float,
    clearance: float,
    bars: Sequence[Box] = (),
) -> list[tuple[float, float]]:
    """Choose the centre of each point's label.

    Labels are placed one by one, the most crowded point first, each at the nearest of 176 places around its point
    that covers no point, no label and no edge of the area, and is nearer to its own point than to others; where
    there is none, at the one with the least of these faults, covering being the worst.

    Args:
        points: x and y of each point, in any unit of length.
        sizes: width and height of each label, in the same unit.
        width: of the area, from x = 0.
        height: of the area, from y = 0.
        clearance: radius of a point's mark, with some air.
        bars: what a label had better not cover, such as intervals; it does if there is no other place nearby.

    Returns:
        x and y of each label's centre, in the order of the points.
    """
    marks = [Box(x, y, clearance, clearance) for x, y in points]
    placed: dict[int, Box] = {}
    for index in sorted(range(len(points)), key=lambda each: (-_crowd(points, each), points[each], each)):
        (x, y), (label_width, label_height) = points[index], sizes[index]
        best: tuple[float, Box] | None = None
        for gap in _GAPS:
            for direction in range(_DIRECTIONS):
                # The first choice is above and to the right.
                angle = math.pi / 4 + 2 * math.pi * direction / _DIRECTIONS
                across, up = math.cos(angle), math.sin(angle)
                # On the sides of a rectangle, so that a label without a gap just touches the mark.
                reach = 1 / max(abs(across), abs(up))
                candidate = Box(
                    x + across * (reach * (clearance + label_width / 2) + gap * label_height),
                    y + up * (reach * (clearance + label_height / 2) + gap * label_height),
                    label_width / 2,
                    label_height / 2,
                )
                cost = 1000 * candidate.outside(width, height)
                cost += sum(candidate.overlap(mark) for mark in marks)
                cost += 3 * sum(candidate.overlap(other) for other in placed.values())
                cost += _BAR * sum(candidate.overlap(bar) > 0 for bar in bars)
                cost += _DOUBT * sum(_nearer(candidate, other, to=(x, y)) for other in points)
                if best is None or cost < best[0] - 1e-12:
                    best = (cost, candidate)
            if best is not None and best[0] <= 1e-12:
                break
        assert best is not None  # noqa: S101 - there is always a candidate
        placed[index] = best[1]
    return [(placed[index].x, placed[index].y) for index in range(len(points))]


def _nearer(label: Box, other: tuple[float, float], *, to: tuple[float, float]) -> bool:
    """Whether a label's centre lies nearer to another point than to its own."""
    own = math.dist((label.x, label.y), to)
    return other != to and math.dist((label.x, label.y), other) < own


def _crowd(points: Sequence[tuple[float, float]], index: int) -> float:
    """How crowded it is around a point: the sum over all points of 1 / (1 + distance)."""
    return math.fsum(1 / (1 + math.dist(points[index], other)) for other in points)
