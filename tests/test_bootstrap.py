"""Resampling: the fast way equals the metrics resample by resample, and the plain way in distribution."""

from __future__ import annotations

import numpy as np
import pytest
from joint_studies import made_up, of_images, plainly_drawn

from detector_bench import metrics
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.scores import detector_scope_scores, human_scope_scores
from detector_bench.metrics import JointVerdicts
from detector_bench.metrics.bootstrap import (
    Resampled,
    leave_one_prompt_out,
    resample,
    sampling_distribution,
    spread_factors,
)
from detector_bench.metrics.influence import acceleration_of_images, acceleration_of_prompts
from detector_bench.metrics.intervals import (
    bca_interval,
    percentile_interval,
    standard_error_interval,
    wilson_interval,
    wilson_interval_of_f1,
)
from detector_bench.metrics.resampling import RESAMPLES_PER_BLOCK, Resampler, own_weight
from detector_bench.vocabulary import ATTRIBUTES

SMALL = {2: "gender", 3: "age", 7: "race"}


def drawn_weights(joint: JointVerdicts, *, seed: int) -> np.ndarray:
    """How often each image was drawn in the first block, found by giving every image a detector of its own."""
    marks = np.where(np.eye(joint.images, dtype=bool), 0, joint.classes).astype(np.int8)
    marked = JointVerdicts(joint.truth, marks, joint.pair, joint.t2i_models, joint.scopes, joint.classes)
    return Resampler(marked, borrow=False).block(0, seed=seed).class_counts[:, 0, 1:].sum(axis=0)


@pytest.mark.parametrize("n_clear", ["detector", "human"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_metric_equals_its_function_in_every_resample(classes: int, n_clear: metrics.NClear) -> None:
    joint = made_up(classes=classes, errors=0.15, images=4)
    drawn = resample(joint, resamples=RESAMPLES_PER_BLOCK, seed=5, n_clear=n_clear, prompts=True, borrow=False)
    weights = drawn_weights(joint, seed=5)
    assert np.all(weights.sum(axis=0) == joint.images)
    counts = np.stack([joint.counts(each) for each in weights.T], axis=-1)
    counts = np.moveaxis(counts, -1, 0)  # [resample, detector, t2i_model, prompt, truth, verdict]
    pooled, scopes = metrics.pool(counts, scopes=joint.scopes), joint.scopes
    expected = {
        "precision": metrics.precision(pooled),
        "recall": metrics.recall(pooled),
        "f1": metrics.f1(pooled),
        "filter_rate": metrics.filter_rate(pooled),
        "accuracy": metrics.accuracy(pooled),
        "balanced_accuracy": metrics.balanced_accuracy(pooled),
        "alignment_accuracy": metrics.alignment_accuracy(pooled),
        "model_bias_score": metrics.model_bias_score(counts, scopes=scopes),
        "model_bias_score_actual": metrics.model_bias_score_actual(counts, scopes=scopes),
        "model_bias_score_corrected": metrics.model_bias_score_corrected(counts, scopes=scopes),
        "model_bias_score_deviation": metrics.model_bias_score_deviation(counts, scopes=scopes),
        "model_bias_score_error": metrics.model_bias_score_error(counts, scopes=scopes),
        "prompt_bias_score_difference": metrics.prompt_bias_score_difference(
            counts, n_clear=n_clear, scopes=scopes
        ),
    }
    values = {name: score.value for name, score in expected.items()}
    for index in range(classes):
        values[f"recall_{index}"] = metrics.recall_per_class(pooled).value[..., index]
        values[f"accuracy_{index}"] = metrics.accuracy_per_class(pooled).value[..., index]
        precision = metrics.classification_precision_per_class(pooled).value[..., index]
        values[f"classification_precision_{index}"] = precision
    assert set(values) == set(drawn.detectors)
    for name, value in values.items():
        found = np.moveaxis(drawn.detectors[name], (-1, -2), (0, 1))
        if name in ("model_bias_score_corrected", "model_bias_score_error"):
            # Resamples keep what lies beyond the range, as it is part of their scatter.
            found = np.clip(found, -1, 1)
        np.testing.assert_allclose(found, value, atol=2e-5, err_msg=name)
    shares = metrics.label_shares(pooled).value[:, 0]
    for index in range(classes + 2):
        found = np.moveaxis(drawn.human[f"label_share_{index}"][:, :, 0], -1, 0)
        np.testing.assert_allclose(found, shares[..., index], atol=1e-6)
    errors = metrics.prompt_bias_score_error(counts, n_clear=n_clear).value.reshape(*counts.shape[:2], -1)
    found = np.moveaxis(drawn.prompts["prompt_bias_score_difference"][:, 1:], (2, 1), (0, 1))
    np.testing.assert_allclose(found, errors[..., drawn.pairs], atol=1e-5)
    if classes == 2:
        scores = metrics.prompt_bias_score(counts, n_clear=n_clear).value.reshape(*counts.shape[:2], -1)
        found = np.moveaxis(drawn.prompts["prompt_bias_score"][:, 1:], (2, 1), (0, 1))
        np.testing.assert_allclose(found, scores[..., drawn.pairs], atol=1e-5)


def test_drawn_prompts_weigh_all_their_images() -> None:
    joint = made_up(errors=0.1)
    left_out = leave_one_prompt_out(joint)
    for prompt in range(joint.prompts):
        weights = (joint.pair % joint.prompts != prompt).astype(float)
        counts = joint.counts(weights)
        pooled = metrics.pool(counts)
        for name in ("f1", "accuracy", "filter_rate"):
            expected = getattr(metrics, name)(pooled).value
            np.testing.assert_allclose(left_out.detectors[name][0, 0, :, prompt], expected, atol=1e-6)
        expected = metrics.prompt_bias_score_difference(counts).value
        found = left_out.detectors["prompt_bias_score_difference"][0, 0, :, prompt]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        found = left_out.detectors["model_bias_score_corrected"][0, 0, :, prompt]
        np.testing.assert_allclose(found, metrics.model_bias_score_corrected(counts).value, atol=1e-5)


def test_the_plain_way_gives_the_same_distribution() -> None:
    from scipy.stats import ks_2samp

    joint = made_up(images=12)
    fast = resample(joint, resamples=10_000, seed=1, borrow=False).detectors
    random = np.random.default_rng(2)
    counts = np.stack([joint.counts(plainly_drawn(joint, random)) for _ in range(1000)])
    plain = {
        "f1": metrics.f1(metrics.pool(counts)).value,
        "filter_rate": metrics.filter_rate(metrics.pool(counts)).value,
        "accuracy": metrics.accuracy(metrics.pool(counts)).value,
        "model_bias_score": metrics.model_bias_score(counts).value,
        "model_bias_score_corrected": metrics.model_bias_score_corrected(counts).value,
        "model_bias_score_deviation": metrics.model_bias_score_deviation(counts).value,
        "prompt_bias_score_difference": metrics.prompt_bias_score_difference(counts).value,
    }
    for name, values in plain.items():
        for detector in range(2):
            # Rounded, so that float32 does not separate values that are equal.
            found, expected = fast[name][0, 0, detector].round(4), values[:, detector].round(4)
            assert ks_2samp(found, expected).pvalue > 0.001, name
        # The two detectors share their resamples.
        found = np.corrcoef(fast[name][0, 0])[0, 1]
        assert found == pytest.approx(np.corrcoef(values.T)[0, 1], abs=0.1)


def test_normal_counts_come_close_to_drawn_images() -> None:
    joint = made_up(images=110, prompts=10, right=0.9)
    drawn = resample(joint, resamples=2000, seed=1, one_by_one=1000, borrow=False).detectors
    normal = resample(joint, resamples=2000, seed=2, one_by_one=0).detectors
    for name, values in drawn.items():
        one, other = values[0, 0, 0], normal[name][0, 0, 0]
        assert other.mean() == pytest.approx(one.mean(), abs=0.1 * one.std()), name
        assert other.std() == pytest.approx(one.std(), rel=0.08), name
    # Also between metrics and between detectors.
    for names in (("f1", "filter_rate"), ("accuracy", "model_bias_score"), ("recall_0", "model_bias_score")):
        pairs = [[each[names[0]][0, 0, 0], each[names[1]][0, 0, 1]] for each in (drawn, normal)]
        assert np.corrcoef(pairs[0])[0, 1] == pytest.approx(np.corrcoef(pairs[1])[0, 1], abs=0.1)


def same(one: Resampled, other: Resampled, *, resamples: int) -> bool:
    return all(
        np.array_equal(values[..., :resamples], other.detectors[name][..., :resamples], equal_nan=True)
        for name, values in one.detectors.items()
    )


@pytest.mark.parametrize("unit", ["image", "prompt"])
@pytest.mark.parametrize("images", [8, 90])
def test_one_seed_one_result(unit: metrics.bootstrap.Unit, images: int) -> None:
    joint = made_up(images=images)
    whole = resample(joint, resamples=170, unit=unit, seed=3, threads=1)
    assert same(whole, resample(joint, resamples=170, unit=unit, seed=3, threads=4), resamples=170)
    assert same(whole, resample(joint, resamples=60, unit=unit, seed=3), resamples=60)
    assert not same(whole, resample(joint, resamples=170, unit=unit, seed=4), resamples=170)


def test_a_further_detector_leaves_the_others_as_they_are() -> None:
    joint = made_up(detectors=3)
    three = resample(joint, resamples=50, seed=1).detectors
    two = resample(joint.of_detectors([0, 2]), resamples=50, seed=1).detectors
    for name, values in two.items():
        assert np.array_equal(values, three[name][:, :, [0, 2]], equal_nan=True)


def one_share(n: int = 40, kept: int = 31) -> JointVerdicts:
    """One prompt with low-quality images only, `kept` of which are filtered."""
    return of_images([2] * n, [[2] * kept + [0] * (n - kept)], [0] * n)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_of_one_share_are_those_of_scipy(method: str) -> None:
    from scipy import stats

    joint = one_share()
    data = (joint.verdicts[0] == 2).astype(float)
    expected = stats.bootstrap(
        (data,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(1)
    ).confidence_interval
    drawn = resample(joint, resamples=20_000, seed=2).detectors["filter_rate"][0, 0]
    if method == "BCa":
        acceleration = acceleration_of_images(
            joint.counts(), lambda counts: metrics.filter_rate(counts).value, scopes=joint.scopes
        )
        found = bca_interval(drawn, np.array([data.mean()]), acceleration[0, 0], level=0.95)
    else:
        found = percentile_interval(drawn, level=0.95)
    # Neighbouring possible values are 1 / 40 apart.
    assert found.low[0] == pytest.approx(expected.low, abs=0.026)
    assert found.high[0] == pytest.approx(expected.high, abs=0.026)


def test_bca_of_equal_resamples_is_exactly_that_of_scipy() -> None:
    from scipy import stats

    data = np.random.default_rng(5).exponential(size=30)
    kept = stats.bootstrap((data,), np.mean, n_resamples=3000, rng=np.random.default_rng(1))
    jackknife = (data.sum() - data) / (len(data) - 1)
    scopes = made_up(prompts=30).scopes.of_prompts(["one"] * 30)
    acceleration = acceleration_of_prompts(jackknife, scopes=scopes)
    found = bca_interval(kept.bootstrap_distribution, np.asarray(data.mean()), acceleration, level=0.95)
    assert found.low == pytest.approx(kept.confidence_interval.low)
    assert found.high == pytest.approx(kept.confidence_interval.high)
    plain = percentile_interval(kept.bootstrap_distribution, level=0.95)
    assert tuple(plain) == pytest.approx(np.quantile(kept.bootstrap_distribution, [0.025, 0.975]))


def test_wilson_is_that_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    count, n = np.array([0, 1, 7, 20, 20]), np.array([20, 20, 20, 20, 21])
    expected = proportion_confint(count, n, alpha=0.1, method="wilson")
    np.testing.assert_allclose(wilson_interval(count / n, n, level=0.9), expected, atol=1e-12)
    assert np.isnan(wilson_interval(np.array([np.nan]), np.array([0]), level=0.9)).all()
    # F1 of TP = 6, FP + FN = 4: 12 / 16, from 6 of 10.
    low, high = wilson_interval_of_f1(np.array([0.75]), np.array([10]), level=0.95)
    overlap = np.array(proportion_confint(6, 10, method="wilson"))
    np.testing.assert_allclose([low[0], high[0]], 2 * overlap / (1 + overlap))


def test_few_resamples_give_a_students_interval() -> None:
    from scipy.stats import t

    drawn = np.random.default_rng(1).normal(3, 2, size=100)
    low, high = standard_error_interval(drawn, np.asarray(3.0), level=0.95)
    assert (high - low) / 2 == pytest.approx(t.ppf(0.975, 99) * drawn.std(ddof=1), rel=1e-5)
    assert (high + low) / 2 == pytest.approx(3)


def test_undefined_resamples_are_left_out_and_equal_ones_say_nothing() -> None:
    drawn = np.array([[1.0, np.nan, 3.0, 2.0], [1.0, np.nan, np.nan, np.nan], [2.0, 2.0, 2.0, 2.0]])
    low, high = percentile_interval(drawn, level=0.5)
    np.testing.assert_allclose(low, [1.5, np.nan, np.nan])
    np.testing.assert_allclose(high, [2.5, np.nan, np.nan])


def test_distances_are_centred_and_the_scatter_is_stretched() -> None:
    values = {"model_bias_score": np.array([0.2]), "f1": np.array([0.5])}
    drawn = {"model_bias_score": np.array([[0.3, 0.5]]), "f1": np.array([[0.4, 0.8]])}
    found = sampling_distribution(drawn, values, spread=np.asarray(2.0), unit="image")
    np.testing.assert_allclose(found["model_bias_score"], [[0.0, 0.4]], atol=1e-12)
    np.testing.assert_allclose(found["f1"], [[0.1, 0.9]])
    kept = sampling_distribution(drawn, values, spread=np.asarray(1.0), unit="prompt")
    np.testing.assert_allclose(kept["model_bias_score"], drawn["model_bias_score"])


def test_spread_factors_by_hand() -> None:
    # Prompt 0 has 4 images, prompt 1 has 1. Of what is drawn for prompt 0, 4/5 are its own images and 1/5 any, 4
    # of 5 of which are its own; for prompt 1, 1/2 and 1/2, of which 1 of 5.
    joint = of_images([0] * 5, [[0] * 5], [0, 0, 0, 0, 1], prompts=2)
    own = [4 / 5 + 1 / 5 * 4 / 5, 1 / 2 + 1 / 2 * 1 / 5]
    np.testing.assert_allclose(own_weight(np.array([[4, 1]])), [own])
    expected = np.sqrt(5 / (5 - own[0] ** 2 - own[1] ** 2 - 2))
    np.testing.assert_allclose(spread_factors(joint, unit="image")[0, 0], expected)
    # Prompts of more than 64 images neither borrow nor lend.
    np.testing.assert_array_equal(own_weight(np.array([[65, 3, 0]])), [[1, 1, 0]])
    seven = of_images([0] * 7, [[0] * 7], list(range(7)), prompts=7)
    np.testing.assert_allclose(spread_factors(seven, unit="prompt")[0, 0], np.sqrt(7 / (7 - 1 - 2)))
    assert np.isnan(spread_factors(joint, unit="prompt")).all()
    single = of_images([0, 1], [[0, 1]], [0, 1], prompts=2)
    assert np.isnan(spread_factors(single, unit="image")).all()


def counts_of(joint: JointVerdicts) -> Counts:
    attribute = ATTRIBUTES[SMALL[joint.classes]]
    human = np.zeros((joint.t2i_models, joint.prompts, joint.classes + 2), dtype=np.int64)
    np.add.at(human.reshape(-1, joint.classes + 2), (joint.pair, joint.truth), 1)
    return Counts(
        attribute=attribute,
        detectors=tuple(f"d{number}" for number in range(joint.detectors)),
        t2i_models=tuple(f"m{number}" for number in range(joint.t2i_models)),
        prompt_ids=tuple(f"p{number}" for number in range(joint.prompts)),
        scopes=joint.scopes,
        verdicts=joint.counts().astype(np.int64),
        human=human,
        unlabelled=np.zeros(human.shape[:-1], dtype=np.int64),
        not_run=np.zeros((joint.detectors, *human.shape[:-1]), dtype=np.int64),
        joint=joint,
    )


DEGENERATE = {
    "one image": of_images([0], [[0]], [0]),
    "one prompt": of_images([0, 1, 2, 0], [[0, 1, 2, 1]], [0, 0, 0, 0]),
    "one image per prompt": of_images([0, 1, 2], [[0, 1, 0]], [0, 1, 2], prompts=3),
    "no low-quality image": of_images([0, 1, 0, 1], [[0, 1, 1, 2]], [0, 0, 1, 1], prompts=2),
    "only low-quality images": of_images([2, 2, 2, 2], [[0, 2, 2, 1]], [0, 0, 1, 1], prompts=2),
    "one gender": of_images([0, 0, 0, 0], [[0, 0, 2, 0]], [0, 0, 1, 1], prompts=2),
    "filters everything": of_images([0, 1, 2, 0], [[2, 2, 2, 2]], [0, 0, 1, 1], prompts=2),
    "never runs": of_images([0, 1, 2, 0], [[3, 3, 3, 3]], [0, 0, 1, 1], prompts=2),
    "no detector": of_images([0, 1, 2, 0], [], [0, 0, 1, 1], prompts=2),
    "no image": of_images([], [[]], [], prompts=1),
    "a prompt without images": of_images([0, 1, 1], [[0, 1, 0]], [0, 0, 0], prompts=2),
    "everything right": of_images([0, 1, 2, 0], [[0, 1, 2, 0]], [0, 0, 1, 1], prompts=2),
    "three classes": made_up(classes=3, images=2, t2i_models=1, prompts=2, detectors=1),
    "seven classes": made_up(classes=7, images=6, t2i_models=1, prompts=2, detectors=2),
    "large and of seven classes": made_up(classes=7, images=80, t2i_models=1, prompts=2, detectors=1),
    "large": made_up(images=80, t2i_models=1, prompts=2, detectors=2),
    "large and all alike": of_images([0] * 70, [[0] * 70], [0] * 70),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["score", "percentile", "bca"])
@pytest.mark.parametrize("unit", ["image", "prompt"])
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.slow
def test_degenerate_studies_have_intervals_or_none(case: str, unit: str, method: str) -> None:
    counts = counts_of(DEGENERATE[case])
    settings = Intervals(method=method, unit=unit, resamples=400, prompts=True)
    doubt = IntervalScores.of_counts(counts, settings, n_clear="human")
    for scores in (
        doubt.of_detectors(detector_scope_scores(counts, n_clear="human")),
        doubt.of_human(human_scope_scores(counts)),
    ):
        low, high, value = scores.ci_low, scores.ci_high, scores.value
        assert np.array_equal(np.isnan(low), np.isnan(high))
        assert np.all(np.isnan(low[np.isnan(value)]))
        there = ~np.isnan(low)
        assert np.all(low[there] < high[there])


def test_a_faultless_detector_is_not_certainly_faultless() -> None:
    counts = counts_of(DEGENERATE["everything right"])
    doubt = IntervalScores.of_counts(counts, Intervals(resamples=400), n_clear="detector")
    scores = doubt.of_detectors(detector_scope_scores(counts, n_clear="detector"))
    place = {name: index for index, name in enumerate(scores.metrics)}
    # Three of three right by Wilson: at least 3 / (3 + 1.96^2).
    assert scores.ci_low[0, 0, 0, place["accuracy"]] == pytest.approx(3 / (3 + 1.959964**2))
    assert scores.ci_high[0, 0, 0, place["accuracy"]] == 1
    # No error of three images: by Wilson at most 1.96^2 / (3 + 1.96^2) of the range of 2.
    at = (0, 0, 0, place["prompt_bias_score_difference"])
    assert scores.ci_low[at] == 0
    assert scores.ci_high[at] == pytest.approx(2 * 1.959964**2 / (3 + 1.959964**2))


def test_a_study_of_very_many_images_has_wilson_intervals_of_shares_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_bench.evaluation.intervals._LARGE", 10)
    counts = counts_of(made_up())
    doubt = IntervalScores.of_counts(counts, Intervals(), n_clear="detector")
    scores = doubt.of_detectors(detector_scope_scores(counts, n_clear="detector"))
    place = {name: index for index, name in enumerate(scores.metrics)}
    at = (1, 0, 2, place["accuracy"])
    expected = wilson_interval(scores.value[at], scores.n[at], level=0.95)
    assert (scores.ci_low[at], scores.ci_high[at]) == pytest.approx(tuple(map(float, expected)))
    assert np.isnan(scores.ci_low[..., place["model_bias_score"]]).all()
    asked = IntervalScores.of_counts(counts, Intervals(resamples=100), n_clear="detector")
    scores = asked.of_detectors(detector_scope_scores(counts, n_clear="detector"))
    assert not np.isnan(scores.ci_low[1, 0, 0, place["model_bias_score"]])


@pytest.mark.parametrize("unit", ["image", "prompt"])
@pytest.mark.parametrize("method", ["score", "percentile", "bca"])
def test_every_share_of_seven_classes_has_an_interval(unit: str, method: str) -> None:
    counts = counts_of(made_up(classes=7, images=10, prompts=50, right=0.7))
    settings = Intervals(resamples=400, unit=unit, method=method)
    scores = detector_scope_scores(counts, n_clear="detector")
    scores = IntervalScores.of_counts(counts, settings, n_clear="detector").of_detectors(scores)
    for name in ("balanced_accuracy", "alignment_accuracy", "classification_precision_white", "recall_black"):
        place = (0, 0, 0, scores.metrics.index(name))
        low, value, high = scores.ci_low[place], scores.value[place], scores.ci_high[place]
        assert low < value < high, name
        assert high - low < 0.25, name


def test_no_method_no_intervals() -> None:
    counts = counts_of(made_up())
    doubt = IntervalScores.of_counts(counts, Intervals(method="none"), n_clear="detector")
    assert np.isnan(doubt.of_detectors(detector_scope_scores(counts, n_clear="detector")).ci_low).all()


def test_the_interval_of_the_model_bias_score_error_knows_its_bias() -> None:
    # A fair T2I model of which 6 % of the women are taken for men: the error is 0.06, its estimate nearly 0.
    random, prompts = np.random.default_rng(3), 400
    truth = random.integers(0, 2, 20 * prompts)
    verdict = np.where((truth == 1) & (random.random(truth.size) < 0.06), 0, truth)
    pair = np.repeat(np.arange(prompts), 20).tolist()
    counts = counts_of(of_images(truth.tolist(), [verdict.tolist()], pair, prompts=prompts))
    scores = detector_scope_scores(counts, n_clear="detector")
    settings = Intervals(resamples=400)
    scores = IntervalScores.of_counts(counts, settings, n_clear="detector").of_detectors(scores)
    at = (0, 0, 0, scores.metrics.index("model_bias_score_error"))
    assert scores.value[at] < 0.03
    assert scores.ci_low[at] < 0.06 < scores.ci_high[at]
    assert scores.ci_high[at] - scores.value[at] == pytest.approx(scores.value[at] - scores.ci_low[at])
