"""How an image that was made becomes a file: checked, encoded, and given its name last."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.atomic_files import remove
from detector_bench.dataset.decoding import ImageError, decode_image, image_format
from detector_bench.errors import DetectorBenchError
from detector_bench.generation.image_requests import Blocked, Failed, Made, Outcome
from detector_bench.generation.t2i_models import LoadedT2IModel, ModelRecord, T2IModel

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp"}
"""Of the formats that an image set gets, by Pillow's name."""

_AS_THEY_ARE = ("RGB", "L", "RGBA", "LA", "P", "1", "I;16")
"""Modes of Pillow that a PNG holds."""
_NO_RANGE = ("F", "I")
_TEXTS = ("reason", "revised_prompt", "prompt_cut")
_LONGEST_SHOWN = 200

BLACK = "black_image: every pixel is black, as safety checkers leave an image"
"""Why an image without anything on it is none."""


class ImageContent(NamedTuple):
    """The content of an image's file."""

    content: bytes
    suffix: str

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()


def record_of(loaded: LoadedT2IModel, model: T2IModel) -> ModelRecord:
    """What is known of a T2I model, with the version of Pillow where it makes images on this machine: it reads the
    photos that are edited, and what it writes hangs on its version."""
    import PIL

    if any(True for _ in model.sends()):
        return loaded.record
    return replace(loaded.record, versions={**loaded.record.versions, "pillow": PIL.__version__})


def png_of(image: Image) -> bytes:
    """Pixels as the content of a PNG file; the same pixels give the same bytes with the same version of Pillow."""
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def checked(outcome: Outcome, *, may_cost: bool) -> Outcome:
    """An outcome whose image is one that detectors will take; else what it is instead.

    Bytes that hold no image are a failure, and an image that is black all over is one that a safety checker has
    taken away.

    Args:
        outcome: as the T2I model gave it.
        may_cost: whether an image that is none may have been charged for.
    """
    if (mistake := _mistake(outcome)) is not None:
        return Failed(reason=f"the T2I model gave {mistake}", seconds=0.0, may_have_been_paid=may_cost)
    outcome = _with_whole_letters(outcome)
    if not isinstance(outcome, Made):
        return outcome
    if not isinstance(outcome.content, bytes):
        return _checked_pixels(outcome, outcome.content, may_cost=may_cost)
    return _checked_file(outcome, outcome.content, may_cost=may_cost)


def _checked_file(outcome: Made, content: bytes, *, may_cost: bool) -> Outcome:
    try:
        found = image_format(content)
        pixels = decode_image(content)
    except ImageError as error:
        reason = f"what came is no image: {error}"
        return Failed(reason=reason, seconds=outcome.seconds, may_have_been_paid=may_cost, cost=outcome.cost)
    if found not in SUFFIXES:
        reason = f"what came is a {found} image (accepted: {', '.join(SUFFIXES)})"
        return Failed(reason=reason, seconds=outcome.seconds, may_have_been_paid=may_cost, cost=outcome.cost)
    return outcome if pixels.any() else _blocked(outcome)


def _checked_pixels(outcome: Made, image: Image, *, may_cost: bool) -> Outcome:
    mode = getattr(image, "mode", None)
    if mode is None or mode in _NO_RANGE:
        what = _named(image) if mode is None else f"pixels of Pillow's mode {mode}, which have no defined range,"
        reason = f"the T2I model gave {what} as an image (accepted: bytes, or an image of Pillow such as RGB)"
        return Failed(reason=reason, seconds=outcome.seconds, may_have_been_paid=may_cost, cost=outcome.cost)
    if mode not in _AS_THEY_ARE:
        image = image.convert("RGB")
        outcome = replace(outcome, content=image)
    # What is transparent is what detectors will see there, not what lies below.
    is_black = image.getbbox() is None if image.mode in ("RGB", "L") else not decode_image(png_of(image)).any()
    return _blocked(outcome) if is_black else outcome


def _mistake(outcome: object) -> str | None:
    """What a T2I model gave that is no outcome, or what of one no table can hold; None: nothing."""
    if not isinstance(outcome, Outcome):
        return f"{_named(outcome)} (accepted: Made, Blocked, Failed, Waiting)"
    for name in ("seconds", "cost"):
        value = getattr(outcome, name, None)
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            return f"{name} that are no number from 0: {value!r}"
    for name in _TEXTS:
        value = getattr(outcome, name, None)
        if value is not None and not isinstance(value, str):
            return f"a {name} that is no text: {value!r}"[:_LONGEST_SHOWN]
    parameters = getattr(outcome, "parameters", {})
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        return f"parameters that are no values by name: {parameters!r}"[:_LONGEST_SHOWN]
    return None


def _with_whole_letters(outcome: Outcome) -> Outcome:
    """Without halves of letters, which JSON can hold and no file can."""
    found: dict[str, Any] = {name: getattr(outcome, name, None) for name in _TEXTS}
    whole = {name: text.encode(errors="replace").decode() for name, text in found.items() if text is not None}
    return replace(outcome, **whole) if any(whole[name] != found[name] for name in whole) else outcome


def _named(found: object) -> str:
    return "nothing" if found is None else f"a {type(found).__name__}"


def _blocked(outcome: Made) -> Blocked:
    return Blocked(reason=BLACK, seconds=outcome.seconds, revised_prompt=outcome.revised_prompt, cost=outcome.cost)


def image_file(made: Made) -> ImageContent:
    """The file of an image that was `checked`: a service's bytes as they came, or pixels as PNG."""
    if isinstance(made.content, bytes):
        return ImageContent(made.content, SUFFIXES[image_format(made.content)])
    return ImageContent(png_of(made.content), SUFFIXES["PNG"])


class PlacedFile:
    """A file on its way to its name: written beside it first, and renamed once the journal knows of it.

    Args:
        path: where it is to lie.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.partial")

    def write(self, content: bytes) -> None:
        """Write the content beside the name; it is on the disk when this returns.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        try:
            try:
                stream = self._partial.open("wb")
            except FileNotFoundError:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                stream = self._partial.open("wb")
            with stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def name(self) -> None:
        """Give it its name.

        Raises:
            DetectorBenchError: the disk is read-only or the like.
        """
        self._name(self._partial)

    def _name(self, file: Path) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def is_written(self) -> bool:
        """Whether it lies there, under its name or on its way to it."""
        return self.path.is_file() or self._partial.is_file()

    def recover(self, sha256: str | None, aside: Path) -> bool:
        """Bring together what a process left behind that died in between.

        Args:
            sha256: of the content that the journal knows of.
            aside: where the file may have been moved to, without the journal knowing of it.

        Returns:
            Whether the file lies there now.
        """
        if self.path.is_file():
            return True
        for left in (self._partial, aside):
            try:
                content = left.read_bytes()
            except OSError:
                continue
            if hashlib.sha256(content).hexdigest() == sha256:
                self._name(left)
                return True
        remove(self._partial)
        return False

    def _unwritable(self, error: OSError) -> DetectorBenchError:
        return DetectorBenchError(
            f"cannot write {str(self.path)!r} ({error.strerror or error}); all images before it are kept: make "
            "room, and run the same command again"
        )
