"""An image set: images by T2I models, the prompts behind them, and what people said about them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.consensus import agreed_values, as_numbers, label_table
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.prompts import stated_by, weights_of
from detector_bench.dataset.table_reading import read_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.dataset.validation import Tables, check_image_files, validate
from detector_bench.errors import ConfigError, Problem
from detector_bench.vocabulary import ATTRIBUTES, Attribute, attribute_named, attributes_of
from detector_bench.vocabulary.columns import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    PROMPT_COLUMNS,
    STATED_PREFIX,
    VALUE_COLUMN,
    WEIGHT_COLUMN,
    optional_prompt_columns,
)

if TYPE_CHECKING:
    from detector_bench.dataset.image_sources import ImagePlace, ImageSources

REASON_COLUMN = "reason"


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
    """

    root: Path
    images: pd.DataFrame
    prompts: pd.DataFrame
    labels: pd.DataFrame
    _image_of_label: NDArray[np.int64] | None = field(default=None, repr=False)

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
        image_of_label = validate(tables, findings, require_labels=require_labels)
        if check_files and tables.images is not None and tables.images.has("path"):
            check_image_files(tables.images, root, findings)
        findings.raise_if_any()
        return cls.from_tables(root, tables, image_of_label)

    @classmethod
    def from_tables(cls, root: Path, tables: Tables, image_of_label: NDArray[np.int64] | None) -> ImageSet:
        """Make an image set of tables in which `validate` found no mistake."""
        assert tables.images is not None  # noqa: S101 - a missing table is a mistake
        assert tables.prompts is not None  # noqa: S101
        image_columns = [*IMAGE_COLUMNS, *([SEED_COLUMN] if tables.images.has(SEED_COLUMN) else [])]
        prompt_columns = [*PROMPT_COLUMNS, *filter(tables.prompts.has, optional_prompt_columns(tables.attributes))]
        return cls(
            root=root,
            images=_frame(tables.images, image_columns),
            prompts=_frame(tables.prompts, prompt_columns),
            labels=_frame(tables.labels, (*LABEL_COLUMNS, VALUE_COLUMN)),
            _image_of_label=image_of_label,
        )

    @property
    def name(self) -> str:
        """What messages and reports call the image set: the name of its folder."""
        return self.root.name

    def _repr_html_(self) -> str:
        """Images by T2I model, and those with a human label of each attribute."""
        shown = pd.DataFrame({"images": self.images["t2i_model"].value_counts(sort=False)})
        for name in self.attributes:
            labelled = self.images["t2i_model"][self.truth(name)["label"].notna().to_numpy()]
            shown[f"labelled: {name}"] = labelled.value_counts().reindex(shown.index).fillna(0).astype(int)
        shown.index.name = "T2I model"
        return f"<p>Image set {escape(self.name)}: {len(self.prompts):,} prompts</p>{shown.to_html()}"

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that have at least one label, in the vocabulary's order."""
        labelled = set(self.labels["attribute"].unique())
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
        selected = (self.labels["attribute"] == attribute).to_numpy(dtype=bool)
        columns = ["annotator", "label", "reason"]
        group, rows = self._label_images, self.labels[columns]
        if not selected.all():
            group, rows = group[selected], rows[selected]
        decided = label_table(rows, group=group, n_groups=len(self.images))
        decided.insert(0, "image_id", self.images["image_id"].array)
        return decided

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
        values = np.full(len(self.images), np.nan)
        if self._has_values:
            selected = (self.labels["attribute"] == attribute) & (self.labels[VALUE_COLUMN] != "")
            group = self._label_images[selected.to_numpy(dtype=bool)]
            consensus = self.truth(attribute)["label"]
            values = agreed_values(self.labels[selected], group=group, consensus=consensus)
        return pd.DataFrame({"image_id": self.images["image_id"].array, "value": values})

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
        """Where the image file of a cell of `images.path` lies, if it is one below the folder; see `sources`."""
        return self.root / path

    def image_place(self, path: str) -> ImagePlace:
        """Where the image of a cell of `images.path` lies, for whoever reads it."""
        if "#" not in path and "://" not in path:
            return self.root / path
        from detector_bench.dataset.image_paths import is_file_below
        from detector_bench.dataset.image_sources import DistantImage  # decoders take a while to import

        return self.root / path if is_file_below(path) else DistantImage(self.sources, path)

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
        optional = self.prompts.columns.drop(list(PROMPT_COLUMNS), errors="ignore")
        prompts = self.prompts.drop(columns=[name for name in optional if not any(self.prompts[name])])
        for name, table in (("images", self.images), ("prompts", prompts), ("labels", self.labels)):
            digest.update(f"{name} {len(table)}\n".encode())
            for column in table.columns.drop([VALUE_COLUMN, WEIGHT_COLUMN], errors="ignore"):
                digest.update(f"{column}\n".encode())
                # Lengths and text without separators: no cell can be mistaken for two.
                cells = pa.chunked_array(pa.array(table[column], pa.large_string()))
                digest.update(pc.binary_length(cells).to_numpy().astype("<i8").tobytes())
                for chunk in cells.chunks:
                    digest.update(_text_bytes(chunk))
        if self._has_values:
            digest.update(_number_bytes(self.labels, VALUE_COLUMN))
        if WEIGHT_COLUMN in prompts:
            digest.update(_number_bytes(prompts, WEIGHT_COLUMN))
        return digest.hexdigest()

    @cached_property
    def _has_values(self) -> bool:
        return VALUE_COLUMN in self.labels and bool((self.labels[VALUE_COLUMN] != "").any())

    @cached_property
    def _label_images(self) -> NDArray[np.int64]:
        if self._image_of_label is not None:
            return self._image_of_label
        images = pd.Index(self.images["image_id"])
        found: NDArray[np.intp] = images.get_indexer(pd.Index(self.labels["image_id"]))
        return found.astype(np.int64)


def read_tables(root: Path, findings: Findings, *, require_labels: bool) -> Tables:
    """Read an image set's three tables; what cannot be read is added to `findings`."""
    if not root.is_dir():
        message = "it is not a folder" if root.exists() else "no such folder"
        findings.add(Problem(str(root), message, accepted="a folder with images.csv, prompts.csv, labels.csv"))
        return Tables(None, None, None)
    attributes = _attributes(root, findings)
    required_label_columns = tuple(name for name in LABEL_COLUMNS if name != REASON_COLUMN)
    images = read_table(root, "images", required=IMAGE_COLUMNS, optional=(SEED_COLUMN,), findings=findings)
    prompts = read_table(
        root,
        "prompts",
        required=PROMPT_COLUMNS,
        optional=optional_prompt_columns(attributes),
        numbers=(WEIGHT_COLUMN,),
        closed_prefix=STATED_PREFIX,
        findings=findings,
    )
    labels = read_table(
        root,
        "labels",
        required=required_label_columns,
        optional=(REASON_COLUMN, VALUE_COLUMN),
        numbers=(VALUE_COLUMN,),
        findings=findings,
        may_be_missing=not require_labels,
    )
    return Tables(images, prompts, labels, attributes)


def _attributes(root: Path, findings: Findings) -> dict[str, Attribute]:
    own: dict[str, Attribute] = {}
    try:
        own = attributes_of(root)
    except ConfigError as error:
        for line in str(error).splitlines():
            file, _, message = line.removeprefix(f"{root}{os.sep}").partition(": ")
            findings.add(Problem(file, message))
    return ATTRIBUTES.only_built_in() | own


def _frame(table: TextTable | None, columns: list[str] | tuple[str, ...]) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame({name: pd.array([], dtype="str") for name in columns})
    present = [name for name in columns if table.has(name)]
    frame: pd.DataFrame = table.data.select(present).to_pandas()
    for position, name in enumerate(columns):
        if name not in present:
            frame.insert(position, name, pd.Series("", index=frame.index, dtype="str"))
    return frame


def _number_bytes(table: pd.DataFrame, column: str) -> bytes:
    numbers = as_numbers(pa.chunked_array(pa.array(table[column], pa.large_string())))
    return f"{column}\n".encode() + numbers.astype("<f8").tobytes()


def _text_bytes(cells: Any) -> memoryview:
    _, offset_buffer, text_buffer = cells.buffers()
    if len(cells) == 0 or text_buffer is None:
        return memoryview(b"")
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    return memoryview(text_buffer)[int(offsets[cells.offset]) : int(offsets[cells.offset + len(cells)])]
