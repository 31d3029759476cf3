"""From a study to its result folder: judge, in one process or many, or take stored predictions, and evaluate."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from detector_bench.dataset import ImageSet
from detector_bench.dataset.generations import read_generations
from detector_bench.errors import (
    DetectorBenchError,
    RunInterruptedError,
)
from detector_bench.results.inputs import inputs_of, refuse_changed_inputs
from detector_bench.results.proof import Proof
from detector_bench.results.run_record import (
    write_run_record,
    write_shards_record,
)
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_record import ProgressListener, RunRecord
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger, ShardTakenError
from detector_bench.runner.shards import Shard
from detector_bench.runner.stored_predictions import (
    predictions_folder,
)
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_proof import (
    compare_images,
    compare_with_study,
    refuse_changed_images,
    refuse_differences,
)
from detector_bench.study_ray import run_with_ray
from detector_bench.study_results import predictions_of, write_results
from detector_bench.study_session import RunOrder, session_of
from detector_bench.study_workers import run_with_workers
from detector_bench.tables import Table


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
        write_record(out, session, record=record, began=began)
        return write_results(
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
        write_record(out, session, record=record, began=began)
        return write_results(
            study,
            image_set,
            out,
            judged=out / "predictions",
            inputs=inputs,
            tables_with_intervals=tables_with_intervals,
        )


def _inputs(study: StudyConfiguration, image_set: ImageSet, *folders: Path, may_change: bool) -> dict[str, str]:
    """The sha256 of what is read beside predictions, if it is what the folders' numbers were made of."""
    read_generations(image_set)  # a damaged file is refused before anything is judged
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


def write_record(out: Path, session: RunSession, *, record: RunRecord, began: datetime) -> None:
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
    stored = predictions_of(study, judged)
    image_set = study.load_image_set()
    study.check_image_set(image_set)
    inputs = _inputs(study, image_set, judged.parent, out, may_change=changed_inputs)
    compared = compare_with_study(study, stored)
    images, changed = compare_images(image_set, stored, [entry.name for entry in study.detectors])
    if not allow_unproved:
        refuse_differences(compared.differences, judged=judged)
        refuse_changed_images(changed)
    return write_results(
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
