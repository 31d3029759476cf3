"""RQ2: how far is the bias that each detector reports from the actual one? Prose with a study's own numbers.

python analysis/rq2_detector_deviation.py results/t2i_portraits --out rq2.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from study_results import Number, Results, extreme, percent, ranking, render, score, table, write_or_print

_DEVIATION = "model_bias_score_deviation"
_DIFFERENCE = "prompt_bias_score_difference"


def facts_of(results: Results) -> dict[str, Any]:
    """The numbers that the text speaks of."""
    models = results.t2i_models
    return {
        "study": results.study.name,
        "attribute": results.attribute.name,
        "n_clear": results.study.n_clear,
        "detectors": results.detectors,
        "models": models,
        "per_model": [_of_model(results, model) for model in models],
        "table": _table(results),
        "over": _always(results, sign=1),
        "under": _always(results, sign=-1),
        "rankings": _rankings(results),
        "without": _without_verdicts(results),
        "left_out": _prompts_left_out(results),
        "closest_everywhere": _everywhere(results, _DEVIATION, of_size=True),
        "smallest_everywhere": _everywhere(results, _DIFFERENCE, of_size=False),
        "has_intervals": results.has_intervals,
        "level": results.finished.intervals.level,
    }


def _of_detectors(results: Results, metric: str, model: str) -> dict[str, Number]:
    return {name: results.number(metric, detector=name, t2i_model=model) for name in results.detectors}


def _of_model(results: Results, model: str) -> dict[str, Any]:
    deviation, difference = (_of_detectors(results, metric, model) for metric in (_DEVIATION, _DIFFERENCE))
    return {
        "model": model,
        "actual": results.number("model_bias_score", t2i_model=model),
        "deviation": deviation,
        "difference": difference,
        "judged": [name for name, number in deviation.items() if number.known],
        "closest": extreme(deviation, largest=False, of_size=True),
        "farthest": extreme(deviation, largest=True, of_size=True),
        "smallest": extreme(difference, largest=False),
        "largest": extreme(difference, largest=True),
    }


def _everywhere(results: Results, metric: str, *, of_size: bool) -> list[str]:
    """The detectors that are best on every T2I model where anybody has a number."""
    best = [
        set(extreme(_of_detectors(results, metric, model), largest=False, of_size=of_size))
        for model in results.t2i_models
    ]
    best = [names for names in best if names]
    return sorted(set.intersection(*best), key=results.detectors.index) if best else []


def _always(results: Results, *, sign: int) -> list[str]:
    """The detectors that miss in one direction on every T2I model that they have a number for."""
    found = []
    for detector in results.detectors:
        values = [results.number(_DEVIATION, detector=detector, t2i_model=model) for model in results.t2i_models]
        known = [number.value for number in values if number.known]
        if known and all(value * sign > 0 for value in known):
            found.append(detector)
    return found


def _rankings(results: Results) -> dict[str, Any]:
    """Who puts the T2I models into another order than the humans do."""

    def order(detector: str | None) -> list[str]:
        place = {} if detector is None else {"detector": detector}
        return ranking(
            {model: results.number("model_bias_score", t2i_model=model, **place) for model in results.t2i_models}
        )

    actual = order(None)
    others = {detector: order(detector) for detector in results.detectors}
    complete = {detector: found for detector, found in others.items() if set(found) == set(actual)}
    return {
        "actual": actual,
        "wrong": {detector: found for detector, found in complete.items() if found != actual},
        "right": [detector for detector, found in complete.items() if found == actual],
    }


def _without_verdicts(results: Results) -> list[str]:
    notes = [results.lookup.no_verdict_notes(detector, results.t2i_models) for detector in results.detectors]
    return [
        f"{detector}: {'; '.join(of_detector)}"
        for detector, of_detector in zip(results.detectors, notes, strict=True)
        if of_detector
    ]


def _prompts_left_out(results: Results) -> dict[str, int]:
    """By detector, pairs of T2I model and prompt without a score."""
    counts = {name: results.number(_DIFFERENCE, detector=name).n_left_out for name in results.detectors}
    return {name: int(count) for name, count in counts.items() if count}


def _table(results: Results) -> str:
    header = ["Detector"]
    header += [f"{what}, {model}" for model in results.t2i_models for what in ("score", "deviation", "difference")]
    rows = []
    for detector in results.detectors:
        cells = [detector]
        for model in results.t2i_models:
            place = {"detector": detector, "t2i_model": model}
            cells.append(score(results.number("model_bias_score", **place).value))
            cells.append(percent(results.number(_DEVIATION, **place).value))
            cells.append(score(results.number(_DIFFERENCE, **place).value))
        rows.append(cells)
    return table(header, rows)


def main(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Result folder of a study.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Markdown file; by default, the terminal.")
    ] = None,
    attribute: Annotated[str | None, typer.Option("--attribute", help="By default the study's first.")] = None,
) -> None:
    """How far is the bias that each detector reports from the actual one?"""
    write_or_print(render("rq2_detector_deviation.md", facts_of(Results.load(results, attribute=attribute))), out)


if __name__ == "__main__":
    typer.run(main)
