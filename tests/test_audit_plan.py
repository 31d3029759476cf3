"""Plans of labels: forecasts that come true, guesses that say so, targets that no number of labels reaches."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_study import write_study

from detector_bench.errors import ConfigError
from detector_bench.estimation import PartlyLabelled, estimate
from detector_bench.estimation.planning import HalfWidths
from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.metrics import Scopes
from detector_bench.study import Results, Study

pytestmark = pytest.mark.slow

PROMPTS, IMAGES = 40, 60


def population(seed: int = 0, *, t2i_models: int = 1) -> PartlyLabelled:
    """Every image labelled; a detector that is right of nine images in ten, and one that guesses."""
    random = np.random.default_rng(seed)
    cells = t2i_models * PROMPTS
    cell = np.repeat(np.arange(cells), IMAGES)
    share = random.beta(1, 1, cells)
    truth = (random.random(len(cell)) > share[cell]).astype(np.int64)
    truth[random.random(len(cell)) < 0.1] = 2  # low_quality
    right = np.where(random.random(len(cell)) < 0.9, truth, random.integers(0, 3, len(cell)))
    verdicts = np.stack([right, random.integers(0, 3, len(cell))]).astype(np.int8)
    scopes = Scopes.of_prompts(["all of them"] * PROMPTS)
    return PartlyLabelled.drawn_evenly(truth, verdicts, cell, t2i_models=t2i_models, scopes=scopes, classes=2)


def labelled(images: PartlyLabelled, of_each: int, seed: int) -> PartlyLabelled:
    """So many labels of each prompt."""
    order = np.random.default_rng(seed).random(len(images.truth))
    rank = pd.Series(order).groupby(images.cell).rank().to_numpy()
    return PartlyLabelled.drawn_evenly(
        np.where(rank <= of_each, images.truth, -1),
        images.verdicts,
        images.cell,
        t2i_models=images.t2i_models,
        scopes=images.scopes,
        classes=images.classes,
    )


@pytest.mark.parametrize(
    "score", ["model_bias_score", "mean_prompt_bias_score", "prompt_bias_score", "label_share_0"]
)
def test_a_pilot_foretells_the_half_width_of_four_times_its_labels(score: str) -> None:
    off = []
    for seed in range(4):
        images = population(seed)
        foretold = HalfWidths.of(labelled(images, 5, seed)).at(score, 20 * PROMPTS, 1)
        off.append(foretold / HalfWidths.of(labelled(images, 20, 100 + seed)).now(score, 1) - 1)
    assert abs(np.mean(off)) < 0.15


def test_the_half_width_at_hand_is_that_of_the_estimate() -> None:
    images = labelled(population(), 5, 0)
    found = estimate(images)
    known = HalfWidths.of(images)
    for score, one in found.scopes.items():
        assert known.now(score, 1) == pytest.approx((one.high - one.low)[1, 0] / 2)


def test_the_labels_needed_give_the_half_width_and_one_half_of_them_do_not() -> None:
    known = HalfWidths.of(labelled(population(), 5, 0))
    needed = known.labels_needed("mean_prompt_bias_score", 0.03, 1)
    assert needed.labels is not None
    assert known.at("mean_prompt_bias_score", needed.labels, 1) == pytest.approx(0.03, rel=0.03)
    assert known.at("mean_prompt_bias_score", needed.labels / 2, 1) > 0.036
    alone = HalfWidths.of(known.images, use_detectors=False).labels_needed("mean_prompt_bias_score", 0.03, 1)
    assert alone.labels is not None
    assert alone.labels > 1.5 * needed.labels
    assert known.labels_needed("mean_prompt_bias_score", 0.5, 1).labels == 5 * PROMPTS  # more than enough now


def test_labels_lie_first_on_prompts_that_have_few() -> None:
    images = labelled(population(), 5, 0)
    truth = images.truth.copy()
    truth[images.cell == 3] = -1
    known = HalfWidths.of(replace(images, truth=truth))
    spread = known.spread(5 * PROMPTS + 7, 1)
    assert spread.sum() == pytest.approx(5 * PROMPTS + 7)
    assert spread[3] == pytest.approx(spread.max())
    assert spread.min() == pytest.approx(spread.max())  # all but what was there is equal
    assert (known.spread(12, 1) > 0).sum() == 12  # fewer labels than prompts: prompts are drawn


def test_of_the_t2i_model_itself_too_few_images_are_named_as_what_is_lacking() -> None:
    images = labelled(population(), 5, 0)
    known = HalfWidths.of(images, about="t2i_model")
    needed = known.labels_needed("mean_prompt_bias_score", 0.015, 1)
    assert needed.labels is None
    assert needed.half_width > 0.015
    times = known.images_needed("mean_prompt_bias_score", 0.015, 1)
    assert times is not None
    assert known.at("mean_prompt_bias_score", known.images_of(1, times=times), 1, times=times) <= 0.015
    assert known.labels_needed("mean_prompt_bias_score", 0.015, 1, times=2 * times).labels is not None


def test_a_guess_that_detectors_explain_much_needs_fewer_labels() -> None:
    images = population()
    labels = [
        HalfWidths.guessed(images, explained=part).labels_needed("model_bias_score", 0.05, 1).labels
        for part in (0.0, 0.7)
    ]
    assert labels[0] is not None
    assert labels[1] is not None
    assert labels[1] < 0.7 * labels[0]
    assert math.isnan(HalfWidths.guessed(images).now("model_bias_score", 1))


# Of a result folder


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A finished study of which the labels of all but five images of each prompt are taken away."""
    folder = write_study(tmp_path_factory.mktemp("plan") / "study", prompts=5)
    results = Results.open(folder)
    root = results.reader.image_set_folder
    images, labels = pd.read_csv(root / "images.csv", dtype=str), pd.read_csv(root / "labels.csv", dtype=str)
    kept = images.groupby(["t2i_model", "prompt_id"]).head(5)["image_id"]
    labels[labels["image_id"].isin(kept)].to_csv(root / "labels.csv", index=False)
    return Study.from_yaml(folder / "study.yaml").evaluate(folder, folder, changed_inputs=True)


def test_a_plan_says_how_many_labels_of_which_prompts_with_which_detectors(pilot: Results) -> None:
    found = pilot.plan(half_width=0.05)
    rows = found.numbers["audit_plan"]
    assert set(rows["t2i_model"]) == set(pilot.t2i_models)
    needed = rows[rows["variant"] == "prediction_powered"].set_index("t2i_model")["labels_needed"]
    prompts = found.numbers["prompts_to_label"]
    spread = prompts.groupby("t2i_model")["labels_needed"].sum()
    assert ((spread - needed).abs() < len(pilot.of_attribute().prompts)).all()
    assert len(found.numbers["detectors_worth"]) > len(pilot.detectors)
    curve = found.numbers["label_curves"]
    for _, one in curve.groupby(["t2i_model", "variant"]):
        assert one["is_now"].iloc[0]
        assert (one["half_width"].iloc[1:].diff().dropna() <= 1e-12).all()
    assert any("detector-bench sample" in note for note in found.notes)
    estimated = pilot.estimate().numbers["rows"]
    row = estimated[(estimated["metric"] == "model_bias_score") & (estimated["variant"] == "prediction_powered")]
    row = row[(row["category"] == "all") & (row["t2i_model"] != "all")].set_index("t2i_model")
    first = curve[curve["is_now"] & (curve["variant"] == "prediction_powered")].set_index("t2i_model")[
        "half_width"
    ]
    assert np.allclose(first, (row["ci_high"] - row["ci_low"])[first.index] / 2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"half_width": 0.0}, r"--half-width 0\.0 \(accepted: above 0, at most 1\)"),
        ({"half_width": 1.5}, r"--half-width 1\.5 \(accepted: above 0, at most 1\)"),
        ({"score": "bias"}, "--score: 'bias' of gender: .*model_bias_score"),
        ({"t2i_models": ("dalle",)}, "--t2i-model: 'dalle'"),
        ({"seconds_per_label": 0.0}, r"--seconds-per-label 0\.0 \(accepted: above 0\)"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(
    pilot: Results, asked: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pilot.plan(**asked)  # type: ignore[arg-type]


def test_without_a_label_the_plan_is_a_guess_and_says_so(pilot: Results, tmp_path: Path) -> None:
    folder = write_study(tmp_path / "bare", prompts=5)
    root = Results.open(folder).reader.image_set_folder
    (root / "labels.csv").unlink()
    bare = Study.from_yaml(folder / "study.yaml").evaluate(folder, folder, changed_inputs=True)
    found = bare.plan(half_width=0.2)
    assert found.notes[0].startswith("A guess, as no image has a label")
    assert found.numbers["audit_plan"]["half_width"].isna().all()
    other = Results.open(folder).plan(half_width=0.2, validated_on=pilot.folder)
    assert "which need not hold here" in other.notes[0]
    columns = ["variant", "labels_needed"]
    least = other.numbers["audit_plan"][columns].groupby("variant").sum()["labels_needed"]
    assert least["prediction_powered"] <= least["labels_only"]


def test_the_help_says_the_half_width_that_is_taken() -> None:
    text = (Path(__file__).parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
    said = re.findall(r"`--half-width X` \|.*?By default ([0-9.]+)\.", text)
    assert len(said) == 3
    assert {float(each) for each in said} == {HALF_WIDTH}
