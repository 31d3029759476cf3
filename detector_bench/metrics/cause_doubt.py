"""How sure causes are: the bias scores behind them in resamples, and whether a part is more than chance.

**Resamples** are those of every other metric. The detector as it is has in each just the bias scores that
`metrics.bootstrap` gives it; those of the detector with parts replaced by the human's are added beside them.

**More than chance.** The prompt bias score difference is a mean of distances. Chance alone makes them larger than
0, and larger still where images are fewer: also a filter that drops images blindly adds to it. So an interval of
the difference, or of a part of it, leaves 0 out however blind the filter or the classifier is, and says nothing
about whether one favours a class. Squared distances less the variance of the distance have no such part
(`metrics.prompt_bias_error`); they are split into the same parts, prompt by prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bias_terms import BiasTerms, Terms
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.causes import (
    REPLACEMENTS,
    ErrorParts,
    ReplacedScores,
    class_shares,
    guessed_classes,
    replaced_counts,
)
from detector_bench.metrics.classification import accuracy_per_class
from detector_bench.metrics.counts import (
    CountArray,
    FloatArray,
    count_images,
    detector_class_counts,
    divide,
    human_class_counts,
)
from detector_bench.metrics.joint_verdicts import Codes, JointVerdicts, ScopeSums
from detector_bench.metrics.prompt_bias_error import squared_errors, variance_over_prompts
from detector_bench.metrics.resampling import (
    LARGEST_DRAWN_ONE_BY_ONE,
    Resampler,
    Sums,
    over_blocks,
    prompt_weights,
)
from detector_bench.metrics.scopes import Scopes

_Floats = NDArray[np.float32]

_NONE = -1

_HUMAN_FILTER = 1
"""Its place among the replacements."""


class ResampledCauses(NamedTuple):
    """What causes are made of, in every resample."""

    scores: ReplacedScores
    """Arrays `[replacement, 1 + T2I models, 1 + categories, detector, resample]`; the human's scores without the
    first axis, and with one entry on the axis `detector`."""
    accuracies: FloatArray
    """Of the detector as it is, `[K, 1 + T2I models, 1 + categories, detector, resample]`."""


def resample_causes(
    joint: JointVerdicts,
    named: Codes,
    *,
    resamples: int,
    unit: Unit = "image",
    seed: int = 0,
    n_clear: NClear = "detector",
    one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE,
    borrow: bool = True,
) -> ResampledCauses:
    """Draw the resamples of `bootstrap.resample`, and compute the bias scores of `causes.replaced_scores` in each.

    Args:
        joint: truth and verdicts of every labelled image.
        named: the class that is stored with a filtered image, `[detector, image]`; -1: none.
        resamples: how many.
        unit: what is drawn.
        seed: of the random numbers.
        n_clear: denominator of detectors' prompt bias scores.
        one_by_one: prompts of a T2I model with more images get normally distributed counts.
        borrow: False: the plain bootstrap, from each prompt's own images alone.
    """
    replacing = _Replacing.of(joint, named, n_clear=n_clear, one_by_one=one_by_one, borrow=borrow)
    unchanged = replacing.resampler.unchanged() if unit == "prompt" else None

    def block(number: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        if unchanged is None:
            sums, weights = replacing.resampler.block(number, seed=seed), None
        else:
            sums, weights = unchanged, prompt_weights(joint, number, seed=seed)
        return replacing.scores(sums, weights)._asdict(), {"of_class": replacing.accuracies(sums, weights)}

    scores, accuracies = over_blocks(block, resamples=resamples)
    return ResampledCauses(ReplacedScores(**scores), accuracies["of_class"])


def beyond_chance(
    counts: CountArray,
    *,
    n_clear: NClear = "detector",
    filtered_classes: CountArray | None = None,
    scopes: Scopes,
    level: float,
) -> ErrorParts:
    """Test every part of the squared prompt bias error against 0, by the scatter between prompts.

    Student's t of the mean over prompts, each with all its T2I models, at half of 1 - `level`. A part below 0
    hides errors of the other step, so it counts only where that one has some; the long tail of squared distances
    would else let many a mean lie far below 0. Where nothing favours a class, prompts scatter by the chance of
    their images alone, so that this is a test for other images of the same prompts, too; where something does, it
    is careful, as prompts differ. Not in the paper.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`.
        filtered_classes: see `causes.with_human_filter`.
        scopes: the prompts' categories.
        level: 0.95 tests at 5 %.

    Returns:
        Whether the part differs from 0, `[..., 1 + T2I models, 1 + categories]`; never where a scope has no two
        prompts, or where no prompt has a part other than 0.
    """
    from scipy.special import stdtrit

    replaced = replaced_counts(counts, filtered_classes=filtered_classes)
    errors = np.stack([squared_errors(each, n_clear=n_clear).value for each in replaced])
    errors[_HUMAN_FILTER] += _scatter_of_guesses(
        counts, replaced[_HUMAN_FILTER], filtered_classes, n_clear=n_clear
    )
    # A prompt that one of the four detectors cannot be judged on says nothing about what replacing it saves.
    errors = np.where(np.isnan(errors).any(axis=0), np.nan, errors)
    asked = (~np.isnan(errors[0])).astype(np.int64)
    prompts = scopes.sums(asked, prompt_axis=-1)
    prompts[..., 0, :] = scopes.sums(asked.max(axis=-2, keepdims=True), prompt_axis=-1)[..., 0, :]
    limit = stdtrit(np.maximum(prompts - 1, 1), (1 + level) / 2)

    t = {}
    for part, value in ErrorParts.of_errors(errors)._asdict().items():
        total = scopes.sums(np.nan_to_num(value), prompt_axis=-1)
        t[part] = np.nan_to_num(divide(total, np.sqrt(variance_over_prompts(value, scopes))))
    found = {part: each > limit for part, each in t.items()}
    filtering, classification = found["filtering"], found["classification"]
    found["filtering"] = filtering | (classification & (t["filtering"] < -limit))
    found["classification"] = classification | (filtering & (t["classification"] < -limit))
    return ErrorParts(**found)


def _scatter_of_guesses(
    counts: CountArray, replaced: CountArray, filtered_classes: CountArray | None, *, n_clear: NClear
) -> FloatArray:
    """What `squared_errors` takes off too much where the human's filter replaces the detector's.

    It takes every image for one that could have been named otherwise by chance. Images whose class is only guessed
    count with their expected class, which does not vary: Var(contrast) / base^2 each, with the variance of the
    contrasts of one image 2 (1 - sum of squared shares).
    """
    guessed = guessed_classes(counts, filtered_classes=filtered_classes)
    of_image = 2 * (1 - (guessed.shares**2).sum(axis=-1))
    clear = detector_class_counts(replaced) if n_clear == "detector" else human_class_counts(replaced)
    images = count_images(counts)
    total = (guessed.images * of_image).sum(axis=-1)
    return divide(total, clear.sum(axis=-1) ** 2) * divide(images, images - 1)


class _Cells(NamedTuple):
    """What replacing needs to know of the detectors' images, `[pair, ..., detector, resample]`."""

    kept: CountArray
    """Human-clear images that it kept, by true and named class, `[..., K, K, ...]`."""
    named: CountArray
    """Human-clear images that it filtered, though a class is stored, likewise."""
    unnamed: CountArray
    """Human-clear images that it filtered without one, by true class."""
    failed: CountArray
    """Human-clear images without a verdict, by true class."""
    unclear: CountArray
    """Images that it kept though they are not clear, by named class."""


@dataclass(frozen=True, slots=True)
class _Replacing:
    """From sums over the images of each pair to the scores of the four detectors."""

    joint: JointVerdicts
    resampler: Resampler
    used: NDArray[np.int16]
    """Cells that occur: the resampler counts no others."""
    n_clear: NClear

    @classmethod
    def of(
        cls, joint: JointVerdicts, named: Codes, *, n_clear: NClear, one_by_one: int, borrow: bool
    ) -> _Replacing:
        used, codes = np.unique(_cells(joint, named), return_inverse=True)
        first = int((used == _NONE).any())
        resampler = Resampler(
            joint,
            count_verdicts=n_clear == "human",
            one_by_one=one_by_one,
            codes=(codes.reshape(joint.verdicts.shape) - first).astype(np.int16),
            borrow=borrow,
        )
        return cls(joint, resampler, used[first:], n_clear)

    def scores(self, sums: Sums, weights: NDArray[np.float32] | None = None) -> ReplacedScores:
        """The scores; `weights` say how often each prompt is drawn, `[prompt, resample]`.

        One T2I model and category after the other: arrays of all pairs would take much memory, and more time.
        """
        of_pair = None if weights is None else weights[self.resampler.pairs % self.joint.prompts]
        shares = self._guessed_shares(sums, of_pair)
        added = []
        for block, pairs in zip(*_runs(self.resampler.blocks), strict=True):
            of_model = None if shares is None else shares[block // len(self.joint.scopes.categories)]
            terms = self._terms(sums, pairs, of_model)
            if of_pair is not None:
                of_judges = of_pair[pairs, np.newaxis].astype(np.float64)
                terms = [part * of_judges for part in terms]
            added.append([np.add.reduceat(part, [0], axis=0) for part in terms])
        scopes = ScopeSums(self.joint, self.resampler.blocks)
        totals = [scopes.of_filled_blocks(np.concatenate(part)) for part in zip(*added, strict=True)]
        scores = Terms(*totals[:2]).mean
        return ReplacedScores(
            self._by_replacement(scores[:, :, 1:]),
            scores[:, :, :1],
            self._by_replacement(Terms(*totals[2:]).mean),
        )

    def accuracies(self, sums: Sums, weights: NDArray[np.float32] | None = None) -> FloatArray:
        """Of every class; arguments as of `scores`."""
        scopes = ScopeSums(self.joint, self.resampler.blocks)
        if weights is None:
            pooled = scopes.of_blocks(sums.pooled)
        else:
            of_pair = weights[self.resampler.pairs % self.joint.prompts]
            pooled = scopes.of_weighted_pairs(sums.pooled[..., 0], of_pair)
        return np.moveaxis(accuracy_per_class(self.resampler.kinds.counts(pooled)).value, -1, 0)

    def _terms(self, sums: Sums, pairs: slice, shares: _Floats | None) -> list[Any]:
        """Totals and numbers of the terms of the model bias score, then of the prompt bias score difference, of
        some pairs of one T2I model."""
        verdicts = sums.verdicts
        terms = BiasTerms(
            self._class_counts(sums, pairs, shares),
            None if verdicts is None else np.concatenate([verdicts[pairs]] * REPLACEMENTS, axis=1),
            drawn=self.resampler.drawn[pairs],
            n_clear=self.n_clear,
        )
        difference = terms.prompt_bias_score_difference()
        has_score = np.concatenate([difference.n[:, : self.joint.detectors]] * REPLACEMENTS, axis=1)
        return [*terms.model_bias_score(), difference.total * has_score, difference.n * has_score]

    def _by_replacement(self, values: FloatArray) -> FloatArray:
        by_detector = values.reshape(*values.shape[:2], REPLACEMENTS, self.joint.detectors, values.shape[-1])
        return np.moveaxis(by_detector, 2, 0)

    def _class_counts(self, sums: Sums, pairs: slice, shares: _Floats | None) -> _Floats:
        """Images of each class by the human and the four detectors, `[pair, K, 1 + replacement x detector, ...]`.

        What is moved is taken from and added to the detector's own numbers, so that where nothing is replaced
        nothing changes, not even by rounding.
        """
        human, own = np.split(sums.class_counts[pairs], [1], axis=2)
        cells = self._cells_of(sums, pairs)
        resamples = own.shape[-1] if shares is None else shares.shape[-1]
        counts = np.empty((*own.shape[:2], 1 + REPLACEMENTS * own.shape[2], resamples), dtype=np.float32)
        counts[:, :, :1] = human
        as_it_is, human_filter, human_classes, both = np.moveaxis(
            counts[:, :, 1:].reshape(*own.shape[:2], REPLACEMENTS, own.shape[2], resamples), 2, 0
        )
        wrong = cells.kept * (1 - np.eye(self.joint.classes, dtype=np.float32))[..., np.newaxis, np.newaxis]
        as_it_is[:] = own
        human_filter[:] = own - cells.unclear + cells.named.sum(axis=1)
        if shares is not None:
            human_filter += (cells.unnamed[:, :, np.newaxis] * shares).sum(axis=1)
        human_classes[:] = own - wrong.sum(axis=1) + wrong.sum(axis=2)
        both[:] = human - cells.failed
        # Differences of normally distributed counts can fall below 0.
        return np.maximum(counts, 0, out=counts)

    def _cells_of(self, sums: Sums, pairs: slice) -> _Cells:
        assert sums.codes is not None  # noqa: S101 - the resampler was made with codes
        classes, codes = self.joint.classes, sums.codes[pairs].swapaxes(1, 2)
        shapes = ((classes, classes), (classes, classes), (classes,), (classes,), (classes,))
        *starts, size = np.cumsum([np.prod(shape) for shape in shapes])
        counts = np.zeros((len(codes), size, *codes.shape[2:]), dtype=np.float32)
        counts[:, self.used] = codes
        parts = zip(np.split(counts, starts, axis=1), shapes, strict=True)
        return _Cells(*(part.reshape(len(part), *shape, *part.shape[2:]) for part, shape in parts))

    def _guessed_shares(self, sums: Sums, weights: NDArray[np.float32] | None) -> _Floats | None:
        """How often each class is named on the images whose filtered classes are unknown, as far as that can be
        known, `[t2i_model, K, K, detector, resample]`; None where there is no such image. See
        `causes.with_human_filter`."""
        classes = self.joint.classes
        unnamed = 2 * classes * classes
        if not ((self.used >= unnamed) & (self.used < unnamed + classes)).any():
            return None
        added, models, runs = [], *_runs(self.resampler.pairs // self.joint.prompts)
        for pairs in runs:
            cells = self._cells_of(sums, pairs)
            known = cells.kept + cells.named
            if weights is not None:
                known = known * weights[pairs, np.newaxis, np.newaxis, np.newaxis]
            added.append(np.add.reduceat(known, [0], axis=0))
        per_model = np.zeros((self.joint.t2i_models, *added[0].shape[1:]))
        per_model[models] = np.concatenate(added)
        shares = class_shares(np.moveaxis(per_model, (-1, -2, 0), (0, 1, 2)))
        return np.moveaxis(shares, (0, 1, 2), (-1, -2, 0)).astype(np.float32, order="C")


def _runs(labels: NDArray[np.intp]) -> tuple[NDArray[np.intp], list[slice]]:
    """The labels that there are, of labels that never descend, and where each of them stands."""
    found, starts = np.unique(labels, return_index=True)
    return found, [slice(*ends) for ends in zip(starts, [*starts[1:], len(labels)], strict=True)]


def _cells(joint: JointVerdicts, named: Codes) -> NDArray[np.int16]:
    """Which of the cells of `_Cells`, laid out one after the other, an image is in, `[detector, image]`."""
    classes = joint.classes
    truth = np.broadcast_to(joint.truth.astype(np.int16), joint.verdicts.shape)
    verdict, stored = joint.verdicts.astype(np.int16), named.astype(np.int16)
    clear = truth < classes
    filtered = verdict == classes
    square = classes * classes
    return np.select(
        [
            clear & (verdict < classes),
            clear & filtered & (stored != _NONE),
            clear & filtered,
            clear,
            verdict < classes,
        ],
        [
            truth * classes + verdict,
            square + truth * classes + stored,
            2 * square + truth,
            2 * square + classes + truth,
            2 * square + 2 * classes + verdict,
        ],
        default=_NONE,
    ).astype(np.int16)
