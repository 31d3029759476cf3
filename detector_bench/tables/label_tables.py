"""Tables of how sure the human labels are: agreement of annotators, and what other labels would change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pandas as pd

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.evaluation.agreement import ALL_ANNOTATORS, DETECTOR_AND_HUMAN, TWO_ANNOTATORS
from detector_bench.evaluation.label_doubt import MIN_SHARE
from detector_bench.metrics import HEADLINE_METRICS, metric_info
from detector_bench.metrics.agreement import LEVEL
from detector_bench.results.metric_lookup import (
    NOT_EVALUATED,
    LabelDoubtLookup,
    MetricLookup,
    Number,
)
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    label_in_words,
    metric_cell,
    metric_heading,
    number_cell,
    per_cent_cell,
    score_cell,
    whole,
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


def annotator_agreement(agreement: pd.DataFrame, *, attribute: str = "gender", level: float = LEVEL) -> Table:
    """All annotators together: over everything, for each T2I model, category and label.

    Args:
        agreement: columns as in `evaluation.agreement.AGREEMENT_COLUMNS`.
        attribute: one of the vocabulary's, such as gender.
        level: of the intervals, if there are any.
    """
    rows = agreement[(agreement["raters"] == ALL_ANNOTATORS) & (agreement["attribute"] == attribute)]
    everywhere = (rows["t2i_model"] == ALL) & (rows["category"] == ALL)
    shown = rows[(rows["label"] == ALL) | (everywhere & rows["label"].isin(_labels_in_use(rows)))]
    statistics = [name for name in _STATISTICS if name in set(shown["statistic"])]
    table_rows = []
    for (model, category, label), numbers in shown.groupby(["t2i_model", "category", "label"], sort=False):
        of = numbers.set_index("statistic")
        cells = [_cell(name, cast("pd.Series[Any]", of.loc[name])) for name in statistics]
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
            f". By label: that label against all others.{_in_brackets(shown, level)}"
        ),
        attribute=attribute,
        columns=(
            Column("scope", "Scope", kind="name"),
            Column("name", "Name", kind="name"),
            *(Column(name, _STATISTICS[name], has_intervals=name in _CHANCE_CORRECTED) for name in statistics),
            Column("images", "Images"),
        ),
        rows=tuple(table_rows),
        notes=_undefined_note(shown)
        if table_rows
        else ("One annotator, or none: there is nobody to agree with.",),
        grouped=True,
    )


def pair_agreement(agreement: pd.DataFrame, *, attribute: str = "gender", level: float = LEVEL) -> Table:
    """Every two annotators, and every detector with every human; Cohen's kappa over all labels and for each.

    Args:
        agreement: columns as in `evaluation.agreement.AGREEMENT_COLUMNS`.
        attribute: one of the vocabulary's, such as gender.
        level: of the intervals, if there are any.
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
        agreed = of.loc[(ALL, "percent_agreement")]
        kappas = (
            _cell("cohen_kappa", of.loc[(ALL, "cohen_kappa")]),
            *(score_cell(float(of.loc[(label, "cohen_kappa"), "value"])) for label in labels),
        )
        names = (Cell(first), Cell("consensus" if second == GROUND_TRUTH else second, key=second))
        cells = (_cell("percent_agreement", agreed), *kappas, count_cell(float(agreed["n"])))
        table_rows.append(Row(f"{first} and {names[1].text}", (*names, *cells)))
    more = len(pairs) - len(table_rows)
    undefined = _undefined_note(rows[rows["label"].isin([ALL, *labels])])
    return Table(
        name="pair_agreement",
        caption=(
            f"Agreement of two raters on perceived {attribute_in_words(attribute)}"
            ": annotators among themselves, and detectors with "
            "humans (a filtered image counts as low-quality). By label: that label against all others."
            f"{_in_brackets(rows, level)}"
        ),
        attribute=attribute,
        columns=(
            Column("first", "First", kind="name"),
            Column("second", "Second", kind="name"),
            Column("percent_agreement", _STATISTICS["percent_agreement"]),
            Column("cohen_kappa", "All labels", group="Cohen's κ", full_heading="Cohen's κ", has_intervals=True),
            *(Column(f"cohen_kappa_{label}", label_in_words(label), group="Cohen's κ") for label in labels),
            Column("images", "Images"),
        ),
        rows=tuple(table_rows),
        notes=(f"{more} further pairs are in the CSV file only.", *undefined) if more else undefined,
        grouped=True,
    )


def _labels_in_use(rows: pd.DataFrame) -> list[str]:
    """The labels of which some kappa is defined: the others were given by nobody, or by everybody."""
    defined = rows[rows["statistic"].isin(_CHANCE_CORRECTED) & rows["value"].notna()]
    return [label for label in pd.unique(rows["label"]) if label != ALL and label in set(defined["label"])]


def _undefined_note(rows: pd.DataFrame) -> tuple[str, ...]:
    return (_UNDEFINED,) if rows["value"].isna().any() else ()


def _cell(statistic: str, row: pd.Series[Any]) -> Cell:
    value = float(row["value"])
    if statistic not in _CHANCE_CORRECTED:
        return per_cent_cell(value)
    return number_cell(value, kind="score", limits=(float(row["ci_low"]), float(row["ci_high"])))


def _in_brackets(rows: pd.DataFrame, level: float) -> str:
    return f" In brackets: {100 * level:g} % interval." if rows["ci_low"].notna().any() else ""


def _scope_name(model: str, category: str, label: str) -> tuple[str, str]:
    if label != ALL:
        return "Label", label_in_words(label)
    if model != ALL:
        return "T2I model", model
    return ("Category", category) if category != ALL else ("Everything", "")


_GROUP = "Labelled by"
_IN_WORDS = {ALL_AGREE: "All agree", DAWID_SKENE: "Dawid-Skene"}
_ESTIMATED = (
    "Dawid-Skene: by the likeliest true labels, if annotators err independently of each other given the truth; "
    "not part of the band."
)


@makes_table("label_doubt")
def label_doubt_table(numbers: TableNumbers) -> Table | None:
    """What the headline numbers would be by other labels, beside their intervals.

    One row per metric, detector and, for bias scores, T2I model: the consensus's number with its interval; each
    annotator's; the one where all annotators agree; and from the lowest to the highest of them. None where fewer
    than two people labelled an image, or the study does not know.
    """
    if numbers.label_doubt is None:
        return None
    consensus, attribute = numbers.lookup, numbers.attribute
    others = LabelDoubtLookup.of_table(
        numbers.label_doubt, attribute=attribute, max_error_share=consensus.max_error_share
    )
    if not others.by_labels:
        return None
    names = [Column("metric", "Metric", kind="name"), Column("detector", "Detector", kind="name")]
    if len(consensus.t2i_models) > 1:
        names.append(Column("t2i_model", "T2I model", kind="name"))
    return Table(
        name="label_doubt",
        caption=(
            f"Doubt in the labels of perceived {attribute_in_words(attribute)}: what the numbers would be, had "
            "other labels been the truth. In brackets: confidence interval. Band: from the lowest to the highest "
            "of consensus, annotators, and images on which all of them agree."
        ),
        attribute=attribute,
        columns=(
            *names,
            Column("consensus", "Consensus", group=_GROUP, full_heading="Consensus", has_intervals=True),
            *(_column(name) for name in others.by_labels),
            Column("lowest", "from", group="Band", full_heading="Band from"),
            Column("highest", "to", group="Band", full_heading="Band to"),
        ),
        rows=tuple(_rows(consensus, others)),
        notes=(*consensus.notes, *_notes(consensus, others)),
        grouped=True,
    )


def _column(labelled_by: str) -> Column:
    heading = _IN_WORDS.get(labelled_by, labelled_by)
    full = heading if labelled_by in _IN_WORDS else f"Labelled by {labelled_by}"
    return Column(labelled_by, heading, group=_GROUP, full_heading=full)


def _rows(consensus: MetricLookup, others: LabelDoubtLookup) -> Iterator[Row]:
    several = len(consensus.t2i_models) > 1
    to_be_noted = set(consensus.detectors)  # once, though a detector has many rows
    for metric in HEADLINE_METRICS:
        over_prompts = metric_info(metric).counted == "prompts"
        for detector in consensus.detectors:
            for model in consensus.t2i_models if over_prompts else (ALL,):
                cells = _cells(metric, consensus, others, detector=detector, t2i_model=model)
                if cells is None:
                    continue
                names = [Cell(metric_heading(metric), key=metric), Cell(detector)]
                if several:
                    names.append(Cell("all" if model == ALL else model, key=model))
                notes: list[str] = []
                if detector in to_be_noted:
                    to_be_noted.remove(detector)
                    notes = consensus.no_verdict_notes(detector, consensus.t2i_models)
                yield Row(detector, (*names, *cells), tuple(notes))


def _cells(
    metric: str, consensus: MetricLookup, others: LabelDoubtLookup, *, detector: str, t2i_model: str
) -> list[Cell] | None:
    """The row's numbers; None where the metric table does not have the metric."""
    place = {"detector": detector, "t2i_model": t2i_model, "n_clear": consensus.n_clear}
    found = consensus.number(metric, **place)
    if found is NOT_EVALUATED:
        return None
    by_labels: Sequence[Number] = [others.number(metric, labelled_by=name, **place) for name in others.by_labels]
    band: Sequence[float] = others.band(metric, found, **place)
    if consensus.is_withheld(metric, detector=detector, t2i_model=t2i_model):
        found, by_labels = NOT_EVALUATED, [NOT_EVALUATED] * len(by_labels)
        band = (NOT_EVALUATED.value, NOT_EVALUATED.value)
    # Every number with the decimals that stand beside an interval, so that neighbours compare.
    values = (*(each.value for each in by_labels), *band)
    limits = [(found.ci_low, found.ci_high), *[(math.nan, math.nan)] * len(values)]
    return [
        metric_cell(value, metric, limits=each) for value, each in zip((found.value, *values), limits, strict=True)
    ]


def _notes(consensus: MetricLookup, others: LabelDoubtLookup) -> Iterator[str]:
    lookups = {"consensus": consensus} | {
        _IN_WORDS.get(name, name): each for name, each in others.by_labels.items()
    }
    images = [
        f"{name} {whole(lookup.number('images', detector=GROUND_TRUTH).value)}" for name, lookup in lookups.items()
    ]
    yield f"Images: {', '.join(images)}."
    yield "Nobody's labels are the truth; images on which all agree are the easy ones."
    yield f"An annotator who labelled less than {100 * MIN_SHARE:.0f} % of the labelled images has no column."
    if DAWID_SKENE in others.by_labels:
        yield _ESTIMATED
