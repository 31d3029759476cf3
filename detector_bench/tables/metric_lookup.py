"""Finds numbers in a long metric table; computes none."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import METRICS, NClear
from detector_bench.tables.wording import whole
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH, LOW_QUALITY, OTHERS
from detector_bench.vocabulary.columns import METRIC_COLUMNS

DEFAULT_MAX_ERROR_SHARE = 0.1
"""A detector that fails on a larger share of a T2I model's images counts as unable to run on it."""

_LABEL_SHARE = "label_share_"
_RECALL = "recall_"


@dataclass(frozen=True, slots=True)
class Number:
    """One row of a metric table: the value, what it rests on and what it leaves out."""

    value: float
    n: float
    n_left_out: float
    ci_low: float = math.nan
    ci_high: float = math.nan

    @property
    def missing(self) -> bool:
        """Whether the value is NaN: its denominator is empty."""
        return math.isnan(self.value)


NOT_EVALUATED = Number(math.nan, 0, 0)
"""Stands for a row that the metric table does not have."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class MetricLookup:
    """The rows of one attribute that cover whole T2I models or everything, found by name."""

    attribute: str
    detectors: tuple[str, ...]
    """In the order of the metric table, without the ground truth."""
    t2i_models: tuple[str, ...]
    """In the order of the metric table, without "all"."""
    labels: tuple[str, ...]
    """What humans can say: the classes, then low_quality and others where the table has them."""
    n_clear: NClear
    """Whose count of clear images divides the detectors' prompt bias scores; "detector" if the table has both."""
    max_error_share: float
    _numbers: Mapping[_Key, Number]

    @classmethod
    def of_table(
        cls, metrics: pd.DataFrame, *, attribute: str, max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    ) -> Self:
        """Read a metric table.

        Args:
            metrics: columns as in `schema.METRIC_COLUMNS`.
            attribute: the one to tabulate.
            max_error_share: see `DEFAULT_MAX_ERROR_SHARE`; 0 to 1.

        Raises:
            ConfigError: the share is no fraction, or the table has no row of this attribute.
            ValueError: columns are missing.
        """
        if not 0 <= max_error_share <= 1:
            raise ConfigError(f"max_error_share: {max_error_share} (accepted: 0 to 1)")
        rows = rows_of_attribute(metrics, attribute=attribute)
        rows = rows[(rows["category"] == ALL) & (rows["prompt_id"] == ALL)]
        rows = rows.assign(n_clear=rows["n_clear"].astype(object).fillna(""))
        numbers = {
            (detector, t2i_model, metric, n_clear): Number(*numbers)
            for detector, t2i_model, metric, n_clear, *numbers in zip(
                *(rows[name] for name in ("detector", "t2i_model", "metric", "n_clear")),
                *(rows[name].astype(float) for name in ("value", "n", "n_left_out", "ci_low", "ci_high")),
                strict=True,
            )
        }
        return cls(
            attribute=attribute,
            detectors=tuple(name for name in pd.unique(rows["detector"]) if name != GROUND_TRUTH),
            t2i_models=tuple(name for name in pd.unique(rows["t2i_model"]) if name != ALL),
            labels=_labels_in_order(attribute, list(pd.unique(rows["metric"]))),
            n_clear="human" if {"human"} == set(rows["n_clear"]) - {""} else "detector",
            max_error_share=max_error_share,
            _numbers=numbers,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The attribute's classes."""
        return tuple(label for label in self.labels if label not in (LOW_QUALITY, OTHERS))

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said below every table that compares detectors."""
        return () if self.detectors else (f"No detector of this study judges {self.attribute}.",)

    def number(self, metric: str, *, detector: str, t2i_model: str = ALL, n_clear: str = "") -> Number:
        """The metric's row; `NOT_EVALUATED` if there is none.

        A metric that is the same for every `n_clear` stands in the table with an empty one, which serves as well.
        """
        for denominator in (n_clear, ""):
            found = self._numbers.get((detector, t2i_model, metric, denominator))
            if found is not None:
                return found
        return NOT_EVALUATED

    def no_verdict_notes(self, detector: str, t2i_models: Sequence[str]) -> list[str]:
        """Say on which images the detector gave no verdict, and on which T2I model it could not run at all."""
        notes = []
        left_out: dict[str, list[str]] = {}
        for model in t2i_models:
            images = whole(self._images(detector, model))
            counts = {
                what: f"{whole(count)} of {images}"
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

    def could_not_run(self, detector: str, t2i_model: str) -> bool:
        """Whether the detector left too large a share of the T2I model's images without a verdict."""
        without_verdict = sum(
            self._count(metric, detector, t2i_model) for metric in ("images_error", "images_not_run")
        )
        return without_verdict > self.max_error_share * self._images(detector, t2i_model)

    def _images(self, detector: str, t2i_model: str) -> float:
        return self._count("images", detector, t2i_model) or self._count("images", GROUND_TRUTH, t2i_model)

    def _count(self, metric: str, detector: str, t2i_model: str) -> float:
        value = self.number(metric, detector=detector, t2i_model=t2i_model).value
        return 0 if math.isnan(value) else value


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
        metric: a name in `metrics.METRICS`; its direction decides.
    """
    distance = {
        "higher": lambda value: -value,
        "lower": lambda value: value,
        "closest to zero": abs,
    }.get(METRICS[metric].better)
    competing = {item: value for item, value in values.items() if not math.isnan(value)}
    if distance is None or len(competing) < 2:
        return frozenset()
    least = min(distance(value) for value in competing.values())
    return frozenset(item for item, value in competing.items() if distance(value) == least)


def _labels_in_order(attribute: str, metric_names: list[str]) -> tuple[str, ...]:
    found = [name.removeprefix(_LABEL_SHARE) for name in metric_names if name.startswith(_LABEL_SHARE)]
    found += [name.removeprefix(_RECALL) for name in metric_names if name.startswith(_RECALL)]
    known = ATTRIBUTES[attribute].classes if attribute in ATTRIBUTES else ()
    classes = [label for label in dict.fromkeys(found) if label not in (LOW_QUALITY, OTHERS)]
    classes.sort(key=lambda label: known.index(label) if label in known else len(known))
    return (*classes, *(label for label in (LOW_QUALITY, OTHERS) if label in found))
