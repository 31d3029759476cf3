"""A full check of an image set: its tables, every image file, and what the labels add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from detector_bench.dataset.consensus import DISAGREEMENT
from detector_bench.dataset.generations import STATUSES, check_generations
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_references import count_pairs
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_set_tables import read_tables
from detector_bench.dataset.many_files import each_file
from detector_bench.dataset.seed_balance import SeedBalance, seed_balance, seed_positions
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.dataset.validation import FileInspector, add_by_kind, distinct_paths, image_problem, validate
from detector_bench.errors import DataError, Problem
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY
from detector_bench.vocabulary.columns import VALUE_COLUMN, stated_columns

if TYPE_CHECKING:
    from detector_bench.dataset.image_sources import ImageSources


@dataclass(frozen=True)
class AttributeSummary:
    """How one attribute is labelled.

    Attributes:
        attribute: its name.
        n_labels: rows in the labels file.
        counts: images per consensus label, in the vocabulary's order; labels that no image has are left out.
        n_disagreements: images that are low-quality only because the annotators disagree.
        n_values: rows in the labels file with a measured value.
        n_measured: images with a measured value that the annotators agree on.
    """

    attribute: str
    n_labels: int
    counts: dict[str, int]
    n_disagreements: int
    n_values: int = 0
    n_measured: int = 0

    @property
    def n_images(self) -> int:
        """Images with at least one label of this attribute."""
        return sum(self.counts.values())

    @property
    def shares(self) -> dict[str, float]:
        """Share of each consensus label among the labelled images, 0 to 1."""
        return {label: count / self.n_images for label, count in self.counts.items()}


@dataclass(frozen=True)
class CheckReport:
    """The outcome of `check`.

    Attributes:
        root: the folder that was checked.
        problems: every mistake; empty if the image set is fine.
        n_images: records in the images file; 0 where it cannot be read.
        n_image_files: different image files that were looked at.
        n_prompts: records in the prompts file.
        n_seeds: images that others were made from.
        n_edited: images that were made from another.
        t2i_models: names, sorted.
        annotators: names, sorted.
        attributes: labels per attribute; empty while the tables hold mistakes, as consensus needs sound ones.
        stated: by attribute, how many prompts state something of it; attributes of which nothing is known have no
            entry.
        requests: by status, how many requests of the recipe came to it; empty where nothing is known of them.
        seed_balance: how many seeds there are of each group; None where nothing was edited, or the tables hold
            mistakes.
    """

    root: Path
    problems: tuple[Problem, ...]
    n_images: int
    n_image_files: int
    n_prompts: int
    n_seeds: int
    n_edited: int
    t2i_models: tuple[str, ...]
    annotators: tuple[str, ...]
    attributes: tuple[AttributeSummary, ...]
    stated: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    seed_balance: SeedBalance | None = None

    @property
    def ok(self) -> bool:
        """Whether tables and image files are without a mistake."""
        return not self.problems

    def _repr_html_(self) -> str:
        rows = [
            {"attribute": item.attribute, "label": label, "images": count, "share": f"{item.shares[label]:.1%}"}
            for item in self.attributes
            for label, count in item.counts.items()
        ]
        counts = f"{_count(self.n_images, 'image')}, {_count(self.n_prompts, 'prompt')}"
        said = "".join(f"<li>{escape(str(each))}</li>" for each in self.problems) or "<li>No mistakes.</li>"
        shown = pd.DataFrame(rows, columns=["attribute", "label", "images", "share"]).to_html(index=False)
        return f"<p>Image set {escape(self.root.name)}: {counts}</p>{shown}<ul>{said}</ul>"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 (as IPython calls it)
        printer.text(self.summary())

    def summary(self) -> str:
        """The report as plain text of several lines."""
        lines = [
            f"Image set {self.root.name}: {_count(self.n_images, 'image')}, {_count(self.n_prompts, 'prompt')}",
            f"  {_count(len(self.t2i_models), 'T2I model')}: {', '.join(self.t2i_models) or 'none'}",
            f"  {_count(len(self.annotators), 'annotator')}: {', '.join(self.annotators) or 'none'}",
        ]
        if self.n_edited:
            lines.append(f"  {_count(self.n_edited, 'edited image')} of {_count(self.n_seeds, 'seed image')}")
        if self.seed_balance is not None:
            lines += [f"    {line}" for line in self.seed_balance.lines()]
        if self.requests:
            said = ", ".join(f"{count:,} {status}" for status, count in self.requests.items())
            lines.append(f"  {_count(sum(self.requests.values()), 'request')} to T2I models: {said}")
        if self.stated:
            stated = ", ".join(f"{attribute} {count:,}" for attribute, count in self.stated.items())
            lines.append(f"  prompts that state an attribute: {stated}")
        for item in self.attributes:
            shares = ", ".join(
                f"{label} {item.counts[label]:,} ({share:.1%})" for label, share in item.shares.items()
            )
            some = f"{item.n_images:,} of " if item.n_images < self.n_images else ""
            lines.append(
                f"  {item.attribute}: {_count(item.n_labels, 'label')} of {some}{_count(self.n_images, 'image')}"
            )
            lines.append(f"    consensus: {shares}")
            lines.append(f"    low_quality for disagreement: {item.n_disagreements:,}")
            if item.n_values:
                images = _count(item.n_measured, "image")
                lines.append(f"    measured: {_count(item.n_values, 'value')}, agreed on for {images}")
        if not self.attributes and not self.problems:
            lines.append("  no image has a label yet: detectors can run, and nothing says how right they are")
        lines.append(f"  {_count(self.n_image_files, 'image file')} read")
        lines.append(str(DataError(self.problems)) if self.problems else "No mistakes.")
        return "\n".join(lines)


def check(
    folder: Path | str,
    *,
    require_labels: bool = False,
    workers: int | None = None,
    in_processes: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Check everything about an image set: the three tables, and that every image file can be decoded.

    Mistakes are not raised but reported, all of them; a file that many records name is decoded once, and
    reported at the first of them.

    Args:
        folder: the image set.
        require_labels: whether every image must have a label.
        workers: how many threads or processes decode; by default one per processor core, at most 16.
        in_processes: whether processes decode where there are many files, which is faster for small ones. A script
            that asks for it has to guard its entry with `if __name__ == "__main__"`.
        progress: called after each image file with how many are done and how many there are.

    Raises:
        DetectorBenchError: a process was killed, for want of memory perhaps.
    """
    root = Path(folder).resolve()
    findings = Findings()
    tables = read_tables(root, findings, require_labels=require_labels)
    image_codes = validate(tables, findings, require_labels=require_labels)
    attributes: tuple[AttributeSummary, ...] = ()
    balance = None
    requests: dict[str, int] = {}
    if not findings:
        image_set = ImageSet.from_tables(root, tables, image_codes)
        attributes = tuple(_summarise(image_set, name) for name in image_set.attributes)
        balance = seed_balance(image_set) if len(seed_positions(image_set)) else None
        if (generations := check_generations(image_set, findings)) is not None:
            counted = generations.counts.sum(axis=(0, 1)).tolist()
            requests = dict(zip((each.value for each in STATUSES), counted, strict=True))
    n_files = 0
    if tables.images is not None and tables.images.has("path"):
        n_files = _check_images(
            tables.images, root, findings, workers=workers, in_processes=in_processes, progress=progress
        )
    n_seeds, n_edited = (0, 0) if tables.images is None else count_pairs(tables.images)
    return CheckReport(
        root=root,
        problems=findings.problems,
        n_images=0 if tables.images is None else len(tables.images),
        n_image_files=n_files,
        n_prompts=0 if tables.prompts is None else len(tables.prompts),
        n_seeds=n_seeds,
        n_edited=n_edited,
        t2i_models=_names(tables.images, "t2i_model"),
        annotators=_names(tables.labels, "annotator"),
        attributes=attributes,
        stated={} if tables.prompts is None else _stated(tables.prompts),
        requests=requests,
        seed_balance=balance,
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _names(table: TextTable | None, column: str) -> tuple[str, ...]:
    if table is None or not table.has(column):
        return ()
    return tuple(sorted(name for name in table.encoded(column).texts if name))


def _stated(prompts: TextTable) -> dict[str, int]:
    return {
        attribute: len(prompts.records_with(column, bool))
        for attribute, column in stated_columns().items()
        if prompts.has(column)
    }


def _summarise(image_set: ImageSet, attribute: str) -> AttributeSummary:
    truth = image_set.truth(attribute)
    counts = truth["label"].value_counts()
    labels = image_set.labels[image_set.labels["attribute"] == attribute]
    n_values = int((labels[VALUE_COLUMN] != "").sum())
    return AttributeSummary(
        attribute=attribute,
        n_labels=len(labels),
        counts={label: int(counts[label]) for label in ATTRIBUTES[attribute].labels if label in counts},
        n_disagreements=int(((truth["label"] == LOW_QUALITY) & (truth["reason"] == DISAGREEMENT)).sum()),
        n_values=n_values,
        n_measured=int(image_set.measured(attribute)["value"].notna().sum()) if n_values else 0,
    )


def _check_images(
    images: TextTable,
    root: Path,
    findings: Findings,
    *,
    workers: int | None,
    in_processes: bool,
    progress: Callable[[int, int], None] | None,
) -> int:
    from detector_bench.dataset.image_sources import ImageSources  # decoders take a while to import

    records = distinct_paths(images)
    faults = []
    sources = ImageSources(root)
    work = partial(_fault, sources, FileInspector(root))
    readers = sources.readers(list(records))
    in_processes = in_processes and readers is None
    found = each_file(work, list(records), workers=workers or readers, in_processes=in_processes)
    for done, (path, fault) in enumerate(zip(records, found, strict=True), start=1):
        if fault is not None:
            faults.append(image_problem(images, records[path], path, fault))
        if progress is not None:
            progress(done, len(records))
    add_by_kind(faults, findings)
    return len(records)


def _fault(sources: ImageSources, inspector: FileInspector, path: str) -> str | None:
    from detector_bench.dataset.decoding import ImageError, decode_image  # they take a while to import

    fault = inspector.fault(path)
    if fault is not None:
        return fault
    try:
        data = sources.read(path)
    except ImageError as error:
        verb = "decoded" if is_file_below(path) else "read"
        return f"image cannot be {verb}: {error.reason} ({error.detail})"
    try:
        decode_image(data)
    except ImageError as error:
        return f"image cannot be decoded: {error.reason} ({error.detail})"
    return None
