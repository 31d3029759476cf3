"""What the humans and every detector say about each image: read once from the predictions, and coded once.

Counts, joint verdicts, judgements for other benchmarks, agreement, causes, sweeps, measured values and the columns
of the report all begin with these codes, so that no two of them can take an image for two things.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DataError, IncompletePredictionsError
from detector_bench.evaluation.coded_predictions import CodedPredictions, GatheredVerdicts, JudgedRows
from detector_bench.evaluation.image_index import (
    NULL,
    ImageIndex,
    IntArray,
    LabelledImages,
    codes,
    first_words,
    human_label_codes,
)
from detector_bench.metrics.joint_verdicts import Codes, JointVerdicts
from detector_bench.vocabulary import (
    ALL,
    GROUND_TRUTH,
    LOW_QUALITY,
    OTHERS,
    Attribute,
    attribute_named,
)


@dataclass(frozen=True, eq=False)
class ImageVerdicts:
    """The verdicts of all detectors that judge an attribute; arrays have an entry for each image of the set."""

    index: ImageIndex
    attribute: Attribute
    truth: Codes
    """`[image]`: position of the human label in `attribute.labels`; `NULL` where there is none. Photos that no T2I
    model made have theirs, too; numbers are of `labelled` images alone."""
    detectors: tuple[str, ...]
    verdicts: Codes
    """`[detector, image]`: a class, K for filtered, K + 1 for an error, `NULL` where it was never run."""
    predictions: Mapping[str, pa.Table]
    """Each detector's predictions, by name."""

    @classmethod
    def read(
        cls,
        image_set: LabelledImages,
        predictions: Mapping[str, pa.Table],
        *,
        attribute: str,
        index: ImageIndex | None = None,
        allow_incomplete: bool = False,
    ) -> Self:
        """Read the verdicts on one attribute.

        Args:
            image_set: images, prompts and human labels.
            predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`; only image_id, attribute, status
                and label are read here. Detectors without a row for the attribute are not in the result.
            attribute: which one.
            index: of the image set, where it serves several attributes.
            allow_incomplete: leave images without a prediction as they are, instead of raising.

        Raises:
            ConfigError: no such attribute, or a detector bears a reserved name.
            DataError: a prediction about an unknown image, two about the same one, an unknown status, a clear
                image without a label or with a label that is no class of the attribute; all of them at once.
            IncompletePredictionsError: an image without a prediction, labelled or not; one without a T2I model
                needs none.
        """
        index = index or ImageIndex.shared(image_set, predictions)
        check_names(predictions)
        kind = attribute_named(attribute)
        truth = np.full(len(index.cells), NULL, dtype=np.int8)
        if attribute in image_set.attributes:
            truth = human_label_codes(image_set, index, kind)
        if isinstance(predictions, CodedPredictions) and predictions.knows(index, attribute):
            detectors, verdicts = predictions.verdicts(attribute)
        else:
            detectors, verdicts = _laid_out(index, predictions, kind)
        found = cls(
            index=index,
            attribute=kind,
            truth=truth,
            detectors=detectors,
            verdicts=verdicts,
            predictions=predictions,
        )
        if not allow_incomplete:
            found._check_complete()
        return found

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """`[image]`: which images numbers rest on: a T2I model made them, and they have a human label."""
        labelled: NDArray[np.bool_] = (self.truth != NULL) & self.index.counted
        return labelled

    def as_labels(self, place: int) -> ImageVerdicts:
        """The same images with a detector's verdicts as their labels, and no detector: the class of a clear image,
        `low_quality` for a filtered one, none without a verdict."""
        verdicts = self.verdicts[place]
        has_verdict = verdicts <= self.attribute.labels.index(LOW_QUALITY)
        nobody = np.zeros((0, len(self.truth)), dtype=np.int8)
        truth = np.where(has_verdict, verdicts, np.int8(NULL))
        return replace(self, truth=truth, detectors=(), verdicts=nobody, predictions={})

    def with_truth_unknown(self) -> ImageVerdicts:
        """The same verdicts with every image that a T2I model made in the counts, whether it has a label or not:
        `others` stands for all of them, of which no metric knows more than a detector's verdicts."""
        return replace(self, truth=np.full_like(self.truth, self.attribute.labels.index(OTHERS)))

    @property
    def counted(self) -> Codes:
        """`[detector, image]`: the verdicts as numbers have them: none (K + 1) also where it was never run."""
        if not self.verdicts.size or self.verdicts.min() != NULL:
            return self.verdicts
        return np.where(self.verdicts == NULL, np.int8(len(self.attribute.classes) + 1), self.verdicts)

    @property
    def clear(self) -> NDArray[np.bool_]:
        """`[detector, image]`: the images that the detector kept."""
        return np.not_equal(self.verdicts, NULL) & (self.verdicts < len(self.attribute.classes))

    @property
    def filtered(self) -> NDArray[np.bool_]:
        """`[detector, image]`: the images that the detector filtered."""
        return np.equal(self.verdicts, len(self.attribute.classes))

    @property
    def has_judged(self) -> NDArray[np.bool_]:
        """`[detector]`: whether it judged any image; one whose table is empty did not."""
        judged: NDArray[np.bool_] = (self.verdicts != NULL).any(axis=1)
        return judged

    @cached_property
    def named(self) -> Codes:
        """`[detector, image]`: the class that is stored, also with a filtered image; `NULL` where none is."""
        classes = self.attribute.classes
        return self._by_detector(
            lambda place: np.maximum(codes(self.column("label", place), classes), NULL), dtype=np.int8
        )

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, such as `score`: `[detector, image]`; NaN where there is none."""
        return self._by_detector(lambda place: self.numbers_of(name, place), dtype=np.float64)

    def numbers_of(self, name: str, place: int) -> NDArray[np.float64]:
        """The same of one detector, `[image]`."""
        detector = self.detectors[place]
        if isinstance(self.predictions, CodedPredictions) and self.predictions.knows(
            self.index, self.attribute.name
        ):
            return self.predictions.numbers(detector, self.attribute.name, name)
        if name not in self.predictions[detector].column_names:
            return np.full(len(self.truth), np.nan)
        found: NDArray[np.float64] = self.column(name, place).cast(pa.float64()).to_numpy()
        return found

    def reasons(self, place: int) -> tuple[IntArray, tuple[str, ...]]:
        """Why a detector filtered images or failed: `[image]`, and the words that these codes stand for; see
        `first_words`."""
        return first_words(self.column("reason", place))

    def column(self, name: str, place: int) -> pa.ChunkedArray:
        """A column of a detector's table in the order of the images; null where it was never run."""
        rows = self._rows[place]
        return self.predictions[self.detectors[place]][name].take(pa.array(rows, mask=rows == NULL))

    @cached_property
    def _rows(self) -> NDArray[np.int32]:
        """`[detector, image]`: the image's row in the detector's table; `NULL` where there is none."""

        def of_detector(place: int) -> NDArray[np.int32]:
            table = self.predictions[self.detectors[place]]
            judging = np.flatnonzero(_judges(table, self.attribute.name))
            rows = np.full(len(self.truth), NULL, dtype=np.int32)
            rows[self.index.positions(table["image_id"].take(pa.array(judging)))] = judging
            return rows

        return self._by_detector(of_detector, dtype=np.int32)

    def joint(self) -> JointVerdicts:
        """The labelled images alone; where a detector was never run it has no verdict."""
        labelled = self.labelled
        # Of millions of images a second copy is a good part of the memory.
        images = slice(None) if labelled.all() else labelled
        return JointVerdicts(
            truth=self.truth[images],
            verdicts=self.counted[:, images],
            pair=self.index.cells[images],
            t2i_models=len(self.index.t2i_models),
            scopes=self.index.scopes,
            classes=len(self.attribute.classes),
        )

    def _by_detector(self, of_detector: Callable[[int], NDArray[Any]], *, dtype: type) -> NDArray[Any]:
        found: NDArray[Any] = np.empty(self.verdicts.shape, dtype=dtype)
        for place in range(len(self.detectors)):
            found[place] = of_detector(place)
        return found

    def _check_complete(self) -> None:
        judged = self.index.counted
        lines = []
        for detector, verdicts in zip(self.detectors, self.verdicts, strict=True):
            absent = judged & (verdicts == NULL)
            if absent.any():
                first = self.index.ids.texts[int(absent.argmax())].as_py()
                lines.append(
                    f"  {detector}: {absent.sum():,} of {judged.sum():,} images without a prediction,"
                    f" the first is {first!r}"
                )
        if lines:
            head = f"the predictions of {self.attribute.name} do not cover the image set:"
            advice = (
                "run `detector-bench run` again: it judges only what is missing; or leave these images out"
                " of the numbers with --allow-incomplete"
            )
            raise IncompletePredictionsError("\n".join([head, *lines, advice]))


def check_names(predictions: Iterable[str]) -> None:
    """Check that no detector bears a reserved name.

    Raises:
        ConfigError: one does.
    """
    for reserved in (ALL, GROUND_TRUTH):
        if reserved in predictions:
            raise ConfigError(f"no detector may be called {reserved!r}: metric tables use that name themselves")


def rows_of_attribute(table: pa.Table, attribute: str) -> pa.Table:
    """The rows of a prediction table that judge an attribute."""
    wanted = _judges(table, attribute)
    return table if wanted.all() else table.filter(pa.array(wanted))


def _judges(table: pa.Table, attribute: str) -> NDArray[np.bool_]:
    return np.equal(codes(table["attribute"], [attribute]), 0)


def _laid_out(
    index: ImageIndex, predictions: Mapping[str, pa.Table], attribute: Attribute
) -> tuple[tuple[str, ...], Codes]:
    """The detectors that judge the attribute or nothing at all, and their verdicts `[detector, image]`."""

    def of_detector(name: str) -> GatheredVerdicts | None:
        table = predictions[name]
        judging = rows_of_attribute(table, attribute.name)
        if table.num_rows and not judging.num_rows:
            return None
        found = GatheredVerdicts(index, attribute, name)
        found.add(JudgedRows.of(judging, index.positions(judging["image_id"]), attribute))
        return found

    # Arrow and numpy let go of the interpreter for most of it.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        judging = [each for each in threads.map(of_detector, predictions) if each is not None]
    if problems := [problem for each in judging for problem in each.problems()]:
        raise DataError(problems)
    verdicts = [np.zeros((0, len(index.cells)), dtype=np.int8), *(each.verdicts[np.newaxis] for each in judging)]
    return tuple(each.detector for each in judging), np.concatenate(verdicts)
