"""Finds the images of an import, whatever their layout is, and what is known of each.

A layout is what somebody says (a pattern, a table of metadata), or what is recognised, in this order: an address,
archives or Parquet files; a table of metadata or an image set's own tables in the folder; the tree
`t2i_model/prompt/image`; folders that are prompts; texts inside the images.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from detector_bench.dataset.foreign.column_meanings import plain_name
from detector_bench.dataset.foreign.image_texts import ImageTexts, read_image_texts
from detector_bench.dataset.foreign.metadata_tables import MetadataTable, metadata_tables
from detector_bench.dataset.foreign.name_patterns import AmbiguousNameError, guessed_pattern
from detector_bench.dataset.foreign.table_form import FORMATS
from detector_bench.dataset.image_listing import ListedImage, is_listed_place, list_images, local_root
from detector_bench.dataset.image_paths import ADDRESS, parse_reference
from detector_bench.dataset.image_tree import (
    IMAGE_SUFFIXES,
    TREE,
    TreeImage,
    find_images,
    is_image,
    is_passed_over,
    name_problem,
    printable,
    tree_problem,
)
from detector_bench.dataset.import_decisions import ImportNews, shell_word
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import Problem
from detector_bench.vocabulary import ATTRIBUTES

_TABLE_SUFFIXES = (".csv", ".parquet")
_OTHER_PICTURES = (
    ".heic",
    ".heif",
    ".jxl",
    ".jp2",
    ".j2k",
    ".jpe",
    ".ppm",
    ".tga",
    ".psd",
    ".svg",
    ".exr",
    ".dng",
)
_LOOKED_AT = 64
"""Images whose texts tell whether it is worth reading those of all."""


@dataclass(frozen=True)
class FoundImages:
    """The images of an import.

    Attributes:
        layout: how they were found, in words.
        root: the folder to which their paths are relative.
        images: of each what is known.
        is_remote: whether they stay at an address.
        keeps_paths: whether the paths are those that the image set will have.
        metadata: the tables that tell of them, if any.
    """

    layout: str
    root: Path
    images: list[ListedImage]
    is_remote: bool = False
    keeps_paths: bool = False
    metadata: tuple[Path, ...] = ()

    @property
    def is_image_set(self) -> bool:
        """Whether they are an image set's, or an exported one's: its ids, with its prompts beside them."""
        return bool(self.images) and self.beside("prompts") is not None and all(i.image_id for i in self.images)

    def beside(self, stem: str) -> Path | None:
        """A table of an image set that lies beside the images' own: `labels`, `prompts`."""
        found = [self.root / f"{stem}{suffix}" for suffix in _TABLE_SUFFIXES]
        return next((path for path in found if path.is_file()), None)


def find_source(
    source: str,
    settings: ImportSettings,
    findings: Findings,
    news: ImportNews,
    *,
    destination: Path,
    apart: Collection[Path] = (),
) -> FoundImages:
    """The images of a source; what is wrong with it is added to `findings`.

    Args:
        source: a folder, a file or an address.
        settings: what is said about it.
        findings: takes mistakes.
        news: takes what was recognised, and options that would help.
        destination: the image set's folder, with links resolved.
        apart: folders of photos that images were made from.

    Raises:
        MissingExtraError: a package is needed that is not installed.
    """
    if settings.pattern:
        folder = _Folder(Path(source).resolve(), settings, findings, news, apart)
        return folder.saying_what_is_passed_over(folder.by_pattern())
    if settings.metadata is None and not _has_tables(source) and is_listed_place(source):
        images = list_images(source, settings.listing, findings)
        news.notes += _labels_inside(images, local_root(source))
        return FoundImages("archives, tables or a bucket", local_root(source), images, bool(_is_address(source)))
    root = Path(source).resolve()
    if root.is_file() and root.suffix.lower() in FORMATS and settings.metadata is None:
        # Somebody who names a table speaks of its images, not of all that lie around it.
        settings, root = replace(settings, metadata=root), root.parent
        return _Folder(root, settings, findings, news, apart, is_all=False).found(destination)
    folder = _Folder(root, settings, findings, news, apart)
    return folder.saying_what_is_passed_over(folder.found(destination))


def _labels_inside(images: Sequence[ListedImage], root: Path) -> list[str]:
    """A note on columns of a Parquet file with images that bear an attribute's name, and are not read."""
    first = next((parse_reference(each.path).place for each in images if ".parquet#" in each.path), None)
    if first is None or _is_address(first):
        return []
    names = [name for name in pq.read_schema(root / first).names if plain_name(name) in ATTRIBUTES]
    told = f"{first}: not read as labels: {', '.join(names)}; --labels takes a table of labels by image"
    return [told] if names else []


def _has_tables(source: str) -> bool:
    """Whether a table tells of the images, which may all lie in archives."""
    root = Path(source)
    return root.is_dir() and any((root / f"images{suffix}").is_file() for suffix in _TABLE_SUFFIXES)


def _is_address(source: str) -> bool:
    import re

    return re.match(ADDRESS, source) is not None


@dataclass(frozen=True)
class _Folder:
    """A folder of images on this machine."""

    root: Path
    settings: ImportSettings
    findings: Findings
    news: ImportNews
    apart: Collection[Path]
    is_all: bool = True
    """Whether all images in it are meant."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """By suffix, how many files seem to be pictures and are not taken for images."""

    def saying_what_is_passed_over(self, found: FoundImages) -> FoundImages:
        """What was found, after a note on pictures that are not of it."""
        if self.passed_over:
            told = ", ".join(f"{number:,} {suffix}" for suffix, number in sorted(self.passed_over.items()))
            accepted = ", ".join(IMAGE_SUFFIXES)
            self.news.notes.append(f"left out for their suffix: {told} (images are {accepted})")
        return found

    def found(self, destination: Path) -> FoundImages:
        tables = () if not self.root.is_dir() else self._metadata(destination)
        paths = self._paths() if self.root.is_dir() and self.is_all else []
        depths = {path.count("/") for path in paths}
        if tables and 2 in depths and self.settings.metadata is None and not self._tells_of_files(tables[0]):
            self.news.notes.append(f"{tables[0].name} names no image files, and is not read")
            tables = ()
        if tables:
            return self._by_metadata(tables)
        if depths == {1} and self.settings.t2i_model:
            return self._by_prompt_folders(paths)
        if depths and 2 not in depths and (found := self._by_texts(paths)) is not None:
            return found
        if self.settings.t2i_model and 2 in depths:
            self.findings.add(
                Problem(
                    str(self.root),
                    f"--t2i-model beside a folder tree {TREE}, whose folders name the T2I models",
                    value=self.settings.t2i_model,
                    accepted="a tree prompt/image, archives or tables; or no --t2i-model",
                )
            )
        if depths and 2 not in depths:
            self._propose(paths, depths)
            return FoundImages("nothing that is known", self.root, [])
        images = find_images(self.root, self.findings, apart=self.apart)
        return FoundImages(f"folder tree {TREE}", self.root, [ListedImage(image, image.path) for image in images])

    def by_pattern(self) -> FoundImages:
        """Images of which their names tell."""
        pattern = self.settings.name_pattern
        assert pattern is not None  # noqa: S101 - the caller knows
        words = self.settings.known_prompts.words
        images, strange = [], []
        paths = self._paths() if self.root.is_dir() else []
        for path in paths:
            try:
                fields = pattern.read(path if pattern.is_of_paths else path.rpartition("/")[2], words)
            except AmbiguousNameError as error:
                accepted = "a pattern that fits in one way, such as one with __ between its fields"
                strange.append(Problem(printable(path), f"name that may mean {error}", accepted=accepted))
                continue
            if fields is None:
                strange.append(
                    Problem(printable(path), "name that the pattern does not fit", accepted=self.settings.pattern)
                )
            else:
                images.append(self._of_fields(path, fields))
        self.findings.add_kind(strange)
        if not paths:
            self._nothing_there()
        if strange and not images:
            self._propose_pattern(paths)
        return FoundImages(f"names {self.settings.pattern}", self.root, self._sound(images))

    def _of_fields(self, path: str, fields: Mapping[str, str]) -> ListedImage:
        name = path.rpartition("/")[2]
        told = fields.get("number") or fields.get("seed")
        sentence = fields.get("prompt", "").replace("_", " ").strip()
        prompt = fields.get("prompt_id") or fields.get("word") or sentence
        tree = TreeImage(fields.get("t2i_model") or self.settings.t2i_model, prompt, told or name)
        return ListedImage(
            tree,
            path,
            image_id=fields.get("image_id", ""),
            prompt=sentence,
            word=fields.get("word", "").replace("_", " ").strip(),
            category=fields.get("category", ""),
            seed_image_id=fields.get("seed_image_id", ""),
        )

    def _metadata(self, destination: Path) -> Sequence[Path]:
        if self.settings.metadata is not None:
            return [self.settings.metadata.resolve()]
        own = [self.root / f"images{suffix}" for suffix in _TABLE_SUFFIXES]
        there = [path for path in own if path.is_file() and self.root != destination]
        return there or metadata_tables(self.root)

    def _tells_of_files(self, path: Path) -> bool:
        settings = self.settings
        return MetadataTable.read(path, self.root, settings.listing, settings.table, Findings()) is not None

    def _by_metadata(self, tables: Sequence[Path]) -> FoundImages:
        images: list[ListedImage] = []
        for path in tables:
            table = MetadataTable.read(path, self.root, self.settings.listing, self.settings.table, self.findings)
            if table is not None:
                self.news.recognised.append((f"metadata {path.name}", f"{table.form}; {len(table):,} rows"))
                self.news.recognised += [(f"column {theirs}", ours) for ours, theirs in table.columns.items()]
                if table.form.left_out:
                    self.news.notes.append(f"{path.name}: {table.form.left_out}")
                images += table.images(self.findings, self.news)
        listed = {image.path for image in images}
        is_elsewhere = all("://" in path for path in listed)
        beside = 0 if is_elsewhere or not self.is_all else sum(path not in listed for path in self._paths())
        if beside and images:
            names = ", ".join(dict.fromkeys(path.name for path in tables))
            self.news.notes.append(f"{names}: {beside:,} image files that it does not list are left out")
        keeps = any(path.stem == "images" for path in tables) or all(image.image_id for image in images)
        return FoundImages(
            f"metadata in {tables[0].name}", self.root, self._sound(images), keeps_paths=keeps, metadata=(*tables,)
        )

    def _by_prompt_folders(self, paths: Sequence[str]) -> FoundImages:
        images = []
        for path in paths:
            prompt, name = path.split("/")
            images.append(ListedImage(TreeImage(self.settings.t2i_model, prompt, name), path))
        return FoundImages("folder tree prompt/image", self.root, self._sound(images))

    def _by_texts(self, paths: Sequence[str]) -> FoundImages | None:
        """Images that say themselves what they show; None: hardly any does."""
        step = max(1, len(paths) // _LOOKED_AT)
        first = [read_image_texts(self.root / path) for path in paths[::step][:_LOOKED_AT]]
        if not any(first):
            return None
        with ThreadPoolExecutor(thread_name_prefix="texts") as pool:
            texts = list(pool.map(lambda path: read_image_texts(self.root / path), paths))
        images, silent, without_model = [], [], 0
        for path, text in zip(paths, texts, strict=True):
            if text is None:
                silent.append(Problem(printable(path), "image without a text about its making"))
                continue
            without_model += not (text.t2i_model or self.settings.t2i_model)
            images.append(self._of_text(path, text))
        self.findings.add_kind(
            [replace(each, accepted="a pattern or a table of metadata for all images") for each in silent]
        )
        if without_model:
            message = f"{without_model:,} images whose text names no T2I model"
            self.findings.add(Problem(str(self.root), message, accepted="--t2i-model NAME"))
            self.news.remedy("--t2i-model", self.root.name)
        programs = sorted({text.program for text in texts if text is not None})
        return FoundImages(f"texts inside the images ({', '.join(programs)})", self.root, self._sound(images))

    def _of_text(self, path: str, text: ImageTexts) -> ListedImage:
        model = text.t2i_model or self.settings.t2i_model or "?"
        tree = TreeImage(model, text.prompt, path.rpartition("/")[2])
        return ListedImage(tree, path, prompt=text.prompt)

    def _sound(self, images: list[ListedImage]) -> list[ListedImage]:
        """Those whose names can stand in a table; the others are reported."""
        problems = [
            name_problem(image.path, image.path.split("/")) or tree_problem(image.tree, image.path)
            for image in images
        ]
        self.findings.add_kind([problem for problem in problems if problem is not None])
        return [image for image, problem in zip(images, problems, strict=True) if problem is None]

    def _paths(self) -> list[str]:
        """All image files, below the root, sorted; those of seeds are none."""
        return sorted(self._walked())

    def _walked(self) -> Iterator[str]:
        root = str(self.root)
        self.passed_over.clear()
        for folder, folders, files in os.walk(root, followlinks=False):
            folders[:] = [name for name in folders if not is_passed_over(name)]
            if self.apart and Path(folder) in self.apart:
                continue
            self.passed_over.update(
                suffix for name in files if (suffix := Path(name).suffix.lower()) in _OTHER_PICTURES
            )
            prefix = "" if folder == root else f"{Path(folder).relative_to(root).as_posix()}/"
            yield from (f"{prefix}{name}" for name in files if is_image(name))

    def _nothing_there(self) -> None:
        message = "no images found" if self.root.is_dir() else "no such folder"
        self.findings.add(Problem(str(self.root), message, accepted="a folder of images"))

    def _propose(self, paths: Sequence[str], depths: Collection[int]) -> None:
        """Say what is missing to know T2I model and prompt of images that lie in no tree of the known kind."""
        words = self.settings.known_prompts
        folders = {path.split("/")[0] for path in paths} if depths == {1} else set()
        are_prompts = folders and (
            2 * sum(words.find(name) is not None for name in folders) >= len(folders)
            or not guessed_pattern([path.rpartition("/")[2] for path in paths], words.words)
        )
        where = "side by side" if depths == {0} else "at another depth"
        message = f"images that lie {where}, not at {TREE}: nothing says their T2I model and prompt"
        accepted = "--pattern, --metadata FILE, or images with texts of ComfyUI or Automatic1111"
        if are_prompts:
            accepted = "--t2i-model NAME, if the folders are prompts; or " + accepted
            self.news.remedy("--t2i-model", self.root.name)
        self.findings.add(Problem(printable(paths[0]), message, accepted=accepted))
        if not are_prompts:
            self._propose_pattern(paths)

    def _propose_pattern(self, paths: Sequence[str]) -> None:
        depth = {path.count("/") for path in paths}
        names = [path.rpartition("/")[2] for path in paths]
        pattern = guessed_pattern(names, self.settings.known_prompts.words)
        if pattern and depth == {1} and "t2i_model" not in pattern:
            pattern = f"{{t2i_model}}/{pattern}"
        if pattern and not self.settings.pattern:
            self.news.remedy("--pattern", pattern)
            if "t2i_model" not in pattern and not self.settings.t2i_model:
                self.news.remedy("--t2i-model", self.root.name)


def command_words(options: Sequence[str]) -> str:
    """Options as a shell takes them."""
    return " ".join(map(shell_word, options))
