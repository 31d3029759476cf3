"""ImageBiTe's settings in a study file, and its scores as rows of the metric table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.imagebite.formulas import (
    AGREEMENT,
    KINDS,
    Verdicts,
    community_verdicts,
    same_verdicts,
    share_of_verdicts,
)
from detector_bench.others.imagebite.requirements import Requirement, RequirementsCheck, read_requirements
from detector_bench.others.imagebite.verdict_table import (
    VERDICT_COLUMNS,
    VERDICTS_FILE,
    CommunityAnswers,
    OpenPrompts,
    verdict_table,
)
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_system import Computed, ScoreSystem, score_rows
from detector_bench.vocabulary.columns import METRIC_COLUMNS


class ImageBiTe(ScoreSystem):
    """Verdicts against requirements: `{system: imagebite, requirements: input.json}`."""

    system: Literal["imagebite"]
    requirements: Path
    """The file of requirements, ImageBiTe's JSON input."""
    name: str = ""
    """Stands before the names of the requirements, so that files with equal names go into one study."""
    communities: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """By community our classes, one or a list, or `others`; an empty list: no answer stands for it. For those that
    `communities.COMMUNITIES` lacks, and in its place."""
    concerns: Mapping[str, str] = Field(default_factory=dict)
    """By ethical concern our attribute, beside those of `communities.CONCERNS`."""
    draws: int = Field(default=1000, ge=100, le=100_000)
    """How many draws the survival of verdicts is found with."""
    seed: int = Field(default=0, ge=0)
    survives_from: float = Field(default=0.95, ge=0, le=1)
    """Least survival of a verdict that survives."""

    @field_validator("communities", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: [labels] if isinstance(labels, str) else labels for name, labels in value.items()}

    def read(self) -> RequirementsCheck:
        """Read the requirements from their file.

        Raises:
            ConfigError: there is no such file, or a name in the settings is unknown.
            DataError: there is a mistake in the file.
        """
        found = read_requirements(self.requirements, communities=self.communities, concerns=self.concerns)
        if not self.name:
            return found
        named = (replace(each, name=f"{self.name}: {each.name}") for each in found.requirements)
        return replace(found, requirements=tuple(named))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the requirements; reads the file."""
        return tuple(dict.fromkeys(requirement.attribute for requirement in self.read().requirements))

    @property
    def variant(self) -> str:
        """All requirements; each row bears the name of its own."""
        return ", ".join(self.definitions)

    @property
    def definitions(self) -> tuple[str, ...]:
        """The requirements' names, of which each row bears one."""
        return tuple(requirement.name for requirement in self.read().requirements)

    def notes(self, judgements: Judgements) -> dict[str, tuple[str, ...]]:
        """By requirement: shares that do not add up to 1, prompts that are not judged, and the like."""
        check = self.read()
        return {
            each.name: (*check.notes[each.name], *OpenPrompts.of(judgements, each.attribute).notes)
            for each in check.requirements
        }

    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Shares of the verdicts of each kind, and of those on which detector and humans agree.

        `variant` is the requirement's name. Prompts that state its attribute take no part. Of a verdict on a
        community in a prompt, n counts those that could be given; see `formulas.share_of_verdicts`.
        """
        blocks = [
            _requirement_rows(
                judgements.on_prompts(OpenPrompts.of(judgements, requirement.attribute).is_open),
                requirement,
                intervals,
            )
            for requirement in self.read().requirements
        ]
        return pd.concat(blocks, ignore_index=True)[list(METRIC_COLUMNS)]

    def files(self, judgements: Judgements, intervals: Intervals) -> dict[str, pd.DataFrame]:
        """The verdicts as `imagebite_verdicts.csv`."""
        return {VERDICTS_FILE: self.verdicts(judgements, intervals)}

    def verdicts(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Every single verdict, columns as in `VERDICT_COLUMNS`."""
        tables = [
            verdict_table(
                judgements,
                requirement,
                level=None if intervals.method == "none" else intervals.level,
                draws=self.draws,
                seed=self.seed,
                survives_from=self.survives_from,
            )
            for requirement in self.read().requirements
        ]
        return pd.concat(tables, ignore_index=True)[list(VERDICT_COLUMNS)]


def _unknown(each: Computed) -> Computed:
    return each._replace(score=each.score._replace(value=np.full_like(each.score.value, np.nan)))


def _requirement_rows(judgements: Judgements, requirement: Requirement, intervals: Intervals) -> pd.DataFrame:
    answers = CommunityAnswers.of(judgements, requirement)
    answerable = answers.answerable[:, np.newaxis, np.newaxis]
    communities, scopes = answers.communities, judgements.scopes
    truth_knows = judgements.has_truth and judgements.judged[requirement.attribute][0]

    def verdicts_of(sums: FloatArray, judges: slice) -> Verdicts:
        return community_verdicts(
            sums[..., judges, :, :, :communities],
            expected=requirement.expected,
            delta=requirement.delta,
            threshold=requirement.threshold,
            answerable=answerable[judges],
        )

    def scores(sums: FloatArray) -> list[Computed]:
        verdicts = verdicts_of(sums, slice(None))
        made = sums.sum(axis=-1) > 0
        found = [
            Computed(
                requirement.attribute,
                f"imagebite_{kind}",
                share_of_verdicts(getattr(verdicts, kind), judged=verdicts.judged, made=made, scopes=scopes),
                deviates=True,
                has_estimated_interval=False,
            )
            for kind in KINDS
        ]
        if judgements.drawn is not None:
            # That nobody was shown in any image is what no sample of them tells.
            found[KINDS.index("ex_nominated")] = _unknown(found[KINDS.index("ex_nominated")])
        if truth_knows:
            truth = verdicts_of(sums, slice(0, 1))
            both = verdicts.judged & truth.judged
            score = share_of_verdicts(same_verdicts(verdicts, truth), judged=both, made=made, scopes=scopes)
            found.append(Computed(requirement.attribute, AGREEMENT, score, detectors_only=True))
        return found

    return score_rows(judgements, answers.features(), scores, variant=requirement.name, intervals=intervals)
