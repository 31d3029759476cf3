"""An image set as a Hugging Face dataset: a folder ready to be pushed, with its card and Croissant metadata."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from detector_bench.atomic_files import replacing, write_text
from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_folder import ImageFolder
from detector_bench.dataset.image_paths import is_file_below, parse_reference
from detector_bench.exports import card_text as md
from detector_bench.exports.carried_images import (
    Link,
    Progress,
    bring_images,
    carried_names,
    check_carried,
    read_carried,
    refuse_addresses,
)
from detector_bench.exports.croissant import CROISSANT_FILE, PublishedAs, croissant, describe
from detector_bench.exports.datasheet import CARE, datasheet_sections
from detector_bench.exports.export_folder import WrittenExport, export_folder
from detector_bench.exports.published_tables import (
    PublishedTable,
    copy_licence,
    metadata_of,
    survives_csv,
    without_names,
    write_tables,
)
from detector_bench.exports.set_facts import ImageSetFacts

Form = Literal["imagefolder", "parquet"]
FORMS: tuple[Form, ...] = ("imagefolder", "parquet")
METADATA_KINDS = ("csv", "jsonl", "parquet")

CARD_FILE = "README.md"
SPLIT = "test"
"""The one split: these images are to test with."""

_MADE_OF = ".made_of.json"
"""In an unfinished folder: of which images each file was made."""
_SHARD_BYTES = 400 * 2**20
_GROUP_ROWS = 100
_MOST_ROWS = 10_000
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class HuggingFaceSettings:
    """How a Hugging Face dataset is written.

    Attributes:
        published: what people said about it.
        form: image files with a table, or Parquet files that hold the images.
        metadata: the kind of the table of image files; None: CSV, or Parquet where a reader of CSV would take
            texts for numbers.
        link: how image files come; None: copied, unless that takes much room.
        fetch: bring images from addresses.
        licence_file: becomes `LICENSE`.
        hide_annotators: annotators get names without meaning.
    """

    published: PublishedAs
    form: Form = "imagefolder"
    metadata: Literal["csv", "jsonl", "parquet"] | None = None
    link: Link | None = None
    fetch: bool = False
    licence_file: Path | None = None
    hide_annotators: bool = False


def export_hugging_face(
    image_set: ImageSet,
    out: Path,
    settings: HuggingFaceSettings,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenExport:
    """Write the dataset's folder, whole or not at all.

    Args:
        image_set: with all its tables.
        out: the folder.
        settings: how.
        overwrite: replace an earlier export.
        progress: is told how many images are done, of how many.

    Raises:
        ConfigError: images at addresses that are not to be fetched, much to copy that nobody asked for, or a
            folder that is not free.
        DataError: image files that are missing, or no business of the image set.
        DetectorBenchError: an image cannot be read, or the disk is full.
    """
    carried = carried_names(image_set, fetch=settings.fetch)
    refuse_addresses(carried, form="a Hugging Face dataset")
    # In Parquet files every byte is copied, whatever is said about links.
    link = check_carried(image_set, link=settings.link)
    metadata = metadata_of(image_set, carried.names)
    decisive = {
        "image_set": image_set.name,
        "fingerprint": image_set.fingerprint(),
        "images": len(metadata),
        "as": settings.form,
        "link": link,
    }
    notes: list[str] = []
    with export_folder(
        out, form="huggingface", facts=decisive, apart_from=image_set.root, overwrite=overwrite
    ) as folder:
        if settings.form == "parquet":
            images = _write_parquet(image_set, metadata, folder, progress)
        else:
            bring_images(image_set, carried, folder, link=link, progress=progress)
            images = _write_metadata(metadata, folder, settings.metadata, notes)
        published = without_names(image_set) if settings.hide_annotators else image_set
        tables = write_tables(published, folder)
        facts = ImageSetFacts.of(published)
        licence_file = copy_licence(image_set, folder, settings.licence_file)
        about = croissant(facts, settings.published, folder, images=images, names=carried.names, tables=tables)
        write_text(folder / CROISSANT_FILE, about)
        card = _card(facts, settings, images, tables, licence_file)
        write_text(folder / CARD_FILE, card)
    if link == "symlink" and settings.form == "imagefolder":
        notes.append("the images are links into the image set: this folder is not to be pushed as it is")
    if facts.annotators and not settings.hide_annotators:
        names = ", ".join(facts.annotators[:5]) + ", ..." * (len(facts.annotators) > 5)
        notes.append(f"labels.csv names its annotators ({names}); --hide-annotators gives them numbers")
    if not settings.published.licence:
        notes.append("the licence is unknown: say --licence, or fill it in, before anybody may use the dataset")
    return WrittenExport(len(metadata), tuple(notes))


def _write_metadata(metadata: pd.DataFrame, folder: Path, kind: str | None, notes: list[str]) -> PublishedTable:
    if kind is None:
        kind = "csv" if survives_csv(metadata) else "parquet"
        if kind == "parquet":
            notes.append("metadata.parquet, not .csv: readers of CSV would take some of the texts for numbers")
    for other in METADATA_KINDS:
        (folder / f"metadata.{other}").unlink(missing_ok=True)
    file = f"metadata.{kind}"
    if kind == "csv":
        write_text(folder / file, metadata.to_csv(index=False, lineterminator="\n"))
    elif kind == "jsonl":
        write_text(folder / file, metadata.to_json(orient="records", lines=True, force_ascii=False))
    else:
        with replacing(folder / file) as temporary:
            pq.write_table(_texts(metadata), temporary, compression="zstd")
    return PublishedTable(file, tuple(metadata.columns))


def _texts(frame: pd.DataFrame) -> pa.Table:
    return pa.table({name: pa.array(frame[name], pa.string()) for name in frame.columns})


def _write_parquet(
    image_set: ImageSet, metadata: pd.DataFrame, folder: Path, progress: Progress | None
) -> PublishedTable:
    """Files of about `_SHARD_BYTES`, each written whole; those whose images have not changed are kept."""
    paths = image_set.table("images").column("path").to_pylist()
    rows = _rows_per_file(image_set, paths)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    names = list(metadata.columns)
    features = {"image": {"_type": "Image"}, **{name: {"dtype": "string", "_type": "Value"} for name in names}}
    schema = pa.schema([("image", kind), *((name, pa.string()) for name in names)])
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    total = -(-len(paths) // rows)
    made_of = folder / _MADE_OF
    known = json.loads(made_of.read_text(encoding="utf-8")) if made_of.exists() else {}
    for number in range(total):
        begin, end = number * rows, min((number + 1) * rows, len(paths))
        target = folder / f"data/{SPLIT}-{number:05d}-of-{total:05d}.parquet"
        # Before they are read: what changes meanwhile is read again by the next call.
        state = _state_of(image_set, paths[begin:end])
        if state is None or known.get(target.name) != state or not target.exists():
            with replacing(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
                for start in range(begin, end, _GROUP_ROWS):
                    part = slice(start, min(start + _GROUP_ROWS, end))
                    cells = [
                        {"bytes": read_carried(image_set, path), "path": name}
                        for path, name in zip(paths[part], metadata["file_name"][part], strict=True)
                    ]
                    texts = _texts(metadata[part])
                    writer.write_table(pa.table([pa.array(cells, kind), *texts.columns], schema=schema))
                    if progress is not None:
                        progress(part.stop, len(paths))
            known[target.name] = state
            write_text(made_of, json.dumps(known))
    made_of.unlink(missing_ok=True)
    return PublishedTable("data/*.parquet", tuple(names))


def _state_of(image_set: ImageSet, paths: list[str]) -> str | None:
    """Sizes and times of the files that images lie in, as a digest; None: some lie at addresses."""
    source = ImageFolder(image_set.root)
    digest = hashlib.sha256()
    for path in paths:
        place = path if is_file_below(path) else parse_reference(path).place
        if "://" in place:
            return None
        status = source.find(place)[1]
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _rows_per_file(image_set: ImageSet, paths: list[str]) -> int:
    source = ImageFolder(image_set.root)
    sizes = [source.find(path)[1].st_size for path in paths[:1000] if is_file_below(path)]
    mean = sum(sizes) / len(sizes) if sizes else _SHARD_BYTES / 500
    return int(min(max(_SHARD_BYTES / max(mean, 1), _GROUP_ROWS), _MOST_ROWS))


def _card(
    facts: ImageSetFacts,
    settings: HuggingFaceSettings,
    images: PublishedTable,
    tables: list[PublishedTable],
    licence_file: str,
) -> str:
    front = yaml.safe_dump(
        _front_matter(facts, settings, images, licence_file), sort_keys=False, allow_unicode=True, width=100
    )
    parts = [
        f"# {md.text(settings.published.title)}",
        md.text(describe(facts)).replace(md.text(CARE), ""),
        f"> {CARE}",
    ]
    parts += ["## How to read it", _how_to_read(tables)]
    for section in datasheet_sections(facts):
        body = section.body
        if section.heading == "Licence and upkeep":
            body = _licence(settings, licence_file, body)
        parts += [f"## {section.heading}", body]
    return f"---\n{front}---\n\n{md.document(*parts)}"


def _front_matter(
    facts: ImageSetFacts,
    settings: HuggingFaceSettings,
    images: PublishedTable,
    licence_file: str,
) -> dict[str, Any]:
    count = len(facts.image_set.images)
    licence = settings.published.licence
    front: dict[str, Any] = {"pretty_name": settings.published.title}
    front["license"] = (
        licence.lower() if licence and "://" not in licence else "other" if licence_file else "unknown"
    )
    if licence_file or "://" in licence:
        front["license_link"] = licence if "://" in licence else licence_file
    front |= {
        "size_categories": [next((name for most, name in _SIZES if count < most), "n>1M")],
        "task_categories": ["image-classification"],
        "tags": ["text-to-image", "synthetic", "bias", "fairness", "evaluation"],
        "configs": _configs(images),
    }
    return {name: value for name, value in front.items() if value}


def _configs(images: PublishedTable) -> list[dict[str, Any]]:
    """What `load_dataset` reads: the images alone, as it reads one kind of files in a dataset."""
    path: str | list[str] = images.file if "*" in images.file else [images.file, "images/**"]
    return [{"config_name": "images", "default": True, "data_files": [{"split": SPLIT, "path": path}]}]


def _how_to_read(tables: list[PublishedTable]) -> str:
    code = (
        "```python\n"
        "import pandas as pd\n"
        "from datasets import load_dataset\n\n"
        f'images = load_dataset("FOLDER_OR_NAME", split="{SPLIT}")\n'
        'labels = pd.read_csv("FOLDER/labels.csv", dtype=str, keep_default_na=False)\n'
        "```"
    )
    names = ", ".join(f"`{each.file}`" for each in tables)
    return md.document(
        code,
        f"Tables beside the images: {names}. They share `image_id` and `prompt_id`. A row of `labels.csv` is one "
        "annotator's label of one attribute of one image. `croissant.json` describes all of them.",
    ).strip()


def _licence(settings: HuggingFaceSettings, licence_file: str, body: str) -> str:
    said = []
    if settings.published.licence:
        said.append(f"Licence: {md.text(settings.published.licence)}; the terms of the T2I models hold, too")
    if licence_file:
        said.append(f"The text of the licence is in [{licence_file}]({licence_file})")
    if settings.published.creators:
        said.append(f"By: {md.words(settings.published.creators)}")
    lines = body.splitlines()
    return "\n".join([*(f"- {each}" for each in said), *(lines[1:] if said else lines)])
