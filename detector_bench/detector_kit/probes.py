"""Pictures of a kind that detectors stumble over, and what a detector makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from io import BytesIO
from typing import NamedTuple

import numpy as np
from PIL import Image
from PIL.ExifTags import Base as ExifTag

from detector_bench.conformance.comparison import Pixels, Session, prediction_difference
from detector_bench.dataset.decoding import decode_image
from detector_bench.detector_kit.trial import said
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.vocabulary import Status

_SIDE = 320
_NOISE_SEED = 1
_SURER = 0.02
"""By how much more sure a detector has to be of swapped colours before it is told."""


class CheckOutcome(StrEnum):
    """What came of one check."""

    PASSED = "passed"
    TOLD = "told"
    """Nothing is wrong; whoever uses the detector should know it."""
    FAILED = "failed"


class CheckLine(NamedTuple):
    """One line of a card: what was checked, what came of it, and what there is to say."""

    check: str
    outcome: CheckOutcome
    says: str
    details: tuple[str, ...] = ()


Verdicts = Mapping[str, Prediction]
"""One picture's, by attribute."""


class Probes:
    """Asks a detector about pictures made for it.

    Args:
        session: the detector, loaded.
        detector: the same.
        pictures: such as it is meant for, (height, width, 3), RGB.
        tolerance: how far numbers of equal verdicts may differ, see `conformance.DEFAULT_TOLERANCE`.
    """

    def __init__(
        self, session: Session, detector: Detector, pictures: Sequence[Pixels], *, tolerance: float
    ) -> None:
        self._session = session
        self._detector = detector
        self._pictures = pictures
        self._tolerance = tolerance
        self._found = [self._verdicts(each) for each in pictures]
        clear = [at for at, found in enumerate(self._found) if _is_clear(found)]
        # One that is judged shows more than one that is filtered.
        self._subject = pictures[clear[0] if clear else 0]

    def lines(self) -> Iterator[CheckLine]:
        """All probes, one line each."""
        yield self._colour_order()
        yield from self._stored_otherwise()
        yield self._survives("a grey picture", _grey(self._subject))
        yield self._survives("a picture of one pixel", self._subject[:1, :1])
        yield self._survives("a picture of 2,000 x 8 pixels", _stretched(self._subject, 8, 2000))
        yield self._survives("a picture of 8 x 2,000 pixels", _stretched(self._subject, 2000, 8))
        yield self._nobody("a blank picture", np.full((_SIDE, _SIDE, 3), 255, np.uint8))
        noise = np.random.default_rng(_NOISE_SEED).integers(0, 256, (_SIDE, _SIDE, 3), np.uint8)
        yield self._nobody(f"noise (seed {_NOISE_SEED})", noise)

    def _verdicts(self, pixels: Pixels) -> Verdicts:
        pixels = np.ascontiguousarray(pixels)
        found = self._session.observe({"picture": pixels}, [["picture"]])
        return {attribute: prediction for (_, attribute), prediction in found.predictions.items()}

    def _colour_order(self) -> CheckLine:
        """A detector that reads blue for red judges the picture with swapped channels as well, or better."""
        check = "red and blue swapped"
        coloured = [at for at, each in enumerate(self._pictures) if np.ptp(each, axis=2).any()]
        was = [self._found[at] for at in coloured]
        now = [self._verdicts(self._pictures[at][..., ::-1]) for at in coloured]
        if not any(self._difference(*pair) for pair in zip(was, now, strict=True)):
            says = f"makes no difference on {len(coloured)} pictures with colours"
            return CheckLine(check, CheckOutcome.TOLD, says)
        (clear, sure), (clear_swapped, sure_swapped) = _sureness(was), _sureness(now)
        numbers = (
            f"{len(coloured)} pictures: {clear} clear, mean score {sure:.3f}; "
            f"swapped {clear_swapped}, {sure_swapped:.3f}"
        )
        if clear_swapped > clear or (clear_swapped == clear and sure_swapped - sure > _SURER):
            says = f"it is surer of swapped pictures: it may read BGR where it is given RGB ({numbers})"
            details = tuple(
                f"picture {at + 1}: {_in_words(one)}; swapped: {_in_words(other)}"
                for at, one, other in zip(coloured, was, now, strict=True)
                if self._difference(one, other) is not None
            )
            return CheckLine(check, CheckOutcome.TOLD, says, details)
        return CheckLine(check, CheckOutcome.PASSED, f"it is not surer of swapped pictures ({numbers})")

    def _stored_otherwise(self) -> Iterator[CheckLine]:
        """The same picture in other files: the verdict is about what a person sees."""
        image, grey = Image.fromarray(self._subject), Image.fromarray(self._subject).convert("L")
        few = image.quantize(256)
        sixteen = Image.fromarray(np.asarray(grey, np.uint16) * np.uint16(257))
        for check, stored, shown in (
            ("stored rotated, with an EXIF orientation", _rotated(image), image),
            ("stored with transparency", image.convert("RGBA"), image),
            ("stored with a palette", few, few.convert("RGB")),
            ("stored in grey", grey, grey.convert("RGB")),
            ("stored in grey of 16 bits", sixteen, grey.convert("RGB")),
        ):
            expected = self._verdicts(np.asarray(shown))
            found = self._verdicts(decode_image(stored if isinstance(stored, bytes) else _png(stored)))
            difference = self._difference(expected, found)
            yield CheckLine(
                check,
                CheckOutcome.FAILED if difference else CheckOutcome.PASSED,
                "another verdict" if difference else "the same verdict",
                (difference,) if difference else (),
            )

    def _survives(self, check: str, pixels: Pixels) -> CheckLine:
        found = self._verdicts(pixels)
        failed = any(each.status is Status.ERROR for each in found.values())
        return CheckLine(check, CheckOutcome.FAILED if failed else CheckOutcome.PASSED, _in_words(found))

    def _nobody(self, check: str, pixels: Pixels) -> CheckLine:
        """A picture of nobody: whether the detector throws it out is for its user to know."""
        line = self._survives(check, pixels)
        if line.outcome is CheckOutcome.FAILED or not _is_clear(self._verdicts(pixels)):
            return line
        return line._replace(outcome=CheckOutcome.TOLD, says=f"judged, though nobody is there: {line.says}")

    def _difference(self, expected: Verdicts, found: Verdicts) -> str | None:
        for attribute, wanted in expected.items():
            given = found.get(attribute)
            says = (
                "no verdict" if given is None else prediction_difference(wanted, given, tolerance=self._tolerance)
            )
            if says is not None:
                return f"{attribute}: {says}"
        return None


def _is_clear(found: Verdicts) -> bool:
    return any(each.status is Status.CLEAR for each in found.values())


def _in_words(found: Verdicts) -> str:
    words = {attribute: said(each) for attribute, each in found.items()}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{attribute} {each}" for attribute, each in words.items())


def _sureness(all_found: Sequence[Verdicts]) -> tuple[int, float]:
    """How many verdicts are clear, and the mean of their scores; 0 where none has one."""
    clear = [each for found in all_found for each in found.values() if each.status is Status.CLEAR]
    scores = [each.score for each in clear if each.score is not None]
    return len(clear), float(np.mean(scores)) if scores else 0.0


def _grey(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).convert("L").convert("RGB"))


def _stretched(pixels: Pixels, height: int, width: int) -> Pixels:
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def _png(image: Image.Image, exif: Image.Exif | None = None) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG", **({} if exif is None else {"exif": exif}))
    return buffer.getvalue()


def _rotated(image: Image.Image) -> bytes:
    """A file whose pixels lie on their side, with the note that says how to turn them back."""
    exif = Image.Exif()
    exif[ExifTag.Orientation] = 6  # to be turned by 90 degrees clockwise
    return _png(image.transpose(Image.Transpose.ROTATE_90), exif)
