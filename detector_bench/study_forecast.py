"""How long a study's run will take here, how much memory and disk: by judging a sample of what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.decoding import ImageError, image_format, image_size
from detector_bench.dataset.image_sources import read_image, readers_for
from detector_bench.errors import ConfigError
from detector_bench.perception.stage import Stage, with_inputs
from detector_bench.runner.forecast import UNREADABLE, Forecast, ImageKind, Sampled, forecast, kind_of
from detector_bench.runner.image_reading import ImageFile
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_ledger import asks_service
from detector_bench.runner.run_record import peak_memory_mib
from detector_bench.runner.run_settings import available_cores
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_session import RunOrder, session_of

IMAGES_LOOKED_AT = 2_000
"""Of larger sets so many images are opened to learn of which kinds they are; some of them are judged."""

SEED = 20


def forecast_study(study: StudyConfiguration, out: Path, order: RunOrder) -> Forecast:
    """Measure a sample of the images that are left to judge, and extrapolate; nothing is stored.

    Args:
        study: what is judged by whom.
        out: the result folder; what is judged there already is not counted.
        order: its workers get equal shares of the cores, one of which is measured. Stage results of earlier runs
            are not used.

    Raises:
        ConfigError: a detector asks a service; a forecast sends nothing.
        DetectorBenchError: as a run.
    """
    if asking := asks_services(study):
        raise ConfigError(
            f"--dry-run: {asking[0]!r} asks a service, and nothing is sent for a forecast: measure the others "
            f"with {' '.join(f'--without {name}' for name in asking)}"
        )
    _, session = session_of(study, out, order.model_copy(update={"threads": order.cores_each}))
    left = session.left_to_judge()
    count = sum(len(rows) for rows in left.values())
    if not count:
        return forecast(Sampled(left=0, looked_at={}, paces={}), workers=order.processes)
    trial = session.trial()
    looked_at, samples = _samples(session, left, count)
    trial.measure(samples)
    sampled = Sampled(
        left=count,
        looked_at=looked_at,
        paces=trial.paces,
        loading=trial.loading,
        storing=trial.storing,
        memory_mib=peak_memory_mib(),
        prediction_bytes=trial.prediction_bytes,
        cache_bytes=trial.cache_bytes,
    )
    return forecast(sampled, workers=order.processes)


def _samples(
    session: RunSession, left: Mapping[tuple[int, ...], NDArray[np.intp]], count: int
) -> tuple[Counter[ImageKind], dict[ImageKind, list[ImageFile]]]:
    """How many images of each kind there are among those looked at, and some of each, in random order."""
    randomness = np.random.default_rng(SEED)
    pairs = np.concatenate(
        [np.column_stack([np.full(len(rows), number), rows]) for number, rows in enumerate(left.values())]
    )
    detectors = list(left)
    files = [
        session.files([row], detectors[number])[0]
        for number, row in pairs[randomness.permutation(count)[:IMAGES_LOOKED_AT]].tolist()
    ]
    looked_at: Counter[ImageKind] = Counter()
    samples: dict[ImageKind, list[ImageFile]] = {}
    with ThreadPoolExecutor(readers_for([file.path for file in files], cores=available_cores())) as pool:
        for file, kind in zip(files, pool.map(_kind, files), strict=True):
            looked_at[kind] += 1
            samples.setdefault(kind, []).append(file)
    # The first one is what networks are loaded by.
    return looked_at, dict(sorted(samples.items(), key=lambda each: each[0] == UNREADABLE))


def _kind(file: ImageFile) -> ImageKind:
    try:
        data = read_image(file.path)
        return kind_of(image_format(data), *image_size(data))
    except ImageError:
        return UNREADABLE


def asks_services(study: StudyConfiguration) -> list[str]:
    """Names of the study's detectors that send images, or pay for answers: they are not asked for a forecast."""
    return [
        detector.name
        for detector in study.build_detectors()
        if any(_asks(stage) for stage in with_inputs(detector.stages))
    ]


def _asks(stage: Stage) -> bool:
    # Also a service on this machine that asks no price: who listens there is not known, and keys would go along.
    return stage.sends() is not None or asks_service(stage) or type(stage).spending is not Stage.spending
