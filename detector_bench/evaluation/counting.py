"""Counts images by T2I model, prompt, human label and verdict: all that the metrics need to know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from detector_bench.evaluation.image_index import IntArray, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.metrics import Scopes
from detector_bench.metrics.joint_verdicts import Codes, JointVerdicts
from detector_bench.vocabulary import Attribute


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
    """How many labelled images there are, `[t2i_model, prompt, truth]`."""
    unlabelled: IntArray
    """Images without a human label for the attribute, `[t2i_model, prompt]`."""
    not_run: IntArray
    """Labelled images without a prediction, `[detector, t2i_model, prompt]`."""
    joint: JointVerdicts
    """The same labelled images one by one, for questions about several detectors at once."""

    @classmethod
    def of(cls, found: ImageVerdicts) -> Self:
        """Count the verdicts of all detectors."""
        index, labels = found.index, len(found.attribute.labels)

        def of_detector(verdicts: Codes) -> IntArray:
            return index.count((found.truth, labels), (verdicts, labels))[..., :labels, :]

        counts = np.zeros((len(found.detectors), *index.shape, labels, labels + 1), dtype=np.int64)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
            for place, counted in enumerate(threads.map(of_detector, found.verdicts)):
                counts[place] = counted
        verdicts, not_run = counts[..., :labels].copy(), counts[..., labels]
        verdicts[..., -1] += not_run
        human = index.count((found.truth, labels))
        return cls(
            attribute=found.attribute,
            detectors=found.detectors,
            t2i_models=index.t2i_models,
            prompt_ids=index.prompt_ids,
            scopes=index.scopes,
            verdicts=verdicts,
            human=human[..., :labels],
            unlabelled=human[..., labels],
            not_run=not_run.sum(axis=-1),
            joint=found.joint(),
        )


def count_verdicts(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    allow_incomplete: bool = False,
) -> Counts:
    """Count the verdicts of all detectors that judge an attribute; arguments and errors as of
    `ImageVerdicts.read`."""
    return Counts.of(
        ImageVerdicts.read(image_set, predictions, attribute=attribute, allow_incomplete=allow_incomplete)
    )
