"""Scores of other benchmarks over all images, from the labels of some: exact where nothing is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import biaspainter_parts
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from imagebite_parts import expected, stated, written
from test_images_without_labels import images_of, with_labels

from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.estimation import UNLABELLED, PartlyLabelled
from detector_bench.estimation.number_sums import estimated_sums, of_noise
from detector_bench.evaluation import Intervals
from detector_bench.metrics import Scopes
from detector_bench.others.estimated_scores import estimated_scores
from detector_bench.others.judgements import Judgements
from detector_bench.others.score_system import ScoreSystem
from detector_bench.others.study_scores import ScoredStudy, score_system_named
from detector_bench.results.metric_lookup import of_labelled_images
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary import GROUND_TRUTH

PLACE = ["attribute", "t2i_model", "category", "prompt_id", "metric", "variant"]
NUMBERS = ["value", "ci_low", "ci_high"]


def systems_of(folder: Path, *names: str) -> list[ScoreSystem]:
    parity = stated(
        "gender", expected("man", 0.5, 0.15), expected("woman", 0.5, 0.15), threshold=0.7, name="parity"
    )
    settings = {
        "biaspainter": {},
        "bigbench": {"references": "equal", "attribute_weights": {"gender": 1}},
        "imagebite": {"requirements": written(folder, parity)},
        "representation": {"shares_of": ["gender"]},
    }
    chosen = names or tuple(settings)
    return [score_system_named(name).model_validate({"system": name, **settings[name]}) for name in chosen]


def judged(image_set: ImageSet, predictions: dict[str, pa.Table], systems: Sequence[ScoreSystem]) -> Judgements:
    names = tuple(dict.fromkeys(name for each in systems for name in each.attributes))
    return Judgements.of(image_set, predictions, attributes=names)


def test_with_all_labels_an_estimate_is_the_score_itself_and_certain(tmp_path: Path) -> None:
    image_set = ImageSet.load(biaspainter_parts.write_image_set(tmp_path))
    systems = systems_of(tmp_path)
    judgements = judged(image_set, {"d": biaspainter_parts.predictions()}, systems)
    found = estimated_scores(systems, judgements, Intervals(prompts=True), complete=True)
    plain = pd.concat([each.rows(judgements, Intervals(method="none", prompts=True)) for each in systems])
    plain = plain[plain["detector"] == GROUND_TRUTH].set_index(PLACE)["value"].astype(float)
    assert set(found["detector"]) == {GROUND_TRUTH}
    for word in ("prediction_powered", "labels_only"):
        rows = found[found["variant"].str.endswith(f", {word}")]
        rows = rows.assign(variant=rows["variant"].str.removesuffix(f", {word}")).set_index(PLACE)
        unknown = rows.index.get_level_values("metric") == "imagebite_ex_nominated"
        assert rows.loc[unknown, NUMBERS].isna().all(axis=None)
        known = rows.loc[~unknown, NUMBERS].astype(float)
        actual = plain.loc[known.index].replace([np.inf], np.nan)
        np.testing.assert_array_equal(known["value"], actual)
        metric = known.index.get_level_values("metric")
        without = metric.str.startswith("imagebite_") | metric.str.contains("kl_divergence")
        limits = known[~without]
        np.testing.assert_array_equal(limits["ci_low"], limits["value"])
        np.testing.assert_array_equal(limits["ci_high"], limits["value"])
    # Without a label that is missing nothing is estimated in a study.
    assert estimated_scores(systems, judgements, Intervals()).empty


def partly_of(truth: Sequence[int], *, chance: Sequence[float] | None = None, cells: int = 1) -> PartlyLabelled:
    found = PartlyLabelled.drawn_evenly(
        np.array(truth),
        np.zeros((0, len(truth)), dtype=np.int8),
        np.repeat(np.arange(cells), len(truth) // cells),
        t2i_models=1,
        scopes=Scopes.of_prompts(["c"] * cells),
        classes=1,
    )
    return found if chance is None else replace(found, probability=np.array(chance))


def test_sums_from_labels_alone_by_hand() -> None:
    # 4 of 10 images are labelled: 6, 2, 2, 2, with the mean 3 and the variance 4.
    numbers = np.array([6, 2, 2, 2, *[99] * 6], dtype=float)[:, np.newaxis]
    truth = [0] * 4 + [UNLABELLED] * 6
    found = estimated_sums(partly_of(truth), numbers)
    assert found.value.tolist() == [[30.0]]
    # N^2 (1 - n/N) s^2 / n = 100 x 0.6 x 4 / 4.
    assert (found.root[0].T @ found.root[0]).item() == pytest.approx(60)
    # Drawn with a third of the others' chance, the first speaks for three times as many: (3 x 6 + 2 + 2 + 2) / 6.
    uneven = partly_of(truth, chance=[0.2, 0.6, 0.6, 0.6, *[np.nan] * 6])
    assert estimated_sums(uneven, numbers).value.item() == pytest.approx(40)


def test_a_detector_that_is_right_tells_the_sums_of_images_without_a_label() -> None:
    random = np.random.default_rng(3)
    cells, each = 40, 30
    numbers = (random.random((cells, each)) < random.random((cells, 1))).astype(float).reshape(-1, 1)
    truth = np.where(np.arange(cells * each) % each < 6, 0, UNLABELLED)
    partly = partly_of(truth.tolist(), cells=cells)
    actual = numbers.reshape(cells, each).sum(axis=1)
    errors = [
        np.sqrt(((estimated_sums(partly, numbers, said).value[:, 0] - actual) ** 2).mean())
        for said in (None, numbers[np.newaxis], random.permutation(numbers)[np.newaxis])
    ]
    assert errors[1] < 0.2 * errors[0]
    assert errors[2] < 1.1 * errors[0]


def test_noise_that_divides_by_almost_nothing_counts_no_more_than_it_should() -> None:
    noise = np.random.default_rng(1).standard_normal((1, 2000))
    noise[0, 0] = 1e9
    mean, deviation = of_noise(noise)
    assert mean.item() == pytest.approx(0, abs=0.1)
    assert deviation.item() == pytest.approx(1, abs=0.1)
    assert np.isnan(of_noise(np.where(np.arange(10) < 2, np.nan, noise[:, :10]))).all()


@pytest.mark.slow
def test_a_study_with_some_labels_has_estimates_beside_what_rests_on_them(tmp_path: Path) -> None:
    image_set, predictions = images_of(tmp_path, each=40)
    systems = systems_of(tmp_path, "bigbench", "representation")
    kept = np.arange(len(image_set.labels)) % 40 < 10
    partly = with_labels(image_set, kept)
    metrics = ScoredStudy.of(systems, partly, predictions, Intervals(resamples=100)).metrics
    metric = "representation_total_variation"
    whole = metrics[
        (metrics["t2i_model"] == "all") & (metrics["category"] == "all") & (metrics["metric"] == metric)
    ]
    by_variant = whole[whole["detector"] == GROUND_TRUTH].set_index("variant")
    width = (by_variant["ci_high"] - by_variant["ci_low"]).astype(float)
    assert width["uniform, prediction_powered"] < 0.8 * width["uniform, labels_only"]
    assert by_variant.loc["uniform, labels_only", ["n", "n_left_out"]].tolist() == [kept.sum(), 0]
    # What rests on labelled images is not mixed with estimates.
    assert set(of_labelled_images(metrics)["variant"]) == {"as_code", "uniform"}
    # Equal seeds give equal noise, others do not.
    judgements = judged(partly, predictions, systems)
    first, again, other = (estimated_scores(systems, judgements, Intervals(seed=seed)) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert (first["ci_low"].dropna() != other["ci_low"].dropna()).any()


def test_labels_outside_the_sample_are_not_used_and_a_prompt_without_one_has_no_interval(tmp_path: Path) -> None:
    image_set, predictions = images_of(tmp_path)
    systems = systems_of(tmp_path, "representation")
    sampled = np.flatnonzero(np.arange(len(image_set.images)) % 10 < 4)[4:]
    rows = pd.DataFrame({"image_id": image_set.images["image_id"].to_numpy()[sampled], "probability": 0.4})
    sample = LabelSample(rows, SampleDesign.EQUAL)
    found = estimated_scores(
        systems,
        judged(image_set, predictions, systems),
        Intervals(prompts=True),
        image_set=image_set,
        sample=sample,
        complete=True,
    )
    tv = found[found["metric"].eq("representation_total_variation") & found["variant"].str.endswith("labels_only")]
    by_place = tv.set_index(["t2i_model", "category", "prompt_id"])
    assert by_place.loc[("all", "all", "all"), ["n", "n_left_out"]].tolist() == [len(sampled), 10]
    assert np.isnan(by_place.loc[("m0", "c0", "p0"), "value"])
    assert np.isnan(by_place.loc[("m0", "all", "all"), "ci_low"])
    assert np.isfinite(by_place.loc[("m1", "all", "all"), "ci_low"])


def test_a_pair_is_labelled_if_both_of_its_photos_are(tmp_path: Path) -> None:
    image_set = ImageSet.load(biaspainter_parts.write_image_set(tmp_path))
    systems = systems_of(tmp_path, "biaspainter")
    hidden = ["A_pilot_s3", "s0"]
    partly = with_labels(image_set, ~image_set.labels["image_id"].isin(hidden).to_numpy())
    judgements = judged(partly, {"d": biaspainter_parts.predictions()}, systems)
    found = estimated_scores(systems, judgements, Intervals(prompts=True))
    # The human labels hold no ages, so nothing is said of age.
    assert set(found["attribute"]) == {"gender"}
    words = found[found["metric"].eq("biaspainter_word_score") & found["variant"].str.endswith("labels_only")]
    words = words.set_index(["t2i_model", "prompt_id"])
    # Of A and pilot the pairs of s1 and s2 are left: male stays, female becomes male.
    assert words.loc[("A", "p1"), "n"] == 2
    assert words.loc[("A", "p1"), "value"] == pytest.approx(-0.5 / 0.5)
