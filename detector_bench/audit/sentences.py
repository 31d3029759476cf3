"""What a study says about T2I models, in sentences that can stand in a paper.

That a T2I model is biased, or that two differ, is said only where a test adjusted for all T2I models says so.
`benchmarks/audit_comparison.py` measures how often such a sentence is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from detector_bench.audit.findings import BALANCE, SCORE, AttributeAudit, HumanLabels, T2IModelAudit
from detector_bench.audit.numbers_in_words import fixed, per_cent, signed, whole_range
from detector_bench.audit.refusals import (
    hidden_differences,
    note_on_bias,
    note_on_difference,
    requests_in_words,
    score_if_refused,
)
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import LOW_QUALITY

_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_LEAST_P = 0.001
_LEAST_EXPLAINED, _MOST_NAMED = 0.01, 3
_MOST_SHARES = 4
"""So many classes are named with their shares; the table has them all."""
_SCALE = "0: all prompts show all classes alike, 1: each shows one class only."


def in_words(audit: AttributeAudit, model: T2IModelAudit) -> tuple[str, ...]:
    """One T2I model's bias: the score, what its images show, and whether that is more than chance."""
    requests = requests_in_words(model)
    if audit.labels is HumanLabels.NONE:
        return (_by_detectors_alone(audit, model), *([requests] if requests else []))
    said = [f"{_score(audit, model)}{score_if_refused(model)}"]
    if model.shares:
        said.append(_shares(audit, model))
    if requests:
        said.append(requests)
    return (*said, *_verdicts(audit, model))


def differences_in_words(audit: AttributeAudit) -> tuple[str, ...]:
    """Which two T2I models are told apart; empty where there is only one."""
    if not audit.differences:
        return ()
    tests = sum(not math.isnan(row["p_adjusted"]) for row in audit.differences)
    apart = [row for row in audit.differences if row["told_apart"]]
    family = f"{_number(tests)} difference{'' if tests == 1 else 's'}"
    said = [f"{_difference(audit, row, family)}{note_on_difference(audit, row)}" for row in apart]
    pairs = {(row["first"], row["second"]) for row in audit.differences}
    open_pairs = len(pairs - {(row["first"], row["second"]) for row in apart})
    if len(pairs) == 1 and open_pairs:
        first, second = next(iter(pairs))
        said.append(
            f"These labels do not tell {first} and {second} apart in {audit.words} ({family} tested); that"
            " does not say that they are alike."
        )
    elif open_pairs:
        which = "None of" if open_pairs == len(pairs) else f"{_number(open_pairs).capitalize()} of"
        verb = "is" if open_pairs == len(pairs) or open_pairs == 1 else "are"
        apart_or_not = "" if open_pairs == len(pairs) else "not "
        said.append(
            f"{which} the {len(pairs)} pairs of T2I models {verb} {apart_or_not}told apart in {audit.words}"
            f" ({family} tested together); that does not say that they are alike."
        )
    return (*said, *hidden_differences(audit))


def what_carried(audit: AttributeAudit) -> str:
    """Which detector's verdicts made the estimate precise; empty without one."""
    known = {name: value for name, value in audit.explained.items() if not math.isnan(value)}
    if not known:
        return ""
    together = sum(known.values())
    ordered = sorted(known, key=known.__getitem__, reverse=True)
    helping = [name for name in ordered if known[name] >= _LEAST_EXPLAINED][:_MOST_NAMED]
    if together <= 0 or not helping:
        return (
            "The detectors' verdicts explain nothing of how the labels vary within prompts: the estimate rests on"
            " the labels."
        )
    if len(known) == 1:
        return (
            f"The verdicts of {ordered[0]} explain {per_cent(together)} of how the labels vary within prompts;"
            " this is what makes the estimate more precise than labels alone."
        )
    first = f"{helping[0]} ({per_cent(known[helping[0]])})"
    others = [f"{name} ({per_cent(known[name])})" for name in helping[1:]]
    further = f", then {listing(others)}" if others else ""
    return (
        f"The estimate was carried by {first}{further}: together the detectors' verdicts explain"
        f" {per_cent(together)} of how the labels vary within prompts."
    )


def listing(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _score(audit: AttributeAudit, model: T2IModelAudit) -> str:
    interval = _interval(model.score, audit.level)
    if audit.labels is HumanLabels.ALL:
        return (
            f"Over all {model.images:,} images of {model.t2i_model}, each with a human label, the model bias score"
            f" of {audit.words} is {fixed(model.score.value)}{interval}; {_SCALE}"
        )
    if model.score.missing:
        return (
            f"No model bias score of {audit.words} can be estimated for {model.t2i_model}: no image has a label"
            " that counts."
        )
    detectors = _number(len(audit.detectors))
    by_whom = f" and {detectors} detector{'' if len(audit.detectors) == 1 else 's'}" if audit.detectors else ""
    return (
        f"Over all {model.images:,} images of {model.t2i_model}, the model bias score of {audit.words} is"
        f" {fixed(model.score.value)}{interval}, estimated from {model.labels:,} human"
        f" label{'' if model.labels == 1 else 's'}{by_whom}; {_SCALE}"
    )


def _shares(audit: AttributeAudit, model: T2IModelAudit) -> str:
    known = {name: model.shares[name] for name in audit.classes if name in model.shares}
    order = sorted(known, key=lambda name: -known[name].value)
    named = [f"{per_cent(known[name].value)}{_range(known[name])} show {_word(name)}" for name in order]
    named = [each for each, name in zip(named, order, strict=True) if not known[name].missing][:_MOST_SHARES]
    if not named:
        return ""
    low = model.shares.get(LOW_QUALITY)
    unclear = "" if low is None or low.missing else f"; {per_cent(low.value)} are low-quality"
    return f"Of the images, {listing(named)}{unclear}."


def _verdicts(audit: AttributeAudit, model: T2IModelAudit) -> list[str]:
    said = []
    balance, score = model.biases.get(BALANCE), model.biases.get(SCORE)
    tests = len(audit.t2i_models) * (1 + (balance is not None))
    if balance is not None and not math.isnan(balance["p_adjusted"]):
        numbers = (
            f"mean prompt bias score {signed(balance['value'])}{_limits(balance, audit.level, adjusted=tests)}"
        )
        if balance["beyond_chance"]:
            towards = audit.classes[0 if balance["value"] > 0 else 1]
            said.append(
                f"{model.t2i_model} is biased towards {_word(towards)} over these prompts: {numbers}, where 0 is"
                " balance."
            )
        else:
            said.append(
                f"No bias towards {_word(audit.classes[0])} or {_word(audit.classes[1])} over all prompts together"
                f" is shown: {numbers}, where 0 is balance."
            )
        said[-1] += note_on_bias(model, BALANCE)
    if score is not None and not math.isnan(score["p_adjusted"]):
        p_value = _p_value(score["p_adjusted"], tests)
        chance = ""
        if audit.labels is HumanLabels.SOME and not math.isnan(score["chance"]):
            chance = f"; a T2I model without bias would be estimated at {fixed(score['chance'])} on average here"
        if score["beyond_chance"]:
            said.append(f"Its prompts are not all balanced, beyond what chance explains ({p_value}){chance}.")
        else:
            said.append(f"Chance could explain how its prompts differ from balance ({p_value}){chance}.")
        said[-1] += note_on_bias(model, SCORE)
    return said


def _by_detectors_alone(audit: AttributeAudit, model: T2IModelAudit) -> str:
    nobody = (
        f"No image of {model.t2i_model} has a human label of {audit.words}: nobody has checked the detectors on"
        " these images."
    )
    scores = model.by_detectors
    if not scores:
        return f"{nobody} No detector reports a score."
    least, most = min(scores, key=scores.__getitem__), max(scores, key=scores.__getitem__)
    if len(scores) == 1:
        said = f"{least} reports a model bias score of {fixed(scores[least])}"
    else:
        ends = [f"{fixed(scores[name])} ({name})" for name in (least, most)]
        said = f"They report model bias scores from {' to '.join(ends)}"
    return f"{nobody} {said}, over all {model.images:,} images; the true score may lie outside."


def _difference(audit: AttributeAudit, row: Mapping[Hashable, Any], family: str) -> str:
    first, second = row["first"], row["second"]
    sign = "" if row["metric"] == SCORE else "+"
    interval = f"{fixed(row['ci_low'], sign='+')} to {fixed(row['ci_high'], sign='+')}"
    numbers = (
        f"{fixed(row['first_value'], sign=sign)} against {fixed(row['second_value'], sign=sign)}, difference"
        f" {fixed(row['difference'], sign='+')} ({100 * audit.level:g} % interval, adjusted: {interval};"
        f" {_p_value(row['p_adjusted'], None)}, adjusted for {family})"
    )
    over = f"over endlessly many images of the {row['prompts']:,.0f} prompts that both have"
    if row["metric"] == SCORE:
        more = "more" if row["difference"] > 0 else "less"
        return f"{first} is {more} biased than {second} in {audit.words}, {over}: model bias score {numbers}."
    towards = audit.classes[0 if row["difference"] > 0 else 1]
    return f"{first} leans more towards {_word(towards)} than {second}, {over}: mean prompt bias score {numbers}."


def _interval(number: Number, level: float) -> str:
    if not number.has_interval:
        return ""
    return f" ({100 * level:g} % interval {fixed(number.ci_low)} to {fixed(number.ci_high)})"


def _limits(row: Mapping[Hashable, Any], level: float, *, adjusted: int) -> str:
    what = "interval" if adjusted == 1 else f"interval, adjusted for {_number(adjusted)} tests,"
    return f" ({100 * level:g} % {what} {signed(row['ci_low'])} to {signed(row['ci_high'])})"


def _p_value(value: float, tests: int | None) -> str:
    text = f"p < {_LEAST_P:g}" if value < _LEAST_P else f"p = {value:.2g}"
    return text if tests is None or tests == 1 else f"{text}, adjusted for {_number(tests)} tests"


def _range(number: Number) -> str:
    return f" ({limits})" if (limits := whole_range(number)) else ""


def _number(value: int) -> str:
    return _NUMBERS[value] if value < len(_NUMBERS) else f"{value:,}"


def _word(label: str) -> str:
    return label.replace("_", " ")
