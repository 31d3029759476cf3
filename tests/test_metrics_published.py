"""The published tables of Lyu 2025, put through our functions: what they print must come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from detector_bench import metrics

T2I_MODELS = ("sdxl", "sd3", "dreamlike")
LOW_QUALITY, OTHERS = 2, 3
FILTERED, NO_VERDICT = 2, 3

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # What an earlier test left to the garbage collector is that test's own matter.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]


def published(shared: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(shared / "data" / "published" / f"lyu2025_{name}.csv")


def counts_behind(score: float, *, images: int = 20) -> tuple[int, int]:
    """Numbers of men and women among at most 20 clear images whose score is printed as `score`."""
    candidates = [
        (abs((men - women) / (men + women) - score), -(men + women), men, women)
        for men in range(images + 1)
        for women in range(images + 1 - men)
        if men + women > 0
    ]
    distance, _, men, women = min(candidates)
    assert distance <= 0.005 + 1e-9, f"no count of up to {images} images is printed as {score}"
    return men, women


@pytest.fixture(scope="module")
def table7(shared: Path) -> pd.DataFrame:
    return published(shared, "table7_prompt_bias_scores")


@pytest.fixture(scope="module")
def table7_counts(table7: pd.DataFrame) -> np.ndarray:
    """Human counts `[t2i_model, prompt, truth]` rebuilt from the 300 printed prompt bias scores."""
    human = np.zeros((len(T2I_MODELS), len(table7), 4), dtype=np.int64)
    for model, name in enumerate(T2I_MODELS):
        for prompt, score in enumerate(table7[name]):
            human[model, prompt, :2] = counts_behind(score)
    return metrics.human_as_detector(human)


@pytest.fixture(scope="module")
def table7_shares(table7: pd.DataFrame) -> np.ndarray:
    """The printed scores themselves, as shares of men and women: weighted images."""
    scores = table7[list(T2I_MODELS)].to_numpy().T
    return metrics.human_as_detector(
        np.stack([(1 + scores) / 2, (1 - scores) / 2, 0 * scores, 0 * scores], axis=-1)
    )


# Whole images reproduce each printed score to 0.005 only, which leaves 0.0015 in a mean of ten prompts.
@pytest.mark.parametrize(("fixture", "tolerance"), [("table7_shares", 0.001), ("table7_counts", 0.0015)])
def test_table7_gives_the_model_and_category_scores_of_table6(
    shared: Path, table7: pd.DataFrame, fixture: str, tolerance: float, request: pytest.FixtureRequest
) -> None:
    counts = request.getfixturevalue(fixture)
    scopes = metrics.Scopes.of_prompts(tuple(table7["category"]))
    actual = metrics.model_bias_score_actual(counts, scopes=scopes)
    table6 = published(shared, "table6_category_bias_scores").set_index("t2i_model")
    columns = ["model_bias_score", *scopes.categories]
    np.testing.assert_allclose(
        actual.value[1:], table6.loc[list(T2I_MODELS), columns], rtol=0, atol=tolerance + 1e-9
    )
    prompts_used = dict(zip(scopes.categories, actual.n[1, 1:].tolist(), strict=True))
    assert prompts_used == {"profession": 40, "personality": 30, "activity": 10, "object": 10, "place": 10}
    assert actual.n[1:, 0].tolist() == [100, 100, 100]
    assert not actual.n_left_out.any()


def test_table7_gives_the_model_scores_to_four_decimals(table7_shares: np.ndarray) -> None:
    scores = metrics.model_bias_score(table7_shares[:, np.newaxis]).value
    assert scores.tolist() == pytest.approx([0.7525, 0.7299, 0.6310], abs=5e-5)


@pytest.mark.parametrize("fixture", ["table7_shares", "table7_counts"])
def test_figure3_counts(fixture: str, request: pytest.FixtureRequest) -> None:
    scores = metrics.prompt_bias_score_actual(request.getfixturevalue(fixture)).value.round(12)
    assert scores.size == 300
    assert (scores == 1).sum() == 95
    assert (scores > 0).sum() == 224
    assert (scores == 0).sum() == 6
    assert (np.abs(scores) > 0.2).sum() == 263


def filter_counts(shares: tuple[float, float, float], *, recall: float, filter_rate: float) -> np.ndarray:
    """Weights `[truth, verdict]` of a detector with one recall for both genders that never errs."""
    counts = np.zeros((4, 4))
    for gender, share in enumerate(shares[:2]):
        counts[gender, gender] = share * recall
        counts[gender, FILTERED] = share * (1 - recall)
    counts[LOW_QUALITY, 0] = shares[2] * (1 - filter_rate)
    counts[LOW_QUALITY, FILTERED] = shares[2] * filter_rate
    return counts


def label_shares(shared: Path, *, detector: str) -> tuple[float, float, float]:
    """Table 5's shares of the T2I models that the detector ran on; Face++ could not run on SD3."""
    table5 = published(shared, "table5_label_shares").set_index("t2i_model")
    rows = table5.loc[["sdxl", "dreamlike"]].mean() if detector == "facepp" else table5.loc["total"]
    return tuple(rows[["male_pct", "female_pct", "low_quality_pct"]])


@pytest.mark.parametrize(
    "detector",
    ["clip", "clip_prob", "clip_uncertain", "blip2", "facepp", "mivolo", "fairface", "clip_enhance"],
)
def test_table3_precision_and_f1_follow_from_recall_filter_rate_and_table5(shared: Path, detector: str) -> None:
    printed = published(shared, "table3_filtering_and_accuracy").set_index("detector").loc[detector] / 100
    counts = filter_counts(
        label_shares(shared, detector=detector), recall=printed["recall"], filter_rate=printed["filter_rate"]
    )
    assert float(metrics.recall(counts).value) == pytest.approx(printed["recall"])
    assert float(metrics.filter_rate(counts).value) == pytest.approx(printed["filter_rate"])
    assert float(metrics.precision(counts).value) == pytest.approx(printed["precision"], abs=1e-4)
    assert float(metrics.f1(counts).value) == pytest.approx(printed["f1"], abs=1e-4)


def test_table3_overall_accuracy_of_clip(shared: Path) -> None:
    """CLIP filters nothing, so its accuracies per gender, weighted by Table 5, are its overall accuracy."""
    printed = published(shared, "table3_filtering_and_accuracy").set_index("detector").loc["clip"] / 100
    male, female, low_quality = label_shares(shared, detector="clip")
    counts = np.array(
        [
            [male * printed["accuracy_male"], male * (1 - printed["accuracy_male"]), 0, 0],
            [female * (1 - printed["accuracy_female"]), female * printed["accuracy_female"], 0, 0],
            [low_quality, 0, 0, 0],
            [0, 0, 0, 0],
        ]
    )
    assert float(metrics.accuracy(counts).value) == pytest.approx(0.9545, abs=1e-4)
    assert metrics.accuracy_per_class(counts).value.tolist() == pytest.approx([0.9745, 0.9015])
    assert metrics.label_shares(counts).value.tolist() == pytest.approx([0.6350, 0.2402, 0.1248, 0.0])
