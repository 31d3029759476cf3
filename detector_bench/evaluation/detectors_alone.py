"""What detectors say about all images that T2I models made, labelled or not: rows of the variant `detector_only`.

The numbers are those of the human labels (`human_scope_scores`), with a detector's verdicts in the labels' place:
a class, `low_quality` where it filtered, and no label where it has no verdict. So nothing is counted in a second
way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.row_blocks import Cells, IntArray, RowBlocks, scope_levels
from detector_bench.evaluation.scores import PromptCells, ScoreTable, human_prompt_scores, human_scope_scores
from detector_bench.metrics import METRICS, pool
from detector_bench.metrics.image_counts import verdict_numbers
from detector_bench.vocabulary import OTHERS
from detector_bench.vocabulary.columns import DETECTOR_ONLY

_OF_LABELS = ("images", "images_unlabelled", "images_others", "images_clear", f"label_share_{OTHERS}")
"""What detectors do not say, or what `verdict_numbers` says of them."""


def add_detectors_alone(rows: RowBlocks, found: ImageVerdicts, *, intervals: Intervals) -> None:
    """Add the rows of every detector that judges the attribute.

    - `images` and its neighbours: all images, and how many of them the detector kept, filtered, failed on, never
      saw.
    - `label_share_<class>`, `label_share_low_quality`: share of the class, or of the filtered images, among the
      images with a verdict; those without are in `n_left_out`.
    - bias scores of the human labels, such as `model_bias_score`: of the images that the detector keeps.

    Args:
        rows: take them in, by level, detector, cell and metric.
        found: the verdicts on all images.
        intervals: how ci_low and ci_high are found, as those of the human labels are.
    """
    attribute = found.attribute.name
    everything = Counts.of(found.with_truth_unknown())
    images = everything.human.sum(axis=-1)
    t2i_model, prompt = np.nonzero(images)
    at = (t2i_model, prompt)
    levels = scope_levels(everything.scopes.sums(images, prompt_axis=-1))
    prompts = Cells(1 + t2i_model, 1 + everything.scopes.category_of_prompt[prompt], 1 + prompt)
    said = [
        _of_detector(Counts.of(found.as_labels(place)), images, at, intervals)
        for place in range(len(found.detectors))
    ]
    if not said:
        return
    scopes, single = (_stacked(each) for each in zip(*said, strict=True))
    pooled, not_run = pool(everything.verdicts, scopes=everything.scopes), everything.not_run
    scopes = ScoreTable.of_scores(verdict_numbers(pooled, everything.scopes.sums(not_run, prompt_axis=-1))).beside(
        scopes
    )
    single = ScoreTable.of_scores(verdict_numbers(everything.verdicts[:, *at], not_run[:, *at])).beside(single)
    about = {"attribute": attribute, "variant": DETECTOR_ONLY}
    for cells in levels:
        chosen = (slice(None), cells.t2i_model, cells.category)
        rows.add(scopes.at(chosen), cells, detectors=found.detectors, **about)
    rows.add(single, prompts, detectors=found.detectors, **about)


class _Said(NamedTuple):
    """One detector's numbers, `[1, ..., metric]`."""

    scopes: ScoreTable
    prompts: ScoreTable


def _of_detector(counts: Counts, images: IntArray, at: PromptCells, intervals: Intervals) -> _Said:
    """Numbers of the verdicts of one detector, which stand in `counts` as the labels.

    Args:
        counts: of the images with a verdict.
        images: all of them, `[t2i_model, prompt]`.
        at: where there is an image.
        intervals: how limits are found.
    """
    doubt = IntervalScores.of_counts(counts, intervals, n_clear="detector")
    scopes = doubt.of_human(human_scope_scores(counts))
    prompts = doubt.of_human_prompts(human_prompt_scores(counts, at=at), at=at)
    # Without a single verdict a prompt has no labels here, so that no mean knows that it is left out.
    silent = ((images > 0) & (counts.human.sum(axis=-1) == 0)).astype(np.int64)
    left_out = counts.scopes.sums(silent, prompt_axis=-1)
    for place, name in enumerate(scopes.metrics):
        if name in METRICS and METRICS[name].over == "prompts":
            scopes.n_left_out[..., place] += left_out
    return _Said(_without(scopes), _without(prompts))


def _without(scores: ScoreTable) -> ScoreTable:
    return scores.of_metrics([name for name in scores.metrics if name not in _OF_LABELS])


def _stacked(tables: tuple[ScoreTable, ...]) -> ScoreTable:
    """Tables of one detector each as one of all."""
    arrays = (np.concatenate(parts) for parts in zip(*(table[1:] for table in tables), strict=True))
    return ScoreTable(tables[0].metrics, *arrays)
