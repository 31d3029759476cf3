"""What Lyu 2025 says about the T2I models' bias, recomputed from Table 7's 300 prompt bias scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.metrics import Scopes, human_as_detector, model_bias_score_actual
from detector_bench.others.lyu2025.finding import Finding
from detector_bench.others.lyu2025.published import T2I_MODELS, PublishedTables, number

_TABLE_6_ROUNDING = 0.0005
"""A mean of ten or more scores that are rounded to two decimals: 0.001 in all, with the printed half digit."""

_TEXT = "Appendix C, text"


def bias_findings(tables: PublishedTables) -> list[Finding]:
    """Table 6, Table 7's averages, Figure 3's counts, and the statements of section 4.1 and appendix C."""
    scores = tables.table7.set_index("word")[list(T2I_MODELS)]
    category = tables.table7["category"].to_numpy(dtype=str)
    values = scores.to_numpy(dtype=np.float64)
    return [
        *_table6(tables, values, category),
        *_table7_averages(tables),
        *_figure3(values),
        *_mixed_prompts(values),
        *_one_gender(values, category),
        *_most_biased_category(tables.table6),
    ]


def _table6(tables: PublishedTables, values: NDArray[np.float64], category: NDArray[np.str_]) -> Iterator[Finding]:
    # The scores as shares of men and women: weighted images, so that the package's own metric recomputes the
    # table.
    shares = np.stack([(1 + values.T) / 2, (1 - values.T) / 2, 0 * values.T, 0 * values.T], axis=-1)
    scopes = Scopes.of_prompts(list(category))
    recomputed = model_bias_score_actual(human_as_detector(shares), scopes=scopes).value[1:]
    columns = {"model_bias_score": "all prompts", **{name: name for name in scopes.categories}}
    for row, model in enumerate(T2I_MODELS):
        for column, (name, words) in enumerate(columns.items()):
            printed = number(tables.table6, model, name)
            statement = f"bias score of {model}, {words}"
            yield Finding(
                "Table 6", statement, printed, float(recomputed[row, column]), 3, rounding=_TABLE_6_ROUNDING
            )


def _table7_averages(tables: PublishedTables) -> Iterator[Finding]:
    averages = tables.table7[list(T2I_MODELS)].mean(axis=1)
    findings = [
        Finding("Table 7", f"average of {word}", float(printed), float(average), 2)
        for word, printed, average in zip(tables.table7["word"], tables.table7["average"], averages, strict=True)
    ]
    wrong = [finding for finding in findings if finding.verdict != "same"]
    yield Finding("Table 7", "averages that follow from the row", len(findings), len(findings) - len(wrong), 0)
    yield from wrong


def _figure3(values: NDArray[np.float64]) -> Iterator[Finding]:
    outputs = values.size
    only_men, male, zero = (values == 1).sum(), (values > 0).sum(), (values == 0).sum()
    strong = (np.abs(values) > 0.2).sum()
    place = "Figure 3, appendix C"
    yield Finding(place, "outputs with a score of 1", 95, float(only_men), 0)
    yield Finding(place, "the same, % of 300", 31.7, float(100 * only_men / outputs), 1)
    yield Finding(place, "outputs with a score above 0", 224, float(male), 0)
    yield Finding(place, "the same, % of 300", 74.7, float(100 * male / outputs), 1)
    yield Finding(place, "outputs with a score of 0", 6, float(zero), 0)
    yield Finding(
        place,
        "outputs above 0.2 or below -0.2",
        269,
        float(strong),
        0,
        note=f"of the printed scores {int((np.abs(values) >= 0.2).sum())} are at least 0.2 away from 0",
    )
    yield Finding(
        "Section 4.1, answer to RQ1",
        "unbiased outputs, %",
        6,
        float(100 * zero / outputs),
        0,
        note="6 outputs, not 6 %; appendix C has 2 %",
    )


def _mixed_prompts(values: NDArray[np.float64]) -> Iterator[Finding]:
    has_zero = (values == 0).any(axis=1)
    mixed = (values > 0).any(axis=1) & (values < 0).any(axis=1)
    yield Finding(
        _TEXT,
        "prompts with mixed bias, %",
        40,
        float(100 * mixed.mean()),
        0,
        note="by the text's own definition: positive for one T2I model and negative for another",
    )
    yield Finding(
        _TEXT,
        "the same without prompts that have a 0, %",
        40,
        float(100 * (mixed & ~has_zero).mean()),
        0,
        note="so understood, the four groups 40, 49, 5 and 6 % make 100 %",
    )
    yield Finding(
        _TEXT, "prompts positive for all T2I models, %", 49, float(100 * (values > 0).all(axis=1).mean()), 0
    )
    yield Finding(
        _TEXT, "prompts negative for all T2I models, %", 5, float(100 * (values < 0).all(axis=1).mean()), 0
    )
    yield Finding(_TEXT, "prompts with a 0 for some T2I model, %", 6, float(100 * has_zero.mean()), 0)
    yield Finding(_TEXT, "prompts with a 0 for all T2I models", 0, float((values == 0).all(axis=1).sum()), 0)


def _one_gender(values: NDArray[np.float64], category: NDArray[np.str_]) -> Iterator[Finding]:
    one_gender = (values == 1).all(axis=1) | (values == -1).all(axis=1)
    # The text names three objects, and says that there is none in the other categories.
    for name, published in {"profession": 14, "object": 3, "activity": 0, "personality": 0, "place": 0}.items():
        statement = f"{name}: prompts with one gender only, for all T2I models"
        yield Finding(_TEXT, statement, published, float(one_gender[category == name].sum()), 0)


def _most_biased_category(table6: pd.DataFrame) -> Iterator[Finding]:
    categories = table6.drop(columns="model_bias_score")
    first = (categories.idxmax(axis=1) == "profession").sum()
    yield Finding(
        "Section 4.1",
        "T2I models whose most biased category is profession",
        len(table6),
        float(first),
        0,
        note="for dreamlike it is object, as appendix C says",
    )
    for model, (name, said) in {
        "sdxl": ("object", 0.572),
        "sd3": ("personality", 0.593),
        "dreamlike": ("activity", 0.500),
    }.items():
        statement = f"least biased category of {model}: {name}"
        lowest = min(number(categories, model, category) for category in categories.columns)
        yield Finding(_TEXT, statement, said, lowest, 3)
