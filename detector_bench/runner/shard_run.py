"""One shard of a run: what is left to judge is judged, stored and put in order, and its manifest says so."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import pyarrow as pa

from detector_bench.dataset.image_sources import ImagePlace
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import ChangedInputsError
from detector_bench.perception.stage import Stage
from detector_bench.runner.ahead import ahead
from detector_bench.runner.image_reading import ImageFile, hash_files
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.loading import loaded_batches
from detector_bench.runner.prediction_store import PredictionStore
from detector_bench.runner.run_ledger import asks_service
from detector_bench.runner.run_record import ProgressListener, RunProgress, RunRecord
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.shard_ledger import ShardFile, ShardLedger, ShardManifest
from detector_bench.runner.shards import Shard
from detector_bench.runner.stage_cache import StageCache

_SECONDS_BETWEEN_FLUSHES = 10.0
_ROWS_BETWEEN_FLUSHES = 20_000


class ShardImage(NamedTuple):
    """An image of a shard: its id, where it lies, and how messages call that place."""

    image_id: str
    path: ImagePlace
    shown_path: str


@dataclass(frozen=True)
class JudgedBatch:
    """What came out for some images.

    Attributes:
        contents: by image id, the sha256 of what was judged; None where it could not be read.
        predictions: of each detector, in their order.
        from_cache: how many of the images no stage had to look at.
    """

    contents: Mapping[str, str | None]
    predictions: Sequence[Sequence[Prediction]]
    from_cache: int = 0


class JudgesElsewhere(Protocol):
    """Judges a shard's images in other processes, and keeps their stage results in the shard's cache."""

    def require_ready(self, files: Sequence[ImageFile]) -> None:
        """Check, before anything is done, that all that these images need can run."""

    def judged(self, files: Sequence[ImageFile], cache: StageCache) -> Generator[JudgedBatch, None, None]:
        """Judge all of the images, and yield what came out, in any order."""


class ShardRun:
    """The state of a run while it works on one shard, whose lock it holds.

    Args:
        shard: which one.
        images: its images, in the image set's order.
        judge: detectors and their stages, loaded when they are first needed.
        ledger: of the result folder.
        cache: where this shard's stage results are kept.
        settings: batch size and the like.
        state: is moved on while images are judged.
        progress: is told after every batch.
        elsewhere: judges in other processes; None: `judge` does it here.
    """

    def __init__(
        self,
        shard: Shard,
        images: Sequence[ShardImage],
        *,
        judge: BatchJudge,
        elsewhere: JudgesElsewhere | None = None,
        ledger: ShardLedger,
        cache: StageCache,
        settings: RunSettings,
        state: RunProgress,
        progress: ProgressListener,
    ) -> None:
        self._shard = shard
        self._images = images
        self._judge = judge
        self._elsewhere = elsewhere
        self._ledger = ledger
        self._cache = cache
        self._settings = settings
        self._state = state
        self._progress = progress
        self._began = datetime.now(UTC)
        self._done = 0
        judge.execution.cache = cache
        self._stores = [
            PredictionStore(
                ledger.predictions / detector.name,
                detector=detector.name,
                fingerprint=version.fingerprint,
                identity=version.identity,
                shard=shard,
            )
            for detector, version in zip(judge.detectors, judge.versions, strict=True)
        ]

    def go(self) -> RunRecord:
        """Judge what is missing, put the predictions in order, and write the shard's manifest."""
        began = time.perf_counter()
        self._remove_damaged()
        files, contents = self._plan()
        earlier = self._ledger.manifest(self._shard)
        if files:
            (self._elsewhere or self._judge).require_ready(files)
            with self._ledger.completing():  # files do not change while somebody makes results of them
                self._ledger.begin(self._shard)
        for store in self._stores:
            store.discard_other_versions()
        self._state.reused += len(self._images) - len(files)
        self._progress.update(self._state)
        try:
            if files:
                self._judge_all(files, contents)
            image_ids = pa.array([image.image_id for image in self._images], pa.string())
            for store in self._stores:
                store.join(image_ids, sha256=contents)
        except BaseException:
            # What was judged before need not be judged again.
            self._flush(force=True)
            raise
        self._state.damaged_results += self._cache.damaged
        seconds = time.perf_counter() - began
        record = self._judge.taken_record(images=len(self._images), judged=self._done, seconds=seconds)
        self._add_up_spending(record, contents)
        self._ledger.complete(self._shard, self._manifest(record, earlier))
        return record

    def _remove_damaged(self) -> None:
        # What a manifest vouches for and what is not so any more was written by nobody who judged.
        for path in self._ledger.damaged(self._shard):
            if path.exists() and any(store.folder == path.parent for store in self._stores):
                path.unlink()
                self._state.damaged += 1
        for store in self._stores:
            self._state.damaged += len(store.drop_unreadable())

    def _plan(self) -> tuple[list[ImageFile], dict[str, str | None]]:
        """The images that some detector still has to judge, and the content that stored verdicts are about."""
        finished = [
            _verdicts(store, detector) for store, detector in zip(self._stores, self._judge.detectors, strict=True)
        ]
        judged = [image for image in self._images if any(image.image_id in known for known in finished)]
        hashes = hash_files([image.path for image in judged], cache=self._cache, threads=self._settings.cores)
        contents: dict[str, str | None] = {
            image.image_id: sha256 for image, sha256 in zip(judged, hashes, strict=True)
        }
        if not self._settings.images_may_change:
            _refuse_changed(finished, contents)
        files = []
        for image in self._images:
            sha256 = contents.get(image.image_id)
            open_for = tuple(
                number
                for number, known in enumerate(finished)
                if sha256 is None or known.get(image.image_id) != sha256
            )
            if open_for:
                files.append(ImageFile(image.image_id, image.path, image.shown_path, open_for))
        return files, contents

    def _judge_all(self, files: Sequence[ImageFile], contents: dict[str, str | None]) -> None:
        self._flushed = time.perf_counter()
        found = self._judged_here(files) if self._elsewhere is None else self._elsewhere.judged(files, self._cache)
        with closing(found) as batches:
            for batch in batches:
                self._take(batch, contents)
                self._done += len(batch.contents)
                self._state.done += len(batch.contents)
                self._state.from_cache += batch.from_cache
                self._state.spent = self._judge.execution.paid.spent_in_session()
                self._progress.update(self._state)
                self._flush()
        self._flush(force=True)

    def _judged_here(self, files: Sequence[ImageFile]) -> Generator[JudgedBatch, None, None]:
        loading = loaded_batches(files, cache=self._cache, rules=self._judge.loading_rules(self._settings))
        with closing(ahead(loading, depth=2, spent=self._judge.execution.spent)) as batches:
            for batch in batches:
                yield JudgedBatch(
                    contents={image.file.image_id: image.sha256 for image in batch},
                    predictions=self._judge.judge(batch),
                    from_cache=sum(image.error is None and not image.needs_decoding for image in batch),
                )

    def _take(self, batch: JudgedBatch, contents: dict[str, str | None]) -> None:
        contents.update(batch.contents)
        for store, predictions in zip(self._stores, batch.predictions, strict=True):
            store.add(predictions, sha256=contents)
            self._state.counts.setdefault(store.detector, Counter()).update(each.status for each in predictions)

    def _flush(self, *, force: bool = False) -> None:
        now = time.perf_counter()
        rows = max(store.pending for store in self._stores)
        if force or rows >= _ROWS_BETWEEN_FLUSHES or now - self._flushed >= _SECONDS_BETWEEN_FLUSHES:
            for store in self._stores:
                store.flush()
            self._flushed = now

    def _add_up_spending(self, record: RunRecord, contents: Mapping[str, str | None]) -> None:
        images = list({sha256 for sha256 in contents.values() if sha256 is not None})
        for stage, own in self._judge.fingerprints.items():
            if type(stage).spending is not Stage.spending:
                # What the ledger of this folder holds is added up there, once for all shards.
                paid = self._judge.execution.paid
                others = [image for image in images if not paid.has_answer(own, image)]
                found = self._cache.get(own, others)
                spent = dict(stage.spending(found.values()))
                if asks_service(stage):
                    spent = {f"{name}_of_other_runs": value for name, value in spent.items()} if found else {}
                if spent:
                    record.spending[self._judge.execution.label(stage)] = spent

    def _manifest(self, record: RunRecord, earlier: ShardManifest | None) -> ShardManifest:
        before = {} if earlier is None else earlier.detectors
        sessions = [] if earlier is None else earlier.sessions
        if self._done and self._shard.count > 1:
            session = {"shard": str(self._shard), "began": self._began.isoformat(timespec="seconds")}
            sessions = [*sessions, {**session, **record.session()}]
        return ShardManifest(
            shard=str(self._shard),
            images=len(self._images),
            detectors={
                **self._still_there(before),
                **{store.detector: store.described() for store in self._stores},
            },
            record=record.lasting(),
            sessions=sessions,
        )

    def _still_there(self, files: Mapping[str, ShardFile]) -> dict[str, ShardFile]:
        """Verdicts of detectors that this run does not ask, and leaves as they are."""
        folder = self._ledger.predictions
        return {name: each for name, each in files.items() if (folder / name / each.file).is_file()}


def _refuse_changed(finished: Sequence[Mapping[str, str]], contents: Mapping[str, str | None]) -> None:
    changed = [
        image_id
        for image_id, sha256 in contents.items()
        if any(known.get(image_id, sha256) != sha256 for known in finished)
    ]
    if changed:
        several = f"{len(changed):,} images are not those that were judged, or cannot be read any more"
        one = "1 image is not the one that was judged, or cannot be read any more"
        raise ChangedInputsError(
            f"{one if len(changed) == 1 else several} (first: {changed[0]!r}): there are numbers of what was "
            "judged then; put it back, name another folder with --out, or say --changed-inputs if that is meant"
        )


def _verdicts(store: PredictionStore, detector: Detector) -> Mapping[str, str]:
    """Content that was judged, by image id, for images with a verdict on every attribute."""
    table = store.finished()
    attributes = Counter(table["image_id"].to_pylist())
    contents = dict(zip(table["image_id"].to_pylist(), table["image_sha256"].to_pylist(), strict=True))
    return {image: sha256 for image, sha256 in contents.items() if attributes[image] == len(detector.attributes)}
