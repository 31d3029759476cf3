"""From a study to its result folder: judge, evaluate, and write what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa

from detector_bench.atomic_files import remove
from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample, sample_of
from detector_bench.errors import (
    DataError,
    DetectorBenchError,
    IncompletePredictionsError,
    RunInterruptedError,
)
from detector_bench.evaluation import evaluate_with_confusion, label_doubt
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.counting import count_verdicts
from detector_bench.evaluation.estimates import EstimatedBias, estimate_bias
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.metric_table import with_rows
from detector_bench.others.study_scores import ScoredStudy, TableSources, score_tables
from detector_bench.plugins import plugin_files
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.inputs import IMAGE_SET, inputs_of, refuse_changed_inputs, write_row_hashes
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
from detector_bench.results.manifest import NAME, STUDY_FILE, EvaluationSettings, Manifest, tables_written
from detector_bench.results.metric_lookup import MetricLookup, rows_of_attribute
from detector_bench.results.proof import Proof, digests
from detector_bench.results.run_record import NAME as RUN_RECORD
from detector_bench.results.run_record import (
    environment,
    take_over_run_record,
    write_run_record,
    write_shards_record,
)
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_record import ProgressListener, RunRecord
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger, ShardTakenError
from detector_bench.runner.shards import Shard
from detector_bench.runner.stored_predictions import (
    StoredPredictions,
    predictions_folder,
    read_predictions,
)
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_proof import (
    compare_images,
    compare_with_study,
    judged_files,
    refuse_changed_images,
    refuse_differences,
)
from detector_bench.study_ray import run_with_ray
from detector_bench.study_session import RunOrder, session_of
from detector_bench.study_workers import run_with_workers
from detector_bench.tables import Table, in_style_of, remove_tables, study_tables, write_tables
from detector_bench.vocabulary import ATTRIBUTES


def run_study(
    study: StudyConfiguration,
    out: Path,
    order: RunOrder,
    *,
    progress: ProgressListener | None = None,
    tables_with_intervals: bool = False,
) -> dict[str, Table]:
    """Judge what is not judged yet, evaluate, and write everything to `out`; see `Study.run`.

    Returns:
        The study's tables, by name.
    """
    began = datetime.now(UTC)
    image_set, session = session_of(study, out, order)
    inputs = _inputs(study, image_set, out, may_change=order.changed_inputs)
    if order.engine == "ray":
        record = run_with_ray(study, order, session=session, progress=progress)
    elif order.processes > 1:
        record = run_with_workers(study, out, order, session=session, progress=progress)
    else:
        record = session.run_all(progress)
    with session.ledger.completing():
        _write_record(out, session, record=record, began=began)
        return _write_results(
            study,
            image_set,
            out,
            judged=out / "predictions",
            inputs=inputs,
            tables_with_intervals=tables_with_intervals,
        )


def run_study_shard(
    study: StudyConfiguration,
    out: Path,
    shard: Shard,
    order: RunOrder,
    *,
    progress: ProgressListener | None = None,
    tables_with_intervals: bool = False,
) -> dict[str, Table] | list[Shard]:
    """Judge what is not judged yet of one shard, and evaluate if that was the last one; see `Study.run_shard`.

    Returns:
        The study's tables, by name; or the shards that are not finished yet.
    """
    began = datetime.now(UTC)
    try:
        image_set, session = session_of(study, out, order)
        inputs = _inputs(study, image_set, out, may_change=order.changed_inputs)
        record = session.run_one(shard, progress)
    except (ShardTakenError, RunInterruptedError):
        raise
    except DetectorBenchError as error:
        _remember_failure(ShardLedger(out / "predictions"), shard, error)
        raise
    if unfinished := session.unfinished(shard.count):
        return unfinished
    with session.ledger.completing():
        _write_record(out, session, record=record, began=began)
        return _write_results(
            study,
            image_set,
            out,
            judged=out / "predictions",
            inputs=inputs,
            tables_with_intervals=tables_with_intervals,
        )


def _inputs(study: StudyConfiguration, image_set: ImageSet, *folders: Path, may_change: bool) -> dict[str, str]:
    """The sha256 of what is read beside predictions, if it is what the folders' numbers were made of."""
    inputs = inputs_of(image_set, study.score_files())
    for folder in () if may_change else dict.fromkeys(folders):
        refuse_changed_inputs(folder, inputs, image_set)
    return inputs


def _remember_failure(ledger: ShardLedger, shard: Shard, error: DetectorBenchError) -> None:
    """Say, to who asks for the shards, why one of many processes could not even begin."""
    with suppress(DetectorBenchError):  # a full disk, or another cut, is no reason to hide the error
        layout = ledger.layout()
        if layout is not None and layout.shards == shard.count and not ledger.is_running(shard):
            ledger.fail(shard, str(error))


def _write_record(out: Path, session: RunSession, *, record: RunRecord, began: datetime) -> None:
    """Write `run.json`, if the files of all shards are as they were written.

    Raises:
        DetectorBenchError: one is not.
        ShardTakenError: another process works on one again; it ends later, and writes the results.
    """
    ledger = session.ledger
    shards = Shard.all((ledger.layout() or ShardLayout()).shards)
    if begun := session.unfinished(len(shards)):
        raise ShardTakenError(
            f"another run has begun shard {begun[0]} of {str(ledger.predictions)!r} again: it writes the results"
        )
    for shard in shards:
        if damaged := ledger.discard_damaged(shard):
            reason = f"{str(damaged[0])!r} is not as it was written"
            ledger.fail(shard, reason)
            raise DetectorBenchError(f"{reason}: run the study again, to judge shard {shard} anew")
    if len(shards) == 1:
        write_run_record(out, record=record, began=began)
    else:
        manifests = [manifest for shard in shards if (manifest := ledger.manifest(shard)) is not None]
        write_shards_record(out, manifests, of=session.described())


def evaluate_study(
    study: StudyConfiguration,
    predictions: Path,
    out: Path,
    *,
    allow_incomplete: bool = False,
    allow_unproved: bool = False,
    changed_inputs: bool = False,
    tables_with_intervals: bool = False,
) -> dict[str, Table]:
    """Compute metrics and tables from stored predictions, without running a detector; see `Study.evaluate`.

    Returns:
        The study's tables, by name.
    """
    judged = predictions_folder(predictions)
    stored = _of_study(study, judged)
    image_set = study.load_image_set()
    study.check_image_set(image_set)
    inputs = _inputs(study, image_set, judged.parent, out, may_change=changed_inputs)
    compared = compare_with_study(study, stored)
    images, changed = compare_images(image_set, stored, [entry.name for entry in study.detectors])
    if not allow_unproved:
        refuse_differences(compared.differences, judged=judged)
        refuse_changed_images(changed)
    return _write_results(
        study,
        image_set,
        out,
        judged=judged,
        stored=stored,
        inputs=inputs,
        proof=Proof(**vars(compared), images=images),
        allow_incomplete=allow_incomplete,
        tables_with_intervals=tables_with_intervals,
    )


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


def _write_results(
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
    """Everything that an evaluation writes, the manifest last; without `proof` of what the study itself judged."""
    stored = stored or _of_study(study, judged)
    names = [entry.name for entry in study.detectors]
    predictions = CodedPredictions(
        ImageIndex.of(image_set),
        stored,
        detectors=names,
        attributes=study.attributes,
    )
    settings = study.evaluation_settings(out)
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
    scored = None
    if study.scores:
        scored = ScoredStudy.of(
            study.scores, image_set, predictions, study.intervals, sample=sample, estimates=not wrong
        )
        metrics = with_rows(metrics, scored.metrics)
    estimated = (
        EstimatedBias.none(dict.fromkeys(study.attributes, (f"Nothing is estimated over all images: {wrong}",)))
        if wrong
        else estimate_bias(
            image_set, predictions, attributes=study.attributes, sample=sample, settings=study.estimates
        )
    )
    metrics = with_rows(metrics, estimated.rows)
    counts = predictions.status_counts
    del predictions  # of many millions of images they take much of the memory
    earlier = tables_written(out)
    remove(out / NAME)  # a reader who comes while files are exchanged finds half a folder
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(write_long_table, "metrics", metrics, out)
        files = write_long_table("confusion", confusion, out) | write_long_table("label_doubt", doubt, out)
        further, not_comparable = _further_tables(study, image_set, judged, settings, metrics)
        files |= write_long_table("t2i_model_biases", estimated.tests.biases, out)
        files |= write_long_table("t2i_model_comparisons", estimated.tests.differences, out)
        for name in (*FURTHER_TABLES, "label_plans"):
            files |= write_long_table(name, further.get(name, no_rows(name)), out)
        tables = study_tables(
            metrics,
            attributes=study.attributes,
            n_clear=study.n_clear,
            max_error_share=study.max_error_share,
            prompts=image_set.prompts,
            intervals=tables_with_intervals,
            confusion=confusion,
            label_doubt=doubt,
        )
        if scored is not None:
            tables |= score_tables(
                TableSources(
                    metrics=metrics,
                    prompts=image_set.prompts,
                    files=scored.files,
                    notes=scored.notes,
                    max_error_share=study.max_error_share,
                    intervals=tables_with_intervals,
                )
            )
    files |= writing.result()
    tables = {
        name: study.table_style.applied(table, display_names=study.display_names) for name, table in tables.items()
    }
    written = [path.relative_to(out).as_posix() for path in write_tables(tables, out / "tables")]
    remove_tables(set(earlier) - set(tables), out / "tables")
    for name, table in {} if scored is None else scored.files.items():
        files |= write_own_table(name, table, out)
    files |= write_row_hashes(image_set, out)
    study.write(out, predictions=judged)
    if proof is None:
        proof = Proof(predictions=judged_files(stored, names))
    else:
        take_over_run_record(judged.parent, out)
    written += [*files, STUDY_FILE, RUN_RECORD]
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
        counts=counts,
        not_comparable=not_comparable,
        tolerance=study.tolerance,
        estimate_notes=estimated.notes,
        score_notes={} if scored is None else dict(scored.notes),
        environment=environment(),
        plugins=plugin_files(),
        files=files,
        tables=tuple(tables),
        proof=proof.model_copy(update={"inputs": dict(inputs), "files": digests(out, written)}),
    ).write(out)
    return tables


def _of_study(study: StudyConfiguration, judged: Path) -> StoredPredictions:
    """The stored predictions, if they are of all the study's detectors."""
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
