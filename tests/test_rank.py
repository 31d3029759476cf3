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
from detector_bench.evaluation.comparison import COMPARED_METRICS, ComparisonFamily, Contest
from detector_bench.evaluation.ranking import _letters, rank_detectors, ranking
from detector_bench.tables import to_csv, to_latex, to_markdown
from detector_bench.tables.comparison_tables import ranking_table


def test_a_clear_order_is_certain() -> None:
    joint = of_two(made_up(images=60, right=0.98), made_up(images=60, right=0.5))
    for ranked in rank_detectors(joint, ["good", "poor"], metrics=["accuracy", "f1"]).values():
        good, poor = ranked
        assert (good.detector, good.rank, good.rank_low, good.rank_high) == ("good", 1, 1, 1)
        assert (poor.detector, poor.rank, poor.rank_low, poor.rank_high) == ("poor", 2, 2, 2)
        assert (good.groups, poor.groups) == ("a", "b")
        assert (good.better_than, poor.better_than) == (("poor",), ())


def test_equal_detectors_share_everything() -> None:
    # More than 64 images of a prompt, as many as are ever drawn one by one.
    joint = made_up(images=90).of_detectors([0, 0, 1])
    for ranked in rank_detectors(joint, ["one", "same", "other"]).values():
        by_name = {each.detector: each for each in ranked}
        assert by_name["one"]._replace(detector="same") == by_name["same"]


def test_ranks_by_hand() -> None:
    # Accuracy: 3/4, 2/4, 3/4. Filter rate: 1/2, 2/2, 0/2.
    truth = [0, 0, 1, 1, 2, 2]
    verdicts = [[0, 0, 1, 0, 2, 0], [0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1]]
    joint = of_images(truth, verdicts, [0] * 6)
    found = rank_detectors(joint, ["a", "b", "c"], metrics=["accuracy", "filter_rate"])
    ranks = {metric: {each.detector: each.rank for each in ranked} for metric, ranked in found.items()}
    assert ranks == {"accuracy": {"a": 1.5, "b": 3, "c": 1.5}, "filter_rate": {"a": 2, "b": 1, "c": 3}}
    assert [each.score for each in found["filter_rate"]] == [1, 0.5, 0]
    # Six images tell nobody apart: every rank is open.
    assert all((each.rank_low, each.rank_high, each.groups) == (1, 3, "a") for each in found["accuracy"])


def test_ranks_letters_and_pairs_say_the_same() -> None:
    joint = made_up(images=60, detectors=1)
    better = [made_up(images=60, right=right, detectors=1) for right in (0.97, 0.9, 0.7, 0.5)]
    for other in better:
        np.testing.assert_array_equal(joint.truth.shape, other.truth.shape)
    joint = of_two(better[0], better[1])
    rows = np.concatenate([joint.verdicts, better[2].verdicts, better[3].verdicts])
    joint = type(joint)(joint.truth, rows, joint.pair, joint.t2i_models, joint.scopes, joint.classes)
    names = ("a", "b", "c", "d")
    family = ComparisonFamily.of([Contest(joint, names)])
    for metric in family.metrics:
        ranked = {each.detector: each for each in ranking(family, metric)}
        for one, name in enumerate(names):
            beaten = set()
            for two, other in enumerate(names):
                if one == two:
                    continue
                apart = family.test(metric, one, two).told_apart
                assert apart == set(ranked[name].groups).isdisjoint(ranked[other].groups)
                if apart and ranked[name].rank < ranked[other].rank:
                    beaten.add(other)
            assert set(ranked[name].better_than) == beaten
            assert ranked[name].rank_high == 4 - len(beaten)
    assert any(each.better_than for each in ranking(family, "accuracy"))


def test_the_deviation_closest_to_zero_is_best() -> None:
    # Actual: both prompts fair but one image. One detector reports less bias, the other more.
    truth = [0] * 3 + [1] + [0] * 3 + [1]
    joint = of_images(truth, [[0, 0, 0, 1, 0, 0, 1, 1], [0] * 8], [0] * 4 + [1] * 4, prompts=2)
    ranked = rank_detectors(joint, ["under", "over"], metrics=["model_bias_score_deviation"])
    # 0.25 in place of 0.5: -50 %; 1 in place of 0.5: +100 %.
    (found,) = ranked.values()
    assert [(each.detector, each.score) for each in found] == [("under", -0.5), ("over", 1.0)]


def test_without_a_value_comes_last() -> None:
    joint = of_images([0, 1, 2, 0], [[2] * 4, [0, 1, 2, 1], [0, 1, 0, 0]], [0] * 4)
    *_, last = ranked = rank_detectors(joint, ["filters all", "judges", "too"], metrics=["accuracy"])["accuracy"]
    assert last.detector == "filters all"
    assert (last.rank, last.rank_low, last.rank_high, last.groups) == (3, 3, 3, "")
    assert math.isnan(last.score)
    table = ranking_table(ranked, metric="accuracy", attribute="gender", level=0.95)
    assert "filters all: no value, so it comes last" in table.all_notes
    for render in (to_csv, to_markdown, to_latex):
        assert "nan" not in render(table)


def test_one_detector_is_first() -> None:
    for ranked in rank_detectors(made_up(detectors=1), ["only"]).values():
        (only,) = ranked
        assert (only.rank, only.rank_low, only.rank_high, only.groups) == (1, 1, 1, "a")


def test_letters_of_overlapping_groups() -> None:
    # 0 = 1, 1 = 2, but 0 and 2 differ; 3 differs from all.
    apart = {frozenset(pair) for pair in ((0, 2), (0, 3), (1, 3), (2, 3))}
    assert _letters(apart, [0, 1, 2, 3]) == {0: "a", 1: "ab", 2: "b", 3: "c"}
    assert _letters(set(), [2, 0, 1]) == {0: "a", 1: "a", 2: "a"}
    # Ranks do not decide who can be told apart: 0 and 2 cannot, though 1 between them can from both.
    assert _letters({frozenset((0, 1)), frozenset((1, 2))}, [0, 1, 2]) == {0: "a", 1: "b", 2: "a"}


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot compare or rank by 'model_bias_score'"):
        rank_detectors(made_up(), ["a", "b"], metrics=["model_bias_score"])


def test_equal_seeds_give_equal_ranks() -> None:
    joint = made_up(images=15, detectors=4)
    one, same = (rank_detectors(joint, list("abcd"), seed=2) for _ in range(2))
    assert one == same
    assert all(each.rank_low <= each.rank <= each.rank_high for each in one["accuracy"])


@pytest.mark.slow
def test_rank_prints_and_writes_tables(tmp_path: Path) -> None:
    write_study(tmp_path)
    invoke("evaluate", tmp_path)
    printed = invoke("rank", tmp_path, "--out", tmp_path)
    assert "Prompt bias error" in printed
    for metric in COMPARED_METRICS:
        rows = (tmp_path / "tables" / f"ranking_{metric}.csv").read_text(encoding="utf-8").splitlines()
        assert rows[0] == "detector,rank,rank_ci_low,rank_ci_high,score,groups,note"
    rows = (tmp_path / "tables" / "ranking_accuracy.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["good", "poor", "none"]
    by_one = invoke("rank", tmp_path, "--by", "filter_rate")
    assert "Filter rate (%)" in by_one
    assert "1 metric." in by_one
    with pytest.raises(ConfigError, match="cannot compare or rank by"):
        invoke("rank", tmp_path, "--by", "f2")
