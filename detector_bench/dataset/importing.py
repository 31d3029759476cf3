"""Makes an image set of a folder tree of images and any table of labels."""

from __future__ import annotations

import filecmp
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import pandas as pd

from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_tree import TreeImage, find_images, find_seeds, image_ids, match_seeds
from detector_bench.dataset.label_import import ImageKeys, LabelImport, import_labels
from detector_bench.dataset.prompts import PromptFile, ids_of_folders, import_prompts
from detector_bench.dataset.table_reading import SUFFIXES
from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.dataset.validation import Tables, check_brought_files, check_target_folders, validate
from detector_bench.errors import ConfigError, DetectorBenchError, Problem
from detector_bench.vocabulary import ATTRIBUTES, attributes_of, read_attributes, write_attributes
from detector_bench.vocabulary.columns import IMAGE_COLUMNS

IMAGE_FOLDER = "images"
"""Where copied images go in the new image set."""

SEED_FOLDER = "seeds"
"""Where copied seeds go in the new image set."""

_TABLES = ("prompts", "labels", "images")


@dataclass(frozen=True, slots=True)
class _Image:
    """An image of the new set: its record, where its file lies now, and what label files may call it.

    All of it is text: a million `Path`s take longer to make, and a gigabyte.
    """

    image_id: str
    path: str
    t2i_model: str
    prompt_id: str
    seed_image_id: str
    origin: str
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
    attribute_files: Iterable[Path | str] = (),
    prompts: Path | str | None = None,
    category: str = "unknown",
    link: Literal["copy", "hardlink"] = "copy",
    overwrite: bool = False,
    notes: list[str] | None = None,
) -> ImageSet:
    """Write `images.csv`, `prompts.csv` and `labels.csv` for a tree `t2i_model/prompt/image`.

    Without labels there is no `labels.csv` either: the labelling desk writes it.

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
        attribute_files: YAML files of attributes that are not built in; they get into the image set.
        prompts: a CSV or Parquet file with `prompt_id` (the prompt folder's name, or its id) and any of
            `category`, `word`, `prompt` and `columns.optional_prompt_columns`. A folder may also bear the sentence
            in the column `prompt`. Base prompts come along, though they have no images. None: the word is the
            folder's name with blanks for underscores.
        category: of prompts that the prompts file gives none.
        link: how images get into the destination; a hard link needs no space, but must stay on one file system.
        overwrite: whether tables that exist may be replaced.
        notes: receives what is no mistake and should be known, a sentence each: how many label cells are empty,
            who the annotators of several label columns are, what prompts lack without a file of them.

    Returns:
        The new image set.

    Raises:
        ConfigError: a mapping, value or option is not valid.
        DataError: mistakes in the tree or the tables, all of them at once.
    """
    there = attributes_of(Path(destination))
    own = {**there, **read_attributes(map(Path, attribute_files))}
    settings = LabelImport(mapping or {}, values or {}, attribute, annotator)
    settings.check()
    folders = _Folders.resolve(source, destination, seeds)
    findings = Findings()
    notes = [] if notes is None else notes
    found = find_images(folders.source, findings, apart=folders.apart)
    listed = None if prompts is None else PromptFile.read(Path(prompts), findings)
    prompt_ids = ids_of_folders(found, listed)
    images = _images(found, folders, prompt_ids, findings)
    tables = Tables(
        images=_image_table(images, has_seeds=seeds is not None),
        prompts=import_prompts(prompt_ids, listed, category=category, findings=findings),
        labels=_label_table(images, _path(labels), settings, findings, notes),
        attributes={**ATTRIBUTES.only_built_in(), **own},
    )
    if listed is None and prompts is None and found:
        notes.append(
            f"{len(prompt_ids):,} prompts have the category {category!r} and no text; a file of prompts "
            "(--prompts) names them"
        )
    if found:
        validate(tables, findings, require_labels=False, require_pairs=False)
    destination = folders.destination
    check_destination(destination, has_labels=labels is not None, overwrite=overwrite, findings=findings)
    folders.check_links(images, findings)
    moved = [image for image in images if image.origin != f"{destination}/{image.path}"]
    if not overwrite:
        _check_targets(destination, moved, findings)
    findings.raise_if_any()
    for image in moved:
        bring(Path(image.origin), destination / image.path, link=link)
    write_attributes((each for name, each in own.items() if name not in there), destination)
    write_tables(destination, tables)
    return ImageSet.load(destination)


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

    def check_links(self, images: list[_Image], findings: Findings) -> None:
        """Report images that links bring from elsewhere, and folders that would take them elsewhere."""
        for folder in (self.source, *([self.seeds] if self.seeds else [])):
            prefix = f"{folder}/"
            paths = [image.origin.removeprefix(prefix) for image in images if image.origin.startswith(prefix)]
            check_brought_files(folder, paths, into=self.destination, findings=findings)
        check_target_folders(self.destination, [image.path for image in images], findings)

    def path_in_set(self, folder: Path, path: str, *, otherwise: str) -> str:
        """Where a file of a folder lies in the image set; under `otherwise` if the folder lies elsewhere."""
        if not folder.is_relative_to(self.destination):
            return f"{otherwise}/{path}"
        return (folder.relative_to(self.destination) / path).as_posix()


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def _images(
    found: list[TreeImage], folders: _Folders, prompt_ids: Mapping[str, str], findings: Findings
) -> list[_Image]:
    """The records of all images, those of the tree first."""
    seeds: list[str] = []
    seed_of: list[str | None] = [None] * len(found)
    if folders.seeds is not None:
        seeds = find_seeds(folders.seeds, findings)
        if seeds and found:
            seed_of = match_seeds(found, seeds, folder=folders.seeds, findings=findings)
    ids = image_ids(found, seeds)
    seed_ids = dict(zip(seeds, ids[len(found) :], strict=True))
    images = [
        _Image(
            image_id=image_id,
            path=folders.path_in_set(folders.source, image.path, otherwise=IMAGE_FOLDER),
            t2i_model=image.t2i_model,
            prompt_id=prompt_ids[image.prompt],
            seed_image_id="" if seed is None else seed_ids[seed],
            origin=f"{folders.source}/{image.path}",
            source_path=image.path,
        )
        for image_id, image, seed in zip(ids, found, seed_of, strict=False)
    ]
    if folders.seeds is not None:
        for name, image_id in seed_ids.items():
            path = folders.path_in_set(folders.seeds, name, otherwise=SEED_FOLDER)
            origin, source_path = f"{folders.seeds}/{name}", f"{folders.seeds.name}/{name}"
            images.append(_Image(image_id, path, "", "", "", origin, source_path))
    return images


def _image_table(images: list[_Image], *, has_seeds: bool) -> TextTable:
    columns = (*IMAGE_COLUMNS, *([SEED_COLUMN] if has_seeds else []))
    cells = {name: [str(getattr(image, name)) for image in images] for name in columns}
    return TextTable("images.csv", text_columns(cells))


def _label_table(
    images: list[_Image], labels: Path | None, settings: LabelImport, findings: Findings, notes: list[str]
) -> TextTable | None:
    if labels is None:
        return None
    paths = [(image.source_path, image.path) for image in images]
    return label_rows(
        [image.image_id for image in images], paths, labels, settings=settings, findings=findings, notes=notes
    )


def label_rows(
    image_ids: list[str],
    paths: Sequence[tuple[str, ...]],
    labels: Path,
    *,
    settings: LabelImport,
    findings: Findings,
    notes: list[str],
) -> TextTable | None:
    """A foreign table of labels as one of ours, for images with these ids and paths; see `import_labels`."""
    keys = ImageKeys(image_ids, paths)
    return import_labels(labels, settings=settings, image_keys=keys, findings=findings, notes=notes)


def check_destination(destination: Path, *, has_labels: bool, overwrite: bool, findings: Findings) -> None:
    """Report tables in the destination that must not be replaced."""
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


def bring(origin: Path, target: Path, *, link: Literal["copy", "hardlink"]) -> None:
    """Copy or link a file, whole or not at all.

    Raises:
        ConfigError: a hard link is not possible.
    """
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


def write_tables(destination: Path, tables: Tables) -> None:
    """Write the three tables as CSV, `images.csv` last."""
    # Without images.csv there is no image set, so a crash from here on leaves none that mixes old and new.
    with _saying(destination / "images.csv"):
        (destination / "images.csv").unlink(missing_ok=True)
    for stem, table in (("prompts", tables.prompts), ("labels", tables.labels), ("images", tables.images)):
        if table is None:
            continue
        frame: pd.DataFrame = table.data.to_pandas()
        _write_whole(destination / f"{stem}.csv", partial(frame.to_csv, index=False, lineterminator="\n"))
        with _saying(destination / f"{stem}.parquet"):
            (destination / f"{stem}.parquet").unlink(missing_ok=True)


def _write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name first, so that a crash leaves no half of it under its own."""
    # The same name each time, so that the next import takes away what a killed one has left.
    temporary = target.with_name(f".import-{hashlib.sha256(target.name.encode()).hexdigest()[:16]}")
    with _saying(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _saying(path: Path) -> Iterator[None]:
    """Turn what a disk refuses into a line that names the file."""
    try:
        yield
    except OSError as error:
        raise DetectorBenchError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was written stays; the same command, "
            "with --overwrite if it finds tables there, goes on"
        ) from error
