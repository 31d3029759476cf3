"""Images from anywhere: what a path may name, and how it is read."""

from detector_bench.dataset.image_sources.places import ContentMark
from detector_bench.dataset.image_sources.sources import ImageSources

__all__ = ["ContentMark", "ImageSources"]
