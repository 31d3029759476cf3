"""What detectors' verdicts tell about human labels, and the estimate that does not depend on the answer being
right.

A linear working model predicts the label of every image from all detectors' verdicts. The mean prediction over all
images of a cell, plus the mean error of the prediction over its labelled images, estimates the share of each label
in the cell: prediction-powered inference, known in survey statistics as the generalised regression estimator.
Whatever the working model, the estimate is right on average over draws of the labels; a model that predicts well
makes it precise. Coefficients are those that leave the least variance within cells (for one detector and one cell:
the power tuning of PPI++, Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453; several detectors are several
control variates). Each label's prediction comes from a model that never saw its cell (cross-fitting: Zrnic and
Candes 2024, arXiv 2309.16598), and a ridge penalty chosen on cells left out makes a useless detector as good as
none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.partly_labelled import IntArray, PartlyLabelled
from detector_bench.metrics.counts import FloatArray

FOLDS = 10
"""In how many parts cells are divided for cross-fitting."""

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Ridge penalties, in labelled images."""

LEAST_EXPLAINED = 0.05
"""Part of the labels' variance within cells that detectors have to explain on cells that the model has not seen,
or else the estimate is that of labels alone."""

_FEWEST_PROMPTS = 4
"""Of fewer prompts images are divided instead of cells."""


@dataclass(frozen=True, eq=False)
class CellMoments:
    """Estimated shares of the labels among all images of each cell, and how they vary."""

    share: FloatArray
    """`[cell, label]`: estimates, which may leave 0 to 1; NaN in a cell without a label."""
    label_share: FloatArray
    """`[cell, label]`: among the labelled images alone; 0 in a cell without one."""
    predicted: FloatArray
    """`[cell, label]`: mean predictions without the correction by the cell's own labels, up to a constant."""
    residual_variance: FloatArray
    """`[cell, label, label]`: covariances within the cell of the errors of prediction; of cells with one label
    those between them, for each T2I model, which are rather too large; 0 where there is nothing to compare."""
    prediction_variance: FloatArray
    """`[cell, label, label]`: of the predictions: what the errors of prediction vary in a cell of equal labels."""
    label_variance: FloatArray
    """`[cell, label, label]`: of the labels themselves."""
    dispersion: FloatArray
    """`[cell]`: what `residual_variance` is multiplied by for the variance of `share` over draws of the labels;
    for equal chances (1 - n/N)/n."""
    images: IntArray
    """`[cell]`."""
    labels: IntArray
    """`[cell]`."""
    freedom: FloatArray
    """`[cell]`: degrees of freedom of the variances: labels less one. Cells with one label lend each other
    theirs."""
    certain: FloatArray
    """`[cell, label]`: the part of `share` that does not vary over draws: of images that were certain to be
    labelled where others of their cell were drawn."""
    uses_detectors: bool
    """Whether predictions took part: not where they would leave the variance as it is."""
    explained: FloatArray
    """`[detector]`: the part of the variance of the labels within cells that a detector's verdicts explain, given
    the others; on cells that the model has not seen. The sum can fall below 0 by chance."""


def cell_moments(
    images: PartlyLabelled, *, use_detectors: bool = True, coefficients: FloatArray | None = None
) -> CellMoments:
    """Estimate the share of each label in each cell.

    Args:
        images: some of them labelled.
        use_detectors: False: from the labels alone.
        coefficients: of a working model that is known already, `[feature, label]`; features are, for each
            detector, its verdicts (the classes, filtered), then the same times the evenness of the cell. None:
            fitted.
    """
    predictors = None
    if coefficients is not None or (use_detectors and images.detectors):
        plain = _verdict_shares(images).reshape(images.cells, -1)
        predictors = Predictors.of(
            _features(images, images.labelled), plain, _evenness(images), images, detectors=images.detectors
        )
    outcome = np.eye(images.labels)[images.truth[images.labelled]]
    moments = moments_of(images, outcome, predictors, coefficients=coefficients)
    return moments if predictors else replace(moments, explained=np.zeros(images.detectors))


@dataclass(frozen=True, eq=False)
class Predictors:
    """What is known of all images and predicts what is known of labelled ones."""

    of_labelled: FloatArray
    """`[labelled image, feature]`: the second half is the first times the evenness of the image's cell."""
    of_cells: FloatArray
    """`[cell, feature]`: their means over all images."""
    detectors: int
    """How many: each half holds the same number of features of each, one detector after the other."""

    @classmethod
    def of(
        cls,
        features: FloatArray,
        means: FloatArray,
        evenness: FloatArray,
        images: PartlyLabelled,
        *,
        detectors: int,
    ) -> Predictors:
        """Add the features times the evenness of the cell, since a verdict says less about an image where all
        images are alike.

        Args:
            features: `[labelled image, feature]`, in the order of `images.labelled`.
            means: `[cell, feature]`, over all images.
            evenness: `[cell]`.
            images: whose they are.
            detectors: how many share the features.
        """
        of_image = evenness[images.cell[images.labelled], np.newaxis]
        return cls(
            np.concatenate([features, features * of_image], axis=1),
            np.concatenate([means, means * evenness[:, np.newaxis]], axis=1),
            detectors,
        )


def moments_of(
    images: PartlyLabelled,
    outcome: FloatArray,
    predictors: Predictors | None,
    *,
    coefficients: FloatArray | None = None,
) -> CellMoments:
    """Estimate the mean of any numbers in each cell, as `cell_moments` does those of the labels.

    Args:
        images: some of them labelled; `truth` says which, `verdicts` are not looked at.
        outcome: `[labelled image, column]`, in the order of `images.labelled`; columns stand in the labels' place.
        predictors: None: from the labels alone.
        coefficients: of a working model that is known already, `[feature, column]`; None: fitted.
    """
    sample, columns = _Sample.of(images), outcome.shape[1]
    explained = np.zeros(0 if predictors is None else predictors.detectors)
    predicted, error = np.zeros((images.cells, columns)), outcome
    if predictors is not None and (coefficients is not None or len(sample.place)):
        if coefficients is None:
            by_fold, explained = _coefficients(sample, outcome, predictors)
        else:
            by_fold, sample = coefficients[np.newaxis], replace(sample, fold=np.zeros_like(sample.fold))
        error = outcome - np.einsum("if,ifl->il", predictors.of_labelled, by_fold[sample.fold])
        # Of a cell in several folds each model counts as the labels that it predicts.
        share_of_fold = sample.mean_of_cell(np.eye(len(by_fold))[sample.fold])
        share_of_fold[images.labels_of_cell == 0] = 1 / len(by_fold)
        predicted = np.einsum("ck,cf,kfl->cl", share_of_fold, predictors.of_cells, by_fold, optimize=True)
        # Labelled images by the model that did not see them, so that all errors cancel where all are labelled.
        mixed = np.einsum(
            "ik,if,kfl->il", share_of_fold[sample.cell], predictors.of_labelled, by_fold, optimize=True
        )
        own = _sums(outcome - error - mixed, sample.cell, images.cells)
        predicted += own / np.maximum(images.images_of_cell, 1)[:, np.newaxis]
    share = predicted + sample.mean_of_cell(error)
    share[images.labels_of_cell == 0] = np.nan
    return CellMoments(
        share=share,
        label_share=sample.mean_of_cell(outcome),
        predicted=predicted,
        residual_variance=sample.variance_within(error),
        prediction_variance=sample.variance_within(outcome - error),
        label_variance=sample.variance_within(outcome),
        dispersion=sample.dispersion,
        images=images.images_of_cell,
        labels=images.labels_of_cell,
        freedom=sample.freedom,
        certain=sample.certain_part(outcome),
        uses_detectors=bool(predicted.any()),
        explained=explained,
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """The labelled images, by cell."""

    place: IntArray
    cell: IntArray
    weight: FloatArray
    """Inverse chances, adding up to 1 in each cell."""
    variance_weight: FloatArray
    """What a squared deviation counts for in the variance over draws, adding up to 1 in each cell."""
    dispersion: FloatArray
    """`[cell]`."""
    group: NDArray[np.intp]
    """`[labelled image]`: those that are compared with each other: of a cell, or, for each T2I model, of all cells
    with one label."""
    group_size: NDArray[np.intp]
    """`[labelled image]`: of those that tell how labels vary."""
    tells: NDArray[np.bool_]
    """`[labelled image]`: whether it tells how labels vary: not one that was certain to be labelled where others
    of its cell were drawn, as these alone vary from draw to draw."""
    fold: NDArray[np.intp]

    @classmethod
    def of(cls, images: PartlyLabelled) -> _Sample:
        place = images.labelled
        cell, labels = images.cell[place], images.labels_of_cell
        chance = images.probability[place]
        weight: FloatArray = 1 / chance
        weight /= np.bincount(cell, weight, minlength=images.cells)[cell]
        part = (1 - chance) * weight**2
        dispersion: FloatArray = np.bincount(cell, part, minlength=images.cells).astype(np.float64)
        by_chance = chance < 1
        tells = by_chance | (np.bincount(cell[by_chance], minlength=images.cells) == 0)[cell]
        even = 1 / np.maximum(labels[cell], 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance_weight = np.where(dispersion[cell] > 0, part / dispersion[cell], even)
        prompts = np.unique(cell % images.prompts)
        if len(prompts) >= _FEWEST_PROMPTS:
            fold = np.searchsorted(prompts, cell % images.prompts) % FOLDS
        else:
            first = np.searchsorted(cell, cell)
            fold = (np.arange(len(cell)) - first) % FOLDS
        _, folds = np.unique(fold, return_inverse=True)
        telling = np.bincount(cell[tells], minlength=images.cells)
        together = np.where(telling[cell] > 1, cell, images.cells + cell // images.prompts)
        _, group = np.unique(together, return_inverse=True)
        size = np.bincount(group[tells], minlength=int(group.max(initial=-1)) + 1)
        return cls(
            place,
            cell.astype(np.int64, copy=False),
            weight,
            variance_weight,
            dispersion,
            group,
            size[group],
            tells,
            folds,
        )

    @property
    def freedom(self) -> FloatArray:
        """`[cell]`."""
        part = np.where(self.tells, (self.group_size - 1) / self.group_size, 0)
        return np.bincount(self.cell, part, minlength=len(self.dispersion)).astype(np.float64)

    @property
    def spread(self) -> FloatArray:
        """What the square of a deviation from the group's mean counts for in the variance within its cell."""
        others = np.maximum(self.group_size - 1, 1)
        measured = self.tells & (self.group_size > 1)
        spread: FloatArray = np.where(measured, self.variance_weight * self.group_size / others, 0)
        return spread

    def mean_of_cell(self, values: FloatArray) -> FloatArray:
        """Weighted means of the labelled images, `[cell, value]`; 0 in a cell without one."""
        return _sums(values * self.weight[:, np.newaxis], self.cell, len(self.dispersion))

    def certain_part(self, values: FloatArray) -> FloatArray:
        """What the images that do not tell add to `mean_of_cell`."""
        weight = np.where(self.tells, 0, self.weight)
        return _sums(values * weight[:, np.newaxis], self.cell, len(self.dispersion))

    def within(self, values: FloatArray) -> FloatArray:
        """Deviations from the mean of the group."""
        weight = np.where(self.tells, self.weight, 0)
        sums = _sums(values * weight[:, np.newaxis], self.group, int(self.group.max(initial=-1)) + 1)
        weights = np.bincount(self.group, weight)
        deviations: FloatArray = values - (sums / weights[:, np.newaxis])[self.group]
        return deviations

    def variance_within(self, values: FloatArray) -> FloatArray:
        """Covariances within each cell, unbiased for equal chances: `[cell, value, value]`."""
        deviation = self.within(values)
        weighted = deviation * self.spread[:, np.newaxis]
        products = weighted[:, :, np.newaxis] * deviation[:, np.newaxis, :]
        of_cell = _sums(products.reshape(len(values), -1), self.cell, len(self.dispersion))
        of_cell = of_cell.reshape(len(self.dispersion), values.shape[1], values.shape[1])
        # What one image lies off the mean of many says little about its own cell.
        telling = np.bincount(self.cell[self.tells], minlength=len(self.dispersion))
        alone = np.flatnonzero(telling == 1)
        group_of_cell = np.zeros(len(self.dispersion), dtype=np.intp)
        group_of_cell[self.cell] = self.group
        of_group = _sums(products.reshape(len(values), -1), self.group, int(self.group.max(initial=-1)) + 1)
        size = np.bincount(self.group[self.tells], minlength=len(of_group))
        means = (of_group / np.maximum(size, 1)[:, np.newaxis]).reshape(-1, *of_cell.shape[1:])
        of_cell[alone] = means[group_of_cell[alone]]
        return of_cell


def _sums(values: FloatArray, place: IntArray, size: int) -> FloatArray:
    """Sums of the rows by place: `[size, ...]`."""
    found = np.zeros((size, *values.shape[1:]))
    np.add.at(found, place, values)
    return found


def _features(images: PartlyLabelled, place: IntArray) -> FloatArray:
    """One for each detector and verdict, a missing verdict being none of them: `[image, feature]`."""
    verdicts = images.verdicts[:, place].astype(np.int64)
    one_hot = (verdicts[:, :, np.newaxis] == np.arange(images.classes + 1)).transpose(1, 0, 2)
    features: FloatArray = one_hot.reshape(len(place), -1).astype(np.float64)
    return features


def _verdict_shares(images: PartlyLabelled) -> FloatArray:
    """`[cell, detector, verdict]`, missing verdicts left out of the numerator alone."""
    kinds = images.classes + 2
    size = images.cells * kinds
    counts = np.empty((images.cells, images.detectors, kinds))
    for detector, verdicts in enumerate(images.verdicts):
        counted = np.bincount(images.cell * kinds + verdicts, minlength=size)
        counts[:, detector] = counted.reshape(images.cells, kinds)
    shares: FloatArray = counts[:, :, :-1] / np.maximum(images.images_of_cell, 1)[:, np.newaxis, np.newaxis]
    return shares


def _evenness(images: PartlyLabelled) -> FloatArray:
    """How evenly the detectors' classes are spread in each cell, from -1 (one class only) to 0 (all equally)."""
    classes = _verdict_shares(images)[:, :, : images.classes].sum(axis=1)
    total = classes.sum(axis=1, keepdims=True)
    shares = np.divide(classes, total, out=np.full_like(classes, 1 / images.classes), where=total > 0)
    evenness: FloatArray = (1 - (shares**2).sum(axis=1)) / (1 - 1 / images.classes) - 1
    return evenness


def _coefficients(sample: _Sample, outcome: FloatArray, predictors: Predictors) -> tuple[FloatArray, FloatArray]:
    """`[fold, feature, label]`: the coefficients that were found without the fold; and what detectors explain."""
    folds, columns = int(sample.fold.max()) + 1, outcome.shape[1]
    deviation, target = sample.within(predictors.of_labelled), sample.within(outcome)
    # On average an image counts as one, which the penalties rely on.
    spread = sample.spread * len(sample.place) / max(len(np.unique(sample.cell)), 1)
    weighted = deviation * spread[:, np.newaxis]
    products = np.stack(
        [weighted[sample.fold == fold].T @ deviation[sample.fold == fold] for fold in range(folds)]
    )
    targets = np.stack([weighted[sample.fold == fold].T @ target[sample.fold == fold] for fold in range(folds)])
    products, targets = products.sum(axis=0) - products, targets.sum(axis=0) - targets
    features = products.shape[-1]
    # Detectors have to earn their place, as choosing among models lets the best look better than it is.
    total = float((spread[:, np.newaxis] * target**2).sum())
    best, least = np.zeros((folds, features, columns)), (1 - LEAST_EXPLAINED) * total
    for used in (features // 2, features):
        for penalty in PENALTIES:
            ridge = penalty * np.eye(used)
            found = np.zeros_like(best)
            found[:, :used] = np.linalg.solve(products[:, :used, :used] + ridge, targets[:, :used])
            error = target - np.einsum("if,ifl->il", deviation, found[sample.fold])
            variance = float((spread[:, np.newaxis] * error**2).sum())
            if variance < least:
                best, least = found, variance
    terms = deviation[:, :, np.newaxis] * best[sample.fold]
    by_detector = terms.reshape(len(deviation), 2, predictors.detectors, -1, columns).sum(axis=(1, 3))
    explained = np.einsum("i,idl,il->d", spread, by_detector, target) / (total or np.nan)
    return best, explained
