"""A trial as a picture: the boxes of every stage, what the classifier saw, and what was said about it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from detector_bench.detector_kit.trial import Pixels, Step, Trial, said
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.boxes import largest
from detector_bench.vocabulary import Status

_SCALE = 2
"""Pixels of the drawing per point, so that its text stays sharp in print."""
_LONGEST, _SHORTEST = 560, 240
"""Sides of the picture in points: larger ones are made smaller; of smaller ones the shorter side grows."""
_PANEL, _MARGIN, _GAP = 400, 16, 6
_INSET = 120
_TEXT, _SMALL, _HEADING = 13, 11, 16
_CROWD = 3
"""Boxes of one stage that are still called by its name."""
_HIGHER = 4
"""Lines above a box that its label may move up."""
_MOST_LINES = 4
"""Of one stage's result."""
_INK, _FAINT, _PAPER = "#1a1a1a", "#5f5f5f", "#ffffff"
# The palette of Okabe and Ito, which the colour-blind can tell apart, without its yellow, which paper swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_OF_STATUS = {Status.CLEAR: "#00684d", Status.FILTERED: "#9a4a00", Status.ERROR: "#b00020"}


def annotated(trial: Trial) -> Image.Image:
    """Draw a trial: on the left the picture with all boxes and landmarks, on the right the steps and the verdict.

    What a network sees is drawn as an inset. A picture that could not be read is a grey field.
    """
    drawn = [*_with_boxes(trial), *_with_landmarks(trial)]
    colours = {step.label: _COLOURS[number % len(_COLOURS)] for number, step in enumerate(drawn)}
    picture = _with_all_boxes(trial, colours)
    lines = list(_lines(trial, colours))
    seen = list(_seen(trial))
    panel_height = sum(line.height for line in lines) + (_GAP + _INSET + 2 * _SMALL if seen else 0)
    height = max(picture.height // _SCALE, panel_height) + 2 * _MARGIN
    width = picture.width // _SCALE + _PANEL + 3 * _MARGIN
    sheet = Image.new("RGB", (width * _SCALE, height * _SCALE), _PAPER)
    sheet.paste(picture, (_MARGIN * _SCALE, _MARGIN * _SCALE))
    draw = ImageDraw.Draw(sheet)
    left, top = picture.width // _SCALE + 2 * _MARGIN, _MARGIN
    for line in lines:
        if line.is_inset_row and seen:
            _draw_insets(sheet, draw, seen, left=left, top=top)
            top += _GAP + _INSET + 2 * _SMALL
        else:
            _write(draw, line, left=left, top=top)
            top += line.height
    return sheet


def write_annotated(trial: Trial, folder: Path) -> Path:
    """Write a trial's picture into a folder, under a name that no other picture there has; where it is.

    Raises:
        DetectorBenchError: the folder cannot be written.
    """
    stem = f"{Path(trial.name).stem}_{trial.detector}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{stem}.png"
        number = 1
        while target.exists():
            number += 1
            target = folder / f"{stem}_{number}.png"
        annotated(trial).save(target, dpi=(72 * _SCALE, 72 * _SCALE))
    except OSError as error:
        raise DetectorBenchError(f"cannot write into {str(folder)!r}: {error.strerror or error}") from error
    return target


class _Line(NamedTuple):
    text: str = ""
    size: int = _TEXT
    colour: str = _INK
    indent: int = 0
    swatch: str = ""
    above: int = 0
    is_inset_row: bool = False

    @property
    def height(self) -> int:
        return 0 if self.is_inset_row else round(self.size * 1.35) + self.above


class _Inset(NamedTuple):
    caption: str
    pixels: Pixels


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * _SCALE)


def _with_boxes(trial: Trial) -> list[Step]:
    """The steps whose boxes are drawn: not those of which another step picks its own."""
    found = [step for step in trial.steps if step.boxes is not None]
    picked_from = {stage for step in found for stage in step.stage.inputs()}
    return [step for step in found if step.stage not in picked_from]


def _with_landmarks(trial: Trial) -> list[Step]:
    """The steps that give points of faces, and no boxes."""
    return [step for step in trial.steps if step.boxes is None and len(step.landmarks)]


def _with_all_boxes(trial: Trial, colours: dict[str, str]) -> Image.Image:
    if trial.pixels is None:
        return Image.new("RGB", (_SHORTEST * _SCALE, _SHORTEST * _SCALE), "#d9d9d9")
    height, width = trial.pixels.shape[:2]
    factor = max(min(_LONGEST / max(height, width), max(1.0, _SHORTEST / min(height, width))), 1e-3) * _SCALE
    size = (max(round(width * factor), 1), max(round(height * factor), 1))
    picture = Image.fromarray(trial.pixels).resize(size, Image.Resampling.LANCZOS)
    draw = ImageDraw.Draw(picture)
    # Labels last, so that no box is drawn over one.
    for step in _with_boxes(trial):
        _draw_boxes(draw, step, factor=factor, colour=colours[step.label])
    for step in _with_landmarks(trial):
        _draw_landmarks(draw, step, factor=factor, colour=colours[step.label])
    taken: list[tuple[float, float, float, float]] = []
    # Of a crowd the scores alone: names would hide the faces, and stand beside the colours on the right.
    is_crowd = max((len((step.boxes or {})["scores"]) for step in _with_boxes(trial)), default=0) > _CROWD
    for step in _with_boxes(trial):
        named = "" if is_crowd else f"{step.label} "
        _label_boxes(draw, step, factor=factor, colour=colours[step.label], named=named, taken=taken)
    return picture


def _draw_boxes(draw: ImageDraw.ImageDraw, step: Step, *, factor: float, colour: str) -> None:
    found = step.boxes or {}
    main = largest(found)
    for number, corners in enumerate(found["corners"]):
        left, top, right, bottom = (float(value) * factor for value in corners)
        draw.rectangle(
            (left, top, max(right, left + 1), max(bottom, top + 1)),
            outline=colour,
            width=(3 if number == main else 1) * _SCALE,
        )
    _draw_landmarks(draw, step, factor=factor, colour=colour)


def _draw_landmarks(draw: ImageDraw.ImageDraw, step: Step, *, factor: float, colour: str) -> None:
    radius = 2 * _SCALE
    for x, y in (float(factor) * np.asarray(step.landmarks, np.float64)).reshape(-1, 2):
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline=_PAPER)


def _label_boxes(
    draw: ImageDraw.ImageDraw,
    step: Step,
    *,
    factor: float,
    colour: str,
    named: str,
    taken: list[tuple[float, float, float, float]],
) -> None:
    found = step.boxes or {}
    edge = draw.im.size
    for corners, score in zip(found["corners"], found["scores"], strict=True):
        text = f"{named}{float(score):.2f}"
        width = draw.textlength(text, font=_font(_SMALL)) + 6 * _SCALE
        height = (_SMALL + 5) * _SCALE
        left = min(max(float(corners[0]) * factor, 0), max(edge[0] - width, 0))
        top = min(max(float(corners[1]) * factor - height, 0), edge[1] - height)
        # Above the box where there is room, since below its edge lies what it is about.
        higher = (top - each * height for each in range(_HIGHER) if top - each * height >= 0)
        lower = (top + each * height for each in count(1))
        top = next(
            place
            for place in chain(higher, lower)
            if not any(_overlap((left, place, left + width, place + height), other) for other in taken)
        )
        taken.append((left, top, left + width, top + height))
        draw.rectangle((left, top, left + width, top + height), fill=colour)
        draw.text((left + 3 * _SCALE, top + 1 * _SCALE), text, font=_font(_SMALL), fill=_PAPER)


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _seen(trial: Trial) -> Iterator[_Inset]:
    """What networks saw, each once."""
    shown: list[bytes] = []
    for step in trial.steps:
        for pixels in step.seen or (() if step.chip is None else (step.chip,)):
            if 0 in pixels.shape or (content := pixels.tobytes()) in shown:
                continue
            shown.append(content)
            whole = trial.pixels is not None and pixels.shape == trial.pixels.shape
            size = f"{pixels.shape[1]} x {pixels.shape[0]}"
            yield _Inset(f"{step.label} sees {'all of it' if whole else size}", pixels)


def _lines(trial: Trial, colours: dict[str, str]) -> Iterator[_Line]:
    yield _Line(trial.detector, _HEADING)
    size = "" if trial.pixels is None else f", {trial.pixels.shape[1]} x {trial.pixels.shape[0]} pixels"
    yield from _wrapped(f"{Path(trial.name).name}{size}", size=_SMALL, colour=_FAINT)
    for prediction in trial.predictions:
        yield from _wrapped(
            f"{prediction.attribute}: {said(prediction)}",
            size=_HEADING,
            colour=_OF_STATUS[prediction.status],
            above=_GAP,
        )
    yield _Line(is_inset_row=True)  # of no height where nothing was cut out
    for step in trial.steps:
        yield _Line(
            f"{step.label}, {step.milliseconds:.1f} ms",
            colour=_INK,
            swatch=colours.get(step.label, ""),
            above=_GAP,
        )
        lines = list(_wrapped(step.in_short, size=_SMALL, colour=_FAINT, indent=14))
        yield from lines[:_MOST_LINES]
    for name, reason in trial.filters:
        yield from _wrapped(f"filter {name}: {reason or 'keeps it'}", above=_GAP)
    if trial.steps:
        yield _Line(f"{trial.total_milliseconds:.1f} ms in all, without loading", _SMALL, _FAINT, above=_GAP)


def _wrapped(
    text: str, *, size: int = _TEXT, colour: str = _INK, indent: int = 0, above: int = 0
) -> Iterator[_Line]:
    # On average a letter is half as wide as high.
    columns = int((_PANEL - indent) / (size * 0.54))
    for number, line in enumerate(broken_lines(text, columns) or [""]):
        yield _Line(line, size, colour, indent, above=above if number == 0 else 0)


def broken_lines(text: str, columns: int) -> list[str]:
    """A text in lines of so many letters; a size such as `28 x 37` stays in one of them."""
    kept = re.sub(r"(?<=\d) x (?=\d)", "\u00a0x\u00a0", text)
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(kept, columns)]


def _write(draw: ImageDraw.ImageDraw, line: _Line, *, left: int, top: int) -> None:
    x, y = (left + line.indent) * _SCALE, (top + line.above) * _SCALE
    if line.swatch:
        side = (line.size - 2) * _SCALE
        draw.rectangle((x, y + 2 * _SCALE, x + side, y + 2 * _SCALE + side), fill=line.swatch)
        x += side + 5 * _SCALE
    draw.text((x, y), line.text, font=_font(line.size), fill=line.colour)


def _draw_insets(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, seen: Sequence[_Inset], *, left: int, top: int
) -> None:
    for number, each in enumerate(seen[: _PANEL // (_INSET + _GAP)]):
        x, y = (left + number * (_INSET + _GAP)) * _SCALE, (top + _GAP) * _SCALE
        inset = Image.fromarray(np.ascontiguousarray(each.pixels))
        factor = _INSET * _SCALE / max(inset.size)
        inset = inset.resize([max(round(side * factor), 1) for side in inset.size], Image.Resampling.BICUBIC)
        sheet.paste(inset, (x, y))
        draw.rectangle((x, y, x + inset.width - 1, y + inset.height - 1), outline=_FAINT)
        for row, text in enumerate(broken_lines(each.caption, int(_INSET / (_SMALL * 0.5)))[:2]):
            draw.text((x, y + (_INSET + row * _SMALL) * _SCALE), text, font=_font(_SMALL - 1), fill=_FAINT)
