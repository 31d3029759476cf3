"""The run: detectors over an image set, shard by shard, resumable at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_paths import shown
from detector_bench.detectors.base import Detector
from detector_bench.errors import ConfigError, DetectorBenchError, RunInterruptedError
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.runner.image_reading import ImageFile
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.layout import decide_layout, join_layout
from detector_bench.runner.prediction_store import judged_images
from detector_bench.runner.run_ledger import open_ledger
from detector_bench.runner.run_record import ProgressListener, RunProgress, RunRecord, SilentListener
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.shard_ledger import ShardLedger, ShardTakenError
from detector_bench.runner.shard_run import JudgesElsewhere, ShardImage, ShardRun
from detector_bench.runner.shards import Shard, shard_numbers
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.trial_judging import TrialJudging
from detector_bench.weights import WeightsLocator


def run_detectors(
    image_set: ImageSet,
    detectors: Sequence[Detector],
    folder: Path,
    *,
    weights: WeightsLocator,
    settings: RunSettings | None = None,
    progress: ProgressListener | None = None,
) -> RunRecord:
    """Judge every image of an image set by every detector in this process, and store the predictions.

    Only what is missing runs: pairs of image and detector without a stored verdict on the image's present content
    by the detector's present version. An image that cannot be read or decoded gets an error row, and is tried
    again next time. When nothing is missing no stage is loaded, and pinned weights may be gone; weights without a
    pin must be there, because their content is part of the version. Files of predictions that are damaged are
    removed, and what stood in them is judged again.

    Args:
        image_set: the images.
        detectors: with different names.
        folder: `predictions/`; each detector gets a folder below it.
        weights: where weights are found.
        settings: batch size and the like.
        progress: is told after every batch.

    Returns:
        What was done, and by which versions.

    Raises:
        MissingExtraError, WeightsError: a detector cannot run; nothing has been done then.
        RunInterruptedError: Ctrl-C; what was done is stored.
        ShardTakenError: another process judges a shard; all others are done.
        DetectorBenchError: the folder cannot be written.
    """
    session = RunSession(image_set, detectors, folder, weights=weights, settings=settings)
    return session.run_all(progress)


class RunSession:
    """What a process keeps while it judges one shard after another: the image set, the loaded networks.

    Args: as of `run_detectors`.

    Attributes:
        elsewhere: judges in other processes; None: this one does.

    Raises:
        ConfigError: two detectors have one name, or a budget for what has no price.
        MissingExtraError, WeightsError: a detector's version cannot be told.
    """

    def __init__(
        self,
        image_set: ImageSet,
        detectors: Sequence[Detector],
        folder: Path,
        *,
        weights: WeightsLocator,
        settings: RunSettings | None = None,
    ) -> None:
        names = Counter(detector.name for detector in detectors)
        if repeated := sorted(name for name, count in names.items() if count > 1):
            raise ConfigError(f"several detectors have the name {repeated[0]!r}: give each its own `name`")
        self.settings = settings or RunSettings()
        self.ledger = ShardLedger(folder)
        self.elsewhere: JudgesElsewhere | None = None
        self._image_set = image_set
        self._judge = BatchJudge(detectors, weights=weights, threads=self.settings.cores)
        self._judge.execution.paid = open_ledger(self.settings, self._judge.fingerprints)
        self._numbers: tuple[int, NDArray[np.int32]] | None = None

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of the detectors, by name."""
        return self._judge.detector_fingerprints

    @property
    def judge(self) -> BatchJudge:
        """The detectors, and their stages as far as they are loaded."""
        return self._judge

    def described(self) -> RunRecord:
        """Versions of detectors, stages and weights, and what was paid, of a process that has judged nothing."""
        return self.with_spending(self._judge.taken_record(images=0, judged=0, seconds=0.0))

    def with_spending(self, record: RunRecord) -> RunRecord:
        """The record with what the ledger of this folder holds."""
        found = RunRecord(spending=self._judge.execution.paid.spending())
        found.add(record)
        return found

    @cached_property
    def images(self) -> int:
        """How many images the image set has."""
        return len(self._image_set.table("images"))

    def trial(self) -> TrialJudging:
        """Judge samples of images by this session's detectors, and store nothing."""
        return TrialJudging(self._judge, self.settings)

    def left_to_judge(self) -> dict[tuple[int, ...], NDArray[np.intp]]:
        """Rows of the image table that have no verdict of the present versions, by the detectors that lack one.

        The contents of images are not compared: one that was changed since counts as judged.
        """
        image_ids = self._image_set.table("images").column("image_id").cast(pa.string())
        lacking = np.column_stack(
            [
                ~pc.is_in(
                    image_ids,
                    value_set=judged_images(self.ledger.predictions / detector.name, detector.attributes, own),
                ).to_numpy(zero_copy_only=False)
                for detector, (own, _) in zip(self._judge.detectors, self._judge.versions, strict=True)
            ]
        )
        patterns, which = np.unique(lacking, axis=0, return_inverse=True)
        return {
            tuple(np.flatnonzero(pattern).tolist()): np.flatnonzero(which == number)
            for number, pattern in enumerate(patterns)
            if pattern.any()
        }

    def files(self, rows: list[int], detectors: tuple[int, ...]) -> list[ImageFile]:
        """Images by their rows of the image table, for detectors by their numbers."""
        return [
            ImageFile(image.image_id, image.path, image.shown_path, detectors) for image in self._images_in(rows)
        ]

    def decide_layout(self) -> int:
        """How many shards there are, for who looks after all of them; see `layout.decide_layout`."""
        found = decide_layout(
            self.ledger, images=self.images, settings=self.settings, fingerprints=self.fingerprints
        )
        return found.shards

    def run_all(self, progress: ProgressListener | None = None) -> RunRecord:
        """Judge what is missing in all shards, one after another; see `run_detectors`."""
        shards = Shard.all(self.decide_layout())
        state = RunProgress(total=self.images, shards=len(shards))
        record, taken = RunRecord(), []
        with self.telling_what_is_left():
            for shard in shards:
                try:
                    record.add(self.run_shard(shard, state=state, progress=progress))
                except ShardTakenError:
                    if len(shards) == 1:
                        raise
                    taken.append(shard)
            record.add(self.run_left(taken, state=state, progress=progress))
        return self.with_spending(record)

    @contextmanager
    def telling_what_is_left(self) -> Iterator[None]:
        """When the budget is reached, say how many images have no verdict yet."""
        try:
            yield
        except BudgetReachedError as error:
            left = sum(len(rows) for rows in self.left_to_judge().values())
            images = "1 image is" if left == 1 else f"{left:,} images are"
            raise BudgetReachedError(
                f"{error}; {images} left, and all else is stored: run it again with a larger --budget to go on"
            ) from None

    def run_left(
        self, taken: Sequence[Shard], *, state: RunProgress, progress: ProgressListener | None = None
    ) -> RunRecord:
        """See to shards that others judged when they were due: by now they may be finished, or left unfinished.

        Of several processes that end with shards of each other, the last one finds all of them finished.

        Raises:
            ShardTakenError: another process still judges one of them; it ends later, and writes the results.
        """
        record, left = RunRecord(), list(taken)
        while left:
            still, has_judged = [], False
            for shard in left:
                if self.ledger.is_running(shard, patiently=True):
                    still.append(shard)
                elif shard in self.unfinished(shard.count):
                    record.add(self.run_shard(shard, state=state, progress=progress))
                    has_judged = True
            if still and not has_judged:
                raise ShardTakenError(
                    f"{len(still)} of {still[0].count} shards of {str(self.ledger.predictions)!r} are judged by "
                    "other processes right now, the others are done: who ends last writes the results"
                )
            left = still
        return record

    def unfinished(self, count: int) -> list[Shard]:
        """The shards, of so many, that are not judged by these versions of the detectors.

        Finished ones whose number of images has changed since are among them; an image whose content has changed
        is found when its shard is run.
        """
        sizes = np.bincount(self._shard_numbers(count), minlength=count + 1).tolist()
        return self.ledger.unfinished(self.fingerprints, images=sizes[1:])

    def run_one(self, shard: Shard, progress: ProgressListener | None = None) -> RunRecord:
        """Judge what is missing in one shard, as one process among several.

        Raises:
            ConfigError: the folder is cut otherwise, or others judge by other versions; see `layout.join_layout`.
            ShardTakenError: another process judges the shard.
            Others: as `run_detectors`.
        """
        join_layout(self.ledger, shard, fingerprints=self.fingerprints)
        state = RunProgress(total=len(self._rows(shard)))
        with self.telling_what_is_left():
            return self.with_spending(self.run_shard(shard, state=state, progress=progress))

    def run_shard(
        self, shard: Shard, *, state: RunProgress, progress: ProgressListener | None = None
    ) -> RunRecord:
        """Judge what is missing in a shard of the folder's layout, and write its manifest."""
        progress = progress or SilentListener()
        with self.ledger.running(shard), closing(StageCache(self.settings.cache_folder, shard=shard)) as cache:
            try:
                run = ShardRun(
                    shard,
                    self._shard_images(shard),
                    judge=self._judge,
                    elsewhere=self.elsewhere,
                    ledger=self.ledger,
                    cache=cache,
                    settings=self.settings,
                    state=state,
                    progress=progress,
                )
                record = run.go()
            except KeyboardInterrupt:
                raise RunInterruptedError(
                    f"stopped after {state.done:,} of {state.total - state.reused:,} images; nothing is lost: "
                    "run the same command again to go on"
                ) from None
            except Exception as error:
                self._remember_failure(shard, error)
                raise
        state.shards_done += 1
        if state.shards > 1:
            progress.update(state)
        return record

    def _remember_failure(self, shard: Shard, error: Exception) -> None:
        try:
            self.ledger.fail(shard, str(error) or type(error).__name__)
        except DetectorBenchError:
            return  # of a full disk, for one, that is not the news

    def _rows(self, shard: Shard) -> NDArray[np.intp]:
        """The rows of the image table that belong to a shard."""
        return np.flatnonzero(self._shard_numbers(shard.count) == shard.number)

    def _shard_numbers(self, count: int) -> NDArray[np.int32]:
        if self._numbers is None or self._numbers[0] != count:
            self._numbers = count, shard_numbers(self._image_ids(), count)
        return self._numbers[1]

    def _image_ids(self) -> Iterator[str]:
        for part in self._image_set.table("images").data.select(["image_id"]).to_batches(max_chunksize=100_000):
            yield from part.column(0).to_pylist()

    def _shard_images(self, shard: Shard) -> list[ShardImage]:
        return self._images_in(self._rows(shard))

    def _images_in(self, rows: list[int] | NDArray[np.intp]) -> list[ShardImage]:
        # Of the compact table: the frame of millions of images is made anew each time that it is asked for.
        images = self._image_set.table("images").data.select(["image_id", "path"]).take(pa.array(rows, pa.int64()))
        return [
            ShardImage(image_id, self._image_set.image_place(path), shown(path))
            for image_id, path in zip(images["image_id"].to_pylist(), images["path"].to_pylist(), strict=True)
        ]
