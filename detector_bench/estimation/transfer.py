"""What human labels of a study's images would say, without any of them: from errors learnt in another study.

The assumption: the chance of all detectors' verdicts on an image, given its human label, is the same in both
studies, on average over prompts; single prompts may differ at random, as much as those of the other study do. How
frequent the labels are may differ, between studies and between prompts. No interval covers the assumption being
wrong; `estimation.likeness` and `estimation.refutation` can refute it, and nothing can confirm it.

A prompt's shares are M^-1 mean(q) over its images (`estimation.learnt_errors`), and its distance from the mean of
its T2I model is divided by 1 + b. Its variance is that of the noise of q over its images; T, what single prompts
differ by at random; and that of M and b over resampled prompts of the other study, which all prompts share. The
model bias score is freed of the first two by `estimation.unevenness`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import About, BoundedShares, quadratic_limits, t_quantile
from detector_bench.estimation.learnt_errors import RESAMPLES, LearntErrors
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.estimation.prediction_powered import Estimate, Estimates
from detector_bench.estimation.unevenness import unevenness
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.metrics.image_counts import LABEL_SHARE

_LEAST_CLEAR = 0.1
_OF_THE_MEAN = 5.0


def estimate_without_labels(
    images: PartlyLabelled,
    learnt: LearntErrors,
    *,
    about: About = "images",
    confidence: float = 0.95,
    between_prompts: bool = True,
    seed: int = 0,
) -> Estimates:
    """Estimate shares of labels and bias scores of all images from the detectors' verdicts alone.

    Args:
        images: with verdicts of the same detectors, in the same order, on the same classes; labels are not read.
        learnt: how the detectors err.
        about: see `prediction_powered.estimate`.
        confidence: of the intervals.
        between_prompts: False: as if errors were the same in all prompts, for comparison; intervals are then too
            narrow.
        seed: of the studies that are drawn for intervals of the model bias score.

    Returns:
        As `prediction_powered.estimate`; `n` is images (shares, prompts) or prompts (means), `n_left_out` images
        on which no detector has a verdict, or prompts of such images alone. Shares of `low_quality` and `others`
        are NaN where the other study had both: the detectors tell them only together. `explained` is NaN.
    """
    cells = _Cells.of(images, learnt, between_prompts=between_prompts)
    of_scopes: dict[str, Estimate] = {}
    of_prompts: dict[str, Estimate] = {}
    total = images.images_of_cell.astype(float)
    scopes = _Scopes(images, cells, confidence)
    for label in range(images.labels):
        form = cells.form_of(label)
        name = f"{LABEL_SHARE}{label}"
        share = cells.shares(form, cells.share @ form if form is not None else None, about=about)
        of_scopes[name] = scopes.mean(share, cells.used, total)
        of_prompts[name] = scopes.prompts(share)
    of_classes = [cells.among_clear(label, about=about) for label in range(images.classes)]
    if images.classes == SIGNED_CLASSES:
        of_prompts["prompt_bias_score"] = _signed(scopes.prompts(of_classes[0]))
        filled = (total > 0).astype(float)
        of_scopes["mean_prompt_bias_score"] = _signed(
            scopes.mean(of_classes[0], filled * (cells.used > 0), filled)
        )
    of_scopes["model_bias_score"] = scopes.unevenness(of_classes, seed)
    return Estimates(of_scopes, of_prompts, np.full(images.detectors, np.nan))


@dataclass(frozen=True, eq=False)
class _Share:
    """Estimated shares of one kind, one for each cell, with what their uncertainties have in common."""

    alone: BoundedShares
    """With the variances of each cell alone."""
    sampling: FloatArray
    """`[cell]`: variance over the cell's images."""
    between: FloatArray
    """`[cell]`: standard deviation that the T2I models' cells of one prompt have in common."""
    resampled: FloatArray
    """`[resample, cell]`: values by resampled errors."""


@dataclass(frozen=True, eq=False)
class _Cells:
    """The shares of all cells."""

    used: FloatArray
    """`[cell]`: images with a verdict."""
    share: FloatArray
    """`[cell, label]`: may leave 0 to 1; NaN in a cell without a verdict."""
    resampled: FloatArray
    """`[resample, cell, label]`."""
    sampling: FloatArray
    """`[cell, label, label]`: covariances over the cell's images."""
    between: FloatArray
    """`[label, label]`."""
    between_clear: FloatArray
    """`[class]`."""
    plausible: FloatArray
    """`[cell, label]`: within 0 to 1, drawn to the mean of the T2I model; what variances are computed at."""
    classes: int
    freedom: float
    unclear: int | None
    """The only unclear label that the other study had; None: both or neither."""

    @classmethod
    def of(cls, images: PartlyLabelled, learnt: LearntErrors, *, between_prompts: bool) -> _Cells:
        seen = (images.verdicts != images.classes + 1).any(axis=0)
        cell = images.cell[seen]
        used = np.bincount(cell, minlength=images.cells).astype(float)
        said = learnt.said(images.verdicts[:, seen])
        labels = said.shape[1]
        sums = [np.bincount(cell, of_label, minlength=images.cells) for of_label in said.T]
        with np.errstate(invalid="ignore"):
            mean: FloatArray = np.stack(sums, axis=1) / used[:, np.newaxis]
        narrowed = 1 / (1 + (learnt.spread if between_prompts else 0.0))
        share, middle = _narrowed(mean @ np.linalg.inv(learnt.mixing).T, used, images.t2i_models, narrowed)
        resampled = np.stack(
            [
                _narrowed(
                    mean @ np.linalg.inv(mixing).T, used, images.t2i_models, 1 / (1 + between_prompts * spread)
                )[0]
                for mixing, spread in zip(learnt.resampled_mixing, learnt.resampled_spread, strict=True)
            ]
        )
        weight = used[:, np.newaxis] / (used[:, np.newaxis] + _OF_THE_MEAN)
        plausible = np.clip(weight * np.nan_to_num(share) + (1 - weight) * middle, 0, 1)
        plausible /= np.maximum(plausible.sum(axis=1, keepdims=True), 1e-9)
        sampling = np.einsum("cl,lij->cij", plausible, learnt.noise) * narrowed**2
        return cls(
            used=used,
            share=share,
            resampled=resampled,
            sampling=sampling / np.maximum(used, 1)[:, np.newaxis, np.newaxis],
            between=learnt.between * narrowed**2 * between_prompts,
            between_clear=learnt.between_clear * narrowed**2 * between_prompts,
            plausible=plausible,
            classes=images.classes,
            freedom=learnt.freedom,
            unclear=learnt.unclear if labels > images.classes else None,
        )

    def form_of(self, label: int) -> FloatArray | None:
        """The label's share as a linear function of all shares; None if nothing tells it."""
        kinds: list[FloatArray] = list(np.eye(self.share.shape[1]))
        if label < self.classes:
            return kinds[label]
        return kinds[-1] if label == self.unclear else None

    def shares(self, form: FloatArray | None, value: FloatArray | None, *, about: About) -> _Share:
        """The share of a label among all images."""
        if form is None or value is None:
            nothing = np.full(len(self.used), np.nan)
            empty = BoundedShares(*[nothing] * 8)
            return _Share(empty, nothing, nothing, np.full((len(self.resampled), len(nothing)), np.nan))
        forms = np.broadcast_to(form, self.share.shape)
        return self._share(
            value,
            np.clip(value, 0, 1),
            forms=forms,
            resampled=self.resampled @ form,
            denominator=np.ones(len(value)),
            between=float(form @ self.between @ form),
            about=about,
        )

    def among_clear(self, label: int, *, about: About) -> _Share:
        """The share of a class among clear images."""
        clear = np.zeros(self.share.shape[1])
        clear[: self.classes] = 1

        kind = np.eye(len(clear))[label]
        denominator = np.maximum(self.drawn_together(clear), _LEAST_CLEAR)
        pilot = np.clip(self.drawn_together(kind) / denominator, 0, 1)
        forms = (kind - pilot[:, np.newaxis] * clear) / denominator[:, np.newaxis]

        def one_step(shares: FloatArray) -> FloatArray:
            """The ratio of both shares where the denominator is well known; never exploding where it is not."""
            found: FloatArray = pilot + np.einsum("...cl,cl->...c", shares, forms)
            return found

        return self._share(
            one_step(self.share),
            pilot,
            forms=forms,
            resampled=one_step(self.resampled),
            denominator=denominator,
            between=float(self.between_clear[label]),
            about=about,
        )

    def drawn_together(self, form: FloatArray) -> FloatArray:
        """A linear function of the shares, drawn to its mean over cells by as much as its variation is noise."""
        value = self.share @ form
        known = ~np.isnan(value)
        noise = np.einsum("l,clm,m->c", form, self.sampling + self.between, form)
        if not known.any():
            return value
        middle = float(value[known].mean())
        signal = max(float((value[known] - middle).var() - noise[known].mean()), 0.0)
        own = np.divide(signal, signal + noise, out=np.ones_like(noise), where=signal + noise > 0)
        found: FloatArray = middle + own * (np.where(known, value, middle) - middle)
        return found

    def _share(
        self,
        value: FloatArray,
        pilot: FloatArray,
        *,
        forms: FloatArray,
        resampled: FloatArray,
        denominator: FloatArray,
        between: float,
        about: About,
    ) -> _Share:
        sampling = np.einsum("cl,clm,cm->c", forms, self.sampling, forms)
        binomial = np.zeros(len(value))
        if about == "t2i_model":
            binomial = 1 / np.maximum(self.used * denominator, 1)
        own = sampling + between + resampled.var(axis=0)
        freedom = np.full(len(value), self.freedom)
        alone = BoundedShares(
            value=value,
            pilot=pilot,
            own_part=own,
            binomial_part=binomial,
            grain=np.zeros(len(value)),
            freedom=freedom,
            measured=own + binomial * pilot * (1 - pilot),
            measured_freedom=freedom,
        )
        return _Share(
            alone, sampling + binomial * pilot * (1 - pilot), np.full(len(value), np.sqrt(between)), resampled
        )


def _narrowed(
    share: FloatArray, used: FloatArray, t2i_models: int, factor: float
) -> tuple[FloatArray, FloatArray]:
    """Shares nearer to the mean of their T2I model, and these means, `[cell, label]`."""
    by_model = np.nan_to_num(share).reshape(t2i_models, -1, share.shape[1])
    weight = (used.reshape(t2i_models, -1, 1) > 0).astype(float)
    middle = (weight * by_model).sum(axis=1, keepdims=True) / np.maximum(weight.sum(axis=1, keepdims=True), 1)
    middles = np.broadcast_to(middle, by_model.shape).reshape(share.shape)
    return middles + (share - middles) * factor, middles


class _Scopes:
    """Means over the cells of each scope."""

    def __init__(self, images: PartlyLabelled, cells: _Cells, confidence: float) -> None:
        self._images, self._cells = images, cells
        self._shape = (images.t2i_models, images.prompts)
        self._quantile = float(t_quantile(confidence, np.array(cells.freedom)))
        self._confidence = confidence

    def _sums(self, values: FloatArray) -> FloatArray:
        by_model = values.reshape(*values.shape[:-1], *self._shape)
        found: FloatArray = self._images.scopes.sums(by_model, prompt_axis=-1)
        return found

    def mean(self, share: _Share, weight: FloatArray, total: FloatArray) -> Estimate:
        """Weighted means over the cells.

        Args:
            share: of each cell.
            weight: `[cell]`; 0 where there is no verdict.
            total: what the weights would be if all images had one.
        """
        used = np.where(np.isnan(share.alone.value), 0, weight)
        sums = self._sums(used)
        value = divide(self._sums(np.nan_to_num(used * share.alone.value)), sums)
        variance = divide(self._sums(np.nan_to_num(used**2 * share.sampling)), sums**2)
        variance += divide(self._between(np.nan_to_num(used * share.between)), sums**2)
        resampled = np.nan_to_num(used * share.resampled)
        means = np.stack([divide(self._sums(each), sums) for each in resampled])
        variance += ((means - means.mean(axis=0)) ** 2).mean(axis=0)
        low, high = quadratic_limits(value, variance, np.zeros_like(value), np.full_like(value, self._quantile))
        number = sums.astype(np.int64)
        return Estimate(np.clip(value, 0, 1), low, high, number, self._sums(total).astype(np.int64) - number)

    def _between(self, values: FloatArray) -> FloatArray:
        """Sums of squares over prompts, the T2I models' cells of a prompt having the same deviation."""
        by_model = values.reshape(self._shape)
        apart = self._images.scopes.sums(by_model**2, prompt_axis=-1)
        together = self._images.scopes.sums(by_model.sum(axis=0, keepdims=True) ** 2, prompt_axis=-1)
        apart[0] = together[0]
        return np.asarray(apart, dtype=np.float64)

    def prompts(self, share: _Share) -> Estimate:
        """Each cell alone."""
        low, high = share.alone.interval(self._confidence)
        known = ~np.isnan(share.alone.value)
        number = np.where(known, self._cells.used, 0).astype(np.int64)
        limits = (np.where(known, each, np.nan) for each in (low, high))
        arrays = (np.clip(share.alone.value, 0, 1), *limits, number, self._images.images_of_cell - number)
        return Estimate(*(array.reshape(self._shape) for array in arrays))

    def unevenness(self, shares: list[_Share], seed: int) -> Estimate:
        """The model bias score of each scope."""
        # The uncertainty that all cells have in common makes no prompt look more uneven than another.
        alone = [replace(each.alone, own_part=each.alone.own_part - each.resampled.var(axis=0)) for each in shares]
        filled = (self._images.images_of_cell > 0).astype(float)
        known = ~np.isnan(shares[0].alone.value) & (self._cells.used > 0)
        models, prompts = np.divmod(np.arange(self._images.cells), self._images.prompts)
        categories = self._images.scopes.category_of_prompt[prompts]
        number = self._sums(known.astype(float)).astype(np.int64)
        value, half = np.full(number.shape, np.nan), np.full(number.shape, np.nan)
        for model, category in np.ndindex(*number.shape):
            chosen = known & ((model == 0) | (models == model - 1))
            chosen &= (category == 0) | (categories == category - 1)
            found = unevenness(alone, chosen, seed=seed)
            if np.isnan(found.value):
                continue
            value[model, category] = found.value
            common = self._common(shares, chosen)
            half[model, category] = self._quantile * np.hypot(found.standard_error, common)
        limits = (np.clip(value - half, 0, 1), np.clip(value + half, 0, 1))
        return Estimate(value, *limits, number, self._sums(filled).astype(np.int64) - number)

    @staticmethod
    def _common(shares: list[_Share], chosen: NDArray[np.bool_]) -> float:
        """Standard deviation of the model bias score over resampled errors."""
        classes = len(shares)
        total = np.zeros(RESAMPLES)
        for each in shares:
            moved = each.alone.pilot[chosen] + each.resampled[:, chosen] - each.alone.value[chosen]
            total += np.abs(np.clip(moved, 0, 1) - 1 / classes).mean(axis=1)
        return float(total.std()) / (2 * (1 - 1 / classes))


def _signed(share: Estimate) -> Estimate:
    """The balance of both classes, from -1 to 1, of the share of the first."""
    return share._replace(value=2 * share.value - 1, low=2 * share.low - 1, high=2 * share.high - 1)
