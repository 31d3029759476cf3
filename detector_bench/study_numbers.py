"""The numbers of a result folder, read by name, and every question that can be asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pydantic import ValidationError

from detector_bench import study_questions as questions
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.evaluation.agreement import DEFAULT_MIN_SHARED
from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.refusals import REQUEST_METRICS
from detector_bench.plugins import PluginFile
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.results.manifest import Counts
from detector_bench.results.metric_lookup import Number
from detector_bench.results.run_record import read_run_record
from detector_bench.study_agreement import agreement
from detector_bench.study_calibration import calibrate
from detector_bench.study_estimates import estimate
from detector_bench.study_plan import plan, plan_settings
from detector_bench.study_questions import ResultTables
from detector_bench.tables import Table, filtering_and_accuracy, in_style_of
from detector_bench.vocabulary import ALL, GROUND_TRUTH
from detector_bench.vocabulary.score_maps import Method

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.metrics.bootstrap import Unit


@dataclass(frozen=True, eq=False, repr=False)
class StudyNumbers:
    """What a study found, as far as its result folder alone can say; `study.Results` is this with its study.

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

    def estimate(
        self,
        *,
        attribute: str | None = None,
        about: Literal["images", "t2i_model"] | None = None,
        level: float | None = None,
        sample: Path | str | None = None,
        validated_on: Path | str | None = None,
    ) -> ResultTables:
        """How biased each T2I model is over all of its images, from all detectors' verdicts and the labels of
        some.

        The labels of the image set are read anew. Beside the estimates stand those from labels alone, and each
        detector as it is.

        Args:
            attribute: None: all of the study's that have a label.
            about: "images": what the labels of all images would say; "t2i_model": what the T2I models would show
                with endlessly many images of these prompts; None: as the study says.
            level: of the intervals; None: the study's.
            sample: which images were drawn to be labelled; None: `sample.csv` in the image set's folder, or,
                without one, labelled images are taken as drawn at random within each prompt.
            validated_on: the result folder of another study, whose labels say how the same detectors err: then
                also estimates without any label on these images, with the tests and warnings that are possible.

        Raises:
            ConfigError: no image has a label of the attribute; or the other study is this one, has other
                classes, other detectors or too few labels.
            DataError: the sample does not belong to these images.
        """
        attributes = (
            self.reader.settings.attributes if attribute is None else (self.of_attribute(attribute).attribute,)
        )
        return estimate(
            self.reader,
            attributes,
            about=about,
            level=level,
            sample=None if sample is None else Path(sample),
            validated_on=None if validated_on is None else Path(validated_on),
        )

    def plan(
        self,
        score: str = "model_bias_score",
        *,
        half_width: float = HALF_WIDTH,
        attribute: str | None = None,
        t2i_models: Sequence[str] = (),
        about: Literal["images", "t2i_model"] | None = None,
        level: float | None = None,
        sample: Path | str | None = None,
        validated_on: Path | str | None = None,
        seconds_per_label: float = 4.0,
    ) -> ResultTables:
        """How many labels and images take each T2I model's score to a half-width; of which prompts, and with which
        detectors.

        A forecast from the labels at hand; a guess where there are none.

        Args:
            score: "model_bias_score", "mean_prompt_bias_score", "prompt_bias_score" (each prompt's by itself) or
                "label_share_" and a label.
            half_width: half the length of the interval that is wanted, above 0 to 1.
            attribute: None: the study's first.
            t2i_models: none: all.
            about: see `estimate`; None: as the study says.
            level: of the intervals; None: the study's.
            sample: see `estimate`.
            validated_on: result folder of another study with labels: before any label here, it says what detectors
                are worth.
            seconds_per_label: for the time that the labels take.

        Returns:
            The tables `audit_plan`, `prompts_to_label` and `detectors_worth`; their numbers, and `label_curves`:
            the half-width at every number of labels.

        Raises:
            ConfigError: an unknown score or T2I model, a half-width beyond 0 to 1, no detector, or another study
                that has none of the detectors.
            DataError: the sample does not belong to these images.
        """
        own = self.reader.settings.estimates
        settings = plan_settings(
            score=score,
            half_width=half_width,
            about=about or own.about,
            level=level or own.level,
            seed=own.seed,
            seconds_per_label=seconds_per_label,
        )
        return plan(
            self.reader,
            self.of_attribute(attribute).attribute,
            settings,
            t2i_models=tuple(t2i_models),
            sample=None if sample is None else Path(sample),
            validated_on=None if validated_on is None else ResultFolder.open(validated_on),
        )

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

    def calibrate(
        self,
        detector: str,
        *,
        attribute: str | None = None,
        method: Method = "temperature",
        confidence: float = 0.95,
        seed: int | None = None,
        level: float | None = None,
        file: Path | str | None = None,
    ) -> ResultTables:
        """What a detector's scores are worth as probabilities, and which errors it can promise by abstaining.

        Args:
            detector: its name; one that is not calibrated yet.
            attribute: None: all of the study's that it judges with a score.
            method: "temperature", for attributes of two classes, or "isotonic".
            confidence: with which each promise holds.
            seed: of folds and resamples; None: the study's.
            level: of the intervals; None: the study's.
            file: is written, for `calibration:` in other studies; None: nothing is.

        Returns:
            Tables `calibration` and `promised_errors`, of several attributes each with its name behind it.

        Raises:
            ConfigError: no such detector or method, or no labelled image with a score.
        """
        self._check_detectors(detector)
        names = self.attributes if attribute is None else (self.of_attribute(attribute).attribute,)
        found, content = calibrate(
            self.reader,
            detector,
            attributes=names,
            method=method,
            confidence=confidence,
            seed=seed,
            level=level,
        )
        if file is not None:
            content.write(Path(file))
        return found

    def agreement(self, *, attribute: str | None = None, min_shared: int = DEFAULT_MIN_SHARED) -> ResultTables:
        """How far annotators agree among themselves, and each detector with each of them.

        Args:
            attribute: None: the study's first.
            min_shared: pairs with fewer images in common are left out.

        Returns:
            Tables `annotator_agreement` and `pair_agreement`.
        """
        return agreement(self.of_attribute(attribute), min_shared=min_shared)

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
