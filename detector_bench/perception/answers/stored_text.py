"""Text in a stage's result, which holds arrays of numbers only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def text_array(text: str) -> NDArray[np.uint8]:
    """The text in UTF-8, shape (bytes,).

    Half of a surrogate pair, which no UTF-8 can hold, becomes a question mark.
    """
    return np.frombuffer(text.encode(errors="replace"), np.uint8)


def text_in(array: NDArray[np.uint8]) -> str:
    """The text that `text_array` was given."""
    return np.asarray(array, np.uint8).tobytes().decode()
