"""Images come in order, in bounded batches, ahead of who takes them; nothing is left behind."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_parts import MeanColour, picture, write_image_set

from detector_bench.runner import image_reading, loading
from detector_bench.runner.ahead import ahead
from detector_bench.runner.image_reading import ImageFile, LoadedImage, LoadingRules
from detector_bench.runner.loading import loaded_batches
from detector_bench.runner.stage_cache import StageCache

STAGE = MeanColour()


def rules(**changes: Any) -> LoadingRules:
    settings: dict[str, Any] = {
        "wanted": lambda file: [STAGE],
        "needs_decoding": lambda image: STAGE not in image.cached,
        "fingerprints": {STAGE: "mean"},
        "batch_size": 4,
        "max_pixels": 1_000_000,
        "threads": 2,
    }
    return LoadingRules(**{**settings, **changes})


def image_files(folder: Path, names: list[str]) -> list[ImageFile]:
    return [ImageFile(name, folder / name, f"images/{name}", (0,)) for name in names]


def save(folder: Path, count: int, *, size: tuple[int, int] = (24, 20)) -> list[ImageFile]:
    folder.mkdir(exist_ok=True)
    names = [f"{number}.png" for number in range(count)]
    for number, name in enumerate(names):
        picture(number, size=size).save(folder / name)
    return image_files(folder, names)


def load_all(
    files: list[ImageFile], *, cache: StageCache | None = None, **changes: Any
) -> list[list[LoadedImage]]:
    return list(loaded_batches(files, cache=cache or StageCache(None), rules=rules(**changes)))


def ids(batches: list[list[LoadedImage]]) -> list[list[str]]:
    return [[image.file.image_id for image in batch] for batch in batches]


def test_batches_are_full_and_in_order(tmp_path: Path) -> None:
    batches = load_all(save(tmp_path, 10))
    assert ids(batches) == [[f"{number}.png" for number in part] for part in (range(4), range(4, 8), (8, 9))]


def test_pixels_and_content_hash_are_those_of_the_file(tmp_path: Path) -> None:
    [image] = [image for batch in load_all(save(tmp_path, 1)) for image in batch]
    assert image.pixels is not None
    assert (image.pixels == np.asarray(picture(0))).all()
    assert image.sha256 == hashlib.sha256((tmp_path / "0.png").read_bytes()).hexdigest()
    assert image.data is None, "the encoded file is not needed any more"


def test_no_files_give_no_batch() -> None:
    assert load_all([]) == []


def test_a_batch_closes_early_when_its_pixels_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIXELS_PER_BATCH", 1000)  # two images of 480 pixels
    files = save(tmp_path, 5)
    picture(2, size=(50, 40)).save(tmp_path / "2.png")  # alone more than the limit
    assert ids(load_all(files, batch_size=8)) == [["0.png", "1.png"], ["2.png"], ["3.png", "4.png"]]


def test_cached_and_too_large_images_take_no_room_in_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "PIXELS_PER_BATCH", 1000)
    files = save(tmp_path, 4)
    cache = StageCache(tmp_path / "cache")
    for name in ("0.png", "1.png"):
        content = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        cache.put("mean", {content: {"mean": np.zeros(3)}})
    picture(2, size=(300, 200)).save(tmp_path / "2.png")
    [batch] = load_all(files, cache=cache, max_pixels=50_000)

    assert [image.pixels is not None for image in batch] == [False, False, False, True]
    assert [STAGE in image.cached for image in batch] == [True, True, False, False]
    assert batch[2].error == "too_large: 300 x 200 = 60,000 pixels, the limit is 50,000"


def test_files_are_read_in_bounded_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = save(tmp_path, 8)
    largest = max(file.path.stat().st_size for file in files)
    monkeypatch.setattr(image_reading, "BYTES_PER_READING", 3 * largest)
    held: set[str] = set()
    most = 0
    real = image_reading.read_image

    def reading(path: Path, **given: Any) -> bytes:
        nonlocal most
        data = real(path, **given)
        held.add(path.name)
        most = max(most, len(held))
        return data

    monkeypatch.setattr(image_reading, "read_image", reading)
    names = []
    for batch in loaded_batches(files, cache=StageCache(None), rules=rules(batch_size=8)):
        names += [image.file.image_id for image in batch]
        held.difference_update(names)
    assert names == [file.image_id for file in files]
    assert most == 3, "eight at once without the bound"


def test_batches_that_were_handed_over_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIXELS_PER_BATCH", 500)  # one image each, out of one portion of eight
    alive: list[weakref.ref[Any]] = []
    most = 0
    gc.collect()
    gc.freeze()  # what other tests left need not be looked through eight times
    for batch in loaded_batches(save(tmp_path, 8), cache=StageCache(None), rules=rules(batch_size=8)):
        [image] = batch
        alive.append(weakref.ref(image.pixels))
        del image, batch
        gc.collect()
        most = max(most, sum(reference() is not None for reference in alive))
    gc.unfreeze()
    assert len(alive) == 8
    assert most == 0, "pixels of a batch that nobody wants any more"


@pytest.mark.slow
def test_memory_is_bounded_with_huge_images(tmp_path: Path) -> None:
    import tracemalloc

    # Flat images of 4 million pixels: small files, 12 MB each when decoded.
    names = [f"{number}.png" for number in range(24)]
    for name in names:
        Image.new("RGB", (2000, 2000), (int(name[:-4]), 0, 0)).save(tmp_path / name, compress_level=1)
    started = rules(batch_size=24, max_pixels=4_000_000)
    tracemalloc.start()
    try:
        batches = ahead(
            loaded_batches(image_files(tmp_path, names), cache=StageCache(None), rules=started), depth=2
        )
        count = 0
        for batch in batches:
            count += len(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 24
    # 24 million pixels a batch are 72 MB: one in hand, two ahead. All 24 images would be 288 MB and more.
    assert peak < 3 * 72e6 + 30e6


def test_cached_results_are_there_and_their_images_are_not_decoded(tmp_path: Path) -> None:
    files = save(tmp_path, 3)
    cache = StageCache(tmp_path / "cache")
    contents = [hashlib.sha256(file.path.read_bytes()).hexdigest() for file in files]
    cache.put("mean", {contents[1]: {"mean": np.array([1.0, 2.0, 3.0])}})
    [batch] = load_all(files, cache=cache)

    assert [image.pixels is None for image in batch] == [False, True, False]
    assert batch[1].cached[STAGE]["mean"].tolist() == [1.0, 2.0, 3.0]


def test_a_file_that_changes_after_its_hash_was_looked_up_is_judged_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = save(tmp_path, 2)
    cache = StageCache(tmp_path / "cache")
    other = MeanColour(gain=2.0)
    old = hashlib.sha256(files[0].path.read_bytes()).hexdigest()
    cache.put("other", {old: {"mean": np.zeros(3)}})
    # The moment between the look at the file's status and its reading: the status still says the old content.
    monkeypatch.setattr(StageCache, "known_sha256", lambda self, paths, marks: [old, None])
    picture(2, seed=7).save(files[0].path)
    new = hashlib.sha256(files[0].path.read_bytes()).hexdigest()
    [batch] = load_all(
        files, cache=cache, wanted=lambda file: [STAGE, other], fingerprints={STAGE: "mean", other: "other"}
    )

    assert batch[0].sha256 == new
    assert batch[0].cached == {}, "a result about another content"
    assert batch[0].pixels is not None


def test_damaged_files_keep_their_place_and_name_no_folder_of_the_machine(tmp_path: Path) -> None:
    files = save(tmp_path, 4)
    files[1].path.unlink()
    files[2].path.write_bytes(b"GIF89a")
    [batch] = load_all(files)

    assert ids([batch]) == [["0.png", "1.png", "2.png", "3.png"]]
    assert batch[1].error == "missing_file: images/1.png: no such file"
    assert batch[1].sha256 is None
    assert (batch[2].error or "").startswith("truncated: ")
    assert batch[2].sha256 == hashlib.sha256(b"GIF89a").hexdigest()


# --- ahead


def counting_up(to: int, *, made: list[int], closed: list[bool]) -> Generator[int, None, None]:
    try:
        for number in range(to):
            made.append(number)
            yield number
    finally:
        closed.append(True)


def wait_for(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def threads_named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_items_come_in_order_and_no_more_than_depth_are_made_ahead(depth: int) -> None:
    made: list[int] = []
    closed: list[bool] = []
    iterator = ahead(counting_up(20, made=made, closed=closed), depth=depth)
    for expected in range(20):
        assert next(iterator) == expected
        goal = min(expected + depth + 1, 20)
        assert wait_for(lambda goal=goal: len(made) == goal)
        if expected in (0, 7):
            time.sleep(0.15)
            assert len(made) == goal, "it stops there"
    assert list(iterator) == []
    assert closed == [True]
    assert threads_named("ahead") == []


def test_decoding_goes_on_while_a_batch_is_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    real = image_reading.decode_image

    def noting(data: bytes, *, max_pixels: int) -> Any:
        decoded.append(threading.current_thread().name)
        return real(data, max_pixels=max_pixels)

    monkeypatch.setattr(image_reading, "decode_image", noting)
    files = save(tmp_path, 12)
    with closing(ahead(loaded_batches(files, cache=StageCache(None), rules=rules()), depth=1)) as batches:
        next(batches)
        assert wait_for(lambda: len(decoded) == 8), "the second batch is decoded before it is asked for"
    assert all(name.startswith("decode") for name in decoded)


def test_an_exception_comes_after_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise ZeroDivisionError("in the thread")

    iterator = ahead(failing())
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        next(iterator)
    assert threads_named("ahead") == []


def test_closing_early_ends_the_thread_and_closes_the_iterator() -> None:
    made: list[int] = []
    closed: list[bool] = []
    iterator = ahead(counting_up(1000, made=made, closed=closed))
    next(iterator)
    iterator.close()
    assert closed == [True]
    assert threads_named("ahead") == []
    assert len(made) < 5


def test_an_exception_in_the_consumer_ends_all_threads(tmp_path: Path) -> None:
    files = save(tmp_path, 20)

    def consume() -> None:
        with closing(ahead(loaded_batches(files, cache=StageCache(None), rules=rules()))) as batches:
            for _ in batches:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert threads_named("ahead") == []
    assert threads_named("decode") == []


def test_an_exception_in_the_loader_ends_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(image_reading, "decode_image", broken)
    with pytest.raises(ZeroDivisionError):
        list(ahead(loaded_batches(save(tmp_path, 9), cache=StageCache(None), rules=rules())))
    assert threads_named("ahead") == []
    assert threads_named("decode") == []


def test_nothing_starts_before_the_first_item_is_asked_for() -> None:
    made: list[int] = []
    iterator = ahead(counting_up(3, made=made, closed=[]))
    time.sleep(0.05)
    assert made == []
    iterator.close()


def test_an_image_set_of_odd_names_loads(tmp_path: Path) -> None:
    content = io.BytesIO()
    picture(0).save(content, "PNG")
    names = ["spaces and 'quotes\".png", "umlaut-ä.png", "emoji-🙂.png", "100%.png", "no-extension"]
    for name in names:
        (tmp_path / name).write_bytes(content.getvalue())
        os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))
    [batch] = load_all(image_files(tmp_path, names), batch_size=8)
    assert [image.error for image in batch] == [None] * len(names)


def test_the_helper_image_set_is_what_it_says(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "set", 3)
    means = [np.asarray(Image.open(path)).mean(axis=(0, 1)) for path in sorted((folder / "images").iterdir())]
    assert [int(mean.argmax()) for mean in means] == [0, 2, 1]
