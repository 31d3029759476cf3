"""By how much each image, or each prompt, moves a metric: what tests between detectors are made of.

A metric's influence function says how its value changes if an image counts a little more. The sum of squared
influences, centred within the prompts, is its variance over other images from the same prompts; the products of
two detectors' influences are the covariance that makes a comparison on the same images so much sharper than one
of two intervals. No resampling is needed, ties stay ties exactly, and many differences can be tested together.

Bias scores are means over prompts of numbers with their own kinks and biases:

- the prompt bias error is compared by its square, a mean of unbiased estimates (`metrics.prompt_bias_error`);
- the deviation of the model bias score by its size; two detectors' deviations of one T2I model have the same
  denominator, so the order of the deviations is that of the distances of the scores.

Any other metric is asked what it is without one image of each kind (truth, verdict), of all images or of each
prompt: the difference is the influence of the images of that kind. It is the derivative to the first order in
1 / images, and at a kink the slope towards fewer images. The same numbers tell how skewed a metric's sampling
distribution is, which BCa intervals ask for (Efron 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.catalogue import METRICS, MetricInfo, NClear
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.metrics.prompt_bias_error import contrasts, influences_of_cells, squared_errors
from detector_bench.metrics.scopes import Scopes, pool


class Influence(NamedTuple):
    """How each image moves one metric of every detector."""

    value: FloatArray
    """What is compared, `[detector]`: the metric; the square of the prompt bias error; the distance of the model
    bias scores in place of the deviation. NaN where a detector has none."""
    by_unit: FloatArray
    """What each image (or prompt) adds to the variation of the value, `[detector, unit]`."""


def comparable_metrics() -> tuple[str, ...]:
    """Names of the metrics that detectors can be compared and ranked by: with a direction and an influence.

    One number over images, a mean over prompts that is declared by its term, or one whose influence is worked out
    here.
    """
    return tuple(
        each.name
        for each in METRICS.values()
        if each.better != "none"
        and "scopes" in each.rows
        and "<" not in each.name
        and (each.over == "images" or each.is_mean_of_terms or each.name in _WORKED_OUT)
    )


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
        """One of `comparable_metrics()`, of every detector."""
        info = METRICS[metric]
        if metric in _WORKED_OUT:
            found = _WORKED_OUT[metric](self)
        elif info.form in ("share", "f1"):
            found = self._ratio(*self._parts_of_share(info))
        elif info.over == "images":
            found = self._over_images(info)
        else:
            found = self._over_prompts(info)
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
            return self.joint.pair.astype(np.intp, copy=False)
        return self.joint.scopes.category_of_prompt[self._asked]

    @cached_property
    def _asked(self) -> NDArray[np.intp]:
        """How many prompts have images."""
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

    def _parts_of_share(self, info: MetricInfo) -> tuple[FloatArray, FloatArray]:
        """Numerator and denominator of a share, image by image: `[detector, image]`."""
        labels = self.joint.classes + 2
        single = np.eye(labels**2, dtype=np.int64).reshape(labels, labels, labels, labels)
        score = info.prompt_scores(single, n_clear=self.n_clear)
        value, denominator = np.nan_to_num(score.value), score.n.astype(np.float64)
        if info.form == "f1":
            # Of TP / (TP + FP + FN), which `n` belongs to, to 2 TP / (2 TP + FP + FN).
            denominator *= 1 + value
        return self._of_each_image(value * denominator), self._of_each_image(denominator)

    def _of_each_image(self, by_cell: FloatArray) -> FloatArray:
        """Numbers of cells `[..., truth, verdict]` for the images: `[detector, image]`."""
        rows = np.arange(self.joint.detectors)[:, np.newaxis]
        of_detectors = np.broadcast_to(by_cell, (self.joint.detectors, *by_cell.shape[-2:]))
        found: FloatArray = of_detectors[rows, self.joint.truth, self.joint.verdicts]
        return found

    def _over_images(self, info: MetricInfo) -> Influence:
        pooled, labels = pool(self._counts), self.joint.classes + 2

        def value_of(counts: CountArray) -> FloatArray:
            return info.prompt_scores(counts, n_clear=self.n_clear).value

        value, left_out = value_of(pooled), without_one_of_each_kind(pooled, value_of)
        moved = np.nan_to_num(value[:, np.newaxis] - np.moveaxis(left_out, 0, -1))
        by_image = self._of_each_image(moved.reshape(-1, labels, labels))
        return self._towards_best(info, Influence(value, self._to_units(by_image)))

    def _over_prompts(self, info: MetricInfo) -> Influence:
        labels, pairs = self.joint.classes + 2, self.joint.t2i_models * self.joint.prompts
        counts = self._counts.reshape(self.joint.detectors, pairs, labels, labels)
        term = info.prompt_scores(counts, n_clear=self.n_clear).value
        by_image, rows = np.zeros(self.joint.verdicts.shape), np.arange(self.joint.detectors)[:, np.newaxis]
        # One kind after another, as there can be many prompts.
        for truth in range(labels):
            for verdict in range(labels):
                fewer = counts.copy()
                fewer[..., truth, verdict] = np.maximum(fewer[..., truth, verdict] - 1, 0)
                moved = term - info.prompt_scores(fewer, n_clear=self.n_clear).value
                here = (self.joint.truth == truth) & (self.joint.verdicts == verdict)
                by_image = np.where(here, moved[rows, self.joint.pair], by_image)
        return self._towards_best(info, self._means_to_units(term, by_image))

    @staticmethod
    def _towards_best(info: MetricInfo, found: Influence) -> Influence:
        """Of a metric that is best at 0 the size."""
        if info.better != "closest to zero":
            return found
        return Influence(np.abs(found.value), _side(found.value)[:, np.newaxis] * found.by_unit)

    def _ratio(self, numerator: FloatArray, denominator: FloatArray) -> Influence:
        total = denominator.sum(axis=-1)
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


_WORKED_OUT: dict[str, Callable[[Influences], Influence]] = {
    "prompt_bias_error": Influences._prompt_bias_error,
    "model_bias_score_deviation": Influences._model_bias_score_distance,
    "prompt_bias_score_difference": Influences._prompt_bias_score_difference,
}

TESTED_OTHERWISE = ("prompt_bias_error", "model_bias_score_deviation")
"""What is compared by another number: its square, the distance of the scores."""


def metric_values(joint: JointVerdicts, names: Sequence[str], *, n_clear: NClear) -> dict[str, FloatArray]:
    """Metrics over all images as the metric table has them: `[detector]` each."""
    counts = joint.counts()
    pooled = pool(counts)
    return {
        name: METRICS[name].scores(counts, scopes=None, n_clear=n_clear, pooled=pooled).value for name in names
    }


def without_one_of_each_kind(pooled: CountArray, metric: Callable[[CountArray], FloatArray]) -> FloatArray:
    """The metric without one image of each truth and verdict, `[kind, ...]`.

    Args:
        pooled: `[..., truth, verdict]`.
        metric: from counts `[..., truth, verdict]` to values `[...]`.
    """
    labels = pooled.shape[-1]
    kinds = labels * labels
    one = np.eye(kinds).reshape(kinds, *[1] * (pooled.ndim - 2), labels, labels)
    return metric(np.maximum(pooled - one, 0))


def acceleration_of_images(
    counts: CountArray, metric: Callable[[CountArray], FloatArray], *, scopes: Scopes
) -> FloatArray:
    """The acceleration of a metric over images when images are drawn within prompts.

    Images with the same truth and verdict have the same influence, so leaving out one of each kind is enough.
    Influences are taken relative to the mean of their prompt, as each prompt is a sample of its own.

    Args:
        counts: `[detector, t2i_model, prompt, truth, verdict]`.
        metric: from counts `[..., truth, verdict]` to values `[...]`.
        scopes: the category of each prompt.

    Returns:
        `[1 + T2I models, 1 + categories, detector]`.
    """
    pooled = pool(counts, scopes=scopes)
    left_out = np.nan_to_num(without_one_of_each_kind(pooled, metric))
    kinds = len(left_out)
    images = counts.reshape(*counts.shape[:3], kinds)
    t2i_models, categories = pooled.shape[1] - 1, pooled.shape[2] - 1
    found = np.zeros((1 + t2i_models, 1 + categories, len(counts)))
    for model in range(1 + t2i_models):
        for category in range(1 + categories):
            some = images if model == 0 else images[:, model - 1 : model]
            if category > 0:
                some = some[:, :, scopes.category_of_prompt == category - 1]
            samples = some.reshape(len(counts), some.shape[1] * some.shape[2], kinds)
            found[model, category] = _acceleration(samples, left_out[..., model, category].T)
    return found


def acceleration_of_prompts(left_out: FloatArray, *, scopes: Scopes) -> FloatArray:
    """The acceleration of any metric when prompts are drawn within categories.

    Args:
        left_out: the metric without each prompt, `[..., prompt]`.
        scopes: the category of each prompt.

    Returns:
        `[...]`.
    """
    defined = ~np.isnan(left_out)
    influence = np.zeros(left_out.shape)
    for category in range(len(scopes.categories)):
        members = scopes.category_of_prompt == category
        values = np.where(defined[..., members], left_out[..., members], 0)
        mean = divide(values.sum(axis=-1, keepdims=True), defined[..., members].sum(axis=-1, keepdims=True))
        influence[..., members] = np.where(defined[..., members], mean - values, 0)
    return _sixth_of_skewness((influence**3).sum(axis=-1), (influence**2).sum(axis=-1))


def _acceleration(samples: CountArray, left_out: FloatArray) -> FloatArray:
    """From counts `[detector, sample, kind]` and the metric without one image `[detector, kind]`."""
    values = left_out[:, np.newaxis]
    mean = divide((samples * values).sum(axis=-1), samples.sum(axis=-1))
    influence = np.nan_to_num(mean)[..., np.newaxis] - values
    return _sixth_of_skewness(
        (samples * influence**3).sum(axis=(-2, -1)), (samples * influence**2).sum(axis=(-2, -1))
    )


def _sixth_of_skewness(cubes: FloatArray, squares: FloatArray) -> FloatArray:
    """0 where nothing varies."""
    return np.nan_to_num(divide(cubes, 6 * squares**1.5))
