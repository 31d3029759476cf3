"""Tables of metrics, declared: Lyu 2025's Tables 1 to 3 and 5 to 7 for any study, and what belongs beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE, METRICS, MetricInfo, mean_over_attributes
from detector_bench.metrics.catalogue import OWN
from detector_bench.results.metric_lookup import (
    NOT_EVALUATED,
    MetricLookup,
    best_of,
    worst_of,
)
from detector_bench.tables.building import TableLayout, TableNumbers
from detector_bench.tables.declaration import declare_table
from detector_bench.tables.table import DASH, Cell, Column, MetricColumn, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    attributes_in_words,
    in_words,
    label_in_words,
    labels_notes,
    metric_heading,
    number_cell,
)
from detector_bench.vocabulary import GROUND_TRUTH, attribute_named

_FILTERING, _ACCURACY = "Filtering (%)", "Accuracy (%)"
_DEVIATION_WORDS = (
    "In parentheses: deviation from the ground truth; ↑ the detector overestimates the bias, ↓ it underestimates "
    "it. Bold: smallest deviation."
)
_SCORE = Column.of("model_bias_score", deviation="model_bias_score_deviation", full_shade=0.3)


def _of_filter_and_class(numbers: TableNumbers) -> list[MetricColumn]:
    columns = [
        *(Column.of(name, group=_FILTERING) for name in ("precision", "recall", "f1", "filter_rate")),
        Column.of("recall_<class>", group="Recall (%)"),
        Column.of("accuracy_<class>", group=_ACCURACY),
        Column.of("accuracy", heading="Overall", group=_ACCURACY, full_heading="Accuracy"),
    ]
    # Of two classes balanced accuracy says little that the accuracies of both do not say.
    if len(numbers.lookup.classes) > 2:
        columns.append(
            Column.of("balanced_accuracy", heading="Balanced", group=_ACCURACY, full_heading="Balanced accuracy")
        )
    return [*columns, *(_column_of_its_own(each) for each in _with_a_column(numbers))]


def _with_a_column(numbers: TableNumbers) -> list[MetricInfo]:
    """Metrics of somebody else's that ask for a column and have numbers."""
    lookup = numbers.lookup
    return [
        each
        for each in METRICS.values()
        if each.column
        and each.section == OWN
        and any(lookup.number(each.name, detector=name) != NOT_EVALUATED for name in lookup.detectors)
    ]


def _column_of_its_own(metric: MetricInfo) -> MetricColumn:
    heading = f"{metric.column} (%)" if metric.kind == "fraction" else metric.column
    return Column.of(metric.name, heading=heading, full_heading=metric.column)


def _with_definitions(table: Table, numbers: TableNumbers) -> Table:
    said = (f"{each.column}: {each.meaning}; {each.definition}." for each in _with_a_column(numbers))
    return replace(table, notes=(*table.notes, *(each.replace("`", "") for each in said)))


filtering_and_accuracy = declare_table(
    name="filtering_and_accuracy",
    caption="Filtering of low-quality images, and accuracy of perceived {attribute} on clear images, in per cent. "
    "Recall for each class is an addition to the paper. Bold: best value.",
    columns=_of_filter_and_class,
    finish=_with_definitions,
)
"""The paper's Table 3: how well each detector filters low-quality images and names the class of clear ones.

Filtering has clear images as the positive class; the filter rate is the share of low-quality images filtered out.
Accuracy is over images that humans and detector both call clear. Recall for each class is an addition to the
paper; so is, for attributes of three or more classes, balanced accuracy, the mean of the classes' accuracies.
"""

model_bias_scores = declare_table(
    name="model_bias_scores",
    caption=f"Model bias scores of perceived {{attribute}}. {_DEVIATION_WORDS}",
    rows=("judge",),
    columns=(_SCORE,),
    columns_for="t2i_model",
)
"""The paper's Table 1: each T2I model's bias by the human labels, and as each detector reports it.

A detector's cell holds the score (0 to 1) and its deviation from the ground truth in per cent of it, with an
arrow: up, the detector overestimates the bias. Bold: the smallest deviation of a T2I model.
"""

prompt_bias_score_difference = declare_table(
    name="prompt_bias_score_difference",
    caption="Prompt bias score difference of perceived {attribute}: mean distance between a detector's and the "
    "actual prompt bias score. A detector's score is divided by {denominator} (n_clear: {n_clear}). Bold: "
    "smallest difference.",
    columns=(Column.of("prompt_bias_score_difference"),),
    columns_for="t2i_model",
)
"""The paper's Table 2: how far a detector's prompt bias scores lie from the actual ones, on average; 0 is best."""

bias_errors = declare_table(
    name="bias_errors",
    caption="Bias errors of perceived {attribute} that do not move with the number of images. Prompt bias error: "
    "root mean square distance of a detector's prompt bias scores from the actual ones, without the part that "
    "chance adds; 0 is right. Model bias score error: reported minus actual score, both corrected for the number "
    "of images; above 0 the detector overestimates the bias. The published differences and deviations do move: "
    "the fewer images, the larger.",
    columns=(Column.of("prompt_bias_error"), Column.of("model_bias_score_error", full_shade=0.3)),
    columns_for="t2i_model",
    best=False,
    intervals="always",
)
"""How far each detector's prompt bias scores and model bias score are off, whatever the number of images.

What the report's verdict rests on. Nothing is bold: which detectors differ is a matter of tests (`compare`,
`rank`), not of the smallest number.
"""


def _with_average(table: Table, numbers: TableNumbers) -> Table:
    """Table 7's last column, its order, and its caption.

    The average is the plain mean of the row's scores, over the T2I models that have one; with a single T2I model
    there is none. Within a category, prompts are sorted by descending average, then by word.
    """
    if len(numbers.lookup.classes) != 2:
        return replace(table, rows=(), notes=("Only attributes of two classes have a signed score.",))
    categories = list(dict.fromkeys(category for category, _ in numbers.lookup.prompts))
    several = len(numbers.lookup.t2i_models) > 1
    rows = []
    for row, (category, prompt) in zip(table.rows, numbers.lookup.prompts, strict=True):
        present = [cell.value for cell in row.cells[2:] if cell.value is not None and not math.isnan(cell.value)]
        average = math.fsum(present) / len(present) if present else math.nan
        falling = -average if present else 0.0
        place = (categories.index(category), not present, falling, row.name.casefold(), prompt)
        cells = (*row.cells, number_cell(average, kind="score", decimals=2))
        rows.append((place, replace(row, cells=cells) if several else row))
    first, second = (label_in_words(label, in_sentence=True) for label in numbers.lookup.classes)
    ends = f"1, all clear images are {first}; \N{MINUS SIGN}1, all are {second}"
    return replace(
        table,
        caption=f"{table.caption.removesuffix('.')}: {ends}.",
        columns=(*table.columns, Column("average", "Average", full_shade=1)) if several else table.columns,
        rows=tuple(row for _, row in sorted(rows, key=lambda pair: pair[0])),
    )


prompt_bias_scores = declare_table(
    name="prompt_bias_scores",
    caption="Prompt bias scores of perceived {attribute} by the human labels.",
    rows=("prompt",),
    columns=(Column.of("prompt_bias_score", decimals=2, full_shade=1),),
    columns_for="t2i_model",
    intervals="never",
    finish=_with_average,
)
"""The paper's Table 7: the actual prompt bias score of every prompt and T2I model, and their average.

1: all clear images show the attribute's first class (male); -1: all show the second. Attributes of more than two
classes have no signed score: their table has no rows, and says so.
"""


def _of_labels(numbers: TableNumbers) -> list[MetricColumn]:
    lookup = numbers.lookup
    unlabelled = any(
        lookup.number("images_unlabelled", detector=GROUND_TRUTH, t2i_model=model).value > 0
        for model in lookup.t2i_models
    )
    shares = Column.of("label_share_<label>", group="Share (%)")
    if not unlabelled:
        return [shares, Column.of("images")]
    labelled = Column.of("images", heading="Labelled", group="Images")
    return [shares, labelled, Column.of("images_unlabelled", heading="Unlabelled", group="Images")]


label_shares = declare_table(
    name="label_shares",
    caption="Human labels of perceived {attribute}, in per cent of the labelled images.",
    rows=("t2i_model",),
    columns=_of_labels,
    total="Total",
)
"""The paper's Table 5: what the humans said about each T2I model's images.

`others` has a column of its own, even when it is empty. Images without a label are counted, where there are any.
"""


def _of_values(numbers: TableNumbers) -> list[MetricColumn]:
    unit = attribute_named(numbers.attribute).unit
    name = "" if unit is None else unit.name
    errors = {"mean_absolute_error": "Mean absolute", "mean_error": "Mean"}
    columns = [
        Column.of(metric, heading=heading, group=f"Error ({name})", full_heading=f"{heading} error ({name})")
        for metric, heading in errors.items()
    ]
    if _has(numbers, "cumulative_score_5"):
        columns.append(Column.of("cumulative_score_5", heading=f"Within 5 {name} (%)"))
    return columns


def _has(numbers: TableNumbers, metric: str) -> bool:
    own = numbers.metrics["attribute"] == numbers.attribute
    return bool((own & (numbers.metrics["metric"] == metric)).any())


measured_values = declare_table(
    name="measured_values",
    caption="Measured {attribute} against the humans', over images with both values. Positive mean errors: the "
    "detector's values are too high. Bold: best value.",
    columns=_of_values,
    when=lambda numbers: _has(numbers, "mean_absolute_error"),
)
"""How far each detector's measured values, such as ages in years, lie from the humans'.

Mean absolute error (lower is better) and mean error (closest to zero) in the attribute's unit; for age also the
cumulative score at 5 years, the share of images with an error of at most 5 years.
"""

model_bias_estimates = declare_table(
    name="model_bias_estimates",
    caption="Model bias scores of perceived {attribute}. As published: of these images. Corrected: without what "
    "chance adds, an estimate for endlessly many images. If fair: what a T2I model without bias would show on "
    "average with as many clear images.",
    rows=("judge",),
    columns=(
        Column.of("model_bias_score", heading="As published"),
        Column.of("model_bias_score_corrected", heading="Corrected"),
        Column.of("model_bias_score_if_fair", heading="If fair"),
    ),
    columns_for="t2i_model",
    intervals="always",
    when=lambda numbers: numbers.intervals,
)
"""Each T2I model's bias three ways, by the human labels and as each detector reports it, with intervals."""


def _several_categories(numbers: TableNumbers) -> bool:
    return len(numbers.lookup.categories) > 1


model_bias_scores_by_category = declare_table(
    name="model_bias_scores_by_category",
    caption=f"Model bias scores of perceived {{attribute}} by category of prompt. {_DEVIATION_WORDS}",
    rows=("t2i_model", "judge"),
    columns=(_SCORE,),
    columns_for="category",
    total="All",
    when=_several_categories,
)
"""The paper's Table 6: each T2I model's bias in each category of prompts, by the human labels; and, which the
paper does not print, as each detector reports it."""

accuracy_by_category = declare_table(
    name="accuracy_by_category",
    caption="Accuracy of perceived {attribute} by category of prompt, over images that humans and detector call "
    "clear, in per cent. Bold: best value.",
    columns=(Column.of("accuracy"),),
    columns_for="category",
    total="All",
    when=_several_categories,
)
"""How often each detector names the right class, category by category."""

filtering_and_accuracy_by_t2i_model = declare_table(
    name="filtering_and_accuracy_by_t2i_model",
    caption="Filtering of low-quality images, and accuracy of perceived {attribute} on clear images, in per cent, "
    "for each T2I model. Recall for each class is an addition to the paper. Bold: best value.",
    rows=("t2i_model", "detector"),
    columns=_of_filter_and_class,
    when=lambda numbers: len(numbers.lookup.t2i_models) > 1,
)
"""`filtering_and_accuracy`, one block of rows for each T2I model in place of one row over all images."""


def alignment_accuracy(
    metrics: pd.DataFrame,
    *,
    attributes: Sequence[str] = ("gender", "race", "age"),
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> Table:
    """BIGbench's Table 2 for any study: how often each detector names the right class, attribute by attribute.

    Right classes among human-clear images, in per cent; a filtered image counts as wrong, an error is left out.
    The mean weighs attributes alike, and is a dash where one of them is missing; it has no interval, as its parts
    share images.

    Args:
        metrics: a metric table (`vocabulary.columns.METRIC_COLUMNS`).
        attributes: the study's, in the order of the columns.
        max_error_share: see `TableNumbers.of_table`.
        intervals: also show each attribute's confidence interval.

    Raises:
        ConfigError: no attribute, no metrics of one of them, or `max_error_share` is no fraction.
    """
    if not attributes:
        raise ConfigError("alignment accuracy needs at least one attribute")
    lookups: dict[str, MetricLookup] = {}
    tables: dict[str, Table] = {}
    for name in attributes:
        numbers = TableNumbers.of_table(
            metrics, attribute=name, max_error_share=max_error_share, intervals=intervals
        )
        lookups[name] = numbers.lookup
        tables[name] = _ALIGNMENT.build(numbers)
    rows = tuple(_alignment_rows(tables, lookups))
    return Table(
        name="alignment_accuracy",
        caption=next(iter(tables.values())).caption,
        attribute=attributes_in_words(attributes),
        columns=(
            Column("detector", "Detector", kind="name"),
            *(replace(table.columns[1], key=name, heading=in_words(name)) for name, table in tables.items()),
            Column("mean", "Mean"),
        ),
        rows=rows,
        notes=(
            *(() if rows else ("No detector of this study judges any of these attributes.",)),
            *(note for lookup in lookups.values() for note in labels_notes(lookup)),
        ),
    )


_ALIGNMENT = TableLayout(
    name="alignment_accuracy",
    caption="Alignment accuracy in per cent: right classes among the images that humans call clear; filtered "
    "images count as wrong, images without a verdict are left out. Bold: best value.",
    columns=(Column.of("alignment_accuracy"),),
)
"""Of one attribute."""

_ITS_DASH = f"{DASH} for {metric_heading('alignment_accuracy').lower()}"


def _alignment_rows(tables: Mapping[str, Table], lookups: Mapping[str, MetricLookup]) -> Iterator[Row]:
    by_detector: dict[str, dict[str, Row]] = {}
    for attribute, table in tables.items():
        for row in table.rows:
            by_detector.setdefault(row.name, {})[attribute] = row
    means = {
        name: mean_over_attributes([_value(rows.get(attribute)) for attribute in tables])
        for name, rows in by_detector.items()
    }
    competing = {
        name: mean
        for name, mean in means.items()
        if not any(lookup.could_not_run(name) for lookup in lookups.values())
    }
    best, worst = (of(competing, metric="alignment_accuracy") for of in (best_of, worst_of))
    for name, rows in by_detector.items():
        notes = []
        for attribute in tables:
            said = attribute_in_words(attribute)
            if attribute not in rows:
                notes.append(f"{DASH} for {said}: the detector does not judge it")
            else:
                for note in rows[attribute].notes:
                    its = note.removeprefix(_ITS_DASH)
                    notes.append(f"{said}: {note}" if its == note else f"{DASH} for {said}{its}")
        if missing := [attribute_in_words(name) for name in tables if math.isnan(_value(rows.get(name)))]:
            notes.append(f"{DASH} for the mean: no alignment accuracy for {', '.join(missing)}")
        none = number_cell(math.nan, kind="fraction")
        cells = [rows[attribute].cells[1] if attribute in rows else none for attribute in tables]
        mean = number_cell(means[name], kind="fraction", bold=name in best, worst=name in worst)
        yield Row(name, (Cell(name), *cells, mean), tuple(notes))


def _value(row: Row | None) -> float:
    value = None if row is None else row.cells[1].value
    return math.nan if value is None else value
