"""RQ3: where do the detectors' errors come from, filtering or classification? Prose with a study's own numbers.

python analysis/rq3_error_causes.py results/t2i_portraits --out rq3.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from prose import extreme, has_intervals, percent, render, score, table, write_or_print

from detector_bench import Results
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number
from detector_bench.study_questions import causes
from detector_bench.vocabulary import ALL, LOW_QUALITY, OTHERS, Status

_FILTERING = ("precision", "recall", "f1", "filter_rate")
_PARTS = ("error", "filtering", "classification", "with_both")
_NO_REASON = "no reason given"


def facts_of(study: FinishedStudy, *, resamples: int | None = None) -> dict[str, Any]:
    """The numbers that the text speaks of; with other resamples than the study's, causes are computed anew."""
    found = causes(study, resamples=resamples).numbers
    split, gaps, outcomes = (found[name] for name in ("causes", "accuracy_gaps", "filter_outcomes"))
    metrics = {metric: _of_detectors(study, metric) for metric in (*_FILTERING, "accuracy")}
    classes = study.classes
    return {
        "study": study.results.manifest.study,
        "attribute": study.attribute,
        "classes": [name.replace("_", " ") for name in classes],
        "two_classes": len(classes) == 2,
        "detectors": study.detectors,
        "low_quality": study.estimate("label_share_low_quality"),
        "metrics": metrics,
        "best": {metric: extreme(numbers, largest=True) for metric, numbers in metrics.items()},
        "worst": {metric: extreme(numbers, largest=False) for metric, numbers in metrics.items()},
        "table": _table(study, metrics),
        "gaps": _overall(gaps, "value"),
        "recall_gaps": _recall_gaps(study),
        "causes": [_causes_of(split, name) for name in study.detectors],
        "cause_table": _cause_table(split, study),
        "lost": _by_reason(outcomes, study, status=Status.FILTERED, column="detector_reason"),
        "kept": _by_reason(outcomes, study, status=Status.CLEAR, column="human_reason"),
        "level": study.intervals.level,
        "drawn": bool(pd.concat([split["error_ci_low"], gaps["ci_low"]]).notna().any()),
        "has_intervals": has_intervals(study),
    }


def _of_detectors(study: FinishedStudy, metric: str) -> dict[str, Number]:
    return {name: study.estimate(metric, detector=name) for name in study.detectors}


def _table(study: FinishedStudy, metrics: dict[str, dict[str, Number]]) -> str:
    rows = [[name, *(percent(numbers[name].value) for numbers in metrics.values())] for name in study.detectors]
    return table(["Detector", *(metric.replace("_", " ") for metric in metrics)], rows)


def _recall_gaps(study: FinishedStudy) -> dict[str, dict[str, Any]]:
    """By detector, the class of whose images it keeps most, and least."""
    found = {}
    for detector in study.detectors:
        numbers = {name: study.estimate(f"recall_{name}", detector=detector) for name in study.classes}
        known = {name.replace("_", " "): number for name, number in numbers.items() if not number.missing}
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
        row["detector"]: Number(row[value], ci_low=row[f"{prefix}ci_low"], ci_high=row[f"{prefix}ci_high"])
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
        not deviation["error"].missing and deviation["filtering"].value * deviation["classification"].value < 0
    )
    return parts


def _overlap(one: Number, other: Number) -> bool:
    """Whether two intervals overlap, so that the larger part may be the larger by chance; False without
    intervals."""
    return one.ci_low <= other.ci_high and other.ci_low <= one.ci_high


def _cause_table(split: pd.DataFrame, study: FinishedStudy) -> str:
    rows = []
    for name in study.detectors:
        found = _causes_of(split, name)
        cells = [score(found["difference"][part].value) for part in _PARTS]
        cells += [percent(found["deviation"][part].value) for part in _PARTS]
        rows.append([name, *cells])
    names = [part if part != "with_both" else "no verdict" for part in _PARTS]
    header = [*(f"difference: {name}" for name in names), *(f"deviation: {name}" for name in names)]
    return table(["Detector", *header], rows)


def _by_reason(outcomes: pd.DataFrame, study: FinishedStudy, *, status: Status, column: str) -> dict[str, Any]:
    """Images that were wrongly filtered or kept, by detector and reason, the most frequent first."""
    low_quality = outcomes["human_label"] == LOW_QUALITY
    human_clear = ~outcomes["human_label"].isin([LOW_QUALITY, OTHERS])
    of_interest = human_clear if status is Status.FILTERED else low_quality
    found = {}
    for detector in study.detectors:
        own = outcomes[of_interest & (outcomes["detector"] == detector)]
        wrong = own[own["status"] == status]
        by_reason = wrong.groupby(column)["images"].sum().sort_values(ascending=False, kind="stable")
        found[detector] = {
            "images": int(own.loc[own["status"] != Status.ERROR, "images"].sum()),
            "wrong": int(wrong["images"].sum()),
            "reasons": [f"{_in_words(str(reason))} ({count:.0f})" for reason, count in by_reason.items()],
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
    facts = facts_of(Results.open(results).of_attribute(attribute), resamples=resamples)
    write_or_print(render("rq3_error_causes.md", facts), out)


if __name__ == "__main__":
    typer.run(main)
