"""What one detector says about each image, in the order of the image set: for questions that counts cannot
answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import DataError, IncompletePredictionsError
from detector_bench.evaluation.counting import (
    ImageIndex,
    IntArray,
    LabelledImages,
    check_names,
    human_label_codes,
    rows_of_attribute,
    verdict_codes,
)
from detector_bench.evaluation.encoding import NULL, codes, words_in_order
from detector_bench.evaluation.prediction_checks import Missing, incomplete_error
from detector_bench.vocabulary import Attribute, attribute_named


@dataclass(frozen=True, slots=True)
class ImageVerdicts:
    """One detector's verdicts on one attribute, an entry for every image of the set."""

    detector: str
    attribute: Attribute
    truth: IntArray
    """Position of the human label in `attribute.labels`; `NULL` where there is none."""
    verdict: IntArray
    """A class, K for filtered, K + 1 for no verdict."""
    label: IntArray
    """The class that is stored, also of filtered images; `NULL` where none is."""
    score: NDArray[np.float64]
    """The stored score; NaN where there is none."""
    reason: IntArray
    """Why the image was filtered or failed: position in `reasons`; `NULL` where nothing is stored."""
    reasons: tuple[str, ...]
    """The reasons' first words, without the detail after the colon."""

    @property
    def filtered(self) -> NDArray[np.bool_]:
        """The images that the detector filtered."""
        return np.equal(self.verdict, len(self.attribute.classes))

    @property
    def clear(self) -> NDArray[np.bool_]:
        """The images that the detector kept."""
        return np.less(self.verdict, len(self.attribute.classes))


def image_verdicts(
    image_set: LabelledImages,
    index: ImageIndex,
    table: pa.Table,
    *,
    detector: str,
    attribute: str,
    allow_incomplete: bool = False,
) -> ImageVerdicts | None:
    """Lay a detector's predictions out by image; None if it does not judge the attribute.

    Args:
        image_set: images, prompts and human labels.
        index: of the image set.
        table: rows as in `schema.PREDICTIONS`, `reason` and `score` included.
        detector: whose they are.
        attribute: which one to look at.
        allow_incomplete: images without a prediction have no verdict, instead of an error being raised.

    Raises:
        ConfigError: no labels for the attribute, or a reserved detector name.
        DataError: as in `count_verdicts`.
        IncompletePredictionsError: a labelled image without a prediction.
    """
    check_names(image_set, {detector: table}, attributes=[attribute])
    kind = attribute_named(attribute)
    truth = np.where(index.counted, human_label_codes(image_set, index, kind), NULL)
    rows = rows_of_attribute(table, attribute)
    if rows.num_rows == 0:
        return None
    verdict, problems = verdict_codes(index, rows, detector=detector, attribute=kind)
    if problems:
        raise DataError(problems)
    absent = (truth != NULL) & (verdict == NULL)
    if absent.any() and not allow_incomplete:
        raise _incomplete(index, absent, detector=detector, attribute=attribute, labelled=truth != NULL)
    position = index.positions(rows["image_id"])
    images = len(truth)
    label = np.full(images, NULL, dtype=np.int64)
    label[position] = np.maximum(codes(rows["label"], kind.classes), NULL)
    score = np.full(images, np.nan)
    score[position] = rows["score"].to_numpy(zero_copy_only=False)
    reason_of_row, reasons = first_words(rows["reason"])
    reason = np.full(images, NULL, dtype=np.int64)
    reason[position] = reason_of_row
    no_verdict = len(kind.classes) + 1
    return ImageVerdicts(
        detector, kind, truth, np.where(verdict == NULL, no_verdict, verdict), label, score, reason, reasons
    )


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


def _incomplete(
    index: ImageIndex, absent: NDArray[np.bool_], *, detector: str, attribute: str, labelled: NDArray[np.bool_]
) -> IncompletePredictionsError:
    missing = Missing(detector, images=int(absent.sum()), first=index.image_ids[int(absent.argmax())].as_py())
    return incomplete_error(attribute, [missing], images=int(labelled.sum()))
