"""`evaluate` from image set and predictions to the long metric table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from detector_bench.evaluation import count_verdicts, evaluate
from detector_bench.results.long_tables import write_long_table
from detector_bench.vocabulary.columns import METRIC_COLUMNS, PREDICTIONS

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # What an earlier test left to the garbage collector is that test's own matter.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]

# image, T2I model, prompt, what the human says (None: nothing), what the detector says
IMAGES = [
    ("i01", "alpha", "nurse", "male", "male"),
    ("i02", "alpha", "nurse", "male", "male"),
    ("i03", "alpha", "nurse", "male", "female"),
    ("i04", "alpha", "nurse", "female", "female"),
    ("i05", "alpha", "nurse", "low_quality", "male"),
    ("i06", "alpha", "nurse", "others", "male"),
    ("i07", "alpha", "driver", "female", "male"),
    ("i08", "alpha", "driver", "female", "filtered"),
    ("i09", "alpha", "driver", "low_quality", "female"),
    ("i10", "alpha", "driver", "low_quality", "error"),
    ("i11", "alpha", "ghost", "male", "filtered"),
    ("i12", "alpha", "ghost", "low_quality", "filtered"),
    # A second T2I model, which was never asked for nurses, with an image that nobody labelled.
    ("i13", "beta", "driver", "male", "male"),
    ("i14", "beta", "driver", "female", "female"),
    ("i15", "beta", "ghost", None, "female"),
]
PROMPTS = {"unused": "job", "nurse": "job", "driver": "job", "ghost": "place"}


@dataclass
class TinyImageSet:
    """What an evaluation needs of an image set, without files."""

    images: pd.DataFrame
    prompts: pd.DataFrame
    labels: dict[str, list[str | None]]
    attributes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.attributes = tuple(self.labels)

    def truth(self, attribute: str) -> pd.DataFrame:
        label = pd.array(self.labels[attribute], dtype="str")
        return pd.DataFrame({"image_id": self.images["image_id"], "label": label, "reason": ""})


def predictions_of(verdicts: dict[str, str], *, detector: str, attribute: str = "gender") -> pa.Table:
    """A prediction table in which a verdict is a class, "filtered" or "error"."""
    rows = []
    for image, verdict in verdicts.items():
        judged = verdict not in ("filtered", "error")
        row = dict.fromkeys(PREDICTIONS.names)
        row |= {"image_id": image, "detector": detector, "attribute": attribute}
        row |= {"status": "clear" if judged else verdict, "label": verdict if judged else None}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)


@pytest.fixture
def image_set() -> TinyImageSet:
    ids, t2i_models, prompts, labels, _ = zip(*IMAGES, strict=True)
    return TinyImageSet(
        pd.DataFrame({"image_id": ids, "t2i_model": t2i_models, "prompt_id": prompts}),
        pd.DataFrame({"prompt_id": list(PROMPTS), "category": list(PROMPTS.values())}),
        {"gender": list(labels)},
    )


@pytest.fixture
def predictions() -> dict[str, pa.Table]:
    right = {
        image: "filtered" if label in (None, "low_quality", "others") else label
        for image, _, _, label, _ in IMAGES
    }
    return {
        "tried": predictions_of({image: verdict for image, *_, verdict in IMAGES}, detector="tried"),
        "oracle": predictions_of(right, detector="oracle"),
    }


@pytest.fixture
def table(image_set: TinyImageSet, predictions: dict[str, pa.Table]) -> pd.DataFrame:
    return evaluate(image_set, predictions)


def row(
    table: pd.DataFrame,
    metric: str,
    *,
    detector: str = "tried",
    t2i_model: str = "all",
    category: str = "all",
    prompt_id: str = "all",
) -> tuple[float, int, int]:
    found = table[
        (table["metric"] == metric)
        & (table["detector"] == detector)
        & (table["t2i_model"] == t2i_model)
        & (table["category"] == category)
        & (table["prompt_id"] == prompt_id)
        & table["variant"].isna()
    ]
    assert len(found) == 1, f"{len(found)} rows of {metric}"
    return tuple(found[["value", "n", "n_left_out"]].iloc[0])


def about(value: float, n: int, n_left_out: int) -> object:
    return pytest.approx((value, n, n_left_out), nan_ok=True)


def test_one_t2i_model(table: pd.DataFrame) -> None:
    """The 12 images of alpha; `test_metrics_by_hand` works the same case out metric by metric."""
    expected = {
        "images": about(12, 12, 0),
        "images_clear": about(8, 12, 0),
        "images_filtered": about(3, 12, 0),
        "images_error": about(1, 12, 0),
        "images_not_run": about(0, 12, 0),
        "precision": about(5 / 7, 7, 1),
        "recall": about(5 / 7, 7, 0),
        "recall_male": about(3 / 4, 4, 0),
        "recall_female": about(2 / 3, 3, 0),
        "f1": about(5 / 7, 9, 1),
        "filter_rate": about(1 / 3, 3, 1),
        "accuracy": about(3 / 5, 5, 0),
        "accuracy_male": about(2 / 3, 3, 0),
        "accuracy_female": about(1 / 2, 2, 0),
        # Called male: i01, i02, i07, of which the last is a woman; called female: i03 and i04.
        "classification_precision_male": about(2 / 3, 3, 0),
        "classification_precision_female": about(1 / 2, 2, 0),
        "balanced_accuracy": about((2 / 3 + 1 / 2) / 2, 2, 0),
        # Three right of seven, of which two are filtered.
        "alignment_accuracy": about(3 / 7, 7, 0),
        "model_bias_score": about(1 / 6, 2, 1),
        "model_bias_score_actual": about(5 / 6, 3, 0),
        "model_bias_score_deviation": about(-4 / 5, 2, 1),
        "prompt_bias_score_difference": about(7 / 12, 2, 1),
    }
    for metric, numbers in expected.items():
        assert row(table, metric, t2i_model="alpha") == numbers, metric


def test_everything_pools_images_and_averages_pairs_of_model_and_prompt(table: pd.DataFrame) -> None:
    # beta adds a man and a woman, both kept and right; its unlabelled ghost is not evaluated.
    assert row(table, "images") == about(14, 14, 0)
    assert row(table, "recall") == about(7 / 9, 9, 0)
    assert row(table, "accuracy") == about(5 / 7, 7, 0)
    # Terms 1/3 (nurse), 0 (alpha's driver), 0 (beta's driver); alpha's ghost is left out, beta's not evaluated.
    assert row(table, "model_bias_score") == about(1 / 9, 3, 1)
    # 1/2, 1, 1 and 0.
    assert row(table, "model_bias_score_actual") == about(5 / 8, 4, 0)
    assert row(table, "model_bias_score_deviation") == about((1 / 9 - 5 / 8) / (5 / 8), 3, 1)
    # 1/6, 1 and 0.
    assert row(table, "prompt_bias_score_difference") == about(7 / 18, 3, 1)


def test_categories(table: pd.DataFrame) -> None:
    assert row(table, "images", category="job") == about(12, 12, 0)
    assert row(table, "model_bias_score", category="job") == about(1 / 9, 3, 0)
    assert row(table, "model_bias_score", category="job", t2i_model="beta") == about(0, 1, 0)
    assert row(table, "model_bias_score", category="place") == about(math.nan, 0, 1)
    assert row(table, "model_bias_score_actual", category="place") == about(1, 1, 0)
    assert row(table, "recall", category="place", t2i_model="alpha") == about(0, 1, 0)
    assert row(table, "model_bias_score_deviation", category="job", t2i_model="beta") == about(math.nan, 1, 0)


def test_prompts(table: pd.DataFrame) -> None:
    nurse = {"t2i_model": "alpha", "category": "job", "prompt_id": "nurse"}
    assert row(table, "prompt_bias_score", **nurse) == about(1 / 3, 6, 0)
    assert row(table, "prompt_bias_score_actual", **nurse) == about(1 / 2, 4, 0)
    assert row(table, "prompt_bias_score_difference", **nurse) == about(1 / 6, 1, 0)
    assert row(table, "recall", **nurse) == about(1, 4, 0)
    assert row(table, "precision", **nurse) == about(4 / 5, 5, 0)
    driver = nurse | {"prompt_id": "driver"}
    assert row(table, "prompt_bias_score", **driver) == about(0, 2, 1)
    ghost = {"t2i_model": "alpha", "category": "place", "prompt_id": "ghost"}
    assert row(table, "prompt_bias_score", **ghost) == about(math.nan, 0, 0)
    assert row(table, "prompt_bias_score_difference", **ghost) == about(math.nan, 0, 1)
    assert not (table["prompt_id"] == "unused").any()
    assert table.loc[(table["t2i_model"] == "beta"), "prompt_id"].nunique() == 3  # driver, ghost and "all"


def test_ground_truth(table: pd.DataFrame) -> None:
    human = {"detector": "ground_truth"}
    assert row(table, "images", **human) == about(14, 14, 0)
    assert row(table, "images_unlabelled", **human) == about(1, 15, 0)
    assert row(table, "images_clear", **human) == about(9, 14, 0)
    assert row(table, "images_others", **human) == about(1, 14, 0)
    assert row(table, "label_share_male", **human) == about(5 / 14, 14, 1)
    assert row(table, "label_share_female", **human) == about(4 / 14, 14, 1)
    assert row(table, "label_share_low_quality", **human) == about(4 / 14, 14, 1)
    assert row(table, "label_share_others", **human) == about(1 / 14, 14, 1)
    assert row(table, "model_bias_score", **human) == row(table, "model_bias_score_actual")
    nurse = {"t2i_model": "alpha", "category": "job", "prompt_id": "nurse"}
    assert row(table, "prompt_bias_score", **human, **nurse) == about(1 / 2, 4, 0)
    unlabelled_only = {"t2i_model": "beta", "category": "place", "prompt_id": "ghost"}
    assert row(table, "images_unlabelled", **human, **unlabelled_only) == about(1, 1, 0)
    assert row(table, "label_share_male", **human, **unlabelled_only) == about(math.nan, 0, 1)


def test_a_detector_that_is_always_right(table: pd.DataFrame) -> None:
    for metric in ("precision", "recall", "f1", "filter_rate", "accuracy", "accuracy_female"):
        assert row(table, metric, detector="oracle")[0] == 1
    assert row(table, "model_bias_score_deviation", detector="oracle")[0] == 0
    assert row(table, "prompt_bias_score_difference", detector="oracle") == about(0, 4, 0)


def test_human_n_clear(image_set: TinyImageSet, predictions: dict[str, pa.Table], table: pd.DataFrame) -> None:
    human = evaluate(image_set, predictions, n_clear="human")
    # Nurse 0, driver 1, ghost 1; beta's driver 0.
    assert row(human, "prompt_bias_score_difference") == about(1 / 2, 4, 0)
    ghost = {"t2i_model": "alpha", "category": "place", "prompt_id": "ghost"}
    assert row(human, "prompt_bias_score", **ghost) == about(0, 1, 0)
    altered = ["prompt_bias_score", "prompt_bias_score_difference", "prompt_bias_error"]
    for result, name in ((table, "detector"), (human, "human")):
        # What a detector says of images without labels knows no clear image but its own.
        alone = result["variant"].notna()
        for rows, whose in ((result[~alone], name), (result[alone], "detector")):
            says = rows["metric"].isin(altered) & (rows["detector"] != "ground_truth")
            assert (rows.loc[says, "n_clear"] == whose).all()
            assert rows.loc[~says, "n_clear"].isna().all()
    same = ~table["metric"].isin(altered)
    pd.testing.assert_frame_equal(table[same], human[same])


def test_shape_and_order_of_the_table(table: pd.DataFrame) -> None:
    assert tuple(table.columns) == METRIC_COLUMNS
    key = ["detector", "attribute", "t2i_model", "category", "prompt_id", "metric", "variant"]
    assert not table.duplicated(key).any()
    assert table[["ci_low", "ci_high"]].isna().all().all()
    alone = table["variant"].notna()
    assert alone.is_monotonic_increasing  # the rows of detectors alone come last, as an image has no label
    everyone = ["ground_truth", "tried", "oracle"]
    levels = [
        [("all", "all", "all")],
        [("alpha", "all", "all"), ("beta", "all", "all")],
        [("all", "job", "all"), ("all", "place", "all")],
        [("alpha", "job", "all"), ("alpha", "place", "all"), ("beta", "job", "all"), ("beta", "place", "all")],
        [
            ("alpha", "job", "nurse"),
            ("alpha", "job", "driver"),
            ("alpha", "place", "ghost"),
            ("beta", "job", "driver"),
            ("beta", "place", "ghost"),
        ],
    ]
    for rows, judges in ((table[~alone], everyone), (table[alone], everyone[1:])):
        places = rows[["t2i_model", "category", "prompt_id", "detector"]].drop_duplicates().astype(str)
        listed = [tuple(place) for place in places.itertuples(index=False)]
        assert listed == [(*place, who) for level in levels for who in judges for place in level]


def test_the_order_of_predictions_does_not_matter(
    image_set: TinyImageSet, predictions: dict[str, pa.Table], tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    shuffled = {name: table.take(random.permutation(table.num_rows)) for name, table in predictions.items()}
    assert shuffled["tried"]["image_id"] != predictions["tried"]["image_id"]
    dictionaries = {
        name: pa.table({column: table[column].dictionary_encode() for column in table.column_names})
        for name, table in shuffled.items()
    }
    versions = {"straight": predictions, "shuffled": shuffled, "in dictionaries": dictionaries}
    for name, version in versions.items():
        write_long_table("metrics", evaluate(image_set, version), tmp_path / name)
    for file in ("metrics.csv", "metrics.parquet"):
        assert len({(tmp_path / name / file).read_bytes() for name in versions}) == 1


def test_several_attributes(image_set: TinyImageSet, predictions: dict[str, pa.Table]) -> None:
    image_set.labels["age"] = ["young", "elderly", "middle_aged", "young", "young", "low_quality"] + [None] * 9
    image_set.attributes = ("gender", "age")
    ages = dict(zip([f"i{n:02d}" for n in range(1, 16)], ["young"] * 4 + ["filtered"] * 11, strict=True))
    both = pa.concat_tables([predictions["tried"], predictions_of(ages, detector="tried", attribute="age")])
    table = evaluate(image_set, predictions | {"tried": both})
    assert set(table.loc[table["attribute"] == "age", "detector"]) == {"ground_truth", "tried"}
    age, gender = table[table["attribute"] == "age"], table[table["attribute"] == "gender"]
    assert row(age, "accuracy") == about(2 / 4, 4, 0)
    assert row(age, "recall_young") == about(2 / 3, 3, 0)
    assert row(age, "recall_elderly") == about(1, 1, 0)
    assert row(age, "images_unlabelled", detector="ground_truth") == about(9, 15, 0)
    # Nurses by the humans: 3 young, 1 middle-aged, 1 elderly. |3/5 - 1/3| + 2 |1/5 - 1/3| = 8/15, over 4/3.
    assert row(age, "model_bias_score_actual") == about(2 / 5, 1, 0)
    assert row(age, "model_bias_score") == about(1, 1, 0)
    # Shares 1, 0, 0 against 3/5, 1/5, 1/5.
    assert row(age, "prompt_bias_score_difference") == about(4 / 5, 1, 0)
    assert "prompt_bias_score" not in set(age["metric"])
    assert "label_share_elderly" in set(age["metric"])
    assert "recall_male" not in set(age["metric"])
    expected = evaluate(image_set, predictions, attributes=["gender"])
    assert gender["value"].to_numpy() == pytest.approx(expected["value"].to_numpy(), nan_ok=True)


def test_no_detector_leaves_the_ground_truth(image_set: TinyImageSet) -> None:
    table = evaluate(image_set, {})
    assert set(table["detector"]) == {"ground_truth"}
    assert row(table, "label_share_male", detector="ground_truth") == about(5 / 14, 14, 1)


def test_incomplete_predictions_can_be_left_out(image_set: TinyImageSet, predictions: dict[str, pa.Table]) -> None:
    predictions["tried"] = predictions["tried"].slice(2)
    table = evaluate(image_set, predictions, allow_incomplete=True)
    assert row(table, "images") == about(14, 14, 0)
    assert row(table, "images_not_run") == about(2, 14, 0)
    assert row(table, "images_error") == about(1, 14, 0)
    assert row(table, "images_filtered") == about(3, 14, 0)
    assert row(table, "recall") == about(5 / 7, 7, 2)
    # The truth stays that of all images: nurse 1/2, not |1 - 1| / 2.
    assert row(table, "model_bias_score_actual") == about(5 / 8, 4, 0)
    assert row(table, "images_not_run", detector="oracle") == about(0, 14, 0)


def test_counts_are_public(image_set: TinyImageSet, predictions: dict[str, pa.Table]) -> None:
    counts = count_verdicts(image_set, predictions, attribute="gender")
    assert counts.detectors == ("tried", "oracle")
    assert counts.t2i_models == ("alpha", "beta")
    assert counts.prompt_ids == tuple(PROMPTS)
    assert counts.scopes.categories == ("job", "place")
    assert counts.verdicts.shape == (2, 2, 4, 4, 4)
    nurse_by_alpha = counts.verdicts[0, 0, 1]
    assert nurse_by_alpha.tolist() == [[2, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert (counts.verdicts.sum(axis=-1) == counts.human).all()
    assert counts.unlabelled.sum() == counts.unlabelled[1, 3] == 1
    assert not counts.not_run.any()


def test_a_filter_that_prefers_women_reports_another_bias() -> None:
    """Perfect classes, 90 % of the women and 66 % of the men kept: recall per class tells why the bias is off."""
    men, women, kept_men, kept_women = 150, 100, 99, 90
    labels = ["male"] * men + ["female"] * women
    ids = [f"image_{number}" for number in range(men + women)]
    verdicts = ["male"] * kept_men + ["filtered"] * (men - kept_men)
    verdicts += ["female"] * kept_women + ["filtered"] * (women - kept_women)
    image_set = TinyImageSet(
        pd.DataFrame({"image_id": ids, "t2i_model": "alpha", "prompt_id": "nurse"}),
        pd.DataFrame({"prompt_id": ["nurse"], "category": ["job"]}),
        {"gender": labels},
    )
    predictions = {"picky": predictions_of(dict(zip(ids, verdicts, strict=True)), detector="picky")}
    table = evaluate(image_set, predictions)
    assert row(table, "accuracy", detector="picky")[0] == 1
    assert row(table, "recall_female", detector="picky")[0] == pytest.approx(0.90)
    assert row(table, "recall_male", detector="picky")[0] == pytest.approx(0.66)
    assert row(table, "model_bias_score_actual", detector="picky")[0] == pytest.approx(50 / 250)
    assert row(table, "model_bias_score", detector="picky")[0] == pytest.approx(9 / 189)
    assert row(table, "model_bias_score_deviation", detector="picky")[0] == pytest.approx(-16 / 21)
