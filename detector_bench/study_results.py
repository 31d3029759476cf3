"""What a study found, ready to be asked: the one reader of result folders, for Python, notebooks and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from pydantic import ValidationError

from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study import Study
from detector_bench.tables import Table
from detector_bench.tables.metric_lookup import Number
from detector_bench.vocabulary import ALL, GROUND_TRUTH

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation import ComparisonFamily, Intervals
    from detector_bench.figures import Format, Width, WrittenFigures
    from detector_bench.metrics.bootstrap import Unit
    from detector_bench.site import ReportProgress, ReportSettings, WrittenReport

_OF_A_VERDICT = ("status", "label", "reason", "score", "value")


@dataclass(frozen=True, repr=False)
class ResultTables:
    """What a question to a study gives: tables for people, and the long numbers behind them for programs.

    In a notebook it shows its tables.

    Attributes:
        tables: by name, in the order in which a reader wants them.
        numbers: long tables, one row per number, by the name of their file without its ending.
        notes: what else has to be said, a sentence each.
    """

    tables: dict[str, Table]
    numbers: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_pandas(self, name: str | None = None) -> pd.DataFrame:
        """One of the tables as numbers at full precision, see `Table.to_pandas`.

        Args:
            name: of the table; None: the first.

        Raises:
            ConfigError: no such table.
        """
        return self[name or next(iter(self.tables))].to_pandas()

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise ConfigError(f"no table {name!r}: {nearest_hint(name, self.tables)}")
        return self.tables[name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.tables)})"

    def _repr_html_(self) -> str:
        from detector_bench.tables import to_html

        return "\n".join(to_html(table) for table in self.tables.values())


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """A study's result folder, as `detector-bench run` and `evaluate` write it. In a notebook it shows its tables.

    Attributes:
        folder: the result folder.
        study: what was judged, by whom, and how it was evaluated.
        own_image_set: the image set that was named in place of the study's; None: none was.
    """

    folder: Path
    study: Study
    own_image_set: Path | None = None
    _parts: dict[str, FinishedStudy] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path | str, *, image_set: Path | str | None = None) -> Self:
        """Read a result folder.

        Args:
            folder: of `detector-bench run` or `evaluate`.
            image_set: takes the place of the study's image set, which may have been moved.

        Raises:
            ConfigError: no result folder, half of one, one of an older or newer schema, or one whose `study.yaml`
                was changed since; the message says which, and what to do.
        """
        folder = Path(folder)
        first = FinishedStudy.load(folder)
        if first.study is None:
            raise ConfigError(
                f"{str(folder)!r} has no study.yaml: expected a result folder of `detector-bench run`"
            )
        study = first.study
        own = None if image_set is None else Path(image_set)
        return cls(folder, study if own is None else study.model_copy(update={"image_set": own}), own)

    @property
    def attributes(self) -> tuple[str, ...]:
        """What was evaluated, the study's main attribute first."""
        return self.study.attributes

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors, in the study's order."""
        return tuple(entry.name for entry in self.study.detectors)

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """In the order of their first image."""
        return self.of_attribute().t2i_models

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The long metric table, one row per number: columns as in `schema.METRIC_COLUMNS`."""
        return self.of_attribute().metrics_of_all_attributes

    @cached_property
    def image_set(self) -> ImageSet:
        """The labelled images behind the study.

        Raises:
            DataError: they are not there any more, or not as they were.
        """
        return self.of_attribute().image_set

    def of_attribute(self, attribute: str | None = None) -> FinishedStudy:
        """The numbers of one attribute, as figures and tables read them.

        Args:
            attribute: one of the study's; None: its first.

        Raises:
            ConfigError: not one of the study's.
        """
        name = attribute or self.attributes[0]
        if name not in self.attributes:
            raise ConfigError(f"no attribute {name!r} in this study: {nearest_hint(name, self.attributes)}")
        if name not in self._parts:
            finished = FinishedStudy.load(self.folder, attribute=name)
            self._parts[name] = FinishedStudy(self.folder, name, finished.metrics, self.study)
        return self._parts[name]

    def number(
        self,
        metric: str,
        *,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
        attribute: str | None = None,
    ) -> Number:
        """One number of the metric table: its value, confidence interval, n and n_left_out.

        Args:
            metric: a name in the metric catalogue, such as accuracy.
            detector: "ground_truth": the number of the human labels.
            t2i_model: "all": over all of them.
            category: of prompts; "all": over all of them.
            prompt_id: "all": over all of them.
            attribute: None: the study's first.

        Returns:
            A value of NaN where the number is undefined, or where the metric has none of this detector or place.

        Raises:
            ConfigError: a name that the study does not have; the message names the nearest one.
        """
        rows = self.of_attribute(attribute).metrics
        asked = {
            "metric": metric,
            "detector": detector,
            "t2i_model": t2i_model,
            "category": category,
            "prompt_id": prompt_id,
        }
        for column, name in asked.items():
            known = [str(each) for each in pd.unique(rows[column])]
            if name not in known:
                raise ConfigError(f"no {column} {name!r} in this study: {nearest_hint(name, known)}")
            rows = rows[rows[column] == name] if column == "metric" else rows
        for column, name in asked.items():
            rows = rows[rows[column] == name]
        if rows.empty:
            return Number(float("nan"), 0, 0)
        row = rows.iloc[0]
        return Number(*(float(row[name]) for name in ("value", "n", "n_left_out", "ci_low", "ci_high")))

    def overall(self, *, attribute: str | None = None) -> Table:
        """How well each detector filters and classifies, over all T2I models, with intervals.

        Args:
            attribute: None: the study's first.
        """
        from detector_bench.tables import filtering_and_accuracy

        part = self.of_attribute(attribute)
        return filtering_and_accuracy(
            self.metrics, attribute=part.attribute, max_error_share=part.max_error_share, intervals=True
        )

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
            Tables `comparison` and `images_judged_rightly`; of several pairs each with the other detector's name
            behind it, such as `comparison_clip`.

        Raises:
            ConfigError: a name that the study does not have, or a detector that does not judge the attribute.
            DetectorBenchError: the two were judged on different images.
        """
        from detector_bench.evaluation.contests import CONTEST_COLUMNS, DetectorContest
        from detector_bench.tables.comparison_tables import comparison, images_judged_rightly

        part, settings = self._asked(attribute, unit=unit, seed=seed, level=level)
        others = [second] if second is not None else [name for name in self.detectors if name != first]
        for name in (first, *others):
            self._check_detector(name)
        if first in others:
            raise ConfigError(f"{first!r} cannot be compared with itself")
        hashed = self._stored(*CONTEST_COLUMNS)
        tables: dict[str, Table] = {}
        for other in others:
            contest = DetectorContest.of(self.image_set, hashed, attribute=part.attribute, pair=(first, other))
            family = contest.family(settings, n_clear=self.study.n_clear)
            tests = [family.test(metric, *contest.pair(first, other)) for metric in family.metrics]
            names: dict[str, Any] = {"first": first, "second": other, "attribute": part.attribute}
            about = _about(family, settings, left_out=contest.left_out)
            for table in (
                comparison(tests, level=family.level, about=about, **names),
                images_judged_rightly(contest.images_judged_differently(first, other), **names),
            ):
                name = table.name if second is not None else f"{table.name}_{other}"
                tables[name] = replace(table, name=name)
        return ResultTables(tables)

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
            by: a metric, or several; None: by F1, filter rate, accuracy and both bias errors. All pairs of
                detectors and all metrics that are asked for at once are tested together.
            attribute, unit, seed, level: as in `compare`.

        Returns:
            A table `ranking_<metric>` for each metric.

        Raises:
            ConfigError: a metric that detectors cannot be ranked by, or an attribute that only one judges.
            DetectorBenchError: detectors were judged on different images.
        """
        from detector_bench.evaluation.comparison import COMPARED_METRICS
        from detector_bench.evaluation.contests import CONTEST_COLUMNS, DetectorContest
        from detector_bench.evaluation.ranking import ranking
        from detector_bench.tables.comparison_tables import ranking_table

        part, settings = self._asked(attribute, unit=unit, seed=seed, level=level)
        metrics = (by,) if isinstance(by, str) else tuple(by or COMPARED_METRICS)
        contest = DetectorContest.of(self.image_set, self._stored(*CONTEST_COLUMNS), attribute=part.attribute)
        family = contest.family(settings, n_clear=self.study.n_clear, metrics=metrics)
        about = _about(family, settings, left_out=contest.left_out)
        tables = [
            ranking_table(
                ranking(family, metric), metric=metric, attribute=part.attribute, level=family.level, about=about
            )
            for metric in family.metrics
        ]
        return ResultTables({table.name: table for table in tables})

    def causes(self, *, attribute: str | None = None, resamples: int | None = None) -> ResultTables:
        """How much of each detector's bias error comes from filtering, and how much from classification.

        Args:
            attribute: None: the study's first.
            resamples: for confidence intervals; 0: none; None: as the study was evaluated.

        Returns:
            Tables `causes` and `filter_errors`; numbers `causes`, `accuracy_gaps` and `filter_outcomes`.
        """
        from detector_bench.evaluation import causes as evaluation
        from detector_bench.tables.causes_table import bias_error_causes, filter_errors

        part = self.of_attribute(attribute)
        judged = (self.image_set, part.predictions)
        settings: dict[str, Any] = {"attribute": part.attribute, "allow_incomplete": True}
        doubt = {"intervals": part.intervals.with_resamples(resamples), **settings}
        numbers = {
            "causes": evaluation.causes(*judged, n_clear=self.study.n_clear, **doubt),
            "accuracy_gaps": evaluation.accuracy_gaps(*judged, **doubt),
            "filter_outcomes": evaluation.filter_outcomes(*judged, **settings),
        }
        tables = (
            bias_error_causes(
                numbers["causes"],
                attribute=part.attribute,
                gaps=numbers["accuracy_gaps"],
                max_error_share=part.max_error_share,
            ),
            filter_errors(numbers["filter_outcomes"], attribute=part.attribute),
        )
        return ResultTables({table.name: table for table in tables}, numbers)

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
            Tables `threshold_sweep` and `chosen_thresholds`; numbers `sweep` (every threshold) and
            `sweep_chosen` (what a threshold chosen on these prompts does on others).

        Raises:
            ConfigError: no such detector, thresholds that do not ascend within 0 and 1, or no score to sweep.
        """
        from detector_bench.evaluation.out_of_sample import threshold_choices
        from detector_bench.evaluation.sweeps import (
            even_thresholds,
            first_threshold,
            nearest_thresholds,
            sweep_counts,
            sweep_table,
        )
        from detector_bench.tables.sweep_tables import chosen_thresholds, threshold_sweep

        self._check_detector(detector)
        part = self.of_attribute(attribute)
        table = part.predictions[detector]
        if first is None:
            # `last` alone may lie below it.
            first = min(first_threshold([table], attribute=part.attribute), max(last - 0.05, 0))
        swept = sweep_counts(
            self.image_set,
            table,
            detector=detector,
            attribute=part.attribute,
            thresholds=even_thresholds(first=first, last=last, steps=steps),
            allow_incomplete=True,
        )
        numbers, level = sweep_table(swept, n_clear=self.study.n_clear), part.intervals.level
        choices = threshold_choices(swept, n_clear=self.study.n_clear, seed=part.intervals.seed, level=level)
        chosen = choices.loc[choices["t2i_model"] == ALL, "threshold"]
        shown = nearest_thresholds(swept.thresholds.tolist(), always=chosen.dropna())
        tables = (
            threshold_sweep(numbers, choices, thresholds=shown),
            chosen_thresholds(choices, level=level),
        )
        images = "1 image" if swept.without_score == 1 else f"{swept.without_score:,} images"
        notes = (f"{images} kept without a score: kept at every threshold.",) if swept.without_score else ()
        return ResultTables(
            {each.name: each for each in tables}, {"sweep": numbers, "sweep_chosen": choices}, notes
        )

    def agreement(self, *, attribute: str | None = None, min_shared: int = 10) -> ResultTables:
        """How far annotators agree among themselves, and each detector with each of them.

        Args:
            attribute: None: the study's first.
            min_shared: pairs with fewer images in common are left out.

        Returns:
            Tables `annotator_agreement` and `pair_agreement`; numbers `agreement`.
        """
        part = self.of_attribute(attribute)
        return _agreement(self.image_set, part.predictions, attribute=part.attribute, min_shared=min_shared)

    def verdicts(self, *, attribute: str | None = None) -> pd.DataFrame:
        """What each detector says of each image, beside the human label.

        Args:
            attribute: None: all of the study's.

        Returns:
            One row per attribute, detector and image: attribute, detector, image_id, t2i_model, prompt_id,
            human_label (missing where there is none), status ("clear", "filtered", "error" or "not_run"), label,
            reason, score, value.
        """
        names = self.attributes if attribute is None else (self.of_attribute(attribute).attribute,)
        images = self.image_set.images[["image_id", "t2i_model", "prompt_id"]].reset_index(drop=True)
        blocks = []
        for name in names:
            human = images.assign(attribute=name, human_label=self.image_set.truth(name)["label"].array)
            for detector, table in self._stored("reason", "score", "value").items():
                rows = table.to_pandas()
                rows = rows[rows["attribute"] == name].set_index("image_id")[list(_OF_A_VERDICT)]
                if not rows.empty:
                    said = rows.reindex(images["image_id"]).reset_index(drop=True)
                    said["status"] = said["status"].astype(object).where(said["status"].notna(), "not_run")
                    blocks.append(pd.concat([human.assign(detector=detector), said], axis=1))
        columns = ["attribute", "detector", *images.columns, "human_label", *_OF_A_VERDICT]
        return pd.concat(blocks, ignore_index=True)[columns] if blocks else pd.DataFrame(columns=columns)

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
            self.folder,
            None if out is None else Path(out),
            image_set=self.own_image_set,
            settings=settings,
            progress=progress,
        )

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r}, detectors: {', '.join(self.detectors)})"

    def _repr_html_(self) -> str:
        return "\n".join(self.overall(attribute=name)._repr_html_() for name in self.attributes)

    def _asked(
        self, attribute: str | None, *, unit: Unit | None, seed: int | None, level: float | None
    ) -> tuple[FinishedStudy, Intervals]:
        part, asked = self.of_attribute(attribute), {"unit": unit, "seed": seed, "level": level}
        given = {name: value for name, value in asked.items() if value is not None}
        try:
            return part, type(part.intervals).model_validate({**part.intervals.model_dump(), **given})
        except ValidationError as error:
            raise config_error_from(error, place="", model=type(part.intervals)) from error

    def _check_detector(self, name: str) -> None:
        if name not in self.detectors:
            raise ConfigError(f"no detector {name!r} in this study: {nearest_hint(name, self.detectors)}")

    def _stored(self, *columns: str) -> dict[str, pa.Table]:
        """The predictions of the study's detectors, with further columns."""
        from detector_bench.evaluation import read_predictions

        stored = read_predictions(self.folder, also=columns)
        return {name: stored[name] for name in self.detectors if name in stored}


def annotators_agreement(
    image_set: Path | str, *, attribute: str | None = None, min_shared: int = 10
) -> ResultTables:
    """How far annotators of an image set agree, before any detector has run; see `Results.agreement`.

    Args:
        image_set: its folder; images without labels may be among its images.
        attribute: None: gender.
        min_shared: pairs with fewer images in common are left out.
    """
    from detector_bench.dataset import ImageSet

    images = ImageSet.load(Path(image_set), require_labels=False)
    return _agreement(images, {}, attribute=attribute or "gender", min_shared=min_shared)


def _agreement(
    image_set: ImageSet, predictions: Mapping[str, pa.Table], *, attribute: str, min_shared: int
) -> ResultTables:
    from detector_bench.evaluation.agreement import agreement
    from detector_bench.tables.agreement_tables import annotator_agreement, pair_agreement

    numbers = agreement(image_set, predictions, attribute=attribute, min_shared=min_shared)
    tables = [build(numbers, attribute=attribute) for build in (annotator_agreement, pair_agreement)]
    note = f"Two raters have a row if they share {min_shared} images or more."
    if numbers.empty:
        note = f"No two raters of {attribute} share {min_shared} images: there is nothing to compare."
    return ResultTables({table.name: table for table in tables}, {"agreement": numbers}, (note,))


def _about(family: ComparisonFamily, settings: Intervals, *, left_out: Sequence[str]) -> str:
    """How many tests were made together, and on what."""
    joint, names = family.contests[0]
    pairs, metrics = len(names) * (len(names) - 1) // 2, len(family.metrics)
    prompts = settings.unit == "prompt"
    could_be = "other prompts of the same categories" if prompts else "other images of the same prompts"
    about = (
        f"{joint.images:,} labelled images. {family.size:,} tests at once: {pairs} "
        f"{'pair' if pairs == 1 else 'pairs'} of {len(names)} detectors, {metrics} "
        f"{'metric' if metrics == 1 else 'metrics'}. What could have come out otherwise: {could_be}. "
        f"All hold together at {100 * settings.level:g} %. Seed {settings.seed}."
    )
    return f"{about} Not among them, as judged on other images: {', '.join(left_out)}." if left_out else about
