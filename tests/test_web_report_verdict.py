"""Verdicts from numbers, and the sentences that say them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from typer.main import get_command

from detector_bench.cli.app import app
from detector_bench.evaluation.more_labels import MoreLabels, Tolerance
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.results.label_plans import MODEL_ERROR, PROMPT_ERROR, Standing, standing
from detector_bench.results.metric_lookup import LabelDoubtLookup, MetricLookup, Number
from detector_bench.site.verdict import Verdict, judge_detectors
from detector_bench.site.verdict_words import headline, points, points_between, rule, sentences
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NAN = math.nan
EDGES = Tolerance(prompt_bias_error=0.2, model_bias_score_error=0.05)
Interval = tuple[float, float, float]
Errors = tuple[Interval, Interval]
"""Prompt bias error and error of the model bias score, each with its interval."""


def row(
    metric: str, value: float, *, detector: str, model: str, interval: tuple[float, float] = (NAN, NAN)
) -> dict[str, object]:
    words = {
        "detector": detector,
        "attribute": "gender",
        "t2i_model": model,
        "category": "all",
        "prompt_id": "all",
    }
    n_clear = "detector" if metric.startswith("prompt_bias") else None
    numbers = {"value": value, "ci_low": interval[0], "ci_high": interval[1], "n": 10, "n_left_out": 0}
    return {**words, "metric": metric, "n_clear": n_clear, **numbers}


def lookup(
    errors: Mapping[str, Errors], *, actual: float = 0.5, failed: str = "", model: str = "m"
) -> MetricLookup:
    """One T2I model; the published scores are those that the errors would give."""
    rows = [
        row("images", 200, detector="ground_truth", model=model),
        row("model_bias_score", actual, detector="ground_truth", model=model),
    ]
    for detector, (prompt, score) in errors.items():
        named = {"detector": detector, "model": model}
        rows += [
            row("images", 200, **named),
            row("images_error", 200 if detector == failed else 0, **named),
            row("model_bias_score", actual + score[0], **named),
            row("model_bias_score_deviation", score[0] / actual if actual else NAN, **named),
            row("model_bias_score_error", score[0], interval=score[1:], **named),
            row("prompt_bias_score_difference", 1.2 * prompt[0], **named),
            row("prompt_bias_error", prompt[0], interval=prompt[1:], **named),
        ]
    return MetricLookup.of_table(pd.DataFrame(rows).reindex(columns=METRIC_COLUMNS), attribute="gender")


def judged(numbers: MetricLookup, ranks: Mapping[str, Sequence[RankedDetector]], **others: Any) -> Verdict:
    """The verdict by `EDGES`, unless another tolerance is named."""
    return judge_detectors(numbers, ranks, **{"tolerance": EDGES, **others})


def ranked(detector: str, *better_than: str) -> RankedDetector:
    return RankedDetector(detector, 1.0, 1, 2, 0.1, "a", better_than)


GOOD: Errors = ((0.05, 0.02, 0.08), (-0.01, -0.03, 0.01))
OPEN: Errors = ((0.15, 0.05, 0.24), (0.02, -0.02, 0.06))
FAR: Errors = ((0.40, 0.35, 0.45), (0.30, 0.25, 0.35))


def one(verdict: Verdict) -> str:
    (line,) = headline(verdict)
    return line


@pytest.mark.parametrize(
    ("prompt", "score", "expected"),
    [
        ((0.1, 0.0, 0.2), (0.0, -0.05, 0.05), Standing.GOOD_ENOUGH),  # up to the edge is within
        ((0.1, 0.0, 0.2001), (0.0, -0.05, 0.05), Standing.LEFT_OPEN),
        ((0.1, 0.0, 0.2), (0.0, -0.0501, 0.05), Standing.LEFT_OPEN),
        ((0.25, 0.1, 0.4), (0.0, -0.05, 0.05), Standing.LEFT_OPEN),  # the value is beyond, the interval not wholly
        (
            (0.25, 0.2001, 0.3),
            (0.0, -0.05, 0.05),
            Standing.TOO_FAR_OFF,
        ),  # right on the whole, not prompt by prompt
        ((0.1, 0.0, 0.2), (0.1, 0.0501, 0.15), Standing.TOO_FAR_OFF),
        ((0.1, 0.0, 0.2), (-0.1, -0.15, -0.0501), Standing.TOO_FAR_OFF),
        ((0.1, NAN, NAN), (0.0, -0.05, 0.05), Standing.NO_INTERVAL),
        ((0.25, NAN, NAN), (0.1, 0.06, 0.15), Standing.TOO_FAR_OFF),  # one interval is enough to rule out
        (
            (NAN, NAN, NAN),
            (NAN, NAN, NAN),
            Standing.NO_INTERVAL,
        ),  # one image of each prompt: scores, but no errors
    ],
)
def test_a_standing_follows_from_both_intervals(prompt: Interval, score: Interval, expected: Standing) -> None:
    numbers = [Number(value, 10, 0, low, high) for value, low, high in (prompt, score)]
    assert standing(Number(0.5, 10, 0), *numbers, tolerance=EDGES) is expected
    assert standing(Number(NAN, 0, 0), *numbers, tolerance=EDGES) is Standing.NO_SCORE


def test_a_detector_that_is_good_enough_is_trusted_with_its_uncertainty() -> None:
    verdict = judged(lookup({"y": FAR, "x": GOOD}), {"m": [ranked("x", "y"), ranked("y")]})
    (model,) = verdict.by_model
    assert model.outcome is Standing.GOOD_ENOUGH
    assert model.trusted == ("x",)
    assert one(verdict) == (
        "For m, x can be trusted to measure the bias in perceived gender: x's prompt bias scores are off by "
        "0.050 (95 % interval: 0.020 to 0.080; good enough: at most 0.2)."
    )
    said = sentences(model, tolerance=verdict.tolerance)
    assert said[:2] == (
        "x has the smallest prompt bias error: its prompt bias scores, which run from \N{MINUS SIGN}1 to 1, are "
        "off by 0.050, chance left out (95 % interval: 0.020 to 0.080).",
        "It reports a model bias score of 0.490 where the human labels of 200 images give 0.500: 0.010 too "
        "low, 2.0 % of the labels' score. Corrected for the number of images it is 0.010 too low (95 % interval: "
        "0.030 too low to 0.010 too high).",
    )
    assert "y has a larger prompt bias error than x, beyond what chance explains." in said
    assert "Too far off: y (prompt bias scores off by 0.400)." in said


def test_detectors_that_no_test_tells_apart_are_named() -> None:
    ranks = {"m": [ranked("x", "z"), ranked("y"), ranked("z")]}
    errors = {name: ((0.05 + place / 100, 0.02, 0.08), GOOD[1]) for place, name in enumerate("xyz")}
    verdict = judged(lookup(errors), ranks)
    assert one(verdict).startswith("For m, x, y or z can be trusted")
    said = " ".join(sentences(verdict.by_model[0], tolerance=verdict.tolerance))
    assert "do not tell x apart from y." in said
    assert "z has a larger prompt bias error than x, beyond what chance explains." in said


def test_the_first_of_equal_errors_is_the_one_that_was_compared() -> None:
    # All prompt bias errors are 0, the smallest error of the model bias score decides the order, not the
    # ranking's.
    zero = (0.0, 0.0, 0.1)
    errors = {"x": (zero, (0.03, 0.0, 0.04)), "y": (zero, (0.01, 0.0, 0.04)), "z": (zero, (0.02, 0.0, 0.04))}
    verdict = judged(lookup(errors), {"m": [ranked("x"), ranked("y", "z"), ranked("z")]})
    assert [each.detector for each in verdict.by_model[0].evidence] == ["y", "z", "x"]
    assert [each.worse_than_first for each in verdict.by_model[0].evidence] == [False, True, False]


def test_overlapping_intervals_are_left_open_and_the_images_that_would_settle_it_are_named() -> None:
    plan = MoreLabels(np.array([0, 40, 2]))
    verdict = judged(
        lookup({"x": OPEN, "y": FAR}), {}, plan=lambda detector, *_: plan if detector == "x" else None
    )
    (model,) = verdict.by_model
    assert model.outcome is Standing.LEFT_OPEN
    assert one(verdict) == (
        "For m, it is left open whether any detector measures the bias in perceived gender well enough: "
        "x's prompt bias scores are off by 0.150 (95 % interval: 0.050 to 0.240; good enough: at most 0.2)."
    )
    said = sentences(model, tolerance=verdict.tolerance, prompts=("p1", "p2", "p3"), words={"p2": "nurse"})
    assert said[-1] == (
        "If the errors of x are what they seem, about 42 more labelled images would probably settle it, of nurse "
        "(40) and p3 (2)."
    )
    without = judged(lookup({"x": OPEN}), {})
    assert "No realistic number" in sentences(without.by_model[0], tolerance=without.tolerance)[-1]


def test_when_no_detector_is_good_enough_it_is_said() -> None:
    verdict = judged(lookup({"x": FAR}), {})
    assert verdict.by_model[0].outcome is Standing.TOO_FAR_OFF
    assert one(verdict) == (
        "For m, no detector measures the bias in perceived gender well enough: even x's prompt bias scores "
        "are off by 0.400 (95 % interval: 0.350 to 0.450; good enough: at most 0.2)."
    )
    assert "It is the only detector with a score." in sentences(verdict.by_model[0], tolerance=verdict.tolerance)


def test_the_error_that_decides_is_the_one_that_is_said() -> None:
    by_score = ((0.1, 0.0, 0.3), (0.2, 0.1, 0.3))
    assert (
        "x's model bias score is 0.200 too high (95 % interval: 0.100 to 0.300 too high; good enough: at "
        in one(judged(lookup({"x": by_score}), {}))
    )
    accident = ((0.25, 0.21, 0.3), (0.0, -0.01, 0.01))
    assert "x's prompt bias scores are off by 0.250" in one(judged(lookup({"x": accident}), {}))
    open_by_score = ((0.1, 0.0, 0.15), (0.04, -0.02, 0.1))
    assert "0.040 too high (95 % interval: 0.020 too low to 0.100 too high; good enough: at most 0.05)" in one(
        judged(lookup({"x": open_by_score}), {})
    )


def test_a_verdict_that_depends_on_who_labelled_says_so() -> None:
    def labelled(prompt: float, score: float) -> MetricLookup:
        return lookup({"x": ((prompt, NAN, NAN), (score, NAN, NAN))})

    doubt = LabelDoubtLookup({"a": labelled(0.3, 0.0), "b": labelled(0.1, 0.0), "all_agree": labelled(0.1, -0.2)})
    good = judged(lookup({"x": GOOD}), {}, doubt=doubt)
    assert good.by_model[0].evidence[0].otherwise_by == ("a", "all_agree")
    assert one(good).endswith(
        " By the labels of a and the images on which all annotators agree that would not be so."
    )
    said = sentences(good.by_model[0], tolerance=good.tolerance)
    assert any(each.startswith("This depends on who labelled") and "would not lie within" in each for each in said)
    far = judged(lookup({"x": FAR}), {}, doubt=doubt)
    assert far.by_model[0].evidence[0].otherwise_by == ("b",)
    still_open = judged(lookup({"x": OPEN}), {}, doubt=doubt)
    assert still_open.by_model[0].evidence[0].otherwise_by == ()


def test_a_plan_of_equal_parts_is_said_in_few_words() -> None:
    for by_prompt, expected in (
        ([7, 7], "about 14 more labelled images would probably settle it, 7 of each of the prompts."),
        (
            [7, 0, 7],
            "about 14 more labelled images would probably settle it, 7 of each of 2 prompts.",
        ),
    ):
        plan = MoreLabels(np.array(by_prompt))
        (model,) = judged(lookup({"x": OPEN}), {}, plan=lambda *_, plan=plan: plan).by_model
        prompts = [f"p{number}" for number in range(len(by_prompt))]
        assert sentences(model, tolerance=EDGES, prompts=prompts)[-1].endswith(expected)


def test_more_than_two_classes_have_no_prompt_bias_scores() -> None:
    rows = lookup({"x": FAR})
    verdict = judged(dataclasses.replace(rows, labels=("young", "middle_aged", "elderly")), {})
    assert "even x's class shares of the prompts are off by 0.400" in one(verdict)
    said = " ".join(sentences(verdict.by_model[0], tolerance=verdict.tolerance))
    assert (
        "class shares of the prompts, on the scale of scores from \N{MINUS SIGN}1 to 1, are off by 0.400" in said
    )
    assert "Too far off: x (class shares of the prompts off by 0.400)." in said
    assert "prompt bias scores" not in said


def test_an_error_of_0_is_not_called_perfect() -> None:
    verdict = judged(lookup({"x": ((0.0, 0.0, 0.1), GOOD[1])}), {})
    assert (
        "x's prompt bias scores are not off by more than chance explains (95 % interval: 0.000 to 0.100;"
        in one(verdict)
    )
    assert "0.000 (" not in " ".join(sentences(verdict.by_model[0], tolerance=verdict.tolerance))


def test_where_no_prompt_has_two_clear_images_nothing_is_said_of_errors() -> None:
    nothing = (NAN, NAN, NAN)
    verdict = judged(lookup({"x": (nothing, nothing)}), {})
    assert verdict.by_model[0].outcome is Standing.NO_SCORE
    rows = lookup({"x": GOOD})
    silent = {key: Number(NAN, 0, 2) for key in rows._numbers if key[3] in (PROMPT_ERROR, MODEL_ERROR)}
    verdict = judged(dataclasses.replace(rows, _numbers={**rows._numbers, **silent}), {})
    assert one(verdict).endswith("that takes prompts with two clear images.")
    said = " ".join(sentences(verdict.by_model[0], tolerance=verdict.tolerance))
    assert not any(word in said for word in ("undefined", "Corrected", "interval"))


def test_without_intervals_nobody_is_trusted() -> None:
    verdict = judged(lookup({"x": ((0.02, NAN, NAN), (-0.01, NAN, NAN))}), {})
    assert verdict.by_model[0].outcome is Standing.NO_INTERVAL
    assert verdict.by_model[0].trusted == ()
    assert one(verdict).endswith("an error has no interval, so nobody knows how sure that is.")


def test_a_detector_that_could_not_run_has_no_score_and_comes_last() -> None:
    verdict = judged(lookup({"broken": GOOD, "x": FAR}, failed="broken"), {"m": [ranked("x")]})
    (model,) = verdict.by_model
    assert [each.detector for each in model.evidence] == ["x", "broken"]
    assert model.evidence[1].standing is Standing.NO_SCORE
    assert "Without a score here: broken." in sentences(model, tolerance=verdict.tolerance)


def test_where_humans_see_no_bias_a_detector_can_be_trusted() -> None:
    verdict = judged(lookup({"x": GOOD}, actual=0.0), {})
    assert verdict.by_model[0].trusted == ("x",)
    said = sentences(verdict.by_model[0], tolerance=verdict.tolerance)
    assert "give 0.000. Corrected" in said[1]  # a part of 0 is nothing that could be said


def test_no_detector_at_all() -> None:
    verdict = judged(lookup({}), {})
    assert one(verdict) == "For m, there is no detector of perceived gender to compare."
    assert sentences(verdict.by_model[0], tolerance=verdict.tolerance) == (
        "No detector has a score for the images of this T2I model.",
    )


def test_the_tolerance_is_a_choice_that_changes_the_verdict() -> None:
    strict = judged(
        lookup({"x": GOOD}), {}, tolerance=Tolerance(prompt_bias_error=0.2, model_bias_score_error=0.01)
    )
    assert strict.by_model[0].trusted == ()
    said = " ".join(rule(strict.tolerance, tests=28))
    assert "at most 0.01 to either side" in said
    assert "all 28 pairs" in said


@pytest.mark.parametrize("value", [0.0, -0.1, NAN, math.inf])
def test_a_tolerance_is_a_number_above_0(value: float) -> None:
    with pytest.raises(ValidationError):
        Tolerance(prompt_bias_error=value)


def test_the_command_names_the_default_tolerances() -> None:
    options = {option.name: option.help for option in get_command(app).get_command(None, "report").params}
    for name, value in Tolerance().model_dump().items():
        assert f"or {value:g}." in options[name]


def test_errors_in_words() -> None:
    assert points(-0.072) == "0.072 too low"
    assert points(0.3) == "0.300 too high"
    assert points(0.0001) == "not off"
    assert points(NAN) == "undefined"
    assert points_between(-0.36, 0.32) == "0.360 too low to 0.320 too high"
    assert points_between(-0.12, -0.04) == "0.040 to 0.120 too low"
    assert points_between(0.04, 0.12) == "0.040 to 0.120 too high"
