"""Images without labels are images: what detectors say about all of them, and what rests on the labelled ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import biaspainter_parts
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from imagebite_parts import expected, stated, written
from small_parts import write_csv, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.evaluation import Intervals, evaluate
from detector_bench.others.study_scores import ScoredStudy, score_system_named
from detector_bench.study import Results
from detector_bench.vocabulary import GROUND_TRUTH
from detector_bench.vocabulary.columns import (
    DETECTOR_ONLY,
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    PREDICTIONS,
    PROMPT_COLUMNS,
)

COUNT = 12
PLACE = ["detector", "attribute", "t2i_model", "category", "prompt_id", "metric"]
NUMBERS = ["value", "ci_low", "ci_high", "n", "n_left_out"]
ALONE = [
    *("images", "images_clear", "images_filtered", "images_error", "images_not_run"),
    *("model_bias_score", "model_bias_score_corrected", "model_bias_score_if_fair", "prompt_bias_score"),
]

Command = Callable[..., tuple[int, str, str]]


def images_of(
    folder: Path, *, t2i_models: int = 2, prompts: int = 6, each: int = 10
) -> tuple[ImageSet, dict[str, pa.Table]]:
    """An image set with a label of every image, and two detectors that have a verdict on each."""
    random = np.random.default_rng(4)
    cells = [(model, prompt) for model in range(t2i_models) for prompt in range(prompts) for _ in range(each)]
    ids = [f"i{number:03d}" for number in range(len(cells))]
    truth = random.choice(["male", "female", "low_quality"], p=[0.5, 0.35, 0.15], size=len(ids))
    places = zip(ids, cells, strict=True)
    images = [(image, f"{image}.png", f"m{model}", f"p{prompt}") for image, (model, prompt) in places]
    write_csv(folder / "images.csv", IMAGE_COLUMNS, images)
    words = [(f"p{prompt}", f"c{prompt % 2}", f"word {prompt}", "") for prompt in range(prompts)]
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, words)
    labels = [(image, "a", "gender", label, "") for image, label in zip(ids, truth, strict=True)]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)
    predictions = {}
    for name, right in (("good", 0.9), ("bad", 0.5)):
        said = np.where(random.random(len(ids)) < right, truth, random.choice(["male", "female"], size=len(ids)))
        rows = [
            {
                **dict.fromkeys(PREDICTIONS.names),
                "image_id": image,
                "detector": name,
                "attribute": "gender",
                "status": "filtered" if word == "low_quality" else "clear",
                "label": None if word == "low_quality" else word,
            }
            for image, word in zip(ids, said, strict=True)
        ]
        predictions[name] = pa.Table.from_pylist(rows, schema=PREDICTIONS)
    return ImageSet.load(folder), predictions


def with_labels(image_set: ImageSet, kept: np.ndarray) -> ImageSet:
    """The same images with some of the labels."""
    return replace(image_set, labels=image_set.labels[kept].reset_index(drop=True), _image_of_label=None)


def by_place(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.astype(dict.fromkeys(PLACE, str)).set_index(PLACE)[NUMBERS].sort_index()


@pytest.mark.parametrize("share", [0.0, 0.25])
@pytest.mark.parametrize("settings", [{}, {"method": "percentile"}, {"unit": "prompt"}, {"prompts": True}])
def test_detectors_report_over_all_images_what_they_would_with_all_labels(
    tmp_path: Path, share: float, settings: dict[str, object]
) -> None:
    image_set, predictions = images_of(tmp_path)
    intervals = Intervals(resamples=400, **settings)
    whole = evaluate(image_set, predictions, intervals=intervals)
    assert whole["variant"].isna().all()
    kept = np.arange(len(image_set.labels)) < share * len(image_set.labels)
    found = evaluate(with_labels(image_set, kept), predictions, intervals=intervals)
    alone = found[found["variant"] == DETECTOR_ONLY]
    plain = whole[(whole["detector"] != GROUND_TRUTH) & whole["metric"].isin(ALONE)]
    common = by_place(alone[alone["metric"].isin(ALONE)])
    pd.testing.assert_frame_equal(common, by_place(plain), rtol=1e-9)
    # Where there are no labels there is no truth, and nothing is compared.
    rest = found[found["variant"].isna()]
    unlabelled = rest[rest["metric"] == "images_unlabelled"].iloc[0]
    assert unlabelled["value"] == (~kept).sum()
    assert (set(rest["detector"]) == {GROUND_TRUTH}) == (share == 0)
    assert (set(rest["metric"]) == {"images", "images_unlabelled"}) == (share == 0)
    shares = alone[(alone["detector"] == "good") & (alone["metric"] == "label_share_female")].iloc[0]
    verdicts = predictions["good"].to_pandas()
    assert shares["value"] == pytest.approx((verdicts["label"] == "female").mean())
    assert (shares["n"], shares["n_left_out"]) == (len(verdicts), 0)
    if settings != {"unit": "prompt"}:
        assert shares["ci_low"] < shares["value"] < shares["ci_high"] or settings == {"method": "percentile"}


def test_what_is_compared_rests_on_the_labelled_images_alone(tmp_path: Path) -> None:
    image_set, predictions = images_of(tmp_path)
    kept = np.arange(len(image_set.labels)) % 3 == 0
    partly = evaluate(with_labels(image_set, kept), predictions)
    ids = image_set.labels.loc[kept, "image_id"]
    only = replace(
        with_labels(image_set, kept),
        images=image_set.images[image_set.images["image_id"].isin(ids)].reset_index(drop=True),
    )
    fewer = {
        name: table.filter(pc.is_in(table["image_id"], pa.array(ids.tolist(), pa.string())))
        for name, table in predictions.items()
    }
    reduced = evaluate(only, fewer)
    counts = ["images_unlabelled"]
    plain = partly[partly["variant"].isna() & ~partly["metric"].isin(counts)]
    ours, theirs = by_place(plain), by_place(reduced[~reduced["metric"].isin(counts)])
    pd.testing.assert_frame_equal(ours.drop(columns="n_left_out"), theirs.drop(columns="n_left_out"))


@pytest.mark.slow
def test_score_systems_compare_on_labelled_images_and_let_detectors_speak_about_all(tmp_path: Path) -> None:
    image_set = ImageSet.load(biaspainter_parts.write_image_set(tmp_path))
    predictions = {"d": biaspainter_parts.predictions()}
    parity = stated(
        "gender", expected("man", 0.5, 0.15), expected("woman", 0.5, 0.15), threshold=0.7, name="parity"
    )
    systems = [
        score_system_named(name).model_validate({"system": name, **settings})
        for name, settings in (
            ("biaspainter", {}),
            ("bigbench", {"references": "equal", "attribute_weights": {"gender": 1}}),
            ("imagebite", {"requirements": written(tmp_path, parity)}),
        )
    ]
    hidden = ["A_nurse_s1", "A_pilot_s3", "B_nurse_s0"]
    has_label = ~image_set.labels["image_id"].isin(hidden).to_numpy()
    partly = with_labels(image_set, has_label)
    only = replace(
        partly, images=image_set.images[~image_set.images["image_id"].isin(hidden)].reset_index(drop=True)
    )
    table = predictions["d"]
    fewer = {"d": table.filter(pa.array([each not in hidden for each in table["image_id"].to_pylist()]))}
    none = with_labels(image_set, np.zeros(len(image_set.labels), dtype=bool))

    def rows(images: ImageSet, said: dict[str, pa.Table]) -> ScoredStudy:
        scored = ScoredStudy.of(systems, images, said, Intervals(method="none"))
        estimated = scored.metrics["variant"].str.endswith(("prediction_powered", "labels_only"))
        return replace(scored, metrics=scored.metrics[~estimated].reset_index(drop=True))

    found, of_all, without = rows(partly, predictions), rows(image_set, predictions), rows(none, predictions)
    alone = found.metrics["variant"].str.endswith(f", {DETECTOR_ONLY}")
    key = [*PLACE, "variant"]

    def placed(metrics: pd.DataFrame) -> pd.DataFrame:
        return metrics.set_index(key)[["value", "n", "n_left_out"]].sort_index()

    gender = found.metrics["attribute"] == "gender"
    reduced = rows(only, fewer).metrics
    pd.testing.assert_frame_equal(
        placed(found.metrics[~alone & gender]), placed(reduced[reduced["attribute"] == "gender"])
    )
    pd.testing.assert_frame_equal(placed(found.metrics[alone]), placed(without.metrics))
    assert set(without.metrics["detector"]) == {"d"}
    compares = of_all.metrics["metric"].str.contains("deviation|difference|agreement")
    by_detector = of_all.metrics[(of_all.metrics["detector"] == "d") & ~compares]
    said = without.metrics.assign(variant=without.metrics["variant"].str.removesuffix(f", {DETECTOR_ONLY}"))
    pd.testing.assert_frame_equal(placed(said), placed(by_detector))
    assert set(found.files) == {"imagebite_verdicts.csv", "imagebite_verdicts_detector_only.csv"}
    assert set(without.files) == {"imagebite_verdicts_detector_only.csv"}
    assert not of_all.metrics["variant"].str.contains(DETECTOR_ONLY).any()


@pytest.mark.slow
def test_from_a_folder_of_images_to_numbers_by_labels_that_come_later(command: Command, tmp_path: Path) -> None:
    made = write_image_set(tmp_path / "made", COUNT)
    labels = pd.read_csv(made / "labels.csv")
    for number in range(COUNT):
        place = tmp_path / "tree" / f"m{number % 2}" / f"p{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / "images" / f"image_{number:03d}.png", place / f"image_{number:03d}.png")
    images, out = tmp_path / "images", tmp_path / "out"
    assert command("import", tmp_path / "tree", images)[0] == 0
    assert not (images / "labels.csv").exists()
    status, said, _ = command("check", images)
    assert (status, "no image has a label yet" in said) == (0, True)
    study = tmp_path / "study.yaml"
    study.write_text("image_set: images\ndetectors: [test-colour, test-brightness]\n")
    status, said, warned = command("run", study, "--out", out, "--no-cache")
    assert status == 0, warned
    assert "no image of gender has a label" in warned
    assert "as each detector reports them, over all images" in said
    assert "Accuracy" not in said
    assert Results.open(out).number("images").value == 0
    score = Results.open(out).number("model_bias_score", detector="test-colour", variant=DETECTOR_ONLY)
    assert score.value >= 0
    assert Results.open(out).number("model_bias_score", detector="test-colour").missing
    for name, *more in (
        ("rank",),
        ("causes",),
        ("agreement",),
        ("compare", "test-colour"),
        ("sweep", "--detector", "test-colour"),
    ):
        status, said, warned = command(name, out, *more)
        assert (status, warned.count("\n")) == (1, 1), (name, warned)
        assert "no image of gender has a label" in warned
    status, said, warned = command("figures", out, "--format", "svg", "--width", "single")
    assert (status, (out / "figures" / "model_bias_scores_single.svg").is_file()) == (0, True)
    assert not (out / "figures" / "confusion_single.svg").exists()
    assert command("report", out, "--without-figures", "--images", "none")[0] == 0
    page = (out / "report" / "index.html").read_text()
    assert "No image of gender has a label" in page
    assert "detectors by themselves report model bias scores" in page

    ids = pd.read_csv(images / "images.csv")["image_id"]
    some = labels.iloc[:7].copy()
    some["image_id"] = [next(each for each in ids if each.endswith(name)) for name in some["image_id"]]
    some.to_csv(tmp_path / "some.csv", index=False)
    assert command("labels", "import", tmp_path / "some.csv", images)[0] == 0
    assert command("labels", "export", images, "--out", images)[0] == 0
    assert command("evaluate", out)[0] == 0
    metrics = pd.read_csv(out / "metrics.csv", keep_default_na=False)
    whole = (metrics[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)
    counted = (
        metrics[whole & (metrics["metric"] == "images")].set_index(["detector", "variant"])["value"].astype(float)
    )
    assert counted[GROUND_TRUTH, ""] == 7
    assert counted["test-colour", ""] == 7
    assert counted["test-colour", DETECTOR_ONLY] == COUNT
    table = (out / "tables" / "filtering_and_accuracy.md").read_text()
    assert "Over the 7 of 12 images that have a human label of gender (m0 4 of 6, m1 3 of 6)." in table
    assert json.loads((out / "results.json").read_text())["image_set"]["images"] == COUNT
