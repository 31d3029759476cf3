"""By how much each image, or each prompt, moves a metric: what tests between detectors are made of.

A metric's influence function says how its value changes if an image counts a little more. The sum of squared
influences, centred within the prompts, is its variance over other images from the same prompts; the products of
two detectors' influences are the covariance that makes a comparison on the same images so much sharper than one
of two intervals. No resampling is needed, ties stay ties exactly, and many differences can be tested together.

Bias scores are means over prompts of numbers with their own kinks and biases:

- the prompt bias error is compared by its square, a mean of unbiased estimates (`metrics.prompt_bias_error`);
- the deviation of the model bias score by its size; two detectors' deviations of one T2I model have the same
  denominator, so the order of the deviations is that of the distances of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench import metrics
from detector_bench.metrics.bias import NClear
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.metrics.prompt_bias_error import contrasts, influences_of_cells, squared_errors

COMPARABLE_METRICS = (
    "f1",
    "filter_rate",
    "accuracy",
    "prompt_bias_error",
    "model_bias_score_deviation",
    "prompt_bias_score_difference",
    "precision",
    "recall",
)
"""The metrics that have an influence here."""


class Influence(NamedTuple):
    """One metric of all detectors."""

    value: FloatArray
    """What is compared, `[detector]`: the metric; the square of the prompt bias error; the distance of the model
    bias scores in place of the deviation. NaN where a detector has none."""
    by_unit: FloatArray
    """What each image (or prompt) adds to the variation of the value, `[detector, unit]`."""


@dataclass(frozen=True)
class Influences:
    """Influences on the metrics over all images of a study.

    Args:
        joint: truth and verdicts.
        unit: whether other images or other prompts could have been drawn; see `metrics.bootstrap`.
        n_clear: denominator of detectors' prompt bias scores.
    """

    joint: JointVerdicts
    unit: Unit = "image"
    n_clear: NClear = "detector"

    def of(self, metric: str) -> Influence:
        """One of `COMPARABLE_METRICS`, of every detector."""
        if metric == "prompt_bias_error":
            found = self._prompt_bias_error()
        elif metric == "model_bias_score_deviation":
            found = self._model_bias_score_distance()
        elif metric == "prompt_bias_score_difference":
            found = self._prompt_bias_score_difference()
        else:
            found = self._ratio(*self._parts_of_share(metric))
        return Influence(found.value, self.centred(found.by_unit))

    def centred(self, by_unit: FloatArray) -> FloatArray:
        """Influences around the mean of their prompt (or category), scaled for the freedom lost to these means."""
        groups, place = np.unique(self._groups, return_inverse=True)
        size = np.bincount(place)
        order = np.argsort(place, kind="stable")
        starts = np.cumsum(size) - size
        if not self._units:
            return by_unit
        means = np.add.reduceat(by_unit[..., order], starts, axis=-1) / size
        free = self._units - len(groups)
        scale = np.sqrt(self._units / free) if free else np.nan
        around: FloatArray = (by_unit - means[..., place]) * scale
        return around

    @property
    def _units(self) -> int:
        return self.joint.images if self.unit == "image" else len(self._asked)

    @property
    def _groups(self) -> NDArray[np.intp]:
        """What each unit is drawn within: images in a prompt of a T2I model, prompts in a category."""
        if self.unit == "image":
            return self.joint.pair
        return self.joint.scopes.category_of_prompt[self._asked]

    @cached_property
    def _asked(self) -> NDArray[np.intp]:
        """Prompts with images."""
        return np.unique(self.joint.pair % self.joint.prompts)

    @cached_property
    def _counts(self) -> CountArray:
        return self.joint.counts()

    @cached_property
    def _images_of_pair(self) -> NDArray[np.intp]:
        counted: NDArray[np.intp] = np.bincount(
            self.joint.pair, minlength=self.joint.t2i_models * self.joint.prompts
        )
        return counted

    def _to_units(self, by_image: FloatArray) -> FloatArray:
        """Add up over the images of each prompt, where prompts are the unit."""
        if self.unit == "image":
            return by_image
        prompt = self.joint.pair % self.joint.prompts
        sums: FloatArray = np.stack(
            [np.bincount(prompt, each, self.joint.prompts).astype(np.float64) for each in by_image]
        )
        of_asked: FloatArray = sums[:, self._asked]
        return of_asked

    def _means_to_units(self, term: FloatArray, by_image: FloatArray) -> Influence:
        """A mean over pairs of T2I model and prompt.

        Args:
            term: of each pair, `[detector, pair]`, NaN where there is none.
            by_image: influence of each image on its pair's term, `[detector, image]`.
        """
        defined = ~np.isnan(term)
        number = defined.sum(axis=-1)
        value = divide(np.nan_to_num(term).sum(axis=-1), number)
        if self.unit == "image":
            return Influence(value, divide(np.nan_to_num(by_image), number[:, np.newaxis]))
        residual = np.where(defined, term - value[:, np.newaxis], 0)
        by_prompt = residual.reshape(len(term), self.joint.t2i_models, -1).sum(axis=1)[:, self._asked]
        return Influence(value, divide(by_prompt, number[:, np.newaxis]))

    def _parts_of_share(
        self, metric: str
    ) -> tuple[NDArray[np.bool_] | FloatArray, NDArray[np.bool_] | FloatArray]:
        """Numerator and denominator of a share, image by image: `[detector, image]`."""
        joint = self.joint
        clear, low_quality = joint.truth < joint.classes, joint.truth == joint.classes
        kept, filtered = joint.verdicts < joint.classes, joint.verdicts == joint.classes
        if metric == "f1":
            true_positive = (clear & kept).astype(np.float64)
            other = (low_quality & kept) | (clear & filtered)
            return 2 * true_positive, 2 * true_positive + other
        either = clear | low_quality
        return {
            "accuracy": (clear & (joint.verdicts == joint.truth), clear & kept),
            "filter_rate": (low_quality & filtered, low_quality & (kept | filtered)),
            "precision": (clear & kept, either & kept),
            "recall": (clear & kept, clear & (kept | filtered)),
        }[metric]

    def _ratio(
        self, numerator: NDArray[np.bool_] | FloatArray, denominator: NDArray[np.bool_] | FloatArray
    ) -> Influence:
        total = denominator.sum(axis=-1).astype(np.float64)
        value = divide(numerator.sum(axis=-1), total)
        by_image = divide(numerator - value[:, np.newaxis] * denominator, total[:, np.newaxis])
        return Influence(value, self._to_units(np.nan_to_num(by_image)))

    @cached_property
    def _distance(self) -> tuple[FloatArray, FloatArray]:
        """Reported minus actual scores by contrast, `[detector, pair, contrast]`, and each image's influence on
        its pair's, `[detector, image, contrast]`."""
        distance, by_cell = influences_of_cells(self._counts, n_clear=self.n_clear)
        detectors, pairs = len(self._counts), self.joint.t2i_models * self.joint.prompts
        distance = distance.reshape(detectors, pairs, -1)
        by_cell = by_cell.reshape(detectors, pairs, *by_cell.shape[-3:])
        rows = np.arange(detectors)[:, np.newaxis]
        return distance, by_cell[rows, self.joint.pair, self.joint.truth, self.joint.verdicts]

    def _prompt_bias_error(self) -> Influence:
        terms = squared_errors(self._counts, n_clear=self.n_clear).value.reshape(self.joint.detectors, -1)
        distance, by_image = self._distance
        pair, images = self.joint.pair, self._images_of_pair[self.joint.pair].astype(np.float64)
        # The squared distance is a mean of products of two images' scores, each the distance plus n influences:
        # one image's part is its product with the mean of the others.
        own = distance[:, pair] + images[:, np.newaxis] * by_image
        others = divide(images[:, np.newaxis] * distance[:, pair] - own, images[:, np.newaxis] - 1)
        part = 2 * divide((own * others).sum(axis=-1) - terms[:, pair], images)
        return self._means_to_units(terms, part)

    def _prompt_bias_score_difference(self) -> Influence:
        distance, by_image = self._distance
        if distance.shape[-1] == 1:
            term, part = np.abs(distance[..., 0]), (_side(distance)[:, self.joint.pair] * by_image)[..., 0]
        else:
            # Contrasts of more classes are their shares times the root of 2.
            scale = 1 / contrasts(self.joint.classes)[0, 0]
            term = np.abs(distance).sum(axis=-1) * scale
            part = (_side(distance)[:, self.joint.pair] * by_image).sum(axis=-1) * scale
        return self._means_to_units(term, part)

    def _model_bias_score_distance(self) -> Influence:
        reported = self._model_bias_score(self.joint.verdicts)
        human = self._model_bias_score(np.minimum(self.joint.truth, self.joint.classes)[np.newaxis])
        difference = reported.value - human.value
        return Influence(np.abs(difference), _side(difference)[:, np.newaxis] * (reported.by_unit - human.by_unit))

    def _model_bias_score(self, verdicts: NDArray[np.int8]) -> Influence:
        """Mean over prompts of the concentration of the classes."""
        joint, classes = self.joint, self.joint.classes
        pairs = joint.t2i_models * joint.prompts
        kept = verdicts < classes
        number = np.stack([np.bincount(joint.pair, each, pairs) for each in kept.astype(np.float64)])
        found: FloatArray = np.zeros((len(verdicts), pairs))
        by_image = np.zeros(verdicts.shape)
        for index in range(classes):
            named = (verdicts == index).astype(np.float64)
            share = divide(np.stack([np.bincount(joint.pair, each, pairs) for each in named]), number)
            found += np.abs(share - 1 / classes)
            side = _side(np.round(classes * share - 1, 12))[:, joint.pair]
            by_image += side * np.nan_to_num(divide(named - share[:, joint.pair] * kept, number[:, joint.pair]))
        scale = classes / (2 * (classes - 1))
        return self._means_to_units(found * scale, by_image * scale)


def _side(distance: FloatArray) -> FloatArray:
    """Slope of the distance's size. At 0, where it has none, that of one side: chance moves it to either."""
    return np.where(distance < 0, -1.0, 1.0)


def metric_values(joint: JointVerdicts, names: Sequence[str], *, n_clear: NClear) -> dict[str, FloatArray]:
    """Metrics over all images as the metric table has them: `[detector]` each."""
    counts = joint.counts()
    pooled = metrics.pool(counts)
    found = {}
    for name in names:
        if name in ("prompt_bias_error", "prompt_bias_score_difference"):
            found[name] = getattr(metrics, name)(counts, n_clear=n_clear).value
        elif name == "model_bias_score_deviation":
            found[name] = metrics.model_bias_score_deviation(counts).value
        else:
            found[name] = getattr(metrics, name)(pooled).value
    return found
