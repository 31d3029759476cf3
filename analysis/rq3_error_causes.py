"""RQ3: where do the detectors' errors come from, filtering or classification? Prose with a study's own numbers.

python analysis/rq3_error_causes.py results/t2i_portraits --out rq3.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from study_results import Number, Results, extreme, percent, render, score, table, write_or_print

from detector_bench.evaluation.causes import accuracy_gaps, causes, filter_outcomes
from detector_bench.vocabulary import ALL, LOW_QUALITY, OTHERS, Status

_FILTERING = ("precision", "recall", "f1", "filter_rate")
_PARTS = ("error", "filtering", "classification", "with_both")
_NO_REASON = "no reason given"


def facts_of(results: Results, *, resamples: int | None = None) -> dict[str, Any]:
    """The numbers that the text speaks of; causes are computed from the stored predictions."""
    image_set, judged = results.finished.image_set, results.finished.predictions
    settings: dict[str, Any] = {"attribute": results.attribute.name, "allow_incomplete": True}
    intervals = results.finished.intervals.with_resamples(resamples)
    split = causes(image_set, judged, n_clear=results.study.n_clear, intervals=intervals, **settings)
    gaps = accuracy_gaps(image_set, judged, intervals=intervals, **settings)
    outcomes = filter_outcomes(image_set, judged, **settings)
    metrics = {metric: _of_detectors(results, metric) for metric in (*_FILTERING, "accuracy")}
    classes = results.attribute.classes
    return {
        "study": results.study.name,
        "attribute": results.attribute.name,
        "classes": [name.replace("_", " ") for name in classes],
        "two_classes": len(classes) == 2,
        "detectors": results.detectors,
        "low_quality": results.number("label_share_low_quality"),
        "metrics": metrics,
        "best": {metric: extreme(numbers, largest=True) for metric, numbers in metrics.items()},
        "worst": {metric: extreme(numbers, largest=False) for metric, numbers in metrics.items()},
        "table": _table(results, metrics),
        "gaps": _overall(gaps, "value"),
        "recall_gaps": _recall_gaps(results),
        "causes": [_causes_of(split, name) for name in results.detectors],
        "cause_table": _cause_table(split, results),
        "lost": _by_reason(outcomes, results, status=Status.FILTERED, column="detector_reason"),
        "kept": _by_reason(outcomes, results, status=Status.CLEAR, column="human_reason"),
        "level": intervals.level,
        "drawn": bool(pd.concat([split["error_ci_low"], gaps["ci_low"]]).notna().any()),
        "has_intervals": results.has_intervals,
    }


def _of_detectors(results: Results, metric: str) -> dict[str, Number]:
    return {name: results.number(metric, detector=name) for name in results.detectors}


def _table(results: Results, metrics: dict[str, dict[str, Number]]) -> str:
    rows = [[name, *(percent(numbers[name].value) for numbers in metrics.values())] for name in results.detectors]
    return table(["Detector", *(metric.replace("_", " ") for metric in metrics)], rows)


def _recall_gaps(results: Results) -> dict[str, dict[str, Any]]:
    """By detector, the class of whose images it keeps most, and least."""
    found = {}
    for detector in results.detectors:
        numbers = {name: results.number(f"recall_{name}", detector=detector) for name in results.attribute.classes}
        known = {name.replace("_", " "): number for name, number in numbers.items() if number.known}
        if len(known) > 1:
            most, least = extreme(known, largest=True)[0], extreme(known, largest=False)[0]
            gap = known[most].value - known[least].value
            found[detector] = {"most": most, "least": least, "gap": gap, "recall": known}
    return found


def _overall(rows: pd.DataFrame, value: str) -> dict[str, Number]:
    """One number for each detector, over all T2I models and categories."""
    prefix = "" if value == "value" else f"{value}_"
    chosen = rows[(rows["t2i_model"] == ALL) & (rows["category"] == ALL)]
    return {
        row["detector"]: Number(row[value], row[f"{prefix}ci_low"], row[f"{prefix}ci_high"])
        for row in chosen.to_dict("records")
    }


def _causes_of(split: pd.DataFrame, detector: str) -> dict[str, Any]:
    own = split[split["detector"] == detector]
    parts: dict[str, Any] = {"detector": detector}
    metrics = {"difference": "prompt_bias_score_difference", "deviation": "model_bias_score_deviation"}
    for name, metric in metrics.items():
        rows = own[own["error_metric"] == metric]
        parts[name] = {part: _overall(rows, part)[detector] for part in _PARTS}
    difference, deviation = parts["difference"], parts["deviation"]
    filtering, classification = difference["filtering"].value, difference["classification"].value
    parts["mainly"] = "filtering" if filtering > classification else "classification"
    parts["equal"] = filtering == classification
    parts["doubtful"] = _overlap(difference["filtering"], difference["classification"])
    parts["cancel"] = (
        deviation["error"].known and deviation["filtering"].value * deviation["classification"].value < 0
    )
    return parts


def _overlap(one: Number, other: Number) -> bool:
    """Whether two intervals overlap, so that the larger part may be the larger by chance; False without
    intervals."""
    return one.low <= other.high and other.low <= one.high


def _cause_table(split: pd.DataFrame, results: Results) -> str:
    rows = []
    for name in results.detectors:
        found = _causes_of(split, name)
        cells = [score(found["difference"][part].value) for part in _PARTS]
        cells += [percent(found["deviation"][part].value) for part in _PARTS]
        rows.append([name, *cells])
    names = [part if part != "with_both" else "no verdict" for part in _PARTS]
    header = [*(f"difference: {name}" for name in names), *(f"deviation: {name}" for name in names)]
    return table(["Detector", *header], rows)


def _by_reason(outcomes: pd.DataFrame, results: Results, *, status: Status, column: str) -> dict[str, Any]:
    """Images that were wrongly filtered or kept, by detector and reason, the most frequent first."""
    low_quality = outcomes["human_label"] == LOW_QUALITY
    human_clear = ~outcomes["human_label"].isin([LOW_QUALITY, OTHERS])
    of_interest = human_clear if status is Status.FILTERED else low_quality
    found = {}
    for detector in results.detectors:
        own = outcomes[of_interest & (outcomes["detector"] == detector)]
        wrong = own[own["status"] == status]
        by_reason = wrong.groupby(column)["images"].sum().sort_values(ascending=False, kind="stable")
        found[detector] = {
            "images": int(own.loc[own["status"] != Status.ERROR, "images"].sum()),
            "wrong": int(wrong["images"].sum()),
            "reasons": [f"{_in_words(str(reason))} ({count})" for reason, count in by_reason.items()],
        }
    return found


def _in_words(reason: str) -> str:
    return reason.replace("_", " ") if reason else _NO_REASON


def main(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Result folder of a study.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Markdown file; by default, the terminal.")
    ] = None,
    attribute: Annotated[str | None, typer.Option("--attribute", help="By default the study's first.")] = None,
    resamples: Annotated[
        int | None,
        typer.Option("--resamples", help="For confidence intervals; 0: none; by default the study's."),
    ] = None,
) -> None:
    """Where do the detectors' errors come from, filtering or classification?"""
    facts = facts_of(Results.load(results, attribute=attribute), resamples=resamples)
    write_or_print(render("rq3_error_causes.md", facts), out)


if __name__ == "__main__":
    typer.run(main)
