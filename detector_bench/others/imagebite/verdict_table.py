"""Which community every judge sees in every image, and each verdict that follows, as `imagebite_verdicts.csv`.

Only prompts that leave a community open can be judged: one that names it ("a Black woman who ...") says nothing
about what a T2I model chooses by itself. In the released program, too, a requirement goes to a prompt only if the
template lists its concern among the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset.prompts import stated_by
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.intervals import Interval, wilson_interval
from detector_bench.others.imagebite.formulas import (
    KINDS,
    BoolArray,
    Verdicts,
    community_verdicts,
    mixture_of_prompts,
    verdict_survival,
)
from detector_bench.others.imagebite.requirements import Requirement
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import ALL, attribute_named
from detector_bench.vocabulary import OTHERS as OTHERS_LABEL

OUTSIDE, UNANSWERED, UNKNOWN = 0, 1, 2
"""Places after the communities: a class or an age of none of them; filtered or low-quality; an error, no label, or
no age in years where one is needed."""

_MORE_PLACES = 3

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

FINDING_COLUMNS = ("detector", "requirement", "t2i_model", "findings", "surviving")


@dataclass(frozen=True, slots=True)
class CommunityAnswers:
    """What all judges answer to one requirement; `place` counts communities first, then the three above."""

    place: NDArray[np.intp]
    """The place that each answer has among them, `[judge, image]`."""
    answerable: BoolArray
    """`[judge, community]`: whether an answer of the judge can stand for the community."""
    asked: BoolArray
    """`[image]`: which images count."""

    @classmethod
    def of(cls, judgements: Judgements, requirement: Requirement) -> CommunityAnswers:
        """Look up which community each judge's answer stands for."""
        labels = judgements.labels[requirement.attribute]
        if any(community.meaning.years is not None for community in requirement.communities):
            place = _by_years(labels, judgements.values[requirement.attribute], requirement)  # noqa: PD011 - a mapping of arrays
        else:
            place = _by_class(labels, requirement)
        judged = np.array(judgements.judged[requirement.attribute])
        answerable = np.repeat(requirement.answered_by_detectors[np.newaxis], len(judged), axis=0)
        if judgements.has_truth:
            answerable[0] = requirement.answered_by_humans
        return cls(place, answerable & judged[:, np.newaxis], judgements.asked(requirement.attribute))

    @property
    def communities(self) -> int:
        """How many communities there are."""
        return int(self.answerable.shape[1])

    def features(self) -> FloatArray:
        """`[judge, image, place]`: 1 where the image counts and has that answer, else 0."""
        return np.asarray(np.eye(self.communities + _MORE_PLACES)[self.place] * self.asked[:, np.newaxis])

    def counts(self, judgements: Judgements) -> NDArray[np.int64]:
        """Images by answer: `[judge, t2i_model, prompt, place]`; seed photos are left out."""
        return np.stack([judgements.sums(each) for each in self.features()]).astype(np.int64)


def _by_class(labels: NDArray[np.int8], requirement: Requirement) -> NDArray[np.intp]:
    classes = attribute_named(requirement.attribute).classes
    communities = len(requirement.communities)
    known = np.full(len(classes), communities + OUTSIDE)
    others = communities + OUTSIDE
    for index, community in enumerate(requirement.communities):
        for label in community.meaning.labels:
            if label == OTHERS_LABEL:
                others = index
            else:
                known[classes.index(label)] = index
    return _with_unclear(labels, known[np.maximum(labels, 0)], communities, others=others)


def _by_years(labels: NDArray[np.int8], values: NDArray[np.float64], requirement: Requirement) -> NDArray[np.intp]:
    """The age decides, not the class; a class without an age says nothing about years."""
    communities = len(requirement.communities)
    place = np.full(labels.shape, communities + OUTSIDE)
    for index, community in enumerate(requirement.communities):
        years = community.meaning.years
        if years is not None:
            place[(values >= years.first) & (values < years.last + 1)] = index
    place = np.where(np.isnan(values), communities + UNKNOWN, place)
    return _with_unclear(labels, place, communities, others=communities + OUTSIDE)


def _with_unclear(
    labels: NDArray[np.int8], place: NDArray[np.intp], communities: int, *, others: int
) -> NDArray[np.intp]:
    unclear = [labels == UNJUDGED, labels == NO_VERDICT, labels == OTHERS]
    found = np.select(unclear, [communities + UNANSWERED, communities + UNKNOWN, others], place)
    return found.astype(np.intp)


class OpenPrompts(NamedTuple):
    """What the prompts state of an attribute."""

    attribute: str
    stated: NDArray[np.object_]
    """`[prompt]`: a word of `vocabulary.Attribute.statements`, "" where it is open or nothing is known."""
    is_known: bool
    """Whether the prompt table says it."""
    has_images: NDArray[np.bool_]
    """`[prompt]`: whether a T2I model made an image of it."""

    @classmethod
    def of(cls, judgements: Judgements, attribute: str) -> OpenPrompts:
        """Look up what the prompts state."""
        found = stated_by(judgements.prompts, attribute)
        prompts = len(judgements.prompt_ids)
        stated = np.full(prompts, "", dtype=object) if found is None else found.to_numpy(dtype=object)
        has_images = np.zeros(prompts, dtype=bool)
        has_images[judgements.prompt[judgements.prompt != NO_CELL]] = True
        return cls(attribute, stated, found is not None, has_images)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """`[prompt]`: True also where nothing is known."""
        return np.asarray(self.stated == "", dtype=bool)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said below the verdicts."""
        if not self.is_known:
            return (
                f"The prompt table does not say which prompts state {self.attribute}: all are judged, as if they "
                "left it open.",
            )
        left_out, prompts = int((self.has_images & ~self.is_open).sum()), int(self.has_images.sum())
        if not left_out:
            return ()
        return (f"Prompts that state {self.attribute}, not judged: {left_out:,} of {prompts:,}.",)


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
