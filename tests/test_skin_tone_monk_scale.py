"""The Monk scale: published values, CIELAB against printed and library values, and the nearest shade."""

from __future__ import annotations

import numpy as np
import pytest

from detector_bench.detectors.skin_tone import MONK_SHADES, lab, nearest_shade
from detector_bench.vocabulary import ATTRIBUTES

PUBLISHED = ["f6ede4", "f3e7db", "f7ead0", "eadaba", "d7bd96", "a07e56", "825c43", "604134", "3a312a", "292420"]


def test_the_shades_are_the_classes_with_the_published_colours() -> None:
    assert tuple(MONK_SHADES) == ATTRIBUTES["skin_tone"].classes
    assert [bytes(shade).hex() for shade in MONK_SHADES.values()] == PUBLISHED


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ((0, 0, 0), (0, 0, 0)),
        ((255, 255, 255), (100, 0, 0)),
        # The primaries of sRGB under D65, as colour tables print them.
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
    ],
)
def test_lab_of_known_colours(colour: tuple[int, int, int], expected: tuple[float, float, float]) -> None:
    np.testing.assert_allclose(lab(colour), expected, atol=0.01)


def test_lab_agrees_with_scikit_image() -> None:
    colour = pytest.importorskip("skimage.color")
    some = np.random.default_rng(0).uniform(0, 255, (5, 40, 3))
    some[0] /= 20  # so dark that the curves are straight
    np.testing.assert_allclose(lab(some), colour.rgb2lab(some / 255), atol=0.02)


def test_every_shade_is_nearest_to_itself_and_to_colours_close_by() -> None:
    for name, shade in MONK_SHADES.items():
        assert nearest_shade(shade) == name
        assert nearest_shade(np.subtract(shade, 0.8)) == name


def test_black_and_white_are_nearest_to_the_ends() -> None:
    assert nearest_shade((0, 0, 0)) == "monk_10"
    assert nearest_shade((255, 255, 255)) == "monk_01"


def test_distance_is_taken_in_lab_and_not_in_rgb() -> None:
    # In red, green and blue, shade 8 is 49 away (13, 38, 28) and shade 6 is 84 (51, 23, 62). In CIELAB the colour
    # is (42.8, -7.4, 42.5): 25 from shade 6 (55.1, 7.8, 26.7), 37 from shade 8 (30.7, 11.7, 13.3).
    assert nearest_shade((109, 103, 24)) == "monk_06"


@pytest.mark.parametrize("colour", [(1, 2), (1, 2, float("nan")), [[1, 2, 3]]])
def test_what_is_no_colour_is_refused(colour: object) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        nearest_shade(colour)  # type: ignore[arg-type]
