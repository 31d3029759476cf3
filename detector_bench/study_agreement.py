"""How far annotators and detectors agree: of a study, of an image set, and of the labelling desk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from detector_bench.dataset import ImageSet
from detector_bench.evaluation.agreement import DEFAULT_MIN_SHARED, agreement_of_given
from detector_bench.evaluation.agreement import agreement as measure_agreement
from detector_bench.labelling import LabelStore
from detector_bench.metrics.agreement import LEVEL
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study_questions import ResultTables
from detector_bench.tables.label_tables import annotator_agreement, pair_agreement


def agreement(part: FinishedStudy, *, min_shared: int = DEFAULT_MIN_SHARED) -> ResultTables:
    """How far annotators and detectors agree; see `Results.agreement`."""
    part.need_labels()
    if min_shared == DEFAULT_MIN_SHARED:
        rows = part.rows("agreement")
    else:
        rows = measure_agreement(
            part.image_set,
            part.predictions,
            attribute=part.attribute,
            min_shared=min_shared,
            intervals=part.intervals,
        )
    return _tables(
        rows,
        part.results.study,
        attribute=part.attribute,
        min_shared=min_shared,
        level=part.intervals.level,
    )


def annotators_agreement(
    image_set: Path | str, *, attribute: str | None = None, min_shared: int = DEFAULT_MIN_SHARED
) -> ResultTables:
    """How far annotators of an image set agree, before any detector has run; see `Results.agreement`.

    Args:
        image_set: its folder; images without labels may be among its images.
        attribute: None: gender.
        min_shared: pairs with fewer images in common are left out.
    """
    name = attribute or "gender"
    images = ImageSet.load(image_set)
    rows = measure_agreement(images, attribute=name, min_shared=min_shared)
    return _tables(rows, {}, attribute=name, min_shared=min_shared)


def desk_agreement(store: LabelStore) -> ResultTables:
    """How far the annotators of a labelling desk agree so far, on each question, as they labelled on their own.

    Pairs have a row from the first image that both have labelled: at a desk, nobody meets by chance. Of several
    questions, the tables bear the name of theirs.
    """
    said: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for one in store.given(independent=True):
        said[one.question][one.annotator][one.item.item_id] = one.choice.label
    tables, numbers, notes = {}, [], []
    for question in store.questions:
        if len(said[question.name]) < 2:
            notes.append(f"{question.name}: fewer than two annotators have labelled: there is nothing to compare")
            continue
        rows = agreement_of_given(
            store.image_set, said[question.name], attribute=question.name, labels=question.labels
        )
        found = _tables(rows, {}, attribute=question.name, min_shared=1)
        ending = f"_{question.name}" if len(store.questions) > 1 else ""
        for name, table in found.tables.items():
            tables[name + ending] = replace(table, name=name + ending)
        numbers.append(rows)
    if numbers:
        notes.append(
            "Labels as people gave them on their own, without what was revised or decided after a discussion."
        )
    return ResultTables(
        tables, {"agreement": pd.concat(numbers, ignore_index=True)} if numbers else {}, tuple(notes)
    )


def _tables(
    rows: pd.DataFrame, style: Mapping[str, Any], *, attribute: str, min_shared: int, level: float = LEVEL
) -> ResultTables:
    tables = [build(rows, attribute=attribute, level=level) for build in (annotator_agreement, pair_agreement)]
    images = "an image" if min_shared == 1 else f"{min_shared} images or more"
    note = f"Two raters have a row if they share {images}."
    if rows.empty:
        note = f"No two raters of {attribute} share {min_shared} images: there is nothing to compare."
    return ResultTables.of(style, *tables, numbers={"agreement": rows}, notes=(note,))
