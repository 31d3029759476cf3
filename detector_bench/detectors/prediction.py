"""What a detector says about one attribute of one image."""

from __future__ import annotations

from dataclasses import dataclass

from detector_bench.perception.stage import Frame
from detector_bench.vocabulary import Status


@dataclass(frozen=True, slots=True)
class Prediction:
    """One verdict. Made with `Prediction.clear` or `Prediction.filtered`; the runner adds the errors.

    Attributes:
        image_id: the image.
        attribute: what was judged: gender, age, race or skin_tone.
        status: clear, filtered or error: three different things.
        reason: why it was filtered, or what went wrong: one word in snake_case, after a colon the detail.
        label: the class that a clear image shows.
        score: the detector's probability of that label, in [0, 1].
        value: a measured number, as age in years.
        raw: an answer before it was parsed.
    """

    image_id: str
    attribute: str
    status: Status
    reason: str | None = None
    label: str | None = None
    score: float | None = None
    value: float | None = None
    raw: str | None = None

    @classmethod
    def clear(
        cls,
        frame: Frame,
        attribute: str,
        label: str,
        *,
        score: float | None = None,
        value: float | None = None,
        raw: str | None = None,
    ) -> Prediction:
        """The image can be judged, and shows `label`."""
        return cls(frame.image_id, attribute, Status.CLEAR, label=label, score=score, value=value, raw=raw)

    @classmethod
    def filtered(
        cls, frame: Frame, attribute: str, reason: str, *, score: float | None = None, raw: str | None = None
    ) -> Prediction:
        """The detector throws the image out, and says why: `no_face`, `several_people`, `uncertain`."""
        return cls(frame.image_id, attribute, Status.FILTERED, reason=reason, score=score, raw=raw)

    @classmethod
    def error(cls, image_id: str, attribute: str, reason: str) -> Prediction:
        """No verdict: something went wrong."""
        return cls(image_id, attribute, Status.ERROR, reason=reason)
