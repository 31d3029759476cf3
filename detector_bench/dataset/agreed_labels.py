"""The consensus over an image set's whole table of labels, on compact columns: it may have millions of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.consensus import (
    ADJUDICATOR,
    AgreedCodes,
    agreed_in_words,
    agreed_values,
    annotator_ranks,
    decide,
)
from detector_bench.dataset.text_table import TextTable, true_indices
from detector_bench.vocabulary import LOW_QUALITY, Attribute
from detector_bench.vocabulary.columns import REASON_COLUMN, VALUE_COLUMN


@dataclass(frozen=True, eq=False)
class AgreedLabels:
    """What the annotators of an image set agree on, one attribute at a time.

    Attributes:
        labels: one row per image, annotator and attribute; needs no `image_id`.
        image_of_label: for each row of the labels, the index of its image.
        n_images: how many images there are; some may have no label.
    """

    labels: TextTable
    image_of_label: NDArray[np.integer[Any]]
    n_images: int

    def in_words(self, attribute: str) -> pd.DataFrame:
        """The agreed label and its reason, one row per image; see `consensus.agreed_in_words`."""
        rows = self._rows_of(attribute)
        agreed = self._agreed(rows, with_reasons=True)
        reasons: list[str] = []
        reason_codes: NDArray[np.integer[Any]] = np.empty(0, dtype=np.int64)
        if self.labels.has(REASON_COLUMN):
            encoded = self.labels.encoded(REASON_COLUMN)
            reasons, reason_codes = encoded.texts, encoded.codes[rows]
        return agreed_in_words(
            agreed, labels=self.labels.encoded("label").texts, reasons=reasons, reason_codes=reason_codes
        )

    def codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """`[image]`: the position in `attribute.labels`; -1 where nobody labelled this attribute of the image, -2
        for a label that the attribute does not have."""
        agreed = self._agreed(self._rows_of(attribute.name), with_reasons=False)
        position = {label: number for number, label in enumerate(attribute.labels)}
        texts = self.labels.encoded("label").texts
        unresolved, unlabelled, unknown = position[LOW_QUALITY], -1, -2
        codes = [*(position.get(text, unknown) for text in texts), unresolved, unlabelled]
        found: NDArray[np.int8] = np.array(codes, dtype=np.int8)[agreed.label]
        return found

    def values(self, attribute: str) -> NDArray[np.float64]:
        """`[image]`: the number that the annotators gave, of labels that have a column of values; see
        `consensus.agreed_values`."""
        given = true_indices(pc.not_equal(self.labels.column(VALUE_COLUMN), ""))
        rows = np.intersect1d(np.arange(len(self.labels))[self._rows_of(attribute)], given, assume_unique=True)
        cells = {
            name: self.labels.data.column(name).take(pa.array(rows)).cast(pa.large_string())
            for name in ("annotator", "label", VALUE_COLUMN)
        }
        consensus = self.in_words(attribute)["label"]
        frame = pa.table(cells).to_pandas()
        return agreed_values(frame, group=self.image_of_label[rows], consensus=consensus)

    def _rows_of(self, attribute: str) -> NDArray[np.bool_] | slice:
        encoded = self.labels.encoded("attribute")
        if encoded.texts == [attribute]:
            return slice(None)
        return encoded.is_text(attribute)

    def _agreed(self, rows: NDArray[np.bool_] | slice, *, with_reasons: bool) -> AgreedCodes:
        """The consensus of some rows of the labels; labels as in the table's column."""
        annotators = self.labels.encoded("annotator")
        rank = annotator_ranks(annotators.texts)[annotators.codes[rows]]
        has_reason = np.zeros(len(rank), dtype=np.bool_)
        if with_reasons and self.labels.has(REASON_COLUMN):
            reasons = self.labels.encoded(REASON_COLUMN)
            has_reason = np.array([text != "" for text in reasons.texts], dtype=np.bool_)[reasons.codes[rows]]
        return decide(
            self.image_of_label[rows],
            self.labels.encoded("label").codes[rows],
            rank=rank,
            has_adjudicator=ADJUDICATOR in annotators.texts,
            has_reason=has_reason,
            n_groups=self.n_images,
        )
