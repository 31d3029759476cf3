"""Collects the rows of a metric table block by block, as codes and numbers: there can be millions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.scores import ScoreTable
from detector_bench.metrics import METRICS, NClear
from detector_bench.vocabulary import ALL, GROUND_TRUTH
from detector_bench.vocabulary.columns import METRIC_COLUMNS

IntArray = NDArray[np.int64]

_WORD_COLUMNS = ("detector", "attribute", "t2i_model", "category", "prompt_id", "metric", "n_clear", "variant")
_NUMBER_COLUMNS = ("value", "ci_low", "ci_high", "n", "n_left_out")
_BOTH_DEFINITIONS = get_args(NClear)
_MISSING = -1
"""Code of a missing word."""


class Cells(NamedTuple):
    """What the rows of one level cover, as codes; code 0 is "all"."""

    t2i_model: IntArray
    category: IntArray
    prompt: IntArray


def scope_levels(images: IntArray) -> list[Cells]:
    """Everything, T2I models, categories, T2I models x categories: the cells of each level that have images."""
    one, rest = slice(0, 1), slice(1, None)
    levels = []
    for models, categories in ((one, one), (rest, one), (one, rest), (rest, rest)):
        filled = np.zeros(images.shape, dtype=bool)
        filled[models, categories] = images[models, categories] > 0
        model, category = np.nonzero(filled)
        levels.append(Cells(model, category, np.zeros_like(model)))
    return levels


class RowBlocks:
    """Collects blocks of rows as codes and numbers; words are attached once, at the end."""

    def __init__(
        self, index: ImageIndex, *, attributes: Sequence[str], detectors: Sequence[str], n_clear: NClear
    ) -> None:
        self._words: dict[str, list[str]] = {
            "detector": [GROUND_TRUTH, *detectors],
            "attribute": list(attributes),
            "t2i_model": [ALL, *index.t2i_models],
            "category": [ALL, *index.scopes.categories],
            "prompt_id": [ALL, *index.prompt_ids],
            "metric": [],
            "n_clear": list(_BOTH_DEFINITIONS),
            "variant": [],
        }
        self._n_clear = n_clear
        self._blocks: dict[str, list[NDArray[np.generic]]] = {
            name: [] for name in (*_WORD_COLUMNS, *_NUMBER_COLUMNS)
        }

    def add(
        self,
        scores: ScoreTable,
        cells: Cells,
        *,
        attribute: str,
        detectors: Sequence[str],
        variant: str = "",
    ) -> None:
        """Add one row per detector, cell and metric; the numbers are `[detector, cell, metric]`.

        Rows of a variant are of images that humans have not counted, so that their `n_clear` is the detector's.
        """
        shape = scores.value.shape
        n_clear = "detector" if variant else self._n_clear
        metrics = [self._code("metric", name) for name in scores.metrics]
        altered = [
            detectors != [GROUND_TRUTH] and name in METRICS and METRICS[name].depends_on_n_clear
            for name in scores.metrics
        ]
        detector = [self._words["detector"].index(name) for name in detectors]
        columns = {
            "detector": np.array(detector, dtype=np.int32)[:, np.newaxis, np.newaxis],
            "attribute": np.int32(self._words["attribute"].index(attribute)),
            "t2i_model": cells.t2i_model[:, np.newaxis],
            "category": cells.category[:, np.newaxis],
            "prompt_id": cells.prompt[:, np.newaxis],
            "metric": np.array(metrics),
            "n_clear": np.where(altered, _BOTH_DEFINITIONS.index(n_clear), _MISSING),
            "variant": np.int32(self._code("variant", variant) if variant else _MISSING),
        }
        for name, codes in columns.items():
            self._blocks[name].append(np.broadcast_to(np.asarray(codes, dtype=np.int32), shape).ravel())
        for name in _NUMBER_COLUMNS:
            self._blocks[name].append(getattr(scores, name).ravel())

    def table(self) -> pd.DataFrame:
        """The rows added so far, as a metric table; they are let go, as there can be millions."""
        joined = {name: np.concatenate(self._blocks.pop(name)) for name in list(self._blocks)}
        words = {
            name: pd.Categorical.from_codes(
                joined[name].astype(np.int32, copy=False), pd.Index(self._words[name], dtype="str")
            )
            for name in _WORD_COLUMNS
        }
        numbers = {name: joined[name] for name in _NUMBER_COLUMNS}
        columns = words | numbers
        return pd.DataFrame({name: columns[name] for name in METRIC_COLUMNS}, copy=False)

    def _code(self, column: str, name: str) -> int:
        names = self._words[column]
        if name not in names:
            names.append(name)
        return names.index(name)
