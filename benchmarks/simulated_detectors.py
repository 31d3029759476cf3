"""Detectors and T2I models with known errors, for the benchmarks that ask how often a conclusion is right."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_bench.installation import resource
from detector_bench.metrics import JointVerdicts, Scopes

Floats = NDArray[np.float64]

LOW_QUALITY = 0.14
"""Share of the images that no human can judge."""

COMMON = 0.5
"""Share of the variance of an image's difficulty that all detectors have in common."""


@dataclass(frozen=True)
class Detector:
    """One detector, by the shares of images of each class; the same in all prompts."""

    recall: tuple[float, float]
    """Clear men and women that are kept."""
    wrong: tuple[float, float]
    """Kept clear men and women who are taken for the other."""
    keeps: float = 0.3
    """Low-quality images that are kept, half of them named a man."""

    @property
    def confusion(self) -> Floats:
        """Chance of each verdict by truth, `[man, woman, low quality; man, woman, filtered]`."""
        (men, women), (men_wrong, women_wrong) = self.recall, self.wrong
        return np.array(
            [
                [men * (1 - men_wrong), men * men_wrong, 1 - men],
                [women * women_wrong, women * (1 - women_wrong), 1 - women],
                [self.keeps / 2, self.keeps / 2, 1 - self.keeps],
            ]
        )


class PopulationErrors(NamedTuple):
    """What endless images of the same prompts would show."""

    prompt_bias_error: float
    model_bias_score_error: float


def shares_of_men(truth: str, prompts: int) -> Floats:
    """Share of men in each prompt: `fair`, or `lyu` for SDXL's scores of Lyu 2025 (Table 7), evenly taken."""
    if truth == "fair":
        return np.full(prompts, 0.5)
    scores = _published_scores()
    return (1 + scores[np.linspace(0, len(scores) - 1, prompts).astype(int)]) / 2


@lru_cache
def _published_scores() -> Floats:
    import pandas as pd

    table = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))
    return np.sort(table["sdxl"].to_numpy(dtype=np.float64))


def truth_shares(men: Floats) -> Floats:
    """Shares of men, women and low-quality images in each prompt, `[prompt, 3]`."""
    clear = np.stack([men, 1 - men], axis=-1) * (1 - LOW_QUALITY)
    return np.concatenate([clear, np.full((len(men), 1), LOW_QUALITY)], axis=-1)


def verdict_shares(detector: Detector, men: Floats) -> Floats:
    """Chance of each truth and verdict in each prompt, `[prompt, 3, 3]`."""
    return truth_shares(men)[:, :, np.newaxis] * detector.confusion


def population_errors(detector: Detector, men: Floats) -> PopulationErrors:
    """Exactly, from the chances."""
    cells = verdict_shares(detector, men)
    reported, actual = (
        (each[:, 0] - each[:, 1]) / each.sum(axis=1)
        for each in (cells[:, :, :2].sum(axis=1), cells[:, :2].sum(axis=2))
    )
    return PopulationErrors(
        float(np.sqrt(np.mean((reported - actual) ** 2))), float(np.mean(np.abs(reported) - np.abs(actual)))
    )


def model_bias_score_difference(detector: Detector, men: Floats, images: int) -> float:
    """Reported minus actual model bias score as they are on average at so many images per prompt."""
    cells = verdict_shares(detector, men)
    return _mean_score(cells[:, :, :2].sum(axis=1), images) - _mean_score(cells[:, :2].sum(axis=2), images)


def _mean_score(men_and_women: Floats, images: int) -> float:
    from scipy.stats import binom

    kept, men = men_and_women.sum(axis=1), men_and_women[:, 0] / men_and_women.sum(axis=1)
    total, chance = np.zeros(len(men)), np.zeros(len(men))
    for number in range(1, images + 1):
        count = np.arange(number + 1)
        score = (binom.pmf(count, number, men[:, np.newaxis]) * np.abs(2 * count - number)).sum(axis=1) / number
        of_number = binom.pmf(number, images, kept)
        total, chance = total + of_number * score, chance + of_number
    return float(np.mean(total / chance))


def simulate(
    detectors: tuple[Detector, ...], men: Floats, *, images: int | NDArray[np.int64], random: np.random.Generator
) -> JointVerdicts:
    """One study of one T2I model: difficult images are so for all detectors.

    Args:
        detectors: one or several.
        men: share of men in each prompt.
        images: of each prompt.
        random: of this study.
    """
    from scipy.special import ndtr

    pair = np.repeat(np.arange(len(men)), images)
    size = pair.size
    limits = truth_shares(men).cumsum(axis=1)[pair, :2]
    truth = (random.random(size)[:, np.newaxis] >= limits).sum(axis=1)
    difficulty = random.standard_normal(size)
    verdicts = np.empty((len(detectors), size), dtype=np.int8)
    # Errors first: a hard image is named wrongly, a less hard one is filtered. A low-quality one is kept.
    order = np.array([[1, 2, 0], [0, 2, 1], [0, 1, 2]])
    for number, detector in enumerate(detectors):
        own = np.sqrt(COMMON) * difficulty + np.sqrt(1 - COMMON) * random.standard_normal(size)
        chances = np.take_along_axis(detector.confusion, order, axis=1).cumsum(axis=1)[truth, :2]
        verdicts[number] = order[truth, (ndtr(own)[:, np.newaxis] >= chances).sum(axis=1)]
    scopes = Scopes.of_prompts(["all of them"] * len(men))
    return JointVerdicts(truth.astype(np.int8), verdicts, pair, 1, scopes, 2)


_Study = TypeVar("_Study")


def simulated(
    study: Callable[[np.random.SeedSequence], _Study], *, studies: int, workers: int, seed: int = 0
) -> list[_Study]:
    """The same study again and again, with other seeds."""
    seeds = np.random.SeedSequence(seed).spawn(studies)
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(study, seeds, chunksize=5))
