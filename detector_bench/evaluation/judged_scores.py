"""One detector's scores beside the human labels: what a calibration is fitted on, and what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from detector_bench.errors import ConfigError
from detector_bench.estimation.calibration import JudgedScores
from detector_bench.evaluation.image_index import ImageIndex, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.vocabulary.score_maps import SURE


@dataclass(frozen=True, eq=False)
class ScoredImages:
    """The images of a study that say something about a detector's scores.

    Attributes:
        verdicts: of images with a human label of a class, a verdict and a score.
        index: of all images; prompts of `verdicts` are positions in its `prompt_ids`.
        unclear: images that the detector kept and humans call no class: nothing about their scores is known.
        uncertain: images of a class that the detector filtered as `uncertain`; the class is not stored.
        filtered: images of a class that it filtered for another reason.
        without_score: images of a class that it kept without a score.
        failed: images of a class without a verdict, as it failed on them.
        at_the_ends: images of the fit whose score is 0 or 1, or as close to them as a score map keeps away from.
    """

    verdicts: JudgedScores
    index: ImageIndex
    unclear: int
    uncertain: int
    filtered: int
    without_score: int
    failed: int
    at_the_ends: int

    @classmethod
    def of(cls, image_set: LabelledImages, table: pa.Table, *, detector: str, attribute: str) -> Self:
        """Read them.

        Args:
            image_set: images, prompts and human labels.
            table: the detector's predictions, with the columns `reason` and `score`.
            detector: its name.
            attribute: which one.

        Raises:
            ConfigError: the detector does not judge the attribute, or no labelled image has a score.
            DataError: as in `ImageVerdicts.read`.
        """
        found = ImageVerdicts.read(image_set, {detector: table}, attribute=attribute, allow_incomplete=True)
        if detector not in found.detectors:
            raise ConfigError(f"{detector!r} does not judge {attribute!r}")
        classes = len(found.attribute.classes)
        truth, verdict, scores = found.truth, found.verdicts[0], found.numbers_of("score", 0)
        counted = found.index.counted
        of_class = counted & (truth >= 0) & (truth < classes)
        kept, filtered = found.clear[0], found.filtered[0]
        reasons, words = found.reasons(0)
        unsure = filtered & (reasons == words.index("uncertain") if "uncertain" in words else False)
        used = of_class & kept & ~np.isnan(scores)
        if not used.any():
            raise ConfigError(
                f"{detector!r} has no score of {attribute} on any image with a human label of a class: there is "
                "nothing to calibrate"
            )
        prompts = len(found.index.prompt_ids)
        prompt = found.index.cells[used].astype(np.intp) % prompts
        return cls(
            JudgedScores(scores[used], truth[used] == verdict[used], prompt),
            found.index,
            unclear=int((found.labelled & ~of_class & kept).sum()),
            uncertain=int((of_class & unsure).sum()),
            filtered=int((of_class & filtered & ~unsure).sum()),
            without_score=int((of_class & kept & np.isnan(scores)).sum()),
            failed=int((of_class & ~kept & ~filtered).sum()),
            at_the_ends=int((np.abs(scores[used] - 0.5) >= 0.5 - SURE).sum()),
        )
