"""Counts images by T2I model, prompt, human label and verdict: all that the metrics need to know."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DataError, Problem
from detector_bench.evaluation.encoding import NULL, UNKNOWN, as_arrow, codes, words_in_order
from detector_bench.evaluation.prediction_checks import Missing, Mistakes, incomplete_error
from detector_bench.metrics import Scopes
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.vocabulary import ALL, GROUND_TRUTH, Attribute, Status, attribute_named

IntArray = NDArray[np.int64]

_NEITHER = ""
"""Stands in place of both T2I model and prompt of an image that no T2I model made."""


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


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each verdict met each human label, for one attribute.

    Images without a human label are in `unlabelled` only. Images on which a detector was never run are in
    `verdicts` under "no verdict", beside the errors, and in `not_run` too; so all detectors have the same truth.
    Images without a T2I model, the seeds of edited images, are nowhere in here.
    """

    attribute: Attribute
    detectors: tuple[str, ...]
    t2i_models: tuple[str, ...]
    """In the order of their first image."""
    prompt_ids: tuple[str, ...]
    """In the order of the prompt table."""
    scopes: Scopes
    """The category of each prompt."""
    verdicts: IntArray
    """`[detector, t2i_model, prompt, truth, verdict]`; axes as in `detector_bench.metrics`."""
    human: IntArray
    """Labelled images, `[t2i_model, prompt, truth]`."""
    unlabelled: IntArray
    """Images without a human label for the attribute, `[t2i_model, prompt]`."""
    not_run: IntArray
    """Labelled images without a prediction, `[detector, t2i_model, prompt]`."""
    joint: JointVerdicts
    """The same labelled images one by one, for questions about several detectors at once."""


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An image set's images as numbers, made once for all attributes and detectors."""

    image_ids: Any
    """Arrow array of strings."""
    cells: IntArray
    """Each image's position in the flattened table `[t2i_model, prompt]`; `NULL` for one without a T2I model."""
    t2i_models: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    scopes: Scopes

    @classmethod
    def of(cls, image_set: LabelledImages) -> ImageIndex:
        """Index an image set.

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
            image_ids=as_arrow(images["image_id"]),
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

    def count(self, *axes: tuple[IntArray, int]) -> IntArray:
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

    def positions(self, image_ids: pa.ChunkedArray) -> IntArray:
        """Row in the image set of each of these ids; `NULL` for an unknown one."""
        wanted = image_ids.cast(self.image_ids.type)
        if len(wanted) == len(self.image_ids) and wanted.equals(_chunked(self.image_ids)):
            return np.arange(len(wanted))
        found = pc.index_in(wanted, value_set=self.image_ids).fill_null(NULL)
        return np.asarray(found.to_numpy(), dtype=np.int64)


def count_verdicts(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    allow_incomplete: bool = False,
) -> Counts:
    """Count the verdicts of all detectors that judge an attribute.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, rows as in `schema.PREDICTIONS`; only image_id, attribute, status and label are
            needed. Detectors without a row for the attribute are not in the result.
        attribute: which one to count.
        allow_incomplete: count images without a prediction as left out, instead of raising.

    Raises:
        ConfigError: the image set has no labels for the attribute, or a detector bears a reserved name.
        DataError: a prediction about an unknown image, two about the same one, an unknown status, a clear image
            without a label or with a label that is no class of the attribute; all of them at once.
        IncompletePredictionsError: a labelled image without a prediction; one without a T2I model needs none.
    """
    index = ImageIndex.of(image_set)
    return count_attribute(image_set, index, predictions, attribute=attribute, allow_incomplete=allow_incomplete)


def count_attribute(
    image_set: LabelledImages,
    index: ImageIndex,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    allow_incomplete: bool,
) -> Counts:
    """As `count_verdicts`, with an index that serves several attributes."""
    check_names(image_set, predictions, attributes=[attribute])
    kind = attribute_named(attribute)
    truth = np.where(index.counted, human_label_codes(image_set, index, kind), NULL)
    labels = len(kind.labels)

    def judge(name: str) -> _Judged | None:
        return _judge(index, truth, predictions[name], detector=name, attribute=kind)

    # Arrow and numpy let go of the interpreter for most of it.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        judged = [each for each in threads.map(judge, predictions) if each is not None]
    if problems := [problem for each in judged for problem in each.problems]:
        raise DataError(problems)
    missing = [each.missing for each in judged if each.missing is not None]
    if missing and not allow_incomplete:
        raise incomplete_error(attribute, missing, images=int((truth != NULL).sum()))
    human = index.count((truth, labels))
    return Counts(
        attribute=kind,
        detectors=tuple(each.detector for each in judged),
        t2i_models=index.t2i_models,
        prompt_ids=index.prompt_ids,
        scopes=index.scopes,
        verdicts=_stacked([each.verdicts for each in judged], (*index.shape, labels, labels)),
        human=human[..., :labels],
        unlabelled=human[..., labels],
        not_run=_stacked([each.not_run for each in judged], index.shape),
        joint=_joint_verdicts(index, truth, [each.codes for each in judged], kind),
    )


def check_names(
    image_set: LabelledImages, predictions: Mapping[str, pa.Table], *, attributes: Sequence[str]
) -> None:
    """Check that the attributes have labels and that no detector bears a reserved name.

    Raises:
        ConfigError: one of them does not hold.
    """
    for attribute in attributes:
        attribute_named(attribute)
        if attribute not in image_set.attributes:
            known = ", ".join(image_set.attributes) or "none"
            raise ConfigError(f"the image set has no human labels for {attribute!r} (it has: {known})")
    for reserved in (ALL, GROUND_TRUTH):
        if reserved in predictions:
            raise ConfigError(f"no detector may be called {reserved!r}: metric tables use that name themselves")


def human_label_codes(image_set: LabelledImages, index: ImageIndex, attribute: Attribute) -> IntArray:
    """Position of each image's human label in `attribute.labels`; `NULL` where there is none.

    Images without a T2I model have their labels here, too; where images are counted, leave them out with
    `ImageIndex.counted`.

    Raises:
        DataError: a label that the attribute does not have.
    """
    labels = image_set.truth(attribute.name)
    if not _chunked(as_arrow(labels["image_id"]).cast(index.image_ids.type)).equals(_chunked(index.image_ids)):
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


class _Judged(NamedTuple):
    """One detector's part of the counts, and what is wrong with its predictions."""

    detector: str
    verdicts: IntArray
    not_run: IntArray
    codes: NDArray[np.int8]
    """The verdict on every image of the set; no verdict where there is no prediction."""
    missing: Missing | None
    problems: list[Problem]


def _judge(
    index: ImageIndex, truth: IntArray, table: pa.Table, *, detector: str, attribute: Attribute
) -> _Judged | None:
    """Count one detector's verdicts; None if it does not judge the attribute."""
    rows = rows_of_attribute(table, attribute.name)
    if rows.num_rows == 0 and table.num_rows > 0:
        return None
    verdict, problems = verdict_codes(index, rows, detector=detector, attribute=attribute)
    absent = (truth != NULL) & (verdict == NULL)
    missing = None
    if absent.any():
        first = index.image_ids[int(absent.argmax())].as_py()
        missing = Missing(detector, images=int(absent.sum()), first=first)
    labels = len(attribute.labels)
    counts = index.count((truth, labels), (verdict, labels))[..., :labels, :]
    verdicts, not_run = counts[..., :labels].copy(), counts[..., labels]
    verdicts[..., -1] += not_run
    codes_of_images = np.where(verdict == NULL, labels - 1, verdict).astype(np.int8)
    return _Judged(detector, verdicts, not_run.sum(axis=-1), codes_of_images, missing, problems)


def _joint_verdicts(
    index: ImageIndex, truth: IntArray, verdicts: Sequence[NDArray[np.int8]], attribute: Attribute
) -> JointVerdicts:
    labelled = truth != NULL
    stacked = np.stack(verdicts) if verdicts else np.zeros((0, len(truth)), dtype=np.int8)
    return JointVerdicts(
        truth=truth[labelled].astype(np.int8),
        verdicts=stacked[:, labelled],
        pair=index.cells[labelled],
        t2i_models=len(index.t2i_models),
        scopes=index.scopes,
        classes=len(attribute.classes),
    )


def rows_of_attribute(table: pa.Table, attribute: str) -> pa.Table:
    """The rows of a prediction table that judge an attribute."""
    wanted = codes(table["attribute"], [attribute]) == 0
    return table if wanted.all() else table.filter(pa.array(wanted))


def verdict_codes(
    index: ImageIndex, table: pa.Table, *, detector: str, attribute: Attribute
) -> tuple[IntArray, list[Problem]]:
    """The verdict on every image, `NULL` where there is none; and what is wrong with the predictions."""
    classes = attribute.classes
    statuses = [status.value for status in Status]
    mistakes = Mistakes(detector, table)
    position = index.positions(table["image_id"])
    status = codes(table["status"], statuses)
    label = codes(table["label"], classes)
    clear = status == statuses.index(Status.CLEAR)
    mistakes.add(
        np.flatnonzero(position == NULL),
        column="image_id",
        message="not an image of the set",
        accepted="an image_id of the image set",
    )
    mistakes.add(
        _repeated(position),
        column="image_id",
        message=f"predicted more than once for {attribute.name}",
        accepted=_ONE_ROW,
    )
    mistakes.add(
        np.flatnonzero(status < 0), column="status", message="unknown status", accepted=", ".join(statuses)
    )
    mistakes.add(
        np.flatnonzero(clear & (label < 0)),
        column="label",
        message=f"a clear image needs a class of {attribute.name}",
        accepted=", ".join(classes),
    )
    verdict = np.full(len(index.image_ids), NULL, dtype=np.int64)
    if not mistakes.problems:
        filtered = status == statuses.index(Status.FILTERED)
        verdict[position] = np.select([clear, filtered], [label, len(classes)], len(classes) + 1)
    return verdict, mistakes.problems


_ONE_ROW = "one row per image and attribute; an interrupted run leaves more, run `detector-bench run` again"


def _repeated(position: IntArray) -> IntArray:
    """Rows about an image that an earlier row is about already; rows about unknown images are left out."""
    known = np.flatnonzero(position != NULL)
    if known.size == 0 or np.bincount(position[known]).max() == 1:
        return np.empty(0, dtype=np.int64)
    _, first = np.unique(position[known], return_index=True)
    return np.delete(known, first)


def _stacked(arrays: Sequence[IntArray], shape: tuple[int, ...]) -> IntArray:
    return np.stack(arrays) if arrays else np.zeros((0, *shape), dtype=np.int64)


def _chunked(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
