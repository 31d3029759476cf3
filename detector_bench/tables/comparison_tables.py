"""The tables of `compare` and `rank`: two detectors test by test, and all detectors in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from detector_bench.evaluation.comparison import (
    CLASSIFICATION_RIGHT,
    FILTERING_RIGHT,
    PairedImages,
    PairedTest,
)
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.metrics import METRICS
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, fixed, per_cent_cell, score_cell, with_interval

_JUDGED_RIGHTLY = {FILTERING_RIGHT: "Filtering", CLASSIFICATION_RIGHT: "Class"}
_SMALLEST_PRINTED = 0.001


def comparison(
    tests: Sequence[PairedTest], first: str, second: str, *, attribute: str, level: float, about: str = ""
) -> Table:
    """Two detectors on the same images, metric by metric.

    Args:
        tests: of an `evaluation.comparison.ComparisonFamily`.
        first: a detector's name.
        second: the other's.
        attribute: whose verdicts these are.
        level: that all intervals of the family hold together.
        about: a further note, such as how many tests the family has.
    """
    return Table(
        name="comparison",
        caption=(
            f"{first} and {second} on the same images, perceived {attribute_in_words(attribute)}. Difference: "
            f"{first} minus {second}, of deviations their sizes; with simultaneous {100 * level:g} % intervals, "
            "and p-values adjusted for all tests named below. Bold: told apart."
        ),
        attribute=attribute,
        columns=(
            Column("metric", "Compared", kind="name"),
            Column("first", first),
            Column("second", second),
            Column("difference", "Difference", has_intervals=True),
            Column("p_value", "p"),
        ),
        rows=tuple(_test_row(test) for test in tests),
        notes=(about,) if about else (),
    )


def images_judged_rightly(images: Sequence[PairedImages], first: str, second: str, *, attribute: str) -> Table:
    """The images that only one of two detectors judges rightly.

    Args:
        images: as `evaluation.comparison.images_judged_differently` gives them.
        first: a detector's name.
        second: the other's.
        attribute: whose verdicts these are.
    """
    return Table(
        name="images_judged_rightly",
        caption=(
            f"Images that only {first} or only {second} judges rightly, perceived "
            f"{attribute_in_words(attribute)}. p: McNemar's exact test, as if it were the only one; no conclusion "
            "rests on it."
        ),
        attribute=attribute,
        columns=(
            Column("share", "Judged rightly", kind="name"),
            Column("first", f"{first} (%)"),
            Column("second", f"{second} (%)"),
            Column("only_first", f"Only {first}"),
            Column("only_second", f"Only {second}"),
            Column("p_value", "p (McNemar)"),
        ),
        rows=tuple(_images_row(each) for each in images),
    )


def ranking_table(
    ranked: Sequence[RankedDetector], *, metric: str, attribute: str, level: float, about: str = ""
) -> Table:
    """All detectors in order by one metric, with the doubt that belongs to it.

    Args:
        ranked: as `evaluation.ranking.ranking` gives them.
        metric: by which they were ranked.
        attribute: whose verdicts these are.
        level: that all sets of ranks hold together.
        about: a further note, such as how many tests were made.
    """
    heading = METRICS[metric].heading
    return Table(
        name=f"ranking_{metric}",
        caption=(
            f"Detectors of perceived {attribute_in_words(attribute)} by {heading.removesuffix(' (%)')}. In "
            f"brackets: the ranks that the images leave open, all of them together at {100 * level:g} %. "
            "Detectors with a letter in common cannot be told apart."
        ),
        attribute=attribute,
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("rank", "Rank", has_intervals=True),
            Column("score", heading),
            Column("groups", "Group", kind="name"),
        ),
        rows=tuple(_rank_row(each, metric=metric) for each in ranked),
        notes=(about,) if about else (),
    )


def _is_per_cent(metric: str) -> bool:
    return METRICS[metric].kind == "fraction"


def _test_row(test: PairedTest) -> Row:
    per_cent, heading = _is_per_cent(test.metric), METRICS[test.metric].heading
    value = per_cent_cell if per_cent else score_cell
    cells = (
        Cell(heading, key=test.metric),
        value(test.first),
        value(test.second),
        with_interval(value(test.difference), test.ci_low, test.ci_high, per_cent=per_cent),
        _p_cell(test.p_value, bold=test.told_apart),
    )
    return Row(heading, cells, ("no test: one of the two has no value",) if math.isnan(test.p_value) else ())


def _images_row(images: PairedImages) -> Row:
    heading = _JUDGED_RIGHTLY[images.share]
    cells = (
        Cell(heading, key=images.share),
        per_cent_cell(images.first),
        per_cent_cell(images.second),
        Cell(str(images.only_first), value=images.only_first),
        Cell(str(images.only_second), value=images.only_second),
        _p_cell(images.p_value),
    )
    return Row(heading, cells, ("no image to judge",) if math.isnan(images.p_value) else ())


def _rank_row(ranked: RankedDetector, *, metric: str) -> Row:
    score = per_cent_cell(ranked.score) if _is_per_cent(metric) else score_cell(ranked.score)
    rank = Cell(
        f"{ranked.rank:g}",
        value=ranked.rank,
        ci_low=ranked.rank_low,
        ci_high=ranked.rank_high,
        interval_text=f"[{ranked.rank_low}, {ranked.rank_high}]",
    )
    cells = (Cell(ranked.detector), rank, score, Cell(ranked.groups))
    return Row(ranked.detector, cells, ("no value, so it comes last",) if math.isnan(ranked.score) else ())


def _p_cell(p_value: float, *, bold: bool = False) -> Cell:
    if math.isnan(p_value):
        return Cell(DASH, value=p_value)
    text = f"< {_SMALLEST_PRINTED}" if p_value < _SMALLEST_PRINTED else fixed(p_value, decimals=3)
    return Cell(text, value=p_value, bold=bold)
