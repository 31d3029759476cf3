"""What calibration does to one detector's scores, as rows: on the images that fitted it, and on other prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.estimation.calibration import JudgedScores, Losses, cross_fitted, losses
from detector_bench.estimation.promises import Unit, promises
from detector_bench.evaluation.judged_scores import ScoredImages
from detector_bench.evaluation.threshold_chooser import FOLDS, prompt_folds
from detector_bench.vocabulary.score_maps import FloatArray, Method

CALIBRATION_COLUMNS = (
    *("detector", "attribute", "method", "metric", "scores"),
    *("value", "ci_low", "ci_high", "n", "n_prompts"),
)
"""One row per number; `scores` is uncalibrated, in_sample, out_of_sample or, for the difference between the last
and the first, change."""

PROMISE_COLUMNS = (
    *("detector", "attribute", "unit", "error", "confidence", "threshold", "kept", "wrong", "n", "n_prompts"),
)
"""One row per promise; `threshold` is missing where nothing is promised."""

UNITS: tuple[Unit, ...] = ("prompt", "image")

_METRICS = {"log_loss": "log_loss", "brier": "brier_score", "calibration_error": "expected_calibration_error"}
_REPEATS = 5
_RESAMPLES = 2_000


def calibration_rows(
    scored: ScoredImages, *, detector: str, attribute: str, method: Method, level: float, seed: int
) -> pd.DataFrame:
    """Three losses of a detector's scores, before and after; columns as in `CALIBRATION_COLUMNS`.

    Out of sample: prompts are dealt into 5 parts, 5 times, and each part's images are calibrated by the other
    parts'. Intervals are percentiles over resampled prompts, with the score maps as they were fitted.

    Args:
        scored: the images.
        detector: its name.
        attribute: which one.
        method: see `estimation.calibration.fitted`.
        level: of the intervals.
        seed: of folds and resamples.

    Raises:
        ConfigError: the images are of one prompt only, so that no other could judge.
    """
    verdicts, random = scored.verdicts, np.random.default_rng(seed)
    prompts = verdicts.prompts
    if len(prompts) < 2:
        raise ConfigError(
            f"{detector!r} has scores of {attribute} on images of one prompt only: a calibration is judged on "
            "prompts that did not fit it"
        )
    found = cross_fitted(verdicts, method, fold_of_prompt=_dealt(scored, random))
    drawn = random.multinomial(len(prompts), np.full(len(prompts), 1 / len(prompts)), size=_RESAMPLES)
    # The first is the study itself.
    times = np.concatenate([np.ones((1, len(prompts))), drawn]).astype(np.float64)
    by_scores = {
        name: losses(getattr(found, name), verdicts, times=times, prompts=prompts) for name in found._fields
    }
    before, after = by_scores["uncalibrated"], by_scores["out_of_sample"]
    by_scores["change"] = Losses(*(new - old for new, old in zip(after, before, strict=True)))
    about = {"detector": detector, "attribute": attribute, "method": method}
    counts = {"n": len(verdicts), "n_prompts": len(prompts)}
    rows = [
        {**about, "metric": metric, "scores": scores, **_interval(getattr(own, name), level), **counts}
        for name, metric in _METRICS.items()
        for scores, own in by_scores.items()
    ]
    return pd.DataFrame(rows, columns=list(CALIBRATION_COLUMNS))


def _dealt(scored: ScoredImages, random: np.random.Generator) -> Any:
    """The part of each prompt of the image set, `[repeat, prompt]`; those without an image are in the first."""
    prompts = scored.verdicts.prompts
    folds = max(2, min(FOLDS, len(prompts) // 2))
    category = scored.index.scopes.category_of_prompt[prompts]
    dealt = np.zeros((_REPEATS, len(scored.index.prompt_ids)), dtype=np.intp)
    dealt[:, prompts] = prompt_folds(category, folds=folds, repeats=_REPEATS, random=random)
    return dealt


def _interval(values: FloatArray, level: float) -> dict[str, float]:
    low, high = np.quantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return {"value": float(values[0]), "ci_low": float(low), "ci_high": float(high)}


def promise_rows(verdicts: JudgedScores, *, detector: str, attribute: str, confidence: float) -> pd.DataFrame:
    """The thresholds that promise an error, for both units; columns as in `PROMISE_COLUMNS`.

    Args:
        verdicts: of labelled images.
        detector: its name.
        attribute: which one.
        confidence: see `estimation.promises.promises`.
    """
    rows = [
        {
            "detector": detector,
            "attribute": attribute,
            "unit": unit,
            "confidence": confidence,
            **promise._asdict(),
            "n": len(verdicts),
            "n_prompts": len(verdicts.prompts),
        }
        for unit in UNITS
        for promise in promises(verdicts, unit=unit, confidence=confidence)
    ]
    return pd.DataFrame(rows, columns=list(PROMISE_COLUMNS)).astype({"threshold": np.float64})
