"""The numbers of a result folder, read by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from detector_bench.metrics.refusals import REQUEST_METRICS
from detector_bench.plugins import PluginFile
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.results.manifest import Counts
from detector_bench.results.metric_lookup import Number
from detector_bench.results.run_record import read_run_record
from detector_bench.tables import Table, filtering_and_accuracy, in_style_of
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet


@dataclass(frozen=True, eq=False, repr=False)
class StudyNumbers:
    """What a study found, as its result folder says it by name.

    Attributes:
        reader: of the result folder.
    """

    reader: ResultFolder

    @property
    def folder(self) -> Path:
        """The path of the result folder."""
        return self.reader.path

    @property
    def out(self) -> Path:
        """The path of the result folder, as `Study.run` calls it."""
        return self.reader.path

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that were evaluated, the study's main one first."""
        return self.reader.settings.attributes

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors, in the study's order."""
        return self.reader.settings.detectors

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """Names of the T2I models, in the order of their first image."""
        return self.of_attribute().t2i_models

    @property
    def categories(self) -> tuple[str, ...]:
        """The prompts' categories, in the order of the metric table."""
        return self.of_attribute().categories

    @property
    def metrics(self) -> pd.DataFrame:
        """The long metric table, one row per number; docs/metrics.md says what each metric is."""
        return self.reader.table("metrics")

    @property
    def image_set(self) -> ImageSet:
        """The labelled images behind the study.

        Raises:
            DataError: they are not there any more, or not as they were.
        """
        return self.reader.image_set

    @property
    def counts(self) -> Counts:
        """Images by detector, attribute and status (clear, filtered, error)."""
        return self.reader.manifest.counts

    @property
    def plugins(self) -> tuple[PluginFile, ...]:
        """The plugin files that took part in the evaluation: name, sha256 of the source, and what each adds."""
        return self.reader.manifest.plugins

    @cached_property
    def spending(self) -> dict[str, dict[str, float | str]]:
        """By stage, what answers of paid services cost, those of earlier runs included."""
        spent: dict[str, dict[str, float | str]] = read_run_record(self.folder).get("spending", {})
        return spent

    def sessions(self, since: str = "") -> list[dict[str, Any]]:
        """What each process did that judged something, as `run.json` lists it.

        Args:
            since: only those that began at this time or later, in ISO 8601 and UTC.
        """
        sessions: list[dict[str, Any]] = read_run_record(self.folder).get("sessions", [])
        return [each for each in sessions if str(each.get("began", "")) >= since]

    def numbers(self, name: str) -> pd.DataFrame:
        """One of the long tables of the folder, one row per number.

        Args:
            name: metrics, confusion, label_doubt, causes, accuracy_gaps, filter_outcomes, comparisons,
                images_judged_rightly, ranks, agreement, sweeps, sweep_choices, label_plans, t2i_model_biases,
                t2i_model_comparisons or refusal_effects.

        Returns:
            Without rows where the evaluation found none: of label doubt, where each image has one label.
        """
        return self.reader.table(name)

    def of_attribute(self, attribute: str | None = None) -> FinishedStudy:
        """The numbers of one attribute, as figures and tables read them.

        Args:
            attribute: one of the study's; None: its first.

        Raises:
            ConfigError: not one of the study's.
        """
        return self.reader.of_attribute(attribute)

    def number(
        self,
        metric: str,
        *,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
        attribute: str | None = None,
        variant: str | None = None,
    ) -> Number:
        """One number of the metric table: its value, confidence interval, n and n_left_out.

        Args:
            metric: a name in docs/metrics.md, such as accuracy.
            detector: "ground_truth": the number of the human labels.
            t2i_model: "all": over all of them.
            category: of prompts; "all": over all of them.
            prompt_id: "all": over all of them.
            attribute: None: the study's first; of a number of requests, such as refusal_rate, none.
            variant: which definition of a score, needed where there are several; or whose numbers of all images,
                where not all have a label, such as "detector_only".

        Returns:
            Its value is NaN where it is undefined, or where the metric has no row of this detector or place.

        Raises:
            ConfigError: a name that the study does not have; the message names the nearest one.
        """
        if attribute is None and metric in REQUEST_METRICS:
            attribute = ALL
        return self.of_attribute(attribute).number(
            metric,
            detector=detector,
            t2i_model=t2i_model,
            category=category,
            prompt_id=prompt_id,
            variant=variant,
        )

    def overall(self, *, attribute: str | None = None) -> Table:
        """How well each detector filters and classifies, over all T2I models, with intervals.

        Args:
            attribute: None: the study's first.

        Raises:
            ConfigError: no image has a human label of the attribute.
        """
        part = self.of_attribute(attribute)
        part.need_labels()
        table = filtering_and_accuracy(
            self.metrics, attribute=part.attribute, max_error_share=part.max_error_share, intervals=True
        )
        return in_style_of(self.reader.study, table)
