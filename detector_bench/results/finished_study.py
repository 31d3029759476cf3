"""What figures are drawn from: the result folder of a study, read and never computed anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation import read_label_doubt, read_predictions
from detector_bench.evaluation.causes import PREDICTION_COLUMNS
from detector_bench.evaluation.counting import Counts, count_verdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.results.settings import require_settings_of_evaluation
from detector_bench.tables.label_doubt_lookup import Band, LabelDoubtLookup
from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE, MetricLookup, rows_of_attribute
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary.columns import METRIC_COLUMNS
from detector_bench.study import Study
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_NUMBERS = ("value", "ci_low", "ci_high", "n", "n_left_out")


@dataclass(frozen=True, slots=True)
class Estimate:
    """One row of a metric table: the value, its interval, what it rests on and what it leaves out."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: float = 0
    n_left_out: float = 0

    @property
    def missing(self) -> bool:
        """Whether the value is NaN: its denominator is empty, or there is no such row."""
        return math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are numbers."""
        return math.isfinite(self.low) and math.isfinite(self.high)


NO_ESTIMATE = Estimate()

_Place = tuple[str, str, str, str]
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class FinishedStudy:
    """A study's result folder, for one attribute.

    Attributes:
        folder: the result folder.
        attribute: one of the vocabulary's, such as gender.
        metrics: the attribute's rows of the metric table (`schema.METRIC_COLUMNS`).
        study: what was judged and by whom; None where the folder has no `study.yaml`.
    """

    folder: Path
    attribute: str
    metrics: pd.DataFrame
    study: Study | None = None

    @classmethod
    def load(cls, folder: Path | str, *, attribute: str | None = None) -> Self:
        """Read `metrics.parquet` or `metrics.csv`, and `study.yaml`.

        Args:
            folder: the result folder of `detector-bench run` or `evaluate`.
            attribute: which one to draw; None: the study's first.

        Raises:
            ConfigError: no metrics there, or none of this attribute, or `study.yaml` was changed since.
        """
        folder = Path(folder)
        metrics = _read_metrics(folder)
        study = Study.from_yaml(folder / "study.yaml") if (folder / "study.yaml").is_file() else None
        if study is not None:
            require_settings_of_evaluation(study, folder)
        if attribute is None:
            attribute = study.attributes[0] if study else str(metrics["attribute"].iloc[0])
        return cls(folder, attribute, rows_of_attribute(metrics, attribute=attribute), study)

    @property
    def perceived(self) -> str:
        """What the figures are about, inside a sentence: `perceived skin tone`."""
        return f"perceived {attribute_in_words(self.attribute)}"

    @cached_property
    def metrics_of_all_attributes(self) -> pd.DataFrame:
        """The whole metric table, for what compares attributes or belongs to none."""
        return _read_metrics(self.folder)

    @property
    def intervals(self) -> Intervals:
        """How the study's confidence intervals are found; as by default where its settings are not known."""
        return self.study.intervals if self.study else Intervals()

    @property
    def max_error_share(self) -> float:
        """On which share of a T2I model's images a detector may fail; as by default where that is not known."""
        return self.study.max_error_share if self.study else DEFAULT_MAX_ERROR_SHARE

    @cached_property
    def lookup(self) -> MetricLookup:
        """The rows that cover whole T2I models."""
        return MetricLookup.of_table(self.metrics, attribute=self.attribute, max_error_share=self.max_error_share)

    @cached_property
    def label_doubt(self) -> LabelDoubtLookup:
        """The numbers by other labels than the consensus; empty where the folder has none."""
        return LabelDoubtLookup.of_table(
            read_label_doubt(self.folder), attribute=self.attribute, max_error_share=self.lookup.max_error_share
        )

    @property
    def detectors(self) -> tuple[str, ...]:
        """In the study's order."""
        return self.lookup.detectors

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """In the order of their first image."""
        return self.lookup.t2i_models

    @property
    def classes(self) -> tuple[str, ...]:
        """The attribute's classes."""
        return self.lookup.classes

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Of prompts, in the order of the metric table."""
        return tuple(str(name) for name in pd.unique(self.metrics["category"]) if name != ALL)

    @cached_property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Category and id of every prompt, in the order of the metric table."""
        rows = self.metrics[self.metrics["prompt_id"] != ALL][["category", "prompt_id"]].drop_duplicates()
        return tuple((str(category), str(prompt)) for category, prompt in rows.itertuples(index=False))

    def need_signed_scores(self) -> None:
        """Check that the attribute's prompt bias scores have a sign.

        Raises:
            ConfigError: the attribute has more than two classes.
        """
        if len(self.classes) != 2:
            raise ConfigError(
                f"only attributes of two classes have a prompt bias score, {self.attribute!r} has not"
            )

    def estimate(
        self,
        metric: str,
        *,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
    ) -> Estimate:
        """The metric's row; `NO_ESTIMATE` if there is none, or if the detector could not run on the T2I model."""
        if detector != GROUND_TRUTH and t2i_model != ALL and self.lookup.could_not_run(detector, t2i_model):
            return NO_ESTIMATE
        if metric not in self._estimates:
            self._estimates[metric] = self._estimates_of(metric)
        return self._estimates[metric].get((detector, t2i_model, category, prompt_id), NO_ESTIMATE)

    def label_doubt_band(self, metric: str, *, detector: str, t2i_model: str = ALL) -> Band:
        """From the lowest to the highest value by consensus, each annotator, and where all agree; NaN where nobody
        knows."""
        if not self.label_doubt.by_labels:
            return Band(math.nan, math.nan)
        place = {"detector": detector, "t2i_model": t2i_model, "n_clear": self.lookup.n_clear}
        return self.label_doubt.band(metric, self.lookup.number(metric, **place), **place)

    @cached_property
    def image_set(self) -> ImageSet:
        """The labelled images behind the study.

        Raises:
            ConfigError: the folder does not say where they are.
            DataError: they are not there any more, or not as they were.
        """
        if self.study is None:
            raise ConfigError(f"{str(self.folder)!r} has no study.yaml, which says where the image set is")
        return ImageSet.load(self.study.image_set)

    @cached_property
    def words(self) -> dict[str, str]:
        """The word of each prompt; a prompt without one, or without its image set, is shown by its id."""
        try:
            prompts = self.image_set.prompts
        except DetectorBenchError:
            return {}
        return {
            prompt_id: word
            for prompt_id, word in zip(prompts["prompt_id"], prompts["word"], strict=True)
            if isinstance(word, str) and word
        }

    @cached_property
    def counts(self) -> Counts:
        """Images by T2I model, prompt, human label and verdict, counted from the stored predictions.

        Raises:
            DetectorBenchError: the image set or the predictions are not there, or do not fit each other.
        """
        return count_verdicts(self.image_set, self.predictions, attribute=self.attribute, allow_incomplete=True)

    @cached_property
    def predictions(self) -> dict[str, pa.Table]:
        """The stored predictions of the study's detectors, with their reasons and scores, in the study's order.

        Raises:
            DetectorBenchError: they are not there.
        """
        stored = read_predictions(self.folder, also=PREDICTION_COLUMNS)
        return {name: stored[name] for name in self.detectors if name in stored}

    def once(self, name: str, compute: Callable[[], _Result]) -> _Result:
        """Compute something that takes a while the first time it is asked for, for both widths of a figure."""
        if name not in self._computed:
            self._computed[name] = compute()
        result: _Result = self._computed[name]
        return result

    @cached_property
    def _computed(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _estimates(self) -> dict[str, dict[_Place, Estimate]]:
        return {}

    def _estimates_of(self, metric: str) -> dict[_Place, Estimate]:
        rows = self.metrics[self.metrics["metric"] == metric]
        # Of two denominators the one that the tables show.
        rows = rows[rows["n_clear"].astype(object).fillna("").isin(["", self.lookup.n_clear])]
        places = zip(*(rows[name] for name in ("detector", "t2i_model", "category", "prompt_id")), strict=True)
        numbers = zip(*(rows[name].astype(float) for name in _NUMBERS), strict=True)
        return {place: Estimate(*number) for place, number in zip(places, numbers, strict=True)}


def _read_metrics(folder: Path) -> pd.DataFrame:
    if (folder / "metrics.parquet").is_file():
        return pd.read_parquet(folder / "metrics.parquet")
    if not (folder / "metrics.csv").is_file():
        raise ConfigError(f"no metrics.csv in {str(folder)!r}: expected the result folder of a finished study")
    words = {name: "str" for name in METRIC_COLUMNS if name not in _NUMBERS}
    # A prompt may be called "null" or "NA".
    return pd.read_csv(
        folder / "metrics.csv",
        dtype=words | dict.fromkeys(_NUMBERS, "float64"),
        keep_default_na=False,
        na_values={name: [""] for name in (*_NUMBERS, "n_clear", "variant")},
    )
