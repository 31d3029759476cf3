"""Tables of what T2I models refused, beside what is low-quality, and of how far that could move a bias score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from detector_bench.metrics import LABEL_SHARE
from detector_bench.metrics.refusals import GENERATION_ERROR_RATE, IF_REFUSED_HIGH, IF_REFUSED_LOW, REFUSAL_RATE
from detector_bench.results.metric_lookup import NOT_EVALUATED, MetricLookup, Number
from detector_bench.results.request_numbers import request_lookup, rows_of_requests
from detector_bench.tables.building import TableLayout, TableNumbers
from detector_bench.tables.declaration import makes_table
from detector_bench.tables.estimate_tables import ESTIMATORS
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, number_cell
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY
from detector_bench.vocabulary.columns import PREDICTION_POWERED

_COUNTS = {
    "requests_made": "Made",
    "requests_blocked": "Refused",
    "requests_error": "Failed",
    "requests_waiting": "Waiting",
}
_RATES = (REFUSAL_RATE, GENERATION_ERROR_RATE)
_METRICS = (*_COUNTS, *_RATES)
_LOW_QUALITY = f"{LABEL_SHARE}{LOW_QUALITY}"
_RATE_WORDS = (
    "Refusal rate: refused among answered requests; error rate: failed among those that came to an end. What "
    "waits is in neither."
)


@makes_table("refusals", needs_labels=False)
def refusals(numbers: TableNumbers) -> Table | None:
    """Each T2I model's requests: made, refused, failed, waiting, with rates; low-quality images beside them."""
    lookup = request_lookup(numbers.metrics)
    if lookup is None:
        return None
    low_quality = _low_quality(numbers) if numbers.lookup.has_labels else None
    names = [*lookup.t2i_models, *([ALL] if len(lookup.t2i_models) > 1 else [])]
    shown = numbers.intervals
    columns = (
        Column("t2i_model", "T2I model", kind="name"),
        *(
            Column(name, heading, group="Requests", full_heading=f"{heading} requests")
            for name, heading in _COUNTS.items()
        ),
        Column(REFUSAL_RATE, "Refusal rate (%)", has_intervals=shown),
        Column(GENERATION_ERROR_RATE, "Error rate (%)", has_intervals=shown),
        *([] if low_quality is None else [Column(_LOW_QUALITY, "Low-quality (%)", has_intervals=shown)]),
    )
    shares = None if low_quality is None else {name: low_quality.get(name, NOT_EVALUATED) for name in names}
    rows = tuple(
        _row(lookup, name, None if shares is None else shares[name], numbers, intervals=shown) for name in names
    )
    whose = attribute_in_words(numbers.attribute)
    of_images = f" Low-quality: of the images, by {_judge(numbers)} of perceived {whose}."
    brackets = " In brackets: confidence interval." if shown else ""
    return Table(
        name="refusals",
        caption=f"Requests to the T2I models. {_RATE_WORDS}{'' if low_quality is None else of_images}{brackets}",
        attribute=numbers.attribute,
        columns=columns,
        rows=rows,
    )


def _row(
    lookup: MetricLookup, model: str, low_quality: Number | None, numbers: TableNumbers, *, intervals: bool
) -> Row:
    found = {name: lookup.number(name, detector=GROUND_TRUTH, t2i_model=model) for name in _METRICS}
    cells = [
        Cell("Total" if model == ALL else model, key=model),
        *(number_cell(found[name].value, kind="count") for name in _COUNTS),
        *(
            number_cell(each.value, kind="fraction", limits=(each.ci_low, each.ci_high) if intervals else None)
            for each in (*(found[name] for name in _RATES), *([] if low_quality is None else [low_quality]))
        ),
    ]
    notes = []
    if found[REFUSAL_RATE].missing:
        notes.append(f"{DASH} for the refusal rate: no request was answered")
    if low_quality is not None and low_quality.missing:
        notes.append(f"{DASH} for low-quality: no image has a label")
    images = sum(
        each.value
        for each in (
            numbers.lookup.number(name, detector=GROUND_TRUTH, t2i_model=model)
            for name in ("images", "images_unlabelled")
        )
        if not each.missing
    )
    made = found["requests_made"].value
    if images != made:
        notes.append(f"{made:,.0f} requests made an image, and {images:,.0f} images are in the set")
    return Row("Total" if model == ALL else model, tuple(cells), tuple(notes))


def _judge(numbers: TableNumbers) -> str:
    if not numbers.lookup.images_unlabelled:
        return "the human labels"
    return "the estimate over all images" if _estimated(numbers) else "the labels that there are"


def _estimated(numbers: TableNumbers) -> bool:
    own = numbers.metrics["attribute"] == numbers.attribute
    return bool((own & (numbers.metrics["variant"] == PREDICTION_POWERED)).any())


def _low_quality(numbers: TableNumbers) -> Mapping[str, Number]:
    """Share of low-quality images by T2I model: estimated over all images where not all have a label."""
    lookup = numbers.lookup
    if _estimated(numbers):
        lookup = MetricLookup.of_table(numbers.metrics, attribute=numbers.attribute, variant=PREDICTION_POWERED)
    return {
        name: lookup.number(_LOW_QUALITY, detector=GROUND_TRUTH, t2i_model=name)
        for name in (*lookup.t2i_models, ALL)
    }


_BY_CATEGORY = TableLayout(
    name="refusals_by_category",
    caption="Refused among answered requests by category of prompt, in per cent.",
    rows=("category",),
    columns=(Column.of(REFUSAL_RATE),),
    columns_for="t2i_model",
    total="All T2I models",
)
_BY_PROMPT = TableLayout(
    name="refusals_by_prompt",
    caption="Refused among answered requests by prompt, in per cent; prompts of which nothing was refused "
    "are left out.",
    rows=("prompt",),
    columns=(Column.of(REFUSAL_RATE),),
    columns_for="t2i_model",
)


def request_tables(
    metrics: pd.DataFrame, *, prompts: pd.DataFrame | None = None, intervals: bool = False
) -> list[Table]:
    """Refusal rates by category and by prompt, which belong to no attribute; none where nothing was refused.

    Args:
        metrics: a metric table.
        prompts: columns `prompt_id, word`; None: prompts are shown by their ids.
        intervals: show confidence intervals.
    """
    lookup = request_lookup(metrics)
    if lookup is None or not lookup.number("requests_blocked", detector=GROUND_TRUTH).value > 0:
        return []
    numbers = TableNumbers.of_table(rows_of_requests(metrics), attribute=ALL, prompts=prompts, intervals=intervals)
    tables = [_BY_CATEGORY.build(numbers)] if len(lookup.categories) > 1 else []
    by_prompt = _BY_PROMPT.build(numbers)
    refused = [row for row in by_prompt.rows if any((cell.value or 0) > 0 for cell in row.cells)]
    tables.append(replace(by_prompt, rows=tuple(refused)))
    return [replace(table, attribute="") for table in tables]


def refusal_notes(metrics: pd.DataFrame) -> tuple[str, ...]:
    """What has to be said below every table of bias scores: which T2I models refused what."""
    lookup = request_lookup(metrics)
    if lookup is None:
        return ()
    rates = {
        name: lookup.number(REFUSAL_RATE, detector=GROUND_TRUTH, t2i_model=name) for name in lookup.t2i_models
    }
    said = [
        f"{name} {rate.value * rate.n:,.0f} of {rate.n:,.0f} ({100 * rate.value:.1f} %)"
        for name, rate in rates.items()
        if rate.value > 0
    ]
    if not said:
        return ()
    note = f"Refused of the answered requests: {', '.join(said)}. Nobody knows what those images would have shown"
    has_bounds = metrics["metric"].astype(str).str.endswith(IF_REFUSED_LOW).any()
    how_far = (
        "; how far they could move the model bias scores says the table bias_if_refused" if has_bounds else ""
    )
    return (f"{note}{how_far}.",)


@makes_table("bias_if_refused", needs_labels=False)
def bias_if_refused(numbers: TableNumbers) -> Table | None:
    """Between what limits each T2I model's bias score lies, whatever the refused images would have shown."""
    own = numbers.metrics[numbers.metrics["attribute"] == numbers.attribute]
    own = own[(own["category"] == ALL) & (own["prompt_id"] == ALL)]
    bounds = [f"model_bias_score{ending}" for ending in (IF_REFUSED_LOW, IF_REFUSED_HIGH)]
    own = own[own["metric"].isin(["model_bias_score", *bounds])]
    if not own["metric"].isin(bounds).any():
        return None
    variants = own["variant"].astype(object).fillna("")
    rows = [
        _bounds_row(group, bounds)
        for _, group in own.groupby(
            [own["t2i_model"].astype(str), variants, own["detector"].astype(str)], sort=False
        )
        if set(bounds) <= set(group["metric"])
    ]
    return Table(
        name="bias_if_refused",
        caption=f"Model bias scores of perceived {attribute_in_words(numbers.attribute)}, and how low and how "
        "high they could be, whatever the refused images would have shown. The limits say what refusals allow, "
        "not what chance does.",
        attribute=numbers.attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("judge", "By", kind="name"),
            Column("model_bias_score", "Model bias score"),
            Column(bounds[0], "Lowest"),
            Column(bounds[1], "Highest"),
            Column("refused", "Refused"),
        ),
        rows=tuple(rows),
        grouped=True,
    )


def _bounds_row(group: pd.DataFrame, bounds: list[str]) -> Row:
    """One judge's score of one T2I model, and its limits."""
    numbers = {str(row["metric"]): row for row in group.to_dict("records")}
    limit = numbers[bounds[0]]
    model, variant, detector = (str(limit[name]) for name in ("t2i_model", "variant", "detector"))
    name = "all T2I models" if model == ALL else model
    judge = "Human labels" if detector == GROUND_TRUTH else detector
    judge = ESTIMATORS[variant].format(detector=detector) if variant in ESTIMATORS else judge
    score = numbers.get("model_bias_score", {"value": math.nan})
    values = [float(each["value"]) for each in (score, *(numbers[bound] for bound in bounds))]
    cells = (Cell(name, key=model), Cell(judge), *(number_cell(each, kind="score") for each in values))
    refused = number_cell(float(limit["n_left_out"]), kind="count")
    return Row(f"{name}, {judge}", (*cells, refused))
