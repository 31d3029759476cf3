"""Tables of agreement between annotators, and between detectors and humans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from detector_bench.evaluation.agreement import ALL_ANNOTATORS, DETECTOR_AND_HUMAN, TWO_ANNOTATORS
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    in_words,
    per_cent_cell,
    score_cell,
    whole,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_STATISTICS = {
    "percent_agreement": "Agreement (%)",
    "cohen_kappa": "Cohen's κ",
    "fleiss_kappa": "Fleiss' κ",
    "krippendorff_alpha": "Krippendorff's \N{GREEK SMALL LETTER ALPHA}",
}
_MOST_ROWS = 60
_UNDEFINED = f"{DASH}: undefined, because only one label was given, or no image has two labels."
_CHANCE_CORRECTED = ("cohen_kappa", "fleiss_kappa", "krippendorff_alpha")


class DeskAgreement(NamedTuple):
    """Agreement of some annotators on the images of a T2I model and a category; either may be "all"."""

    annotators: str
    t2i_model: str
    category: str
    kappa: float
    """NaN where it is undefined."""
    low: float
    high: float
    equal: float
    """Share of equal labels, 0 to 1."""
    images: int


def annotator_agreement(agreement: pd.DataFrame, *, attribute: str = "gender") -> Table:
    """All annotators together: over everything, for each T2I model, category and label.

    Args:
        agreement: columns as in `evaluation.agreement.AGREEMENT_COLUMNS`.
        attribute: one of the vocabulary's, such as gender.
    """
    rows = agreement[(agreement["raters"] == ALL_ANNOTATORS) & (agreement["attribute"] == attribute)]
    everywhere = (rows["t2i_model"] == ALL) & (rows["category"] == ALL)
    shown = rows[(rows["label"] == ALL) | (everywhere & rows["label"].isin(_labels_in_use(rows)))]
    statistics = [name for name in _STATISTICS if name in set(shown["statistic"])]
    table_rows = []
    for (model, category, label), numbers in shown.groupby(["t2i_model", "category", "label"], sort=False):
        of = numbers.set_index("statistic")
        values = of["value"].astype(float).to_dict()
        cells = [_cell(name, values[name]) for name in statistics]
        name = _scope_name(str(model), str(category), str(label))
        images = of["n"].max()
        fleiss = of["n"].get("fleiss_kappa", images)
        different = f"Fleiss' κ on {whole(float(fleiss))} images with equally many labels"
        notes = (different,) if fleiss < images else ()
        table_rows.append(Row(": ".join(name), (*map(Cell, name), *cells, count_cell(float(images))), notes))
    return Table(
        name="annotator_agreement",
        caption=(
            f"Agreement of the annotators on perceived {attribute_in_words(attribute)}"
            ". By label: that label against all others."
        ),
        attribute=attribute,
        columns=(
            Column("scope", "Scope", kind="name"),
            Column("name", "Name", kind="name"),
            *(Column(name, _STATISTICS[name]) for name in statistics),
            Column("images", "Images"),
        ),
        rows=tuple(table_rows),
        notes=_undefined_note(shown)
        if table_rows
        else ("One annotator, or none: there is nobody to agree with.",),
        grouped=True,
    )


def pair_agreement(agreement: pd.DataFrame, *, attribute: str = "gender") -> Table:
    """Every two annotators, and every detector with every human; Cohen's kappa over all labels and for each.

    Args:
        agreement: columns as in `evaluation.agreement.AGREEMENT_COLUMNS`.
        attribute: one of the vocabulary's, such as gender.
    """
    rows = agreement[
        agreement["raters"].isin([TWO_ANNOTATORS, DETECTOR_AND_HUMAN])
        & (agreement["attribute"] == attribute)
        & (agreement["t2i_model"] == ALL)
        & (agreement["category"] == ALL)
    ]
    pairs = list(dict.fromkeys(zip(rows["first"], rows["second"], strict=True)))
    numbers = rows.set_index(["first", "second", "label", "statistic"]).sort_index()
    labels = _labels_in_use(rows)
    table_rows = []
    for first, second in pairs[:_MOST_ROWS]:
        of = numbers.loc[(first, second)]
        kappas = [float(of.loc[(label, "cohen_kappa"), "value"]) for label in (ALL, *labels)]
        agreed = of.loc[(ALL, "percent_agreement")]
        names = (Cell(first), Cell("consensus" if second == GROUND_TRUTH else second, key=second))
        cells = (per_cent_cell(float(agreed["value"])), *map(score_cell, kappas), count_cell(float(agreed["n"])))
        table_rows.append(Row(f"{first} and {names[1].text}", (*names, *cells)))
    more = len(pairs) - len(table_rows)
    undefined = _undefined_note(rows[rows["label"].isin([ALL, *labels])])
    return Table(
        name="pair_agreement",
        caption=(
            f"Agreement of two raters on perceived {attribute_in_words(attribute)}"
            ": annotators among themselves, and detectors with "
            "humans (a filtered image counts as low-quality). By label: that label against all others."
        ),
        attribute=attribute,
        columns=(
            Column("first", "First", kind="name"),
            Column("second", "Second", kind="name"),
            Column("percent_agreement", _STATISTICS["percent_agreement"]),
            Column("cohen_kappa", "All labels", group="Cohen's κ", full_heading="Cohen's κ"),
            *(Column(f"cohen_kappa_{label}", in_words(label), group="Cohen's κ") for label in labels),
            Column("images", "Images"),
        ),
        rows=tuple(table_rows),
        notes=(f"{more} further pairs are in the CSV file only.", *undefined) if more else undefined,
        grouped=True,
    )


def desk_agreement(agreement: Sequence[DeskAgreement], *, attribute: str) -> Table:
    """The labelling desk's numbers: all annotators together and every two of them, over everything and by scope.

    Args:
        agreement: in the order in which they are to be read.
        attribute: what was asked for.
    """
    rows = []
    for each in agreement:
        name = _scope_name(each.t2i_model, each.category, ALL)
        kappa = with_interval(score_cell(each.kappa), each.low, each.high)
        cells = (Cell(each.annotators), *map(Cell, name), kappa, per_cent_cell(each.equal))
        rows.append(Row(f"{each.annotators}, {': '.join(name)}", (*cells, count_cell(float(each.images)))))
    undefined = any(math.isnan(each.kappa) for each in agreement)
    return Table(
        name="desk_agreement",
        caption=(
            f"Agreement of the annotators on perceived {attribute_in_words(attribute)}, as they labelled on their "
            "own. κ: Cohen's of two annotators, Fleiss' of more. In brackets: 95 % interval."
        ),
        attribute=attribute,
        columns=(
            Column("annotators", "Annotators", kind="name"),
            Column("scope", "Scope", kind="name"),
            Column("name", "Name", kind="name"),
            Column("kappa", "κ", has_intervals=True),
            Column("percent_agreement", _STATISTICS["percent_agreement"]),
            Column("images", "Images"),
        ),
        rows=tuple(rows),
        notes=(_UNDEFINED,) if undefined else (),
        grouped=True,
    )


def _labels_in_use(rows: pd.DataFrame) -> list[str]:
    """The labels of which some kappa is defined: the others were given by nobody, or by everybody."""
    defined = rows[rows["statistic"].isin(_CHANCE_CORRECTED) & rows["value"].notna()]
    return [label for label in pd.unique(rows["label"]) if label != ALL and label in set(defined["label"])]


def _undefined_note(rows: pd.DataFrame) -> tuple[str, ...]:
    return (_UNDEFINED,) if rows["value"].isna().any() else ()


def _cell(statistic: str, value: float) -> Cell:
    return per_cent_cell(value) if statistic == "percent_agreement" else score_cell(value)


def _scope_name(model: str, category: str, label: str) -> tuple[str, str]:
    if label != ALL:
        return "Label", in_words(label)
    if model != ALL:
        return "T2I model", model
    return ("Category", category) if category != ALL else ("Everything", "")
