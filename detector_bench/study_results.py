"""What an evaluation writes: numbers out of predictions and labels, tables out of numbers, the manifest last."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from detector_bench.atomic_files import remove
from detector_bench.dataset import ImageSet
from detector_bench.dataset.generations import read_generations
from detector_bench.dataset.sample_file import LabelSample, sample_of
from detector_bench.errors import DataError, IncompletePredictionsError
from detector_bench.evaluation import evaluate_with_confusion, label_doubt
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.counting import count_verdicts
from detector_bench.evaluation.estimates import EstimatedBias, estimate_bias
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.metric_table import with_rows
from detector_bench.evaluation.refusals import bound_rows, request_rows
from detector_bench.others.study_scores import ScoredStudy, TableSources, score_tables
from detector_bench.plugins import plugin_files
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.inputs import IMAGE_SET, write_row_hashes
from detector_bench.results.label_plans import label_plans
from detector_bench.results.local_paths import published_predictions
from detector_bench.results.long_tables import (
    COLUMNS_NEEDED,
    FURTHER_TABLES,
    MOST_IMAGES,
    further_tables,
    no_rows,
    write_long_table,
    write_own_table,
)
from detector_bench.results.manifest import NAME, STUDY_FILE, Counts, EvaluationSettings, Manifest, tables_written
from detector_bench.results.metric_lookup import MetricLookup, rows_of_attribute
from detector_bench.results.proof import Proof, digests
from detector_bench.results.run_record import NAME as RUN_RECORD
from detector_bench.results.run_record import environment, take_over_run_record
from detector_bench.runner.stored_predictions import StoredPredictions, read_predictions
from detector_bench.study_calibration_notes import calibration_notes
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_proof import judged_files
from detector_bench.tables import Table, in_style_of, remove_tables, study_tables, write_tables
from detector_bench.vocabulary import ATTRIBUTES


@dataclass(frozen=True)
class _Numbers:
    """What an evaluation computes at once, while the predictions are in memory."""

    metrics: pd.DataFrame
    confusion: pd.DataFrame
    label_doubt: pd.DataFrame
    scored: ScoredStudy | None
    estimated: EstimatedBias
    counts: Counts

    @classmethod
    def of(
        cls,
        study: StudyConfiguration,
        image_set: ImageSet,
        predictions: CodedPredictions,
        *,
        allow_incomplete: bool,
    ) -> _Numbers:
        """Compute them."""
        metrics, confusion = evaluate_with_confusion(
            image_set,
            predictions,
            attributes=study.attributes,
            n_clear=study.n_clear,
            allow_incomplete=allow_incomplete,
            intervals=study.intervals,
        )
        doubt = label_doubt(
            image_set,
            predictions,
            attributes=study.attributes,
            n_clear=study.n_clear,
            allow_incomplete=allow_incomplete,
            intervals=study.intervals,
            estimate=study.estimated_labels,
        )
        sample, wrong = _sample(image_set)
        generations = read_generations(image_set)
        scored = None
        if study.scores:
            scored = ScoredStudy.of(
                study.scores, image_set, predictions, study.intervals, sample=sample, estimates=not wrong
            )
            metrics = with_rows(metrics, scored.metrics)
        estimated = (
            EstimatedBias.none(
                dict.fromkeys(study.attributes, (f"Nothing is estimated over all images: {wrong}",))
            )
            if wrong
            else estimate_bias(
                image_set,
                predictions,
                attributes=study.attributes,
                sample=sample,
                settings=study.estimates,
                generations=generations,
            )
        )
        metrics = with_rows(metrics, estimated.rows)
        if generations is not None:
            metrics = with_rows(metrics, request_rows(generations, study.intervals))
            bounds = bound_rows(
                image_set, predictions, generations, attributes=study.attributes, estimated=estimated.rows
            )
            metrics = metrics if bounds is None else with_rows(metrics, bounds)
        return cls(metrics, confusion, doubt, scored, estimated, predictions.status_counts)

    def tables(self, study: StudyConfiguration, image_set: ImageSet, *, intervals: bool) -> dict[str, Table]:
        """The tables for people, in the study's style."""
        tables = study_tables(
            self.metrics,
            attributes=study.attributes,
            n_clear=study.n_clear,
            max_error_share=study.max_error_share,
            prompts=image_set.prompts,
            intervals=intervals,
            confusion=self.confusion,
            label_doubt=self.label_doubt,
        )
        if self.scored is not None:
            tables |= score_tables(
                TableSources(
                    metrics=self.metrics,
                    prompts=image_set.prompts,
                    files=self.scored.files,
                    notes=self.scored.notes,
                    max_error_share=study.max_error_share,
                    intervals=intervals,
                )
            )
        style = study.table_style
        return {name: style.applied(table, display_names=study.display_names) for name, table in tables.items()}


def write_results(
    study: StudyConfiguration,
    image_set: ImageSet,
    out: Path,
    *,
    judged: Path,
    inputs: Mapping[str, str],
    stored: StoredPredictions | None = None,
    proof: Proof | None = None,
    allow_incomplete: bool = False,
    tables_with_intervals: bool = False,
) -> dict[str, Table]:
    """Everything that an evaluation writes, the manifest last.

    Args:
        study: what is evaluated, and how.
        image_set: its images and labels.
        out: the result folder.
        judged: the folder of the predictions.
        inputs: the sha256 of what is read beside predictions; see `results.inputs`.
        stored: the predictions, if they were opened already.
        proof: what was compared of predictions that are stored; None: the study itself has just judged.
        allow_incomplete, tables_with_intervals: as in `Study.evaluate`.

    Returns:
        The study's tables, by name.
    """
    stored = stored or predictions_of(study, judged)
    names = [entry.name for entry in study.detectors]
    settings = study.evaluation_settings(out)
    # Of many millions of images predictions take much of the memory: nothing holds them from here on.
    numbers = _Numbers.of(
        study,
        image_set,
        CodedPredictions(ImageIndex.of(image_set), stored, detectors=names, attributes=study.attributes),
        allow_incomplete=allow_incomplete,
    )
    earlier = tables_written(out)
    remove(out / NAME)  # a reader who comes while files are exchanged finds half a folder
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(write_long_table, "metrics", numbers.metrics, out)
        files, not_comparable = _write_long_tables(
            study, image_set, out, numbers, judged=judged, settings=settings
        )
        tables = numbers.tables(study, image_set, intervals=tables_with_intervals)
    files |= writing.result()
    written = [path.relative_to(out).as_posix() for path in write_tables(tables, out / "tables")]
    remove_tables(set(earlier) - set(tables), out / "tables")
    for name, table in {} if numbers.scored is None else numbers.scored.files.items():
        files |= write_own_table(name, table, out)
    files |= write_row_hashes(image_set, out)
    study.write(out, predictions=judged)
    if proof is None:
        proof = Proof(predictions=judged_files(stored, names))
    else:
        take_over_run_record(judged.parent, out)
    written += [*files, STUDY_FILE, RUN_RECORD, *(f"attributes/{name}.yaml" for name in settings.classes)]
    Manifest(
        study=study.name,
        settings=settings,
        seeds=settings.draws(image_set),
        image_set={
            "name": image_set.name,
            "fingerprint": inputs[IMAGE_SET],
            "images": len(image_set.image_ids),
        },
        predictions=published_predictions(out, judged)[0],
        counts=numbers.counts,
        not_comparable=not_comparable,
        tolerance=study.tolerance,
        estimate_notes=numbers.estimated.notes,
        calibration_notes=calibration_notes(study, judged, image_set.prompts),
        score_notes={} if numbers.scored is None else dict(numbers.scored.notes),
        environment=environment(),
        plugins=plugin_files(),
        files=files,
        tables=tuple(tables),
        proof=proof.model_copy(update={"inputs": dict(inputs), "files": digests(out, written)}),
    ).write(out)
    return tables


def _write_long_tables(
    study: StudyConfiguration,
    image_set: ImageSet,
    out: Path,
    numbers: _Numbers,
    *,
    judged: Path,
    settings: EvaluationSettings,
) -> tuple[dict[str, int], dict[str, str]]:
    """All but the metric table: rows of each file, and by attribute why its detectors are not compared."""
    tests = numbers.estimated.tests
    files = write_long_table("confusion", numbers.confusion, out)
    files |= write_long_table("label_doubt", numbers.label_doubt, out)
    further, not_comparable = _further_tables(study, image_set, judged, settings, numbers.metrics)
    files |= write_long_table("t2i_model_biases", tests.biases, out)
    files |= write_long_table("t2i_model_comparisons", tests.differences, out)
    files |= write_long_table("refusal_effects", tests.refusal_effects, out)
    for name in (*FURTHER_TABLES, "label_plans"):
        files |= write_long_table(name, further.get(name, no_rows(name)), out)
    return files, not_comparable


def stored_tables(results: ResultFolder, *, prompts: pd.DataFrame | None = None) -> dict[str, Table]:
    """The study's tables out of a result folder, with intervals where it has them; no scores of other benchmarks.

    Args:
        results: the folder.
        prompts: columns `prompt_id, word`; None: prompts are shown by their ids.
    """
    metrics, confusion = results.table("metrics"), results.table("confusion")
    tables = study_tables(
        metrics,
        attributes=results.settings.attributes,
        n_clear=results.settings.n_clear,
        max_error_share=results.settings.max_error_share,
        prompts=prompts,
        intervals=has_intervals(metrics),
        confusion=confusion,
        label_doubt=results.table("label_doubt"),
    )
    return {name: in_style_of(results.study, table) for name, table in tables.items()}


def stored_score_tables(results: ResultFolder, *, prompts: pd.DataFrame | None = None) -> dict[str, Table]:
    """The tables of other benchmarks' scores out of a result folder; none where the study has no such scores.

    Args:
        results: the folder.
        prompts: as in `stored_tables`.
    """
    if not results.settings.scores:
        return {}
    metrics = results.table("metrics")
    sources = TableSources(
        metrics=metrics,
        prompts=prompts,
        files=results.score_files,
        notes=results.manifest.score_notes,
        max_error_share=results.settings.max_error_share,
        intervals=has_intervals(metrics),
    )
    return {name: in_style_of(results.study, table) for name, table in score_tables(sources).items()}


def has_intervals(metrics: pd.DataFrame) -> bool:
    """Whether any number of a metric table has a confidence interval."""
    return bool(metrics["ci_low"].notna().any())


def predictions_of(study: StudyConfiguration, judged: Path) -> StoredPredictions:
    """The stored predictions of a study.

    Raises:
        IncompletePredictionsError: there are none of one of its detectors.
    """
    stored = StoredPredictions(judged, also=_columns_needed(study))
    names = [entry.name for entry in study.detectors]
    if missing := [name for name in names if name not in stored]:
        raise IncompletePredictionsError(
            f"{str(judged)!r} holds no predictions of {', '.join(missing)} "
            f"(it holds: {', '.join(sorted(stored)) or 'none'}); run the study first, or correct its detectors"
        )
    return stored


def _sample(image_set: ImageSet) -> tuple[LabelSample | None, str]:
    """The sample of the images that were drawn to be labelled, and why there is none if it is wrong: one that does
    not belong to the images says nothing."""
    try:
        return sample_of(image_set), ""
    except DataError as error:
        return None, str(error).splitlines()[0]


def _further_tables(
    study: StudyConfiguration,
    image_set: ImageSet,
    judged: Path,
    settings: EvaluationSettings,
    metrics: pd.DataFrame,
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Causes, ranks, agreement and label plans; of large studies none, and no column is read for them."""
    if len(image_set.image_ids) > MOST_IMAGES:
        return {}, {}
    stored = read_predictions(judged, also=COLUMNS_NEEDED)
    predictions = {name: stored[name] for name in settings.detectors}
    further, not_comparable = further_tables(image_set, predictions, settings)
    return {**further, "label_plans": _label_plans(study, image_set, predictions, metrics)}, not_comparable


def _label_plans(
    study: StudyConfiguration, image_set: ImageSet, predictions: dict[str, pa.Table], metrics: pd.DataFrame
) -> pd.DataFrame:
    """The images that would settle what the study's own tolerance leaves open."""
    plans = []
    for name in study.attributes:
        own = rows_of_attribute(metrics, attribute=name)
        lookup = MetricLookup.of_table(own, attribute=name, max_error_share=study.max_error_share)
        judged = {each: predictions[each] for each in lookup.detectors}
        counts = count_verdicts(image_set, judged, attribute=name, allow_incomplete=True)
        plans.append(label_plans(lookup, counts, tolerance=study.tolerance, intervals=study.intervals))
    return pd.concat(plans, ignore_index=True)


def _columns_needed(study: StudyConfiguration) -> tuple[str, ...]:
    """Columns of the predictions beyond those that every evaluation reads."""
    measured = any(ATTRIBUTES[name].unit is not None for name in study.attributes)
    return ("value",) if study.scores or measured else ()
