"""Draws the images of a set that are to be labelled, by its T2I models, prompts and what detectors say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.estimation.sampling import NO_CELL, Opinions, draw, opinions
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary import Status, attribute_named

NO_VERDICT = "no_verdict"
"""The stratum of images of which no detector has a verdict."""

_ROUNDING = 1e-9

_CANNOT_GROW = (
    "a sample by disagreement cannot grow: an image's probability in the whole would hang on those of images that "
    "were not drawn; draw a larger one anew, or begin with equal or verdicts"
)


@dataclass(frozen=True, eq=False)
class ToBeLabelled:
    """A set whose images are to be labelled.

    Attributes:
        image_set: with or without labels.
        attribute: what the labels will be about.
        predictions: by detector, as `runner.stored_predictions.read_predictions` gives them; empty: none.
    """

    image_set: ImageSet
    attribute: str
    predictions: Mapping[str, pa.Table]

    def sample(
        self,
        labels: int,
        *,
        design: SampleDesign | None = None,
        seed: int = 0,
        t2i_models: Sequence[str] = (),
        growing: LabelSample | None = None,
        calibration: Sequence[str] = (),
    ) -> LabelSample:
        """Draw images; see `estimation.sampling`.

        Args:
            labels: how many; with `growing` how many more.
            design: how to draw; None: as `growing` was drawn, or with equal probabilities.
            seed: of the draw.
            t2i_models: which get the labels; none: all.
            growing: a sample that was drawn before: its images come first, with the probabilities of the whole.
            calibration: images that are set apart, and so not drawn; of a sample that grows, its own are.

        Raises:
            ConfigError: an unknown T2I model, too many labels, no detector that judges the attribute where the
                design needs one, or a sample that cannot grow.
        """
        index = ImageIndex.of(self.image_set)
        if design is None:
            design = SampleDesign.EQUAL if growing is None else growing.design
        apart = tuple(calibration) if growing is None else growing.calibration
        cells = self._cells(index, without=apart)
        before = np.zeros(0, dtype=np.int64)
        if growing is not None:
            before = _growing(growing, design, self.image_set, index, cells)
        rows = self._drawn(index, cells, labels, design, seed=seed, t2i_models=t2i_models, before=before)
        return LabelSample(rows if growing is None else _grown(growing.rows, rows), design, apart)

    def calibration(
        self,
        images: int,
        *,
        design: SampleDesign | None = None,
        seed: int = 0,
        t2i_models: Sequence[str] = (),
        sample: LabelSample | None = None,
    ) -> LabelSample:
        """Draw the images on which people agree on a standard: equally many of each T2I model and prompt.

        Args:
            images: how many.
            design: how to draw; None: by disagreement, so that hard images are among them, or with equal
                probabilities where no detector was asked.
            seed: of the draw.
            t2i_models: of which; none: all.
            sample: one that was drawn before: they are drawn among its images, since these are labelled anyway,
                and it stays as it is.

        Raises:
            ConfigError: as `sample`, or the sample was drawn beside another calibration.
        """
        if sample is not None and sample.calibration:
            raise ConfigError(
                f"the sample was drawn beside a calibration of {len(sample.calibration):,} images, which another "
                "one would change: remove the sample first, and draw it anew after the calibration"
            )
        index = ImageIndex.of(self.image_set)
        if design is None:
            design = SampleDesign.DISAGREEMENT if self.predictions else SampleDesign.EQUAL
        cells = self._cells(index, among=None if sample is None else sample.image_ids)
        before = np.zeros(0, dtype=np.int64)
        rows = self._drawn(index, cells, images, design, seed=seed, t2i_models=t2i_models, before=before)
        return LabelSample(rows, design)

    def _cells(
        self, index: ImageIndex, *, without: Collection[str] = (), among: Collection[str] | None = None
    ) -> NDArray[np.int64]:
        """`[image]`: the cell of each image that may be drawn."""
        cells: NDArray[np.int64] = index.cells.astype(np.int64)
        ids = self.image_set.images["image_id"]
        if without:
            cells[ids.isin(without).to_numpy()] = NO_CELL
        if among is not None:
            cells[~ids.isin(among).to_numpy()] = NO_CELL
        return cells

    def _drawn(
        self,
        index: ImageIndex,
        cells: NDArray[np.int64],
        labels: int,
        design: SampleDesign,
        *,
        seed: int,
        t2i_models: Sequence[str],
        before: NDArray[np.int64],
    ) -> pd.DataFrame:
        """The rows of a sample, those of `before` included."""
        said = self._opinions(index)
        if said is None and design is not SampleDesign.EQUAL:
            raise ConfigError(
                f"the design {design.value!r} needs detectors' verdicts on {self.attribute!r}: there are none; "
                "name a result folder with --results"
            )
        already = np.zeros(len(index.cells), dtype=np.bool_)
        already[before] = True
        found = draw(
            cells,
            shape=index.shape,
            labels=labels,
            seed=seed,
            design=design,
            said=said,
            already=already,
            of_models=_chosen(index.t2i_models, t2i_models),
        )
        return pd.DataFrame(
            {
                "image_id": self.image_set.images["image_id"].to_numpy()[found.images],
                "stratum": self._strata(said, found.images),
                "probability": found.probability,
                "cell_probability": found.cell_probability,
                "seed": seed,
            }
        )

    def _opinions(self, index: ImageIndex) -> Opinions | None:
        if not self.predictions:
            return None
        verdicts = ImageVerdicts.read(
            self.image_set,
            self.predictions,
            attribute=self.attribute,
            index=index,
            allow_incomplete=True,
        )
        classes = len(verdicts.attribute.classes)
        return opinions(verdicts.counted, classes=classes) if verdicts.has_judged.any() else None

    def _strata(self, said: Opinions | None, images: NDArray[np.int64]) -> NDArray[np.object_]:
        if said is None:
            return np.full(len(images), "", dtype=object)
        words = (*attribute_named(self.attribute).classes, Status.FILTERED.value, NO_VERDICT)
        return np.array(words, dtype=object)[said.majority[images]]


def _chosen(known: Sequence[str], wanted: Sequence[str]) -> NDArray[np.bool_] | None:
    for name in wanted:
        if name not in known:
            raise ConfigError(f"unknown T2I model {name!r}: {nearest_hint(name, known)}")
    return np.array([name in wanted for name in known], dtype=np.bool_) if wanted else None


def _growing(
    sample: LabelSample,
    design: SampleDesign,
    image_set: ImageSet,
    index: ImageIndex,
    may_be_drawn: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Where the images of a sample stand that is to grow, once it is sure that it can."""
    if SampleDesign.DISAGREEMENT in (sample.design, design):
        raise ConfigError(_CANNOT_GROW)
    before = sample.positions(image_set.images)
    cells = index.cells[before]
    size = np.bincount(may_be_drawn[may_be_drawn != NO_CELL], minlength=int(np.prod(index.shape)))
    number = np.bincount(cells, minlength=len(size))
    stated = sample.rows["probability"].to_numpy()
    differs = np.abs(stated - number[cells] / size[cells]) > _ROUNDING
    if differs.any():
        first = int(differs.argmax())
        raise ConfigError(
            f"the sample is not as it was drawn: image {sample.image_ids[first]!r} has the probability "
            f"{stated[first]:g}, and {number[cells[first]]:,} of {size[cells[first]]:,} images of its T2I model "
            "and prompt are listed; bring the rows back, or draw anew"
        )
    return before


def _grown(before: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    """The rows of before with new probabilities, then the new rows."""
    place = whole.set_index("image_id")
    kept = before.assign(
        **{name: place.loc[before["image_id"], name].to_numpy() for name in ("probability", "cell_probability")}
    )
    return pd.concat([kept, whole[~whole["image_id"].isin(before["image_id"])]], ignore_index=True)
