"""What the humans and every detector say about each image: all that a score system needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DataError, Problem
from detector_bench.evaluation.counting import ImageIndex, human_label_codes, rows_of_attribute, verdict_codes
from detector_bench.evaluation.encoding import NULL
from detector_bench.metrics import Scopes
from detector_bench.vocabulary import ALL, GROUND_TRUTH, Attribute, attribute_named

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet

UNJUDGED = -1
"""A detector filtered the image, or a human called it low-quality: looked at, and without a class."""

NO_VERDICT = -2
"""An error, an image that was not run, or one without a human label: nothing is known."""

OTHERS = -3
"""The human label `others`: outside the classes, and kept apart."""

NO_CELL = -1
"""An image that no T2I model made (a seed photo), or one without a seed."""


@dataclass(frozen=True, eq=False)
class Judgements:
    """Answers of all judges about all images of an image set, in the order of its images.

    A judge is the human consensus, called `ground_truth` and first where there are labels, or a detector.
    """

    image_ids: tuple[str, ...]
    t2i_models: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    scopes: Scopes
    """The category of each prompt."""
    t2i_model: NDArray[np.intp]
    """`[image]`, position in `t2i_models`; `NO_CELL` for a seed photo."""
    prompt: NDArray[np.intp]
    """`[image]`, position in `prompt_ids`; `NO_CELL` for a seed photo."""
    seed: NDArray[np.intp]
    """`[image]`, which image it was edited from; `NO_CELL` where it was not."""
    judges: tuple[str, ...]
    judged: Mapping[str, tuple[bool, ...]]
    """By attribute: which judges judge it at all."""
    labels: Mapping[str, NDArray[np.int8]]
    """By attribute, `[judge, image]`: position in its classes, or `UNJUDGED`, `NO_VERDICT`, `OTHERS`."""
    values: Mapping[str, NDArray[np.float64]]
    """By attribute, `[judge, image]`: the measured value (age in years, grey value of skin); NaN without one."""
    prompts: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The prompt table in the order of `prompt_ids`, with those of `schema.OPTIONAL_PROMPT_COLUMNS` that it has;
    `dataset.prompts` reads them. No columns where nothing but the ids is known."""

    @classmethod
    def of(
        cls, image_set: ImageSet, predictions: Mapping[str, pa.Table], *, attributes: Sequence[str]
    ) -> Judgements:
        """Collect the answers.

        Args:
            image_set: images, prompts and human labels; attributes without labels have no ground truth.
            predictions: by detector, rows as in `schema.PREDICTIONS`.
            attributes: what is collected.

        Raises:
            ConfigError: a detector that bears a reserved name.
            DataError: predictions that contradict the image set or the attribute's classes.
        """
        for reserved in (ALL, GROUND_TRUTH):
            if reserved in predictions:
                raise ConfigError(f"no detector may be called {reserved!r}: metric tables use that name")
        index = ImageIndex.of(image_set)
        images = image_set.images
        labelled = [name for name in attributes if name in image_set.attributes]
        judges = (*([GROUND_TRUTH] if labelled else []), *predictions)
        labels, values, judged = {}, {}, {}
        problems: list[Problem] = []
        for name in attributes:
            answers = []
            if labelled:
                answers.append(_human(image_set, index, attribute_named(name), has_labels=name in labelled))
            for detector, table in predictions.items():
                answer, mistakes = _detector(index, table, detector=detector, attribute=attribute_named(name))
                problems += mistakes
                answers.append(answer)
            labels[name] = np.stack([each.labels for each in answers])
            values[name] = np.stack([each.measured for each in answers])
            judged[name] = tuple(each.judges for each in answers)
        if problems:
            raise DataError(problems)
        t2i_model, prompt = _cells(index)
        return cls(
            image_ids=tuple(images["image_id"]),
            t2i_models=index.t2i_models,
            prompt_ids=index.prompt_ids,
            scopes=index.scopes,
            t2i_model=t2i_model,
            prompt=prompt,
            seed=_seeds(images),
            judges=judges,
            judged=judged,
            labels=labels,
            values=values,
            prompts=image_set.prompts,
        )

    def on_prompts(self, kept: NDArray[np.bool_]) -> Judgements:
        """The same, with the images of some prompts in no count, as if they were seed photos.

        Args:
            kept: `[prompt]`.
        """
        counts = (self.prompt != NO_CELL) & kept[self.prompt]
        return replace(
            self,
            t2i_model=np.where(counts, self.t2i_model, NO_CELL),
            prompt=np.where(counts, self.prompt, NO_CELL),
        )

    @property
    def has_truth(self) -> bool:
        """Whether the first judge is the human consensus."""
        return self.judges[:1] == (GROUND_TRUTH,)

    @property
    def cell(self) -> NDArray[np.intp]:
        """`[image]`: position in the flattened table `[t2i_model, prompt]`; `NO_CELL` for a seed photo."""
        return np.where(self.t2i_model == NO_CELL, NO_CELL, self.t2i_model * len(self.prompt_ids) + self.prompt)


@dataclass(frozen=True)
class _Answers:
    labels: NDArray[np.int8]
    measured: NDArray[np.float64]
    judges: bool


def _human(image_set: ImageSet, index: ImageIndex, attribute: Attribute, *, has_labels: bool) -> _Answers:
    images = len(index.image_ids)
    if not has_labels:
        return _Answers(np.full(images, NO_VERDICT, np.int8), np.full(images, np.nan), judges=False)
    truth = human_label_codes(image_set, index, attribute)
    classes = len(attribute.classes)
    labels = np.select([truth == NULL, truth == classes, truth > classes], [NO_VERDICT, UNJUDGED, OTHERS], truth)
    values = np.full(images, np.nan)
    if attribute.unit is not None:
        values = image_set.measured(attribute.name)["value"].to_numpy(dtype=np.float64)
    return _Answers(labels.astype(np.int8), values, judges=True)


def _detector(
    index: ImageIndex, table: pa.Table, *, detector: str, attribute: Attribute
) -> tuple[_Answers, list[Problem]]:
    rows = rows_of_attribute(table, attribute.name)
    verdict, mistakes = verdict_codes(index, rows, detector=detector, attribute=attribute)
    classes = len(attribute.classes)
    labels = np.select(
        [verdict == NULL, verdict == classes, verdict > classes], [NO_VERDICT, UNJUDGED, NO_VERDICT], verdict
    )
    values = np.full(len(index.image_ids), np.nan)
    if attribute.unit is not None and "value" in rows.column_names and not mistakes:
        values[index.positions(rows["image_id"])] = rows["value"].to_numpy()
        values[labels < 0] = np.nan
    return _Answers(labels.astype(np.int8), values, judges=rows.num_rows > 0), mistakes


def _cells(index: ImageIndex) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    prompts = len(index.prompt_ids)
    made = index.cells >= 0
    t2i_model = np.where(made, index.cells // max(prompts, 1), NO_CELL)
    prompt = np.where(made, index.cells % max(prompts, 1), NO_CELL)
    return t2i_model.astype(np.intp), prompt.astype(np.intp)


def _seeds(images: pd.DataFrame) -> NDArray[np.intp]:
    if "seed_image_id" not in images:
        return np.full(len(images), NO_CELL, dtype=np.intp)
    found: NDArray[np.intp] = pd.Index(images["image_id"]).get_indexer(pd.Index(images["seed_image_id"]))
    return np.where(images["seed_image_id"].to_numpy() == "", NO_CELL, found)
