"""What the coordinator's page says about the worth of the labels so far, in sentences."""

from __future__ import annotations

import math
from typing import Any

from detector_bench.labelling.sentences import IN_ENGLISH, Sentences
from detector_bench.labelling.worth import NOT_YET, LabelsWorth, WorthNow


def worth_view(now: WorthNow, *, attribute: str, sentences: Sentences = IN_ENGLISH) -> dict[str, Any]:
    """`lines`, a sentence for each T2I model and score of an attribute, and `problem`, "" where there is none."""
    lines = [sentence(one, sentences) for one in now.found if one.attribute == attribute]
    problem = sentences.say("it is being worked out") if now.problem == NOT_YET else now.problem
    if not problem and not lines:
        problem = sentences.say("no detector judges {attribute}", attribute=attribute)
    said = sentences.say("It cannot be said yet: {why}.", why=problem) if problem else ""
    return {"lines": lines, "problem": said}


def sentence(worth: LabelsWorth, sentences: Sentences = IN_ENGLISH) -> str:
    """For example: "Model bias score of sd35: 0.31 ± 0.08 with 60 labels; 117 more for ± 0.05"."""
    say = sentences.say
    name = worth.score_name.replace("_", " ").capitalize()
    if worth.score_name == "model_bias_score":
        name = say("Model bias score")
    score = say("{score} of {model}", score=name, model=worth.t2i_model)
    labels = sentences.say_of(worth.labels, "with {n} label", "with {n} labels")
    if math.isnan(worth.estimate) or math.isnan(worth.half_width):
        return f"{score}: {say('cannot be said yet')} {labels}"
    target = f"± {worth.target_half_width:.2g}"
    if sentences.has_decimal_comma:
        target = target.replace(".", ",")
    if worth.more_labels is None:
        rest = say("how many more for {target} cannot be said yet", target=target)
    elif worth.more_labels == 0:
        rest = say("{target} is reached", target=target)
    else:
        rest = say("{n} more for {target}", n=worth.more_labels, target=target)
    estimate, half = sentences.number(worth.estimate), sentences.number(worth.half_width)
    return f"{score}: {estimate} ± {half} {labels}; {rest}"
