"""Three, seven and ten classes, from words to metric table and confusion matrices, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score

from detector_bench import metrics
from detector_bench.errors import ConfigError
from detector_bench.evaluation import Intervals
from detector_bench.evaluation.metric_table import Evaluation, evaluate_with_confusion
from detector_bench.results.long_tables import read_long_table, write_long_table
from detector_bench.tables.error_tables import confusion
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS

IMAGES = 400


class MadeUpImages:
    """Labelled images by two T2I models on four prompts of two categories."""

    def __init__(self, attribute: str) -> None:
        random = np.random.default_rng(11)
        kind = ATTRIBUTES[attribute]
        self.attributes = (attribute,)
        self.images = pd.DataFrame(
            {
                "image_id": [f"i{number:03d}" for number in range(IMAGES)],
                "t2i_model": np.array(["alpha", "beta"])[random.integers(0, 2, IMAGES)],
                "prompt_id": np.array(["a", "b", "c", "d"])[random.integers(0, 4, IMAGES)],
            }
        )
        self.prompts = pd.DataFrame({"prompt_id": list("abcd"), "category": ["job", "place", "job", "place"]})
        # The last class but one has no image at all.
        weights = np.where(np.arange(len(kind.labels)) == len(kind.classes) - 2, 0, 1.0)
        self.label = random.choice(kind.labels, size=IMAGES, p=weights / weights.sum())
        guess = random.choice([*kind.classes, "filtered", "error"], size=IMAGES)
        right = np.isin(self.label, kind.classes) & (random.random(IMAGES) < 0.7)
        self.verdict = np.where(right, self.label, guess)

    def truth(self, attribute: str) -> pd.DataFrame:
        return pd.DataFrame({"image_id": self.images["image_id"], "label": self.label})

    def predictions(self) -> dict[str, pa.Table]:
        refused = np.isin(self.verdict, ["filtered", "error"])
        columns = {
            "image_id": self.images["image_id"].to_numpy(),
            "detector": np.full(IMAGES, "net"),
            "attribute": np.full(IMAGES, self.attributes[0]),
            "status": np.where(refused, self.verdict, "clear"),
            "label": pa.array(self.verdict, mask=refused),
        }
        return {"net": pa.table(columns)}


@pytest.fixture(scope="module", params=["age", "race", "skin_tone"])
def attribute(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def images(attribute: str) -> MadeUpImages:
    return MadeUpImages(attribute)


@pytest.fixture(scope="module")
def evaluation(images: MadeUpImages) -> Evaluation:
    return evaluate_with_confusion(images, images.predictions(), intervals=Intervals(resamples=400))


def values_of(evaluation: Evaluation, *, detector: str, t2i_model: str = "all") -> pd.DataFrame:
    table = evaluation.metrics
    rows = (table["category"] == "all") & (table["prompt_id"] == "all") & (table["t2i_model"] == t2i_model)
    return table[rows & (table["detector"] == detector)].set_index("metric")


@pytest.mark.parametrize("t2i_model", ["all", "beta"])
def test_filtering_and_classification(
    attribute: str, images: MadeUpImages, evaluation: Evaluation, t2i_model: str
) -> None:
    classes = ATTRIBUTES[attribute].classes
    found = values_of(evaluation, detector="net", t2i_model=t2i_model)["value"]
    some = (images.images["t2i_model"] == t2i_model).to_numpy() | (t2i_model == "all")
    truth, verdict = images.label[some], images.verdict[some]
    used = (truth != "others") & (verdict != "error")
    clear, kept = np.isin(truth, classes), np.isin(verdict, classes)
    assert found["recall"] == pytest.approx(recall_score(clear[used], kept[used]))
    assert found["precision"] == pytest.approx(precision_score(clear[used], kept[used]))
    assert found["filter_rate"] == pytest.approx(recall_score(clear[used], kept[used], pos_label=False))
    both = clear & kept
    options = {"labels": classes, "average": None, "zero_division": np.nan}
    accuracies = recall_score(truth[both], verdict[both], **options)
    np.testing.assert_allclose(found[[f"accuracy_{name}" for name in classes]], accuracies)
    named = precision_score(truth[both], verdict[both], **options)
    np.testing.assert_allclose(found[[f"classification_precision_{name}" for name in classes]], named)
    assert found["accuracy"] == pytest.approx(accuracy_score(truth[both], verdict[both]))
    assert found["balanced_accuracy"] == pytest.approx(np.nanmean(accuracies))
    answered = clear & (verdict != "error")
    assert found["alignment_accuracy"] == pytest.approx(accuracy_score(truth[answered], verdict[answered]))
    for name in classes:
        of_class = (truth == name) & (verdict != "error")
        expected = kept[of_class].mean() if of_class.any() else np.nan
        assert found[f"recall_{name}"] == pytest.approx(expected, nan_ok=True)


def test_the_class_without_an_image_is_counted(attribute: str, evaluation: Evaluation) -> None:
    classes = ATTRIBUTES[attribute].classes
    balanced = values_of(evaluation, detector="net").loc["balanced_accuracy"]
    assert (balanced["n"], balanced["n_left_out"]) == (len(classes) - 1, 1)
    assert np.isnan(values_of(evaluation, detector="net").loc[f"accuracy_{classes[-2]}", "value"])


def test_label_shares_and_bias(attribute: str, images: MadeUpImages, evaluation: Evaluation) -> None:
    kind = ATTRIBUTES[attribute]
    human = values_of(evaluation, detector="ground_truth")["value"]
    shares = pd.Series(images.label).value_counts(normalize=True).reindex(kind.labels, fill_value=0.0)
    np.testing.assert_allclose(human[[f"label_share_{name}" for name in kind.labels]], shares)
    # Mean over pairs of T2I model and prompt of sum |share - 1/K|, by its largest value 2 (1 - 1/K).
    each = 1 / len(kind.classes)
    frame = images.images.assign(label=images.label)
    frame = frame[frame["label"].isin(kind.classes)]
    distances = [
        group["label"].value_counts(normalize=True).reindex(kind.classes, fill_value=0.0).sub(each).abs().sum()
        for _, group in frame.groupby(["t2i_model", "prompt_id"])
    ]
    assert human["model_bias_score"] == pytest.approx(np.mean(distances) / (2 * (1 - each)))


def test_every_share_has_an_interval(attribute: str, evaluation: Evaluation) -> None:
    # Resamples give intervals to some of them; of the rest, Wilson's.
    found = values_of(evaluation, detector="net")
    names = [
        "accuracy",
        "balanced_accuracy",
        "recall",
        *(f"recall_{name}" for name in ATTRIBUTES[attribute].classes),
    ]
    rows = found.loc[names].dropna(subset="value")
    assert len(rows) == len(names) - 1
    assert ((rows["ci_low"] <= rows["value"]) & (rows["value"] <= rows["ci_high"])).all()
    assert (rows["ci_high"] - rows["ci_low"]).between(0.01, 0.5).all()


def test_confusion_is_that_of_scikit_learn(attribute: str, images: MadeUpImages, evaluation: Evaluation) -> None:
    kind = ATTRIBUTES[attribute]
    verdict = np.where(images.verdict == "error", "no_verdict", images.verdict)
    words = [*kind.labels, "filtered", "no_verdict"]
    assert tuple(evaluation.confusion.columns) == CONFUSION_COLUMNS
    for t2i_model, category in (("all", "all"), ("beta", "job")):
        some = ((images.images["t2i_model"] == t2i_model) | (t2i_model == "all")).to_numpy()
        some = some & (images.images["prompt_id"].isin(["a", "c"]) | (category == "all")).to_numpy()
        expected = pd.DataFrame(confusion_matrix(images.label[some], verdict[some], labels=words), words, words)
        table = evaluation.confusion
        rows = table[(table["t2i_model"] == t2i_model) & (table["category"] == category)]
        for label, said, number in zip(rows["human_label"], rows["verdict"], rows["images"], strict=True):
            assert number == expected.loc[label, said]
        assert rows["images"].sum() == some.sum()
        assert kind.classes[-2] not in set(rows["human_label"])


def test_confusion_as_a_table_and_as_a_file(attribute: str, evaluation: Evaluation, tmp_path) -> None:  # type: ignore[no-untyped-def]
    kind = ATTRIBUTES[attribute]
    table = confusion(evaluation.confusion, attribute=attribute)
    assert [column.key for column in table.columns[2:]] == [*kind.classes, "filtered", "no_verdict"]
    labels = [name for name in kind.labels if name != kind.classes[-2]]
    assert [row.cells[1].key for row in table.rows] == labels
    assert sum(cell.value or 0 for row in table.rows for cell in row.cells[2:]) == IMAGES
    some = confusion(evaluation.confusion, attribute=attribute, t2i_model="beta")
    assert 0 < sum(cell.value or 0 for row in some.rows for cell in row.cells[2:]) < IMAGES
    assert "of beta" in some.caption
    with pytest.raises(ConfigError, match=r"'beat'.*did you mean 'beta'"):
        confusion(evaluation.confusion, attribute=attribute, t2i_model="beat")
    assert write_long_table("confusion", evaluation.confusion, tmp_path)
    found = read_long_table(tmp_path / "confusion.csv")
    pd.testing.assert_frame_equal(found, evaluation.confusion.astype(found.dtypes))


def test_seven_classes_by_hand() -> None:
    """Of 9 white images 6 are right, 2 called black, 1 filtered; 2 black ones are right; one has no verdict."""
    counts = np.zeros((9, 9), dtype=np.int64)
    counts[0, [0, 1, 7]] = 6, 2, 1
    counts[1, 1] = 2
    counts[5, 8] = 1
    precision = metrics.classification_precision_per_class(counts)
    np.testing.assert_allclose(precision.value, [1, 1 / 2, *[np.nan] * 5])
    assert precision.n.tolist() == [6, 4, 0, 0, 0, 0, 0]
    assert precision.n_left_out.tolist() == [1] * 7
    assert [float(number) for number in metrics.balanced_accuracy(counts)] == pytest.approx([7 / 8, 2, 5])
    assert [float(number) for number in metrics.alignment_accuracy(counts)] == pytest.approx([8 / 11, 11, 1])
    assert float(metrics.accuracy(counts).value) == pytest.approx(8 / 10)
    assert np.isnan(metrics.balanced_accuracy(np.zeros((9, 9))).value)


def test_the_interval_of_balanced_accuracy_is_newcombes(monkeypatch: pytest.MonkeyPatch) -> None:
    """p1 + p2 is p1 - (1 - p2) + 1, and of a difference of shares statsmodels knows the same interval.

    Without resamples, as in large studies, the intervals that are joined are Wilson's of the images.
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    class Two(MadeUpImages):
        def __init__(self) -> None:
            super().__init__("gender")
            self.images = self.images.head(13).assign(t2i_model="alpha", prompt_id="a")
            self.label = np.array(["male"] * 10 + ["female"] * 3)
            self.verdict = np.array(["male"] * 8 + ["female"] * 5)

        def predictions(self) -> dict[str, pa.Table]:
            columns = {"image_id": self.images["image_id"], "label": self.verdict}
            words = {"detector": "net", "attribute": "gender", "status": "clear"}
            return {"net": pa.table(columns | {name: [word] * 13 for name, word in words.items()})}

    monkeypatch.setattr("detector_bench.evaluation.intervals._LARGE", 10)
    images = Two()
    found = values_of(evaluate_with_confusion(images, images.predictions(), intervals=Intervals()), detector="net")
    row = found.loc["balanced_accuracy"]
    assert row["value"] == pytest.approx((8 / 10 + 1) / 2)
    expected = confint_proportions_2indep(8, 10, 0, 3, method="newcomb", compare="diff")
    assert (row["ci_low"], row["ci_high"]) == pytest.approx([(limit + 1) / 2 for limit in expected])
