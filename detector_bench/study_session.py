"""From a study to a session of its detectors over its image set, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from detector_bench.dataset import ImageSet
from detector_bench.detectors.base import Detector
from detector_bench.perception.answers.paid_ledger import FOLDER, new_session
from detector_bench.results.manifest import last_evaluation
from detector_bench.runner.array_job import sensible_tasks
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_settings import RunSettings, available_cores
from detector_bench.runner.stage_cache import default_cache_folder
from detector_bench.study_configuration import StudyConfiguration


class RunOrder(BaseModel):
    """What a run is asked for besides its study; nothing here changes a verdict.

    Attributes:
        weights_dir: a folder with weights files.
        cache_dir: where stage results are kept; None: in the user's cache folder.
        use_cache: False keeps no stage results.
        shards: into how many shards the image set is cut; None: as the folder is, or by its size.
        workers: how many share the work; None: one process, or with Ray one per GPU or node.
        threads: how many cores one process may use; None: all, or its share of them.
        engine: who shares the work: processes on this machine, or a Ray cluster.
        address: of the Ray cluster; None: one is started on this machine.
        budget: the most that all answers of paid services in the result folder may cost together; None: no limit.
        session: a name for the run, which the processes that share its work have in common.
        changed_inputs: labels, images or prompts may be others than those of the folder's present numbers.
    """

    model_config = ConfigDict(frozen=True)

    weights_dir: Path | None = None
    cache_dir: Path | None = None
    use_cache: bool = True
    shards: int | None = None
    workers: int | None = None
    threads: int | None = None
    engine: Literal["processes", "ray"] = "processes"
    address: str | None = None
    budget: float | None = None
    session: str | None = None
    changed_inputs: bool = False

    @property
    def processes(self) -> int:
        """How many processes on this machine judge, each with shards of its own."""
        return self.workers or 1 if self.engine == "processes" else 1

    @property
    def cores_each(self) -> int:
        """How many cores each of these processes may use: what is asked for, or its share."""
        return self.threads or max(1, available_cores() // self.processes)


def cut_for_tasks(study: StudyConfiguration, out: Path, order: RunOrder) -> tuple[int, int]:
    """Decide into how many shards a result folder is cut, and which versions of detectors judge; judge nothing.

    Args:
        study: what is judged by whom.
        out: the result folder.
        order: may ask for shards; else the folder stays as it is cut, or gets shards for tasks of middling length.

    Returns:
        The numbers of images and of shards.

    Raises:
        DetectorBenchError: as `session_of`, or somebody judges while the folder would have to be cut anew.
    """
    _, session = session_of(study, out, order)
    present = session.ledger.layout()
    if order.shards is None and (present is None or present.shards == 1):
        session.settings = replace(session.settings, shards=sensible_tasks(session.images))
    return session.images, session.decide_layout()


def session_of(study: StudyConfiguration, out: Path, order: RunOrder) -> tuple[ImageSet, RunSession]:
    """The study's image set and a session of its detectors over it, checked; nothing is judged yet."""
    detectors = study.build_detectors()
    image_set = study.load_image_set()
    study.check_image_set(image_set)
    return image_set, session_over(study, image_set, detectors, out, order)


def session_over(
    study: StudyConfiguration,
    image_set: ImageSet,
    detectors: Sequence[Detector],
    out: Path,
    order: RunOrder,
    *,
    of: Path | None = None,
) -> RunSession:
    """A session of any detectors over the study's image set, run as the study runs its own.

    Args:
        study, image_set, detectors: what is judged by whom.
        out: the result folder.
        order: what the run is asked for.
        of: the result folder whose paid answers and pinned revisions count; None: `out`.
    """
    settings = RunSettings(
        batch_size=study.batch_size,
        max_pixels=study.max_pixels,
        cache_folder=(order.cache_dir or default_cache_folder()) if order.use_cache else None,
        shards=order.shards,
        workers=order.processes,
        threads=order.threads,
        images_may_change=order.changed_inputs or last_evaluation(out) is None,
        paid_folder=(of or out) / FOLDER,
        session=order.session or new_session(),
        budget=order.budget,
    )
    weights = study.locator(weights_dir=order.weights_dir, out=of or out)
    return RunSession(image_set, detectors, out / "predictions", weights=weights, settings=settings)
