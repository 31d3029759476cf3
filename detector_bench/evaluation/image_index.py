"""An image set as numbers: where each image belongs, what its labels say, and columns of words as codes, so that a
million rows are counted without touching one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.errors import DataError, Problem
from detector_bench.metrics import Scopes
from detector_bench.vocabulary import Attribute

IntArray = NDArray[np.int64]

NULL = -1
"""Code of an empty cell."""

UNKNOWN = -2
"""Code of a word that is not among the known ones."""

_NEITHER = ""
"""Stands in place of both T2I model and prompt of an image that no T2I model made."""


def codes(column: Any, known: Sequence[str]) -> IntArray:
    """Position of each cell's word in `known`; `NULL` where the cell is empty, `UNKNOWN` for any other word.

    Args:
        column: pandas Series, Arrow array or chunked array of strings, dictionary-encoded or not; pd.NA, None and
            NaN are empty.
        known: words without repeats.
    """
    column = _chunked(column)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    encoded = column.unify_dictionaries().combine_chunks()
    words = encoded.dictionary.to_pylist()
    position = {word: index for index, word in enumerate(known)} | {None: NULL}
    # One entry more than there are words: the one that empty cells are sent to.
    lookup = np.array([*(position.get(word, UNKNOWN) for word in words), NULL], dtype=np.int64)
    indices = encoded.indices.cast(pa.int32()).fill_null(len(words))
    found: IntArray = lookup[indices.to_numpy(zero_copy_only=False)]
    return found


def words_in_order(column: Any) -> tuple[str, ...]:
    """The distinct words of a column in the order of their first appearance, empty cells left out."""
    return tuple(word for word in pc.unique(_chunked(column)).to_pylist() if word is not None)


def first_words(column: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Reasons without the detail after the first colon.

    Args:
        column: pandas Series or Arrow column of texts.

    Returns:
        For each row the position of its first word (`NULL` for an empty cell or text), and the first words.
    """
    texts = words_in_order(column)
    words = tuple(dict.fromkeys(text.partition(":")[0].strip() for text in texts if text))
    word_of_text = [words.index(text.partition(":")[0].strip()) if text else NULL for text in texts]
    # One entry more than there are texts: an empty cell has code -1, the last.
    return np.array([*word_of_text, NULL], dtype=np.int64)[codes(column, texts)], words


def _chunked(column: Any) -> pa.ChunkedArray:
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, from_pandas=True)  # chunked already, where pandas keeps an Arrow column
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


class LabelledImages(Protocol):
    """What an evaluation needs of an image set."""

    @property
    def images(self) -> pd.DataFrame:
        """One row per image: image_id (unique), t2i_model, prompt_id; both "" for a photo that was only edited."""

    @property
    def prompts(self) -> pd.DataFrame:
        """One row per prompt: prompt_id (unique), category."""

    @property
    def attributes(self) -> Sequence[str]:
        """Names of the attributes that have human labels."""

    def truth(self, attribute: str) -> pd.DataFrame:
        """One row per image, in the order of `images`: image_id, label (missing where there is none)."""


class AnnotatedImages(LabelledImages, Protocol):
    """An image set with every annotator's labels."""

    @property
    def labels(self) -> pd.DataFrame:
        """One row per image, annotator and attribute: image_id, annotator, attribute, label."""


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An image set's images as numbers, made once for all attributes and detectors."""

    image_ids: pa.ChunkedArray
    cells: IntArray
    """Each image's position in the flattened table `[t2i_model, prompt]`; `NULL` for one without a T2I model."""
    t2i_models: tuple[str, ...]
    """In the order of their first image."""
    prompt_ids: tuple[str, ...]
    """In the order of the prompt table."""
    scopes: Scopes
    """The category of each prompt."""

    @classmethod
    def of(cls, image_set: LabelledImages) -> ImageIndex:
        """Number the T2I models, prompts and images of an image set.

        Raises:
            DataError: an image belongs to no prompt; or to no T2I model, though it has a prompt.
        """
        images, prompts = image_set.images, image_set.prompts
        prompt_ids = tuple(prompts["prompt_id"])
        t2i_models = tuple(name for name in words_in_order(images["t2i_model"]) if name != _NEITHER)
        prompt = codes(images["prompt_id"], (*prompt_ids, _NEITHER))
        t2i_model = codes(images["t2i_model"], (*t2i_models, _NEITHER))
        has_prompt = (prompt >= 0) & (prompt < len(prompt_ids))
        has_model = (t2i_model >= 0) & (t2i_model < len(t2i_models))
        is_seed = (prompt == len(prompt_ids)) & (t2i_model == len(t2i_models))
        astray = np.flatnonzero(~(has_prompt & has_model) & ~is_seed)
        if astray.size:
            image = images.iloc[int(astray[0])]
            message = f"{astray.size:,} images without a known prompt or a T2I model, the first is"
            raise DataError([Problem("images", message, column="image_id", value=str(image["image_id"]))])
        return cls(
            image_ids=_chunked(images["image_id"]),
            cells=np.where(is_seed, NULL, t2i_model * len(prompt_ids) + prompt),
            t2i_models=t2i_models,
            prompt_ids=prompt_ids,
            scopes=Scopes.of_prompts(tuple(prompts["category"])),
        )

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which images a T2I model made; the others, photos that were only edited, are in no count."""
        return np.not_equal(self.cells, NULL)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of T2I models and of prompts."""
        return len(self.t2i_models), len(self.prompt_ids)

    @property
    def places(self) -> tuple[IntArray, IntArray]:
        """The T2I model and the prompt of each image; `NULL` twice for one that no T2I model made."""
        t2i_model, prompt = np.divmod(self.cells, max(len(self.prompt_ids), 1))
        return t2i_model, np.where(self.counted, prompt, NULL)

    def count(self, *axes: tuple[NDArray[Any], int]) -> IntArray:
        """Count images by T2I model, prompt and further codes; images without a T2I model are left out.

        Args:
            axes: for each further axis the code of every image (`NULL` for none), and the number of codes.

        Returns:
            `[t2i_model, prompt, *axes]`; each further axis ends in one more place, for the images without a code.
        """
        combined = self.cells
        for code, length in axes:
            combined = combined * (length + 1) + np.where(code == NULL, length, code)
        shape = (*self.shape, *(length + 1 for _, length in axes))
        counted = self.counted
        combined = combined if counted.all() else combined[counted]
        return np.bincount(combined, minlength=int(np.prod(shape))).reshape(shape)

    def positions(self, image_ids: Any) -> IntArray:
        """Row in the image set of each of these ids; `NULL` for an unknown one."""
        wanted = _chunked(image_ids).cast(self.image_ids.type)
        if wanted.equals(self.image_ids):
            return np.arange(len(wanted))
        found = pc.index_in(wanted, value_set=self.image_ids).fill_null(NULL)
        return np.asarray(found.to_numpy(), dtype=np.int64)


def labelled_attributes(image_set: LabelledImages, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some attributes of which an image that a T2I model made has a human label."""
    made = (image_set.images["t2i_model"] != _NEITHER).to_numpy(dtype=bool)

    def is_labelled(name: str) -> bool:
        return bool(image_set.truth(name)["label"].notna().to_numpy()[made].any())

    return tuple(name for name in names if name in image_set.attributes and is_labelled(name))


def human_label_codes(image_set: LabelledImages, index: ImageIndex, attribute: Attribute) -> IntArray:
    """Position of each image's human label in `attribute.labels`; `NULL` where there is none.

    Images without a T2I model have their labels here, too; where images are counted, leave them out with
    `ImageIndex.counted`.

    Raises:
        DataError: a label that the attribute does not have.
    """
    labels = image_set.truth(attribute.name)
    if not _chunked(labels["image_id"]).cast(index.image_ids.type).equals(index.image_ids):
        raise ValueError("the human labels are not in the order of the images")
    truth = codes(labels["label"], attribute.labels)
    if (unknown := np.flatnonzero(truth == UNKNOWN)).size:
        row = labels.iloc[int(unknown[0])]
        problem = Problem(
            "labels",
            f"image {row['image_id']!r}: unknown {attribute.name} label",
            column="label",
            value=str(row["label"]),
            accepted=", ".join(attribute.labels),
        )
        raise DataError([problem])
    return truth


def annotators_labels(image_set: AnnotatedImages, index: ImageIndex, attribute: Attribute) -> dict[str, IntArray]:
    """Every annotator's label of each image, as people gave them on their own.

    The adjudicator, who has seen the others' labels, is no annotator here.

    Args:
        image_set: images and labels.
        index: of the image set.
        attribute: which one.

    Returns:
        By annotator, in alphabetical order: the position of each image's label in `attribute.labels`, in the order
        of the images, seeds included; `NULL` where there is none.
    """
    labels = image_set.labels
    labels = labels[(labels["attribute"] == attribute.name) & (labels["annotator"] != ADJUDICATOR)]
    names = sorted(labels["annotator"].unique())
    given = np.full((len(names), len(index.cells)), NULL, dtype=np.int64)
    place = codes(labels["annotator"], names), index.positions(labels["image_id"])
    given[place] = codes(labels["label"], attribute.labels)
    return dict(zip(names, given, strict=True))
