"""What `evaluate` says about predictions that it cannot use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from detector_bench.errors import ConfigError, DataError, IncompletePredictionsError
from detector_bench.evaluation import evaluate

IDS = ["a", "b", "c"]


def image_set(labels: list[str | None] | None = None, prompt: str = "nurse") -> Any:
    images = pd.DataFrame({"image_id": IDS, "t2i_model": "alpha", "prompt_id": prompt})
    chosen = ["male", "female", None] if labels is None else labels
    truth = pd.DataFrame({"image_id": IDS, "label": pd.array(chosen, dtype="str"), "reason": ""})
    prompts = pd.DataFrame({"prompt_id": ["nurse"], "category": ["job"]})
    return SimpleNamespace(images=images, prompts=prompts, attributes=("gender",), truth=lambda attribute: truth)


def table(*rows: tuple[str, str, str | None]) -> pa.Table:
    """Predictions of image, status and label."""
    columns = {
        name: pa.array(list(values), pa.string())
        for name, values in zip(("image_id", "status", "label"), zip(*rows, strict=True), strict=True)
    }
    return pa.table(columns | {"attribute": ["gender"] * len(rows)})


GOOD = (("a", "clear", "male"), ("b", "filtered", None), ("c", "error", None))


def test_good_predictions_pass() -> None:
    assert not evaluate(image_set(), {"net": table(*GOOD)}).empty


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*GOOD, ("ghost", "clear", "male")],
            "predictions of net, column image_id: not an image of the set: 'ghost' (accepted: an image_id of the"
            " image set)",
        ),
        (
            [*GOOD, ("a", "clear", "female")],
            "predictions of net, column image_id: predicted more than once for gender: 'a' (accepted: one row per"
            " image and attribute; an interrupted run leaves more, run `detector-bench run` again)",
        ),
        (
            [*GOOD[:2], ("c", "unsure", "male")],
            "predictions of net, column status: image 'c': unknown status: 'unsure'"
            " (accepted: clear, filtered, error)",
        ),
        (
            [("a", "clear", None), *GOOD[1:]],
            "predictions of net, column label: image 'a': a clear image needs a class of gender: '(empty)'"
            " (accepted: male, female)",
        ),
        (
            [("a", "clear", "man"), *GOOD[1:]],
            "predictions of net, column label: image 'a': a clear image needs a class of gender: 'man'"
            " (accepted: male, female)",
        ),
        (
            [("a", "clear", "low_quality"), *GOOD[1:]],
            "predictions of net, column label: image 'a': a clear image needs a class of gender: 'low_quality'"
            " (accepted: male, female)",
        ),
    ],
)
def test_bad_rows(rows: list[tuple[str, str, str | None]], message: str) -> None:
    with pytest.raises(DataError) as caught:
        evaluate(image_set(), {"net": table(*rows)}, allow_incomplete=True)
    assert str(caught.value) == f"1 mistake in the data files:\n  {message}"


def test_all_mistakes_of_all_detectors_come_at_once() -> None:
    bad = table(("a", "clear", "man"), ("b", "what", None), ("x", "error", None))
    worse = table(*GOOD, ("y", "error", None))
    with pytest.raises(DataError) as caught:
        evaluate(image_set(), {"bad": bad, "good": table(*GOOD), "worse": worse})
    assert [(problem.file, problem.value) for problem in caught.value.problems] == [
        ("predictions of bad", "x"),
        ("predictions of bad", "what"),
        ("predictions of bad", "man"),
        ("predictions of worse", "y"),
    ]


def test_a_mistake_in_every_row_is_listed_twenty_times_then_counted() -> None:
    rows = [(f"ghost {number}", "error", None) for number in range(1, 1234)]
    with pytest.raises(DataError) as caught:
        evaluate(image_set(), {"net": table(*rows)})
    assert len(caught.value.problems) == 21
    assert caught.value.problems[0].value == "ghost 1"
    assert caught.value.problems[-1].message == "... and 1,213 more of this kind (not an image of the set)"


def test_images_without_a_prediction() -> None:
    predictions = {"half": table(GOOD[0]), "whole": table(*GOOD), "late": table(GOOD[2])}
    with pytest.raises(IncompletePredictionsError) as caught:
        evaluate(image_set(), predictions)
    assert str(caught.value) == (
        "the predictions of gender do not cover the image set:\n"
        "  half: 2 of 3 images without a prediction, the first is 'b'\n"
        "  late: 2 of 3 images without a prediction, the first is 'a'\n"
        "run `detector-bench run` again: it judges only what is missing; or leave these images out of the numbers"
        " with --allow-incomplete"
    )


def test_an_unlabelled_image_needs_a_prediction_too() -> None:
    with pytest.raises(
        IncompletePredictionsError, match="net: 1 of 3 images without a prediction, the first is 'c'"
    ):
        evaluate(image_set(), {"net": table(*GOOD[:2])})
    metrics = evaluate(image_set(), {"net": table(*GOOD[:2])}, allow_incomplete=True)
    everywhere = (metrics["variant"] == "detector_only") & (metrics[["t2i_model", "category"]] == "all").all(
        axis=1
    )
    rows = metrics[everywhere].set_index("metric")
    assert rows.loc[["images", "images_not_run", "images_clear"], "value"].tolist() == [3, 1, 1]
    assert rows.loc["label_share_male", ["value", "n", "n_left_out"]].tolist() == [0.5, 2, 1]


def test_a_detector_without_any_row_is_incomplete() -> None:
    empty = table(*GOOD).slice(0, 0)
    with pytest.raises(IncompletePredictionsError, match="net: 3 of 3 images"):
        evaluate(image_set(), {"net": empty})


def test_a_detector_of_another_attribute_is_not_evaluated() -> None:
    other = table(*GOOD).set_column(3, "attribute", pa.array(["age"] * 3))
    assert set(evaluate(image_set(), {"ages": other, "net": table(*GOOD)})["detector"]) == {"ground_truth", "net"}


def test_attribute_without_labels() -> None:
    with pytest.raises(ConfigError, match=r"nothing to evaluate of 'age': .* \(labelled: gender\)"):
        evaluate(image_set(), {}, attributes=["age"])


def test_unknown_attribute() -> None:
    with pytest.raises(ConfigError, match="unknown attribute 'gendre': did you mean 'gender'"):
        evaluate(image_set(), {}, attributes=["gendre"])


@pytest.mark.parametrize("name", ["ground_truth", "all"])
def test_reserved_detector_names(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no detector may be called '{name}'"):
        evaluate(image_set(), {name: table(*GOOD)})


def test_unknown_n_clear() -> None:
    with pytest.raises(ConfigError, match=r"n_clear: 'both' \(accepted: detector, human\)"):
        evaluate(image_set(), {}, n_clear="both")  # type: ignore[arg-type]


def test_human_label_outside_the_vocabulary() -> None:
    with pytest.raises(
        DataError, match=r"image 'b': unknown gender label: 'woman'.*male, female, low_quality, others"
    ):
        evaluate(image_set(["male", "woman", None]), {})


def test_image_of_an_unknown_prompt() -> None:
    with pytest.raises(DataError, match="3 images without a known prompt or a T2I model, the first is: 'a'"):
        evaluate(image_set(prompt="plumber"), {})


def test_labels_in_another_order_are_a_programming_error() -> None:
    mixed = image_set()
    shuffled = mixed.truth("gender").iloc[::-1]
    mixed.truth = lambda attribute: shuffled
    with pytest.raises(ValueError, match="not in the order of the images"):
        evaluate(mixed, {})
