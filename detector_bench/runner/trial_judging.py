"""Judges a sample of images as a run does, and keeps only how long it took and how much it would have written."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.detectors.base import Prediction
from detector_bench.errors import ConfigError
from detector_bench.perception.stage import Stage, with_inputs
from detector_bench.runner.ahead import ahead
from detector_bench.runner.forecast import ImageKind, MeasuredPace
from detector_bench.runner.image_reading import ImageFile, LoadedImage, LoadingRules
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.loading import loaded_batches
from detector_bench.runner.prediction_store import PredictionStore
from detector_bench.runner.run_ledger import asks_service
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.stage_cache import StageCache

IMAGES_PER_KIND = 20
"""So many are judged at least, if there are so many."""

_BATCHES = 5
_SECONDS_PER_KIND = 8.0
"""A kind whose images are quick is measured for about so long, on more of them."""

_IMAGES_STORED = 5_000


class TrialJudging:
    """Detectors that judge samples of images, one kind after another.

    Args:
        judge: the detectors; its stages are loaded by the first image.
        settings: of the run to come.

    Attributes:
        loading: seconds that the first image took above the later ones.
        storing: seconds to store the predictions on one image and to put them in order.
        paces: by kind.
        prediction_bytes, cache_bytes: that an image takes on disk.
    """

    def __init__(self, judge: BatchJudge, settings: RunSettings) -> None:
        self._judge = judge
        self._settings = settings
        self.loading = self.storing = 0.0
        self.paces: dict[ImageKind, MeasuredPace] = {}
        self.prediction_bytes = self.cache_bytes = 0.0
        self._verdicts: dict[int, list[tuple[Prediction, str | None]]] = defaultdict(list)

    def measure(self, samples: Mapping[ImageKind, Sequence[ImageFile]]) -> None:
        """Judge at least 20 images of each kind, where it has so many, and more of those that are quick.

        Args:
            samples: images of each kind in random order; at least one kind.

        Raises:
            ConfigError: a stage asks a service that may cost money.
        """
        self._judge.require_ready([file for files in samples.values() for file in files])
        _refuse_to_send(self._judge.fingerprints)
        with TemporaryDirectory(prefix="detector-bench-") as folder:
            stages = None if self._settings.cache_folder is None else Path(folder) / "stages"
            with closing(StageCache(stages)) as cache:
                self._judge.execution.cache = cache
                loading = sum(self._timed(next(iter(samples.values()))[:1], StageCache(None), size=1))
                for kind, files in samples.items():
                    self.paces[kind] = self._pace(files, cache)
            self._judge.execution.cache = StageCache(None)
            self.loading = max(0.0, loading - self.paces[next(iter(samples))].mean)
            images = sum(pace.images for pace in self.paces.values())
            self.prediction_bytes = self._weighed_predictions(Path(folder) / "weighed") / images
            self.storing = self._timed_storing(Path(folder) / "timed")
            if stages is not None:
                self.cache_bytes = sum(path.stat().st_size for path in stages.iterdir()) / images

    def _pace(self, files: Sequence[ImageFile], cache: StageCache) -> MeasuredPace:
        cores, most = self._settings.cores, self._settings.batch_size
        # Small batches, as there are few images; none of them smaller than the cores can work on at once.
        size = min(most, max(IMAGES_PER_KIND // _BATCHES, cores))
        few = files[: max(IMAGES_PER_KIND, size * _BATCHES)]
        pace = MeasuredPace(len(few), self._timed(few, cache, size=size))
        affordable = int(_SECONDS_PER_KIND / max(pace.mean, 1e-6))
        more = files[len(few) :][:affordable]
        if len(more) < _BATCHES * size:
            return pace
        # Those of a short trial no longer count: caches were cold, and batches smaller than those of a run.
        size = most if len(more) >= _BATCHES * most else size
        return MeasuredPace(len(few) + len(more), self._timed(more, cache, size=size))

    def _timed(self, files: Sequence[ImageFile], cache: StageCache, *, size: int) -> list[float]:
        """Seconds for an image in each batch but the first, during which the loading of others begins."""
        rules = LoadingRules(
            wanted=lambda file: with_inputs(self._judge.stages_for(file)),
            needs_decoding=self._judge.needs_decoding,
            fingerprints=self._judge.fingerprints,
            batch_size=size,
            max_pixels=self._settings.max_pixels,
            threads=self._settings.cores,
            execution=self._judge.execution,
        )
        found: list[float] = []
        began = time.perf_counter()
        with closing(ahead(loaded_batches(files, cache=cache, rules=rules), depth=2)) as batches:
            for batch in batches:
                self._take(batch)
                now = time.perf_counter()
                found.append((now - began) / len(batch))
                began = now
        return found[1:] or found

    def _take(self, batch: Sequence[LoadedImage]) -> None:
        contents = {image.file.image_id: image.sha256 for image in batch}
        for number, predictions in enumerate(self._judge.judge(batch)):
            self._verdicts[number] += [(each, contents[each.image_id]) for each in predictions]

    def _weighed_predictions(self, folder: Path) -> int:
        """Bytes of all columns of what was judged; what every file begins and ends with is small in a long run."""
        total = 0
        for number, store in enumerate(self._stores(folder)):
            for prediction, content in self._verdicts[number]:
                store.add([prediction], sha256={prediction.image_id: content})
            store.flush()
            for path in store.folder.glob("*.parquet"):
                groups = pq.read_metadata(path)
                columns = (
                    groups.row_group(group).column(column)
                    for group in range(groups.num_row_groups)
                    for column in range(groups.num_columns)
                )
                total += sum(column.total_compressed_size for column in columns)
        return total

    def _timed_storing(self, folder: Path) -> float:
        """Seconds for an image, by storing the verdicts again and again: of few the beginning would count."""
        image_ids = [f"{number}" for number in range(_IMAGES_STORED)]
        contents: dict[str, str | None] = dict.fromkeys(image_ids, "0" * 64)
        began = time.perf_counter()
        for number, store in enumerate(self._stores(folder)):
            verdicts = [prediction for prediction, _ in self._verdicts[number]]
            for row in range(_IMAGES_STORED * len(self._judge.detectors[number].attributes) if verdicts else 0):
                image_id = image_ids[row % _IMAGES_STORED]
                store.add([replace(verdicts[row % len(verdicts)], image_id=image_id)], sha256=contents)
            store.join(pa.array(image_ids, pa.string()), sha256=contents)
        return (time.perf_counter() - began) / _IMAGES_STORED

    def _stores(self, folder: Path) -> list[PredictionStore]:
        return [
            PredictionStore(
                folder / f"{number}",
                detector=detector.name,
                fingerprint=version.fingerprint,
                identity=version.identity,
            )
            for number, (detector, version) in enumerate(
                zip(self._judge.detectors, self._judge.versions, strict=True)
            )
        ]


def _refuse_to_send(stages: Iterable[Stage]) -> None:
    for stage in stages:
        if stage.sends() is not None or asks_service(stage):
            raise ConfigError(f"a trial sends nothing, and the stage {stage.kind!r} asks a service")
