"""An image set's tables and the files beside them, as they are published: every label, and no local path."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.atomic_files import replacing, write_text
from detector_bench.dataset import ADJUDICATOR, SEED_COLUMN, ImageSet
from detector_bench.dataset.files_beside import LICENCE_FILES, TABLES_BESIDE
from detector_bench.dataset.image_folder import ImageFolder, LeavesFolderError
from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import ConfigError
from detector_bench.vocabulary.columns import VALUE_COLUMN
from detector_bench.vocabulary.generations import GENERATIONS_FILE

FILE_NAME = "file_name"
METADATA_COLUMNS = (FILE_NAME, "image_id", "t2i_model", "prompt_id", "prompt", "category", "word")
"""Of the table of images, which a photo's `seed_image_id` follows where the set has edited photos."""

_MAY_HOLD_PATHS = ("model", "parameters", "reason", "versions", "device", "provenance")


class PublishedTable(NamedTuple):
    """A table of an export: its file's name in the folder, and its columns."""

    file: str
    columns: tuple[str, ...]


def metadata_of(image_set: ImageSet, names: tuple[str, ...]) -> pd.DataFrame:
    """One row per image: `METADATA_COLUMNS`, all text, in the order of the images.

    Args:
        image_set: images and prompts.
        names: each image's file in the export.
    """
    images, prompts = image_set.images, image_set.prompts
    prompts = prompts.drop_duplicates("prompt_id").set_index("prompt_id")
    columns: dict[str, pd.Series] = {FILE_NAME: pd.Series(names, dtype="str")}
    for name in METADATA_COLUMNS[1:]:
        known = images[name] if name in images else images["prompt_id"].map(prompts[name])
        columns[name] = known.reset_index(drop=True).astype("str").fillna("")
    if SEED_COLUMN in images:
        columns[SEED_COLUMN] = images[SEED_COLUMN].reset_index(drop=True)
    return pd.DataFrame(columns)


def survives_csv(frame: pd.DataFrame) -> bool:
    """Whether usual readers of CSV, which guess types, give every text back: no id `007`, no word `NA`."""
    read = pd.read_csv(StringIO(frame.to_csv(index=False)))
    for name in frame.columns:
        filled = frame[name] != ""
        if not filled.any():
            continue
        if not pd.api.types.is_string_dtype(read[name]) or not (read[name][filled] == frame[name][filled]).all():
            return False
    return True


def without_names(image_set: ImageSet) -> ImageSet:
    """The same set with `annotator_1` and so on in the place of names, in the order of their first label; the
    adjudicator stays."""
    people = [name for name in image_set.table("labels").encoded("annotator").texts if name != ADJUDICATOR]
    number_of = {name: f"annotator_{number}" for number, name in enumerate(people, start=1)} | {
        ADJUDICATOR: ADJUDICATOR
    }
    labels = image_set.labels
    labels = labels.assign(annotator=labels["annotator"].map(number_of))
    return ImageSet(image_set.root, image_set.images, image_set.prompts, labels)


def write_tables(image_set: ImageSet, folder: Path) -> list[PublishedTable]:
    """Write labels, prompts and what lies beside them; see the module.

    Args:
        image_set: whose tables.
        folder: of the export.

    Raises:
        ConfigError: a file beside the tables is a link that leads out of the image set.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    written = [_written(folder, "prompts.csv", image_set.prompts)]
    labels = image_set.labels
    if len(labels):
        if (labels[VALUE_COLUMN] == "").all():
            labels = labels.drop(columns=VALUE_COLUMN)
        written.append(_written(folder, "labels.csv", labels))
    source = ImageFolder(image_set.root)
    if (image_set.root / GENERATIONS_FILE).is_file():
        written.append(_written_generations(source, folder))
    for name in TABLES_BESIDE:
        if (image_set.root / name).is_file():
            copy_beside(source, name, folder / name)
            written.append(PublishedTable(name, tuple(pd.read_csv(folder / name, nrows=0, dtype="str").columns)))
    for path in sorted((image_set.root / "attributes").glob("*.y*ml")):
        copy_beside(source, f"attributes/{path.name}", folder / "attributes" / path.name)
    return written


def copy_licence(image_set: ImageSet, folder: Path, given: Path | None) -> str:
    """Copy the licence that was given, or that lies in the image set, as `LICENSE`; its name, or "" without one.

    Raises:
        ConfigError: the given file is not there.
    """
    if given is not None:
        if not given.is_file():
            raise ConfigError(f"--licence-file: there is no file {str(given)!r}")
        with replacing(folder / "LICENSE") as temporary:
            shutil.copyfile(given, temporary)
        return "LICENSE"
    for name in LICENCE_FILES:
        if (image_set.root / name).is_file():
            copy_beside(ImageFolder(image_set.root), name, folder / "LICENSE")
            return "LICENSE"
    return ""


def copy_beside(source: ImageFolder, name: str, target: Path) -> None:
    """Copy a file of the image set's folder, by the rule for links.

    Raises:
        ConfigError: it is a link that leads out.
    """
    try:
        with source.open(name) as content, replacing(target) as temporary, temporary.open("wb") as copy:
            shutil.copyfileobj(content, copy)
    except LeavesFolderError as error:
        raise ConfigError(f"{name}: {error}; it is exported if --allow-root names where it leads") from error


def _written(folder: Path, name: str, frame: pd.DataFrame) -> PublishedTable:
    write_text(folder / name, frame.to_csv(index=False, lineterminator="\n"))
    return PublishedTable(name, tuple(map(str, frame.columns)))


def _written_generations(source: ImageFolder, folder: Path) -> PublishedTable:
    """The same bytes, unless a cell names a folder of this machine: then that cell says the file's name alone."""
    target = folder / GENERATIONS_FILE
    copy_beside(source, GENERATIONS_FILE, target)
    table = pq.read_table(target)
    changed = table
    for name in _MAY_HOLD_PATHS:
        if name in table.column_names and pa.types.is_string(table.schema.field(name).type):
            texts = table.column(name).to_pylist()
            public = {text: without_folders(text) for text in set(texts) if text is not None}
            if any(text != shown for text, shown in public.items()):
                cells = pa.array([None if text is None else public[text] for text in texts], pa.string())
                changed = changed.set_column(changed.schema.get_field_index(name), name, cells)
    if changed is not table:
        with replacing(target) as temporary:
            pq.write_table(changed, temporary, compression="zstd")
    return PublishedTable(GENERATIONS_FILE, tuple(table.column_names))
