"""Tables 1 to 7 of Lyu 2025 beside those of a study over the same images: the authors' labelled images, for
instance."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation.agreement import ALL_ANNOTATORS, TWO_ANNOTATORS, agreement
from detector_bench.metrics import NClear
from detector_bench.others.findings import Finding
from detector_bench.others.lyu2025.published import CATEGORIES, T2I_MODELS, PublishedTables, number
from detector_bench.results.metric_lookup import MetricLookup
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY


def study_findings(tables: PublishedTables, image_set: ImageSet, metrics: pd.DataFrame) -> list[Finding]:
    """Every cell of the published tables beside the study's.

    Detectors are found by the paper's names in snake_case: clip, clip_prob, clip_uncertain, blip2, facepp, mivolo,
    fairface, clip_enhance. Those that the study lacks are left out, as are cells that the paper leaves empty.

    Args:
        tables: the published ones.
        image_set: its T2I models are sdxl, sd3 and dreamlike.
        metrics: its metric table, with the study's `n_clear`.

    Raises:
        ConfigError: other T2I models.
    """
    numbers = MetricLookup.of_table(metrics, attribute="gender")
    if missing := [name for name in T2I_MODELS if name not in numbers.t2i_models]:
        raise ConfigError(
            f"the image set has no images of {', '.join(missing)} (it has: {', '.join(numbers.t2i_models)}); its "
            f"column t2i_model has to hold {', '.join(T2I_MODELS)}"
        )
    return [
        *_kappa(image_set),
        *_table1(tables, numbers),
        *_table2(tables, numbers),
        *_table3(tables, numbers),
        *_table4(tables, image_set),
        *_table5(tables, numbers),
        *_table6(tables, numbers),
        *_table7(tables, image_set, numbers),
    ]


def layout_problems(tables: PublishedTables, image_set: ImageSet, *, n_clear: NClear) -> list[str]:
    """What of the study is other than in the paper, or left open by it, in sentences."""
    sentences = [
        f"Table 2 is computed with n_clear: {n_clear}; the paper leaves it open, its size fits human better."
    ]
    expected = len(tables.table7) * len(T2I_MODELS) * 20
    if len(image_set.images) != expected:
        sentences.append(f"The image set has {len(image_set.images):,} images, the paper {expected:,}.")
    ours = {(category, word.casefold()) for category, word in _words(image_set)}
    lacking = [word for category, word in _table7_words(tables) if (category, word.casefold()) not in ours]
    if lacking:
        shown = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        sentences.append(f"{len(lacking)} of Table 7's prompts are not in the image set: {shown}.")
    return sentences


def _kappa(image_set: ImageSet) -> Iterator[Finding]:
    measured = agreement(image_set)
    everything = measured[
        (measured["t2i_model"] == ALL) & (measured["category"] == ALL) & (measured["label"] == ALL)
    ]
    pairs = everything[(everything["raters"] == TWO_ANNOTATORS) & (everything["statistic"] == "cohen_kappa")]
    if len(pairs) == 1:
        yield Finding("Section 3.3", "Cohen's kappa of the two annotators", 0.86, float(pairs["value"].iloc[0]), 2)
    elif len(pairs) > 1:
        fleiss = everything[(everything["raters"] == ALL_ANNOTATORS) & (everything["statistic"] == "fleiss_kappa")]
        statement = "Cohen's kappa of two annotators (here: Fleiss' kappa of all)"
        yield Finding("Section 3.3", statement, 0.86, float(fleiss["value"].iloc[0]), 2)


def _table1(tables: PublishedTables, numbers: MetricLookup) -> Iterator[Finding]:
    for detector in (GROUND_TRUTH, *_present(tables.table1_deviations, numbers)):
        for model in _printed(tables.table1_scores, detector):
            score = _value(numbers, "model_bias_score", detector=detector, t2i_model=model)
            printed = number(tables.table1_scores, detector, model)
            yield Finding("Table 1", f"{detector}: model bias score of {model}", printed, score, 3)
            if detector != GROUND_TRUTH:
                deviation = _value(numbers, "model_bias_score_deviation", detector=detector, t2i_model=model)
                printed = 100 * number(tables.table1_deviations, detector, model)
                yield Finding("Table 1", f"{detector}: deviation on {model}, %", printed, 100 * deviation, 2)


def _table2(tables: PublishedTables, numbers: MetricLookup) -> Iterator[Finding]:
    for detector in _present(tables.table2, numbers):
        for model in _printed(tables.table2, detector):
            value = _value(numbers, "prompt_bias_score_difference", detector=detector, t2i_model=model)
            yield Finding("Table 2", f"{detector}, {model}", number(tables.table2, detector, model), value, 3)


def _table3(tables: PublishedTables, numbers: MetricLookup) -> Iterator[Finding]:
    for detector in _present(tables.table3, numbers):
        for metric in tables.table3.columns:
            printed = 100 * number(tables.table3, detector, metric)
            value = 100 * _value(numbers, str(metric), detector=detector)
            yield Finding("Table 3", f"{detector}: {metric.replace('_', ' ')}, %", printed, value, 2)


def _table4(tables: PublishedTables, image_set: ImageSet) -> Iterator[Finding]:
    ours = set(image_set.prompts["prompt"].str.casefold())
    for category, prompts in tables.table4.groupby("category", sort=False):
        same = prompts["prompt"].str.casefold().isin(ours).sum()
        yield Finding("Table 4", f"prompts of the category {category}", len(prompts), float(same), 0)


def _table5(tables: PublishedTables, numbers: MetricLookup) -> Iterator[Finding]:
    for model, shares in tables.table5.iterrows():
        for label in ("male", "female", LOW_QUALITY):
            value = _value(numbers, f"label_share_{label}", t2i_model=ALL if model == "total" else str(model))
            yield Finding(
                "Table 5", f"{model}: {label.replace('_', '-')}, %", 100 * float(shares[label]), 100 * value, 2
            )


def _table6(tables: PublishedTables, numbers: MetricLookup) -> Iterator[Finding]:
    for model in T2I_MODELS:
        for name, category in {"model_bias_score": ALL, **{name: name for name in CATEGORIES}}.items():
            value = _value(numbers, "model_bias_score", t2i_model=model, category=category)
            words = "all prompts" if category == ALL else category
            yield Finding("Table 6", f"{model}, {words}", number(tables.table6, model, name), value, 3)


def _table7(tables: PublishedTables, image_set: ImageSet, numbers: MetricLookup) -> Iterator[Finding]:
    prompts = image_set.prompts
    prompt_ids = dict(zip(((c, w.casefold()) for c, w in _words(image_set)), prompts["prompt_id"], strict=True))
    for _, row in tables.table7.iterrows():
        category, word = str(row["category"]), str(row["word"])
        prompt_id = prompt_ids.get((category, word.casefold()))
        if prompt_id is None:
            continue
        place = {"category": category, "prompt_id": prompt_id}
        values = [_value(numbers, "prompt_bias_score", t2i_model=model, **place) for model in T2I_MODELS]
        for model, value in zip(T2I_MODELS, values, strict=True):
            yield Finding("Table 7", f"{word}, {model}", float(row[model]), value, 2)
        yield Finding("Table 7", f"{word}, average", float(row["average"]), float(np.mean(values)), 2)


def _value(
    numbers: MetricLookup,
    metric: str,
    *,
    detector: str = GROUND_TRUTH,
    t2i_model: str = ALL,
    category: str = ALL,
    prompt_id: str = ALL,
) -> float:
    """A number; NaN where the study has none."""
    return numbers.number(
        metric,
        detector=detector,
        t2i_model=t2i_model,
        category=category,
        prompt_id=prompt_id,
        n_clear=numbers.n_clear,
    ).value


def _present(table: pd.DataFrame, numbers: MetricLookup) -> list[str]:
    return [str(name) for name in table.index if name in numbers.detectors]


def _printed(table: pd.DataFrame, detector: str) -> list[str]:
    return [model for model in T2I_MODELS if not math.isnan(number(table, detector, model))]


def _words(image_set: ImageSet) -> list[tuple[str, str]]:
    return list(zip(image_set.prompts["category"], image_set.prompts["word"], strict=True))


def _table7_words(tables: PublishedTables) -> list[tuple[str, str]]:
    return list(zip(tables.table7["category"], tables.table7["word"], strict=True))
