"""What the humans and every detector say about each image: all that a score system needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import DataError, Problem
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts, check_names
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray
from detector_bench.vocabulary import ALL, GROUND_TRUTH

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
class DrawnLabels:
    """Which images were drawn to be labelled, where scores of all images are to be estimated from them."""

    labelled: NDArray[np.bool_]
    """`[image]`: whether all human labels that a score needs are there."""
    probability: NDArray[np.float64] | None
    """`[image]`: the chance to be drawn, given that any of its T2I model and prompt was; NaN for an image that was
    not. None: within each T2I model and prompt all images had the same."""
    use_detectors: bool
    """Whether detectors help; False: from the labels alone."""
    apart: NDArray[np.bool_] | None = None
    """`[image]`: whether it was set apart before the sample was drawn (`estimation.images_set_apart`)."""

    def of_pairs(self, seed: NDArray[np.intp]) -> DrawnLabels:
        """The same for edited images, which need the label of their seed photo, too; the chance is their own.

        Args:
            seed: `[image]`, which image it was edited from; `NO_CELL` where it was not.
        """
        return replace(self, labelled=self.labelled & self.labelled[seed] & (seed != NO_CELL))


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
    """The prompt table in the order of `prompt_ids`, with those of `columns.optional_prompt_columns` that it has;
    `dataset.prompts` reads them. No columns where nothing but the ids is known."""
    labelled_only: bool = False
    """Whether all judges are asked about the images with a human label alone, so that they can be compared."""
    drawn: DrawnLabels | None = None
    """Where the ground truth of all images is to be estimated from those with a label; None: sums are added up as
    they are."""

    @classmethod
    def of(
        cls, image_set: ImageSet, predictions: Mapping[str, pa.Table], *, attributes: Sequence[str]
    ) -> Judgements:
        """Collect the answers of humans and detectors.

        Args:
            image_set: images, prompts and human labels; attributes without labels have no ground truth.
            predictions: by detector, rows as in `vocabulary.columns.PREDICTIONS`.
            attributes: what is collected.

        Raises:
            ConfigError: a detector that bears a reserved name.
            DataError: predictions that contradict the image set or the attribute's classes.
        """
        check_names(predictions)
        index = ImageIndex.of(image_set)
        images = image_set.images
        has_truth = any(name in image_set.attributes for name in attributes)
        judges = (*([GROUND_TRUTH] if has_truth else []), *predictions)
        labels, values, judged = {}, {}, {}
        problems: list[Problem] = []
        for name in attributes:
            try:
                found = ImageVerdicts.read(
                    image_set, predictions, attribute=name, index=index, allow_incomplete=True
                )
            except DataError as error:
                problems += error.problems
                continue
            labels[name], values[name], judged[name] = _answers(image_set, found, judges)
        if problems:
            raise DataError(problems)
        t2i_model, prompt = index.places
        return cls(
            image_ids=tuple(images["image_id"]),
            t2i_models=index.t2i_models,
            prompt_ids=index.prompt_ids,
            scopes=index.scopes,
            t2i_model=t2i_model.astype(np.intp),
            prompt=prompt.astype(np.intp),
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

    def asked(self, attribute: str) -> NDArray[np.bool_]:
        """`[image]`: which images count for an attribute, by any judge: all; where only labelled ones do, those
        with a human label, unless no image has one."""
        if not self.labelled_only or not self.has_truth or not self.judged[attribute][0]:
            return np.ones(len(self.image_ids), dtype=bool)
        return np.asarray(self.labels[attribute][0] != NO_VERDICT)

    @property
    def partly_labelled(self) -> bool:
        """Whether some images, or seeds of images, have a human label of an attribute and others have none."""
        labelled = replace(self, labelled_only=True)
        made = self.t2i_model != NO_CELL
        made[self.seed[self.seed != NO_CELL]] = True
        return any(not labelled.asked(name)[made].all() for name in self.judged)

    def by_detectors_alone(self) -> Judgements:
        """The same without the human labels: detectors about all images, which are compared with nobody."""
        if not self.has_truth:
            return self
        return replace(
            self,
            judges=self.judges[1:],
            judged={name: judged[1:] for name, judged in self.judged.items()},
            labels={name: labels[1:] for name, labels in self.labels.items()},
            values={name: values[1:] for name, values in self.values.items()},
            labelled_only=False,
        )

    @property
    def has_truth(self) -> bool:
        """Whether the first judge is the human consensus."""
        return self.judges[:1] == (GROUND_TRUTH,)

    @property
    def cell(self) -> NDArray[np.intp]:
        """`[image]`: position in the flattened table `[t2i_model, prompt]`; `NO_CELL` for a seed photo."""
        return np.where(self.t2i_model == NO_CELL, NO_CELL, self.t2i_model * len(self.prompt_ids) + self.prompt)

    def sums(self, numbers: FloatArray) -> FloatArray:
        """Add up numbers of single images, seed photos left out: `[image, number]` to `[t2i_model, prompt,
        number]`."""
        placed = np.flatnonzero(self.t2i_model != NO_CELL)
        sums = np.zeros((len(self.t2i_models) * len(self.prompt_ids), numbers.shape[1]))
        np.add.at(sums, self.cell[placed], numbers[placed])
        return sums.reshape(len(self.t2i_models), len(self.prompt_ids), numbers.shape[1])

    @property
    def images(self) -> NDArray[np.int64]:
        """How many images there are, `[t2i_model, prompt]`."""
        return self.sums(np.ones((len(self.image_ids), 1)))[..., 0].astype(np.int64)

    def images_asked(self, attribute: str) -> NDArray[np.int64]:
        """How many of them count for an attribute; of `all`, those that count for every one."""
        names = self.judged if attribute == ALL else (attribute,)
        asked = np.logical_and.reduce([self.asked(name) for name in names])
        return self.sums(asked[:, np.newaxis].astype(np.float64))[..., 0].astype(np.int64)


def _answers(
    image_set: ImageSet, found: ImageVerdicts, judges: Sequence[str]
) -> tuple[NDArray[np.int8], NDArray[np.float64], tuple[bool, ...]]:
    """Labels and measured values of one attribute, `[judge, image]`, and which judges judge it."""
    name, classes = found.attribute.name, range(len(found.attribute.classes))
    shape = (len(judges), len(found.truth))
    labels, values = np.full(shape, NO_VERDICT, dtype=np.int8), np.full(shape, np.nan)
    judged = np.zeros(len(judges), dtype=bool)
    has_values = found.attribute.unit is not None
    # The last place is that of images without a label or a prediction, whose code is -1.
    if name in image_set.attributes:
        labels[0] = np.array([*classes, UNJUDGED, OTHERS, NO_VERDICT])[found.truth]
        judged[0] = True
        if has_values:
            values[0] = image_set.measured(name)["value"]
    at = [judges.index(detector) for detector in found.detectors]
    labels[at] = np.array([*classes, UNJUDGED, NO_VERDICT, NO_VERDICT])[found.verdicts]
    judged[at] = found.has_judged
    if has_values:
        values[at] = np.where(labels[at] < 0, np.nan, found.numbers("value"))
    return labels, values, tuple(judged.tolist())


def _seeds(images: pd.DataFrame) -> NDArray[np.intp]:
    if "seed_image_id" not in images:
        return np.full(len(images), NO_CELL, dtype=np.intp)
    found: NDArray[np.intp] = pd.Index(images["image_id"]).get_indexer(pd.Index(images["seed_image_id"]))
    return np.where(images["seed_image_id"].to_numpy() == "", NO_CELL, found)
