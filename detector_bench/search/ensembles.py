"""Ensembles as the search has them: members, weights and coefficients are learnt on the choosing prompts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.detectors.combining import by_stacking, by_votes, stacking_inputs
from detector_bench.metrics import FloatArray, NClear
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.search.choosing import competing
from detector_bench.search.prompt_sums import PromptSums
from detector_bench.search.settings import SearchedEnsemble, SearchedError
from detector_bench.search.verdicts import LabelledVerdicts

Images = NDArray[np.bool_]

_FREE = 1e-3
"""How strongly the constants of a stacking classifier are held, as a part of its ridge: enough to be finite where
nobody ever filters."""


_MOST_STEPS, _MOST_HALVINGS, _SMALLEST_STEP = 50, 30, 1e-8


@dataclass(frozen=True, eq=False)
class LearntEnsemble:
    """An ensemble with all that it has learnt."""

    settings: SearchedEnsemble
    members: tuple[int, ...]
    """Positions of compositions."""
    weights: FloatArray | None = None
    coefficients: FloatArray | None = None

    def parameters(self, attribute: str, members: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """As parameters of the detector `ensemble`."""
        learnt: dict[str, Any] = {"decide": "votes"}
        if self.coefficients is not None:
            learnt = {"decide": "stacking", "coefficients": self.coefficients.tolist()}
        elif self.weights is not None:
            learnt["weights"] = self.weights.tolist()
        return {"attribute": attribute, "members": list(members), **learnt}


@dataclass(frozen=True, eq=False)
class Ensembles:
    """Learns ensembles among compositions; see `choosing.Learns`."""

    asked: tuple[SearchedEnsemble, ...]
    verdicts: LabelledVerdicts
    detector: NDArray[np.intp]
    """`[composition]`: of `verdicts`."""
    threshold: FloatArray
    """`[composition]`; NaN: none."""
    classifier: NDArray[np.intp]
    """`[composition]`: members come from different classifiers."""
    weights: dict[SearchedError, float]
    n_clear: NClear

    def learnt(self, chosen_on: FloatArray, losses: FloatArray) -> PromptSums:
        """See `choosing.Learns.learnt`."""
        found = np.stack([self._verdicts(asked, chosen_on, losses) for asked in self.asked])
        return PromptSums.of_counts(self.verdicts.counts(found), self.weights, n_clear=self.n_clear)

    def without_verdict(self, chosen_on: FloatArray, losses: FloatArray) -> list[int]:
        """On how many labelled images each ensemble has no verdict, as a member failed; see `learnt`."""
        said = [self._verdicts(asked, chosen_on, losses) for asked in self.asked]
        return [int((each > self.verdicts.classes).sum()) for each in said]

    def learn(self, asked: SearchedEnsemble, images: Images, members: tuple[int, ...]) -> LearntEnsemble:
        """Learn on some of the images."""
        if asked.kind == "majority":
            return LearntEnsemble(asked, members)
        said, scores = self._of_members(members)
        truth, classes = self.verdicts.truth, self.verdicts.classes
        used = images & (truth <= classes) & (said <= classes).all(axis=0)
        if asked.kind == "weighted":
            right = (said[:, used] == truth[used]).sum(axis=1)
            # The logarithm of the odds, as if one image more were right and one more were wrong.
            odds = (right + 1) / (used.sum() - right + 1)
            weights = np.maximum(np.log(odds), 0)
            return LearntEnsemble(asked, members, weights=weights if weights.any() else np.ones(len(members)))
        inputs = stacking_inputs(said[:, used], scores[:, used], classes=classes)
        return LearntEnsemble(
            asked, members, coefficients=stacking_coefficients(inputs, truth[used], classes, asked.ridge)
        )

    def apply(self, ensemble: LearntEnsemble) -> Codes:
        """What it says of all images, `[image]`; nothing where a member says nothing."""
        said, scores = self._of_members(ensemble.members)
        classes = self.verdicts.classes
        if ensemble.coefficients is None:
            weights = np.ones(len(said)) if ensemble.weights is None else ensemble.weights
            found, _ = by_votes(said, classes=classes, weights=weights)
        else:
            found, _ = by_stacking(stacking_inputs(said, scores, classes=classes), ensemble.coefficients)
        return np.where((said > classes).any(axis=0), np.int8(classes + 1), found)

    def members(self, asked: SearchedEnsemble, losses: FloatArray) -> tuple[int, ...]:
        """The best composition of each of the best classifiers, as far as there are any."""
        best = []
        for each in np.unique(self.classifier):
            own = np.flatnonzero(self.classifier == each)
            best.append(int(own[losses[own].argmin()]))
        best = [each for each in sorted(best, key=lambda each: (losses[each], each)) if competing(losses[each])]
        return tuple(best[: asked.members])

    def on_all_images(self, asked: SearchedEnsemble, losses: FloatArray) -> LearntEnsemble:
        """Learnt on all prompts."""
        return self.learn(asked, np.ones(len(self.verdicts.truth), dtype=np.bool_), self.members(asked, losses))

    def _verdicts(self, asked: SearchedEnsemble, chosen_on: FloatArray, losses: FloatArray) -> Codes:
        members = self.members(asked, losses)
        if len(members) < 2:
            return np.full(len(self.verdicts.truth), self.verdicts.classes + 1, dtype=np.int8)
        choosing = chosen_on[self.verdicts.prompt] > 0
        found = self.apply(self.learn(asked, choosing, members))
        if asked.kind == "majority":
            return found
        # What is learnt looks better on the images that taught it: the other half of them says how good it is.
        half = np.zeros(len(chosen_on), dtype=np.bool_)
        half[np.flatnonzero(chosen_on)[::2]] = True
        of_half = half[self.verdicts.prompt]
        for taught, judged in ((of_half, choosing & ~of_half), (choosing & ~of_half, of_half)):
            found[judged] = self.apply(self.learn(asked, taught, members))[judged]
        return found

    def _of_members(self, members: Sequence[int]) -> tuple[Codes, FloatArray]:
        said = [
            self.verdicts.at(self.detector[each], None if np.isnan(self.threshold[each]) else self.threshold[each])
            for each in members
        ]
        return np.stack(said), self.verdicts.scores[self.detector[list(members)]]


def stacking_coefficients(inputs: FloatArray, truth: NDArray[np.int8], classes: int, ridge: float) -> FloatArray:
    """A multinomial logistic model by ridge regression, `[1 + K, input]`.

    Args:
        inputs: `[image, input]`, the first a constant.
        truth: `[image]`: a class, or K for filtered.
        classes: K.
        ridge: half of it times the squared coefficients is added to the negative log-likelihood.
    """
    # Images that are alike in all that is read count together, which most are.
    rows, places = np.unique(np.column_stack([inputs, truth]), axis=0, return_inverse=True)
    times = np.bincount(places.reshape(-1), minlength=len(rows)).astype(np.float64)
    inputs, target = rows[:, :-1], np.eye(classes + 1)[rows[:, -1].astype(np.intp)]
    held = np.full(inputs.shape[1], ridge)
    held[0] = ridge * _FREE
    found = np.zeros((classes + 1, inputs.shape[1]))
    loss = _loss(found, inputs, target, times=times, held=held)
    # Newton's steps, each halved until it is one downwards; the ridge leaves a single lowest point.
    for _ in range(_MOST_STEPS):
        step = _newton_step(found, inputs, target, times=times, held=held)
        if np.abs(step).max(initial=0) < _SMALLEST_STEP:
            break
        for _ in range(_MOST_HALVINGS):
            after = _loss(found - step, inputs, target, times=times, held=held)
            if after <= loss:
                break
            step = step / 2
        found, loss = found - step, after
    return found


def _loss(
    own: FloatArray, inputs: FloatArray, target: FloatArray, *, times: FloatArray, held: FloatArray
) -> float:
    numbers = inputs @ own.T
    most = numbers.max(axis=1)
    likelihood = (numbers * target).sum(axis=1) - most - np.log(np.exp(numbers - most[:, np.newaxis]).sum(axis=1))
    return float(0.5 * (held * own**2).sum() - times @ likelihood)


def _newton_step(
    own: FloatArray, inputs: FloatArray, target: FloatArray, *, times: FloatArray, held: FloatArray
) -> FloatArray:
    numbers = inputs @ own.T
    shares = np.exp(numbers - numbers.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    slope = (times[:, np.newaxis] * (shares - target)).T @ inputs + held * own
    kinds, columns = own.shape
    bend = np.zeros((kinds, columns, kinds, columns))
    for one in range(kinds):
        for other in range(one, kinds):
            weight = times * shares[:, one] * ((one == other) - shares[:, other])
            bend[one, :, other] = bend[other, :, one] = (inputs * weight[:, np.newaxis]).T @ inputs
        bend[one, :, one] += np.diag(held)
    step: FloatArray = np.linalg.solve(bend.reshape(own.size, -1), slope.ravel()).reshape(own.shape)
    return step
