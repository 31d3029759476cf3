"""How many images and labels a T2I model's score needs: what `plan` answers of a result folder."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from pydantic import ValidationError

from detector_bench.dataset.sample_file import SAMPLE_FILE, found_sample
from detector_bench.errors import ConfigError
from detector_bench.evaluation.audit_plan import (
    AuditPlan,
    AuditPlanner,
    PlanSettings,
    all_t2i_models,
    explained_by,
)
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.labels_so_far import labels_so_far
from detector_bench.study_questions import ResultTables
from detector_bench.tables.audit_plan_tables import (
    audit_plan_table,
    detectors_worth,
    duration,
    prompts_to_label,
    score_in_words,
)
from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED


def plan_settings(**given: object) -> PlanSettings:
    """Settings of a plan, checked; None: the default.

    Raises:
        ConfigError: a half-width beyond 0 to 1, or the like.
    """
    try:
        return PlanSettings.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--{str(first['loc'][0]).replace('_', '-')}"
        accepted = {
            "--half-width": "above 0, at most 1",
            "--seconds-per-label": "above 0",
            "--level": "between 0 and 1",
            "--about": "images, t2i_model",
        }.get(option, first["msg"])
        raise ConfigError(f"{option} {first['input']} (accepted: {accepted})") from error


def plan(
    results: ResultFolder,
    attribute: str,
    settings: PlanSettings,
    *,
    t2i_models: tuple[str, ...] = (),
    sample: Path | None = None,
    validated_on: ResultFolder | None = None,
    published: bool = False,
) -> ResultTables:
    """See `Results.plan`.

    Args:
        results: the folder.
        attribute: which one.
        settings: what is wanted.
        t2i_models: which ones; none: all.
        sample: of the labelled images; None: the one in the image set's folder, if there is one.
        validated_on: another study, whose labels say what the detectors explain where these images have none.
        published: whether everybody may read it; then the image set is called by its name, not by its path.
    """
    labels = labels_so_far(results, attribute, sample)
    explained, assumed = 0.0, ""
    if validated_on is not None:
        other = labels_so_far(validated_on, attribute)
        explained = explained_by(other, labels.detectors)
        assumed = f"as in {validated_on.path.resolve().name}, "
    planner = AuditPlanner(labels, settings, explained)
    found = planner.plan(t2i_models or all_t2i_models(labels))
    words = dict(
        zip(results.image_set.prompts["prompt_id"], results.image_set.prompts["word"].astype(str), strict=True)
    )
    by_itself = settings.score == "prompt_bias_score"
    tables = [audit_plan_table(found.rows, attribute=attribute, level=settings.level, is_guess=found.is_guess)]
    if found.prompts["labels_needed"].notna().any():
        tables.append(prompts_to_label(found.prompts, attribute=attribute, words=words, each_by_itself=by_itself))
    if found.detectors["labels_needed"].notna().any():
        tables.append(detectors_worth(found.detectors, attribute=attribute, detectors=labels.detectors))
    root = results.image_set.root
    shown = Path(root.name) if published else root
    notes = _sentences(found, labels, settings, root, shown=shown, only=t2i_models)
    if found.is_guess:
        notes = (_guess(found, assumed, labels), *notes)
    elif validated_on is not None:
        notes = (
            *notes,
            "--validated-on is not needed: the labels of these images say what the detectors explain.",
        )
    return ResultTables.of(
        results.study,
        *tables,
        numbers={
            "audit_plan": found.rows,
            "label_curves": found.curves,
            "prompts_to_label": found.prompts,
            "detectors_worth": found.detectors,
        },
        notes=notes,
    )


def _guess(found: AuditPlan, assumed: str, labels: LabelsOfSample) -> str:
    number = len(labels.images.labelled)
    seen = "no image has a label" if not number else f"{number:,} labels are too few to say how much labels vary"
    if not assumed:
        return (
            f"A guess, as {seen}: the verdict of most detectors stands for the label, and detectors are taken to"
            " be worth nothing. With --validated-on DIR another study says what they are worth; 5 labels per"
            " prompt make it a forecast."
        )
    return (
        f"A guess, as {seen}: the verdict of most detectors stands for the label, and the detectors are taken to"
        f" explain {100 * found.explained:.0f} % of the labels' variance within prompts, {assumed}which need not"
        " hold here. 5 labels per prompt make it a forecast."
    )


def _sentences(
    found: AuditPlan,
    labels: LabelsOfSample,
    settings: PlanSettings,
    root: Path,
    *,
    shown: Path,
    only: tuple[str, ...],
) -> tuple[str, ...]:
    """What to do, in words."""
    said, more, total = [], 0.0, 0.0
    score = f"{score_in_words(settings.score)} of {labels.attribute.words}"
    rows = found.rows
    for name, of_model in rows.groupby("t2i_model", sort=False):
        row = of_model[of_model["variant"] == PREDICTION_POWERED].iloc[0]
        alone = of_model[of_model["variant"] == LABELS_ONLY].iloc[0]
        now = (
            "" if math.isnan(row["half_width"]) else f" (now ± {row['half_width']:.3f} with {row['labels']:,.0f})"
        )
        if math.isnan(row["labels_needed"]):
            said.append(_unreachable(str(name), row, found, settings, score))
            continue
        more, total = more + row["more_labels"], total + row["labels_needed"]
        if row["more_labels"] == 0:
            said.append(f"{name}: the {score} is at ± {settings.half_width:g} already{now}.")
            continue
        of_prompts = found.prompts[found.prompts["t2i_model"] == name]
        each = of_prompts["labels_needed"]
        per = f"{each.min():.0f}" if each.min() == each.max() else f"{each.min():.0f} to {each.max():.0f}"
        without = (
            "" if math.isnan(alone["labels_needed"]) else f"; labels alone need {alone['labels_needed']:,.0f}"
        )
        said.append(
            f"{name}: {row['more_labels']:,.0f} more labels, {per} of each prompt in all, take the {score} to"
            f" ± {settings.half_width:g}{now}: {duration(row['minutes'])} at {settings.seconds_per_label:g} s per"
            f" label{without}."
        )
    if more and settings.score != "prompt_bias_score":
        file = found_sample(root)
        grows = "" if file is None else f" --add-to {shown / SAMPLE_FILE}"
        # What was drawn before and waits for its label is not drawn again; without a sample a new one is.
        waiting = labels.missing + labels.set_apart_missing
        number = int(more) - waiting if grows else int(total) - labels.set_apart
        if number <= 0:
            waiting = waiting or labels.set_apart
            return (*said, f"Next: label the {waiting:,} images that were drawn and have no label yet.")
        whose = "".join(f" --t2i-model {name}" for name in only)
        said.append(f"Next: detector-bench sample {shown} --labels {number}{grows}{whose}")
    return tuple(said)


def _unreachable(name: str, row: pd.Series, found: AuditPlan, settings: PlanSettings, score: str) -> str:
    images = found.images_needed[name]
    enough = (
        "1,000 times the images would not do, either"
        if images is None
        else f"it takes at least {images:,.0f} images of each prompt, all of them labelled, or more images with"
        " fewer labels"
    )
    return (
        f"{name}: no number of labels on these images takes the {score} to ± {settings.half_width:g}: a label on"
        f" every image leaves ± {row['least_half_width']:.3f}; {enough}."
    )
