"""How services that are sent images are asked, as declarations state it: pace, and form of the images."""

from __future__ import annotations

import io
import json
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.perception.answers.service_requests import Pace
from detector_bench.perception.stage import DESCRIPTIVE

ImageFormat = Literal["jpeg", "png"]
"""PNG is exact; JPEG takes fewer bytes."""


def image_form(settings: ServiceSettings) -> str:
    """In which form images are sent, in words."""
    return "PNG" if settings.image_format == "png" else f"JPEG of quality {settings.jpeg_quality}"


def encoded(
    pixels: NDArray[np.uint8],
    *,
    image_format: ImageFormat,
    jpeg_quality: int,
    size: tuple[int, int] | None = None,
) -> bytes:
    """The content of an image file.

    Args:
        pixels: (height, width, 3), RGB.
        image_format: the kind of file.
        jpeg_quality: 1 to 100; colours keep their full resolution.
        size: width and height to resize to.
    """
    image = Image.fromarray(pixels)
    if size is not None and size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    options: dict[str, Any] = {"quality": jpeg_quality, "subsampling": 0} if image_format == "jpeg" else {}
    stream = io.BytesIO()
    image.save(stream, format=image_format, **options)
    return stream.getvalue()


class PaceSettings(Declaration):
    """How often and how patiently a service is asked, which changes no answer."""

    requests_per_second: float = Field(default=10.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """The most requests that are sent in a second."""
    retries: int = Field(default=5, ge=0, json_schema_extra=DESCRIPTIVE)
    """Further attempts while the service is busy, failing or out of reach."""
    timeout: float = Field(default=120.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds without a sign of life after which an attempt is given up."""
    deadline: float = Field(default=600.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which an attempt is given up, also if a byte comes now and then."""
    first_wait: float = Field(default=1.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds before the first retry; each further wait is twice as long, plus a random part."""
    longest_wait: float = Field(default=120.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds; waits grow no further."""

    @property
    def pace(self) -> Pace:
        """How often and how patiently the service is asked."""
        return Pace(**{name: getattr(self, name) for name in Pace.__dataclass_fields__})


class ServiceSettings(PaceSettings):
    """How a service that takes images is asked: the form of the images, and the pace.

    Declarations that differ only in what changes no answer are equal: they share answers that are paid for.
    """

    image_format: ImageFormat = "jpeg"
    """PNG is exact; JPEG takes fewer bytes."""
    jpeg_quality: int = Field(default=95, ge=1, le=100)
    """1 to 100; colours keep their full resolution."""

    @property
    def costs_money(self) -> bool:
        """Whether answers may cost money; what declares no better may."""
        return True

    def lacks_for_budget(self) -> str | None:
        """What has to be set before a budget can hold; None: nothing."""
        return "does not say what its answers cost" if self.costs_money else None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._decisive() == other._decisive()

    def __hash__(self) -> int:
        return hash(self._decisive())

    def _decisive(self) -> str:
        fields = type(self).model_fields
        pace = {name for name, field in fields.items() if field.json_schema_extra == DESCRIPTIVE}
        alike = {name for name, value in self if isinstance(value, ServiceSettings)}
        own = self.model_dump(exclude=pace | alike)
        return json.dumps([own, *(getattr(self, name)._decisive() for name in sorted(alike))], sort_keys=True)
