"""Is a T2I model biased at all, and are two of them biased differently? Tests of scores that are estimated.

Both questions are about the T2I models, not about the images at hand: what would they show with endlessly many
images of the same prompts? Two T2I models are compared over the prompts that both have. Given the working model,
the estimates of two T2I models are independent, so that the variance of their difference is the sum of both.

- mean prompt bias score (two classes): against 0, or against another T2I model's; Student's t with the degrees of
  freedom of the variances (Welch and Satterthwaite).
- model bias score: are all prompts balanced? By all prompts' distances from balance, each in its own standard
  errors (`evenness`). Where only some images have a label, also by the score against what a T2I model without bias
  would be estimated to have, which is drawn; then the smaller p-value counts, doubled. Against another T2I model's
  score: by Student's t.

P-values are adjusted by Holm (1979) within two families: all statements about single T2I models, and all
differences. An interval is as wide as the step at which its test was decided asks, so that by Student's t it
leaves out 0 exactly where the test says so.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import BoundedShares, class_shares, t_quantile
from detector_bench.estimation.evenness import evenness_p_value
from detector_bench.estimation.partly_labelled import PartlyLabelled, count_codes
from detector_bench.estimation.unevenness import unevenness, unevenness_by_chance
from detector_bench.estimation.working_model import CellMoments, cell_moments
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.counts import FloatArray, divide

_Mask = NDArray[np.bool_]


class ScoreTest(NamedTuple):
    """A score of one T2I model, or the difference of two, tested beside others."""

    metric: str
    """`mean_prompt_bias_score` or `model_bias_score`."""
    t2i_models: tuple[int, ...]
    """One, or the two whose difference (first less second) this is."""
    scores: tuple[float, ...]
    """The score of each."""
    value: float
    """The score, or the difference."""
    low: float
    high: float
    """The interval that belongs to the test."""
    chance: float
    """Of a model bias score: what a T2I model without bias would be estimated to have on average. NaN
    where all images have a label, and elsewhere."""
    p_value: float
    p_adjusted: float
    """For all tests of its family; NaN where there is nothing to test."""
    prompts: int
    """How many prompts it is about."""

    def beyond_chance(self, level: float) -> bool:
        """Whether chance alone would hardly bring this about; `level` is that of the intervals."""
        return self.p_adjusted <= 1 - level


@dataclass(frozen=True, eq=False)
class T2IModelTests:
    """All tests of an attribute."""

    biases: tuple[ScoreTest, ...]
    """Of each T2I model by itself."""
    differences: tuple[ScoreTest, ...]
    """Of every two."""


def t2i_model_tests(images: PartlyLabelled, *, confidence: float = 0.95, seed: int = 0) -> T2IModelTests:
    """Test each T2I model's scores, and the differences of every two.

    Args:
        images: some of them labelled, or all.
        confidence: of the tests of a family together, and of their intervals.
        seed: of the studies that are drawn for the model bias score.
    """
    scores = TestedScores(images, seed)
    metrics = ("mean_prompt_bias_score",) * (images.classes == SIGNED_CLASSES) + ("model_bias_score",)
    biases, differences = [], []
    for model in range(images.t2i_models):
        biases += [scores.bias(metric, model) for metric in metrics]
    for first, second in combinations(range(images.t2i_models), 2):
        differences += [scores.difference(metric, first, second) for metric in metrics]
    return T2IModelTests(_decided(biases, 1 - confidence), _decided(differences, 1 - confidence))


class ClassShares(NamedTuple):
    """What the scores of an attribute are made of."""

    shares: list[BoundedShares]
    """Of each class among the clear images of each cell."""
    clear: FloatArray
    """`[cell]`: how many of its images are clear, or are estimated to be."""
    known: _Mask
    """`[cell]`: whether it has shares."""
    labelled: _Mask
    """`[cell]`: whether any of its images has a label."""
    empty: _Mask
    """`[cell]`: whether there is no image of it."""


class _Score(NamedTuple):
    value: float
    standard_error: float
    freedom: float


class UnadjustedTest(NamedTuple):
    """A test before it is known how many others stand beside it."""

    metric: str
    t2i_models: tuple[int, ...]
    scores: tuple[float, ...]
    value: _Score
    lowest: float
    by_chance: FloatArray | None
    p_value: float
    prompts: int


class TestedScores:
    """Scores of T2I models and their p-values, before they are adjusted for each other.

    Args:
        images: some of them labelled, or all.
        seed: of the studies that are drawn for the model bias score.
    """

    def __init__(self, images: PartlyLabelled, seed: int) -> None:
        self._complete = complete = images.complete
        use_detectors = bool(images.detectors) and not complete
        moments = _known_moments(images) if complete else cell_moments(images, use_detectors=use_detectors)
        shares = class_shares(moments, classes=images.classes, about="t2i_model")
        clear = images.images_of_cell * moments.share[:, : images.classes].sum(axis=1)
        labelled = images.labels_of_cell > 0
        known = labelled & ~np.isnan(shares[0].value)
        self._images, self._seed = images, seed
        # Where prompts were drawn, those that were not are spoken for by those that were.
        self._drawn = images.cell_probability < 1
        self._take(ClassShares(shares, np.nan_to_num(clear), known, labelled, images.images_of_cell == 0))

    def _take(self, found: ClassShares) -> None:
        self.class_shares = found
        self._shares, self._known = found.shares, found.known
        images = self._images
        there = (images.images_of_cell > 0) | found.known
        shape = (images.t2i_models, images.prompts)
        self._spoken_for = (there & (found.known | self._drawn)).reshape(shape)
        self._found: dict[tuple[str, int, bytes], _Score] = {}

    def with_shares(self, found: ClassShares) -> TestedScores:
        """The same questions about other shares."""
        other = copy(self)
        other._take(found)
        return other

    def bias(self, metric: str, model: int) -> UnadjustedTest:
        """A T2I model's score, tested."""
        prompts = self._spoken_for[model]
        score = self._score(metric, model, prompts)
        by_chance = None
        if metric == "model_bias_score":
            cells = self._cells(model, prompts)
            p_value = evenness_p_value(self._shares, cells)
            if not self._complete:
                by_chance = unevenness_by_chance(self._shares, cells, seed=self._seed)
                p_value = _either(_share_above(by_chance, score.value), p_value)
        else:
            p_value = _student(score)
        lowest = 0.0 if metric == "model_bias_score" else -1.0
        return UnadjustedTest(
            metric, (model,), (score.value,), score, lowest, by_chance, p_value, int(prompts.sum())
        )

    def difference(
        self, metric: str, first: int, second: int, *, other: TestedScores | None = None
    ) -> UnadjustedTest:
        """The score of one T2I model less that of a second, which `other` may say; None: by the same shares."""
        of_second = other or self
        prompts = self._spoken_for[first] & of_second._spoken_for[second]
        one, two = self._score(metric, first, prompts), of_second._score(metric, second, prompts)
        squares = np.array([one.standard_error**2, two.standard_error**2])
        freedoms = np.array([one.freedom, two.freedom])
        # Where both rest on endless degrees of freedom, so does their difference.
        freedom = float(
            np.nan_to_num(divide(squares.sum() ** 2, (squares**2 / np.maximum(freedoms, 1)).sum()), nan=np.inf)
        )
        score = _Score(one.value - two.value, float(np.sqrt(squares.sum())), freedom)
        lowest = -1.0 if metric == "model_bias_score" else -2.0
        return UnadjustedTest(
            metric,
            (first, second),
            (one.value, two.value),
            score,
            lowest,
            None,
            _student(score),
            int(prompts.sum()),
        )

    def _cells(self, model: int, prompts: _Mask) -> _Mask:
        chosen = np.zeros((self._images.t2i_models, self._images.prompts), dtype=np.bool_)
        chosen[model] = prompts
        return chosen.ravel() & self._known

    def _score(self, metric: str, model: int, prompts: _Mask) -> _Score:
        key = (metric, model, prompts.tobytes())
        if key not in self._found:
            cells = self._cells(model, prompts)
            found = self._model_bias_score(cells) if metric == "model_bias_score" else self._mean(cells)
            self._found[key] = found
        return self._found[key]

    def _mean(self, cells: _Mask) -> _Score:
        share = self._shares[0]
        number = int(cells.sum())
        # Ratios of few images vary a little more than their linear part says.
        variances = (share.measured * (1 + 1 / (2 * np.maximum(self._images.images_of_cell, 1))))[cells]
        total = variances.sum()
        freedom = divide(total**2, (variances**2 / share.measured_freedom[cells]).sum())
        variance = total / max(number, 1) ** 2 + self._between(share.value, cells)
        mean = share.value[cells].sum() / number if number else np.nan
        return _Score(float(2 * mean - 1), float(2 * np.sqrt(variance)), float(np.nan_to_num(freedom, nan=np.inf)))

    def _model_bias_score(self, cells: _Mask) -> _Score:
        found = unevenness(self._shares, cells, seed=self._seed)
        between = self._between(np.abs(self._shares[0].value - 1 / len(self._shares)), cells)
        return _Score(found.value, float(np.hypot(found.standard_error, 2 * np.sqrt(between))), found.freedom)

    def _between(self, values: FloatArray, cells: _Mask) -> float:
        """What the prompts that were not drawn add to the variance of a mean."""
        drawn = cells & self._drawn
        number = int(drawn.sum())
        if number < 2:
            return 0.0
        missing = 1 - self._images.cell_probability[drawn].mean()
        return float(missing * values[drawn].var(ddof=1) / number * (number / cells.sum()) ** 2)


def _known_moments(images: PartlyLabelled) -> CellMoments:
    """Shares where every image has a label: nothing is estimated, and detectors have nothing to add.

    What the labels of a cell vary is learnt from its own images; a cell with one image borrows that of all such.
    """
    labels, cells = images.labels, images.cells
    counts = count_codes(
        lambda part: images.cell[part].astype(np.int64) * labels + images.truth[part],
        images=len(images.truth),
        size=cells * labels,
    ).reshape(cells, labels)
    number = images.images_of_cell
    share = counts / np.maximum(number, 1)[:, np.newaxis]
    alone = number == 1
    spread, freedom = share.copy(), np.maximum(number - 1.0, 0)
    if (singles := int(alone.sum())) > 1:
        spread[alone], freedom[alone] = share[alone].mean(axis=0), (singles - 1) / singles
    variance = spread[:, :, np.newaxis] * (np.eye(labels) - spread[:, np.newaxis, :])
    size = np.where(alone, singles, number)
    variance *= (size / np.maximum(size - 1, 1))[:, np.newaxis, np.newaxis]
    nothing = np.zeros_like(variance)
    return CellMoments(
        share=np.where(number[:, np.newaxis] > 0, share, np.nan),
        label_share=share,
        predicted=share,
        residual_variance=nothing,
        prediction_variance=nothing,
        label_variance=variance,
        dispersion=np.zeros(cells),
        images=number,
        labels=number,
        freedom=freedom,
        certain=np.zeros_like(share),
        uses_detectors=False,
        explained=np.zeros(images.detectors),
    )


def _student(score: _Score) -> float:
    """Two-sided p-value of a score that is 0 without bias."""
    from scipy.special import stdtr

    if np.isnan(score.value) or np.isnan(score.standard_error):
        return np.nan
    if score.standard_error == 0:
        return 1.0 if score.value == 0 else 0.0
    return float(2 * stdtr(max(score.freedom, 1), -abs(score.value) / score.standard_error))


def _either(first: float, second: float) -> float:
    """Of two tests of the same: the smaller p-value, doubled as there were two."""
    return min(1.0, 2 * min(first, second))


def _share_above(drawn: FloatArray, value: float) -> float:
    """How often chance brings as much about: of the gamma distribution with the draws' mean and variance, as few
    draws say little of rare events."""
    if np.isnan(value) or not len(drawn):
        return np.nan
    from scipy.special import gammaincc

    mean, variance = max(float(drawn.mean()), 1e-9), max(float(drawn.var()), 1e-18)
    return float(gammaincc(mean**2 / variance, value * mean / variance))


def _decided(questions: list[UnadjustedTest], alpha: float) -> tuple[ScoreTest, ...]:
    """Holm's steps: the smallest p-value is compared with alpha / m, the next with alpha / (m - 1), until one is
    not small enough."""
    p_values = np.array([each.p_value for each in questions])
    tested = np.flatnonzero(~np.isnan(p_values))
    adjusted, allowed = np.full(len(questions), np.nan), np.full(len(questions), alpha / max(len(tested), 1))
    largest, stopped = 0.0, 0.0
    for step, place in enumerate(tested[np.argsort(p_values[tested], kind="stable")]):
        left = len(tested) - step
        largest = max(largest, min(1.0, left * p_values[place]))
        adjusted[place] = largest
        if largest > alpha and not stopped:
            stopped = alpha / left
        allowed[place] = stopped or alpha / left
    found = []
    for question, p_adjusted, level in zip(questions, adjusted, allowed, strict=True):
        score = question.value
        half = float(t_quantile(1 - level, np.array(max(score.freedom, 1)))) * score.standard_error
        highest = 1.0 if question.lowest == 0 else -question.lowest
        low, high = np.clip([score.value - half, score.value + half], question.lowest, highest)
        drawn = question.by_chance
        chance = float(drawn.mean()) if drawn is not None and len(drawn) else np.nan
        found.append(
            ScoreTest(
                question.metric,
                question.t2i_models,
                question.scores,
                score.value,
                float(low),
                float(high),
                chance,
                question.p_value,
                float(p_adjusted),
                question.prompts,
            )
        )
    return tuple(found)
