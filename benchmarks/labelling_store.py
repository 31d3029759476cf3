"""The labelling store at 10,000 images: opening it, and keeping an answer for good.

The images are 200 KB of noise each in a file of its own, so that reading and hashing costs what it costs. A bare
transaction with `synchronous=NORMAL`, which may lose the last answers when the power fails, is measured beside one
with `FULL`: the difference is the price of keeping every key press. "This process alone" is processor time: what a
machine with nothing else to do would take.

    python benchmarks/labelling_store.py
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import in_fresh_process, machine

if TYPE_CHECKING:
    from detector_bench.labelling import LabelStore

IMAGES = 10_000
IMAGE_BYTES = 200_000
ANSWERS = 1_000
OPENINGS = 5


def make_image_set(folder: Path) -> None:
    (folder / "images").mkdir(parents=True)
    noise = os.urandom(IMAGE_BYTES + IMAGES)
    rows = ["image_id,path,t2i_model,prompt_id"]
    for number in range(IMAGES):
        (folder / "images" / f"{number:05d}.jpg").write_bytes(noise[number : number + IMAGE_BYTES])
        rows.append(f"i{number:05d},images/{number:05d}.jpg,m{number % 3},p{number % 100}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    prompts = ["prompt_id,category,word,prompt", *(f"p{n},profession,w{n},a photo" for n in range(100))]
    (folder / "prompts.csv").write_text("\n".join(prompts) + "\n", encoding="utf-8")


def opening(folder: Path, store: Path) -> dict[str, float]:
    """Seconds to read the image set, to open its store, and to have the first items."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import LabelStore

    began = time.perf_counter()
    image_set = ImageSet.load(folder, require_labels=False)
    read, busy = time.perf_counter(), time.process_time()
    with LabelStore.open(store, image_set) as opened:
        opened.items("ann", 0, 10)
        opened.progress("ann")
    busy = time.process_time() - busy
    return {"image_set": read - began, "store": time.perf_counter() - read, "store, this process alone": busy}


def recording(folder: Path, store: Path, annotator: str, answers: int) -> dict[str, list[float]]:
    """Milliseconds of each `record`, and of asking for the next five items after it."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import Answer, Choice, LabelStore

    record, following = [], []
    with LabelStore.open(store, ImageSet.load(folder, require_labels=False)) as opened:
        first = opened.progress(annotator).next_position
        for position in range(first, first + answers):
            item = opened.item_at(annotator, position)
            answer = Answer(
                f"{annotator}-{position}", item.item_id, {"gender": Choice("female")}, milliseconds=900
            )
            began = time.perf_counter()
            opened.record(annotator, answer)
            kept = time.perf_counter()
            opened.items(annotator, position + 1, 5)
            record.append((kept - began) * 1000)
            following.append((time.perf_counter() - kept) * 1000)
    return {"record": record, "items": following}


def fill(folder: Path, store: Path, annotators: Sequence[str]) -> None:
    """All images answered by these annotators, in one go."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import Answer, Choice, LabelStore

    image_set = ImageSet.load(folder, require_labels=False)
    with LabelStore.open(store, image_set) as opened:
        for name in annotators:
            choice = {"gender": Choice("male")}
            ids = image_set.images["image_id"]
            opened.record_all([(name, Answer(f"{name}-{item}", item, choice, milliseconds=900)) for item in ids])


def tables(folder: Path, store: Path) -> dict[str, float]:
    """Seconds for what the coordinator asks for."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import LabelStore

    seconds = {}
    with LabelStore.open(store, ImageSet.load(folder, require_labels=False)) as opened:
        asked: dict[str, Callable[[], object]] = {
            "labels": opened.labels,
            "disagreements": opened.disagreements,
            "agreement": lambda: _kappa(opened),
            "changes": opened.changes,
        }
        for name, ask in asked.items():
            began = time.perf_counter()
            ask()
            seconds[name] = time.perf_counter() - began
    return seconds


def _kappa(store: LabelStore) -> object:
    from detector_bench.labelling.agreement_numbers import LabelsSideBySide

    labels = LabelsSideBySide(store.image_set, store.given(independent=True), store.questions[0])
    return list(labels.by_scope(labels.annotators))


def bare_commits(folder: Path, synchronous: str) -> list[float]:
    """Milliseconds of a transaction with one row on this disk, without the store."""
    connection = sqlite3.connect(folder / f"{synchronous}.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("CREATE TABLE log (text TEXT)")
    milliseconds = []
    for _ in range(ANSWERS):
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO log VALUES (?)", ("x" * 300,))
        connection.execute("COMMIT")
        milliseconds.append((time.perf_counter() - began) * 1000)
    connection.close()
    return milliseconds


def quantiles(values: Sequence[float]) -> str:
    ranked = statistics.quantiles(values, n=100)
    return f"{ranked[49]:.2f} ms (95 %: {ranked[94]:.2f}, 99 %: {ranked[98]:.2f}, most: {max(values):.2f})"


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "set"
        store = folder / "labelling.sqlite"
        make_image_set(folder)
        first = opening(folder, store)
        print(f"making a store of {IMAGES:,} images: {first['store']:.2f} s")
        took = recording(folder, store, "ann", ANSWERS)
        print(f"record, images not hashed before: {quantiles(took['record'])}")
        print(f"the next five items:              {quantiles(took['items'])}")
        for synchronous in ("FULL", "NORMAL"):
            bare = quantiles(bare_commits(Path(temporary), synchronous))
            print(f"bare transaction, {synchronous:<6}:        {bare}")
        fill(folder, store, ["ben", "cleo"])
        opened = [in_fresh_process(__file__, "open", str(folder), str(store)) for _ in range(OPENINGS)]
        for part in opened[0]:
            seconds = [each[part] for each in opened]
            print(
                f"open with 21,000 answers, {part}: {statistics.median(seconds):.2f} s (most {max(seconds):.2f})"
            )
        took = recording(folder, store, "dora", ANSWERS)
        print(f"record, images hashed before:     {quantiles(took['record'])}")
        for name, seconds in tables(folder, store).items():
            print(f"{name}: {seconds:.2f} s")
        print(f"the store's file: {store.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["open"]:
        import json

        print(json.dumps(opening(Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main()
