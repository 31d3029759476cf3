"""The check of an image set: its three tables, every image file, and what the labels add up to.

Files are read by the `ImageStore` that a run uses, so both take the same links, and are decoded whole. A file of
many rows is decoded once and reported at the first. Mistakes are not raised: `Check` holds all of them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector_bench_next.errors import DataError, DetectorBenchError, ImageError, Problem, Problems
from detector_bench_next.images import ImageStore, decode, path_problem

if TYPE_CHECKING:
    from detector_bench_next.dataset import ImageSet, Table
    from detector_bench_next.runner import Progress

FEWEST_FOR_PROCESSES = 500  # fewer files are decoded before processes have started
_READERS_OF_ADDRESSES = 16
_Fault = tuple[str, str] | None  # reason and detail of an image that gives no pixels


@dataclass(frozen=True)
class Check:
    """Result of `check`: all mistakes, and counts by what is counted."""

    problems: tuple[Problem, ...]
    counts: dict[str, Any]

    @property
    def passed(self) -> bool:
        """There is no mistake."""
        return not self.problems

    def text(self) -> str:
        """Counts, shares of the consensus, and all mistakes, a line each."""
        n, every = self.counts, _count(self.counts["images"], "image")
        if not n["images"]:  # a mistake ended the reading: counts would be false
            return str(DataError(self.problems))
        lines = [f"Image set {n['image_set']}: {every}, {_count(n['prompts'], 'prompt')}"]
        for noun, names in (("T2I model", n["t2i_models"]), ("annotator", n["annotators"])):
            lines += [f"  {_count(len(names), noun)}: {', '.join(names) or 'none'}"]
        if n["edited"]:
            lines += [f"  {_count(n['edited'], 'edited image')} of {_count(n['photos'], 'photo')}"]
        if n["stated"]:
            lines += [
                "  prompts that state an attribute: " + ", ".join(f"{a} {k:,}" for a, k in n["stated"].items())
            ]
        for name, own in n["labels"].items():
            labelled = sum(own["consensus"].values())
            some = f"{labelled:,} of {every}" if labelled < n["images"] else every
            shares = ", ".join(f"{label} {k:,} ({k / labelled:.1%})" for label, k in own["consensus"].items())
            lines += [f"  {name}: {_count(own['labels'], 'label')} of {some}", f"    consensus: {shares}"]
            lines += [f"    low_quality for disagreement: {own['disagreement']:,}"]
            if own["values"]:
                agreed = f"agreed on for {_count(own['measured'], 'image')}"
                lines += [f"    measured: {_count(own['values'], 'value')}, {agreed}"]
        if not n["labels"] and not self.problems:
            lines += ["  no image has a label yet: detectors can run, and nothing says how right they are"]
        if n["not_at_hand"]:
            lines += [f"  {_count(n['not_at_hand'], 'image')} not at hand: only stored predictions can be used"]
        lines += [f"  {_count(n['files'], 'image file')} read"] if "files" in n else []
        return "\n".join([*lines, str(DataError(self.problems)) if self.problems else "No mistakes."])


def check(folder: Path, *, tables: bool = False, progress: Progress | None = None) -> Check:
    """Check an image set: its tables, and (unless `tables`) that every image file can be decoded.

    Many files are decoded in processes, so a script that calls this needs `if __name__ == "__main__"`.
    """
    from detector_bench_next.dataset import read_image_set  # pandas, which processes do not need

    folder, problems = Path(folder), Problems()
    image_set, read = read_image_set(folder, problems)
    found = {name: table for name, table in read.items() if table is not None}

    def cells(table: str, column: str) -> list[str]:
        return found[table].frame[column].tolist() if table in found and column in found[table].frame else []

    seeds = list(filter(None, cells("images", "seed_image_id")))
    stated = [str(n) for n in found["prompts"].frame if "stated_" in str(n)] if "prompts" in found else []
    counts: dict[str, Any] = {
        "image_set": folder.resolve().name,
        **{name: len(found[name].frame) if name in found else 0 for name in ("images", "prompts")},
        "t2i_models": sorted({*cells("images", "t2i_model")} - {""}),
        "annotators": sorted({*cells("labels", "annotator")}),
        "edited": len(seeds),
        "photos": len({*seeds}),
        "stated": {n.removeprefix("stated_"): sum(map(bool, cells("prompts", n))) for n in stated},
        "labels": {} if image_set is None else {name: _labels(image_set, name) for name in image_set.labelled},
        "not_at_hand": cells("images", "path").count(""),
    }
    if "images" in found and not tables:
        counts["files"] = _check_files(found["images"], ImageStore(folder.resolve()), problems, progress)
    return Check(tuple(problems), counts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _labels(image_set: ImageSet, attribute: str) -> dict[str, Any]:
    """Counts of an attribute's labels and of the consensus, the classes in their order."""
    truth, measured = image_set.truth(attribute), image_set.measured(attribute)
    labels, agreed = image_set.labels[image_set.labels["attribute"] == attribute], Counter(truth["label"])
    return {
        "labels": len(labels),
        "consensus": {name: agreed[name] for name in image_set.attributes[attribute].labels if agreed[name]},
        "disagreement": int((truth["reason"] == "disagreement").sum()),
        "values": int((labels["value"] != "").sum()),
        "measured": int((measured == measured).sum()),  # noqa: PLR0124 - not NaN
    }


def _check_files(images: Table, store: ImageStore, problems: Problems, progress: Progress | None) -> int:
    """Report files that give no pixels, 20 of each reason; gives how many were read."""
    records: dict[str, int] = {}
    for record, path in enumerate(images.frame["path"]):
        if path not in records and path.strip() and path_problem(path) is None:
            records[path] = record
    kinds: dict[str, list[Problem]] = {}
    for done, (path, fault) in enumerate(zip(records, _faults(store, list(records)), strict=True), 1):
        if fault is not None:
            reason, detail = fault[0], fault[1].removeprefix(f"{path}: ")
            what = "the image: `git lfs pull` fetches it" if "Git LFS" in detail else "an image that can be read"
            problem = images.problem(records[path], "path", f"image file: {reason} ({detail})", what)
            kinds.setdefault(reason, []).append(problem)
        if progress is not None:
            progress(done, len(records), 0)
    for reason, own in kinds.items():
        problems += own[:20]
        if len(own) > 20:
            problems.append(Problem(images.file, f"... and {len(own) - 20:,} more image files: {reason}"))
    return len(records)


def _faults(store: ImageStore, paths: Sequence[str]) -> Iterator[_Fault]:
    """Fault of each image, or None, in the order of `paths`."""
    work = partial(_fault, store)
    if any("://" in path or "#" in path for path in paths):  # a store keeps what it has fetched
        with ThreadPoolExecutor(_READERS_OF_ADDRESSES) as threads:
            yield from threads.map(work, paths)
    elif len(paths) < FEWEST_FOR_PROCESSES:
        yield from map(work, paths)
    else:  # a fresh process each, since a fork would inherit Arrow's threads in any state
        pool = ProcessPoolExecutor(min(16, os.cpu_count() or 1), get_context("spawn"))
        try:
            with _uninterrupted():
                found = pool.map(work, paths, chunksize=64)
            yield from found
        except BrokenExecutor:
            message = "a process that decodes images ended at once; is there enough memory?"
            raise DetectorBenchError(message) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start here never see Ctrl-C, and it waits for them: this one ends them without tracebacks."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    resource_tracker.ensure_running()  # what starts it later would undo the next line
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt


def _fault(store: ImageStore, path: str) -> _Fault:
    try:
        decode(store.read(path))
    except ImageError as error:
        return error.reason, error.detail
    return None
