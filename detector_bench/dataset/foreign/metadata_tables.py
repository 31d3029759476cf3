"""Tables that tell of image files: Hugging Face's `metadata.csv`, what scripts write, and the like."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detector_bench.dataset.foreign.column_meanings import column_for, columns_for
from detector_bench.dataset.foreign.table_files import read_foreign_table
from detector_bench.dataset.foreign.table_form import FORMATS, TableForm, TableOptions
from detector_bench.dataset.image_listing import (
    COLUMNS,
    IMAGE_ID,
    ListedImage,
    ListingSettings,
    listed_image,
    plain_cell,
)
from detector_bench.dataset.import_decisions import ImportNews
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem

METADATA = "metadata"
"""What such a file is called, without its suffix."""

_LOOKED_AT = 100


def metadata_tables(root: Path) -> list[Path]:
    """The tables of metadata in a folder, or in the folders below it, as Hugging Face's ImageFolder has them."""
    names = [METADATA + suffix for suffix in FORMATS]
    here = [root / name for name in names if (root / name).is_file()]
    if here:
        return here[:1]
    below = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [
        found[0] for folder in below if (found := [folder / name for name in names if (folder / name).is_file()])
    ]


@dataclass(frozen=True)
class MetadataTable:
    """A table with a row for each image.

    Attributes:
        table: its cells.
        form: how it is written.
        columns: our column to theirs, of those that are there.
        prefix: what stands before its paths to make them relative to the source.
        root: the source.
        settings: what is said about it.
    """

    table: TextTable
    form: TableForm
    columns: dict[str, str]
    prefix: str
    root: Path
    settings: ListingSettings

    @classmethod
    def read(
        cls, path: Path, root: Path, settings: ListingSettings, options: TableOptions, findings: Findings
    ) -> MetadataTable | None:
        """Read one; None: it cannot be read, or names no files (then `findings` says why).

        Args:
            path: the table. Its paths are relative to the folder that it lies in or, if it lies outside the
                source, to the source.
            root: the source.
            settings: what is said about its columns.
            options: how it is written.
            findings: takes mistakes.
        """
        table, form = read_foreign_table(path, findings, options)
        if table is None or form is None:
            return None
        is_inside = path.parent.is_relative_to(root)
        prefix = path.parent.relative_to(root).as_posix() + "/" if is_inside and path.parent != root else ""
        columns = {
            ours: theirs
            for ours in (*COLUMNS[1:], IMAGE_ID)
            if (theirs := column_for(ours, table.columns, settings.columns)) is not None
        }
        if columns.get(IMAGE_ID) != IMAGE_ID and IMAGE_ID not in settings.columns:
            columns.pop(IMAGE_ID, None)  # other names of it are those of files
        path_column = _path_column(table, root / prefix, settings)
        missing = [name for name in [path_column or "file_name", *columns.values()] if not table.has(name)]
        for name in missing:
            header = ", ".join(table.columns)
            message = "no such column to read the images' files from" if name == path_column else "no such column"
            accepted = f"{header}; --column path=THEIRS names the one with the files"
            findings.add(Problem(table.file, message, 1, name, accepted=accepted))
        if missing or path_column is None:
            return None
        return cls(table, form, {"path": path_column, **columns}, prefix, root, settings)

    def __len__(self) -> int:
        return len(self.table)

    def images(self, findings: Findings, news: ImportNews) -> list[ListedImage]:
        """An image for each file; rows without a file, T2I model or prompt are reported.

        A file may have several rows that say the same of it: of a long table of labels, one for each annotator.
        """
        cells = {
            ours: [plain_cell(ours, cell) for cell in self.table.column(theirs).to_pylist()]
            for ours, theirs in self.columns.items()
        }
        found: dict[str, ListedImage] = {}
        firsts: dict[str, int] = {}
        # A table that says neither leaves both to the folders.
        said = {"t2i_model", "prompt", "prompt_id", "word"} & self.columns.keys()
        is_tree = not said and not self.settings.t2i_model
        differing = []
        for number, row in enumerate(zip(*cells.values(), strict=True)):
            own = dict(zip(cells, row, strict=True))
            path = self._path(own.pop("path"))
            if is_tree and path.count("/") == 2:
                own["t2i_model"], own["prompt_id"], _ = path.split("/")
            image = listed_image(path.rpartition("/")[2], path, own, self.settings)
            if found.setdefault(path, image) != image:
                differing.append(number)
            firsts.setdefault(path, number)
        findings.add_rows(
            self.table,
            self.columns["path"],
            np.array(differing, np.intp),
            message="image of which an earlier row says something else",
            accepted=lambda index: f"what row {self.table.row(firsts[self._path(self._file(index))])} says",
        )
        if len(found) < len(self.table):
            news.notes.append(f"{self.table.file}: {len(self.table):,} rows are about {len(found):,} images")
        self._report([*found.values()], [*firsts.values()], findings, news)
        return [*found.values()]

    def _file(self, index: int) -> str:
        return plain_cell("path", self.table.cell(self.columns["path"], index))

    def _path(self, cell: str) -> str:
        """A cell as a path below the source."""
        if "://" in cell or not cell:
            return cell
        path = os.path.normpath(cell.replace("\\", "/"))
        own = f"{self.root}{os.sep}"
        return path.removeprefix(own) if path.startswith(own) else f"{self.prefix}{path}"

    def _report(
        self, found: Sequence[ListedImage], rows: Sequence[int], findings: Findings, news: ImportNews
    ) -> None:
        table = self.table
        files = [index for index, image in zip(rows, found, strict=True) if not image.path]
        findings.add_rows(
            table, self.columns["path"], np.array(files, np.intp), message="empty cell", accepted="a file"
        )
        has_seeds = any(image.seed_image_id for image in found)
        for ours, remedy in (("t2i_model", "--t2i-model NAME"), ("prompt", "--column word=THEIRS")):
            lacking = [
                index
                for index, image in zip(rows, found, strict=True)
                if not getattr(image.tree, ours) and not (has_seeds and not image.seed_image_id)
            ]
            if not lacking:
                continue
            noun = "T2I model" if ours == "t2i_model" else "prompt"
            accepted = f"--column {ours}=THEIRS, or {remedy}; its columns are {', '.join(table.columns)}"
            message = f"{len(lacking):,} images without a {noun}"
            findings.add(Problem(table.file, message, self.table.row(lacking[0]), accepted=accepted))
            if ours == "t2i_model":
                news.remedy("--t2i-model", self.root.name)


def _path_column(table: TextTable, folder: Path, settings: ListingSettings) -> str | None:
    """The column that names files: of those with a usual name the one whose files are there."""
    candidates = [name for name in columns_for("path", table.columns, settings.columns) if table.has(name)]
    if "path" in settings.columns:
        return settings.columns["path"]
    if len(candidates) < 2:
        return next(iter(candidates), None)

    def there(column: str) -> int:
        cells = table.column(column).slice(0, _LOOKED_AT).to_pylist()
        return sum("\0" not in cell and cell != "" and (folder / cell).is_file() for cell in cells)

    return max(candidates, key=there)
