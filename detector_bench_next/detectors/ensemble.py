"""Several detectors that vote on one attribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field, ValidationInfo, model_validator

from detector_bench_next.attributes import Status, built_in
from detector_bench_next.detector import Detector, DetectorField, Frame, Prediction
from detector_bench_next.errors import nearest_hint
from detector_bench_next.registry import register


@register("detector", "ensemble", card={"licence": "those of its members", "source": "its members"})
class Ensemble(Detector):
    """The class that most members predict; each has one vote, and filtering is a vote.

    Filtered as `no_majority` where most filter or the most votes are shared. The score is the winner's share of
    the votes. An image on which a member fails is an error. Stages that members share run once.
    """

    attribute: str = "gender"
    members: tuple[DetectorField, ...] = Field(min_length=2, max_length=50)

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Ensemble:
        known = (info.context or {}).get("attributes") or built_in()
        if self.attribute not in known:
            raise ValueError(f"unknown attribute {self.attribute!r}: {nearest_hint(self.attribute, known)}")
        for member in self.members:
            if self.attribute not in member.attributes:
                raise ValueError(f"members: {member.name!r} does not predict {self.attribute}")
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute that is voted on."""
        return (self.attribute,)

    @property
    def needs_pixels(self) -> bool:  # type: ignore[override]
        """True where a member reads pixels."""
        return any(member.needs_pixels for member in self.members)

    @property
    def needs_image(self) -> bool:  # type: ignore[override]
        """False where no member needs the image."""
        return any(member.needs_image for member in self.members)

    def predict(self, frames: Sequence[Frame]) -> Iterator[Prediction]:
        """See `Detector.predict`."""
        votes: dict[str, list[Prediction]] = {frame.image_id: [] for frame in frames}
        for member in self.members:
            for said in member.predict(frames):
                if said.attribute == self.attribute:
                    votes[said.image_id].append(said)
        for frame in frames:
            own = votes[frame.image_id]
            if failed := next((said for said in own if said.status is Status.ERROR), None):
                yield failed
                continue
            (label, most), *others = Counter(
                said.label if said.status is Status.CLEAR else None for said in own
            ).most_common(2)
            share = most / len(own)
            if label is None or (others and others[0][1] == most):
                yield Prediction.filtered(frame, self.attribute, "no_majority", score=share)
            else:
                yield Prediction.clear(frame, self.attribute, label, score=share)
