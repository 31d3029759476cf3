"""All detectors in order, and how sure that order is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from joint_studies import made_up, of_images
from stored_pair import write_study
from test_comparison import invoke, of_two

from detector_bench.errors import ConfigError
from detector_bench.evaluation.ranking import _letters, rank_detectors
from detector_bench.report import to_csv, to_latex, to_markdown
from detector_bench.report.comparison_tables import ranking


def test_a_clear_order_is_certain() -> None:
    joint = of_two(made_up(images=60, right=0.98), made_up(images=60, right=0.5))
    for metrics in (["accuracy"], ["f1", "accuracy", "prompt_bias_score_difference"]):
        good, poor = rank_detectors(joint, ["good", "poor"], metrics=metrics, resamples=300)
        assert (good.detector, good.rank, good.rank_low, good.rank_high) == ("good", 1, 1, 1)
        assert (poor.detector, poor.rank, poor.rank_low, poor.rank_high) == ("poor", 2, 2, 2)
        assert (good.probability_best, poor.probability_best) == (1, 0)
        assert (good.groups, poor.groups) == ("a", "b")


def test_equal_detectors_share_everything() -> None:
    joint = made_up(images=20).of_detectors([0, 0, 1])
    ranked = {each.detector: each for each in rank_detectors(joint, ["one", "same", "other"], resamples=300)}
    assert ranked["one"].rank == ranked["same"].rank
    assert ranked["one"].probability_best == pytest.approx(ranked["same"].probability_best)
    assert set(ranked["one"].groups) & set(ranked["same"].groups)
    assert sum(each.probability_best for each in ranked.values()) == pytest.approx(1)


def test_ranks_by_hand() -> None:
    # Accuracy: 3/4, 2/4, 3/4. Filter rate: 1/2, 2/2, 0/2.
    truth = [0, 0, 1, 1, 2, 2]
    verdicts = [[0, 0, 1, 0, 2, 0], [0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1]]
    joint = of_images(truth, verdicts, [0] * 6)
    by_accuracy = {
        each.detector: each for each in rank_detectors(joint, ["a", "b", "c"], metrics=["accuracy"], resamples=100)
    }
    assert [by_accuracy[name].rank for name in "abc"] == [1.5, 3, 1.5]
    assert [by_accuracy[name].score for name in "abc"] == pytest.approx([0.75, 0.5, 0.75])
    ranked = rank_detectors(joint, ["a", "b", "c"], metrics=["accuracy", "filter_rate"], resamples=100)
    # Mean ranks: a (1.5 + 2) / 2, b (3 + 1) / 2, c (1.5 + 3) / 2.
    assert [(each.detector, each.score, each.rank) for each in ranked] == [
        ("a", 1.75, 1),
        ("b", 2.0, 2),
        ("c", 2.25, 3),
    ]


def test_the_deviation_closest_to_zero_is_best() -> None:
    # Actual: both prompts fair but one image. One detector reports less bias, the other more.
    truth = [0] * 3 + [1] + [0] * 3 + [1]
    joint = of_images(truth, [[0, 0, 0, 1, 0, 0, 1, 1], [0] * 8], [0] * 4 + [1] * 4, prompts=2)
    ranked = rank_detectors(joint, ["under", "over"], metrics=["model_bias_score_deviation"], resamples=100)
    # 0.25 in place of 0.5: -50 %; 1 in place of 0.5: +100 %.
    assert [(each.detector, each.score) for each in ranked] == [("under", -0.5), ("over", 1.0)]


def test_without_a_value_comes_last() -> None:
    joint = of_images([0, 1, 2, 0], [[2] * 4, [0, 1, 2, 1]], [0] * 4)
    first, last = rank_detectors(joint, ["filters all", "judges"], metrics=["accuracy"], resamples=100)
    assert (first.detector, last.detector) == ("judges", "filters all")
    assert math.isnan(last.score)
    assert set(first.groups).isdisjoint(last.groups)
    table = ranking([first, last], metrics=["accuracy"], attribute="gender", level=0.95)
    assert "filters all: no value, so it comes last" in table.all_notes
    for render in (to_csv, to_markdown, to_latex):
        assert "nan" not in render(table)


def test_one_detector_is_first() -> None:
    (only,) = rank_detectors(made_up(detectors=1), ["only"], resamples=100)
    assert (only.rank, only.rank_low, only.rank_high, only.probability_best, only.groups) == (1, 1, 1, 1, "a")


def test_letters_of_overlapping_groups() -> None:
    # 0 = 1, 1 = 2, but 0 and 2 differ; 3 differs from all.
    apart = {frozenset(pair) for pair in ((0, 2), (0, 3), (1, 3), (2, 3))}
    assert _letters(apart, [0, 1, 2, 3]) == {0: "a", 1: "ab", 2: "b", 3: "c"}
    assert _letters(set(), [2, 0, 1]) == {0: "a", 1: "a", 2: "a"}
    # Ranks do not decide who can be told apart: 0 and 2 cannot, though 1 between them can from both.
    assert _letters({frozenset((0, 1)), frozenset((1, 2))}, [0, 1, 2]) == {0: "a", 1: "b", 2: "a"}


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot rank by 'model_bias_score'"):
        rank_detectors(made_up(), ["a", "b"], metrics=["model_bias_score"], resamples=100)


def test_equal_seeds_give_equal_ranks() -> None:
    joint = made_up(images=15, detectors=4)
    one, same = (rank_detectors(joint, list("abcd"), resamples=200, seed=2) for _ in range(2))
    assert one == same
    assert np.array([each.rank_low <= each.rank <= each.rank_high for each in one]).all()


def test_rank_prints_and_writes_a_table(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    printed = invoke("rank", study, "--predictions", tmp_path, "--resamples", 300, "--out", tmp_path)
    assert "Mean rank" in printed
    rows = (tmp_path / "tables" / "ranking.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "detector,rank,rank_ci_low,rank_ci_high,score,probability_best,groups,note"
    assert [row.split(",")[0] for row in rows[1:]] == ["good", "poor", "none"]
    by_one = invoke("rank", study, "--predictions", tmp_path, "--by", "filter_rate", "--resamples", 300)
    assert "Filter rate (%)" in by_one
    with pytest.raises(ConfigError, match="cannot rank by"):
        invoke("rank", study, "--predictions", tmp_path, "--by", "f2")
