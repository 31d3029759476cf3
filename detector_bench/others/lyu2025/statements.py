"""What Lyu 2025 says, recomputed from its printed tables.

What it says about the T2I models' bias comes from Table 7's 300 prompt bias scores, what it says about detectors
and labels from Tables 1, 2, 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.metrics import Scopes, accuracy, human_as_detector, model_bias_score_actual, precision
from detector_bench.metrics.causes import accuracy_gap
from detector_bench.metrics.counts import CountArray
from detector_bench.others.findings import Finding
from detector_bench.others.lyu2025.published import T2I_MODELS, PublishedTables, number, published_tables

_TABLE_6_ROUNDING = 0.0005
"""A mean of ten or more scores that are rounded to two decimals: 0.001 in all, with the printed half digit."""

_TEXT, _APPENDIX_D = "Appendix C, text", "Appendix D, text"
_IMAGES_PER_T2I_MODEL = 2000
_HALF_A_HUNDREDTH = 0.005
_ORDER = ("Abstract", "Section", "Table", "Figure", "Appendix")


def published_findings() -> list[Finding]:
    """All that can be recomputed from the printed tables, in the order of the paper."""
    tables = published_tables()
    scores = tables.table7.set_index("word")[list(T2I_MODELS)]
    category = tables.table7["category"].to_numpy(dtype=str)
    values = scores.to_numpy(dtype=np.float64)
    findings = [
        *_table6(tables, values, category),
        *_table7_averages(tables),
        *_figure3(values),
        *_mixed_prompts(values),
        *_one_gender(values, category),
        *_most_biased_category(tables.table6),
        *_table1(tables),
        *_text_on_table1(tables),
        *_text_on_table2(tables.table2),
        *_table3(tables),
        *_text_on_table3(tables),
        *_table5(tables.table5),
    ]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.place.split()[0]), finding.place))


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
    wrong = [finding for finding in findings if finding.match != "same"]
    yield Finding("Table 7", "averages that follow from the row", len(findings), len(findings) - len(wrong), 0)
    yield from wrong


def _figure3(values: NDArray[np.float64]) -> Iterator[Finding]:
    place, outputs = "Figure 3, appendix C", values.size
    only_men, male, zero = (values == 1).sum(), (values > 0).sum(), (values == 0).sum()
    strong, at_least = (np.abs(values) > 0.2).sum(), int((np.abs(values) >= 0.2).sum())
    for statement, said, found, decimals in (
        ("outputs with a score of 1", 95, only_men, 0),
        ("the same, % of 300", 31.7, 100 * only_men / outputs, 1),
        ("outputs with a score above 0", 224, male, 0),
        ("the same, % of 300", 74.7, 100 * male / outputs, 1),
        ("outputs with a score of 0", 6, zero, 0),
    ):
        yield Finding(place, statement, said, float(found), decimals)
    note = f"of the printed scores {at_least} are at least 0.2 away from 0"
    yield Finding(place, "outputs above 0.2 or below -0.2", 269, float(strong), 0, note=note)
    note = "6 outputs, not 6 %; appendix C has 2 %"
    place = "Section 4.1, answer to RQ1"
    yield Finding(place, "unbiased outputs, %", 6, float(100 * zero / outputs), 0, note=note)


def _mixed_prompts(values: NDArray[np.float64]) -> Iterator[Finding]:
    has_zero = (values == 0).any(axis=1)
    mixed = (values > 0).any(axis=1) & (values < 0).any(axis=1)
    own_definition = "by the text's own definition: positive for one T2I model and negative for another"
    whole = "so understood, the four groups 40, 49, 5 and 6 % make 100 %"
    for statement, said, prompts, note in (
        ("prompts with mixed bias, %", 40, mixed, own_definition),
        ("the same without prompts that have a 0, %", 40, mixed & ~has_zero, whole),
        ("prompts positive for all T2I models, %", 49, (values > 0).all(axis=1), ""),
        ("prompts negative for all T2I models, %", 5, (values < 0).all(axis=1), ""),
        ("prompts with a 0 for some T2I model, %", 6, has_zero, ""),
    ):
        yield Finding(_TEXT, statement, said, float(100 * prompts.mean()), 0, note=note)
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


def _table1(tables: PublishedTables) -> Iterator[Finding]:
    digit = 0.0005
    for detector in map(str, tables.table1_deviations.index):
        for model in T2I_MODELS:
            printed = number(tables.table1_deviations, detector, model)
            if math.isnan(printed):
                continue
            score, actual = (
                number(tables.table1_scores, detector, model),
                number(tables.table1_scores, "ground_truth", model),
            )
            deviation = score / actual - 1
            farthest = max(
                abs((score + a) / (actual - b) - 1 - deviation) for a, b in [(digit, digit), (-digit, -digit)]
            )
            yield Finding(
                "Table 1",
                f"deviation of {detector}, {model}, %",
                100 * printed,
                100 * deviation,
                2,
                rounding=100 * farthest,
            )


def _text_on_table1(tables: PublishedTables) -> Iterator[Finding]:
    deviations = {str(detector): 100 * row for detector, row in tables.table1_deviations.astype(float).iterrows()}
    largest = max(float(row.max()) for row in deviations.values())
    mean = {detector: float(row.abs().mean()) for detector, row in deviations.items()}
    yield Finding("Abstract", "largest overestimate, %", 26.95, largest, 2)
    yield Finding("Section 5.1", "clip_enhance: mean deviation, %", 0.74, mean["clip_enhance"], 2)
    yield Finding(
        "Section 5.1",
        "clip_enhance: how much lower than fairface, %",
        70.63,
        100 * (1 - mean["clip_enhance"] / mean["fairface"]),
        2,
        rounding=100 * _HALF_A_HUNDREDTH / mean["fairface"],
        note="70.63 comes from the rounded means 0.74 and 2.52",
    )
    yield Finding(
        "Section 1",
        "clip's deviation as a multiple of fairface's, at most",
        7,
        float((deviations["clip"] / deviations["fairface"]).abs().max()),
        0,
        note="on sd3; on dreamlike clip deviates less than fairface",
    )
    scores = [number(tables.table1_scores, "clip_prob", model) for model in T2I_MODELS]
    rank = _rank(scores, T2I_MODELS.index("dreamlike"), highest_first=True)
    yield Finding("Section 4.2", "clip_prob: rank of dreamlike by bias", 2, rank, 0)
    of_seven = [detector for detector in mean if detector != "clip_enhance"]
    for detector, said in (("mivolo", 1), ("fairface", 2)):
        rank = _rank([mean[each] for each in of_seven], of_seven.index(detector))
        yield Finding("Section 4.2", f"{detector}: rank by mean deviation, of seven", said, rank, 0)


def _rank(values: Sequence[float], position: int, *, highest_first: bool = False) -> int:
    """The place of one value among all, from 1."""
    before = (value > values[position] if highest_first else value < values[position] for value in values)
    return 1 + sum(before)


def _text_on_table2(table2: pd.DataFrame) -> Iterator[Finding]:
    for model, said in zip(T2I_MODELS, (0.093, 0.055, 0.109), strict=True):
        statement = f"fairface: prompt bias score difference, {model} (against Table 2)"
        yield Finding("Section 4.2", statement, said, number(table2, "fairface", model), 3)
    mean = table2.drop(index="clip_enhance").astype(float).mean(axis=1)
    rank = _rank(mean.to_list(), list(mean.index).index("mivolo"))
    yield Finding("Section 4.2", "mivolo: rank by prompt bias score difference, of seven", 4, rank, 0)


def _table3(tables: PublishedTables) -> Iterator[Finding]:
    for detector in map(str, tables.table3.index):
        of_kept, of_clear = (number(tables.table3, detector, name) for name in ("precision", "recall"))
        yield Finding(
            "Table 3",
            f"{detector}: F1 from precision and recall, %",
            100 * number(tables.table3, detector, "f1"),
            200 * of_kept * of_clear / (of_kept + of_clear),
            2,
            rounding=_HALF_A_HUNDREDTH,
        )
        yield Finding(
            "Table 3",
            f"{detector}: precision from recall, filter rate and Table 5, %",
            100 * of_kept,
            100 * float(precision(_filter_counts(tables, detector)).value),
            2,
            rounding=_HALF_A_HUNDREDTH,
        )
    yield Finding(
        "Table 3",
        "clip: accuracy from those of men and women and Table 5, %",
        100 * number(tables.table3, "clip", "accuracy"),
        100 * float(accuracy(_accuracy_counts(tables, "clip")).value),
        2,
    )


def _filter_counts(tables: PublishedTables, detector: str) -> CountArray:
    """A detector's counts as shares of the images, as far as filtering goes."""
    # Face++ could not run on SD3.
    judged = ["sdxl", "dreamlike"] if detector == "facepp" else ["total"]
    share = {name: float(tables.table5.loc[judged, name].mean()) for name in ("male", "female", "low_quality")}
    recalled, filtered = (number(tables.table3, detector, name) for name in ("recall", "filter_rate"))
    counts = np.zeros((4, 4))
    for gender, name in enumerate(("male", "female")):
        counts[gender, gender], counts[gender, 2] = share[name] * recalled, share[name] * (1 - recalled)
    counts[2, 0], counts[2, 2] = share["low_quality"] * (1 - filtered), share["low_quality"] * filtered
    return counts


def _accuracy_counts(tables: PublishedTables, detector: str) -> CountArray:
    """The counts of a detector that filters nothing, as shares of the images."""
    counts = np.zeros((4, 4))
    for gender, name in enumerate(("male", "female")):
        share, right = number(tables.table5, "total", name), number(tables.table3, detector, f"accuracy_{name}")
        counts[gender, gender], counts[gender, 1 - gender] = share * right, share * (1 - right)
    return counts


def _text_on_table3(tables: PublishedTables) -> Iterator[Finding]:
    table3 = tables.table3
    for detector, said in (("fairface", 97.37), ("facepp", 97.31)):
        statement = f"{detector}: recall, % (against Table 3)"
        yield Finding(_APPENDIX_D, statement, said, 100 * number(table3, detector, "recall"), 2)
    genders = [number(tables.table5, model, gender) for model in T2I_MODELS for gender in ("male", "female")]
    clear = sum(genders) * _IMAGES_PER_T2I_MODEL
    for detector, images, share in (("clip_prob", 4244, 80.9), ("clip_uncertain", 1774, 33.8)):
        lost = 1 - number(table3, detector, "recall")
        yield Finding(
            _APPENDIX_D,
            f"{detector}: clear images filtered",
            images,
            clear * lost,
            0,
            rounding=clear * _HALF_A_HUNDREDTH / 100,
            note=f"recomputed from {clear:.0f} clear images and the printed recall",
        )
        yield Finding(_APPENDIX_D, f"{detector}: clear images filtered, %", share, 100 * lost, 1)
    kept = 1 - number(table3, "blip2", "filter_rate")
    yield Finding(_APPENDIX_D, "blip2: low-quality images kept, %", 61.68, 100 * kept, 2)
    gain = number(table3, "clip_enhance", "filter_rate") / number(table3, "fairface", "filter_rate") - 1
    yield Finding("Section 5.1", "clip_enhance: filter rate above fairface's, %", 16, 100 * gain, 0)
    gaps = {
        "clip_prob": (5.45, 2),
        "clip": (7.3, 1),
        "fairface": (10.43, 2),
        "blip2": (10.49, 2),
        "mivolo": (17.36, 2),
        "facepp": (21.06, 2),
        "clip_uncertain": (59.09, 2),
    }
    for detector, (gap, decimals) in gaps.items():
        recomputed = 100 * float(accuracy_gap(_accuracy_counts(tables, detector)).value)
        yield Finding(_APPENDIX_D, f"{detector}: accuracy gap between genders, %", gap, recomputed, decimals)


def _table5(table5: pd.DataFrame) -> Iterator[Finding]:
    means = 100 * table5.loc[list(T2I_MODELS)].mean()
    for label, said in (("male", 63.57), ("female", 24.18), ("low_quality", 12.48)):
        words = label.replace("_", "-")
        yield Finding(
            "Table 5", f"total, {words}, %", 100 * number(table5, "total", label), float(means[label]), 2
        )
        yield Finding(
            "Section 3.3 and appendix B",
            f"images that are {words}, %",
            said,
            float(means[label]),
            2,
            note=""
            if label == "low_quality"
            else "with 12.48 % low-quality, the text's shares add up to 100.23 %",
        )
    in_the_text = {
        ("sd3", "low_quality"): (7, 0),
        ("dreamlike", "male"): (49, 0),
        ("dreamlike", "female"): (39.35, 2),
        ("dreamlike", "low_quality"): (11.65, 2),
    }
    for (model, label), (said, decimals) in in_the_text.items():
        statement = f"{model}, {label.replace('_', '-')}, % (against Table 5)"
        yield Finding("Appendix B, text", statement, said, 100 * number(table5, model, label), decimals)
