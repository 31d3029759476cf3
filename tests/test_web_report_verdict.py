"""The verdict: which detector is good enough, and how that is said."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
import pytest

from detector_bench.errors import ConfigError
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.report.metric_lookup import MetricLookup, Number
from detector_bench.schema import METRIC_COLUMNS
from detector_bench.web_report.verdict import Outcome, Standing, Tolerance, Verdict, judge_detectors, standing
from detector_bench.web_report.verdict_words import headline, off, off_between, rule, sentences

NAN = math.nan
Interval = tuple[float, float, float]


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
    n_clear = "detector" if metric == "prompt_bias_score_difference" else None
    numbers = {"value": value, "ci_low": interval[0], "ci_high": interval[1], "n": 10, "n_left_out": 0}
    return {**words, "metric": metric, "n_clear": n_clear, **numbers}


def lookup(
    errors: Mapping[str, tuple[Interval, Interval]], *, actual: float = 0.5, failed: str = "", model: str = "m"
) -> MetricLookup:
    """One T2I model; for each detector its deviation and its difference, each with an interval."""
    rows = [
        row("images", 200, detector="ground_truth", model=model),
        row("model_bias_score", actual, detector="ground_truth", model=model),
    ]
    for detector, (deviation, difference) in errors.items():
        rows += [
            row("images", 200, detector=detector, model=model),
            row("images_error", 200 if detector == failed else 0, detector=detector, model=model),
            row("model_bias_score", actual * (1 + deviation[0]), detector=detector, model=model),
            row(
                "model_bias_score_deviation", deviation[0], detector=detector, model=model, interval=deviation[1:]
            ),
            row(
                "prompt_bias_score_difference",
                difference[0],
                detector=detector,
                model=model,
                interval=difference[1:],
            ),
        ]
    return MetricLookup.of_table(pd.DataFrame(rows).reindex(columns=METRIC_COLUMNS), attribute="gender")


def ranked(detector: str, *, groups: str = "a", best: float = 0.5) -> RankedDetector:
    return RankedDetector(detector, 1.0, 1.0, 2.0, 1.0, best, groups)


GOOD: tuple[Interval, Interval] = ((-0.02, -0.05, 0.01), (0.03, 0.01, 0.05))
OPEN: tuple[Interval, Interval] = ((0.05, -0.10, 0.20), (0.08, 0.05, 0.12))
FAR: tuple[Interval, Interval] = ((0.30, 0.25, 0.35), (0.40, 0.35, 0.45))


def one(verdict: Verdict) -> str:
    (line,) = headline(verdict)
    return line


@pytest.mark.parametrize(
    ("deviation", "difference", "expected"),
    [
        ((0.0, -0.1, 0.1), (0.05, 0.0, 0.1), Standing.GOOD_ENOUGH),  # up to the edge is within
        ((0.0, -0.1, 0.1001), (0.05, 0.0, 0.1), Standing.NOT_SHOWN),
        ((0.15, 0.05, 0.25), (0.05, 0.0, 0.1), Standing.NOT_SHOWN),  # the value is beyond, the interval not wholly
        ((0.15, 0.101, 0.25), (0.05, 0.0, 0.1), Standing.TOO_FAR_OFF),
        ((-0.15, -0.25, -0.101), (0.05, 0.0, 0.1), Standing.TOO_FAR_OFF),
        ((0.0, -0.1, 0.1), (0.2, 0.11, 0.3), Standing.TOO_FAR_OFF),  # right on the whole, wrong on single prompts
        ((0.0, NAN, NAN), (0.05, 0.0, 0.1), Standing.NO_INTERVAL),
        ((0.0, NAN, NAN), (0.2, 0.11, 0.3), Standing.TOO_FAR_OFF),  # one interval is enough to rule out
        ((NAN, NAN, NAN), (0.05, 0.0, 0.1), Standing.GOOD_ENOUGH),  # no bias, so no deviation: prompts decide
        ((NAN, NAN, NAN), (NAN, NAN, NAN), Standing.NO_SCORE),
    ],
)
def test_a_standing_follows_from_both_intervals(
    deviation: Interval, difference: Interval, expected: Standing
) -> None:
    numbers = [Number(value, 10, 0, low, high) for value, low, high in (deviation, difference)]
    assert standing(*numbers, tolerance=Tolerance()) is expected


def test_a_detector_that_is_good_enough_is_trusted_with_its_uncertainty() -> None:
    verdict = judge_detectors(
        lookup({"x": GOOD, "y": FAR}), {"m": [ranked("x", best=0.9), ranked("y", groups="b")]}
    )
    (model,) = verdict.by_model
    assert model.outcome is Outcome.TRUST
    assert model.trusted == ("x",)
    assert one(verdict) == (
        "For m, x can be trusted to measure the bias in perceived gender: its score is 2.0 % too low "
        "(95 % interval: 5.0 % too low to 1.0 % too high)."
    )
    said = sentences(model, tolerance=verdict.tolerance)
    assert said[0] == (
        "x comes first: it reports a model bias score of 0.490 where the human labels of 200 images give 0.500. "
        "That is 2.0 % too low (95 % interval: 5.0 % too low to 1.0 % too high)."
    )
    assert "It is the best in 90 % of the resamples." in said
    assert "Worse than x, beyond what chance explains: y." in said
    assert "Too far off, whatever chance did: y (30 % too high)." in said


def test_detectors_that_share_a_letter_cannot_be_told_apart() -> None:
    ranks = {"m": [ranked("x", groups="a"), ranked("y", groups="ab"), ranked("z", groups="b")]}
    verdict = judge_detectors(lookup({"x": GOOD, "y": GOOD, "z": GOOD}), ranks)
    assert one(verdict).startswith("For m, x, y or z can be trusted")
    said = " ".join(sentences(verdict.by_model[0], tolerance=verdict.tolerance))
    assert "cannot be told apart from y." in said
    assert "beyond what chance explains: z." in said


def test_overlapping_intervals_are_called_open() -> None:
    verdict = judge_detectors(lookup({"x": OPEN, "y": FAR}), {"m": [ranked("x"), ranked("y")]})
    assert verdict.by_model[0].outcome is Outcome.NOT_SHOWN
    assert one(verdict) == (
        "For m, no detector is shown to measure the bias in perceived gender well enough. x comes first: its "
        "score is 5.0 % too high, but these images leave open anything from 10 % too low to 20 % too high."
    )
    assert any(
        "More labelled images" in each for each in sentences(verdict.by_model[0], tolerance=verdict.tolerance)
    )


def test_when_no_detector_is_good_enough_it_is_said() -> None:
    verdict = judge_detectors(lookup({"x": FAR}), {})
    assert verdict.by_model[0].outcome is Outcome.NONE_GOOD_ENOUGH
    assert one(verdict) == (
        "For m, no detector measures the bias in perceived gender well enough: even the score of the first, x, is "
        "30 % too high (95 % interval: 25 % to 35 % too high)."
    )
    assert "It is the only detector with a score." in sentences(verdict.by_model[0], tolerance=verdict.tolerance)


def test_a_score_that_is_right_by_accident_is_judged_by_its_prompts() -> None:
    accident = ((0.01, -0.02, 0.03), (0.25, 0.2, 0.3))
    verdict = judge_detectors(lookup({"x": accident}), {})
    assert verdict.by_model[0].outcome is Outcome.NONE_GOOD_ENOUGH
    assert "is off by 0.250 prompt by prompt (95 % interval: 0.200 to 0.300)" in one(verdict)


def test_without_intervals_nobody_is_trusted() -> None:
    bare = ((-0.01, NAN, NAN), (0.02, NAN, NAN))
    verdict = judge_detectors(lookup({"x": bare}), {})
    assert verdict.by_model[0].outcome is Outcome.NO_INTERVALS
    assert verdict.by_model[0].trusted == ()
    assert one(verdict).endswith("the numbers have no intervals, so nobody knows how sure that is.")


def test_a_detector_that_could_not_run_has_no_score_and_comes_last() -> None:
    verdict = judge_detectors(lookup({"broken": GOOD, "x": FAR}, failed="broken"), {"m": [ranked("x")]})
    (model,) = verdict.by_model
    assert [each.detector for each in model.evidence] == ["x", "broken"]
    assert model.evidence[1].standing is Standing.NO_SCORE
    assert "Without a score here: broken." in sentences(model, tolerance=verdict.tolerance)


def test_where_humans_see_no_bias_the_prompts_decide() -> None:
    fair = ((NAN, NAN, NAN), (0.03, 0.01, 0.05))
    verdict = judge_detectors(lookup({"x": fair}, actual=0.0), {})
    assert verdict.by_model[0].trusted == ("x",)
    assert "no deviation can be formed" in sentences(verdict.by_model[0], tolerance=verdict.tolerance)[0]
    assert "0.030 prompt by prompt (95 % interval: 0.010 to 0.050)" in one(verdict)


def test_no_detector_at_all() -> None:
    verdict = judge_detectors(lookup({}), {})
    assert one(verdict) == "For m, there is no detector of perceived gender to compare."
    assert sentences(verdict.by_model[0], tolerance=verdict.tolerance) == (
        "No detector has a score for the images of this T2I model.",
    )


def test_without_a_ranking_the_mean_of_both_ranks_orders() -> None:
    # By deviation x, y, z; by difference z, y, x: all have the mean rank 1, so the table's order stays for ties.
    errors = {
        "z": ((0.03, 0.0, 0.1), (0.01, 0.0, 0.1)),
        "x": ((0.01, 0.0, 0.1), (0.03, 0.0, 0.1)),
        "w": ((0.00, 0.0, 0.1), (0.00, 0.0, 0.1)),
    }
    verdict = judge_detectors(lookup(errors), {})
    assert [each.detector for each in verdict.by_model[0].evidence] == ["w", "z", "x"]


def test_the_tolerance_is_a_choice_that_changes_the_verdict() -> None:
    strict = judge_detectors(lookup({"x": GOOD}), {}, tolerance=Tolerance(0.01, 0.1))
    assert strict.by_model[0].trusted == ()
    assert "at most 1.0 % off" in rule(strict.tolerance)


@pytest.mark.parametrize("value", [0.0, -0.1, NAN, math.inf])
def test_a_tolerance_is_a_number_above_0(value: float) -> None:
    with pytest.raises(ConfigError, match="a number above 0"):
        Tolerance(value, 0.1)


def test_deviations_in_words() -> None:
    assert off(-0.072) == "7.2 % too low"
    assert off(0.3) == "30 % too high"
    assert off(0.0001) == "not off"
    assert off(NAN) == "undefined"
    assert off_between(-0.36, 0.32) == "36 % too low to 32 % too high"
    assert off_between(-0.12, -0.04) == "4.0 % to 12 % too low"
    assert off_between(0.04, 0.12) == "4.0 % to 12 % too high"
