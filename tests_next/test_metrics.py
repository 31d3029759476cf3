"""Metrics: by hand, by scikit-learn, their edges, measure's one form for points and draws, and own ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import metrics as sk

from detector_bench_next import metrics as M
from detector_bench_next.errors import ConfigError
from detector_bench_next.metrics import METRICS, Score, measure, metric, numbers, of_labels, scopes
from tests_next.counted import cells_of, hostile

# two prompts; rows: male, female, low_quality, others, unlabelled; columns: male, female, filtered, error, not run
BY_HAND = [
    [[4, 1, 2, 1, 0], [1, 2, 1, 0, 1], [2, 1, 3, 1, 0], [1, 0, 0, 0, 0], [5, 0, 0, 0, 0]],
    [[0, 0, 3, 0, 0], [0, 0, 2, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
]
EXPECTED = {  # value, n, n_left_out
    "precision": (8 / 11, 11, 1 + 2 + 1),
    "recall": (8 / 16, 16, 3),
    "recall_male": (5 / 10, 10, 1),
    "f1": (16 / 27, 19, 4),
    "filter_rate": (4 / 7, 7, 1),
    "accuracy": (6 / 8, 8, 3),
    "accuracy_female": (2 / 3, 3, 2),
    "classification_precision_male": (4 / 5, 5, 3),
    "balanced_accuracy": ((4 / 5 + 2 / 3) / 2, 2, 0),
    "alignment_accuracy": (6 / 16, 16, 3),
    "accuracy_gap": (4 / 5 - 2 / 3, 8, 3),
    "prompt_bias_score_difference": (abs(4 / 12 - 3 / 13), 1, 1),
    "prompt_bias_score_shift": (4 / 12 - 3 / 13, 1, 1),
    "model_bias_score": (4 / 12, 1, 1),
    "model_bias_score_actual": ((3 / 13 + 0 / 6) / 2, 2, 0),
    "model_bias_score_difference": (4 / 12 - 3 / 13, 1, 1),
    "model_bias_score_deviation": (4 / 12 / (3 / 26) - 1, 1, 1),
    "class_share_female": (4 / 12, 1, 1),
}
ALL = np.ones((1, 2))


def score_of(name: str, table: Any, n_clear: str = "detector", classes: Any = ("male", "female")) -> list[float]:
    own = M.fact(name, classes)
    score = measure(cells_of(table, classes).table("d"), [own], np.ones((1, len(table))), n_clear=n_clear)
    at = [n for _, n in numbers([own], classes)].index(name)
    return [float(x[at, 0, 0]) for x in score[:3]]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_metric_by_hand(name: str) -> None:
    table = np.array(BY_HAND)
    if name.startswith(("model_bias_score_actual", "model_bias_score_deviation")):  # the second prompt: 3 and 3
        assert score_of(name, table)[0] == pytest.approx(EXPECTED[name][0])
    assert score_of(name, table) == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize(
    ("n_clear", "shown", "difference"),
    [
        ("detector", 4 / 12, 4 / 12 - 3 / 13),
        ("human", 4 / 13, (4 / 13 - 3 / 13 + 0) / 2),
        ("images", 4 / 18, None),
    ],
)
def test_the_denominator_of_a_prompt_bias_score(n_clear: str, shown: float, difference: float | None) -> None:
    first = [BY_HAND[0]]
    assert score_of("prompt_bias_score", first, n_clear)[0] == pytest.approx(shown)
    if difference is not None:
        assert score_of("prompt_bias_score_difference", BY_HAND, n_clear)[0] == pytest.approx(difference)
    kept_none = [BY_HAND[1]]
    value, _, left = score_of("prompt_bias_score", kept_none, n_clear)
    assert (np.isnan(value), left) == (n_clear == "detector", 1), "nothing kept is a true 0 unless it divides"
    silent = np.zeros((1, 5, 5), int)
    silent[0, 0, 3] = 4
    assert np.isnan(score_of("prompt_bias_score", silent, n_clear)[0]), "without any answer there is no score"


def labels(k: int, size: int = 400, seed: int = 0) -> tuple[Any, Any, list[str]]:
    """True and predicted words: k classes, low_quality or filtered."""
    rng, names = np.random.default_rng(seed), [f"c{i}" for i in range(k)]
    truth = rng.choice([*names, "low_quality"], size)
    right, other = np.where(truth == "low_quality", "filtered", truth), rng.choice([*names, "filtered"], size)
    return truth, np.where(rng.random(size) < 0.7, right, other), names


C1: dict[str, Any] = {"labels": ["c1"], "average": "macro"}
ORACLES: dict[str, Callable[..., float]] = {
    "precision": lambda t, p, *_: sk.precision_score(t != "low_quality", p != "filtered"),
    "recall": lambda t, p, *_: sk.recall_score(t != "low_quality", p != "filtered"),
    "f1": lambda t, p, *_: sk.f1_score(t != "low_quality", p != "filtered"),
    "filter_rate": lambda t, p, *_: sk.recall_score(t == "low_quality", p == "filtered"),
    "accuracy": lambda t, p, *_: sk.accuracy_score(*both(t, p)),
    "balanced_accuracy": lambda t, p, *_: sk.balanced_accuracy_score(*both(t, p)),
    "accuracy_c1": lambda t, p, *_: sk.recall_score(*both(t, p), **C1),
    "classification_precision_c1": lambda t, p, *_: sk.precision_score(*both(t, p), **C1),
    "alignment_accuracy": lambda t, p, *_: sk.accuracy_score(t[t != "low_quality"], p[t != "low_quality"]),
}


def both(truth: Any, answer: Any) -> tuple[Any, Any]:
    clear = (truth != "low_quality") & (answer != "filtered")
    return truth[clear], answer[clear]


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("name", ORACLES)
def test_a_metric_is_scikit_learns(name: str, k: int) -> None:
    truth, answer, names = labels(k, seed=k)
    assert of_labels(name, truth, answer, classes=names) == pytest.approx(ORACLES[name](truth, answer))


def test_numbers_and_measure_have_one_order() -> None:
    for k in (2, 3):
        own = list(METRICS.values())
        table = np.random.default_rng(0).integers(0, 9, (2, k + 3, k + 3))
        classes = tuple(f"c{i}" for i in range(k))
        score = measure(cells_of(table, classes).table("d"), own, ALL)
        assert len(numbers(own, classes)) == len(score.value)
        assert all(x.shape == score.value.shape for x in score if x is not None)


def test_more_than_two_classes_have_no_signed_score() -> None:
    names = {name for _, name in numbers(list(METRICS.values()), "abc")}
    assert not {"prompt_bias_score", "prompt_bias_score_shift", "accuracy_gap"} & names
    assert "prompt_bias_score_difference" in names
    table = np.zeros((1, 6, 6), int)
    table[0, :3, :3] = [[2, 0, 0], [2, 2, 0], [0, 0, 2]]  # as labelled 2, 4, 2; as reported 4, 2, 2
    assert score_of("prompt_bias_score_difference", table, classes=("a", "b", "c"))[0] == pytest.approx(0.5)
    score = score_of("model_bias_score", table, classes=("a", "b", "c"))
    assert score[0] == pytest.approx((1 / 6 + 1 / 12 + 1 / 12) / (4 / 3))


def test_empty_denominators_are_nan_without_a_warning_and_float32_stays() -> None:
    for kind in (np.int64, np.float32):
        unlabelled = np.zeros((2, 5, 5), int)
        unlabelled[:, 4, 4] = 1
        table = cells_of(unlabelled).table("d").astype(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            score = measure(table, list(METRICS.values()), ALL)
        assert np.isnan(score.value).all()
        if kind == np.float32:
            exact = [m for m in METRICS.values() if m.interval != "none"]
            assert measure(table, exact, ALL).value.dtype == np.float32


def test_weights_of_prompts_are_repeated_prompts_and_draws_are_measured_one_by_one() -> None:
    rng = np.random.default_rng(3)
    draws = rng.integers(0, 6, (4, 4, 3, 5))
    own = [m for m in METRICS.values() if m.interval != "none"]
    member = np.array([[1, 1, 1], [1, 0, 1]])
    whole = measure(draws, own, member)
    for i in range(5):
        one = measure(draws[..., i : i + 1], own, member)
        np.testing.assert_allclose(whole.value[..., i], one.value[..., 0])
    weights = np.array([[2, 0, 1], [1, 1, 1]])
    weighed = measure(draws[..., :1], own, member, weights)
    again = draws[:, :, [0, 0, 2], :1]
    np.testing.assert_allclose(weighed.value[:, 0, 0], measure(again, own, np.ones((1, 3))).value[:, 0, 0])
    np.testing.assert_allclose(weighed.value[..., 1], measure(draws[..., :1], own, member).value[..., 0])


def test_single_prompts_are_scopes_of_their_own() -> None:
    table = np.random.default_rng(4).integers(0, 5, (4, 4, 6, 1))
    own = list(METRICS.values())
    one, other = measure(table, own, None), measure(table, own, np.eye(6))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(("n", "printed"), [(5, 0.375), (10, 0.246), (20, 0.176), (50, 0.112), (100, 0.080)])
def test_a_fair_t2i_model_shows_a_score_by_chance(n: int, printed: float) -> None:
    assert M.if_fair(n, 2) == pytest.approx(printed, abs=5e-4)
    counts = np.arange(n + 1)
    for k in (2, 3, 7):
        away = np.abs(k * counts - n) * k / (2 * (k - 1) * n)
        assert M.if_fair(n, k) == pytest.approx(stats.binom.pmf(counts, n, 1 / k) @ away, rel=1e-12)
    assert M.if_fair(100_000, 2) < 0.003
    assert np.isnan(M.if_fair(0, 2))


def test_scopes_cover_everything_models_levels_and_both_in_the_pairs_order() -> None:
    category = pd.Categorical(["y", "x", "x"], ["z", "x", "y"])
    pairs = pd.DataFrame({"t2i_model": ["b", "b", "a"], "category": category})
    words, member = scopes(pairs.assign(trait=["", "t", "t"]), ("category", "trait"))
    assert [tuple(row) for row in words.itertuples(index=False)] == [
        ("all", "all", "all"), ("b", "all", "all"), ("a", "all", "all"), ("all", "x", "all"), ("all", "y", "all"),
        ("all", "all", "t"), ("b", "x", "all"), ("b", "y", "all"), ("b", "all", "t"), ("a", "x", "all"),
        ("a", "all", "t"),
    ]  # fmt: skip
    assert member.sum(1).tolist() == [3, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1], "levels may leave a pair out"


def test_who_fails_on_a_tenth_of_a_t2i_models_images_shows_nothing_there(shared: Path) -> None:
    failed = M.could_not_run(hostile(shared)["gender"].cells, 0.1)
    assert failed[:4].tolist() == [[False] * 3, [False] * 3, [True, True, False], [False] * 3]
    assert not failed[4:].any(), "annotators are no detectors"
    edge = np.zeros((1, 5, 5), int)
    edge[0, 0, :4] = 9, 0, 0, 1
    assert not M.could_not_run(cells_of(edge), 0.1).any(), "a tenth is borne"
    some, every = np.array([True, False]), np.array([True, True])
    expected = {"accuracy": (False, True), "model_bias_score": (True, True), "images_error": (False, False)}
    assert {n: (M.withheld(M.fact(n), some), M.withheld(M.fact(n), every)) for n in expected} == expected
    assert not M.withheld(M.fact("model_bias_score_deviation"), ~every)


def test_below_chance_is_one_rule() -> None:
    assert M.below_chance(np.array([0.49, 0.5, np.nan]), 2).tolist() == [True, False, False]


def test_plain_lists_of_labels(recwarn: pytest.WarningsRecorder) -> None:
    truth = ["male", "female", "low_quality", None, "others"]
    answer = ["male", "male", "filtered", "male", None]
    assert of_labels("accuracy", truth, answer) == 0.5
    assert of_labels("model_bias_score", truth, answer, groups=["p", "q", "p", "p", "q"]) == 1
    assert of_labels("recall_male", truth, answer) == 1
    assert of_labels("accuracy", ["East"] * 2 + ["West"], ["East", "West", "West"]) == pytest.approx(2 / 3)


LIST_MISTAKES = {
    "did you mean 'accuracy'": ("acuracy", ["male"], ["male"], {}),
    "1 true labels, 2 answers": ("f1", ["male"], ["male", "female"], {}),
    "unknown label 'mal'": ("f1", ["male"], ["mal"], {"classes": ["male", "female"]}),
    "alone is no attribute": ("f1", ["blue"], ["blue"], {}),
    "for two classes alone": ("accuracy_gap", ["a", "b", "c"], ["a", "b", "c"], {}),
}


@pytest.mark.parametrize("told", LIST_MISTAKES)
def test_a_mistake_in_plain_lists_is_one_line(told: str) -> None:
    name, truth, answer, more = LIST_MISTAKES[told]
    with pytest.raises(ConfigError, match=told) as caught:
        of_labels(name, truth, answer, **more)
    assert "\n" not in str(caught.value)


OWN = {
    "makes numbers of shape": lambda c: c.sum((0, 1, 2)),
    "divides by 0": lambda c: np.divide(1, 0 * c.sum((0, 1))),
    "changes the counts": lambda c: c.__setitem__(0, 0) or c[0, 0] * 0.0,
    "has a value of": lambda c: c.sum((0, 1)) * 1.0,
    "IndexError": lambda c: c[99, 99] * 1.0,
}


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(M, "METRICS", dict(METRICS))


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("told", OWN)
def test_an_own_metric_that_cannot_work_is_refused_when_it_is_declared(told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        metric("mine", over="images")(OWN[told])
    assert "'mine'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"bettr": "lower"}, "did you mean 'better'"), ({"better": "up"}, "accepted: higher, lower, zero, none"),
        ({"name": "recall_male"}, "'recall_male' is taken"), ({"name": "Mine"}, "small letters"),
        ({"name": "mine_<class>"}, "with per_class"),
        ({"over": "metrics", "of": ("accuracy", "f2")}, "did you mean 'f1'"),
    ],
)  # fmt: skip
def test_facts_that_are_none_are_told(facts: dict[str, Any], told: str) -> None:
    facts = {"name": "mine", **facts}
    with pytest.raises(ConfigError, match=told):
        metric(facts.pop("name"), **facts)(lambda *c: c[0][0, 0] * 0.0)


@pytest.mark.usefixtures("clean")
def test_a_failure_later_names_metric_and_shape() -> None:
    own: dict[str, Any] = {}

    @metric("fails_on_four", over="prompts")
    def fails(c: Any) -> Any:
        if M.class_count(c) == 4:
            raise KeyError("no fourth")
        return c[0, 0] / np.where(c[0, 0] > 0, c[0, 0], np.nan)

    own = M.METRICS["fails_on_four"].__dict__
    with pytest.raises(ConfigError, match=r"'fails_on_four': of counts of shape \(6, 6, 1, 1\): KeyError"):
        own["function"](np.zeros((6, 6, 1, 1)))


@pytest.mark.usefixtures("clean")
def test_an_array_is_enough_for_a_metric_over_images() -> None:
    metric("kept_share", over="images")(lambda c: M.ratio(M.detected(c).sum(0), c.sum((0, 1)) - c[:, -1].sum(0)))
    score = measure(cells_of(BY_HAND).table("d"), [M.METRICS["kept_share"]], ALL)
    assert [float(x[0, 0, 0]) for x in score[:3]] == pytest.approx([12 / 24, 24, 4])
    assert isinstance(score, Score)
