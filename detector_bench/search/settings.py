"""What a search is asked for: the section `search` of a study file, or a file of its own."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import nearest_hint

SearchedError = Literal["prompt_bias_error", "prompt_bias_score_difference", "accuracy", "f1"]
"""By the name of its metric, an error to choose by: of accuracy and f1, what they lack to 1."""

EnsembleKind = Literal["majority", "weighted", "stacking"]

DEFAULT_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)

AS_IT_IS = "as_it_is"
"""The part that changes nothing: the classifier's own filters, crop, prompts."""

_PART_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class SearchedEnsemble(Declaration):
    """Detectors that vote, the best of each classifier, chosen and weighed on the choosing prompts alone."""

    kind: EnsembleKind
    members: int = Field(default=3, ge=2, le=20)
    """How many: the best composition of each of the best classifiers."""
    ridge: float = Field(default=1.0, gt=0)
    """Of stacking: how strongly its coefficients are held near 0, in images."""

    @property
    def name(self) -> str:
        """As tables call it."""
        ridge = f"-ridge{self.ridge:g}" if self.kind == "stacking" and self.ridge != 1 else ""
        return f"{self.kind}-of-{self.members}{ridge}"


class SearchSettings(Declaration):
    """What competes, by which error it is chosen, and how the choice is judged.

    Parts are laid over a classifier's parameters, mappings key by key, as with `extends`.
    """

    attribute: str | None = None
    """What is judged; None: the study's first attribute."""
    choose_by: SearchedError | dict[SearchedError, float] = "prompt_bias_score_difference"
    """The error to make small, or weights of several, which are added up. In a sum `prompt_bias_error` counts by
    its square."""
    classifiers: tuple[str | dict[str, Any], ...] | None = None
    """Names of the study's detectors, or entries as `detectors` has them; None: all detectors of the study."""
    filters: dict[str, list[Any] | dict[str, Any] | None] | None = None
    """By name, the list of filters; null: the classifier's own; a mapping `{parameters: ...}`: any parameters.
    None: the classifiers' own, and every list of filters that a detector of the study has."""
    crops: dict[str, dict[str, Any] | None] = Field(default={AS_IT_IS: None})
    """By name, what is laid over `crop`; null: the classifier's own; `{parameters: ...}`: any parameters."""
    prompts: dict[str, dict[str, Any] | None] = Field(default={AS_IT_IS: None})
    """By name, the prompt of each class; null: the classifier's own; `{parameters: ...}`: any parameters."""
    thresholds: tuple[float, ...] = DEFAULT_THRESHOLDS
    """In the place of a classifier's `min_score`, for classifiers that have one; besides its own."""
    ensembles: tuple[SearchedEnsemble, ...] = ()
    compare_with: tuple[str, ...] | None = None
    """Detectors of the study that the search is compared with one by one, besides the best single one; None: those
    of the kind `clip_enhance`."""
    least_kept: float = Field(default=0.5, ge=0, le=1)
    """What keeps less than this share of the images that humans call clear does not compete: of few images any
    error can be made small."""
    parts: int = Field(default=5, ge=2, le=20)
    """Into how many parts prompts are dealt: all but one choose, the one judges, in turn."""
    repeats: int = Field(default=100, ge=1, le=10_000)
    """How often prompts are dealt anew."""
    seed: int = Field(default=0, ge=0)
    level: float = Field(default=0.95, gt=0.5, lt=1)
    """Of intervals and tests."""
    limit: int = Field(default=10_000, ge=1)
    """The most compositions that are accepted."""

    @field_validator("choose_by", mode="before")
    @classmethod
    def _known_errors(cls, given: Any) -> Any:
        known = get_args(SearchedError)
        for name in given if isinstance(given, dict) else [given]:
            if name not in known:
                raise ValueError(f"unknown error {name!r}: {nearest_hint(str(name), known)}")
        return given

    @field_validator("filters", "crops", "prompts")
    @classmethod
    def _named_parts(cls, parts: dict[str, Any] | None) -> dict[str, Any] | None:
        if parts is not None and not parts:
            raise ValueError(
                "it is empty, so that nothing is left to be combined; null as a part keeps what is there"
            )
        for name in parts or ():
            if not re.match(_PART_NAME, name):
                raise ValueError(f"the name {name!r} of a part (accepted: letters, digits, `.`, `_` and `-`)")
        return parts

    @field_validator("thresholds")
    @classmethod
    def _ascending_shares(cls, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        for each in thresholds:
            if not 0 <= each <= 1:
                raise ValueError(f"the threshold {each:g} (accepted: 0 to 1)")
        if any(low >= high for low, high in pairwise(thresholds)):
            raise ValueError("thresholds must ascend")
        return thresholds

    @field_validator("classifiers", "compare_with")
    @classmethod
    def _not_empty(cls, names: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if names is not None and not names:
            raise ValueError("the list is empty; leave the key out for the default")
        return names

    @model_validator(mode="after")
    def _sensible(self) -> SearchSettings:
        if not all(np.isfinite(weight) and weight > 0 for weight in self.weights.values()) or not self.weights:
            raise ValueError(f"choose_by: weights above 0 of {', '.join(get_args(SearchedError))}")
        parts = [
            name for each in (self.filters, self.crops, self.prompts) for name in each or () if name != AS_IT_IS
        ]
        if repeated := sorted({name for name in parts if parts.count(name) > 1}):
            raise ValueError(f"two parts are called {repeated[0]!r}: names of compositions are made of theirs")
        names = [each.name for each in self.ensembles]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"ensembles: {repeated[0]!r} stands here twice")
        return self

    @property
    def weights(self) -> dict[SearchedError, float]:
        """The errors, and what each counts for."""
        return self.choose_by if isinstance(self.choose_by, dict) else {self.choose_by: 1.0}
