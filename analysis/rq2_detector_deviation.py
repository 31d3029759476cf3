"""RQ2: how far is the bias that each detector reports from the actual one? Prose with a study's own numbers.

python analysis/rq2_detector_deviation.py results/t2i_portraits --out rq2.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from prose import extreme, has_intervals, percent, ranking, render, score, table, write_or_print

from detector_bench import Results
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

_DEVIATION = "model_bias_score_deviation"
_DIFFERENCE = "prompt_bias_score_difference"


def facts_of(study: FinishedStudy) -> dict[str, Any]:
    """The numbers that the text speaks of."""
    models = study.t2i_models
    return {
        "study": study.results.manifest.study,
        "attribute": study.attribute,
        "n_clear": study.results.settings.n_clear,
        "detectors": study.detectors,
        "models": models,
        "per_model": [_of_model(study, model) for model in models],
        "table": _table(study),
        "over": _always(study, sign=1),
        "under": _always(study, sign=-1),
        "rankings": _rankings(study),
        "without": _without_verdicts(study),
        "left_out": _prompts_left_out(study),
        "closest_everywhere": _everywhere(study, _DEVIATION, of_size=True),
        "smallest_everywhere": _everywhere(study, _DIFFERENCE, of_size=False),
        "has_intervals": has_intervals(study),
        "level": study.intervals.level,
    }


def _of_detectors(study: FinishedStudy, metric: str, model: str) -> dict[str, Number]:
    return {name: study.estimate(metric, detector=name, t2i_model=model) for name in study.detectors}


def _of_model(study: FinishedStudy, model: str) -> dict[str, Any]:
    deviation, difference = (_of_detectors(study, metric, model) for metric in (_DEVIATION, _DIFFERENCE))
    return {
        "model": model,
        "actual": study.estimate("model_bias_score", t2i_model=model),
        "deviation": deviation,
        "difference": difference,
        "judged": [name for name, number in deviation.items() if not number.missing],
        "closest": extreme(deviation, largest=False, of_size=True),
        "farthest": extreme(deviation, largest=True, of_size=True),
        "smallest": extreme(difference, largest=False),
        "largest": extreme(difference, largest=True),
    }


def _everywhere(study: FinishedStudy, metric: str, *, of_size: bool) -> list[str]:
    """The detectors that are best on every T2I model where anybody has a number."""
    best = [
        set(extreme(_of_detectors(study, metric, model), largest=False, of_size=of_size))
        for model in study.t2i_models
    ]
    best = [names for names in best if names]
    return sorted(set.intersection(*best), key=study.detectors.index) if best else []


def _always(study: FinishedStudy, *, sign: int) -> list[str]:
    """The detectors that miss in one direction on every T2I model that they have a number for."""
    found = []
    for detector in study.detectors:
        values = [study.estimate(_DEVIATION, detector=detector, t2i_model=model) for model in study.t2i_models]
        known = [number.value for number in values if not number.missing]
        if known and all(value * sign > 0 for value in known):
            found.append(detector)
    return found


def _rankings(study: FinishedStudy) -> dict[str, Any]:
    """Who puts the T2I models into another order than the humans do."""

    def order(detector: str | None) -> list[str]:
        place = {} if detector is None else {"detector": detector}
        return ranking(
            {model: study.estimate("model_bias_score", t2i_model=model, **place) for model in study.t2i_models}
        )

    actual = order(None)
    others = {detector: order(detector) for detector in study.detectors}
    complete = {detector: found for detector, found in others.items() if set(found) == set(actual)}
    return {
        "actual": actual,
        "wrong": {detector: found for detector, found in complete.items() if found != actual},
        "right": [detector for detector, found in complete.items() if found == actual],
    }


def _without_verdicts(study: FinishedStudy) -> list[str]:
    notes = [study.lookup.no_verdict_notes(detector, study.t2i_models) for detector in study.detectors]
    return [
        f"{detector}: {'; '.join(of_detector)}"
        for detector, of_detector in zip(study.detectors, notes, strict=True)
        if of_detector
    ]


def _prompts_left_out(study: FinishedStudy) -> dict[str, int]:
    """By detector, pairs of T2I model and prompt without a score."""
    counts = {name: study.estimate(_DIFFERENCE, detector=name).n_left_out for name in study.detectors}
    return {name: int(count) for name, count in counts.items() if count}


def _table(study: FinishedStudy) -> str:
    header = ["Detector"]
    header += [f"{what}, {model}" for model in study.t2i_models for what in ("score", "deviation", "difference")]
    rows = []
    for detector in study.detectors:
        cells = [detector]
        for model in study.t2i_models:
            place = {"detector": detector, "t2i_model": model}
            cells.append(score(study.estimate("model_bias_score", **place).value))
            cells.append(percent(study.estimate(_DEVIATION, **place).value))
            cells.append(score(study.estimate(_DIFFERENCE, **place).value))
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
    write_or_print(
        render("rq2_detector_deviation.md", facts_of(Results.open(results).of_attribute(attribute))), out
    )


if __name__ == "__main__":
    typer.run(main)
