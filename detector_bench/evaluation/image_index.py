"""An image set as numbers: where each image belongs, what its labels say, and columns of words as codes, so that a
million rows are counted without touching one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.image_ids import ImageIds, one_array
from detector_bench.errors import DataError, Problem
from detector_bench.metrics import Scopes
from detector_bench.vocabulary import Attribute, attribute_named

IntArray = NDArray[np.int64]

NULL = -1
"""Code of an empty cell."""

UNKNOWN = -2
"""Code of a word that is not among the known ones."""

_NEITHER = ""
"""Stands in place of both T2I model and prompt of an image that no T2I model made."""

_COUNTED_TOGETHER = 1 << 20
"""Images; a count array with more numbers than that takes as many images at a time."""

_MOST_SMALL_CELLS = 1 << 23
"""Pairs of T2I model and prompt that are numbered in four bytes."""


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


@runtime_checkable
class CodedLabels(Protocol):
    """An image set that has its labels as numbers already."""

    def label_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """`[image]`: position of the human label in `attribute.labels`; `NULL` for none, `UNKNOWN` for one that
        the attribute does not have."""


@runtime_checkable
class IndexedImages(Protocol):
    """An image set whose images are numbered already, or predictions about one."""

    @property
    def index(self) -> ImageIndex:
        """Of all images."""


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An image set's images as numbers, made once for all attributes and detectors."""

    ids: ImageIds
    cells: NDArray[np.integer[Any]]
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
        if isinstance(image_set, IndexedImages):
            return image_set.index
        prompts = image_set.prompts
        prompt_ids = tuple(prompts["prompt_id"])
        t2i_models, t2i_model = _made_by(image_set)
        prompt = _prompt_codes(image_set, (*prompt_ids, _NEITHER))
        has_prompt = (prompt >= 0) & (prompt < len(prompt_ids))
        has_model = (t2i_model >= 0) & (t2i_model < len(t2i_models))
        is_seed = (prompt == len(prompt_ids)) & (t2i_model == len(t2i_models))
        ids = image_set.image_ids if isinstance(image_set, ImageSet) else ImageIds(image_set.images["image_id"])
        astray = np.flatnonzero(~(has_prompt & has_model) & ~is_seed)
        if astray.size:
            message = f"{astray.size:,} images without a known prompt or a T2I model, the first is"
            first = ids.texts[int(astray[0])].as_py()
            raise DataError([Problem("images", message, column="image_id", value=first)])
        cells = t2i_model.astype(_cell_type(len(t2i_models) * len(prompt_ids)))
        cells *= len(prompt_ids)
        cells += prompt.astype(cells.dtype)
        cells[is_seed] = NULL
        return cls(
            ids=ids,
            cells=cells,
            t2i_models=t2i_models,
            prompt_ids=prompt_ids,
            scopes=Scopes.of_prompts(tuple(prompts["category"])),
        )

    @classmethod
    def shared(cls, image_set: LabelledImages, predictions: object) -> ImageIndex:
        """The index that the predictions were read with, if that was for this image set; otherwise its own."""
        known = predictions.index if isinstance(predictions, IndexedImages) else None
        if known is not None and isinstance(image_set, ImageSet) and image_set.image_ids is known.ids:
            return known
        return cls.of(image_set)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which images a T2I model made; the others, photos that were only edited, are in no count."""
        made: NDArray[np.bool_] = np.not_equal(self.cells, NULL)
        return made

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
        shape = (*self.shape, *(length + 1 for _, length in axes))
        size = int(np.prod(shape))
        counts = np.zeros(size, dtype=np.int64)
        # Piece by piece: the numbers that are counted take eight bytes, what they are made of one or four.
        for begin in range(0, len(self.cells), step := max(_COUNTED_TOGETHER, size)):
            part = slice(begin, begin + step)
            combined = self.cells[part].astype(np.int64)
            for code, length in axes:
                combined *= length + 1
                combined += np.where(code[part] == NULL, length, code[part])
            counted = self.cells[part] != NULL
            counts += np.bincount(combined if counted.all() else combined[counted], minlength=size)
        return counts.reshape(shape)

    def positions(self, image_ids: Any) -> IntArray:
        """Row in the image set of each of these ids; `NULL` for an unknown one."""
        return self.ids.positions(image_ids)


def _cell_type(cells: int) -> type[np.signedinteger[Any]]:
    """Cells are multiplied by numbers of labels and verdicts: four bytes hold that of all but huge sets."""
    return np.int32 if cells < _MOST_SMALL_CELLS else np.int64


def _made_by(image_set: LabelledImages) -> tuple[tuple[str, ...], NDArray[np.integer[Any]]]:
    """The T2I models in the order of their first image, and each image's position among them; one more for "", -1
    for an empty cell."""
    if isinstance(image_set, ImageSet):
        encoded = image_set.table("images").encoded("t2i_model")
        names = tuple(name for name in encoded.texts if name != _NEITHER)
        return names, _positions_in((*names, _NEITHER), encoded.texts)[encoded.codes]
    column = image_set.images["t2i_model"]
    names = tuple(name for name in words_in_order(column) if name != _NEITHER)
    return names, codes(column, (*names, _NEITHER))


def _prompt_codes(image_set: LabelledImages, known: Sequence[str]) -> NDArray[np.integer[Any]]:
    if isinstance(image_set, ImageSet):
        encoded = image_set.table("images").encoded("prompt_id")
        found: NDArray[np.integer[Any]] = _positions_in(known, encoded.texts)[encoded.codes]
        return found
    return codes(image_set.images["prompt_id"], known)


def _positions_in(known: Sequence[str], texts: Sequence[str]) -> NDArray[np.int32]:
    position = {text: number for number, text in enumerate(known)}
    return np.array([position.get(text, UNKNOWN) for text in texts], dtype=np.int32)


def labelled_attributes(image_set: LabelledImages, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some attributes of which an image that a T2I model made has a human label."""
    index = ImageIndex.of(image_set)

    def is_labelled(name: str) -> bool:
        return bool((human_label_codes(image_set, index, attribute_named(name))[index.counted] != NULL).any())

    return tuple(name for name in names if name in image_set.attributes and is_labelled(name))


def human_label_codes(image_set: LabelledImages, index: ImageIndex, attribute: Attribute) -> NDArray[np.int8]:
    """Position of each image's human label in `attribute.labels`; `NULL` where there is none.

    Images without a T2I model have their labels here, too; where images are counted, leave them out with
    `ImageIndex.counted`.

    Raises:
        DataError: a label that the attribute does not have.
    """
    if isinstance(image_set, CodedLabels):
        truth = image_set.label_codes(attribute)
    else:
        labels = image_set.truth(attribute.name)
        if not one_array(labels["image_id"]).equals(index.ids.texts):
            raise ValueError("the human labels are not in the order of the images")
        truth = codes(labels["label"], attribute.labels).astype(np.int8)
    if (unknown := np.flatnonzero(truth == UNKNOWN)).size:
        row = image_set.truth(attribute.name).iloc[int(unknown[0])]
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
    names = [name for name in sorted(annotators(image_set)) if name != ADJUDICATOR]
    if isinstance(image_set, ImageSet):
        table = image_set.table("labels")
        by, about, said = (table.encoded(name) for name in ("annotator", "attribute", "label"))
        annotator = _positions_in(names, by.texts)[by.codes]
        rows = (annotator != UNKNOWN) & about.is_text(attribute.name)
        annotator, image = annotator[rows], image_set.image_of_label[rows]
        label = _positions_in(attribute.labels, said.texts)[said.codes[rows]]
    else:
        labels = image_set.labels
        labels = labels[(labels["attribute"] == attribute.name) & (labels["annotator"] != ADJUDICATOR)]
        annotator, image = codes(labels["annotator"], names), index.positions(labels["image_id"])
        label = codes(labels["label"], attribute.labels)
    given = np.full((len(names), len(index.cells)), NULL, dtype=np.int64)
    given[annotator, image] = label
    has_any = (given != NULL).any(axis=1)
    return {name: labels for name, labels, any_ in zip(names, given, has_any, strict=True) if any_}


def annotators(image_set: AnnotatedImages) -> Sequence[str]:
    """Who labelled any image, the adjudicator included, each once."""
    if isinstance(image_set, ImageSet):
        return image_set.table("labels").encoded("annotator").texts
    return words_in_order(image_set.labels["annotator"])


def number_of_annotators(
    image_set: AnnotatedImages, index: ImageIndex, attribute: Attribute, images: NDArray[np.bool_]
) -> int:
    """How many people, the adjudicator included, gave some images a label of an attribute.

    Args:
        image_set: images and labels.
        index: of the image set.
        attribute: which one.
        images: `[image]`: those that count.
    """
    if isinstance(image_set, ImageSet):
        table = image_set.table("labels")
        by, about = table.encoded("annotator"), table.encoded("attribute")
        own = about.is_text(attribute.name) & images[image_set.image_of_label]
        return sum(bool((own & by.is_text(name)).any()) for name in by.texts)
    labels = image_set.labels[image_set.labels["attribute"] == attribute.name]
    position = index.positions(labels["image_id"])
    return int(labels["annotator"][(position != NULL) & images[position]].nunique())
