"""Finds numbers in a long metric table, and those by other labels than the consensus; computes none."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, product
from typing import NamedTuple, Self, TypeVar

import pandas as pd

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import (
    DEFAULT_MAX_ERROR_SHARE,
    LABEL_SHARE,
    NClear,
    could_not_run,
    is_withheld,
    metric_info,
)
from detector_bench.metrics.catalogue import Better
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH, LOW_QUALITY, OTHERS
from detector_bench.vocabulary.columns import DETECTOR_ONLY, ESTIMATES, METRIC_COLUMNS

_RECALL = "recall_"


@dataclass(frozen=True, slots=True)
class Number:
    """One row of a metric table: the value, what it rests on and what it leaves out."""

    value: float = math.nan
    n: float = 0
    n_left_out: float = 0
    ci_low: float = math.nan
    ci_high: float = math.nan

    @property
    def missing(self) -> bool:
        """Whether the value is NaN: its denominator is empty, or there is no such row."""
        return math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are numbers."""
        return math.isfinite(self.ci_low) and math.isfinite(self.ci_high)


def no_labels(attribute: str) -> str:
    """What is said wherever human labels are needed and there are none."""
    words = ATTRIBUTES[attribute].words if attribute in ATTRIBUTES else attribute
    return (
        f"no image of {words} has a label, so nothing says how right the detectors are: `detector-bench sample` "
        "draws which images to label, `detector-bench label` asks for them"
    )


NOT_EVALUATED = Number()
"""Stands for a row that the metric table does not have."""

_Key = tuple[str, str, str, str, str]
"""Detector, T2I model, category or prompt, metric, `n_clear`."""

_KEY = ("detector", "t2i_model", "category", "metric", "n_clear")
_NUMBER = ("value", "n", "n_left_out", "ci_low", "ci_high")


@dataclass(frozen=True)
class MetricLookup:
    """The rows of one attribute, found by name."""

    attribute: str
    detectors: tuple[str, ...]
    """In the order of the metric table, without the ground truth."""
    t2i_models: tuple[str, ...]
    """In the order of the metric table, without "all"."""
    categories: tuple[str, ...]
    """The prompts' categories, in the order of the metric table, without "all"."""
    labels: tuple[str, ...]
    """What humans can say: the classes, then low_quality and others where the table has them."""
    n_clear: NClear
    """Whose count of clear images divides the detectors' prompt bias scores; "detector" if the table has both."""
    max_error_share: float
    """See `metrics.failing`."""
    _numbers: Mapping[_Key, Number]
    """Those that cover all prompts of a category, or everything."""
    _of_prompts: pd.DataFrame
    """The rows of single prompts: there are many, and few tables show them."""
    variant: str = ""
    """Which of `columns.ESTIMATES` the numbers are; empty: those that rest on labelled images."""

    @classmethod
    def of_table(
        cls,
        metrics: pd.DataFrame,
        *,
        attribute: str,
        max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
        variant: str = "",
    ) -> Self:
        """Take one attribute's rows of a metric table.

        Args:
            metrics: columns as in `vocabulary.columns.METRIC_COLUMNS`.
            attribute: the one to tabulate.
            max_error_share: see `metrics.failing`; 0 to 1.
            variant: one of `vocabulary.columns.ESTIMATES`; empty: the numbers that rest on labelled images. Names
                of detectors, T2I models and the like are those of all rows.

        Raises:
            ConfigError: the share is no fraction, or the table has no row of this attribute.
            ValueError: columns are missing.
        """
        if not 0 <= max_error_share <= 1:
            raise ConfigError(f"max_error_share: {max_error_share} (accepted: 0 to 1)")
        every = rows_of_attribute(metrics, attribute=attribute)
        whole = every[(every["category"] == ALL) & (every["prompt_id"] == ALL)]
        rows = _of_variant(every, variant)
        of_prompts = rows["prompt_id"] != ALL
        rows, prompt_rows = rows[~of_prompts], rows[of_prompts]
        rows = rows.assign(n_clear=rows["n_clear"].astype(object).fillna(""))
        whole_rows = rows[rows["category"] == ALL]
        return cls(
            attribute=attribute,
            detectors=tuple(name for name in pd.unique(whole["detector"]) if name != GROUND_TRUTH),
            t2i_models=tuple(name for name in pd.unique(whole["t2i_model"]) if name != ALL),
            categories=tuple(name for name in pd.unique(every["category"]) if name != ALL),
            labels=_labels_in_order(attribute, list(pd.unique(whole["metric"]))),
            n_clear="human" if {"human"} == set(whole_rows["n_clear"]) - {""} else "detector",
            max_error_share=max_error_share,
            _numbers=_by_key(rows, _KEY),
            _of_prompts=prompt_rows,
            variant=variant,
        )

    @cached_property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Category and id of every prompt, in the order of the metric table."""
        rows = self._of_prompts
        by_humans = rows["detector"] == GROUND_TRUTH
        places = (rows[by_humans] if by_humans.any() else rows)[["category", "prompt_id"]].drop_duplicates()
        return tuple(places.itertuples(index=False, name=None))

    @cached_property
    def _prompt_numbers(self) -> dict[tuple[str, str], Mapping[_Key, Number]]:
        """By metric and detector, those that were asked for so far."""
        return {}

    @property
    def images_labelled(self) -> float:
        """How many images have a human label; NaN without rows of the ground truth."""
        return self.number("images", detector=GROUND_TRUTH).value

    @property
    def images(self) -> float:
        """How many images the numbers rest on: those with a human label; of detectors alone, all of them."""
        judges = self.detectors if self.variant else (GROUND_TRUTH,)
        return max((self._count("images", judge, ALL) for judge in judges), default=0.0)

    @property
    def images_unlabelled(self) -> float:
        """How many images that T2I models made have none; 0 without rows of the ground truth."""
        return self._count("images_unlabelled", GROUND_TRUTH, ALL)

    @property
    def has_labels(self) -> bool:
        """Whether any image has a human label; without one there are no numbers but the detectors' own."""
        return self.images_labelled != 0

    @property
    def classes(self) -> tuple[str, ...]:
        """The attribute's classes that the table has rows of."""
        return tuple(label for label in self.labels if label not in (LOW_QUALITY, OTHERS))

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said below every table that compares detectors."""
        return () if self.detectors else (f"No detector of this study judges {self.attribute}.",)

    def number(
        self,
        metric: str,
        *,
        detector: str,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
        n_clear: str = "",
    ) -> Number:
        """The metric's row; `NOT_EVALUATED` if there is none.

        A metric that is the same for every `n_clear` stands in the table with an empty one, which serves as well.
        """
        numbers, place = self._numbers, category
        if prompt_id != ALL:
            if (metric, detector) not in self._prompt_numbers:
                own = (self._of_prompts["metric"] == metric) & (self._of_prompts["detector"] == detector)
                rows = self._of_prompts[own]
                rows = rows.assign(n_clear=rows["n_clear"].astype(object).fillna(""))
                key = [name.replace("category", "prompt_id") for name in _KEY]
                self._prompt_numbers[metric, detector] = _by_key(rows, key)
            numbers, place = self._prompt_numbers[metric, detector], prompt_id
        for denominator in (n_clear, ""):
            found = numbers.get((detector, t2i_model, place, metric, denominator))
            if found is not None:
                return found
        return NOT_EVALUATED

    def no_verdict_notes(self, detector: str, t2i_models: Sequence[str]) -> list[str]:
        """Say on which images the detector gave no verdict, and on which T2I model it could not run at all."""
        notes = []
        left_out: dict[str, list[str]] = {}
        for model in t2i_models:
            images = self._images(detector, model)
            counts = {
                what: f"{count:.0f} of {images:.0f}"
                for what, metric in (("error", "images_error"), ("not run", "images_not_run"))
                if (count := self._count(metric, detector, model)) > 0
            }
            if self.could_not_run(detector, model):
                reasons = ", ".join(f"{what} on {part} images" for what, part in counts.items())
                notes.append(f"not scored on {model} ({reasons})")
                continue
            for what, part in counts.items():
                left_out.setdefault(what, []).append(part if len(t2i_models) == 1 else f"{part} ({model})")
        return notes + [f"images left out, {what}: {', '.join(parts)}" for what, parts in left_out.items()]

    def failed_on(self, detector: str, t2i_model: str = ALL) -> tuple[str, ...]:
        """On which T2I models, of all or of one, the detector could not run; see `metrics.failing`."""
        if detector == GROUND_TRUTH:
            return ()
        models = self.t2i_models if t2i_model == ALL else (t2i_model,)
        return tuple(model for model in models if (detector, model) in self._failed)

    def could_not_run(self, detector: str, t2i_model: str = ALL) -> bool:
        """Whether the detector could not run on the T2I model, or on one of all: nobody is compared with it
        there."""
        return bool(self.failed_on(detector, t2i_model))

    def is_withheld(self, metric: str, *, detector: str, t2i_model: str = ALL) -> bool:
        """Whether a number of the detector is not shown, as it could not run; see `metrics.failing`.

        Raises:
            ConfigError: it could not run, and there is no such metric.
        """
        failed = len(self.failed_on(detector, t2i_model))
        return is_withheld(metric, failed=failed, t2i_models=len(self.t2i_models) if t2i_model == ALL else 1)

    def has_verdicts(self, detector: str, t2i_model: str) -> bool:
        """Whether the detector gave a verdict on any image of the T2I model."""
        return self._without_verdict(detector, t2i_model) < self._images(detector, t2i_model)

    @cached_property
    def _failed(self) -> frozenset[tuple[str, str]]:
        """Detectors with the T2I models on which they could not run."""
        places = list(product(self.detectors, self.t2i_models))
        without = [self._without_verdict(*place) for place in places]
        images = [self._images(*place) for place in places]
        failed = could_not_run(without, images, max_error_share=self.max_error_share)
        return frozenset(compress(places, failed))

    def _without_verdict(self, detector: str, t2i_model: str) -> float:
        return sum(self._count(metric, detector, t2i_model) for metric in ("images_error", "images_not_run"))

    def _images(self, detector: str, t2i_model: str) -> float:
        return self._count("images", detector, t2i_model) or self._count("images", GROUND_TRUTH, t2i_model)

    def _count(self, metric: str, detector: str, t2i_model: str) -> float:
        value = self.number(metric, detector=detector, t2i_model=t2i_model).value
        return 0 if math.isnan(value) else value


class Band(NamedTuple):
    """The lowest and the highest of the numbers that different labels give; NaN without any number."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LabelDoubtLookup:
    """One attribute's numbers by other labels than the consensus."""

    by_labels: Mapping[str, MetricLookup]
    """By annotator, then `all_agree`, then `dawid_skene` if labels were estimated: the numbers, found as those of
    the metric table are. Empty where nobody knows how much depends on who labelled."""

    @classmethod
    def of_table(
        cls, doubt: pd.DataFrame, *, attribute: str, max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    ) -> Self:
        """Read the columns `vocabulary.columns.LABEL_DOUBT_COLUMNS`.

        Args:
            doubt: as `evaluation.label_doubt` and `ResultFolder.table` give it.
            attribute: the one to look up.
            max_error_share: see `metrics.failing`.

        Raises:
            ConfigError: the share is no fraction.
        """
        rows = doubt[doubt["attribute"] == attribute]
        return cls(
            {
                str(name): MetricLookup.of_table(own, attribute=attribute, max_error_share=max_error_share)
                for name, own in rows.groupby("labelled_by", sort=False)
            }
        )

    @property
    def annotators(self) -> tuple[str, ...]:
        """The people who labelled enough images to have numbers of their own."""
        return tuple(name for name in self.by_labels if name not in (ALL_AGREE, DAWID_SKENE))

    def number(
        self, metric: str, *, detector: str, labelled_by: str, t2i_model: str = ALL, n_clear: str = ""
    ) -> Number:
        """The metric's row by these labels; `NOT_EVALUATED` if there is none."""
        if labelled_by not in self.by_labels:
            return NOT_EVALUATED
        return self.by_labels[labelled_by].number(metric, detector=detector, t2i_model=t2i_model, n_clear=n_clear)

    def band(
        self, metric: str, consensus: Number, *, detector: str, t2i_model: str = ALL, n_clear: str = ""
    ) -> Band:
        """From the lowest to the highest of consensus, annotators and images on which all agree.

        Estimated labels are no part of it: they rest on a model's assumption, and on the same people's labels.

        Args:
            metric: its name.
            consensus: the metric table's number.
            detector, t2i_model, n_clear: whose number it is.
        """
        place = {"detector": detector, "t2i_model": t2i_model, "n_clear": n_clear}
        found = [self.number(metric, labelled_by=name, **place) for name in (*self.annotators, ALL_AGREE)]
        values = [each.value for each in (consensus, *found) if not each.missing]
        return Band(min(values), max(values)) if values else Band(math.nan, math.nan)


_OF_ESTIMATES = tuple(f", {word}" for word in ESTIMATES)


def of_labelled_images(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of a metric table that rest on labelled images: those of no estimate for all images."""
    words = [each for each in pd.unique(metrics["variant"].dropna()) if each.endswith(_OF_ESTIMATES)]
    return metrics[~metrics["variant"].isin([*ESTIMATES, *words])]


def of_detectors_alone(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of a metric table by detectors alone, over all images; their variants are those of the rows that
    compare detectors with the humans, so that the same tables can be made of them."""
    variants = metrics["variant"].astype(object)
    alone = variants.fillna("").str.endswith(DETECTOR_ONLY)
    said = variants[alone].str.removesuffix(DETECTOR_ONLY).str.removesuffix(", ")
    return metrics[alone].assign(variant=said.where(said != "", None))


def _of_variant(rows: pd.DataFrame, variant: str) -> pd.DataFrame:
    """The rows of an estimate; empty: all that are none, scores of other benchmarks included."""
    return rows[rows["variant"] == variant] if variant else of_labelled_images(rows)


def _by_key(rows: pd.DataFrame, key: Sequence[str]) -> dict[_Key, Number]:
    words = zip(*(rows[name] for name in key), strict=True)
    numbers = zip(*(rows[name].astype(float) for name in _NUMBER), strict=True)
    return {place: Number(*number) for place, number in zip(words, numbers, strict=True)}


def number_of(row: pd.Series) -> Number:
    """One row of a metric table."""
    return Number(*(float(row[name]) for name in _NUMBER))


def rows_of_attribute(metrics: pd.DataFrame, *, attribute: str) -> pd.DataFrame:
    """Check a metric table's columns and take one attribute's rows.

    Raises:
        ConfigError: the table has no row of this attribute.
        ValueError: columns are missing.
    """
    lacking = [name for name in METRIC_COLUMNS if name not in metrics.columns]
    if lacking:
        raise ValueError(f"not a metric table: it lacks the columns {', '.join(lacking)}")
    rows = metrics[metrics["attribute"] == attribute]
    if rows.empty:
        known = [str(name) for name in pd.unique(metrics["attribute"])]
        raise ConfigError(f"no metrics of attribute {attribute!r}: {nearest_hint(attribute, known)}")
    return rows


_Item = TypeVar("_Item", bound=Hashable)


def best_of(values: Mapping[_Item, float], *, metric: str) -> frozenset[_Item]:
    """Who has the best value by the metric's direction; ties all win, NaN never.

    Values are compared unrounded. With fewer than two values there is nothing to be best of, and the set is empty.

    Args:
        values: by competitor.
        metric: a name that `metrics.metric_info` knows; its direction decides.
    """
    return _extreme(values, metric=metric, which=min)


def worst_of(values: Mapping[_Item, float], *, metric: str) -> frozenset[_Item]:
    """Who has the worst value; nobody where all are alike. See `best_of`."""
    best = best_of(values, metric=metric)
    return _extreme(values, metric=metric, which=max) - best


def _extreme(values: Mapping[_Item, float], *, metric: str, which: Callable[..., float]) -> frozenset[_Item]:
    distance = _DISTANCE.get(metric_info(metric).better)
    competing = {item: value for item, value in values.items() if not math.isnan(value)}
    if distance is None or len(competing) < 2:
        return frozenset()
    extreme = which(distance(value) for value in competing.values())
    return frozenset(item for item, value in competing.items() if distance(value) == extreme)


_DISTANCE: dict[Better, Callable[[float], float]] = {
    "higher": lambda value: -value,
    "lower": lambda value: value,
    "closest to zero": abs,
}
"""From the best value there could be."""


def _labels_in_order(attribute: str, metric_names: list[str]) -> tuple[str, ...]:
    found = [name.removeprefix(LABEL_SHARE) for name in metric_names if name.startswith(LABEL_SHARE)]
    if not found:
        # Without rows of the ground truth; a metric of somebody else's may begin with the same word.
        found = [name.removeprefix(_RECALL) for name in metric_names if name.startswith(_RECALL)]
    known = ATTRIBUTES[attribute].classes if attribute in ATTRIBUTES else ()
    classes = [label for label in dict.fromkeys(found) if label not in (LOW_QUALITY, OTHERS)]
    classes.sort(key=lambda label: known.index(label) if label in known else len(known))
    return (*classes, *(label for label in (LOW_QUALITY, OTHERS) if label in found))
