"""What a study says: an image set, detectors, and how the ones are run over the other and evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from detector_bench.dataset.decoding import DEFAULT_MAX_PIXELS
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.evaluation.estimates import EstimateSettings
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.label_doubt import Estimate
from detector_bench.evaluation.more_labels import Tolerance
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.study_scores import AnyScoreSystem
from detector_bench.search.settings import SearchSettings
from detector_bench.study_file import DetectorEntry, full_entry, with_named_parts
from detector_bench.tables import TableStyle
from detector_bench.vocabulary import ATTRIBUTES, attributes_of

_LONGEST_TEXT = 2_000
"""Characters of a study's name or question, which pages and figures show."""

PLACE = "place"
"""In the context of a validation: where the study comes from."""


class StudyDeclaration(BaseModel):
    """All that a study may say, with the rules that it keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field(default="study", max_length=_LONGEST_TEXT)
    image_set: Path
    """Folder with images.csv, prompts.csv and, if there are any, labels.csv; in a study file, relative to that
    file. Its `attributes/*.yaml` say what may be judged besides the built-in attributes."""
    detectors: tuple[DetectorEntry, ...]
    attributes: tuple[str, ...] = ("gender",)
    """What is evaluated. Detectors may judge more; that is stored, too."""
    n_clear: Literal["detector", "human"] = "detector"
    """Denominator of a detector's prompt bias score: its own number of clear images, or the humans'. See Lyu 2025,
    formula 2, which reads as the former, while the size of Table 2's values fits the latter."""
    max_error_share: float = Field(default=DEFAULT_MAX_ERROR_SHARE, ge=0, le=1)
    """A detector that gave no verdict on more than this share of a T2I model's images has no number of it, and is
    neither ranked nor compared over all T2I models; see `metrics.failing`."""
    intervals: Intervals = Intervals()
    """How confidence intervals are found."""
    tolerance: Tolerance = Tolerance()
    """How far off a detector may be and still be called good enough in the report."""
    question: str = Field(default="", max_length=_LONGEST_TEXT)
    """What the study asks; the report says so."""
    author: str = Field(default="", max_length=_LONGEST_TEXT)
    """Who made the study; the report says so."""
    date: str = Field(default="", max_length=_LONGEST_TEXT)
    """When it was made, in the author's words."""
    display_names: dict[str, Annotated[str, Field(max_length=1000)]] = {}
    """What people read in place of the names of detectors and T2I models, in tables and figures; CSV files keep
    the plain names."""
    table_style: TableStyle = TableStyle()
    """Shades, marks and the like of the tables."""
    estimated_labels: Estimate = "none"
    """dawid_skene: `label_doubt.csv` also says what the numbers would be by the likeliest true labels, estimated
    from three or more annotators; see docs/uncertainty.md. The consensus stays the truth of all other tables."""
    scores: tuple[AnyScoreSystem, ...] = ()
    """Scores of other bias benchmarks, for the human labels and every detector: see `others`."""
    estimates: EstimateSettings = EstimateSettings()
    """How bias over all images is estimated where some have no label; see docs/audit.md."""
    searched: SearchSettings | None = Field(default=None, alias="search")
    """What `detector-bench search` combines, and by which error it chooses; see docs/search.md. In Python it has
    another name, as `search` is what a study does."""
    batch_size: int = Field(default=32, ge=1, le=4096)
    max_pixels: int = Field(default=DEFAULT_MAX_PIXELS, ge=1)
    """Larger images become errors instead of being decoded."""

    @model_validator(mode="before")
    @classmethod
    def _attributes_of_its_image_set(cls, values: Any) -> Any:
        # Before detectors and attributes are checked, which may be about them.
        if isinstance(values, Mapping) and isinstance(folder := values.get("image_set"), str | Path):
            attributes_of(Path(folder))
        return values

    @field_validator("detectors", "attributes", mode="before")
    @classmethod
    def _list_with_something_in_it(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError("a list is expected")
        if not value:
            raise ValueError("at least one is needed")
        return value

    @field_validator("detectors", mode="before")
    @classmethod
    def _as_in_a_study_file(cls, entries: Any) -> Any:
        """Take what a study file may list: a registered name, or a mapping with the parameters beside `kind`."""
        if not isinstance(entries, list | tuple):
            return entries
        return with_named_parts(
            [full_entry(entry, place=f"detectors.{number}") for number, entry in enumerate(entries)]
        )

    @field_validator("attributes")
    @classmethod
    def _attributes_are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ATTRIBUTES:
                raise ValueError(f"unknown attribute {name!r}: {nearest_hint(name, ATTRIBUTES)}")
            if names.count(name) > 1:
                raise ValueError(f"{name!r} stands here twice")
        return names

    @field_validator("detectors")
    @classmethod
    def _names_differ(cls, entries: tuple[DetectorEntry, ...]) -> tuple[DetectorEntry, ...]:
        # Without regard to case, as some file systems have none.
        names = Counter(entry.name.casefold() for entry in entries)
        for entry in entries:
            if names[entry.name.casefold()] > 1:
                raise ValueError(f"two detectors have the name {entry.name!r}: give each its own `name`")
        return entries

    @field_validator("display_names")
    @classmethod
    def _display_names_differ(cls, names: dict[str, str]) -> dict[str, str]:
        for plain, shown in names.items():
            if not shown.strip():
                raise ValueError(f"the display name of {plain!r} is empty")
            if list(names.values()).count(shown) > 1:
                raise ValueError(f"{shown!r} is the display name of two detectors or T2I models")
        return names

    @model_validator(mode="wrap")
    @classmethod
    def _mistakes_in_words(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> StudyDeclaration:
        try:
            return handler(data)
        except ValidationError as error:
            raise config_error_from(error, place=(info.context or {}).get(PLACE, "Study"), model=cls) from error

    def with_n_clear(self, n_clear: str) -> Self:
        """The same study with another denominator for detectors' prompt bias scores.

        Raises:
            ConfigError: neither "detector" nor "human".
        """
        if n_clear not in ("detector", "human"):
            raise ConfigError(f"n_clear is 'detector' or 'human'; got {n_clear!r}")
        return self.model_copy(update={"n_clear": n_clear})

    def with_estimated_labels(self, estimate: str) -> Self:
        """The same study, with or without numbers by estimated labels.

        Raises:
            ConfigError: neither "none" nor "dawid_skene".
        """
        if estimate not in get_args(Estimate):
            raise ConfigError(f"estimated_labels is 'none' or 'dawid_skene'; got {estimate!r}")
        return self.model_copy(update={"estimated_labels": estimate})

    def with_attributes(self, names: Collection[str]) -> Self:
        """The same study with some of its attributes, in the study's order.

        Raises:
            ConfigError: an attribute that the study does not have, or none.
        """
        for name in names:
            if name not in self.attributes:
                raise ConfigError(f"no attribute {name!r} in this study: {nearest_hint(name, self.attributes)}")
        if not names:
            raise ConfigError("no attribute of this study is left")
        return self.model_copy(update={"attributes": tuple(name for name in self.attributes if name in names)})

    def with_detectors(self, *, only: Collection[str] = (), without: Collection[str] = ()) -> Self:
        """The same study with some of its detectors, in the study's order.

        Args:
            only: the names to keep; empty keeps all.
            without: the names to leave out.

        Raises:
            ConfigError: a name that the study does not have, or no detector left.
        """
        known = [entry.name for entry in self.detectors]
        for name in (*only, *without):
            if name not in known:
                raise ConfigError(f"no detector {name!r} in this study: {nearest_hint(name, known)}")
        kept = [each for each in self.detectors if (not only or each.name in only) and each.name not in without]
        if not kept:
            raise ConfigError("no detector of this study is left")
        left_out = set(known) - {each.name for each in kept}
        names = {plain: shown for plain, shown in self.display_names.items() if plain not in left_out}
        return self.model_copy(update={"detectors": tuple(kept), "display_names": names})
