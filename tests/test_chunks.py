"""Images on their way to who judges elsewhere, and what comes back: nothing is lost or changed on the way."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from small_parts import MeanColour, image_name, write_image_set

from detector_bench.detectors import Prediction, build_detector
from detector_bench.errors import ConfigError
from detector_bench.plugins import load_plugins, placed_plugins, plugin_sources
from detector_bench.runner.chunk_judge import ChunkJudge
from detector_bench.runner.chunks import Chunk, ChunkImage, predictions_in, predictions_table
from detector_bench.runner.image_reading import ImageFile, LoadedImage, read_and_hash
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.run_settings import RunSettings
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

T = TypeVar("T")

COUNT = 12


def read_images(folder: Path) -> list[LoadedImage]:
    images = []
    for number in range(COUNT):
        path = folder / "images" / f"{image_name(number)}.png"
        images.append(LoadedImage(ImageFile(image_name(number), path, f"images/{path.name}", (0, 1))))
        read_and_hash(images[-1])
    return images


def travelled(given: T) -> T:
    """What comes out in another process."""
    return pickle.loads(pickle.dumps(given))  # noqa: S301 - made here


def judge_of(*names: str) -> BatchJudge:
    return BatchJudge([build_detector(name) for name in names], weights=WeightsLocator(folders=()), threads=2)


def test_chunks_are_judged_as_batches_are_whoever_waits_for_them(tmp_path: Path) -> None:
    images = read_images(write_image_set(tmp_path / "set", COUNT))
    (tmp_path / "set" / "images" / "image_005.png").unlink()  # it was read before
    images[7].error, images[7].sha256 = "unreadable: somebody said so", None
    judge = judge_of("test-colour", "test-age-and-gender")
    data = [np.frombuffer(image.data or b"", np.uint8) for image in images]
    places = [None if image.error else number for number, image in enumerate(images)]
    parts = [slice(start, start + 4) for start in range(0, COUNT, 4)]
    chunks = [
        Chunk.of_images(
            images[part],
            [None if place is None else place - part.start for place in places[part]],
            judge.fingerprints,
            left=COUNT,
        )
        for part in parts
    ]
    elsewhere = ChunkJudge(judge_of("test-colour", "test-age-and-gender"), RunSettings(batch_size=4, threads=2))
    with ThreadPoolExecutor(3) as threads:
        parts_of_data = [data[part] for part in parts]
        found = [travelled(each) for each in threads.map(elsewhere.judge, map(travelled, chunks), parts_of_data)]
    by_image: dict[str, list[Prediction]] = {}
    for chunk, judged in zip(chunks, found, strict=True):
        ids = [each.image_id for each in chunk.images]
        for predictions in predictions_in(judged.predictions, ids, detectors=2):
            for each in predictions:
                by_image.setdefault(each.image_id, []).append(each)
    assert sorted(by_image) == [image_name(number) for number in range(COUNT)]
    for number, image in enumerate(images):
        own = by_image[image_name(number)]
        statuses = {(each.attribute, each.status) for each in own}
        if number == 7:
            assert {(each.reason, each.status) for each in own} == {(image.error, Status.ERROR)}
        else:
            assert len(own) == 3
            assert ("gender", Status.FILTERED if number % 3 == 2 else Status.CLEAR) in statuses
    key = judge.fingerprints[MeanColour()]
    results = {sha256: arrays for judged in found for sha256, arrays in judged.results[key].items()}
    assert set(results) == {image.sha256 for image in images if image.error is None}
    assert sum(judged.images[judge.execution.label(MeanColour())] for judged in found) == COUNT - 1

    # What is known is not computed, and asks for no bytes.
    known = Chunk(tuple(each._replace(data=None) for each in chunks[0].images), {key: results}, COUNT)
    again = elsewhere.judge(known, [])
    assert not again.results
    assert again.predictions.equals(found[0].predictions)


def test_predictions_travel_as_they_are() -> None:
    images = tuple(ChunkImage(name, name, (0, 1), "a" * 64, None, None) for name in ("one", "zwei"))
    given = [
        [Prediction("zwei", "age", Status.CLEAR, label="young", score=0.1 + 0.2, value=float("nan"))],
        [
            Prediction.error("one", "gender", "half a pair: \ud800"),
            Prediction("zwei", "gender", Status.CLEAR, label="ä", raw="\x00 said\n"),
        ],
    ]
    found = predictions_in(
        predictions_table(Chunk(images, {}, 2), given), [each.image_id for each in images], detectors=2
    )
    assert repr(found) == repr(given)


def test_plugins_are_loaded_where_they_lie_or_from_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_bench.plugins._LOADED", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "what_it_needs.py").write_text("NUMBER = 3\n")
    file = tmp_path / "plugin_that_travels.py"
    file.write_text("from what_it_needs import NUMBER\n")
    load_plugins([file])
    sources = travelled(plugin_sources())
    assert placed_plugins(sources) == [file]

    (tmp_path / "what_it_needs.py").write_text("NUMBER = 4\n")
    before = list(sys.path)
    [copy] = placed_plugins(sources)
    assert copy.parent != tmp_path
    assert (copy.parent / "what_it_needs.py").read_text() == "NUMBER = 3\n"
    assert [path for path in sys.path if path not in before] == [str(copy.parent)]
    sys.path.remove(str(copy.parent))
    with pytest.raises(ConfigError, match="has changed since this run began"):
        plugin_sources()
