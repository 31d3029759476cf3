"""A face whose 68 landmarks make its skin countable by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 64, 80


def square_face(x: float = 0, y: float = 0) -> NDArray[np.float32]:
    """Landmarks of an upright face: a jaw of 40 x 40 pixels, its ends at (10, 30) and (50, 30).

    Below the chord are the pixels of columns 11-50 and rows 31-70, since right and bottom edges count. Above it
    lies a semicircle about (30, 30) of radius 20. The eyes are columns 17-22 and 37-42, rows 39-42 (24 pixels
    each), the mouth columns 23-38, rows 56-60 (80 pixels). All of it is moved by x and y.
    """
    points = np.zeros((68, 2), np.float32)
    down = [(10, row) for row in (30, 36, 42, 48, 54, 62)]
    bottom = [(10, 70), (20, 70), (30, 70), (40, 70), (50, 70)]
    points[:17] = [*down, *bottom, *[(50, row) for _, row in reversed(down)]]
    points[36:42] = [(16, 38), (19, 38), (22, 38), (22, 42), (19, 42), (16, 42)]
    points[42:48] = points[36:42] + np.array((20, 0))
    mouth_top = [(22, 55), (26, 55), (29, 55), (31, 55), (34, 55), (36, 55), (38, 55)]
    points[48:60] = [*mouth_top, (38, 60), (34, 60), (30, 60), (26, 60), (22, 60)]
    return points + np.array((x, y), np.float32)


def coloured(colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """An image of one colour, 64 x 80."""
    return np.full((HEIGHT, WIDTH, 3), colour, np.uint8)
