"""The tables of `compare` and `rank`: two detectors test by test, and all detectors in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from detector_bench.evaluation.comparison import CLASSIFICATION, FILTERING, PairedTest
from detector_bench.evaluation.interval_names import is_share
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.report.table import DASH, Cell, Column, Row, Table
from detector_bench.report.wording import attribute_in_words, fixed, per_cent_cell, score_cell, with_interval

_HEADINGS = {
    FILTERING: "Filtering, images judged rightly (%)",
    CLASSIFICATION: "Class, images judged rightly (%)",
    "f1": "F1 (%)",
    "filter_rate": "Filter rate (%)",
    "accuracy": "Accuracy (%)",
    "precision": "Precision (%)",
    "recall": "Recall (%)",
    "model_bias_score_deviation": "Model bias score deviation (%)",
    "prompt_bias_score_difference": "Prompt bias score difference",
}
_SMALLEST_PRINTED = 0.001


def comparison(
    tests: Sequence[PairedTest], first: str, second: str, *, attribute: str, level: float, about: str = ""
) -> Table:
    """Two detectors on the same images, test by test.

    Args:
        tests: as `evaluation.comparison.compare_detectors` gives them.
        first: a detector's name.
        second: the other's.
        attribute: gender, age or race.
        level: of the intervals; p-values below 1 - level are bold.
        about: a further note, such as what was drawn.
    """
    columns = (
        Column("metric", "Compared", kind="name"),
        Column("first", first),
        Column("second", second),
        Column("difference", "Difference", has_intervals=True),
        Column("only_first", f"Only {first} right"),
        Column("only_second", f"Only {second} right"),
        Column("p_value", "p"),
        Column("p_holm", "p (Holm)"),
    )
    return Table(
        name="comparison",
        caption=(
            f"{first} and {second} on the same images, perceived {attribute_in_words(attribute)}"
            f". Difference: {first} minus {second}, "
            f"with its {100 * level:g} % interval. Images judged rightly: McNemar's exact test; metrics: paired "
            f"bootstrap. Bold: significant after Holm's adjustment for all {len(tests)} tests."
        ),
        attribute=attribute,
        columns=columns,
        rows=tuple(_test_row(test, level=level) for test in tests),
        notes=(about,) if about else (),
    )


def ranking(
    ranked: Sequence[RankedDetector], *, metrics: Sequence[str], attribute: str, level: float, about: str = ""
) -> Table:
    """All detectors in order, with the doubt that belongs to it.

    Args:
        ranked: as `evaluation.ranking.rank_detectors` gives them.
        metrics: by which they were ranked.
        attribute: gender, age or race.
        level: of the intervals.
        about: a further note, such as what was drawn.
    """
    if len(metrics) == 1:
        by, heading = _HEADINGS[metrics[0]], _HEADINGS[metrics[0]]
    else:
        by, heading = "the mean of their ranks by " + ", ".join(metrics), "Mean rank"
    return Table(
        name="ranking",
        caption=(
            f"Detectors of perceived {attribute_in_words(attribute)}"
            f" by {by}. In brackets: {100 * level:g} % interval of the rank. "
            "Detectors with a letter in common cannot be told apart (paired bootstrap, Holm)."
        ),
        attribute=attribute,
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("rank", "Rank", has_intervals=True),
            Column("score", heading),
            Column("probability_best", "Best in (%)"),
            Column("groups", "Group", kind="name"),
        ),
        rows=tuple(_rank_row(each, metrics=metrics) for each in ranked),
        notes=(about,) if about else (),
    )


def _test_row(test: PairedTest, *, level: float) -> Row:
    per_cent = test.metric != "prompt_bias_score_difference"
    value = _number if per_cent else score_cell
    difference = with_interval(value(test.difference), test.ci_low, test.ci_high, per_cent=per_cent)
    significant = test.p_holm < 1 - level
    heading = _HEADINGS[test.metric]
    notes = ("no test: one of the two has no value",) if math.isnan(test.p_value) else ()
    cells = (
        Cell(heading, key=test.metric),
        value(test.first),
        value(test.second),
        difference,
        _images(test.only_first),
        _images(test.only_second),
        _p_cell(test.p_value),
        _p_cell(test.p_holm, bold=significant),
    )
    return Row(heading, cells, notes)


def _rank_row(ranked: RankedDetector, *, metrics: Sequence[str]) -> Row:
    one = metrics[0] if len(metrics) == 1 else ""
    per_cent = is_share(one) or one == "model_bias_score_deviation"
    score = per_cent_cell(ranked.score) if per_cent else score_cell(ranked.score, decimals=3 if one else 2)
    rank = Cell(
        f"{ranked.rank:g}",
        value=ranked.rank,
        ci_low=ranked.rank_low,
        ci_high=ranked.rank_high,
        interval_text=f"[{ranked.rank_low:g}, {ranked.rank_high:g}]",
    )
    best = Cell(fixed(100 * ranked.probability_best, decimals=1), value=ranked.probability_best)
    cells = (Cell(ranked.detector), rank, score, best, Cell(ranked.groups))
    notes = ("no value, so it comes last",) if math.isnan(ranked.score) else ()
    return Row(ranked.detector, cells, notes)


def _number(value: float) -> Cell:
    return Cell(fixed(100 * value, decimals=1), value=value)


def _images(count: int) -> Cell:
    return Cell("", value=math.nan) if count < 0 else Cell(str(count), value=count)


def _p_cell(p_value: float, *, bold: bool = False) -> Cell:
    if math.isnan(p_value):
        return Cell(DASH, value=p_value)
    text = f"< {_SMALLEST_PRINTED}" if p_value < _SMALLEST_PRINTED else fixed(p_value, decimals=3)
    return Cell(text, value=p_value, bold=bold)
