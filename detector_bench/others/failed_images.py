"""Where a detector left too many images without a verdict for its scores of a T2I model to be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from detector_bench.benchmark import benchmarks
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE, could_not_run
from detector_bench.results.metric_lookup import MetricLookup
from detector_bench.tables.wording import attribute_in_words, whole
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_Place = tuple[str, str, str]
"""Attribute, detector, T2I model."""


@dataclass(frozen=True)
class FailedImages:
    """Failed images by attribute, detector and T2I model, for the rule of `metrics.failing`.

    An attribute of the study has its own rows about failed images. For one that only a score system looks at,
    the images without a verdict that its rows count stand in.
    """

    evaluated: Mapping[str, MetricLookup]
    """Numbers about failed images, by attribute of the study."""
    t2i_models: tuple[str, ...]
    max_error_share: float
    _without_verdict: Mapping[_Place, tuple[float, float]]
    """How many images without a verdict, and of how many; of attributes that the study does not evaluate."""

    @classmethod
    def of_table(cls, metrics: pd.DataFrame, *, max_error_share: float = DEFAULT_MAX_ERROR_SHARE) -> Self:
        """Read a metric table (`vocabulary.columns.METRIC_COLUMNS`).

        Raises:
            ConfigError: the share is no fraction.
        """
        rows = metrics[(metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)]
        evaluated = {
            str(name): MetricLookup.of_table(metrics, attribute=str(name), max_error_share=max_error_share)
            for name in pd.unique(rows.loc[rows["metric"] == "images", "attribute"])
        }
        counts = rows[rows["metric"].isin([each.without_verdict for each in benchmarks()])]
        places = zip(*(counts[name].astype(str) for name in ("attribute", "detector", "t2i_model")), strict=True)
        numbers = zip(*(counts[name].astype(float) for name in ("n", "n_left_out")), strict=True)
        without = {
            place: (left_out, n + left_out)
            for place, (n, left_out) in zip(places, numbers, strict=True)
            if place[0] not in evaluated
        }
        models = tuple(str(name) for name in pd.unique(rows["t2i_model"]) if name != ALL)
        return cls(evaluated, models, max_error_share, without)

    def could_not_run(self, attribute: str, detector: str, t2i_model: str = ALL) -> bool:
        """Whether the detector could not run on the T2I model, or on one of all: no score of it is shown."""
        if detector == GROUND_TRUTH:
            return False
        if (known := self.evaluated.get(attribute)) is not None:
            return known.could_not_run(detector, t2i_model)
        models = self.t2i_models if t2i_model == ALL else (t2i_model,)
        counts = [self._without_verdict.get((attribute, detector, model), (0.0, 0.0)) for model in models]
        without, images = np.reshape(counts, (-1, 2)).T
        return bool(could_not_run(without, images, max_error_share=self.max_error_share).any())

    def left_out(self, metrics: pd.DataFrame) -> pd.DataFrame:
        """One score system's rows, the values of detectors that could not run replaced by NaN.

        A row of all attributes loses its value if the detector could not run for one of those that it has in these
        rows.
        """
        columns = ("attribute", "detector", "t2i_model")
        places = list(zip(*(metrics[name].astype(str) for name in columns), strict=True))
        attributes: dict[str, set[str]] = {}
        for attribute, detector, _ in dict.fromkeys(places):
            if attribute != ALL:
                attributes.setdefault(detector, set()).add(attribute)
        failed = {
            (attribute, detector, model): any(
                self.could_not_run(name, detector, model)
                for name in (attributes.get(detector, ()) if attribute == ALL else (attribute,))
            )
            for attribute, detector, model in dict.fromkeys(places)
        }
        gone = [failed[place] for place in places]
        numbers = ["value", "ci_low", "ci_high"]
        kept = metrics.copy()
        kept[numbers] = metrics[numbers].astype(float).mask(pd.Series(gone, index=metrics.index))
        return kept

    def notes(self, attributes: Iterable[str], detector: str, t2i_model: str) -> tuple[str, ...]:
        """Why the detector has no scores of the T2I model, per attribute."""
        notes = []
        for attribute in attributes:
            if not self.could_not_run(attribute, detector, t2i_model):
                continue
            if attribute in self.evaluated:
                said = self.evaluated[attribute].no_verdict_notes(detector, [t2i_model])
            else:
                without, images = self._without_verdict[attribute, detector, t2i_model]
                counted = f"{whole(without)} of {whole(images)} images or pairs"
                said = [f"not scored on {t2i_model} (no verdict on {counted})"]
            notes += [f"{attribute_in_words(attribute)}: {each}" for each in said]
        return tuple(notes)
