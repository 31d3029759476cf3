"""Makes an image set of images and labels as people have them, or adds them to one.

`plan_import` reads everything and writes nothing: what it gives can be shown (`preview`) or written (`write`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from detector_bench.dataset.files_beside import files_beside
from detector_bench.dataset.foreign.metadata_tables import MetadataTable
from detector_bench.dataset.image_keys import ImageKeys
from detector_bench.dataset.image_paths import parse_reference
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_set_tables import Tables
from detector_bench.dataset.image_tree import find_seeds, image_ids, match_seeds
from detector_bench.dataset.import_additions import Additions, grown_tables
from detector_bench.dataset.import_decisions import ImportNews, UndecidedImportError
from detector_bench.dataset.import_files import (
    bring_all,
    check_destination,
    check_targets,
    links_that_leave,
    replace_tables,
    write_tables,
)
from detector_bench.dataset.import_records import ImportedImage, image_table, names_too_like, path_in_set
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.import_sources import FoundImages, find_source
from detector_bench.dataset.imported_prompts import (
    prompts_of_file,
    read_prompt_file,
    recognised_prompts,
    whole_prompt_table,
)
from detector_bench.dataset.label_columns import LabelColumnSettings, find_label_columns
from detector_bench.dataset.label_import import import_labels
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.dataset.validation import check_brought_files, check_target_folders, validate
from detector_bench.errors import ConfigError, DataError, Problem
from detector_bench.vocabulary import ATTRIBUTES, Attribute, attributes_of, read_attributes, write_attributes

IMAGE_FOLDER = "images"
"""Where copied images go in the new image set."""

SEED_FOLDER = "seeds"
"""Where copied seeds go in the new image set."""


class ImportRefusedError(DataError):
    """An import with mistakes; some are mended by options.

    Attributes:
        remedies: options with which it would go further, as on the command line; empty: none is known.
    """

    def __init__(self, error: DataError, remedies: Sequence[str]) -> None:
        super().__init__(error.problems)
        self.remedies = tuple(remedies)


@dataclass(frozen=True)
class ImportPlan:
    """An import that was read and checked, of which nothing is written yet.

    Attributes:
        destination: the image set's folder, with links resolved.
        layout: how the images were found, in words.
        tables: the tables that the image set will have.
        moved: by path in the image set, the image file that gets there.
        beside: likewise, of the files beside an image set's tables, where the source is one.
        settings: what was said.
        news: what was recognised, and what should be known.
        attributes: the image set's own, which it does not have yet.
        additions: how many rows come along, where the image set is there already.
    """

    destination: Path
    layout: str
    tables: Tables
    moved: Mapping[str, str]
    beside: Mapping[str, str]
    settings: ImportSettings
    news: ImportNews
    attributes: tuple[Attribute, ...]
    additions: Additions | None

    def write(self) -> ImageSet:
        """Bring the files into the image set, then write its tables.

        Each file is written whole or not at all, and the table of images last: an import that was cut short is no
        image set, or the one that was there before, and can be run again.

        Raises:
            ConfigError: a link is not possible.
            DetectorBenchError: the disk is full, read-only or the like.
        """
        self.destination.mkdir(parents=True, exist_ok=True)
        bring_all(self.moved, self.destination, link=self.settings.link)
        bring_all(self.beside, self.destination, link="copy")
        write_attributes(self.attributes, self.destination)
        if self.additions is None:
            write_tables(self.destination, self.tables)
        else:
            replace_tables(self.destination, self.additions.tables)
        return ImageSet.load(self.destination)


def import_images(source: Path | str, destination: Path | str, **said: object) -> ImageSet:
    """Make an image set of images and labels in any layout that is recognised; see `ImportSettings`.

    Example: `import_images("renders", "my_images", pattern="{t2i_model}__{word}__{number}.png")`

    Raises:
        ConfigError: a setting is not valid.
        UndecidedImportError: somebody must say what a column means.
        ImportRefusedError: mistakes in the source or the tables, all of them at once.
        MissingExtraError: a package is needed that is not installed.
    """
    return plan_import(source, destination, ImportSettings(**said)).write()  # type: ignore[arg-type]


def plan_import(source: Path | str, destination: Path | str, settings: ImportSettings) -> ImportPlan:
    """Read and check all that an import needs; nothing is written.

    Args:
        source: a folder, an archive, a table of images, or an address.
        destination: the image set's folder, which may not exist yet.
        settings: what is said about it.

    Raises:
        ConfigError: a setting is not valid.
        UndecidedImportError: somebody must say what a column means.
        ImportRefusedError: mistakes in the source or the tables, all of them at once.
        MissingExtraError: a package is needed that is not installed.
    """
    return _Import(str(source), Path(destination).resolve(), settings).plan()


class _Import:
    """One import while it is read."""

    def __init__(self, source: str, destination: Path, settings: ImportSettings) -> None:
        self.source, self.destination, self.settings = source, destination, settings
        self.findings, self.news = Findings(), ImportNews()
        self.there = attributes_of(destination)
        self.own = {**self.there, **read_attributes(settings.attribute_files)}
        settings.check()
        self.seeds = None if settings.seeds is None else settings.seeds.resolve()

    def plan(self) -> ImportPlan:
        findings, settings, destination = self.findings, self.settings, self.destination
        before = self._before()
        found = self._found()
        if found.metadata or found.beside("prompts"):
            self.own |= {name: each for name, each in attributes_of(found.root).items() if name not in self.own}
        self._check_place(found)
        tables, images = self._tables(found, before)
        validated = tables
        additions = None
        if before is not None:
            additions = grown_tables(tables, destination, findings)
            validated = additions.whole
        lacks = findings and not all(image.tree.t2i_model and image.tree.prompt for image in found.images)
        if (found.images or before is not None) and not lacks:  # what is reported as missing is no second mistake
            has_pairs = found.keeps_paths and validated.images is not None and validated.images.has(SEED_COLUMN)
            validate(validated, findings, require_labels=False, require_pairs=has_pairs)
        if before is None:
            has_labels = tables.labels is not None
            check_destination(destination, has_labels=has_labels, overwrite=settings.overwrite, findings=findings)
        moved = self._moved(found, images)
        beside = self._beside(found)
        if not settings.overwrite:
            check_targets(destination, {**moved, **beside}, findings)
        if findings:
            remedies = [word for options in self.news.remedies for word in options]
            raise ImportRefusedError(DataError(findings.problems), remedies)
        if settings.link == "symlink" and links_that_leave(moved, destination):
            self.news.notes.append(
                "the links lead out of the image set: `check` and `run` follow them with "
                f"--allow-root {found.root}"
            )
        self.news.notes += names_too_like(image.t2i_model for image in images)
        new = tuple(each for name, each in self.own.items() if name not in self.there)
        return ImportPlan(destination, found.layout, validated, moved, beside, settings, self.news, new, additions)

    def _beside(self, found: FoundImages) -> dict[str, str]:
        """What lies beside an image set's tables; none of it is added to another: a sample speaks for its set."""
        if self.settings.add or not found.is_image_set or found.root == self.destination:
            return {}
        names = files_beside(found.root)
        check_brought_files(found.root, names, into=self.destination, findings=self.findings)
        return {name: f"{found.root}/{name}" for name in names}

    def _before(self) -> ImageSet | None:
        """The image set that is added to; None: a new one is made."""
        if not self.settings.add:
            return None
        return ImageSet.load(self.destination)

    def _found(self) -> FoundImages:
        settings = self.settings
        if settings.add and Path(self.source).resolve() == self.destination:
            return FoundImages("labels alone", self.destination, [])
        apart = () if self.seeds is None else (self.seeds, self.destination / SEED_FOLDER)
        return find_source(
            self.source, settings, self.findings, self.news, destination=self.destination, apart=apart
        )

    def _check_place(self, found: FoundImages) -> None:
        destination, folders = self.destination, [("folder of seeds", self.seeds)]
        if not found.is_remote and not Path(self.source).is_file():  # of a file, its folder is no source
            folders.append(("source", found.root))
        for name, origin in folders:
            if origin is not None and destination != origin and destination.is_relative_to(origin):
                place = f"the destination {destination} lies inside the {name}"
                raise ConfigError(f"{place}; accepted: a folder outside it")
        if self.seeds is not None and (found.is_remote or found.layout.startswith("archives")):
            raise ConfigError("--seeds goes with images in folders on this machine")
        if self.seeds is not None and self.seeds in (found.root, destination):
            raise ConfigError(f"seeds: {self.seeds} holds other things too; accepted: a folder for seeds alone")

    def _tables(self, found: FoundImages, before: ImageSet | None) -> tuple[Tables, list[ImportedImage]]:
        of_prompts = ImportNews()
        prompt_ids, prompts = self._prompts(found, of_prompts)
        seeds, seed_of = self._seeds(found)
        ids = self._ids(found, prompt_ids, seeds, before)
        images = self._records(found, prompt_ids, ids, seeds, seed_of)
        has_seeds = self.seeds is not None or any(image.seed_image_id for image in images)
        tables = Tables(
            images=image_table(images, has_seeds=has_seeds),
            prompts=prompts,
            labels=self._labels(found, images, before),
            attributes={**ATTRIBUTES.only_built_in(), **self.own},
        )
        self.news.notes += of_prompts.notes
        self.news.recognised += of_prompts.recognised
        return tables, images

    def _prompts(self, found: FoundImages, news: ImportNews) -> tuple[Mapping[str, str], TextTable]:
        settings, findings = self.settings, self.findings
        beside = found.beside("prompts") if found.metadata or "archives" in found.layout else None
        path = settings.prompts or (None if found.is_remote else beside)
        if path is not None:
            listed = read_prompt_file(path, settings.table, findings, news)
            if listed is not None and settings.prompts is None:
                table = whole_prompt_table(listed, found.images, findings)
                return {image.tree.prompt: image.tree.prompt for image in found.images}, table
            if listed is not None:
                return prompts_of_file(found.images, listed, category=settings.category, findings=findings)
            news = ImportNews()  # what is recognised without the file is no news
        return recognised_prompts(
            found.images, settings.known_prompts, category=settings.category, findings=findings, news=news
        )

    def _seeds(self, found: FoundImages) -> tuple[list[str], list[str | None]]:
        """The file names of photos, and that of each image."""
        none: list[str | None] = [None] * len(found.images)
        if self.seeds is None:
            return [], none
        seeds = find_seeds(self.seeds, self.findings)
        if not seeds or not found.images:
            return seeds, none
        trees = [replace(image.tree, file_name=image.path.rpartition("/")[2]) for image in found.images]
        return seeds, match_seeds(trees, seeds, folder=self.seeds, findings=self.findings)

    def _ids(
        self,
        found: FoundImages,
        prompt_ids: Mapping[str, str],
        seeds: Sequence[str],
        before: ImageSet | None,
    ) -> list[str]:
        """The ids of all images, then of all seeds; those of an image set that is added to are taken."""
        images = found.images
        is_tree = found.layout.startswith("folder tree t2i_model")
        trees = [
            image.tree if is_tree else replace(image.tree, prompt=prompt_ids.get(image.tree.prompt, ""))
            for image in images
        ]
        paths = [image.path for image in images]
        if any(image.image_id for image in images):
            made = image_ids([], seeds)
            lacking = [image.path for image in images if not image.image_id]
            if lacking:
                self._lacks_ids(len(lacking), lacking[0])
            return [*(image.image_id for image in images), *made]
        taken: set[str] = set()
        if before is not None:
            own = dict(zip(before.images["path"], before.images["image_id"], strict=True))
            placed = [self._placed(found, path) for path in paths]
            again = [own.get(path) for path in placed]
            taken = set(own.values()) - {name for name in again if name}
            made = image_ids(trees, seeds, paths=paths, taken=taken)
            return [*(old or new for old, new in zip(again, made, strict=False)), *made[len(again) :]]
        return image_ids(trees, seeds, paths=paths, taken=taken)

    def _lacks_ids(self, number: int, example: str) -> None:
        message = f"{number:,} images without an image_id"
        self.findings.add(Problem("images.csv", message, value=example, accepted="one in each row"))

    def _records(
        self,
        found: FoundImages,
        prompt_ids: Mapping[str, str],
        ids: Sequence[str],
        seeds: Sequence[str],
        seed_of: Sequence[str | None],
    ) -> list[ImportedImage]:
        """The records of all images, those of seeds last."""
        seed_ids = dict(zip(seeds, ids[len(found.images) :], strict=True))
        images = [
            ImportedImage(
                image_id=image_id,
                path=self._placed(found, image.path),
                t2i_model=image.tree.t2i_model,
                prompt_id=prompt_ids.get(image.tree.prompt, ""),
                seed_image_id=image.seed_image_id if seed is None else seed_ids[seed],
                origin=f"{found.root}/{image.path}",
                source_path=image.path,
            )
            for image_id, image, seed in zip(ids, found.images, seed_of, strict=False)
        ]
        for name, image_id in seed_ids.items():
            assert self.seeds is not None  # noqa: S101 - there are none otherwise
            path = path_in_set(self.seeds, name, self.destination, otherwise=f"{SEED_FOLDER}/")
            origin, source_path = f"{self.seeds}/{name}", f"{self.seeds.name}/{name}"
            images.append(ImportedImage(image_id, path, "", "", "", origin, source_path))
        return images

    def _placed(self, found: FoundImages, path: str) -> str:
        """Where an image lies in the image set."""
        if found.is_remote or "://" in path:
            return path
        return path_in_set(
            found.root, path, self.destination, otherwise="" if found.keeps_paths else f"{IMAGE_FOLDER}/"
        )

    def _labels(
        self, found: FoundImages, images: Sequence[ImportedImage], before: ImageSet | None
    ) -> TextTable | None:
        path = self.settings.labels
        settings = self.settings.label_import
        if not found.images and before is None and self.findings:
            return None  # every label would be one of an unknown image
        if path is None:
            path = found.beside("labels") if found.metadata or "archives" in found.layout else None
            if path is None and (path := self._metadata_with_labels(found)) is None:
                return None
            settings = replace(
                settings, columns={n: t for n, t in settings.columns.items() if n != "image_id" or found.metadata}
            )
        ids = [image.image_id for image in images]
        paths: list[tuple[str, ...]] = [(image.source_path, image.path) for image in images]
        if before is not None:
            new = set(ids)
            for image_id, old in zip(before.images["image_id"], before.images["path"], strict=True):
                if image_id not in new:
                    ids.append(image_id)
                    paths.append((old, old.removeprefix(f"{IMAGE_FOLDER}/")))
        keys = ImageKeys(ids, paths, folder=found.root.name)
        return import_labels(path, settings=settings, image_keys=keys, findings=self.findings, news=self.news)

    def _metadata_with_labels(self, found: FoundImages) -> Path | None:
        """A table of images that also holds labels of attributes."""
        if len(found.metadata) != 1:
            return None
        table = MetadataTable.read(
            found.metadata[0], found.root, self.settings.listing, self.settings.table, Findings()
        )
        if table is None:
            return None
        said = self.settings.label_import
        own = LabelColumnSettings(said.columns, said.attribute, said.annotators, said.adjudicator)
        if not said.columns and table.table.has("label"):
            return None  # of a data set of pictures, a label may be anything
        try:
            columns, _ = find_label_columns(table.table, own)
        except UndecidedImportError:
            return found.metadata[0]
        return found.metadata[0] if columns else None

    def _moved(self, found: FoundImages, images: Sequence[ImportedImage]) -> dict[str, str]:
        """By path in the image set, the file that is not there yet; what may not be brought is reported."""
        moved: dict[str, str] = {}
        for image in images:
            if found.is_remote or "://" in image.path:
                continue
            origin, target = image.origin, image.path
            if ".parquet#" in target or ".tar#" in target:
                origin, target = (parse_reference(each).place for each in (origin, target))
            moved[target] = origin
        for folder in (found.root, *([self.seeds] if self.seeds else [])):
            prefix = f"{folder}/"
            paths = [origin.removeprefix(prefix) for origin in moved.values() if origin.startswith(prefix)]
            check_brought_files(folder, paths, into=self.destination, findings=self.findings)
        check_target_folders(self.destination, list(moved), self.findings)
        return {target: origin for target, origin in moved.items() if origin != f"{self.destination}/{target}"}
