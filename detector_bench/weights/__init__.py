"""Weights files: what they are, where they are found, and proof that they are the right ones."""

from detector_bench.weights.catalogue import CATALOGUE, described
from detector_bench.weights.files import Checkpoint, WeightsFile
from detector_bench.weights.locate import Weights, WeightsLocator

__all__ = ["CATALOGUE", "Checkpoint", "Weights", "WeightsFile", "WeightsLocator", "described"]
