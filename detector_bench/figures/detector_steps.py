"""How every detector of a study comes to its verdict on one image (Lyu 2025, figure 2).

The detectors are run on that one image again, so their weights have to be on this machine; a service is not asked.
What cannot be run is said in its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.dataset.image_sources import ImageSources
from detector_bench.detector_kit.annotated_picture import broken_lines
from detector_bench.detector_kit.trial import Trial, TryOut, said
from detector_bench.detectors.base import build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.figures.drawing import (
    BLUE,
    GREEN,
    INCHES,
    ORANGE,
    PURPLE,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    VERMILLION,
    Drawing,
    Width,
    caption,
    new_figure,
    shortened,
)
from detector_bench.perception.stage import with_inputs
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study_file import resolve_detector
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE)
_ROW, _HEAD, _SIDE = 1.02, 0.24, 0.94
_LEFT = (0.05, 1.07, 2.09)
"""Where the parts of a row begin, in inches: image with boxes, what the classifier sees, words."""
_LETTERS = 0.052
"""Inches of a small letter, on average."""
_ACROSS: dict[Width, int] = {"single": 1, "double": 2}
"""Detectors beside each other."""
_MOST_DEEP = 8


class _Row(NamedTuple):
    detector: str
    trial: Trial | None
    why_not: str


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a row for each detector: boxes on the image, what its classifier sees, its filters and its verdict.

    The image is the one on which the detectors' stored verdicts differ most, the first of equals.

    Raises:
        DetectorBenchError: image set or predictions are not there, or the image cannot be read.
    """
    image, rows = study.once("detector steps", lambda: _tried(study))
    shown = rows[: _MOST_DEEP * _ACROSS[width]]
    across = _ACROSS[width]
    deep = -(-len(shown) // across)
    figure = new_figure(width, height=_HEAD + deep * _ROW)
    figure.set_layout_engine("none")  # every part has its place in inches
    room = INCHES[width] / across
    for number, row in enumerate(shown):
        block, place_in_block = divmod(number, deep)
        axes = [
            _placed(figure, left=block * room + left, top=_HEAD + place_in_block * _ROW, width=wide)
            for left, wide in zip(_LEFT, (_SIDE, _SIDE, room - _LEFT[-1]), strict=True)
        ]
        _draw_row(axes, row, attribute=study.attribute, inches=room - _LEFT[-1])
        if place_in_block == 0:
            for each, heading in zip(axes, ("boxes", "classifier sees", "steps and verdict"), strict=True):
                each.set_title(heading, fontsize=SMALL_TEXT_SIZE, loc="left")
    return Drawing(
        figure,
        caption(
            f"Steps of {len(shown)} detectors on the image {image}: boxes of each stage, what the classifier "
            "sees, what each filter says, and the verdict.",
            f"{len(rows) - len(shown)} further detectors are not shown." if len(rows) > len(shown) else "",
            "The image is the one on which the stored verdicts differ most.",
            attribute=study.attribute,
        ),
    )


def _placed(figure: Figure, *, left: float, top: float, width: float) -> Axes:
    """A part of a row, in inches from the left upper corner."""
    whole, height = figure.get_size_inches()
    axes = figure.add_axes((left / whole, 1 - (top + _SIDE) / height, width / whole, _SIDE / height))
    axes.axis("off")
    axes.set_anchor("NW")
    return axes


def _tried(study: FinishedStudy) -> tuple[str, list[_Row]]:
    images = study.image_set
    image = _most_disputed(study)
    path = images.images.set_index("image_id")["path"][image]
    try:
        pixels = decode_image(ImageSources(images.root).read(str(path)))
    except ImageError as error:
        raise DetectorBenchError(f"the image {image!r} cannot be read, and the steps need it: {error}") from error
    entries = {str(each.get("name")): each for each in study.results.study.get("detectors", [])}
    rows = []
    for name in study.detectors:
        try:
            rows.append(_Row(name, _trial(name, entries.get(name, {}), pixels, image, folder=study.folder), ""))
        except DetectorBenchError as error:
            rows.append(_Row(name, None, " ".join(str(error).split())))
    return image, rows


def _most_disputed(study: FinishedStudy) -> str:
    """The image with the most different verdicts, errors apart."""
    verdicts = []
    for table in study.predictions.values():
        frame = table.select(["image_id", "attribute", "status", "label"]).to_pandas()
        frame = frame[(frame["attribute"] == study.attribute) & (frame["status"] != Status.ERROR.value)]
        clear = frame["status"] == Status.CLEAR.value
        verdicts.append(frame[["image_id"]].assign(verdict=np.where(clear, frame["label"], "filtered")))
    if not any(len(each) for each in verdicts):
        raise DetectorBenchError("no detector has a verdict on any image: there are no steps to be drawn")
    several = pd.concat(verdicts).groupby("image_id", sort=True)["verdict"].nunique()
    return str(several.index[int(np.argmax(several.to_numpy()))])


def _trial(name: str, entry: Mapping[str, Any], pixels: Any, image: str, *, folder: Path) -> Trial:
    full = resolve_detector(dict(entry), folder=folder, place=f"detector {name!r}")
    detector = build_detector(full["kind"], name=name, parameters=full["parameters"])
    if any(stage.sends() for stage in with_inputs(detector.stages)):
        raise DetectorBenchError("asks a service, which a figure does not pay for or send images to")
    with TryOut(detector, weights=WeightsLocator.from_environment(allow_download=False)) as trying:
        return trying.pixels(pixels, name=image)


def _draw_row(axes: Any, row: _Row, *, attribute: str, inches: float) -> None:
    picture, seen, words = axes
    lines = [(row.detector, True)]
    if row.trial is None:
        lines += [(line, False) for line in broken_lines(f"not run: {row.why_not}", int(inches / _LETTERS))[:4]]
    else:
        _draw_boxes(picture, row.trial)
        _draw_seen(seen, row.trial)
        lines += _steps_in_words(row.trial, attribute, letters=int(inches / _LETTERS))
    for number, (line, strong) in enumerate(lines[:8]):
        words.text(
            0,
            1 - number * 0.13,
            shortened(line, inches=inches, size=TEXT_SIZE) if strong else line,
            transform=words.transAxes,
            va="top",
            size=TEXT_SIZE if strong else SMALL_TEXT_SIZE,
            weight="bold" if strong else "normal",
        )


def _draw_boxes(axes: Axes, trial: Trial) -> None:
    from matplotlib.patches import Rectangle

    if trial.pixels is not None:
        axes.imshow(trial.pixels, interpolation="antialiased")
    with_boxes = [step for step in trial.steps if step.boxes is not None]
    # A view of another stage's boxes is drawn, and not the stage that it picks from.
    sources = {stage for step in with_boxes for stage in step.stage.inputs()}
    for number, step in enumerate(step for step in with_boxes if step.stage not in sources):
        for left, top, right, bottom in (step.boxes or {})["corners"]:
            colour = _COLOURS[number % len(_COLOURS)]
            axes.add_patch(
                Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=colour, linewidth=1.0)
            )


def _draw_seen(axes: Axes, trial: Trial) -> None:
    seen = [each for step in trial.steps for each in (*step.seen, *([step.chip] if step.chip is not None else []))]
    if seen:
        axes.imshow(seen[-1], interpolation="antialiased")


def _steps_in_words(trial: Trial, attribute: str, *, letters: int) -> list[tuple[str, bool]]:
    """Boxes found, what each filter says, and the verdict."""
    with_boxes = [step for step in trial.steps if step.boxes is not None]
    sources = {stage for step in with_boxes for stage in step.stage.inputs()}
    found = [
        f"{step.label}: {_boxes_in_words(len((step.boxes or {})['scores']))}"
        for step in with_boxes
        if step.stage not in sources
    ]
    # Of `face (yunet_faces)` the stage is said already.
    found += [
        f"filter {name.split(' (')[0]}: {(reason or 'keeps it').replace('_', ' ')}"
        for name, reason in trial.filters
    ]
    verdicts = [said(each) for each in trial.predictions if each.attribute == attribute]
    lines = [(line, False) for text in found for line in broken_lines(text, letters)[:2]]
    strong = [
        (line, True)
        for each in verdicts
        for line in broken_lines(f"→ {each.replace('_', ' ')}", int(letters * SMALL_TEXT_SIZE / TEXT_SIZE))
    ]
    return [*lines[: 8 - len(strong) - 1], *strong]


def _boxes_in_words(number: int) -> str:
    return {0: "no box", 1: "1 box"}.get(number, f"{number} boxes")
