"""Finds the images of places that are no folder tree on the disk: buckets, tar files, Parquet files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import ADDRESS, address_problem, parse_reference, shown
from detector_bench.dataset.image_sources.object_stores import ObjectStore
from detector_bench.dataset.image_sources.parquet_images import image_columns
from detector_bench.dataset.image_sources.seekable_files import seekable
from detector_bench.dataset.image_sources.sources import READERS, ImageSources
from detector_bench.dataset.image_tree import IMAGE_SUFFIXES, TREE, TreeImage, is_image, is_passed_over
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem
from detector_bench.json_text import parse_json
from detector_bench.vocabulary.generations import GENERATIONS_FILE

COLUMNS = ("path", "t2i_model", "prompt", "prompt_id", "word", "category", "seed_image_id")
"""What a column of a table of images, or a field of a member `.json`, may be said to hold."""

IMAGE_ID = "image_id"
"""A column of this name in a Parquet file holds the images' ids."""

_SENTENCES = ("prompt", "word", "category")
_CONTAINERS = (".tar", ".parquet")
_LARGEST_FIELD_FILE = 1 << 24


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image that was found.

    Attributes:
        tree: T2I model, prompt (a name or the sentence) and file name, as those of a folder tree.
        path: the file, or the part of one: relative to the place, or an address.
        image_id: the one that the place gives it; "" for none.
        prompt: the sentence; "" where only a name is known.
        word: what was filled into the sentence; "" where that is not known.
        category: of the prompt; "" likewise.
        seed_image_id: the id of the image that it was made from; "" for none.
    """

    tree: TreeImage
    path: str
    image_id: str = ""
    prompt: str = ""
    word: str = ""
    category: str = ""
    seed_image_id: str = ""


@dataclass(frozen=True)
class ListingSettings:
    """How a place is read.

    Attributes:
        columns: our column (`COLUMNS`) to theirs; those that are not named bear our name.
        t2i_model: that of images of which the place says none; "" for none.
    """

    columns: Mapping[str, str]
    t2i_model: str = ""

    def check(self) -> None:
        """Check the settings themselves.

        Raises:
            ConfigError: an unknown column.
        """
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise ConfigError(f"mapping: unknown column {unknown[0]!r} (accepted: {', '.join(COLUMNS)})")

    def theirs(self, ours: str) -> str:
        """Their name of one of our columns."""
        return self.columns.get(ours, ours)


def is_listed_place(source: str) -> bool:
    """Whether a source is an address, a tar or Parquet file, or a folder that holds such files and no images."""
    if re.match(ADDRESS, source) or source.lower().endswith(_CONTAINERS):
        return True
    has_containers = False
    for _, _, files in os.walk(source):
        names = [name for name in files if not is_passed_over(name)]
        if any(map(is_image, names)):
            return False
        has_containers = has_containers or any(name.lower().endswith(_CONTAINERS) for name in names)
    return has_containers


def list_images(source: str, settings: ListingSettings, findings: Findings) -> list[ListedImage]:
    """The images of a place; what is wrong with it is added to `findings`.

    Of a folder or bucket, images count if there are any; else tar files; else Parquet files. Paths of local files
    are relative to the folder (of a file: to the folder that holds it).

    Raises:
        MissingExtraError: a package is needed that is not installed.
    """
    root = local_root(source)
    sources = ImageSources(root)
    try:
        files = _files(source, root)
    except ImageError as error:
        findings.add(Problem(shown(source), f"cannot be listed: {error.detail}"))
        return []
    found: list[ListedImage] = []
    try:
        if images := [file for file in files if file.lower().endswith(IMAGE_SUFFIXES)]:
            return list(_of_tree(source.rstrip("/"), images, findings))
        for suffix, read in ((".tar", _of_tar), (".parquet", _of_parquet)):
            for file in (file for file in files if file.lower().endswith(suffix) and not _is_table(file)):
                found += read(file, sources, settings, findings)
                if findings:  # the next file has the same mistake, most likely
                    return []
            if found:
                return found
    except ImageError as error:
        findings.add(Problem(shown(source), error.detail))
        return []
    if not findings:
        accepted = f"images at {TREE}, .tar files or .parquet files"
        findings.add(Problem(shown(source), "no images found", accepted=accepted))
    return []


def _is_table(file: str) -> bool:
    """Whether a Parquet file is one of an image set's tables, and holds no images."""
    return file.rpartition("/")[2] in ("prompts.parquet", "labels.parquet", GENERATIONS_FILE)


def local_root(source: str) -> Path:
    """The folder to which the paths of what is found are relative."""
    if re.match(ADDRESS, source):
        return Path()
    path = Path(source).resolve()
    return path.parent if path.is_file() else path


def _files(source: str, root: Path) -> list[str]:
    suffixes = (*IMAGE_SUFFIXES, *_CONTAINERS)
    if not re.match(ADDRESS, source):
        path = Path(source)
        if path.is_file():
            return [path.name]
        found = (file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())
        return sorted(name for name in found if name.lower().endswith(suffixes))
    if problem := address_problem(source):
        raise ImageError("unreadable", f"{problem[0]} (accepted: {problem[1]})")
    scheme = parse_reference(source).scheme
    if source.lower().partition("?")[0].endswith(_CONTAINERS):
        return [source]
    if scheme not in ("s3", "gs", "hf"):
        raise ImageError(
            "unreadable", "a web server lists no folders (accepted: the address of a .tar or .parquet file)"
        )
    return ObjectStore(scheme).files(source, suffixes=suffixes)


def _of_tree(source: str, files: Sequence[str], findings: Findings) -> Iterator[ListedImage]:
    misplaced = []
    for file in files:
        parts = file.removeprefix(f"{source}/").split("/")
        if len(parts) == 3:
            yield ListedImage(TreeImage(*parts), file)
        else:
            misplaced.append(Problem(file, "image at the wrong depth of the tree", accepted=TREE))
    findings.add_kind(misplaced)


def _of_tar(
    file: str, sources: ImageSources, settings: ListingSettings, findings: Findings
) -> Iterable[ListedImage]:
    """Members at t2i_model/prompt/image, or WebDataset's samples with their texts in `.json` or `.txt`."""
    names = sources.members(file)
    images = [name for name in names if is_image(name.rpartition("/")[2])]
    if not images:
        findings.add(
            Problem(shown(file), "no images in the archive", accepted=f"suffix {', '.join(IMAGE_SUFFIXES)}")
        )
    if all(name.count("/") == 2 for name in images):
        return [ListedImage(TreeImage(*name.split("/")), f"{file}#{name}") for name in images]
    there = set(names)

    def sample(name: str) -> ListedImage:
        folder, slash, base = name.rpartition("/")
        key = f"{folder}{slash}{base.partition('.')[0]}"
        fields = {}
        if f"{key}.json" in there:
            text = sources.read(f"{file}#{key}.json", max_bytes=_LARGEST_FIELD_FILE)
            try:
                fields = dict(parse_json(text.decode("utf-8-sig")))
            except (ValueError, TypeError):
                raise ImageError("corrupt", f"{shown(file)}#{key}.json: no JSON object") from None
        elif f"{key}.txt" in there:
            text = sources.read(f"{file}#{key}.txt", max_bytes=_LARGEST_FIELD_FILE)
            fields = {settings.theirs("prompt"): text.decode(errors="replace").strip()}
        cells = {ours: plain_cell(ours, fields.get(settings.theirs(ours))) for ours in COLUMNS}
        stem = Path(parse_reference(file).place).stem
        return listed_image(f"{stem}_{base}", f"{file}#{name}", cells, settings)

    with ThreadPoolExecutor(READERS, thread_name_prefix="samples") as pool:
        found = list(pool.map(sample, images))
    _report_missing(file, found, settings, findings)
    return found


def _of_parquet(
    file: str, sources: ImageSources, settings: ListingSettings, findings: Findings
) -> Iterable[ListedImage]:
    """Rows of a column of images, with the T2I model and the prompt in other columns."""
    place = sources.place_of(file)
    try:
        table = pq.ParquetFile(pa.PythonFile(seekable(place, file, place.mark(file)), mode="r"), pre_buffer=False)
        schema = table.schema_arrow
        known = image_columns(schema)
        chosen = settings.columns.get("path") or (known[0] if len(known) == 1 else None)
        if chosen not in known:
            message = "which column holds the images?" if len(known) > 1 else "no column of images"
            accepted = f"--column path=NAME with one of: {', '.join(known) or 'none there'}"
            findings.add(Problem(shown(file), message, column=chosen, accepted=accepted))
            return []
        wanted = {ours: settings.theirs(ours) for ours in COLUMNS[1:]} | {IMAGE_ID: IMAGE_ID}
        wanted = {ours: theirs for ours, theirs in wanted.items() if theirs in schema.names}
        texts = table.read(columns=list(wanted.values())) if wanted else None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ImageError("corrupt", f"{shown(file)}: no sound Parquet file: {error}") from error
    rows = table.metadata.num_rows
    cells = (
        {ours: texts.column(theirs).to_pylist() for ours, theirs in wanted.items()} if texts is not None else {}
    )
    stem = Path(parse_reference(file).place).stem
    part = f"{chosen}/" if len(known) > 1 else ""
    found = []
    for row in range(rows):
        own = {ours: plain_cell(ours, column[row]) for ours, column in cells.items()}
        found.append(listed_image(f"{stem}_{row:06d}", f"{file}#{part}{row}", own, settings))
    _report_missing(file, found, settings, findings)
    return found


def plain_cell(ours: str, value: object) -> str:
    """A cell as text: of sentences and words a run of blanks is one blank; names and ids stay as they are."""
    text = "" if value is None else str(value)
    return " ".join(text.split()) if ours in _SENTENCES else text.strip()


def listed_image(name: str, path: str, cells: Mapping[str, str], settings: ListingSettings) -> ListedImage:
    """An image of whose prompt and T2I model a table's row, or a member's fields, tell.

    Args:
        name: the file's.
        path: as in `ListedImage`.
        cells: by our column.
        settings: names the T2I model where no cell does.
    """
    prompt = cells.get("prompt", "")
    word, category = cells.get("word", ""), cells.get("category", "")
    name_of_prompt = cells.get("prompt_id") or prompt or word
    tree = TreeImage(cells.get("t2i_model") or settings.t2i_model, name_of_prompt, name)
    seed = cells.get("seed_image_id", "")
    return ListedImage(tree, path, cells.get(IMAGE_ID, ""), prompt, word, category, seed)


def _told(image: ListedImage) -> tuple[str, str]:
    return image.tree.t2i_model, image.tree.prompt


def _report_missing(
    file: str, found: Sequence[ListedImage], settings: ListingSettings, findings: Findings
) -> None:
    has_seeds = any(image.seed_image_id for image in found)
    for ours, remedy in (("t2i_model", ", or --t2i-model NAME"), ("prompt", "")):
        # A photo that others were edited from has neither.
        made = [image for image in found if image.seed_image_id or not has_seeds or any(_told(image))]
        lacking = [image.path for image in made if not getattr(image.tree, ours)]
        if lacking:
            accepted = f"--column {ours}=THEIRS{remedy}"
            message = f"{len(lacking):,} images without a {'T2I model' if ours == 't2i_model' else 'prompt'}"
            findings.add(Problem(shown(file), message, column=settings.theirs(ours), accepted=accepted))
