"""Ages in years and other measured values against the humans': errors, their intervals, and their table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench.dataset import ImageSet
from detector_bench.evaluation import Intervals, evaluate, read_predictions
from detector_bench.metrics import Scopes
from detector_bench.metrics.measured_values import ErrorSums, error_of_drawn_images, error_of_drawn_prompts
from detector_bench.tables import study_tables
from detector_bench.tables.metric_tables import measured_values
from detector_bench.vocabulary.columns import PREDICTIONS

# What tests of other files left open is collected at any moment, and says nothing about numbers.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

NAN = math.nan
# image, T2I model, prompt, the human's age, the detector's age
IMAGES = [
    ("i1", "alpha", "nurse", 30, 31),
    ("i2", "alpha", "nurse", 40, 43),
    ("i3", "alpha", "driver", 50, 44),
    ("i4", "alpha", "driver", 20, 18),
    ("i5", "alpha", "driver", 20, NAN),  # filtered
    ("i6", "beta", "driver", 60, 65),
    ("i7", "beta", "driver", NAN, 30),  # without a human's age
    ("s1", "", "", 25, 90),  # a photo that was only edited
]


@dataclass
class MeasuredSet:
    """Image set whose labels hold values."""

    rows: list[tuple[str, str, str, float, float]]
    attribute: str = "age"
    attributes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.attributes = (self.attribute,)
        ids, t2i_models, prompts, self.human, self.found = (list(each) for each in zip(*self.rows, strict=True))
        self.images = pd.DataFrame({"image_id": ids, "t2i_model": t2i_models, "prompt_id": prompts})
        self.prompts = pd.DataFrame({"prompt_id": ["nurse", "driver"], "category": ["job", "place"]})

    def truth(self, attribute: str) -> pd.DataFrame:
        label = {"age": "young", "skin_tone": "monk_03", "gender": "male"}[attribute]
        return pd.DataFrame({"image_id": self.images["image_id"], "label": label})

    def measured(self, attribute: str) -> pd.DataFrame:
        assert attribute == self.attribute
        return pd.DataFrame({"image_id": self.images["image_id"], "value": np.array(self.human, dtype=float)})

    def predictions(self, values: list[float] | None = None) -> pa.Table:
        label = self.truth(self.attribute)["label"].iloc[0]
        rows = []
        for image, value in zip(self.images["image_id"], values or self.found, strict=True):
            row = dict.fromkeys(PREDICTIONS.names) | {"image_id": image, "detector": "net"}
            row |= {"attribute": self.attribute, "status": "clear", "label": label, "value": value}
            if math.isnan(value):
                row |= {"status": "filtered", "label": None, "value": None}
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=PREDICTIONS)


@pytest.fixture
def image_set() -> MeasuredSet:
    return MeasuredSet(IMAGES)


def numbers(table: pd.DataFrame, metric: str, **place: str) -> tuple[float, float, float]:
    """value, n and n_left_out; the whole study unless told."""
    place = {"detector": "net", "t2i_model": "all", "category": "all", "prompt_id": "all"} | place
    for column, word in place.items():
        table = table[table[column] == word]
    found = table[table["metric"] == metric]
    assert len(found) == 1
    return tuple(found[["value", "n", "n_left_out"]].iloc[0])


def limits(table: pd.DataFrame, metric: str, **place: str) -> tuple[float, float]:
    for column in ("t2i_model", "category", "prompt_id"):
        table = table[table[column] == place.get(column, "all")]
    return tuple(table[(table["metric"] == metric) & (table["detector"] == "net")][["ci_low", "ci_high"]].iloc[0])


def about(*expected: float) -> object:
    return pytest.approx(expected, nan_ok=True)


def test_errors_by_hand(image_set: MeasuredSet) -> None:
    """Errors: nurse 1 and 3; alpha's driver -6 and -2, one without a value; beta's driver 5."""
    table = evaluate(image_set, {"net": image_set.predictions()})
    assert numbers(table, "mean_absolute_error") == about(17 / 5, 5, 1)
    assert numbers(table, "mean_error") == about(1 / 5, 5, 1)
    # 5 years are near enough, 6 are not.
    assert numbers(table, "cumulative_score_5") == about(4 / 5, 5, 1)
    assert numbers(table, "mean_error", t2i_model="alpha") == about(-1, 4, 1)
    assert numbers(table, "mean_absolute_error", category="job") == about(2, 2, 0)
    assert numbers(table, "mean_absolute_error", t2i_model="beta", category="place") == about(5, 1, 0)
    driver = {"t2i_model": "alpha", "category": "place", "prompt_id": "driver"}
    assert numbers(table, "mean_absolute_error", **driver) == about(4, 2, 1)
    assert numbers(table, "mean_error", **driver) == about(-4, 2, 1)
    assert numbers(table, "cumulative_score_5", **driver) == about(1 / 2, 2, 1)
    assert not ((table["detector"] == "ground_truth") & (table["metric"] == "mean_error")).any()


def test_metrics_of_one_place_stay_together(image_set: MeasuredSet) -> None:
    table = evaluate(image_set, {"net": image_set.predictions(), "other": image_set.predictions()})
    places = table[["t2i_model", "category", "prompt_id", "detector"]].astype(str).agg("/".join, axis=1)
    assert (places != places.shift()).sum() == places.nunique()


@pytest.mark.parametrize("lacking", ["value", "rows"])
def test_a_detector_without_values_leaves_all_images_out(image_set: MeasuredSet, lacking: str) -> None:
    predictions = image_set.predictions()
    nothing = predictions.drop_columns(["value"]) if lacking == "value" else image_set.predictions([NAN] * 8)
    table = evaluate(image_set, {"net": nothing})
    for metric in ("mean_absolute_error", "mean_error", "cumulative_score_5"):
        assert numbers(table, metric) == about(NAN, 0, 6)


def test_a_value_that_is_no_number_is_none(image_set: MeasuredSet) -> None:
    values = [*image_set.found]
    values[0] = math.inf
    assert numbers(evaluate(image_set, {"net": image_set.predictions(values)}), "mean_error") == about(0, 4, 2)


def test_without_values_by_humans_there_are_no_rows(image_set: MeasuredSet) -> None:
    predictions = {"net": image_set.predictions()}
    image_set.human = [NAN] * len(IMAGES)
    assert "mean_error" not in set(evaluate(image_set, predictions)["metric"])


def test_values_of_an_attribute_without_a_unit_are_not_asked_for() -> None:
    image_set = MeasuredSet(IMAGES, attribute="gender")
    assert "mean_error" not in set(evaluate(image_set, {"net": image_set.predictions()})["metric"])


def test_only_ages_have_a_cumulative_score_in_years() -> None:
    image_set = MeasuredSet(IMAGES, attribute="skin_tone")
    table = evaluate(image_set, {"net": image_set.predictions()})
    assert numbers(table, "mean_absolute_error") == about(17 / 5, 5, 1)
    assert "cumulative_score_5" not in set(table["metric"])


def test_the_order_of_predictions_does_not_matter(image_set: MeasuredSet) -> None:
    predictions = image_set.predictions()
    shuffled = predictions.take([7, 3, 0, 6, 2, 5, 1, 4])
    pd.testing.assert_frame_equal(
        evaluate(image_set, {"net": predictions}), evaluate(image_set, {"net": shuffled})
    )


def test_no_detector(image_set: MeasuredSet) -> None:
    assert set(evaluate(image_set, {}, intervals=Intervals())["detector"]) == {"ground_truth"}


class TestIntervals:
    def test_of_drawn_images_by_hand(self, image_set: MeasuredSet) -> None:
        """Alpha: within nurse (1, 3) 2, within driver (-6, -2) 8; 4 images of 2 pairs: 10 / (4 x 2), 2 degrees."""
        table = evaluate(image_set, {"net": image_set.predictions()}, intervals=Intervals(resamples=100))
        half = 4.302653 * math.sqrt(10 / 8)
        assert limits(table, "mean_error", t2i_model="alpha") == about(-1 - half, -1 + half)
        # Sizes 1, 3 and 6, 2: the same; an error's size cannot be negative.
        assert limits(table, "mean_absolute_error", t2i_model="alpha") == about(0, 3 + half)
        # One image says nothing; a share has Wilson's interval.
        assert limits(table, "mean_error", t2i_model="beta") == about(NAN, NAN)
        low, high = limits(table, "cumulative_score_5", t2i_model="alpha")
        z = 1.959964
        assert low == pytest.approx((3 / 4 + z * z / 8 - z * math.sqrt(3 / 64 + z * z / 64)) / (1 + z * z / 4))
        assert high == pytest.approx((3 / 4 + z * z / 8 + z * math.sqrt(3 / 64 + z * z / 64)) / (1 + z * z / 4))
        nurse = {"t2i_model": "alpha", "category": "job", "prompt_id": "nurse"}
        assert limits(table, "mean_error", **nurse) == about(NAN, NAN)

    def test_of_single_prompts(self, image_set: MeasuredSet) -> None:
        settings = Intervals(resamples=100, prompts=True)
        table = evaluate(image_set, {"net": image_set.predictions()}, intervals=settings)
        nurse = {"t2i_model": "alpha", "category": "job", "prompt_id": "nurse"}
        # 1 and 3: standard error 1, one degree of freedom.
        assert limits(table, "mean_error", **nurse) == about(2 - 12.706205, 2 + 12.706205)
        assert limits(table, "cumulative_score_5", **nurse)[1] == 1

    def test_none_if_none_are_wanted_or_nothing_varies(self, image_set: MeasuredSet) -> None:
        table = evaluate(image_set, {"net": image_set.predictions()}, intervals=Intervals(method="none"))
        assert limits(table, "mean_error") == about(NAN, NAN)
        always = [human + 0.1 for human in image_set.human]
        for unit in ("image", "prompt"):
            settings = Intervals(unit=unit, resamples=100)
            table = evaluate(image_set, {"net": image_set.predictions(always)}, intervals=settings)
            assert limits(table, "mean_error") == about(NAN, NAN)
            # No error beyond five years in six images, by Wilson.
            assert limits(table, "cumulative_score_5") == about(6 / (6 + 1.959964**2), 1)

    def test_the_level_is_kept(self, image_set: MeasuredSet) -> None:
        settings = Intervals(resamples=100, level=0.9)
        table = evaluate(image_set, {"net": image_set.predictions()}, intervals=settings)
        half = 2.919986 * math.sqrt(10 / 8)
        assert limits(table, "mean_error", t2i_model="alpha") == about(-1 - half, -1 + half)


def made_up_sums(random: np.random.Generator) -> tuple[list[list[np.ndarray]], np.ndarray, np.ndarray, np.ndarray]:
    """Errors of 2 T2I models on 12 prompts, and their sums `[t2i_model, prompt]`."""
    errors = [
        [random.normal(random.normal(0, 3), 4, size=random.integers(2, 9)) for _ in range(12)] for _ in range(2)
    ]
    total = np.array([[each.sum() for each in model] for model in errors])
    squares = np.array([[(each**2).sum() for each in model] for model in errors])
    return errors, total, squares, np.array([[each.size for each in model] for model in errors])


class TestStandardErrors:
    """Against plainly drawn images and prompts."""

    scopes = Scopes.of_prompts(["a", "b", "a", "b"] * 3)

    def test_of_drawn_images(self) -> None:
        random = np.random.default_rng(3)
        errors, total, squares, n = made_up_sums(random)
        found = error_of_drawn_images(total, squares, n, scopes=self.scopes)
        every = [each for model in errors for each in model]
        drawn = sum(random.choice(each, size=(4000, each.size)).sum(axis=1) for each in every) / n.sum()
        stretch = math.sqrt(n.sum() / (n.sum() - n.size))
        assert found.size[0, 0] == pytest.approx(np.std(drawn) * stretch, rel=0.06)
        assert found.degrees[0, 0] == n.sum() - 24
        # A T2I model and category of its own.
        one = [errors[1][place] for place in (1, 3, 5, 7, 9, 11)]
        within = sum(((each - each.mean()) ** 2).sum() for each in one)
        images = sum(each.size for each in one)
        assert found.size[2, 2] == pytest.approx(math.sqrt(within / (images * (images - 6))))

    def test_of_drawn_prompts(self) -> None:
        random = np.random.default_rng(4)
        _, total, _, n = made_up_sums(random)
        found = error_of_drawn_prompts(total, n, scopes=self.scopes)
        members = [np.arange(0, 12, 2), np.arange(1, 12, 2)]
        for (model, category), models, categories in (
            ((0, 0), [0, 1], members),
            ((2, 0), [1], members),
            ((0, 2), [0, 1], members[1:]),
        ):
            prompts = np.concatenate([random.choice(each, size=(4000, 6)) for each in categories], axis=1)
            sums = [each[models][:, prompts].sum(axis=(0, 2)) for each in (total, n)]
            drawn = sums[0] / sums[1]
            asked = 6 * len(categories)
            expected = np.std(drawn) * math.sqrt(asked / (asked - len(categories)))
            assert found.size[model, category] == pytest.approx(expected, rel=0.06)
            assert found.degrees[model, category] == asked - len(categories)

    def test_prompts_without_a_value_take_no_part(self) -> None:
        random = np.random.default_rng(5)
        _, total, _, n = made_up_sums(random)
        empty = (
            np.concatenate([total, np.zeros((2, 2))], axis=1),
            np.concatenate([n, np.zeros((2, 2), int)], axis=1),
        )
        scopes = Scopes.of_prompts(["a", "b", "a", "b"] * 3 + ["a", "b"])
        for found, expected in zip(
            error_of_drawn_prompts(*empty, scopes=scopes),
            error_of_drawn_prompts(total, n, scopes=self.scopes),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected)

    def test_sums_of_scopes_add_up(self) -> None:
        sums = ErrorSums(*(np.arange(24.0).reshape(2, 12) for _ in range(6))).pooled(self.scopes)
        assert sums.n.shape == (3, 3)
        assert sums.errors[0, 0] == 276
        assert sums.squares[2, 1] == 12 + 14 + 16 + 18 + 20 + 22


class TestTable:
    def test_best_values_and_what_is_left_out(self, image_set: MeasuredSet) -> None:
        values = [human + 2 for human in image_set.human]
        predictions = {"net": image_set.predictions(), "high": image_set.predictions(values)}
        table = measured_values(evaluate(image_set, predictions), attribute="age")
        assert [column.key for column in table.columns[1:]] == [
            "mean_absolute_error",
            "mean_error",
            "cumulative_score_5",
        ]
        assert table.columns[1].full_heading == "Mean absolute error (years)"
        assert [[(cell.text, cell.bold) for cell in row.cells] for row in table.rows] == [
            [("net", False), ("3.40", False), ("0.20", True), ("80.00", False)],
            [("high", False), ("2.00", True), ("2.00", False), ("100.00", True)],
        ]
        assert table.rows[0].notes == ("images without the detector's value: 1 of 6",)
        assert table.rows[1].notes == ()

    def test_with_intervals(self, image_set: MeasuredSet) -> None:
        metrics = evaluate(image_set, {"net": image_set.predictions()}, intervals=Intervals(resamples=100))
        table = measured_values(metrics, attribute="age", intervals=True)
        assert table.rows[0].cells[2].written().startswith("0.20 [")
        assert len(table.rows[0].cells[2].interval_text.split(".")[1].split(",")[0]) == 2

    def test_a_dash_says_why(self, image_set: MeasuredSet) -> None:
        table = measured_values(evaluate(image_set, {"net": image_set.predictions([NAN] * 8)}), attribute="age")
        assert [cell.text for cell in table.rows[0].cells] == ["net", "-", "-", "-"]
        assert table.rows[0].notes[0] == "-: no image has a value by both the humans and the detector"

    def test_stands_among_a_studys_tables_where_there_are_values(self, image_set: MeasuredSet) -> None:
        predictions = {"net": image_set.predictions()}
        assert "measured_values" in study_tables(evaluate(image_set, predictions), attributes=["age"])
        image_set.human = [NAN] * len(IMAGES)
        assert "measured_values" not in study_tables(evaluate(image_set, predictions), attributes=["age"])


def test_from_files(tmp_path: Path) -> None:
    """An image set on disk: two annotators' ages are averaged, a photo that was only edited does not count."""
    (tmp_path / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id,seed_image_id\n"
        "i1,1.png,alpha,nurse,\ni2,2.png,alpha,nurse,\ns1,3.png,,,\ne1,4.png,alpha,nurse,s1\n"
    )
    (tmp_path / "prompts.csv").write_text("prompt_id,category,word,prompt\nnurse,job,nurse,a nurse\n")
    (tmp_path / "labels.csv").write_text(
        "image_id,annotator,attribute,label,reason,value\n"
        "i1,a,age,young,,20\ni1,b,age,young,,24\ni2,a,age,young,,25\ns1,a,age,young,,29\ne1,a,age,young,,\n"
    )
    rows = [("i1", 25.0), ("i2", 24.0), ("s1", 99.0), ("e1", 50.0)]
    columns = {"image_id": [image for image, _ in rows], "value": [value for _, value in rows]}
    words = {"detector": "net", "attribute": "age", "status": "clear", "label": "young"}
    (tmp_path / "predictions" / "net").mkdir(parents=True)
    pq.write_table(
        pa.table(columns | {name: [word] * 4 for name, word in words.items()}),
        tmp_path / "predictions" / "net" / "a.parquet",
    )
    image_set = ImageSet.load(tmp_path)
    table = evaluate(image_set, read_predictions(tmp_path / "predictions", also=["value"]))
    # i1: 25 - 22; i2: 24 - 25.
    assert numbers(table, "mean_error") == about(1, 2, 0)
    assert numbers(table, "mean_absolute_error", t2i_model="alpha", category="job", prompt_id="nurse") == about(
        2, 2, 0
    )
    not_read = evaluate(image_set, read_predictions(tmp_path / "predictions"))
    assert numbers(not_read, "mean_error") == about(NAN, 0, 2)
