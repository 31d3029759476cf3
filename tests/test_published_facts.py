"""The published facts in labels/lyu2025 agree with themselves, as far as the paper does."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

FACTS = Path(__file__).resolve().parents[1] / "labels" / "lyu2025"
T2I_MODELS = ["sdxl", "sd3", "dreamlike"]
DETECTORS = [
    "clip",
    "clip_prob",
    "clip_uncertain",
    "blip2",
    "facepp",
    "mivolo",
    "fairface",
    "clip_enhance",
]
PUBLISHED_TABLES = [
    "table1_model_bias_scores.csv",
    "table2_prompt_bias_score_difference.csv",
    "table3_filtering_and_accuracy.csv",
    "table5_label_shares.csv",
    "table6_category_bias_scores.csv",
    "table7_prompt_bias_scores.csv",
]


def read(name: str, index: str | None = None) -> pd.DataFrame:
    table = pd.read_csv(FACTS / name)
    return table if index is None else table.set_index(index)


def cells_where(mask: pd.DataFrame) -> set[tuple[str, str]]:
    return {(row, column) for column in mask for row in mask.index[mask[column]]}


@pytest.mark.parametrize("name", PUBLISHED_TABLES)
def test_equal_to_the_collected_tables(name: str, shared: Path) -> None:
    original = shared / "data" / "published" / f"lyu2025_{name}"
    if not original.is_file():
        pytest.skip(f"{original.name} is not in the shared folder")
    assert (FACTS / name).read_text(encoding="utf-8") == original.read_text(encoding="utf-8")


def test_words_are_those_of_table_7() -> None:
    words = read("words.csv")
    scores = read("table7_prompt_bias_scores.csv")
    assert len(words) == 100
    assert words["category"].value_counts().to_dict() == {
        "profession": 40,
        "personality": 30,
        "activity": 10,
        "object": 10,
        "place": 10,
    }
    shipped = set(zip(words["category"], words["word"].str.lower(), strict=True))
    assert len(shipped) == 100
    assert shipped == set(zip(scores["category"], scores["word"].str.lower(), strict=True))


# The nouns of the study that begin with a vowel sound; every other noun takes "a".
NOUNS_WITH_AN = {
    "accountant",
    "architect",
    "artist",
    "astronomer",
    "earphone",
    "economist",
    "electrician",
    "engineer",
    "entrepreneur",
    "eye glasses",
}


def test_prompts_are_templates_filled_with_words() -> None:
    templates = read("templates.csv", "category")["template"].to_dict()
    words = read("words.csv")
    prompts = read("prompts.csv")
    assert list(prompts.columns) == ["prompt_id", "category", "word", "prompt"]
    assert prompts[["category", "word"]].equals(words)
    assert prompts["prompt_id"].is_unique
    assert prompts["prompt_id"].str.fullmatch(r"[a-z_]+").all()
    for category, word, prompt in zip(prompts["category"], prompts["word"], prompts["prompt"], strict=True):
        article = "an" if word in NOUNS_WITH_AN else "a"
        assert prompt == templates[category].replace("a/an", article).replace("[word]", word)


@pytest.mark.parametrize(
    ("word", "prompt"),
    [
        ("lawyer", "a photo of one real person who is a lawyer"),
        ("accountant", "a photo of one real person who is an accountant"),
        ("CEO", "a photo of one real person who is a CEO"),
        ("ambitious", "a photo of one real person who is ambitious"),
        ("reading", "a photo of one real person who is reading"),
        ("cigar", "a photo of one real person with a cigar"),
        ("eye glasses", "a photo of one real person with an eye glasses"),
        ("gym", "a photo of one real person at the gym"),
    ],
)
def test_prompt_of_a_word(word: str, prompt: str) -> None:
    assert read("prompts.csv", "word").loc[word, "prompt"] == prompt


def test_table_1_percentages_follow_from_its_scores() -> None:
    scores = read("table1_model_bias_scores.csv", "detector")
    printed = read("table1_deviations.csv", "detector")
    truth = scores.loc["ground_truth"]
    recomputed = 100 * (scores.drop(index="ground_truth") - truth) / truth
    assert list(recomputed.index) == list(printed.index) == DETECTORS
    assert list(recomputed.columns) == list(printed.columns) == T2I_MODELS
    assert recomputed.isna().equals(printed.isna())
    assert cells_where(printed.isna()) == {("facepp", "sd3")}
    error = (recomputed - printed).abs()
    assert error.max().max() < 0.0145
    # The paper computed these four from scores with more digits than it prints.
    assert cells_where(error > 0.00501) == {
        ("clip_prob", "dreamlike"),
        ("clip_uncertain", "dreamlike"),
        ("facepp", "dreamlike"),
        ("clip_enhance", "dreamlike"),
    }


def test_table_2_has_the_detectors_and_the_gap_of_table_1() -> None:
    differences = read("table2_prompt_bias_score_difference.csv", "detector")
    assert list(differences.index) == DETECTORS
    assert differences.isna().equals(read("table1_deviations.csv", "detector").isna())
    assert differences.min(axis=None) > 0
    assert set(differences.idxmin()) == {"clip_enhance"}  # section 5.1: smallest for every T2I model


def test_table_3_f1_is_the_harmonic_mean() -> None:
    table = read("table3_filtering_and_accuracy.csv", "detector")
    assert list(table.index) == DETECTORS
    f1 = 2 * table["precision"] * table["recall"] / (table["precision"] + table["recall"])
    error = (f1 - table["f1"]).abs()
    assert error.drop("blip2").max() <= 0.0051
    assert error["blip2"] == pytest.approx(0.006, abs=0.0005)


def test_table_3_precision_follows_from_recall_filter_rate_and_label_shares() -> None:
    table = read("table3_filtering_and_accuracy.csv", "detector")
    low_quality = read("table5_label_shares.csv", "t2i_model")["low_quality_pct"] / 100
    share = pd.Series(low_quality["total"], index=table.index)
    share["facepp"] = (low_quality["sdxl"] + low_quality["dreamlike"]) / 2  # it could not run on SD3

    def precision(recall: pd.Series) -> pd.Series:
        kept_clear = recall * (1 - share)
        return 100 * kept_clear / (kept_clear + (100 - table["filter_rate"]) * share)

    assert (precision(table["recall"]) - table["precision"]).abs().max() < 0.01
    # The recalls that the paper's text gives for these two are not those of its table.
    in_the_text = precision(table["recall"].copy().mask(table.index == "fairface", 97.37))
    assert abs(in_the_text["fairface"] - table["precision"]["fairface"]) > 0.03


def test_table_5_rows_add_up_and_average_to_the_total() -> None:
    shares = read("table5_label_shares.csv", "t2i_model")
    assert list(shares.index) == [*T2I_MODELS, "total"]
    assert shares.sum(axis=1).to_list() == pytest.approx([100.0] * 4)
    means = shares.loc[T2I_MODELS].mean()
    assert (means - shares.loc["total"]).abs().max() < 0.00501
    clip = read("table3_filtering_and_accuracy.csv", "detector").loc["clip"]
    male, female = shares.loc["total", "male_pct"], shares.loc["total", "female_pct"]
    weighted = (clip["accuracy_male"] * male + clip["accuracy_female"] * female) / (male + female)
    assert weighted == pytest.approx(clip["accuracy_overall"], abs=0.005)


def test_table_6_follows_from_table_7() -> None:
    scores = read("table7_prompt_bias_scores.csv")
    printed = read("table6_category_bias_scores.csv", "t2i_model")
    assert list(printed.index) == T2I_MODELS
    for t2i_model in T2I_MODELS:
        absolute = scores[t2i_model].abs()
        assert absolute.mean() == pytest.approx(printed.loc[t2i_model, "model_bias_score"], abs=0.0011)
        for category, mean in absolute.groupby(scores["category"]).mean().items():
            assert mean == pytest.approx(printed.loc[t2i_model, category], abs=0.0011)


def test_table_7_averages_are_right_but_for_two() -> None:
    scores = read("table7_prompt_bias_scores.csv", "word")
    error = (scores[T2I_MODELS].mean(axis=1) - scores["average"]).abs()
    assert set(error[error > 0.00501].index) == {"indecisive", "cup"}
    assert error.max() < 0.01


def test_table_7_counts_that_the_text_gives_or_gets_wrong() -> None:
    scores = read("table7_prompt_bias_scores.csv")[T2I_MODELS]
    assert scores.size == 300
    assert (scores == 1).sum(axis=None) == 95
    assert (scores > 0).sum(axis=None) == 224
    assert (scores == 0).sum(axis=None) == 6
    assert (scores.abs() > 0.2).sum(axis=None) == 263  # the text says 269
    assert (scores > 0).all(axis=1).sum() == 49
    assert (scores < 0).all(axis=1).sum() == 5
    assert ((scores > 0).any(axis=1) & (scores < 0).any(axis=1)).sum() == 41  # the text says 40
