"""Low-quality images by what keeps people from judging them (Lyu 2025, figure 1)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import DISAGREEMENT
from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.dataset.image_sources import ImageSources
from detector_bench.errors import DetectorBenchError
from detector_bench.figures.drawing import (
    INCHES,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    shortened,
)
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.vocabulary import LOW_QUALITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXAMPLES = 3
"""Of each reason."""

_COLUMNS: dict[Width, int] = {"single": 3, "double": 6}
_SIDE = 360
"""Longer side of an example in pixels: 300 dpi at more than an inch."""
_WORDS = {DISAGREEMENT: "disagreement", "": "no reason given"}
_HEAD, _FOOT, _GAP, _LARGEST = 0.24, 0.17, 0.08, 1.5
_FEW_REASONS = 2


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw examples of the most frequent reasons, a column each, from as many T2I models as there are.

    The label and its reason are the annotators' consensus: an image on which they disagree is low-quality, too.

    Raises:
        DetectorBenchError: no image is low-quality, or none can be read.
    """
    images = study.image_set
    of_reason = _by_reason(images, study.attribute)
    total = sum(len(rows) for rows in of_reason.values())
    if not total:
        raise DetectorBenchError(
            f"no image of this study is low-quality for {study.perceived}: no examples of them"
        )
    shown = dict(list(of_reason.items())[: _COLUMNS[width]])
    examples = study.once(f"low-quality examples {width}", lambda: _read(images, shown))
    if not any(examples.values()):
        raise DetectorBenchError(
            f"no low-quality image can be read from {str(images.root)!r}: examples of them need the images"
        )
    # Of one or two reasons the examples stand beside each other, of more below each other.
    in_rows = len(examples) <= _FEW_REASONS
    most = max(len(each) for each in examples.values())
    across, deep = (most, len(examples)) if in_rows else (len(examples), most)
    side = min((INCHES[width] - _GAP) / across, _LARGEST) - _GAP
    step = side + _FOOT + (_HEAD if in_rows else 0)
    figure = new_figure(width, height=_HEAD + deep * step)
    figure.set_layout_engine("none")  # every part has its place in inches
    for column, (reason, found) in enumerate(examples.items()):
        for row, (pixels, about) in enumerate(found):
            right, down = (row, column) if in_rows else (column, row)
            left, top = _GAP + right * (side + _GAP), _HEAD + down * step
            axes = _placed(figure, left=left, top=top, side=side)
            _draw_example(axes, pixels, about, inches=side)
            if row == 0:
                heading = f"{_in_words(reason)} ({len(of_reason[reason]):,})"
                heading = shortened(heading, inches=side, size=TEXT_SIZE)
                axes.set_title(heading, fontsize=TEXT_SIZE, loc="left")
    hidden = total - sum(len(of_reason[reason]) for reason in shown)
    counts = ", ".join(f"{_in_words(reason)} {len(of_reason[reason]):,}" for reason in shown)
    return Drawing(
        figure,
        caption(
            f"Examples of low-quality images, by the reason of the annotators' consensus: {counts}"
            f" (of {counted(total, 'low-quality image')} among {len(images.images):,}).",
            f"{counted(hidden, 'image')} with other reasons {'is' if hidden == 1 else 'are'} not shown."
            if hidden
            else "",
            "Disagreement: the annotators gave different labels." if DISAGREEMENT in shown else "",
            "Below each: the prompt's word and, of several, the T2I model. Synthetic images.",
            attribute=study.attribute,
        ),
    )


def _placed(figure: Figure, *, left: float, top: float, side: float) -> Axes:
    """A square, in inches from the left upper corner."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
    axes.axis("off")
    axes.set_anchor("NW")
    return axes


def _by_reason(images: ImageSet, attribute: str) -> dict[str, list[int]]:
    """Rows of the low-quality images, by reason, the most frequent first."""
    truth = images.truth(attribute)
    found: dict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero((truth["label"] == LOW_QUALITY).to_numpy(dtype=bool)):
        found[str(truth["reason"].iloc[row])].append(int(row))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _read(images: ImageSet, of_reason: dict[str, list[int]]) -> dict[str, list[tuple[NDArray[np.uint8], str]]]:
    sources = ImageSources(images.root)
    words = dict(zip(images.prompts["prompt_id"], images.prompts["word"], strict=True))
    table = images.images
    several = len(set(table["t2i_model"])) > 1
    found: dict[str, list[tuple[NDArray[np.uint8], str]]] = {}
    for reason, rows in of_reason.items():
        found[reason] = []
        for row in _turn_by_turn(table, rows):
            try:
                pixels = decode_image(sources.read(str(table["path"].iloc[row])))
            except (ImageError, DetectorBenchError):
                continue
            prompt = str(table["prompt_id"].iloc[row])
            about = str(words.get(prompt) or prompt)
            about += f", {table['t2i_model'].iloc[row]}" if several else ""
            found[reason].append((_smaller(pixels), about))
            if len(found[reason]) == EXAMPLES:
                break
    return found


def _turn_by_turn(table: pd.DataFrame, rows: list[int]) -> list[int]:
    """One image of each T2I model in turn, and of other prompts first, so that examples differ."""
    seen: dict[tuple[str, str], int] = defaultdict(int)
    of_model: dict[str, int] = defaultdict(int)
    turns = []
    for row in rows:
        model, prompt = str(table["t2i_model"].iloc[row]), str(table["prompt_id"].iloc[row])
        turns.append((seen[model, prompt], of_model[model], row))
        seen[model, prompt] += 1
        of_model[model] += 1
    return [row for _, _, row in sorted(turns)]


def _smaller(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    return np.asarray(image)


def _draw_example(axes: Axes, pixels: NDArray[np.uint8], about: str, *, inches: float) -> None:
    axes.imshow(pixels, interpolation="none")
    axes.text(
        0,
        -0.02,
        shortened(about, inches=inches),
        transform=axes.transAxes,
        ha="left",
        va="top",
        size=SMALL_TEXT_SIZE,
    )


def _in_words(reason: str) -> str:
    return _WORDS.get(reason, reason.replace("_", " "))
