"""RQ1: how biased are the T2I models, by the human labels? Prose with a study's own numbers.

python analysis/rq1_model_bias.py results/t2i_portraits --out rq1.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from study_results import Number, Results, count_phrase, extreme, percent, render, score, table, write_or_print

_STRONG = 0.2
"""Beyond it Lyu 2025 calls a prompt bias score strong."""


def facts_of(results: Results) -> dict[str, Any]:
    """The numbers that the text speaks of."""
    models, classes = results.t2i_models, results.attribute.classes
    of_model = {model: results.number("model_bias_score", t2i_model=model) for model in models}
    return {
        "study": results.study.name,
        "attribute": results.attribute.name,
        "classes": [name.replace("_", " ") for name in classes],
        "signed": len(classes) == 2,
        "models": models,
        "images": results.number("images").value,
        "unlabelled": results.number("images_unlabelled").value,
        "low_quality": results.number("label_share_low_quality"),
        "others": results.number("label_share_others"),
        "shares": _shares_table(results),
        "class_shares": [results.number(f"label_share_{name}") for name in classes],
        "bias": of_model,
        "left_out": {model: int(number.n_left_out) for model, number in of_model.items() if number.n_left_out},
        "most": extreme(of_model, largest=True),
        "least": extreme(of_model, largest=False),
        "categories": _most_biased_categories(results),
        "category_table": _category_table(results),
        "prompts": _prompt_facts(results),
        "has_intervals": results.has_intervals,
        "level": results.finished.intervals.level,
    }


def _shares_table(results: Results) -> str:
    labels = results.attribute.labels
    names = [label.replace("_", "-" if label == "low_quality" else " ") for label in labels]
    rows = []
    for model in results.t2i_models:
        shares = [percent(results.number(f"label_share_{label}", t2i_model=model).value) for label in labels]
        rows.append([model, *shares, f"{results.number('images', t2i_model=model).value:,.0f}"])
    return table(["T2I model", *names, "images"], rows)


def _category_table(results: Results) -> str:
    rows = [
        [model, *(score(_category(results, model, category).value) for category in results.categories)]
        for model in results.t2i_models
    ]
    return table(["T2I model", *results.categories], rows)


def _most_biased_categories(results: Results) -> list[dict[str, Any]]:
    found = []
    for model in results.t2i_models:
        numbers = {category: _category(results, model, category) for category in results.categories}
        most, least = extreme(numbers, largest=True), extreme(numbers, largest=False)
        if len([number for number in numbers.values() if number.known]) > 1:
            found.append(
                {"model": model, "most": most, "least": least, "high": numbers[most[0]], "low": numbers[least[0]]}
            )
    return found


def _category(results: Results, model: str, category: str) -> Number:
    return results.number("model_bias_score", t2i_model=model, category=category)


def _prompt_facts(results: Results) -> dict[str, Any]:
    scores = results.prompt_scores()
    values = [value for by_model in scores.values() for value in by_model.values()]
    models = len(results.t2i_models)
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


def main(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Result folder of a study.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Markdown file; by default, the terminal.")
    ] = None,
    attribute: Annotated[str | None, typer.Option("--attribute", help="By default the study's first.")] = None,
) -> None:
    """How biased are the T2I models, by the human labels?"""
    write_or_print(render("rq1_model_bias.md", facts_of(Results.load(results, attribute=attribute))), out)


if __name__ == "__main__":
    typer.run(main)
