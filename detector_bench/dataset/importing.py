"""Makes an image set of a folder tree of images and any table of labels."""

from __future__ import annotations

import filecmp
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.dataset.findings import Findings
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_tree import TreeImage, find_images, image_ids, prompt_ids, slug
from detector_bench.dataset.label_import import ImageKeys, LabelImport, empty_labels, import_labels
from detector_bench.dataset.seed_folder import find_seeds, match_seeds
from detector_bench.dataset.seeds import SEED_COLUMN
from detector_bench.dataset.table_reading import SUFFIXES, read_any_table
from detector_bench.dataset.text_table import TextTable
from detector_bench.dataset.validation import Tables, validate
from detector_bench.errors import ConfigError, Problem
from detector_bench.schema import IMAGE_COLUMNS, PROMPT_COLUMNS

IMAGE_FOLDER = "images"
"""Where copied images go in the new image set."""

SEED_FOLDER = "seeds"
"""Where copied seeds go in the new image set."""

_TABLES = ("prompts", "labels", "images")


@dataclass(frozen=True)
class _Image:
    """An image of the new set: its record, where its file lies now, and what label files may call it."""

    image_id: str
    path: str
    t2i_model: str
    prompt_id: str
    seed_image_id: str
    origin: Path
    source_path: str


def import_folder(
    source: Path | str,
    destination: Path | str,
    *,
    seeds: Path | str | None = None,
    labels: Path | str | None = None,
    mapping: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
    attribute: str = "gender",
    annotator: str = "imported",
    prompts: Path | str | None = None,
    category: str = "unknown",
    link: Literal["copy", "hardlink"] = "copy",
    overwrite: bool = False,
) -> ImageSet:
    """Write `images.csv`, `prompts.csv` and `labels.csv` for a tree `t2i_model/prompt/image`.

    Where the source is the destination or lies in it, the images stay where they are; otherwise they are put
    into `images/` there; likewise seeds, into `seeds/`. Nothing is written if there is any mistake. Each file is
    written whole or not at all, and `images.csv` last, so an import that was cut short is no image set and can be
    run again.

    Args:
        source: the folder tree; a prompt folder of the same name below several T2I models is one prompt.
        destination: the image set's folder; made if it is missing.
        seeds: a folder of photos from which all images of the tree were edited. An image belongs to the seed
            whose file name, without the suffix, its own begins with (see `match_seeds`).
        labels: a CSV or Parquet file with human labels. Its image column holds an image id, a path below
            `source` (of a seed: the name of its folder and its own), or a file name that only one image has.
            None: the images are to be labelled later.
        mapping: our column (`image_id, annotator, attribute, label, reason, value`) to theirs. `label` may name
            several columns, separated by commas: each is one annotator, who bears the column's name. `value`
            then names as many, in the same order.
        values: their label or reason to ours.
        attribute: what the labels are about, where no column says so.
        annotator: whose labels they are, where no column says so.
        prompts: a CSV or Parquet file with `prompt_id` (the prompt folder's name, or its id) and any of
            `category`, `word`, `prompt`. None: the word is the folder's name with blanks for underscores.
        category: of prompts that the prompts file gives none.
        link: how images get into the destination; a hard link needs no space, but must stay on one file system.
        overwrite: whether tables that exist may be replaced.

    Returns:
        The new image set.

    Raises:
        ConfigError: a mapping, value or option is not valid.
        DataError: mistakes in the tree or the tables, all of them at once.
    """
    settings = LabelImport(mapping or {}, values or {}, attribute, annotator)
    settings.check()
    folders = _Folders.resolve(source, destination, seeds)
    findings = Findings()
    found = find_images(folders.source, findings, apart=folders.apart)
    images = _images(found, folders, findings)
    tables = Tables(
        images=_image_table(images, has_seeds=seeds is not None),
        prompts=_prompt_table(found, _path(prompts), category, findings),
        labels=_label_table(images, _path(labels), settings, findings),
    )
    if found:
        validate(tables, findings, require_labels=False, require_pairs=False)
    destination = folders.destination
    _check_destination(destination, has_labels=labels is not None, overwrite=overwrite, findings=findings)
    moved = [image for image in images if image.origin != destination / image.path]
    if not overwrite:
        _check_targets(destination, moved, findings)
    findings.raise_if_any()
    destination.mkdir(parents=True, exist_ok=True)
    for image in moved:
        _bring(image.origin, destination / image.path, link=link)
    _write_tables(destination, tables)
    return ImageSet.load(destination, require_labels=False)


@dataclass(frozen=True)
class _Folders:
    """The folders of an import, with links resolved."""

    source: Path
    destination: Path
    seeds: Path | None

    @classmethod
    def resolve(cls, source: Path | str, destination: Path | str, seeds: Path | str | None) -> _Folders:
        folders = cls(
            Path(source).resolve(), Path(destination).resolve(), None if seeds is None else Path(seeds).resolve()
        )
        destination = folders.destination
        for name, origin in (("source", folders.source), ("folder of seeds", folders.seeds)):
            if origin is not None and destination != origin and destination.is_relative_to(origin):
                accepted = "a folder outside it"
                raise ConfigError(f"the destination {destination} lies inside the {name}; accepted: {accepted}")
        if folders.seeds in (folders.source, destination):
            raise ConfigError(f"seeds: {folders.seeds} holds other things too; accepted: a folder for seeds alone")
        return folders

    @property
    def apart(self) -> tuple[Path, ...]:
        """Folders that hold seeds, now or after this import."""
        return () if self.seeds is None else (self.seeds, self.destination / SEED_FOLDER)

    def path_in_set(self, folder: Path, path: str, *, otherwise: str) -> str:
        """Where a file of a folder lies in the image set; under `otherwise` if the folder lies elsewhere."""
        if not folder.is_relative_to(self.destination):
            return f"{otherwise}/{path}"
        return (folder.relative_to(self.destination) / path).as_posix()


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def _images(found: list[TreeImage], folders: _Folders, findings: Findings) -> list[_Image]:
    """The records of all images, those of the tree first."""
    seeds: list[str] = []
    seed_of: list[str | None] = [None] * len(found)
    if folders.seeds is not None:
        seeds = find_seeds(folders.seeds, findings)
        if seeds and found:
            seed_of = match_seeds(found, seeds, folder=folders.seeds, findings=findings)
    ids, prompts = image_ids(found, seeds), prompt_ids(found)
    seed_ids = dict(zip(seeds, ids[len(found) :], strict=True))
    images = [
        _Image(
            image_id=image_id,
            path=folders.path_in_set(folders.source, image.path, otherwise=IMAGE_FOLDER),
            t2i_model=image.t2i_model,
            prompt_id=prompts[image.prompt],
            seed_image_id="" if seed is None else seed_ids[seed],
            origin=folders.source / image.path,
            source_path=image.path,
        )
        for image_id, image, seed in zip(ids, found, seed_of, strict=False)
    ]
    if folders.seeds is not None:
        for name, image_id in seed_ids.items():
            path = folders.path_in_set(folders.seeds, name, otherwise=SEED_FOLDER)
            origin, source_path = folders.seeds / name, f"{folders.seeds.name}/{name}"
            images.append(_Image(image_id, path, "", "", "", origin, source_path))
    return images


def _image_table(images: list[_Image], *, has_seeds: bool) -> TextTable:
    columns = (*IMAGE_COLUMNS, *([SEED_COLUMN] if has_seeds else []))
    cells = {name: [str(getattr(image, name)) for image in images] for name in columns}
    return TextTable("images.csv", _text_columns(cells))


def _prompt_table(
    images: list[TreeImage], prompts: Path | None, category: str, findings: Findings
) -> TextTable | None:
    ids = prompt_ids(images)
    known: dict[str, int] = {}
    table = None
    if prompts is not None:
        table = read_any_table(prompts, findings, wanted=PROMPT_COLUMNS)
        if table is None or not _index_prompts(table, known, findings):
            return None

    def cell(column: str, record: int | None, otherwise: str) -> str:
        if table is None or record is None or not table.has(column):
            return otherwise
        return table.cell(column, record).strip() or otherwise

    records, missing = {}, []
    for folder, prompt_id in ids.items():
        records[folder] = next((known[name] for name in (folder, prompt_id, slug(folder)) if name in known), None)
        if table is not None and records[folder] is None:
            accepted = f"a row with prompt_id {folder!r} or {prompt_id!r}"
            missing.append(Problem(table.file, "no row for a prompt folder", None, "prompt_id", folder, accepted))
    findings.add_kind(missing)
    columns = {
        "prompt_id": list(ids.values()),
        "category": [cell("category", records[folder], category) for folder in ids],
        "word": [cell("word", records[folder], folder.replace("_", " ").strip() or folder) for folder in ids],
        "prompt": [cell("prompt", records[folder], "") for folder in ids],
    }
    if table is None or missing:
        return TextTable("prompts.csv", _text_columns(columns))
    rows = np.array([table.row(record) for record in records.values() if record is not None], dtype=np.int64)
    return TextTable(table.file, _text_columns(columns), rows)


def _index_prompts(table: TextTable, known: dict[str, int], findings: Findings) -> bool:
    if not table.has("prompt_id"):
        accepted = "prompt_id, and any of category, word, prompt"
        findings.add(Problem(table.file, "the column is missing", 1, "prompt_id", accepted=accepted))
        return False
    repeated = []
    for record, name in enumerate(table.column("prompt_id").to_pylist()):
        if known.setdefault(name.strip(), record) != record:
            repeated.append(record)
    findings.add_rows(
        table, "prompt_id", np.array(repeated), message="duplicate prompt_id", accepted="one row per prompt"
    )
    return True


def _label_table(
    images: list[_Image], labels: Path | None, settings: LabelImport, findings: Findings
) -> TextTable | None:
    if labels is None:
        return empty_labels()
    keys = ImageKeys([image.image_id for image in images], [(image.source_path, image.path) for image in images])
    return import_labels(labels, settings=settings, image_keys=keys, findings=findings)


def _text_columns(columns: Mapping[str, list[str]]) -> pa.Table:
    return pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})


def _check_destination(destination: Path, *, has_labels: bool, overwrite: bool, findings: Findings) -> None:
    if destination.exists() and not destination.is_dir():
        findings.add(Problem(str(destination), "it is not a folder", accepted="a folder, or a name that is free"))
        return
    for name in (stem + suffix for stem in _TABLES for suffix in SUFFIXES):
        if not (destination / name).exists():
            continue
        if not overwrite:
            findings.add(Problem(name, "the file exists already", accepted="another destination, or overwrite"))
        elif name.startswith("labels") and not has_labels:
            message = "the file exists already, and there are no labels to replace it"
            findings.add(Problem(name, message, accepted="labels to import, or move the file away"))


def _check_targets(destination: Path, images: list[_Image], findings: Findings) -> None:
    accepted = "another destination, or overwrite"
    findings.add_kind(
        [
            Problem(image.path, "another image has this name already", accepted=accepted)
            for image in images
            if (destination / image.path).exists()
            and not filecmp.cmp(image.origin, destination / image.path, shallow=False)
        ]
    )


def _bring(origin: Path, target: Path, *, link: Literal["copy", "hardlink"]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if link == "copy":
        _write_whole(target, lambda temporary: shutil.copyfile(origin, temporary))
        return

    def make_link(temporary: Path) -> None:
        try:
            temporary.hardlink_to(origin)
        except OSError as error:
            raise ConfigError(
                f"no hard link to {origin} is possible ({error.strerror}); accepted: copy"
            ) from error

    _write_whole(target, make_link)


def _write_tables(destination: Path, tables: Tables) -> None:
    # Without images.csv there is no image set, so a crash from here on leaves none that mixes old and new.
    (destination / "images.csv").unlink(missing_ok=True)
    for stem, table in (("prompts", tables.prompts), ("labels", tables.labels), ("images", tables.images)):
        if table is None:
            continue
        frame: pd.DataFrame = table.data.to_pandas()
        _write_whole(destination / f"{stem}.csv", partial(frame.to_csv, index=False, lineterminator="\n"))
        (destination / f"{stem}.parquet").unlink(missing_ok=True)


def _write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name first, so that a crash leaves no half of it under its own."""
    temporary = target.with_name(f".import-{uuid.uuid4().hex}")
    try:
        write(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
