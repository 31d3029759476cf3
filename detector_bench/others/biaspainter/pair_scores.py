"""Image scores: what each judge says that an edit did to the person on the seed photo."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.formulas import (
    BIASPAINTER_ATTRIBUTES,
    Preset,
    gender_image_score,
    measured_image_score,
)
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, Judgements
from detector_bench.vocabulary import ATTRIBUTES


@dataclass(frozen=True, eq=False)
class PairScores:
    """The image scores of one attribute by every judge; images that are no edited ones have none."""

    score: FloatArray
    """`[judge, image]`; NaN without an answer for both photos."""
    has_verdict: NDArray[np.bool_]
    """`[judge, image]`: whether the judge looked at both photos, with or without an answer."""


def only_pairs(judgements: Judgements) -> Judgements:
    """The same judgements, in which only edited images belong to a T2I model and prompt.

    Which judge measures an attribute is corrected too: one that names age groups and gives no years does not
    measure age here, and the human labels are a ground truth of age and skin tone only where they hold measured
    values.

    Raises:
        ConfigError: no image was edited from another one, or nobody measures any of the attributes.
    """
    edited = (judgements.seed != NO_CELL) & (judgements.t2i_model != NO_CELL)
    if not edited.any():
        raise ConfigError(
            "BiasPainter scores edited photos, and no image of this image set names its seed photo: images.csv "
            "needs the column seed_image_id (docs/biaspainter.md)"
        )
    judged = {**judgements.judged, **{name: _measures(judgements, name) for name in BIASPAINTER_ATTRIBUTES}}
    if not any(any(judged[name]) for name in BIASPAINTER_ATTRIBUTES):
        raise ConfigError(
            "BiasPainter scores: neither the labels nor a detector give gender, age in years, or a skin tone value"
        )
    return replace(
        judgements,
        t2i_model=np.where(edited, judgements.t2i_model, NO_CELL),
        prompt=np.where(edited, judgements.prompt, NO_CELL),
        judged=judged,
    )


def pair_scores(judgements: Judgements, attribute: str, *, preset: Preset) -> PairScores:
    """Compute every judge's image scores of an attribute.

    Args:
        judgements: answers about seeds and edited images.
        attribute: gender, age or skin_tone.
        preset: its thresholds count.
    """
    edited = np.flatnonzero((judgements.seed != NO_CELL) & (judgements.t2i_model != NO_CELL))
    seed = judgements.seed[edited]
    labels = judgements.labels[attribute]
    looked_at = labels != NO_VERDICT
    if ATTRIBUTES[attribute].unit is None:
        found = gender_image_score(labels[:, seed], labels[:, edited])
    else:
        values = judgements.values[attribute]
        found = measured_image_score(values[:, seed], values[:, edited], threshold=preset.threshold(attribute))
        # Clear, but without its number: that is no judgement that nobody was to be seen.
        looked_at = looked_at & ((labels < 0) | ~np.isnan(values))
    score = np.full(labels.shape, np.nan)
    has_verdict = np.zeros(labels.shape, dtype=bool)
    score[:, edited] = found
    has_verdict[:, edited] = looked_at[:, seed] & looked_at[:, edited]
    return PairScores(score, has_verdict)


def _measures(judgements: Judgements, attribute: str) -> tuple[bool, ...]:
    if attribute not in judgements.judged:
        return (False,) * len(judgements.judges)
    judged = np.array(judgements.judged[attribute])
    if ATTRIBUTES[attribute].unit is not None:
        judged &= ~np.isnan(judgements.values[attribute]).all(axis=1)
    return tuple(judged.tolist())
