"""What an audit says of refused requests: how many there are, and which sentence could be their effect.

`benchmarks/refusals.py` measures how often a sentence that refusals made bears the note.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from detector_bench.audit.findings import BALANCE, AttributeAudit, T2IModelAudit
from detector_bench.audit.numbers_in_words import fixed, per_cent, signed, whole_range


def requests_in_words(model: T2IModelAudit) -> str:
    """How many requests a T2I model refused, and how many failed; empty where none did either, or nobody knows."""
    said = []
    if model.refused:
        rate = model.refusals
        limits = whole_range(rate)
        said.append(
            f"Of {rate.n:,.0f} answered requests, {model.t2i_model} refused {model.refused:,}"
            f" ({per_cent(rate.value)}{f', {limits}' if limits else ''}); nobody knows what those images would"
            " have shown."
        )
    failed = 0 if model.errors.missing else round(model.errors.value * model.errors.n)
    if failed:
        share = per_cent(model.errors.value)
        said.append(f"{failed:,} of {model.errors.n:,.0f} requests to {model.t2i_model} failed ({share}).")
    return " ".join(said)


def score_if_refused(model: T2IModelAudit) -> str:
    """How low and high the model bias score could be with the refused images, behind its sentence."""
    if model.if_refused is None:
        return ""
    low, high = model.if_refused
    return (
        f" With the {_images(model.refused)}, whatever they would show, it could be {fixed(low)} to {fixed(high)}."
    )


def note_on_bias(model: T2IModelAudit, metric: str) -> str:
    """What the refused images could have made of a T2I model's test; empty if what is said would stay."""
    effect = model.effects.get(metric)
    if effect is None or not (effect["could_explain"] or effect["could_hide"]):
        return ""
    images = _images(round(effect["refused"]))
    if metric == BALANCE:
        what = "This could be an effect of" if effect["could_explain"] else "A bias could be hidden by"
        could = f"with the {images}, whatever they would show, the score could be {_between(effect)}."
        return f" {what} what was refused: {could}"
    if effect["could_explain"]:
        return f" This could be an effect of what was refused: with the {images} chance could explain it."
    return f" What was refused could hide more: with the {images} it could be beyond chance."


def note_on_difference(audit: AttributeAudit, row: Mapping[Hashable, Any]) -> str:
    """The same of a difference that is told."""
    effect = audit.effects.get((row["metric"], row["first"], row["second"]))
    if effect is None or not effect["could_explain"]:
        return ""
    return (
        f" This could be an effect of what was refused ({_by_both(effect)}): with those images the difference"
        f" could be {_between(effect)}."
    )


def hidden_differences(audit: AttributeAudit) -> tuple[str, ...]:
    """Pairs that are not told apart, and might be with the refused images."""
    pairs = {
        (first, second): effect
        for (_, first, second), effect in audit.effects.items()
        if second and effect["could_hide"]
    }
    told = {(row["first"], row["second"]) for row in audit.differences if row["told_apart"]}
    return tuple(
        f"What was refused ({_by_both(effect)}) could hide a difference between {first} and {second}."
        for (first, second), effect in pairs.items()
        if (first, second) not in told
    )


def _images(number: int) -> str:
    return f"{number:,} refused image{'' if number == 1 else 's'}"


def _by_both(effect: Mapping[Hashable, Any]) -> str:
    numbers = ((effect["first"], effect["refused"]), (effect["second"], effect["refused_by_second"]))
    known = [f"{round(number):,} of {name}" for name, number in numbers if not math.isnan(number)]
    unknown = [f"nobody knows how many of {name}" for name, number in numbers if math.isnan(number)]
    return ", ".join([*known, *unknown]).replace(" of ", " images of ", 1)


def _between(effect: Mapping[Hashable, Any]) -> str:
    return f"{signed(effect['if_refused_low'])} to {signed(effect['if_refused_high'])}"
