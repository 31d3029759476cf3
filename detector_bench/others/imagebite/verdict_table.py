"""Every verdict on its own: the long file `imagebite_verdicts.csv`, and how many of the findings survive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.intervals import Interval, wilson_interval
from detector_bench.others.imagebite.answers import OUTSIDE, UNANSWERED, UNKNOWN, CommunityAnswers, OpenPrompts
from detector_bench.others.imagebite.formulas import (
    KINDS,
    Verdicts,
    community_verdicts,
    mixture_of_prompts,
    verdict_survival,
)
from detector_bench.others.imagebite.requirements import Requirement
from detector_bench.others.judgements import Judgements
from detector_bench.vocabulary import ALL

VERDICTS_FILE = "imagebite_verdicts.csv"

VERDICT_COLUMNS = (
    "detector",
    "requirement",
    "ethical_concern",
    "attribute",
    "t2i_model",
    "prompt_id",
    "stated",
    "community",
    "expected",
    "delta",
    "threshold",
    "share",
    "ci_low",
    "ci_high",
    "images_identified",
    "images_outside",
    "images_unanswered",
    "images_no_verdict",
    "under_represented",
    "ex_nominated",
    "stereotyped",
    "survival",
    "survives",
)
"""One row per judge (`ground_truth` or a detector), T2I model, prompt and community of a requirement.

`share` is the community's share of `images_identified`, the images in one of the requirement's communities. The
others are of a class or an age in none of them (`images_outside`), filtered by the detector or low-quality to the
humans (`images_unanswered`), or not known at all: an error, not run, unlabelled, or without the age in years that
the requirement needs (`images_no_verdict`). `stated` is what the prompt itself states of the attribute, empty
where it is left open. The three verdicts are missing where something is stated, and where there is none.
`survival` is the share of draws in which the verdicts stay, and `survives` whether that is often enough; both are
missing for the ground truth, and without human labels.
"""


def verdict_table(
    judgements: Judgements,
    requirement: Requirement,
    *,
    level: float | None = 0.95,
    draws: int = 1000,
    seed: int = 0,
    survives_from: float = 0.95,
) -> pd.DataFrame:
    """All verdicts on one requirement, by judge, T2I model, prompt and community.

    Args:
        judgements: who judges what.
        requirement: what is expected.
        level: of Wilson's intervals; None: there are none.
        draws: for the survival, see `verdict_survival`.
        seed: equal seeds give equal numbers.
        survives_from: least survival of a verdict that survives.

    Returns:
        Columns as in `VERDICT_COLUMNS`. Judges that do not judge the attribute have no rows, nor have prompts of a
        T2I model without an image.
    """
    answers = CommunityAnswers.of(judgements, requirement)
    prompts = OpenPrompts.of(judgements, requirement.attribute)
    counts = answers.counts(judgements)
    communities = answers.communities
    verdicts = community_verdicts(
        counts[..., :communities],
        expected=requirement.expected,
        delta=requirement.delta,
        threshold=requirement.threshold,
        answerable=answers.answerable[:, np.newaxis, np.newaxis],
    )
    verdicts = verdicts._replace(judged=verdicts.judged & prompts.is_open[:, np.newaxis])
    identified = counts[..., :communities].sum(axis=-1)
    nothing = np.full(verdicts.share.shape, np.nan)
    interval = Interval(nothing, nothing)
    if level is not None:
        interval = wilson_interval(verdicts.share, identified[..., np.newaxis], level=level)
    survival = np.full(verdicts.share.shape, np.nan)
    survival[:, :, prompts.is_open] = _survival(
        judgements, requirement, answers, counts[:, :, prompts.is_open], draws=draws, seed=seed
    )
    there = (counts.sum(axis=-1) > 0) & np.array(judgements.judged[requirement.attribute])[:, None, None]
    judge, model, prompt = (np.repeat(axis, communities) for axis in np.nonzero(there))
    community = np.tile(np.arange(communities), int(there.sum()))
    at = (judge, model, prompt)
    everywhere = (*at, community)
    columns = {
        "detector": np.array(judgements.judges, dtype=object)[judge],
        "requirement": requirement.name,
        "ethical_concern": requirement.ethical_concern,
        "attribute": requirement.attribute,
        "t2i_model": np.array(judgements.t2i_models, dtype=object)[model],
        "prompt_id": np.array(judgements.prompt_ids, dtype=object)[prompt],
        "stated": prompts.stated[prompt],
        "community": np.array([each.name for each in requirement.communities], dtype=object)[community],
        "expected": requirement.expected[community],
        "delta": requirement.delta[community],
        "threshold": requirement.threshold,
        "share": verdicts.share[everywhere],
        "ci_low": interval.low[everywhere],
        "ci_high": interval.high[everywhere],
        "images_identified": identified[at],
        "images_outside": counts[..., communities + OUTSIDE][at],
        "images_unanswered": counts[..., communities + UNANSWERED][at],
        "images_no_verdict": counts[..., communities + UNKNOWN][at],
        **{name: _maybe(verdicts, name, everywhere) for name in KINDS},
        "survival": survival[everywhere],
        "survives": pd.array(survival[everywhere] >= survives_from, dtype="boolean"),
    }
    table = pd.DataFrame(columns)[list(VERDICT_COLUMNS)]
    table.loc[table["survival"].isna(), "survives"] = pd.NA
    return table


def _maybe(verdicts: Verdicts, name: str, at: tuple[NDArray[np.intp], ...]) -> Any:
    column = pd.array(getattr(verdicts, name)[at], dtype="boolean")
    column[~verdicts.judged[at]] = pd.NA
    return column


def _survival(
    judgements: Judgements,
    requirement: Requirement,
    answers: CommunityAnswers,
    counts: NDArray[np.int64],
    *,
    draws: int,
    seed: int,
) -> FloatArray:
    """`[judge, t2i_model, prompt, community]`; NaN for the ground truth and without human labels.

    Errors are learnt from all images, those of prompts that state a community too, which show the rare ones.

    Args:
        judgements: who judges what.
        requirement: what is expected.
        answers: to it, of all images.
        counts: images by answer, of the prompts that are judged.
        draws: as in `verdict_survival`.
        seed: likewise.
    """
    communities = answers.communities
    kinds = communities + UNKNOWN
    survival = np.full((*counts.shape[:-1], communities), np.nan)
    if not judgements.has_truth:
        return survival
    answered = counts[..., :kinds]
    placed = judgements.cell >= 0
    truth = answers.place[0]
    for judge in range(1, len(judgements.judges)):
        answer = answers.place[judge]
        both = placed & (truth < kinds) & (answer < kinds)
        if not both.any():
            continue
        confusion = np.zeros((communities + 1, kinds), dtype=np.int64)
        np.add.at(confusion, (np.minimum(truth[both], communities), answer[both]), 1)
        survival[judge] = verdict_survival(
            answered[judge],
            confusion,
            mixture=mixture_of_prompts(_true_counts(answered[0])),
            expected=requirement.expected,
            delta=requirement.delta,
            threshold=requirement.threshold,
            answerable=answers.answerable[judge],
            draws=draws,
            seed=seed,
        )
    return survival


def _true_counts(answered: NDArray[np.int64]) -> NDArray[np.int64]:
    """`[prompt of a T2I model, truth]`: outside and low-quality are one truth, none of the communities."""
    flat = answered.reshape(-1, answered.shape[-1])
    return np.concatenate([flat[:, :-2], flat[:, -2:].sum(axis=-1, keepdims=True)], axis=-1)


FINDING_COLUMNS = ("detector", "requirement", "t2i_model", "findings", "surviving")


def surviving_findings(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many findings (communities with any of the three verdicts) each judge has, and how many survive.

    Args:
        verdicts: columns as in `VERDICT_COLUMNS`.

    Returns:
        Columns `FINDING_COLUMNS`, one row per judge, requirement and T2I model, and per `all` of them; `surviving`
        is missing where no survival is known.
    """
    found = verdicts[list(KINDS)].fillna(value=False).any(axis=1)
    rows = verdicts.assign(
        findings=found.astype("Int64"),
        surviving=(found & verdicts["survives"]).astype("Int64").where(verdicts["survives"].notna()),
    )
    rows = pd.concat([rows.assign(t2i_model=ALL), rows])
    grouped = rows.groupby(list(FINDING_COLUMNS[:3]), sort=False)[["findings", "surviving"]]
    return grouped.sum(min_count=1).reset_index()
