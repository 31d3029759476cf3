"""The questions that can be asked of a result folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pydantic import ValidationError

from detector_bench import study_questions as questions
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.evaluation.agreement import DEFAULT_MIN_SHARED
from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.evaluation.intervals import Intervals
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.study_agreement import agreement
from detector_bench.study_calibration import calibrate
from detector_bench.study_estimates import estimate
from detector_bench.study_numbers import StudyNumbers
from detector_bench.study_plan import plan, plan_settings
from detector_bench.study_questions import ResultTables
from detector_bench.vocabulary.score_maps import Method

if TYPE_CHECKING:
    from detector_bench.metrics.bootstrap import Unit


@dataclass(frozen=True, eq=False, repr=False)
class StudyAnswers(StudyNumbers):
    """What a study found, asked: detectors compared and ranked, causes, estimates, plans."""

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
            score: "model_bias_score", "mean_prompt_bias_score", "prompt_bias_score" (each prompt's by itself), or
                the share of a label, such as "label_share_female".
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
