"""Shares of cells with a variance for every value that the true share may have, and the intervals of that.

A share near 0 or 1 has an estimate of its variance that is too small exactly where it matters: five labels of one
class show none. So the variance of an estimate is taken as a function of the true share p,

    v(p) = dispersion * g * (a + b p (1 - p)) / c + e.

a and b are common to all cells: what remains after prediction of a binomial variance (a = 0, b = 1 without
detectors). g says how much more, or less, a cell's errors vary than is common at its share:
w s^2 c / (a + b r (1 - r)) + 1 - w, with s^2 their variance, r the pilot share, w = freedom / (freedom + 4); 1
without detectors. c is the share of the denominator: 1 for shares of all images, the share of clear images for
shares of classes, for which dispersion also grows by the second-order term of a ratio, and e stands for not
knowing c. About the T2I models p (1 - p) / (c N) is added. About the images, where some were set apart
(`images_set_apart`), p (1 - p) becomes q (1 - q), with p = a' + w q: a' is what they add to the share for sure, w
the weight of the others. A share below a' or above a' + w is impossible there, 0 and 1 often among them; were the
variance to vanish at these, the deconvolution would find prompts there. The interval holds every p that lies
within t standard errors at p itself: for labels alone and large populations it is Wilson's. docs/audit.md says how
often it held in simulated studies, by which the constants were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.working_model import CellMoments
from detector_bench.metrics.counts import FloatArray

About = Literal["images", "t2i_model"]
"""What an estimate is of: the images of the set, or what the T2I models would show with endlessly many."""

COMMON_FREEDOM = 4.0
"""Degrees of freedom that the common variance counts for beside a cell's own."""

OWN_LABELS = 4.0
"""So many labels of its own make a cell count half in the share of clear images that its score is divided by."""

_LEAST_CLEAR = 0.1
"""No score is divided by a smaller share of clear images."""
_SECOND_ORDER = 3.0
"""Times the squared coefficient of variation of its denominator: a ratio's variance beyond the first order."""
_ONE_SIDED = 0.36
"""Below this 4 p (1 - p), beyond shares of 0.1 and 0.9, a cell is near to one class."""
_LABELS_OF_END = 10.0
"""What the end of the line over all cells counts for beside the one-sided ones, in degrees of freedom."""
_LEAST_VARIANCE = 0.005
_MOST_OWN = 4.0
"""g lies between a quarter and this."""
_LABELS_OF_PRIOR = 5.0
"""What the part that detectors leave unexplained counts for as b, in degrees of freedom at `_TYPICAL_SPREAD`."""
_TYPICAL_SPREAD = 0.25


@dataclass(frozen=True, eq=False)
class BoundedShares:
    """Estimated shares of one kind, one for each cell."""

    value: FloatArray
    """`[cell]`: right on average, so that it can leave 0 to 1; NaN in a cell without a label."""
    pilot: FloatArray
    """`[cell]`: drawn towards what the detectors alone would say, within 0 to 1."""
    own_part: FloatArray
    """`[cell]`: the part of the variance that does not depend on p."""
    binomial_part: FloatArray
    """`[cell]`: what p (1 - p) is multiplied by."""
    grain: FloatArray
    """`[cell]`: what labels being counted in whole numbers adds to the variance: a twelfth of the squared step."""
    freedom: FloatArray
    """`[cell]`: degrees of freedom of the variance; infinite without detectors."""
    measured: FloatArray
    """`[cell]`: the variance of the estimate by the cell's own labels alone, for sums over cells; where it has
    none to compare, the common one."""
    measured_freedom: FloatArray
    """`[cell]`: degrees of freedom of `measured`."""
    certain: FloatArray = field(default_factory=lambda: np.zeros(1))
    """`[cell]`: a', what images that were set apart add to the share for sure."""
    open_part: FloatArray = field(default_factory=lambda: np.ones(1))
    """`[cell]`: w, the weight of all others; 0 where nothing is left open."""

    def variance(self, share: FloatArray) -> FloatArray:
        """Of the estimate, if `share` were true; broadcasts against `[cell]`."""
        among = among_the_others(share, self.certain, self.open_part)
        found: FloatArray = self.own_part + self.binomial_part * among * (1 - among)
        return found

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Limits within 0 to 1, `[cell]` each."""
        return quadratic_limits(
            self.value, self.own_part, self.binomial_part, t_quantile(confidence, self.freedom)
        )


def among_the_others(share: FloatArray, certain: FloatArray, open_part: FloatArray) -> FloatArray:
    """q of a share a' + w q, which is 0 to 1; without certain images the share itself."""
    others = np.divide(
        share - certain, open_part, out=np.zeros(np.broadcast(share, certain).shape), where=open_part > 0
    )
    found: FloatArray = np.clip(others, 0, 1)
    return found


def t_quantile(confidence: float, freedom: FloatArray) -> FloatArray:
    """How many standard errors an interval reaches to either side; the normal quantile for endless degrees of
    freedom."""
    # scipy.stats takes longer to import than an estimate takes.
    from scipy.special import stdtrit

    quantile: FloatArray = stdtrit(freedom, (1 + confidence) / 2)
    return quantile


def quadratic_limits(
    value: FloatArray, own: FloatArray, binomial: FloatArray, quantile: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Limits of the true share: both p with (value - p)^2 = t^2 (own + binomial p (1 - p)), a quadratic equation;
    cut off at 0 and 1."""
    square = quantile**2
    first, second = 1 + square * binomial, value + square * binomial / 2
    third = value**2 - square * own
    root = np.sqrt(np.maximum(second**2 - first * third, 0))
    low, high = (second - root) / first, (second + root) / first
    # Of an estimate that chance carried beyond 0 or 1, and that is cut off there.
    low, high = np.fmin(low, value), np.fmax(high, value)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def limits_below_one(
    value: FloatArray, error: FloatArray, quantile: FloatArray, *, least: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Limits of a score from 0 to 1 whose variance goes to 0 with its distance from 1, since what is near 1 is
    known from what is rare.

    Args:
        value: estimates.
        error: standard errors.
        quantile: how many of them an interval reaches.
        least: the least distance from 1 that is reckoned with.
    """
    scaled = (quantile * error) ** 2 / np.maximum(1 - value, least)
    middle = value - scaled / 2
    root = np.sqrt(np.maximum(middle**2 - value**2 + scaled, 0))
    return np.clip(middle - root, 0, 1), np.clip(middle + root, 0, 1)


def class_shares(
    moments: CellMoments, *, classes: int, about: About, planned_freedom: FloatArray | None = None
) -> list[BoundedShares]:
    """Shares of each class among the clear images of each cell.

    The estimate is one step from a pilot: r = r0 + (share of the class - r0 share of clear) / c, with r0 and c
    drawn towards the prediction in cells with few labels. It is the ratio of both shares where there are many, and
    does not explode where few images are clear. A cell of which no labelled image is clear has none.

    Args:
        moments: of the cells.
        classes: how many of the labels are classes.
        about: what the shares are of.
        planned_freedom: `[cell]`: degrees of freedom that the variances will have in a study that is planned;
            None: those of the moments.
    """
    clear = np.zeros(moments.share.shape[1])
    clear[:classes] = 1
    direct, some_clear = moments.share @ clear, moments.label_share @ clear > 0
    denominator = np.clip(drawn_together(moments, clear, direct), _LEAST_CLEAR, 1)
    doubt = moments.dispersion * _moderated(_form(moments.residual_variance, clear), moments.freedom)
    second_order = 1 + _SECOND_ORDER * doubt / denominator**2
    doubt = (doubt + (direct - denominator) ** 2) / denominator**2
    # Those that are clear for sure, which an uncertain denominator may fall short of.
    certain = moments.certain / np.maximum(denominator, moments.certain @ clear)[:, np.newaxis]
    open_part = np.maximum(1 - certain @ clear, 0)
    found = []
    for index in range(classes):
        kind = np.eye(len(clear))[index]
        pilot = np.clip(drawn_together(moments, kind, moments.share @ kind) / denominator, 0, 1)
        value = np.where(some_clear, pilot + (moments.share[:, index] - pilot * direct) / denominator, np.nan)
        forms = (kind - pilot[:, np.newaxis] * clear) / denominator[:, np.newaxis]
        found.append(
            _shares(
                moments,
                value,
                pilot,
                forms,
                denominator,
                about=about,
                planned_freedom=planned_freedom,
                certain=certain[:, index],
                open_part=open_part,
                further=(value - pilot) ** 2 * doubt,
                times=second_order,
            )
        )
    return found


def label_share(
    moments: CellMoments, label: int, *, about: About, planned_freedom: FloatArray | None = None
) -> BoundedShares:
    """Share of one label among all images of each cell; for the rest see `class_shares`."""
    kind = np.eye(moments.share.shape[1])[label]
    value = moments.share[:, label]
    pilot = np.clip(drawn_together(moments, kind, value), 0, 1)
    one = np.ones(len(value))
    return _shares(
        moments,
        value,
        pilot,
        np.broadcast_to(kind, moments.share.shape),
        one,
        about=about,
        planned_freedom=planned_freedom,
        certain=moments.certain[:, label],
        open_part=np.maximum(1 - moments.certain.sum(axis=1), 0),
    )


def _shares(
    moments: CellMoments,
    value: FloatArray,
    pilot: FloatArray,
    forms: FloatArray,
    denominator: FloatArray,
    *,
    about: About,
    planned_freedom: FloatArray | None,
    certain: FloatArray,
    open_part: FloatArray,
    further: FloatArray | float = 0.0,
    times: FloatArray | float = 1.0,
) -> BoundedShares:
    dispersion, freedom = moments.dispersion, moments.freedom
    if about == "t2i_model":  # which shows endlessly many others
        certain, open_part = np.zeros_like(certain), np.ones_like(open_part)
    among = among_the_others(pilot, certain, open_part)
    spread = among * (1 - among)
    forms = np.nan_to_num(forms)  # of cells without a label, which tell the others nothing
    residual = np.einsum("cl,clm,cm->c", forms, moments.residual_variance, forms)
    constant, slope, own_weight = 0.0, 1.0, np.zeros_like(freedom)
    if moments.uses_detectors:
        of_labels = np.einsum("cl,clm,cm->c", forms, moments.label_variance, forms)
        unexplained = min(float((freedom @ residual + 1) / (freedom @ of_labels + 1)), 1.0)
        predictions = np.einsum("cl,clm,cm->c", forms, moments.prediction_variance, forms)
        constant, slope = _common_variance(
            residual * denominator, predictions * denominator, spread, freedom, slope=unexplained
        )
        own_weight = freedom / (freedom + COMMON_FREEDOM)
    # Of a cell whose labels vary more, or less, than is common at its share.
    common = (constant + slope * spread) / denominator + _LEAST_VARIANCE
    own = own_weight * (residual + _LEAST_VARIANCE) / common + 1 - own_weight
    own = times * dispersion * np.clip(own, 1 / _MOST_OWN, _MOST_OWN) / denominator
    binomial = own * slope
    own = own * constant + further
    if about == "t2i_model":
        binomial = binomial + 1 / (np.maximum(moments.images, 1) * denominator)
    measured = times * dispersion * residual + further
    if about == "t2i_model":
        of_labels = np.einsum("cl,clm,cm->c", forms, moments.label_variance, forms)
        measured = measured + of_labels / np.maximum(moments.images, 1)
    # A label alone says nothing of the variance, and as it agrees with itself its share is no help.
    careful = (moments.labels * pilot + 1) / (moments.labels + 2)
    measured = np.where(freedom > 0, measured, own + binomial * careful * (1 - careful))
    if planned_freedom is not None:
        freedom = planned_freedom
    all_freedom = freedom + COMMON_FREEDOM if moments.uses_detectors else np.full_like(freedom, np.inf)
    grain = slope * dispersion / (12 * np.maximum(moments.labels, 1) * denominator**2)
    measured_freedom = np.maximum(freedom, 1)
    return BoundedShares(
        value, pilot, own, binomial, grain, all_freedom, measured, measured_freedom, certain, open_part
    )


def _common_variance(
    residual: FloatArray, of_prediction: FloatArray, spread: FloatArray, freedom: FloatArray, *, slope: float
) -> tuple[float, float]:
    """a and b, 0 or more, of residual = a + b p (1 - p), over the cells; `slope` is b where nothing tells it, and
    `spread` p (1 - p).

    In a cell of one class the labels are all alike, and what varies is the prediction: a is the variance of the
    predictions in cells that are near to that, or, where there are few, where it ends as p (1 - p) goes to 0; b is
    what remains of the errors' variance.
    """
    known = freedom > 0
    if not known.any():
        return 0.0, slope
    spread = np.nan_to_num(spread)
    residual, of_prediction = np.nan_to_num(residual), np.nan_to_num(of_prediction)
    end = _end_of_line(spread[known], of_prediction[known], freedom[known])
    one_sided = np.where(4 * spread < _ONE_SIDED, freedom, 0)
    constant = (one_sided @ of_prediction + _LABELS_OF_END * end) / (one_sided.sum() + _LABELS_OF_END)
    weight = freedom * spread
    above = float((weight * (residual - constant)).sum()) + _LABELS_OF_PRIOR * _TYPICAL_SPREAD**2 * slope
    return float(constant), max(
        above / (float((weight * spread).sum()) + _LABELS_OF_PRIOR * _TYPICAL_SPREAD**2), 0.0
    )


def _end_of_line(place: FloatArray, height: FloatArray, weight: FloatArray) -> float:
    """Where the line through heights that are 0 or more ends at place 0, neither it nor its slope below 0."""
    total = weight.sum()
    middle, level = weight @ place / total, weight @ height / total
    across = float(weight @ (place - middle) ** 2)
    slope = float(weight @ ((place - middle) * (height - level))) / across if across > 0 else 0.0
    return float(max(level - max(slope, 0.0) * middle, 0.0))


def drawn_together(moments: CellMoments, form: FloatArray, direct: FloatArray) -> FloatArray:
    """The cells' estimates drawn towards the prediction, the more the less is known of a cell (Fay and Herriot
    1979, the variance between cells by moments)."""
    known = ~np.isnan(direct)
    variance = moments.dispersion * _moderated(_form(moments.residual_variance, form), moments.freedom)
    off = (direct - moments.predicted @ form)[known]
    if not len(off):
        return direct
    middle = off.mean()
    between = max(float(((off - middle) ** 2).mean() - variance[known].mean() * (1 - 1 / len(off))), 0.0)
    own = np.divide(between, between + variance[known], out=np.ones_like(off), where=between + variance[known] > 0)
    labels = moments.labels[known]
    own = np.maximum(own, labels / (labels + OWN_LABELS))
    own[variance[known] == 0] = 1
    found = np.full(len(direct), np.nan)
    found[known] = (moments.predicted @ form)[known] + middle + own * (off - middle)
    return found


def _moderated(variance: FloatArray, freedom: FloatArray) -> FloatArray:
    """Drawn towards the mean over cells, so that a cell whose labels agree by chance is not taken for certain."""
    total = freedom.sum()
    mean = float((freedom * variance).sum() / total) if total else float(variance.mean())
    return (freedom * variance + OWN_LABELS * mean) / (freedom + OWN_LABELS)


def _form(matrices: FloatArray, form: FloatArray) -> FloatArray:
    found: NDArray[np.float64] = np.einsum("l,clm,m->c", form, matrices, form)
    return found
