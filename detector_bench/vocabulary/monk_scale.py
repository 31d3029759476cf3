"""The Monk Skin Tone scale: ten shades from light to dark, and the nearest one to a colour.

The shades are those that Ellis Monk and Google published in 2022 (https://skintone.google), made for people to
point at (Schumann et al. 2023, "Consensus and Subjectivity of Skin Tone Annotation for ML Fairness"). A shade
computed from an image also depends on the light, the camera and the picture's style: it compares images made
alike, and does not say which skin a person has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector_bench.vocabulary.attribute_files import ATTRIBUTES

MONK_SHADES: dict[str, tuple[int, ...]] = {
    each.name: tuple(bytes.fromhex(each.colour.removeprefix("#"))) for each in ATTRIBUTES["skin_tone"].choices
}
"""Red, green and blue (sRGB, 0 to 255), by the class of the attribute `skin_tone`."""

_XYZ_OF_RGB = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = _XYZ_OF_RGB.sum(axis=1)  # D65, so that greys have no hue at all


def lab(colours: ArrayLike) -> NDArray[np.float64]:
    """CIELAB (D65) of sRGB colours.

    Args:
        colours: (..., 3), red, green and blue, 0 to 255, whole numbers or means.

    Returns:
        (..., 3): L* from 0 (black) to 100 (white), a* (green to red), b* (blue to yellow).
    """
    shares = np.asarray(colours, dtype=np.float64) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _XYZ_OF_RGB.T / _WHITE
    x, y, z = np.moveaxis(np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def nearest_shade(colour: ArrayLike) -> str:
    """The Monk shade with the smallest distance in CIELAB (the colour difference of 1976), the lightest of equals.

    Args:
        colour: (3,), red, green and blue, 0 to 255.

    Raises:
        ValueError: the colour is not made of three finite numbers.
    """
    given = np.asarray(colour, dtype=np.float64)
    if given.shape != (3,) or not np.isfinite(given).all():
        raise ValueError(f"a colour is three numbers, red, green and blue; got {colour!r}")
    distances = np.linalg.norm(lab(list(MONK_SHADES.values())) - lab(given), axis=1)
    return list(MONK_SHADES)[int(np.argmin(distances))]
