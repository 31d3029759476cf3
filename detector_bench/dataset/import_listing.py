"""Makes an image set of images in a bucket, in tar files or in Parquet files, such as Hugging Face's data sets."""

from __future__ import annotations

import filecmp
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from detector_bench.dataset.image_listing import COLUMNS, ListedImage, ListingSettings, list_images, local_root
from detector_bench.dataset.image_paths import ADDRESS, parse_reference
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_tree import TreeImage, image_ids
from detector_bench.dataset.importing import IMAGE_FOLDER, bring, check_destination, label_rows, write_tables
from detector_bench.dataset.label_import import LabelImport
from detector_bench.dataset.prompts import PromptFile, ids_of_folders, import_prompts
from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.dataset.validation import Tables, check_brought_files, check_target_folders, validate
from detector_bench.errors import Problem
from detector_bench.vocabulary import ATTRIBUTES, attributes_of, read_attributes, write_attributes

_LONGEST_ID = 60


def import_listed(
    source: str,
    destination: Path | str,
    *,
    t2i_model: str = "",
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
    """Write `images.csv` and the other tables for images that stay in archives, tables or buckets.

    Images at addresses stay where they are: `images.csv` holds the addresses. Tar and Parquet files on this
    machine stay, too, if they lie in the destination, and are put into `images/` there otherwise.

    A bucket is a tree `t2i_model/prompt/image`, and so is a tar file; or a tar file holds WebDataset's samples,
    with T2I model and prompt in the fields of a `.json` (or the prompt in a `.txt`). Of Parquet files, `mapping`
    says which columns hold the image (`path`), `t2i_model`, `prompt` (the sentence) and, if there is one,
    `prompt_id`; a column `image_id` holds the ids.

    Args:
        source: an address, a `.tar` or `.parquet` file, or a folder of such files.
        destination: the image set's folder; made if it is missing.
        t2i_model: that of images of which the source says none.
        mapping: our column to theirs; what is none of `COLUMNS` is about the labels, as in `import_folder`.
        labels: as in `import_folder`; images may also be named by their path.
        values: as there, like all others.
        attribute: as there.
        annotator: as there.
        attribute_files: as there.
        prompts: as there; its `prompt_id` is the source's, or its `prompt` the source's sentence.
        category: as there.
        link: how files on this machine get into the destination.
        overwrite: as there.
        notes: as there.

    Returns:
        The new image set.

    Raises:
        ConfigError: a mapping, value or option is not valid.
        DataError: mistakes in the source or the tables, all of them at once.
        MissingExtraError: a package is needed that is not installed.
    """
    mapping = mapping or {}
    notes = [] if notes is None else notes
    destination = Path(destination).resolve()
    there = attributes_of(destination)
    own = {**there, **read_attributes(map(Path, attribute_files))}
    listing = ListingSettings({name: each for name, each in mapping.items() if name in COLUMNS}, t2i_model)
    listing.check()
    of_labels = {name: each for name, each in mapping.items() if name not in COLUMNS}
    settings = LabelImport(of_labels, values or {}, attribute, annotator)
    settings.check()
    findings = Findings()
    found = list_images(source, listing, findings)
    listed = None if prompts is None else PromptFile.read(Path(prompts), findings)
    trees = [image.tree for image in found]
    prompt_ids = _prompt_ids(trees, listed)
    root, placed = local_root(source), _placed(found, source, destination)
    ids = _ids(found, prompt_ids, findings)
    images = {
        "image_id": ids,
        "path": placed,
        "t2i_model": [tree.t2i_model for tree in trees],
        "prompt_id": [prompt_ids[tree.prompt] for tree in trees],
    }
    keys = [(image.path, path) for image, path in zip(found, placed, strict=True)]
    prompt_table = import_prompts(prompt_ids, listed, category=category, findings=findings)
    tables = Tables(
        images=TextTable("images.csv", text_columns(images)),
        prompts=prompt_table if listed is not None else _with_sentences(prompt_table, found, prompt_ids),
        labels=None
        if labels is None
        else label_rows(ids, keys, Path(labels), settings=settings, findings=findings, notes=notes),
        attributes={**ATTRIBUTES.only_built_in(), **own},
    )
    if found:
        validate(tables, findings, require_labels=False, require_pairs=False)
    check_destination(destination, has_labels=labels is not None, overwrite=overwrite, findings=findings)
    moved = {} if re.match(ADDRESS, source) else _files_to_move(found, placed, root, destination)
    check_brought_files(
        root, [origin.relative_to(root).as_posix() for origin in moved], into=destination, findings=findings
    )
    check_target_folders(destination, list(moved.values()), findings)
    taken = [name for origin, name in moved.items() if _is_taken(origin, destination / name) and not overwrite]
    findings.add_kind([Problem(name, "a file has this name already", accepted="overwrite") for name in taken])
    findings.raise_if_any()
    destination.mkdir(parents=True, exist_ok=True)
    for origin, target in moved.items():
        bring(origin, destination / target, link=link)
    write_attributes((each for name, each in own.items() if name not in there), destination)
    write_tables(destination, tables)
    return ImageSet.load(destination)


def _placed(found: list[ListedImage], source: str, destination: Path) -> list[str]:
    """The paths in the image set."""
    if re.match(ADDRESS, source):
        return [image.path for image in found]
    root = local_root(source)
    folder = root.relative_to(destination).as_posix() if root.is_relative_to(destination) else IMAGE_FOLDER
    prefix = "" if folder == "." else f"{folder}/"
    return [prefix + image.path for image in found]


def _files_to_move(found: list[ListedImage], placed: list[str], root: Path, destination: Path) -> dict[Path, str]:
    """Where the files go that do not lie in the image set yet."""
    names = {
        parse_reference(image.path).place: parse_reference(path).place
        for image, path in zip(found, placed, strict=True)
    }
    return {root / origin: target for origin, target in names.items() if root / origin != destination / target}


def _is_taken(origin: Path, target: Path) -> bool:
    return target.exists() and not filecmp.cmp(origin, target, shallow=False)


def _prompt_ids(trees: list[TreeImage], listed: PromptFile | None) -> dict[str, str]:
    """The prompt id of each name or sentence; of a long one that no file lists, its beginning and a digest."""
    ids = ids_of_folders(trees, listed)
    known = {} if listed is None else listed.by_id
    for name, prompt_id in ids.items():
        if len(prompt_id) > _LONGEST_ID and prompt_id not in known:
            ids[name] = f"{prompt_id[:_LONGEST_ID]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return ids


def _ids(found: list[ListedImage], prompt_ids: Mapping[str, str], findings: Findings) -> list[str]:
    if not any(image.image_id for image in found):
        return image_ids([replace(image.tree, prompt=prompt_ids[image.tree.prompt]) for image in found])
    lacking = sum(not image.image_id for image in found)
    if lacking:
        findings.add(Problem("images.csv", f"{lacking:,} images without an image_id", accepted="one in each row"))
    return [image.image_id for image in found]


def _with_sentences(prompts: TextTable, found: list[ListedImage], ids: Mapping[str, str]) -> TextTable:
    sentences = {ids[image.tree.prompt]: image.prompt for image in reversed(found)}
    cells = {name: prompts.column(name).to_pylist() for name in prompts.columns}
    cells["prompt"] = [sentences.get(prompt_id, "") for prompt_id in cells["prompt_id"]]
    cells["word"] = [sentence or word for sentence, word in zip(cells["prompt"], cells["word"], strict=True)]
    return TextTable(prompts.file, text_columns(cells))
