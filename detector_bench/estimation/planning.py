"""How wide the interval of a T2I model's score will be in a study with more labels or more images.

A study that is planned is the one at hand with other dispersions: (1 - n/N)/n of each cell. What else changes
with the number of labels is taken into account one by one:

- The working model learns. With L labels in all and p numbers to be learnt, detectors that explain a part e of the
  labels' variance leave 1 - e of it, times 1 + 0.75 p e / L. The constant describes simulated studies
  (benchmarks/audit_plan.py).
- Estimates of the cells scatter less: of their spread, what noise adds (the variance between cells by DerSimonian
  and Laird 1986, as for a meta-analysis) is replaced by the noise of the planned study. The model bias score's
  interval then comes from studies that are drawn as always (`estimation.unevenness`).
- Shares of clear images, which scores are divided by, are drawn together, as they would be with more labels.
- Degrees of freedom grow.

Before any label the verdicts of most detectors are taken as true, and the part that detectors explain is assumed:
a guess. The other half-widths are forecasts, too: what comes out varies with the labels that are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import (
    About,
    BoundedShares,
    class_shares,
    drawn_together,
    label_share,
)
from detector_bench.estimation.partly_labelled import IntArray, PartlyLabelled
from detector_bench.estimation.prediction_powered import ScopeEstimates, of_cells, signed
from detector_bench.estimation.working_model import CellMoments, cell_moments
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.image_counts import LABEL_SHARE

FEWEST_LABELS = 10
"""No study of fewer labels of a T2I model is planned."""

FEWEST_FREEDOM = 5.0
"""With fewer degrees of freedom in all, the labels at hand do not say how much labels vary."""

_LEARNT = 0.75
_LEAST_VARIANCE = 1e-5
_LEAST_CLEAR = 0.1
_NEAR_ENOUGH = 0.01
_MOST_STEPS = 6
_PROMPT_STEPS = 40
_MOST_TIMES = 1_000.0


class LabelsNeeded(NamedTuple):
    """Labels of a T2I model that take a half-width to what is wanted."""

    labels: int | None
    """In all, those at hand included; None: no number of labels does."""
    half_width: float
    """That of so many labels; where no number does, that of a label on every image."""


class _Study(NamedTuple):
    """One that is at hand, or planned."""

    images: PartlyLabelled
    moments: CellMoments
    shares: list[BoundedShares]
    freedom: FloatArray | None
    """`[cell]`; None: that of the moments."""


@dataclass(frozen=True, eq=False)
class HalfWidths:
    """Forecasts of half-widths, from what is known now.

    T2I models are counted from 1; 0 stands for all together. All of them are taken to be labelled alike.
    """

    images: PartlyLabelled
    moments: CellMoments
    """What is known now: of the labels at hand, or guessed."""
    about: About
    confidence: float
    seed: int
    is_guess: bool
    """Whether no label says anything."""

    @classmethod
    def of(
        cls,
        images: PartlyLabelled,
        *,
        about: About = "images",
        confidence: float = 0.95,
        use_detectors: bool = True,
        seed: int = 0,
    ) -> HalfWidths:
        """Plan from the labels at hand; see `estimate` for the rest.

        Raises:
            ValueError: they do not say how much labels vary: too few prompts have two, see `says_enough`.
        """
        moments = cell_moments(images, use_detectors=use_detectors)
        if moments.freedom.sum() < FEWEST_FREEDOM:
            raise ValueError("too few prompts have two labels")
        return cls(images, moments, about, confidence, seed, is_guess=False)

    @classmethod
    def guessed(
        cls,
        images: PartlyLabelled,
        *,
        explained: float = 0.0,
        about: About = "images",
        confidence: float = 0.95,
        seed: int = 0,
    ) -> HalfWidths:
        """Plan before any label: the verdict of most detectors stands for the label of each image.

        Args:
            images: labels, if there are any, are not looked at.
            explained: the part of the labels' variance within prompts that the detectors are assumed to explain,
                as in another study; 0: they are worth nothing.
            about, confidence, seed: see `estimate`.
        """
        counts = np.stack([(images.verdicts == verdict).sum(axis=0) for verdict in range(images.classes + 1)])
        as_if = PartlyLabelled.drawn_evenly(
            counts.argmax(axis=0).astype(np.int64),
            images.verdicts,
            images.cell,
            t2i_models=images.t2i_models,
            scopes=images.scopes,
            classes=images.classes,
        )
        moments = cell_moments(as_if, use_detectors=False)
        moments = replace(
            moments,
            residual_variance=(1 - explained) * moments.label_variance,
            uses_detectors=explained > 0,
        )
        unlabelled = replace(
            images, truth=np.full(len(images.truth), -1), probability=np.full(len(images.truth), np.nan)
        )
        return cls(unlabelled, moments, about, confidence, seed, is_guess=True)

    @property
    def unexplained(self) -> float:
        """The part of the variance of the classes' labels within prompts that the working model leaves, 0 to 1."""
        classes, freedom = self.images.classes, self.moments.freedom
        left, whole = (
            freedom @ np.trace(each[:, :classes, :classes], axis1=1, axis2=2)
            for each in (self.moments.residual_variance, self.moments.label_variance)
        )
        return float(np.clip((left + 1) / (whole + 1), 0, 1))

    def labels_now(self, t2i_model: int) -> int:
        """How many labels there are."""
        return int(self.images.labels_of_cell[self._chosen(t2i_model)].sum())

    def images_of(self, t2i_model: int, *, times: float = 1.0) -> int:
        """How many images there are, or would be with so many times the images in each prompt."""
        return int(_times(self.moments.images, times)[self._chosen(t2i_model)].sum())

    def now(self, score: str, t2i_model: int) -> float:
        """The half-width with the labels at hand; NaN before any."""
        return self.estimate(score, t2i_model)[1]

    def estimate(self, score: str, t2i_model: int) -> tuple[float, float]:
        """Estimate and half-width with the labels at hand, as `estimation.estimate` gives them; NaN before any,
        and the average over prompts has no estimate."""
        if self.is_guess:
            return float("nan"), float("nan")
        return self._estimated(score, t2i_model, _Study(self.images, self.moments, self._shares, None))

    def at(self, score: str, labels: float, t2i_model: int, *, times: float = 1.0) -> float:
        """The half-width of a study with another number of labels, half the length of the interval that comes out.

        Args:
            score: `model_bias_score`, `mean_prompt_bias_score` or `prompt_bias_score` (the average over prompts;
                both of two classes only), or `label_share_<position>`.
            labels: of the T2I model, in all.
            t2i_model: whose score.
            times: so many times the images in each prompt.
        """
        of_cells = np.zeros(self.images.cells)
        for model in range(1, self.images.t2i_models + 1):
            share = labels / self.images.t2i_models if t2i_model == 0 else labels
            of_cells[self._chosen(model)] = self.spread(share, model, times=times)[self._chosen(model)]
        images, moments = self._planned(of_cells, times)
        freedom = np.maximum(of_cells - 1, 0)
        study = _Study(images, moments, self._planned_shares(moments, freedom), freedom)
        return self._estimated(score, t2i_model, study)[1]

    def spread(self, labels: float, t2i_model: int, *, times: float = 1.0) -> FloatArray:
        """How labels lie on the cells, `[cell]`: as equal as images and the labels at hand allow.

        Where there are fewer labels than prompts, prompts are drawn that get one.
        """
        chosen = np.flatnonzero(self._chosen(t2i_model) & (self.moments.images > 0))
        found = np.zeros(self.images.cells)
        most = _times(self.moments.images, times)[chosen].astype(np.float64)
        least = self.images.labels_of_cell[chosen].astype(np.float64)
        if labels < least.sum():
            least[:] = 0
        if labels < len(chosen) and not least.any():
            drawn = np.random.default_rng(self.seed).permutation(chosen)[: int(np.ceil(labels))]
            found[drawn] = 1
            return found
        low, high = 0.0, float(most.max(initial=0))
        for _ in range(50):
            middle = (low + high) / 2
            enough = np.clip(middle, least, most).sum() >= labels
            low, high = (low, middle) if enough else (middle, high)
        found[chosen] = np.clip(high, least, most)
        return found

    def labels_needed(self, score: str, half_width: float, t2i_model: int, *, times: float = 1.0) -> LabelsNeeded:
        """The labels that take the half-width to what is wanted; see `at`."""
        most = self.images_of(t2i_model, times=times)
        least = min(most, max(FEWEST_LABELS, self.labels_now(t2i_model)))
        wide, narrow = self.at(score, least, t2i_model, times=times), self.at(score, most, t2i_model, times=times)
        if np.isnan(wide) or narrow > half_width:
            return LabelsNeeded(None, narrow)
        if wide <= half_width:
            return LabelsNeeded(least, wide)
        # The square of the half-width is nearly a line in 1/n - 1/N.
        low, high = (float(most), narrow), (float(least), wide)
        found = high
        for _ in range(_MOST_STEPS):
            (n_low, h_low), (n_high, h_high) = low, high
            z_low, z_high = 1 / n_low - 1 / most, 1 / n_high - 1 / most
            part = (half_width**2 - h_low**2) / max(h_high**2 - h_low**2, 1e-12)
            n = 1 / (z_low + float(np.clip(part, 0.02, 0.98)) * (z_high - z_low) + 1 / most)
            found = (n, self.at(score, n, t2i_model, times=times))
            if abs(found[1] / half_width - 1) < _NEAR_ENOUGH:
                break
            low, high = (found, high) if found[1] <= half_width else (low, found)
        labels = int(np.ceil(found[0] - 1e-6))
        return LabelsNeeded(min(max(labels, least), most), found[1])

    def images_needed(self, score: str, half_width: float, t2i_model: int) -> float | None:
        """How many times the images there must be at least, all of them labelled; None: more than 1,000 times."""
        low, high = 1.0, 2.0

        def width(times: float) -> float:
            return self.at(score, self.images_of(t2i_model, times=times), t2i_model, times=times)

        if width(low) <= half_width:
            return low
        while width(high) > half_width:
            low, high = high, 2 * high
            if high > _MOST_TIMES:
                return None
        while high / low > 1 + _NEAR_ENOUGH:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if width(middle) <= half_width else (middle, high)
        return high

    def curve(self, score: str, labels: Sequence[float], t2i_model: int, *, times: float = 1.0) -> FloatArray:
        """Half-widths at several numbers of labels, which ascend.

        What the drawn studies leave of a rise, which no label can bring, is evened out (isotonic regression).
        """
        from scipy.optimize import isotonic_regression

        found = np.array([self.at(score, number, t2i_model, times=times) for number in labels])
        return found if np.isnan(found).any() else np.asarray(isotonic_regression(found, increasing=False).x)

    def labels_of_prompts(self, half_width: float) -> tuple[FloatArray, IntArray]:
        """Prompt bias scores, `[cell]`: their half-widths now (NaN before any label), and how many labels each
        prompt needs, those at hand included; -1 where a label on each of its images is not enough. Two classes
        only."""
        shape = (self.images.t2i_models, self.images.prompts)
        now = np.full(self.images.cells, np.nan)
        if not self.is_guess:
            found = signed(of_cells(self._shares[0], self.moments, self.confidence, shape))
            now = ((found.high - found.low) / 2).ravel()
        size, have = self.moments.images, self.images.labels_of_cell
        needed = np.full(self.images.cells, -1, dtype=np.int64)
        for part in np.linspace(0, 1, _PROMPT_STEPS + 1):
            # Dense where labels are few.
            n = np.minimum(np.maximum(np.ceil(np.maximum(size, 1) ** part), np.maximum(have, 1)), size)
            _, moments = self._planned(n.astype(np.float64), 1.0)
            share = self._planned_shares(moments, np.maximum(n - 1, 0.0))[0]
            found = signed(of_cells(share, moments, self.confidence, shape))
            enough = (needed < 0) & (((found.high - found.low) / 2).ravel() <= half_width) & (size > 0)
            needed[enough] = n[enough]
        needed[(now <= half_width) & (have > 0)] = have[(now <= half_width) & (have > 0)]
        return now, needed

    def _chosen(self, t2i_model: int) -> NDArray[np.bool_]:
        models = np.arange(self.images.cells) // self.images.prompts
        return np.asarray((models == t2i_model - 1) | (t2i_model == 0))

    @cached_property
    def _shares(self) -> list[BoundedShares]:
        return class_shares(self.moments, classes=self.images.classes, about=self.about)

    @cached_property
    def _together(self) -> FloatArray:
        """Shares of the labels drawn together, `[cell, label]`, also of cells without a label."""
        moments, kinds = self.moments, np.eye(self.images.labels)
        found = np.stack([drawn_together(moments, kind, moments.share @ kind) for kind in kinds], axis=1)
        known = moments.labels > 0
        middle = (found - moments.predicted)[known].mean(axis=0)
        return np.where(known[:, np.newaxis], found, moments.predicted + middle)

    def _learnt(self, labels: float) -> float:
        """What the unexplained variance is multiplied by with so many labels."""
        numbers = 2 * self.images.detectors * (self.images.classes + 1) * self.moments.uses_detectors
        worth = _LEARNT * numbers * (1 - self.unexplained)
        now = 1.0 if self.is_guess else 1 + worth / max(float(self.moments.labels.sum()), 1.0)
        return (1 + worth / max(labels, 1.0)) / now

    def _planned(self, labels: FloatArray, times: float) -> tuple[PartlyLabelled, CellMoments]:
        moments, size = self.moments, _times(self.moments.images, times)
        labels = np.minimum(labels, size)
        known = moments.labels > 0
        even = np.where(known, _dispersion(moments.labels, moments.images), 0)
        # Labels drawn with unequal chances keep what that costs or gains.
        cost = 1.0 if self.is_guess or not even.sum() else float(moments.dispersion[known].sum() / even.sum())
        weight = np.where(known, moments.freedom, 0)
        common = np.einsum("c,clm->lm", weight, moments.residual_variance) / max(weight.sum(), 1e-12)
        residual = np.where(known[:, np.newaxis, np.newaxis], moments.residual_variance, common)
        planned = replace(
            moments,
            share=self._together,
            # A prompt that shows no clear image now has no score then.
            label_share=np.where(known[:, np.newaxis], moments.label_share, self._together),
            residual_variance=min(self._learnt(float(labels.sum())), 1 / max(self.unexplained, 1e-6)) * residual,
            dispersion=cost * _dispersion(labels, size),
            images=size,
            labels=np.ceil(labels).astype(np.int64),
        )
        filled = size > 0
        chances = np.full(self.images.cells, 1.0)
        if (labels[filled] == 0).any():
            chances[:] = (labels[filled] > 0).mean()
        return replace(self.images, cell_probability=chances), planned

    def _planned_shares(self, moments: CellMoments, freedom: FloatArray) -> list[BoundedShares]:
        """Shares of the classes as they will scatter."""
        planned = class_shares(
            moments,
            classes=self.images.classes,
            about=self.about,
            planned_freedom=freedom,
        )
        clear = np.maximum(self.moments.predicted[:, : self.images.classes].sum(axis=1), _LEAST_CLEAR)
        found = []
        for place, (now, then) in enumerate(zip(self._shares, planned, strict=True)):
            expected = np.clip(self.moments.predicted[:, place] / clear, 0, 1)
            found.append(replace(then, value=_scattered(now, then, expected)))
        return found

    def _estimated(self, score: str, t2i_model: int, study: _Study) -> tuple[float, float]:
        images, moments, shares, freedom = study
        scopes = ScopeEstimates(images, moments)
        if score == "model_bias_score":
            found = scopes.unevenness(shares, self.confidence, self.seed, only=t2i_model)
        elif score == "mean_prompt_bias_score":
            found = signed(scopes.mean(shares[0], self.confidence))
        elif score == "prompt_bias_score":
            shape = (self.images.t2i_models, self.images.prompts)
            found = signed(of_cells(shares[0], moments, self.confidence, shape))
            widths = ((found.high - found.low) / 2).ravel()[self._chosen(t2i_model)]
            whole = float(np.nanmean(widths)) if (~np.isnan(widths)).any() else float("nan")
            return float("nan"), whole
        else:
            share = label_share(
                moments,
                int(score.removeprefix(LABEL_SHARE)),
                about=self.about,
                planned_freedom=freedom,
            )
            found = scopes.pooled(share, self.confidence)
        value, low, high = (float(each[t2i_model, 0]) for each in found[:3])
        return value, (high - low) / 2


def _scattered(now: BoundedShares, then: BoundedShares, expected: FloatArray) -> FloatArray:
    """The estimates at hand, moved to or from what was expected of them until they scatter as those to come."""
    known = ~np.isnan(now.value)
    variance = np.maximum(now.variance(now.pilot), _LEAST_VARIANCE)
    to_come = then.variance(then.pilot)
    weight = 1 / variance[known]
    off = (now.value - expected)[known]
    middle = float(np.average(off, weights=weight))
    excess = float((weight * (off - middle) ** 2).sum()) - (len(off) - 1)
    effective = weight.sum() - (weight**2).sum() / weight.sum()
    between = max(excess / effective, 0.0) if effective > 0 else 0.0
    scale = np.sqrt((between + to_come) / (between + variance))
    return np.where(known, expected + middle + scale * (now.value - expected - middle), then.value)


def _times(images: IntArray, times: float) -> IntArray:
    found: IntArray = np.rint(images * times).astype(np.int64)
    return found


def _dispersion(labels: FloatArray | IntArray, images: IntArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = np.where(labels > 0, np.maximum((1 - labels / images) / labels, 0), 0)
    return found
