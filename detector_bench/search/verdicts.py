"""The verdicts of all compositions: stored once for each composition without its threshold, thresholds laid on
after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.metrics import CountArray, FloatArray
from detector_bench.metrics.joint_verdicts import Codes


@dataclass(frozen=True, eq=False)
class LabelledVerdicts:
    """What detectors say of the labelled images, and their scores."""

    verdicts: Codes
    """`[detector, image]`: a class, K for filtered, K + 1 for none."""
    scores: FloatArray
    """`[detector, image]`; NaN: none."""
    truth: Codes
    """`[image]`: position of the human label: a class, K for low-quality, K + 1 for others."""
    prompt: NDArray[np.intp]
    """`[image]`: among the prompts that have labelled images."""
    t2i_model: NDArray[np.intp]
    category_of_prompt: NDArray[np.intp]
    """`[prompt]`."""
    prompt_ids: tuple[str, ...]
    t2i_models: tuple[str, ...]
    classes: int
    fails_without_score: tuple[bool, ...] = ()
    """By detector, whether an image without a score is an error to it once there is a threshold; (): of none."""

    @classmethod
    def of(
        cls, found: ImageVerdicts, detectors: Sequence[str], *, fails_without_score: Sequence[bool] = ()
    ) -> Self:
        """Take the labelled images, and the prompts that have some.

        Args:
            found: verdicts and labels.
            detectors: whose, in this order.
            fails_without_score: see the attribute.
        """
        images = np.flatnonzero(found.labelled)
        order = [found.detectors.index(name) for name in detectors]
        model, prompt = np.divmod(found.index.cells[images].astype(np.intp), len(found.index.prompt_ids))
        asked, places = np.unique(prompt, return_inverse=True)
        scores = np.stack([found.numbers_of("score", place)[images] for place in order])
        return cls(
            verdicts=found.counted[order][:, images],
            scores=scores,
            truth=found.truth[images],
            prompt=places,
            t2i_model=model,
            category_of_prompt=found.index.scopes.category_of_prompt[asked],
            prompt_ids=tuple(found.index.prompt_ids[each] for each in asked),
            t2i_models=found.index.t2i_models,
            classes=len(found.attribute.classes),
            fails_without_score=tuple(fails_without_score),
        )

    def on_prompts(self, prompts: NDArray[np.intp]) -> Self:
        """The images of some of the prompts, given by their positions."""
        images = np.isin(self.prompt, prompts)
        return replace(
            self,
            verdicts=self.verdicts[:, images],
            scores=self.scores[:, images],
            truth=self.truth[images],
            prompt=np.searchsorted(np.sort(prompts), self.prompt[images]),
            t2i_model=self.t2i_model[images],
            category_of_prompt=self.category_of_prompt[np.sort(prompts)],
            prompt_ids=tuple(self.prompt_ids[each] for each in np.sort(prompts)),
        )

    @property
    def prompts(self) -> int:
        """How many prompts have labelled images."""
        return len(self.prompt_ids)

    @property
    def clear_prompts(self) -> int:
        """How many prompts have images that humans give a class."""
        return len(np.unique(self.prompt[self.truth < self.classes]))

    def at(self, detector: int, threshold: float | None) -> Codes:
        """A detector's verdicts, `[image]`; what it keeps with a lower score than the threshold is filtered."""
        verdicts: Codes = self.verdicts[detector]
        if threshold is None:
            return verdicts
        # A detector compares what it stores; without a score it has nothing to compare.
        unsure = (verdicts < self.classes) & (self.scores[detector] < threshold)
        found: Codes = np.where(unsure, np.int8(self.classes), verdicts)
        if threshold > 0 and any(self.fails_without_score) and self.fails_without_score[detector]:
            found[(verdicts < self.classes) & np.isnan(self.scores[detector])] = self.classes + 1
        return found

    def counts(self, verdicts: Codes) -> CountArray:
        """Count verdicts `[..., image]`: `[..., t2i_model, prompt, truth, verdict]`."""
        labels = self.classes + 2
        shape = (len(self.t2i_models), self.prompts, labels, labels)
        cells = ((self.t2i_model * self.prompts + self.prompt) * labels + self.truth) * labels
        flat = verdicts.reshape(-1, len(self.truth))
        found = np.stack([np.bincount(cells + each, minlength=int(np.prod(shape))) for each in flat])
        counts: CountArray = found.reshape(*verdicts.shape[:-1], *shape)
        return counts
