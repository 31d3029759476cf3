"""Images from anywhere: what a path may name, and how it is read."""

from detector_bench.dataset.image_sources.image_places import (
    DistantImage,
    ImagePlace,
    LocalImage,
    key_of,
    marks_of,
    read_image,
    readers_for,
    size_of,
)
from detector_bench.dataset.image_sources.places import ContentMark
from detector_bench.dataset.image_sources.sources import ImageSources

__all__ = [
    "ContentMark",
    "DistantImage",
    "ImagePlace",
    "ImageSources",
    "LocalImage",
    "key_of",
    "marks_of",
    "read_image",
    "readers_for",
    "size_of",
]
