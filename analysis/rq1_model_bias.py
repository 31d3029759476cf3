"""RQ1: how biased are the T2I models, by the human labels? Prose with a study's own numbers.

python analysis/rq1_model_bias.py results/t2i_portraits --out rq1.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from prose import count_phrase, extreme, has_intervals, percent, render, score, table, write_or_print

from detector_bench import Results
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

_STRONG = 0.2
"""Beyond it Lyu 2025 calls a prompt bias score strong."""


def facts_of(study: FinishedStudy) -> dict[str, Any]:
    """The numbers that the text speaks of."""
    models, classes = study.t2i_models, study.classes
    of_model = {model: study.estimate("model_bias_score", t2i_model=model) for model in models}
    return {
        "study": study.results.manifest.study,
        "attribute": study.attribute,
        "classes": [name.replace("_", " ") for name in classes],
        "signed": len(classes) == 2,
        "models": models,
        "images": study.estimate("images").value,
        "unlabelled": study.estimate("images_unlabelled").value,
        "low_quality": study.estimate("label_share_low_quality"),
        "others": study.estimate("label_share_others"),
        "shares": _shares_table(study),
        "class_shares": [study.estimate(f"label_share_{name}") for name in classes],
        "bias": of_model,
        "left_out": {model: int(number.n_left_out) for model, number in of_model.items() if number.n_left_out},
        "most": extreme(of_model, largest=True),
        "least": extreme(of_model, largest=False),
        "categories": _most_biased_categories(study),
        "category_table": _category_table(study),
        "prompts": _prompt_facts(study),
        "has_intervals": has_intervals(study),
        "level": study.intervals.level,
    }


def _shares_table(study: FinishedStudy) -> str:
    labels = study.lookup.labels
    names = [label.replace("_", "-" if label == "low_quality" else " ") for label in labels]
    rows = []
    for model in study.t2i_models:
        shares = [percent(study.estimate(f"label_share_{label}", t2i_model=model).value) for label in labels]
        rows.append([model, *shares, f"{study.estimate('images', t2i_model=model).value:,.0f}"])
    return table(["T2I model", *names, "images"], rows)


def _category_table(study: FinishedStudy) -> str:
    rows = [
        [model, *(score(_category(study, model, category).value) for category in study.categories)]
        for model in study.t2i_models
    ]
    return table(["T2I model", *study.categories], rows)


def _most_biased_categories(study: FinishedStudy) -> list[dict[str, Any]]:
    found = []
    for model in study.t2i_models:
        numbers = {category: _category(study, model, category) for category in study.categories}
        most, least = extreme(numbers, largest=True), extreme(numbers, largest=False)
        if len([number for number in numbers.values() if not number.missing]) > 1:
            found.append(
                {"model": model, "most": most, "least": least, "high": numbers[most[0]], "low": numbers[least[0]]}
            )
    return found


def _category(study: FinishedStudy, model: str, category: str) -> Number:
    return study.estimate("model_bias_score", t2i_model=model, category=category)


def _prompt_facts(study: FinishedStudy) -> dict[str, Any]:
    scores = _actual_scores(study)
    values = [value for by_model in scores.values() for value in by_model.values()]
    models = len(study.t2i_models)
    everywhere = {prompt: by_model for prompt, by_model in scores.items() if len(by_model) == models}
    first, second = (
        [prompt for (_, prompt), by_model in everywhere.items() if set(by_model.values()) == {extreme_score}]
        for extreme_score in (1.0, -1.0)
    )
    mixed = [
        prompt
        for (_, prompt), by_model in scores.items()
        if max(by_model.values()) > 0 and min(by_model.values()) < 0
    ]
    total = len(values)
    return {
        "total": total,
        "all_first": count_phrase(sum(value == 1 for value in values), total),
        "all_second": count_phrase(sum(value == -1 for value in values), total),
        "towards_first": count_phrase(sum(value > 0 for value in values), total),
        "towards_second": count_phrase(sum(value < 0 for value in values), total),
        "balanced": count_phrase(sum(value == 0 for value in values), total),
        "strong": count_phrase(sum(abs(value) > _STRONG for value in values), total),
        "only_first": first,
        "only_second": second,
        "mixed": mixed,
        "of_prompts": len(scores),
    }


def _actual_scores(study: FinishedStudy) -> dict[tuple[str, str], dict[str, float]]:
    """Actual prompt bias scores by category and prompt, then by T2I model; undefined ones are left out."""
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for category, prompt in study.prompts:
        for model in study.t2i_models:
            place = {"t2i_model": model, "category": category, "prompt_id": prompt}
            number = study.estimate("prompt_bias_score", **place)
            if not number.missing:
                scores.setdefault((category, prompt), {})[model] = number.value
    return scores


def main(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Result folder of a study.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Markdown file; by default, the terminal.")
    ] = None,
    attribute: Annotated[str | None, typer.Option("--attribute", help="By default the study's first.")] = None,
) -> None:
    """How biased are the T2I models, by the human labels?"""
    write_or_print(render("rq1_model_bias.md", facts_of(Results.open(results).of_attribute(attribute))), out)


if __name__ == "__main__":
    typer.run(main)
