"""Actors that judge, each with its GPU or share of cores, and who hands out images to them.

One that dies is replaced, and what it had is given to another. Each has only a few portions at a time, and only a
few are read ahead, so that memory does not grow with the image set.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.runner.chunks import Chunk, JudgedChunk, StageResults, predictions_in
from detector_bench.runner.image_reading import ImageFile, LoadedImage, readings
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.run_ledger import asks_service
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.shard_run import JudgedBatch
from detector_bench.runner.stage_cache import StageCache
from detector_bench.study_ray.cluster import RayCluster, Share
from detector_bench.study_ray.nodes import NodeJob, NodeJudge, NodeProblem
from detector_bench.study_ray.reading import Portion, PortionReader, pixels_needed

_PORTIONS_OF_A_WORKER = 3
"""One that is judged, one that is decoded, one on its way."""

_MOST_TRIES = 5
"""A portion at which so many workers have died is given up: it is not by chance."""

_MOST_EARLY_DEATHS = 5
_SECONDS_OF_A_GLANCE = 0.5
_SECONDS_BETWEEN_QUESTIONS = 2.0
_SECONDS_TO_SAVE = 5.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ShardGivenUpError(DetectorBenchError):
    """Workers die on a shard's images again and again."""


@dataclass(eq=False)
class _Worker:
    """An actor."""

    actor: Any
    preparing: Any
    """What tells that it is there and ready."""
    ready: bool = False
    portions: dict[Any, Portion] = field(default_factory=dict)
    """What it has to judge, the oldest first, by the reference to what will come out."""
    asked: float = 0.0
    """When it was asked last for results of what it is at."""


class RayCrew:
    """Judges the images of one shard after another by actors. Ray is asked when there is something to judge.

    Args:
        cluster: where.
        judge: the detectors as this process has them; it loads no stage.
        settings: batch size and the like.
        job: makes what the nodes must know, for workers that compute with so many threads.
        workers: how many; None: one per GPU, or one per node.
        threads: how many cores each may use; None: its share.
    """

    def __init__(
        self,
        cluster: RayCluster,
        judge: BatchJudge,
        settings: RunSettings,
        *,
        job: Callable[[int], NodeJob],
        workers: int | None,
        threads: int | None,
    ) -> None:
        self._cluster = cluster
        self._judge = judge
        self._settings = settings
        self._job = job
        self._wanted = workers, threads
        self._workers: list[_Worker] = []
        self._again: deque[Portion] = deque()
        self._questions: dict[Any, _Worker] = {}
        self._reader: PortionReader | None = None
        self._cache = StageCache(None)
        self._share: Share | None = None
        self._job_reference: Any = None
        self._early_deaths = 0
        self._asks_services = any(asks_service(stage) for stage in judge.fingerprints)
        self._asks = any(stage.cached and stage.images_per_call is not None for stage in judge.fingerprints)

    def require_ready(self, files: Sequence[ImageFile]) -> None:  # noqa: ARG002 - a worker holds all stages
        """Ask for the workers, and wait for the first.

        Raises:
            ConfigError: no cluster; or a node with another version of the package or weights.
            DetectorBenchError: something is missing on a node.
        """
        if self._reader is None:
            self._cluster.open()
            rules = self._judge.loading_rules(self._settings)
            # A cluster of our own sees what this process sees, and one process that reads takes less memory than
            # several; on other nodes reading is spread over their network.
            self._reader = PortionReader(self._cluster, self._judge, rules, in_tasks=not self._cluster.is_own)
            self._share = self._cluster.share(*self._wanted)
            self._job_reference = self._cluster.ray.put(self._job(self._share.threads))
            for _ in range(self._share.workers):
                self._ask_for_worker()
        while not any(worker.ready for worker in self._workers):
            self._hear_workers(self._arrived(_SECONDS_OF_A_GLANCE))

    def judged(self, files: Sequence[ImageFile], cache: StageCache) -> Generator[JudgedBatch, None, None]:
        """As `JudgesElsewhere.judged`.

        Raises:
            ShardGivenUpError: workers died on the same images again and again.
            DetectorBenchError: what a worker met that the user can mend.
        """
        reader = self._reader
        assert reader is not None  # noqa: S101 - `require_ready` comes first
        self._cache = cache
        left = len(files)
        parts = readings(files, most=self._settings.batch_size)
        open_images = len(files)
        try:
            while open_images:
                while reader.under_way < max(2, len(self._workers)):
                    if self._again:
                        reader.begin(self._again.popleft())
                    elif part := next(parts, None):
                        reader.begin(Portion([LoadedImage(file, mark=mark) for file, mark in part], left, cache))
                        left -= len(part)
                    else:
                        break
                self._hand_out(reader)
                for portion, found in self._hear(reader):
                    open_images -= len(portion.images)
                    yield self._stored(portion, found)
        except KeyboardInterrupt:
            self._save_answers()
            raise
        finally:
            self._forget(reader)

    def close(self) -> None:
        """End the workers and the connection."""
        if self._reader is not None:
            self._reader.close()
        for worker in self._workers:
            self._kill(worker)
        self._workers.clear()
        self._cluster.close()

    def _ask_for_worker(self) -> None:
        share = self._share
        assert share is not None  # noqa: S101 - set before
        variables = dict.fromkeys(_THREAD_VARIABLES, str(share.threads))
        kind = self._cluster.ray.remote(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=0,
            max_task_retries=0,
            # A thread for each portion, and one that can always be asked.
            max_concurrency=_PORTIONS_OF_A_WORKER + 2,
            runtime_env={"env_vars": variables},
        )(NodeJudge)
        actor = kind.remote()
        self._workers.append(_Worker(actor, actor.prepare.remote(self._job_reference)))

    def _hand_out(self, reader: PortionReader) -> None:
        while True:
            free = [each for each in self._workers if each.ready and len(each.portions) < _PORTIONS_OF_A_WORKER]
            portion = reader.take() if free else None
            if portion is None:
                return
            worker = min(free, key=lambda each: len(each.portions))
            places = [portion.places.get(image.file.image_id) for image in portion.images]
            chunk = Chunk.of_images(portion.images, places, self._judge.fingerprints, left=portion.left)
            worker.portions[worker.actor.judge.remote(chunk, *portion.data)] = portion
            worker.asked = max(worker.asked, time.monotonic())

    def _hear(self, reader: PortionReader) -> list[tuple[Portion, JudgedChunk]]:
        """Wait a moment, and take what has come: portions that are judged, or read, and news of workers."""
        hungry = any(each.ready and not each.portions for each in self._workers)
        reader.hear_here(wait=hungry and not reader.references)
        self._ask_for_answers()
        arrived = self._arrived(0.02 if reader.reads_here else _SECONDS_OF_A_GLANCE, *reader.references)
        for reference in arrived:
            reader.hear(reference)
        return self._hear_workers(arrived)

    def _arrived(self, seconds: float, *others: Any) -> list[Any]:
        references = [*others, *self._questions]
        references += [worker.preparing for worker in self._workers if not worker.ready]
        references += [reference for worker in self._workers for reference in worker.portions]
        if not references:
            return []
        ray = self._cluster.ray
        with self._judge.execution.spent.waited():
            arrived, _ = ray.wait(references, num_returns=1, timeout=seconds, fetch_local=False)
        if arrived:  # and all else that is there by now
            arrived, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        found: list[Any] = arrived
        return found

    def _hear_workers(self, arrived: Sequence[Any]) -> list[tuple[Portion, JudgedChunk]]:
        judged = []
        for reference in arrived:
            for worker in list(self._workers):
                if reference in worker.portions:
                    found = self._told(worker, reference)
                    portion = worker.portions.pop(reference, None)
                    if isinstance(found, JudgedChunk) and portion is not None and portion.cache is self._cache:
                        self._early_deaths = 0
                        judged.append((portion, found))
                elif reference == worker.preparing and not worker.ready:
                    worker.ready = True
                    self._told(worker, reference)
            if reference in self._questions:
                found = self._told(self._questions.pop(reference), reference)
                if isinstance(found, dict):
                    self._keep(found)
        return judged

    def _told(self, worker: _Worker, reference: Any) -> Any:
        """What a worker has answered; None if it cannot any more, and then others get its portions."""
        errors = self._cluster.ray.exceptions
        try:
            found = self._cluster.ray.get(reference)
        except errors.RayActorError as error:
            self._lost(worker, error)
            return None
        except errors.RayTaskError as error:
            self._failed(worker, reference, error)
            return None
        except errors.RayError:  # what was read is gone with its node
            if (portion := worker.portions.pop(reference, None)) is not None:
                self._again.append(portion)
            return None
        if isinstance(found, NodeProblem):
            # The user has to mend it, and it would be the same with every shard.
            if found.is_budget:
                raise BudgetReachedError(found.message)
            raise ConfigError(found.message)
        return found

    def _lost(self, worker: _Worker, error: Exception) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._kill(worker)
        portions = [portion for portion in worker.portions.values() if portion.cache is self._cache]
        worker.portions.clear()
        if portions:
            portions[0].tries += 1  # the others were only waiting
            if portions[0].tries >= _MOST_TRIES:
                self._ask_for_worker()
                raise ShardGivenUpError(_hopeless(portions[0], "workers died, perhaps for want of memory"))
            # Halves need less memory, and tell whose fault it is.
            self._again.extendleft(reversed([*portions[0].halves(), *portions[1:]]))
        else:
            self._early_deaths += 1
            if "No module named 'detector_bench'" in str(error):
                raise ConfigError("a node of the Ray cluster lacks detector-bench: install the same version there")
            if self._early_deaths >= _MOST_EARLY_DEATHS:
                raise DetectorBenchError(f"workers on Ray end at once: {_last_line(error)}")
        self._ask_for_worker()

    def _failed(self, worker: _Worker, reference: Any, error: Exception) -> None:
        """A worker that is still there has failed on a portion, or could not even be prepared."""
        portion = worker.portions.pop(reference, None)
        if portion is None or portion.cache is not self._cache:
            if reference == worker.preparing:
                raise DetectorBenchError(f"a worker on Ray cannot begin: {_last_line(error)}") from error
            return
        portion.tries += 1
        self._again.append(portion)
        if portion.tries >= _MOST_TRIES:
            raise ShardGivenUpError(_hopeless(portion, f"tries failed, the last: {_last_line(error)}")) from error

    def _stored(self, portion: Portion, found: JudgedChunk) -> JudgedBatch:
        self._keep(found.results)
        execution = self._judge.execution
        if self._asks_services:
            execution.paid.refresh()  # actors write into files of their own
        for label, seconds in found.seconds.items():
            execution.seconds[label] += seconds
        for label, images in found.images.items():
            if images:
                execution.images[label] += images
        for what, seconds in found.spent.items():
            execution.spent.add(what, seconds, beside=True)
        self._judge.devices.update(found.devices)
        self._judge.layouts.update(found.layouts)
        ids = [image.file.image_id for image in portion.images]
        return JudgedBatch(
            contents={image.file.image_id: image.sha256 for image in portion.images},
            predictions=predictions_in(found.predictions, ids, detectors=len(self._judge.detectors)),
            from_cache=sum(image.error is None for image in portion.images) - pixels_needed(portion),
        )

    def _keep(self, results: StageResults) -> None:
        for stage, found in results.items():
            self._cache.put(stage, found)

    def _ask_for_answers(self) -> None:
        """Slow and paid answers are kept while a portion is being judged, not only when it is done."""
        now = time.monotonic()
        for worker in self._workers if self._asks else ():
            if worker.portions and now - worker.asked >= _SECONDS_BETWEEN_QUESTIONS:
                worker.asked = now
                self._questions[worker.actor.taken_results.remote()] = worker

    def _save_answers(self) -> None:
        """At an interruption, keep what workers have found out for portions that are not done."""
        questions = [each.actor.taken_results.remote() for each in self._workers if each.portions]
        if not questions:
            return
        ray = self._cluster.ray
        arrived, _ = ray.wait(questions, num_returns=len(questions), timeout=_SECONDS_TO_SAVE)
        for reference in arrived:
            with suppress(ray.exceptions.RayError):
                self._keep(ray.get(reference))

    def _forget(self, reader: PortionReader) -> None:
        """What is still under way belongs to a shard that is done, or given up."""
        self._cache = StageCache(None)
        self._again.clear()
        self._questions.clear()
        reader.forget()

    def _kill(self, worker: _Worker) -> None:
        with suppress(Exception):  # it is gone already, or the connection is
            self._cluster.ray.kill(worker.actor)


def _hopeless(portion: Portion, why: str) -> str:
    first, last = portion.images[0].file.image_id, portion.images[-1].file.image_id
    return f"images {first!r} to {last!r}: {_MOST_TRIES} {why}"


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
