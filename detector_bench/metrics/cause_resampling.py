"""The bias scores behind causes, in the same resamples as every other metric.

The detector as it is has in every resample just the bias scores that `metrics.bootstrap` gives it; those of the
detector with parts replaced by the human's are added beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bias_terms import BiasTerms, Terms
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.causes import REPLACEMENTS, ReplacedScores, class_shares
from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.metrics.joint_verdicts import Codes, JointVerdicts
from detector_bench.metrics.resample_blocks import over_blocks
from detector_bench.metrics.resampling import LARGEST_DRAWN_ONE_BY_ONE, Resampler, Sums, prompt_weights
from detector_bench.metrics.scope_sums import ScopeSums

_NONE = -1


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
) -> ReplacedScores:
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

    Returns:
        Arrays `[replacement, 1 + T2I models, 1 + categories, detector, resample]`; the human's scores without the
        first axis, and with one entry on the axis `detector`.
    """
    replacing = _Replacing.of(joint, named, n_clear=n_clear, one_by_one=one_by_one, borrow=borrow)
    unchanged = replacing.resampler.unchanged() if unit == "prompt" else None

    def block(number: int) -> tuple[dict[str, FloatArray]]:
        if unchanged is None:
            scores = replacing.scores(replacing.resampler.block(number, seed=seed))
        else:
            scores = replacing.scores(unchanged, prompt_weights(joint, number, seed=seed))
        return (scores._asdict(),)

    (found,) = over_blocks(block, resamples=resamples)
    return ReplacedScores(**found)


class _Cells(NamedTuple):
    """What replacing needs to know of a detector's images, `[pair, detector, ..., resample]`."""

    kept: CountArray
    """Human-clear images that it kept, by true and named class, `[..., K, K, resample]`."""
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
        """The scores; `weights` say how often each prompt is drawn, `[prompt, resample]`."""
        of_pair = None if weights is None else weights[self.resampler.pairs % self.joint.prompts]
        class_counts = self._class_counts(sums, of_pair)
        detectors = self.joint.detectors
        verdicts = None if sums.verdicts is None else np.concatenate([sums.verdicts] * REPLACEMENTS, axis=1)
        terms = BiasTerms(class_counts, verdicts, drawn=self.resampler.drawn, n_clear=self.n_clear)
        difference = terms.prompt_bias_score_difference()
        has_score = np.concatenate([difference.n[:, :detectors]] * REPLACEMENTS, axis=1)
        difference = Terms(difference.total * has_score, difference.n * has_score)
        scores = self._means(terms.model_bias_score(), of_pair)
        return ReplacedScores(
            self._by_replacement(scores[:, :, 1:]),
            scores[:, :, :1],
            self._by_replacement(self._means(difference, of_pair)),
        )

    def _means(self, terms: Terms, weights: NDArray[np.float32] | None) -> FloatArray:
        """Means over the pairs of each scope, `[1 + T2I models, 1 + categories, judge, resample]`."""
        scopes = ScopeSums(self.joint, self.resampler.blocks)
        if weights is not None:
            of_judges = weights[:, np.newaxis].astype(np.float64)
            terms = Terms(*(part * of_judges for part in terms))
        return Terms(*(scopes.of_pairs(part) for part in terms)).mean

    def _by_replacement(self, values: FloatArray) -> FloatArray:
        by_detector = values.reshape(*values.shape[:2], REPLACEMENTS, self.joint.detectors, values.shape[-1])
        return np.moveaxis(by_detector, 2, 0)

    def _class_counts(self, sums: Sums, weights: NDArray[np.float32] | None) -> CountArray:
        """Images of each class by the human and the four detectors, `[pair, K, 1 + replacement x detector, ...]`.

        What is moved is taken from and added to the detector's own numbers, so that where nothing is replaced
        nothing changes, not even by rounding.
        """
        human, own = sums.class_counts[:, :, :1], sums.class_counts[:, :, 1:].swapaxes(1, 2)
        cells = self._cells_of(sums)
        classes = self.joint.classes
        wrong = cells.kept * (1 - np.eye(classes, dtype=np.float32))[..., np.newaxis]
        filter_replaced = own - cells.unclear + cells.named.sum(axis=2) + self._estimated(cells, weights)
        classes_replaced = own - wrong.sum(axis=2) + wrong.sum(axis=3)
        both_replaced = human.swapaxes(1, 2) - cells.failed
        replaced = np.broadcast_arrays(own, filter_replaced, classes_replaced, both_replaced)
        stacked = np.concatenate(replaced, axis=1).swapaxes(1, 2)
        humans = np.broadcast_to(human, (*human.shape[:3], stacked.shape[-1]))
        # Differences of normally distributed counts can fall below 0.
        replaced_counts: CountArray = np.maximum(np.concatenate([humans, stacked], axis=2), 0)
        return replaced_counts

    def _cells_of(self, sums: Sums) -> _Cells:
        assert sums.codes is not None  # noqa: S101 - the resampler was made with codes
        classes = self.joint.classes
        square = classes * classes
        ends = np.cumsum([0, square, square, classes, classes, classes])
        kept, named, *others = (self._counted(sums.codes, slice(*place)) for place in pairwise(ends))
        squares = (each.reshape(*each.shape[:2], classes, classes, each.shape[-1]) for each in (kept, named))
        return _Cells(*squares, *others)

    def _counted(self, codes: CountArray, cells: slice) -> CountArray:
        """Images of some of the cells; 0 with axes of length 1 where none of them occurs."""
        inside = np.flatnonzero((self.used >= cells.start) & (self.used < cells.stop))
        size = cells.stop - cells.start
        if not inside.size:
            return np.zeros((1, 1, size, 1), dtype=np.float32)
        if inside.size == size:
            return codes[:, :, inside[0] : inside[-1] + 1]
        counts = np.zeros((*codes.shape[:2], size, codes.shape[-1]), dtype=np.float32)
        counts[:, :, self.used[inside] - cells.start] = codes[:, :, inside]
        return counts

    def _estimated(self, cells: _Cells, weights: NDArray[np.float32] | None) -> CountArray:
        """Classes of the filtered images that have none, as far as they can be known, `[pair, detector, K, ...]`;
        see `causes.with_human_filter`."""
        if not cells.unnamed.any():
            return np.zeros_like(cells.unnamed)
        known = cells.kept + cells.named
        model = self.resampler.pairs // self.joint.prompts
        if weights is not None:
            known = known * weights[:, np.newaxis, np.newaxis, np.newaxis]
        per_model = np.zeros((self.joint.t2i_models, *known.shape[1:]), dtype=np.float64)
        models, starts = np.unique(model, return_index=True)  # the pairs are in the order of their T2I models
        per_model[models] = np.add.reduceat(known, starts, axis=0)
        shares = class_shares(
            np.moveaxis(per_model, (-1, 1, 0), (0, 1, 2))
        )  # [resample, detector, t2i_model, K, K]
        of_pair = np.moveaxis(shares, (0, 1, 2), (-1, 1, 0))[model].astype(np.float32)
        guessed: CountArray = (cells.unnamed[:, :, :, np.newaxis] * of_pair).sum(axis=2)
        return guessed


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
