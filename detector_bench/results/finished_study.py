"""The one reader of result folders: their long tables, and the numbers of an attribute by name."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.evaluation.causes import PREDICTION_COLUMNS
from detector_bench.evaluation.counting import Counts, count_verdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.results.long_tables import (
    COLUMNS_NEEDED,
    FURTHER_TABLES,
    LONG_TABLES,
    MOST_IMAGES,
    further_tables,
    no_rows,
)
from detector_bench.results.metric_lookup import (
    NOT_EVALUATED,
    Band,
    LabelDoubtLookup,
    MetricLookup,
    Number,
    no_labels,
    number_of,
    of_labelled_images,
    rows_of_attribute,
)
from detector_bench.results.request_numbers import request_lookup
from detector_bench.results.result_files import ResultFiles
from detector_bench.vocabulary import ALL, ATTRIBUTES, GROUND_TRUTH
from detector_bench.vocabulary.columns import DETECTOR_ONLY
from detector_bench.vocabulary.display_names import display_names

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class ResultFolder(ResultFiles):
    """What `detector-bench run` and `evaluate` wrote, read and never computed anew.

    Attributes:
        computed: further tables are computed when they are asked for, as the folder's are of other settings.
    """

    computed: bool = False
    _tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    _parts: dict[str, FinishedStudy] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def asked_anew(self, **settings: Any) -> ResultFolder:
        """The same folder with other settings, by which its further tables are computed."""
        files = {name: rows for name, rows in self.manifest.files.items() if Path(name).stem not in FURTHER_TABLES}
        changed = {"settings": self.settings.model_copy(update=settings), "files": files}
        manifest = self.manifest.model_copy(update=changed)
        return replace(self, manifest=manifest, computed=True, _tables={}, _parts={})

    @cached_property
    def requests(self) -> MetricLookup | None:
        """What became of the requests behind the images, by name; None where nothing is known of any."""
        return request_lookup(self.table("metrics"))

    @property
    def has_further_tables(self) -> bool:
        """Whether causes, ranks and the like stand in the folder; else they are computed when asked for."""
        return not self.computed and int(self.manifest.image_set["images"]) <= MOST_IMAGES

    def table(self, name: str) -> pd.DataFrame:
        """A long table of all attributes; without rows where the evaluation found none.

        Args:
            name: one of `LONG_TABLES`.

        Raises:
            ConfigError: no such table, or its file was changed or damaged.
            DetectorBenchError: the table of so large a study is computed when it is asked for, and images or
                predictions are not there.
        """
        if name not in LONG_TABLES:
            raise ConfigError(f"no long table {name!r}: {nearest_hint(name, LONG_TABLES)}")
        with self._lock:
            if name not in self._tables:
                self._tables.update(self._read(name))
            return self._tables[name]

    def of_attribute(self, name: str | None = None) -> FinishedStudy:
        """The numbers of one attribute.

        Args:
            name: None: the study's first.

        Raises:
            ConfigError: there are no numbers of it.
        """
        name = name or self.settings.attributes[0]
        if name not in self._parts:
            # Scores of other benchmarks may be about further attributes, or about all of them.
            scored = [str(each) for each in pd.unique(self.table("metrics")["attribute"])]
            known = dict.fromkeys([*self.settings.attributes, *scored])
            if name not in known:
                raise ConfigError(f"no metrics of attribute {name!r}: {nearest_hint(name, known)}")
            self._parts[name] = FinishedStudy(self, name)
        return self._parts[name]

    @cached_property
    def score_files(self) -> dict[str, pd.DataFrame]:
        """The further tables of score systems by the names of their CSV files, such as `imagebite_verdicts.csv`.

        Raises:
            ConfigError: a file was changed or damaged.
        """
        stored = [Path(name) for name in self.manifest.files if name.endswith(".parquet")]
        return {f"{file.stem}.csv": self.rows_of(file.name) for file in stored if file.stem not in LONG_TABLES}

    def _read(self, name: str) -> dict[str, pd.DataFrame]:
        files = [f"{name}.{ending}" for ending in ("parquet", "csv") if f"{name}.{ending}" in self.manifest.files]
        if not files:
            if name not in FURTHER_TABLES or self.has_further_tables:
                return {name: no_rows(name)}
            predictions = self.coded_predictions(COLUMNS_NEEDED)
            return further_tables(self.image_set, predictions, self.settings, names=[name])[0]
        return {name: self.rows_of(files[0])}


@dataclass(frozen=True, eq=False)
class FinishedStudy:
    """One attribute of a result folder: its numbers by name, and the images and predictions behind them.

    Attributes:
        results: the result folder.
        attribute: one of the study's, such as gender.
        variant: which of `vocabulary.columns.ESTIMATES` its numbers are; empty: they rest on labelled images.
    """

    results: ResultFolder
    attribute: str
    variant: str = ""

    @classmethod
    def load(
        cls, folder: Path | str, *, attribute: str | None = None, image_set: Path | str | None = None
    ) -> FinishedStudy:
        """Open a result folder for one attribute.

        Args:
            folder: the result folder of `detector-bench run` or `evaluate`.
            attribute: None: the study's first.
            image_set: takes the place of the study's.

        Raises:
            ConfigError: as `ResultFolder.open` and `ResultFolder.of_attribute`.
        """
        return ResultFolder.open(folder, image_set=image_set).of_attribute(attribute)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The attribute's rows of the metric table (`vocabulary.columns.METRIC_COLUMNS`)."""
        return rows_of_attribute(self.metrics_of_all_attributes, attribute=self.attribute)

    def rows(self, name: str) -> pd.DataFrame:
        """The attribute's rows of a long table, such as causes, ranks or agreement; see `ResultFolder.table`."""
        table = self.results.table(name)
        return table[table["attribute"] == self.attribute]

    @property
    def folder(self) -> Path:
        """The result folder's path."""
        return self.results.path

    @property
    def perceived(self) -> str:
        """What the figures are about, inside a sentence: `perceived skin tone`."""
        known = ATTRIBUTES.get(self.attribute)
        return f"perceived {known.words if known else self.attribute.replace('_', ' ')}"

    @property
    def metrics_of_all_attributes(self) -> pd.DataFrame:
        """The whole metric table, for what compares attributes or belongs to none."""
        return self.results.table("metrics")

    @property
    def intervals(self) -> Intervals:
        """How the study's confidence intervals are found."""
        return self.results.settings.intervals

    @property
    def max_error_share(self) -> float:
        """On which share of a T2I model's images a detector may fail."""
        return self.results.settings.max_error_share

    @cached_property
    def lookup(self) -> MetricLookup:
        """The rows that cover whole T2I models."""
        return MetricLookup.of_table(
            self.metrics, attribute=self.attribute, max_error_share=self.max_error_share, variant=self.variant
        )

    def by_detectors_alone(self) -> FinishedStudy:
        """The same attribute with what detectors say about all images; of a study whose images all have a label
        there are no such numbers."""
        return replace(self, variant=DETECTOR_ONLY)

    @cached_property
    def label_doubt(self) -> LabelDoubtLookup:
        """The numbers by other labels than the consensus; empty where the folder has none."""
        return LabelDoubtLookup.of_table(
            self.results.table("label_doubt"), attribute=self.attribute, max_error_share=self.max_error_share
        )

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors, in the study's order."""
        return self.lookup.detectors

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """Names of the T2I models, in the order of their first image."""
        return self.lookup.t2i_models

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the attribute's classes, in order."""
        return self.lookup.classes

    @property
    def categories(self) -> tuple[str, ...]:
        """The prompts' categories, in the order of the metric table."""
        return self.lookup.categories

    @property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Category and id of every prompt, in the order of the metric table."""
        return self.lookup.prompts

    def need_labels(self) -> None:
        """Check that images have a human label of the attribute.

        Raises:
            ConfigError: none has.
        """
        if not self.lookup.has_labels:
            raise ConfigError(no_labels(self.attribute))

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
    ) -> Number:
        """The number that tables and figures show: `NOT_EVALUATED` if there is none, or if none is shown, as the
        detector could not run (`metrics.failing`)."""
        if self.lookup.is_withheld(metric, detector=detector, t2i_model=t2i_model):
            return NOT_EVALUATED
        place = {"t2i_model": t2i_model, "category": category, "prompt_id": prompt_id}
        # Of two denominators the one that the tables show.
        return self.lookup.number(metric, detector=detector, n_clear=self.lookup.n_clear, **place)

    def number(
        self,
        metric: str,
        *,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
        variant: str | None = None,
    ) -> Number:
        """The metric's row as it stands in the metric table; see `Results.number`."""
        asked = {"detector": detector, "t2i_model": t2i_model, "category": category, "prompt_id": prompt_id}
        rows = self.metrics
        for column, name in {"metric": metric, **asked}.items():
            known = dict.fromkeys(str(each) for each in pd.unique(self.metrics[column]))
            known |= dict.fromkeys(self.results.settings.detectors if column == "detector" else ())
            if name not in known:
                raise ConfigError(f"no {column} {name!r} in this study: {nearest_hint(name, known)}")
            rows = rows[rows[column] == name]
        if variant is None:  # a number of labelled images and an estimate for all are never taken for each other
            rows = of_labelled_images(rows)
        variants = rows["variant"].astype(object).fillna("")
        known = dict.fromkeys(variants)
        if variant is None and len(known) > 1:
            raise ConfigError(f"{metric} has several variants: name one of {', '.join(known)}")
        if variant is not None and known and variant not in known:
            hint = nearest_hint(variant, [each for each in known if each])
            raise ConfigError(f"no variant {variant!r} of {metric}: {hint}")
        rows = rows if variant is None else rows[variants == variant]
        return number_of(rows.iloc[0]) if len(rows) else NOT_EVALUATED

    def label_doubt_band(self, metric: str, *, detector: str, t2i_model: str = ALL) -> Band:
        """From the lowest to the highest value by consensus, each annotator, and where all agree; NaN where nobody
        knows."""
        if not self.label_doubt.by_labels:
            return Band(math.nan, math.nan)
        place = {"detector": detector, "t2i_model": t2i_model, "n_clear": self.lookup.n_clear}
        return self.label_doubt.band(metric, self.lookup.number(metric, **place), **place)

    @property
    def image_set(self) -> ImageSet:
        """The labelled images behind the study; see `ResultFolder.image_set`."""
        return self.results.image_set

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
        names = [name for name in self.results.settings.detectors if name in self.detectors]
        predictions = self.results.coded_predictions(detectors=names)
        return count_verdicts(self.image_set, predictions, attribute=self.attribute, allow_incomplete=True)

    @cached_property
    def predictions(self) -> dict[str, pa.Table]:
        """The stored predictions of the detectors that judge the attribute, with their reasons and scores.

        Raises:
            DetectorBenchError: they are not there.
        """
        stored = self.results.predictions(PREDICTION_COLUMNS)
        return {name: table for name, table in stored.items() if name in self.detectors}

    def once(self, name: str, compute: Callable[[], _Result]) -> _Result:
        """Compute something that takes a while the first time it is asked for, for both widths of a figure."""
        if name not in self._computed:
            self._computed[name] = compute()
        result: _Result = self._computed[name]
        return result

    @cached_property
    def display_names(self) -> dict[str, str]:
        """What people read for each detector and T2I model: as the study says, else as is usual."""
        names = [*self.results.settings.detectors, *self.detectors, *self.t2i_models]
        return display_names(names, self.results.study.get("display_names") or {})

    def shown(self, name: str) -> str:
        """A detector's or T2I model's display name; "Ground truth" for the human labels."""
        return "Ground truth" if name == GROUND_TRUTH else self.display_names.get(name, name)

    @cached_property
    def _computed(self) -> dict[str, Any]:
        return {}
