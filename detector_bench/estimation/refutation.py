"""Can the errors that were learnt in one study be those of another? Tests that refute it, and never confirm it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from detector_bench.estimation.learnt_errors import LearntErrors
from detector_bench.estimation.likeness import adjusted_p_values, by_prompt
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.joint_verdicts import Codes

_LEAST_VARIANCE = 1e-4
_LEAST_ERROR = 1e-9


def verdicts_refute(
    learnt: LearntErrors, study: PartlyLabelled, images: PartlyLabelled, *, seed: int = 0
) -> float:
    """Can the verdicts here be those of the errors learnt there, whatever the labels are? A p-value.

    If P(verdicts | label) is the same, every share of verdicts, and of images on which two detectors agree, is a
    mixture of its shares given the labels. There are more such shares than labels, so that the mixture which fits
    best need not fit. No other test is possible without labels, and this one cannot see errors that keep to such
    mixtures: a large p-value confirms nothing.

    Returns:
        The chance of a misfit as clear as this, were the assumption true; NaN with fewer than four prompts in a
        study, and where any verdicts are a mixture, as those of one detector on two classes are.
    """
    place, labels = study.labelled, learnt.mixing.shape[1]
    place = place[np.minimum(study.truth[place], study.classes) < labels]
    label = np.minimum(study.truth[place], study.classes)
    weight = 1 / study.probability[place]
    number = np.bincount(study.cell[place], minlength=study.cells)
    weight *= (number / np.maximum(np.bincount(study.cell[place], weight, minlength=study.cells), 1e-12))[
        study.cell[place]
    ]
    there, here = _signs(study.verdicts[:, place], study.classes), _signs(images.verdicts, images.classes)
    total = np.bincount(label, weight, minlength=labels)
    given = np.stack([(weight * (label == each)) @ there / total[each] for each in range(labels)], axis=1)
    mean = here.mean(axis=0)
    variance = (there - given[:, label].T).var(axis=0)
    kept = variance > _LEAST_VARIANCE
    there, here, given, mean = there[:, kept], here[:, kept], given[kept], mean[kept]
    # The shares of the labels that fit best add up to 1: the last is what the others leave.
    design = (given[:, :-1] - given[:, -1:]) / variance[kept, np.newaxis] ** 0.5
    scale = variance[kept] ** 0.5
    away = np.eye(len(mean)) - design @ np.linalg.pinv(design)
    shares = np.linalg.pinv(design) @ ((mean - given[:, -1]) / scale)
    shares = np.append(shares, 1 - shares.sum())
    misfit = away @ ((mean - given @ shares) / scale)
    of_study = -(shares[label] * weight / total[label])[:, np.newaxis] * (there - given[:, label].T)
    of_here = (here - mean) / len(here)
    prompts = (study.cell[place] % study.prompts, images.cell % images.prompts)
    deviations = [
        by_prompt(each / scale, prompt) @ away.T for each, prompt in zip((of_study, of_here), prompts, strict=True)
    ]
    p_values = adjusted_p_values(misfit, deviations, seed=seed)
    return float(np.nanmin(p_values)) if not np.isnan(p_values).all() else float("nan")


def labels_refute(learnt: LearntErrors, images: PartlyLabelled) -> float:
    """Do the few labels that there are here contradict the errors learnt there? A p-value.

    For each T2I model and label the estimated share among the labelled images is compared with the true one; the
    error counts what single prompts may differ by at random.

    Returns:
        The least of the p-values times their number (Bonferroni), at most 1; NaN without a label.
    """
    from scipy.special import stdtr

    place = images.labelled
    labels = learnt.mixing.shape[1]
    if not len(place):
        return float("nan")
    label, cell = np.minimum(images.truth[place], images.classes), images.cell[place]
    known = label < labels  # of unclear images nothing may have been learnt
    place, label, cell = place[known], label[known], cell[known]
    said = learnt.said(images.verdicts[:, place])
    one_hot = np.eye(labels)[label]
    p_values = []
    for model in range(images.t2i_models):
        own = cell // images.prompts == model
        number = int(own.sum())
        if not number:
            continue
        mean = said[own].mean(axis=0)
        off = np.linalg.solve(learnt.mixing, mean) - one_hot[own].mean(axis=0)
        resampled = np.linalg.solve(
            learnt.resampled_mixing,
            np.broadcast_to(mean[:, np.newaxis], (len(learnt.resampled_mixing), labels, 1)),
        )
        variance = np.einsum("k,kll->l", one_hot[own].sum(axis=0), learnt.noise) / number**2
        of_prompt = np.bincount(cell[own] % images.prompts) / number
        variance = variance + (of_prompt**2).sum() * np.diag(learnt.between) + resampled[..., 0].var(axis=0)
        error = np.sqrt(np.maximum(variance, _LEAST_ERROR))
        p_values += list(2 * stdtr(learnt.freedom, -np.abs(off) / error))
    return float(min(1.0, min(p_values, default=np.nan) * len(p_values)))


def _signs(verdicts: Codes, classes: int) -> FloatArray:
    """What is compared of each image: every detector's verdict, and which two detectors agree, `[image, sign]`."""
    one_hot = (
        (verdicts[:, :, np.newaxis] == np.arange(classes + 2)).transpose(1, 0, 2).reshape(verdicts.shape[1], -1)
    )
    agree = [verdicts[one] == verdicts[other] for one, other in combinations(range(len(verdicts)), 2)]
    return np.concatenate([one_hot, *(each[:, np.newaxis] for each in agree)], axis=1).astype(np.float64)
