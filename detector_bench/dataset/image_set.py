"""An image set: images by T2I models, the prompts behind them, and what people said about them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.agreed_labels import AgreedLabels
from detector_bench.dataset.consensus import as_numbers
from detector_bench.dataset.image_ids import ImageIds, one_array
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_references import SEED_COLUMN, ImageCodes
from detector_bench.dataset.image_set_tables import Tables, read_tables
from detector_bench.dataset.prompts import stated_by, weights_of
from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.dataset.validation import check_image_files, validate
from detector_bench.errors import ConfigError
from detector_bench.vocabulary import ATTRIBUTES, Attribute, attribute_named
from detector_bench.vocabulary.columns import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    PROMPT_COLUMNS,
    VALUE_COLUMN,
    WEIGHT_COLUMN,
    optional_prompt_columns,
)

if TYPE_CHECKING:
    from detector_bench.dataset.image_sources import ImagePlace, ImageSources

_PIECE = 1 << 20
"""Rows of a table that are looked at together as whole texts."""

_MOST_KEPT = 1_000_000
"""Rows of a frame that is kept once somebody has asked for it."""


class _ShownAsFrame:
    """A table of an image set, which is kept as compact cells until somebody asks for it as a pandas frame."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, image_set: ImageSet | None, owner: type | None = None) -> pd.DataFrame:
        if image_set is None:
            raise AttributeError(self._name)  # so that the field has no default
        kept = image_set.__dict__[self._name]
        if isinstance(kept, pd.DataFrame):
            return kept
        if len(kept) > _MOST_KEPT:
            return image_set._frame(self._name)
        if self._name not in image_set._frames:
            image_set._frames[self._name] = image_set._frame(self._name)
        return image_set._frames[self._name]

    def __set__(self, image_set: ImageSet, table: TextTable | pd.DataFrame) -> None:
        image_set.__dict__[self._name] = table


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A folder of images with their prompts and human labels, checked; every cell is text.

    All images may have labels, some, or none.

    Attributes:
        root: the folder, with links resolved; image paths are relative to it. Its `attributes/*.yaml` say what its
            labels may be about besides the built-in attributes.
        images: one row per image, in file order: `image_id, path, t2i_model, prompt_id`, and `seed_image_id`
            if the file has it. A photo that was only edited has "" as `t2i_model`, `prompt_id` and
            `seed_image_id`.
        prompts: one row per prompt: `prompt_id, category, word, prompt`, and of `optional_prompt_columns` those
            that the file has, with "" where a cell is empty; see `stated` and `prompt_weights`.
        labels: one row per image, annotator and attribute: `image_id, annotator, attribute, label, reason,
            value`, with "" where a cell is empty.

    The frames of many millions of images take gigabytes, so that they are made anew each time they are asked for;
    `table` gives the same in a part of that.
    """

    root: Path
    images: _ShownAsFrame = _ShownAsFrame()
    prompts: _ShownAsFrame = _ShownAsFrame()
    labels: _ShownAsFrame = _ShownAsFrame()
    _image_of_label: NDArray[np.integer[Any]] | None = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: Path | str, *, require_labels: bool = False, check_files: bool = False) -> ImageSet:
        """Read and check a folder with `images`, `prompts` and `labels`, each a `.csv` or `.parquet` file.

        Args:
            folder: the image set.
            require_labels: whether every image must have a label; if not, the labels file may also be missing.
            check_files: whether to look for every image file too (it is not decoded).

        Raises:
            DataError: with all mistakes in all files at once.
        """
        findings = Findings()
        root = Path(folder).resolve()
        tables = read_tables(root, findings, require_labels=require_labels)
        codes = validate(tables, findings, require_labels=require_labels)
        if check_files and tables.images is not None and tables.images.has("path"):
            check_image_files(tables.images, root, findings)
        findings.raise_if_any()
        return cls.from_tables(root, tables, codes)

    @classmethod
    def from_tables(cls, root: Path, tables: Tables, codes: ImageCodes | None) -> ImageSet:
        """Make an image set of tables in which `validate` found no mistake.

        Args:
            root: the folder, with links resolved.
            tables: its tables.
            codes: what `validate` gave.
        """
        assert tables.images is not None  # noqa: S101 - a missing table is a mistake
        assert tables.prompts is not None  # noqa: S101
        image_columns = [*IMAGE_COLUMNS, *filter(tables.images.has, [SEED_COLUMN])]
        prompt_columns = [*PROMPT_COLUMNS, *filter(tables.prompts.has, optional_prompt_columns(tables.attributes))]
        label_columns = [*LABEL_COLUMNS, VALUE_COLUMN]
        labels = tables.labels or TextTable("labels", text_columns({name: [] for name in label_columns}))
        image_of_label = None
        if codes is not None and codes.labels is not None:
            image_of_label = codes.labels.astype(np.int32, copy=False)
            labels = labels.without("image_id")  # the images have them
        made = cls(
            root=root,
            images=tables.images.select(image_columns),
            prompts=tables.prompts.select(prompt_columns),
            labels=labels.select(name for name in label_columns if labels.has(name)),
            _image_of_label=image_of_label,
        )
        if codes is not None and codes.ids is not None:
            made.__dict__["image_ids"] = codes.ids
        return made

    def table(self, name: Literal["images", "prompts", "labels"]) -> TextTable:
        """One of the three tables as compact cells.

        Labels may lack `image_id`, which `image_of_label` says, and columns without any text.
        """
        kept = self.__dict__[name]
        if isinstance(kept, TextTable):
            return kept
        if name not in self._tables:
            columns = {column: one_array(kept[column]).fill_null("") for column in kept.columns}
            self._tables[name] = TextTable(name, pa.table(columns))
        return self._tables[name]

    @cached_property
    def image_ids(self) -> ImageIds:
        """The ids of the images, in their order."""
        return ImageIds(self.table("images").column("image_id"))

    @cached_property
    def image_of_label(self) -> NDArray[np.integer[Any]]:
        """For each row of the labels, the index of its image."""
        if self._image_of_label is not None:
            return self._image_of_label
        return self.image_ids.positions(self.table("labels").column("image_id")).astype(np.int32)

    @property
    def name(self) -> str:
        """What messages and reports call the image set: the name of its folder."""
        return self.root.name

    def _repr_html_(self) -> str:
        return f"<p>Image set {escape(self.name)}: {len(self.prompts):,} prompts</p>{self._in_short().to_html()}"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 (as IPython calls it)
        printer.text(f"Image set {self.name}: {len(self.prompts):,} prompts\n{self._in_short().to_string()}")

    def _in_short(self) -> pd.DataFrame:
        """Images by T2I model, and those with a human label of each attribute."""
        shown = pd.DataFrame({"images": self.images["t2i_model"].value_counts(sort=False)})
        for name in self.attributes:
            labelled = self.images["t2i_model"][self.truth(name)["label"].notna().to_numpy()]
            shown[f"labelled: {name}"] = labelled.value_counts().reindex(shown.index).fillna(0).astype(int)
        shown.index.name = "T2I model"
        return shown

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that have at least one label, in the vocabulary's order."""
        labelled = set(self.table("labels").encoded("attribute").texts)
        return tuple(name for name in ATTRIBUTES if name in labelled)

    def truth(self, attribute: str) -> pd.DataFrame:
        """The annotators' consensus on an attribute (see `consensus`), one row per image, seeds included.

        Returns:
            Columns `image_id, label, reason` in the order of `images`; `label` is missing where nobody labelled
            this attribute of the image, `reason` is "" where there is none.

        Raises:
            ConfigError: no such attribute in the vocabulary.
        """
        attribute_named(attribute)
        decided = self._agreed.in_words(attribute)
        decided.insert(0, "image_id", pd.array(self.image_ids.texts, dtype="str"))
        return decided

    def label_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """The annotators' consensus as numbers: `[image]`, the position in `attribute.labels`; -1 where nobody
        labelled this attribute of the image, -2 for a label that the attribute does not have."""
        return self._agreed.codes(attribute)

    def measured(self, attribute: str) -> pd.DataFrame:
        """The number that the annotators gave, one row per image: an age in years, a skin tone's grey value.

        The adjudicator's value if there is one; otherwise the mean over the annotators who gave the consensus as
        label, and a value. Values of overruled labels do not count.

        Returns:
            Columns `image_id, value` in the order of `images`; `value` is in the attribute's unit (see
            `vocabulary.Attribute`), and NaN where the consensus is no class or nobody gave a value.

        Raises:
            ConfigError: no such attribute in the vocabulary, or one that has no measured values.
        """
        if attribute_named(attribute).unit is None:
            accepted = ", ".join(name for name, known in ATTRIBUTES.items() if known.unit is not None)
            raise ConfigError(f"{attribute!r} has no measured values (accepted: {accepted})")
        nobody = np.full(len(self.image_ids), np.nan)
        values = self._agreed.values(attribute) if self._has_values else nobody
        return pd.DataFrame({"image_id": pd.array(self.image_ids.texts, dtype="str"), "value": values})

    def stated(self, attribute: str) -> pd.Series[str] | None:
        """What each prompt states of an attribute (see `prompts.stated_by`); None: nothing is known.

        Raises:
            ConfigError: no such attribute in the vocabulary.
        """
        return stated_by(self.prompts, attribute)

    @cached_property
    def prompt_weights(self) -> pd.Series[float] | None:
        """What each prompt counts for, by id, from its base prompt where it has no weight; None: none has one."""
        return weights_of(self.prompts)

    def image_path(self, path: str) -> Path:
        """Where the image file of a cell of `images.path` would lie; what may be read, `image_place` knows."""
        return self.root / path

    def image_place(self, path: str) -> ImagePlace:
        """Where the image of a cell of `images.path` lies, for whoever reads it."""
        if "#" not in path and "://" not in path:
            return self._local_image(path)
        from detector_bench.dataset.image_sources import DistantImage  # decoders take a while to import

        return self._local_image(path) if is_file_below(path) else DistantImage(self.sources, path)

    @cached_property
    def _local_image(self) -> Callable[[str], ImagePlace]:
        from detector_bench.dataset.image_sources import LocalImage  # decoders take a while to import

        return partial(LocalImage, self.sources.local)

    @cached_property
    def sources(self) -> ImageSources:
        """Reads what cells of `images.path` name, wherever it lies."""
        from detector_bench.dataset.image_sources import ImageSources  # decoders take a while to import

        return ImageSources(self.root)

    def fingerprint(self) -> str:
        """The sha256 of the three tables' content, in hexadecimal; the file format has no influence on it.

        Values and weights count as numbers, and an optional column whose cells are all empty as none.
        """
        digest = hashlib.sha256()
        images, prompts, labels = self.table("images"), self.table("prompts"), self.table("labels")
        optional = set(prompts.columns) - set(PROMPT_COLUMNS)
        empty = {name for name in optional if not any(prompts.encoded(name).texts)}
        label_columns = labels.columns
        if isinstance(self.__dict__["labels"], TextTable):
            label_columns = [*LABEL_COLUMNS]
        named = (
            ("images", images, images.columns),
            ("prompts", prompts, [name for name in prompts.columns if name not in empty]),
            ("labels", labels, label_columns),
        )
        for name, table, columns in named:
            digest.update(f"{name} {len(table)}\n".encode())
            for column in columns:
                if column in (VALUE_COLUMN, WEIGHT_COLUMN):
                    continue
                digest.update(f"{column}\n".encode())
                # Lengths and text without separators: no cell can be mistaken for two.
                for cells in self._cells(table, column):
                    digest.update(pc.binary_length(cells).to_numpy().astype("<i8").tobytes())
                for cells in self._cells(table, column):
                    digest.update(_text_bytes(cells))
        if self._has_values:
            digest.update(_number_bytes(labels, VALUE_COLUMN))
        if prompts.has(WEIGHT_COLUMN) and WEIGHT_COLUMN not in empty:
            digest.update(_number_bytes(prompts, WEIGHT_COLUMN))
        return digest.hexdigest()

    @cached_property
    def _frames(self) -> dict[str, pd.DataFrame]:
        return {}

    @cached_property
    def _tables(self) -> dict[str, TextTable]:
        return {}

    @cached_property
    def _has_values(self) -> bool:
        labels = self.table("labels")
        return labels.has(VALUE_COLUMN) and bool(pc.any(pc.not_equal(labels.texts(VALUE_COLUMN), "")).as_py())

    @property
    def _agreed(self) -> AgreedLabels:
        return AgreedLabels(self.table("labels"), self.image_of_label, n_images=len(self.image_ids))

    def _cells(self, table: TextTable, column: str) -> Iterator[Any]:
        """A column as it would stand in a frame, piece by piece."""
        for begin in range(0, len(table), _PIECE):
            if table.has(column):
                yield from table.data.column(column).slice(begin, _PIECE).cast(pa.large_string()).chunks
            elif column == "image_id":
                yield self.image_ids.texts.take(pa.array(self.image_of_label[begin : begin + _PIECE]))
            else:
                yield pa.repeat(pa.scalar("", pa.large_string()), min(_PIECE, len(table) - begin))

    def _frame(self, name: str) -> pd.DataFrame:
        table: TextTable = self.__dict__[name]
        columns = [*LABEL_COLUMNS, VALUE_COLUMN] if name == "labels" else table.columns
        kind = pa.large_string()
        cells = {column: pa.chunked_array(list(self._cells(table, column)), kind) for column in columns}
        frame: pd.DataFrame = pa.table(cells).to_pandas()
        return frame


def _number_bytes(table: TextTable, column: str) -> bytes:
    return f"{column}\n".encode() + as_numbers(table.column(column)).astype("<f8").tobytes()


def _text_bytes(cells: Any) -> memoryview:
    _, offset_buffer, text_buffer = cells.buffers()
    if len(cells) == 0 or text_buffer is None:
        return memoryview(b"")
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    return memoryview(text_buffer)[int(offsets[cells.offset]) : int(offsets[cells.offset + len(cells)])]
