"""A plugin: a detector that keeps one core busy for some 15 ms an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from detector_bench.detectors import Prediction, detector
from detector_bench.perception.stage import STAGES, Arrays, Batch, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator

_SIZE = 256
_PRODUCTS = 15


class Products(Stage):
    """The sum of a product of matrices that the first pixel begins: `sum`, shape (1,)."""

    kind: ClassVar[str] = "benchmark_products"

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Makes the matrix."""
        matrix = np.random.default_rng(1).normal(size=(_SIZE, _SIZE)) / _SIZE

        def multiply(frames: Sequence[Frame]) -> list[Arrays]:
            results: list[Arrays] = []
            for frame in frames:
                product = matrix * (1 + int(frame.pixels[0, 0, 0]))
                for _ in range(_PRODUCTS):
                    product = product @ matrix
                results.append({"sum": product.sum(keepdims=True)[0]})
            return results

        return multiply


if Products.kind not in STAGES:
    STAGES.register(Products.kind, Products)


@detector("benchmark-one-thread", attributes=["gender"], stages=[Products()])
class OneThreadDetector:
    """Calls images with a positive sum female."""

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge by the sum's sign."""
        for frame in batch:
            positive = float(frame[Products()]["sum"][0]) > 0
            yield Prediction.clear(frame, "gender", "female" if positive else "male")
