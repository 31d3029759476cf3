"""A study without labels, estimated from what another study's labels say of its detectors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from synthetic_study import DETECTORS, write_study

from detector_bench.errors import ConfigError
from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.learnt_errors import LearntErrors
from detector_bench.estimation.likeness import JudgedImages, differences
from detector_bench.estimation.refutation import labels_refute, verdicts_refute
from detector_bench.estimation.transfer import estimate_without_labels
from detector_bench.metrics import Scopes
from detector_bench.study import Results, Study
from detector_bench.vocabulary.columns import VALIDATED_ELSEWHERE

pytestmark = pytest.mark.slow

# Two detectors: rows are male, female, low-quality; columns male, female, filtered, no verdict.
ERRORS = np.array(
    [
        [[0.85, 0.05, 0.08, 0.02], [0.15, 0.75, 0.08, 0.02], [0.20, 0.10, 0.68, 0.02]],
        [[0.70, 0.10, 0.20, 0.00], [0.05, 0.80, 0.15, 0.00], [0.10, 0.15, 0.75, 0.00]],
    ]
)
THREE = tuple(each for each in DETECTORS if each.name in {"fairface", "mivolo", "faceres-yunet"})


def world(
    men: NDArray[np.float64],
    *,
    seed: int,
    images: int = 100,
    labels: int = 0,
    errors: NDArray[np.float64] = ERRORS,
) -> tuple[PartlyLabelled, NDArray[np.int64]]:
    """One T2I model whose prompts show these shares of men, a sixth of the images being low-quality.

    Returns:
        The images, of which the first `labels` of each prompt have a label; and all truths, `[image]`.
    """
    random = np.random.default_rng(seed)
    cell = np.repeat(np.arange(len(men)), images)
    truth = np.where(random.random(len(cell)) < 1 / 6, 2, (random.random(len(cell)) > men[cell]).astype(int))
    limits = errors.cumsum(axis=-1)[:, truth, :-1]
    verdicts = (random.random((len(errors), len(cell), 1)) > limits).sum(axis=-1).astype(np.int8)
    place = np.arange(len(cell)) % images
    known = PartlyLabelled.drawn_evenly(
        np.where(place < labels, truth, -1),
        verdicts,
        cell,
        t2i_models=1,
        scopes=Scopes.of_prompts(["all of them"] * len(men)),
        classes=2,
    )
    return known, truth


# Estimates


def test_estimates_follow_the_images_and_not_how_frequent_labels_were_there() -> None:
    study, _ = world(np.linspace(0.1, 0.5, 20), seed=1, labels=100)
    images, truth = world(np.linspace(0.5, 1.0, 20), seed=2)
    found = estimate_without_labels(images, LearntErrors.of(study))
    for label in range(3):
        share = found.scopes[f"label_share_{label}"]
        assert share.value[1, 0] == pytest.approx((truth == label).mean(), abs=0.025)
        assert share.low[1, 0] <= (truth == label).mean() <= share.high[1, 0]
        assert share.n[1, 0] + share.n_left_out[1, 0] == len(truth)
    men, women = ((np.bincount(images.cell, truth == label)) for label in (0, 1))
    score = np.abs((men - women) / (men + women)).mean()
    assert found.scopes["model_bias_score"].value[1, 0] == pytest.approx(score, abs=0.05)
    assert np.isnan(found.scopes["label_share_3"].value).all(), "no others there: nothing is said of them"


def test_labels_of_the_images_are_not_read() -> None:
    learnt = LearntErrors.of(world(np.linspace(0.1, 0.9, 8), seed=1, labels=30)[0])
    with_labels, _ = world(np.linspace(0.3, 0.9, 6), seed=2, labels=50)
    without, _ = world(np.linspace(0.3, 0.9, 6), seed=2)
    for one, other in zip(
        estimate_without_labels(with_labels, learnt).scopes["model_bias_score"],
        estimate_without_labels(without, learnt).scopes["model_bias_score"],
        strict=True,
    ):
        assert np.array_equal(one, other)


@pytest.mark.slow
def test_intervals_hold_the_truth_where_errors_differ_between_prompts_only_with_what_prompts_differ_by() -> None:
    random = np.random.default_rng(3)
    held = []
    for draw in range(40):
        studies = []
        for labels in (40, 0):
            parts = []
            for prompt in range(16):
                # In each prompt women are taken for men more or less often.
                taken = ERRORS.copy()
                moved = random.uniform(0, 0.4)
                taken[:, 1, 0] += moved * taken[:, 1, 1]
                taken[:, 1, 1] *= 1 - moved
                parts.append(
                    world(np.array([0.5]), seed=1000 * draw + 2 * prompt + (labels > 0), images=300, errors=taken)
                )
            studies.append(joined(parts, labels=labels))
        learnt = LearntErrors.of(studies[0][0], seed=draw)
        images, truth = studies[1]
        share = np.bincount(images.cell, truth == 0) / np.bincount(images.cell, truth < 2)
        held.append([])
        for between in (True, False):
            found = estimate_without_labels(images, learnt, between_prompts=between).prompts["prompt_bias_score"]
            inside = (found.low[0] <= 2 * share - 1) & (2 * share - 1 <= found.high[0])
            held[-1].append(inside.mean())
    with_prompts, alike = np.mean(held, axis=0)
    assert with_prompts > 0.93
    assert alike < 0.85


def joined(
    parts: list[tuple[PartlyLabelled, NDArray[np.int64]]], *, labels: int
) -> tuple[PartlyLabelled, NDArray[np.int64]]:
    """Prompts that were made one by one as one T2I model."""
    size = len(parts[0][1])
    truth = np.concatenate([each for _, each in parts])
    known = PartlyLabelled.drawn_evenly(
        np.where(np.arange(len(truth)) % size < labels, truth, -1),
        np.concatenate([images.verdicts for images, _ in parts], axis=1),
        np.arange(len(truth)) // size,
        t2i_models=1,
        scopes=Scopes.of_prompts(["all of them"] * len(parts)),
        classes=2,
    )
    return known, truth


def test_detectors_that_do_not_tell_the_labels_apart_are_refused() -> None:
    guess = np.tile(ERRORS[:, :1], (1, 3, 1))
    with pytest.raises(ConfigError, match="do not tell the human labels apart"):
        LearntErrors.of(world(np.linspace(0.1, 0.9, 12), seed=1, labels=40, errors=guess)[0])


# Tests and warnings


def test_an_error_that_no_labels_explain_is_refuted_by_verdicts_alone() -> None:
    study, _ = world(np.linspace(0.1, 0.9, 20), seed=1, labels=60)
    learnt = LearntErrors.of(study)
    p_values = [
        verdicts_refute(learnt, study, world(np.linspace(0.4, 1, 20), seed=seed)[0]) for seed in range(2, 22)
    ]
    assert np.mean(np.array(p_values) < 0.05) <= 0.15
    other = ERRORS.copy()
    other[0, :, :] = other[0] @ np.array([[0.6, 0.4, 0, 0], [0.4, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert verdicts_refute(learnt, study, world(np.linspace(0.4, 1, 20), seed=2, errors=other)[0]) < 0.01


def test_one_detector_of_two_classes_leaves_nothing_to_test() -> None:
    study, _ = world(np.linspace(0.1, 0.9, 20), seed=1, labels=60, errors=ERRORS[1:])
    images, _ = world(np.linspace(0.4, 1, 20), seed=2, errors=ERRORS[1:])
    assert np.isnan(verdicts_refute(LearntErrors.of(study), study, images))


def test_errors_that_verdicts_hide_are_refuted_by_labels() -> None:
    study, _ = world(np.linspace(0.1, 0.9, 20), seed=1, labels=60)
    learnt = LearntErrors.of(study)
    # Both take four in ten women for men, as if there were more men.
    other = ERRORS.copy()
    other[:, 1] = 0.6 * other[:, 1] + 0.4 * other[:, 0]
    images, _ = world(np.linspace(0.1, 0.9, 20), seed=2, labels=20, errors=other)
    assert labels_refute(learnt, images) < 0.01
    assert labels_refute(learnt, world(np.linspace(0.1, 0.9, 20), seed=3, labels=20)[0]) > 0.05


def test_a_looser_filter_is_flagged_and_equal_studies_are_not() -> None:
    def judged(seed: int, errors: NDArray[np.float64]) -> JudgedImages:
        images, _ = world(np.linspace(0.1, 0.9, 20), seed=seed, errors=errors)
        scores = np.random.default_rng(seed).beta(5, 2, size=images.verdicts.shape)
        return JudgedImages(images.verdicts, scores, images.cell, 2)

    def flagged(seed: int, errors: NDArray[np.float64]) -> list[tuple[str, tuple[str, ...]]]:
        found = differences(judged(1, ERRORS), judged(seed, errors), detectors=("one", "two"))
        return [(each.what, each.detectors) for each in found if each.flagged]

    assert np.mean([bool(flagged(seed, ERRORS)) for seed in range(2, 42)]) <= 0.1
    looser = ERRORS.copy()
    looser[1, :, 0] += looser[1, :, 2] / 2
    looser[1, :, 2] /= 2
    assert ("filter_rate", ("two",)) in flagged(2, looser)
    assert ("filter_rate", ("one",)) not in flagged(2, looser)


# Two result folders


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One with labels and three detectors, of SDXL; one of SD3, whose labels are hidden."""
    folder = tmp_path_factory.mktemp("studies")
    there = write_study(folder / "there", detectors=THREE, t2i_models=["sdxl"], prompts=30, seed=1)
    here = write_study(folder / "here", detectors=THREE, t2i_models=["sd3"], prompts=30, seed=7)
    return there, here


def without_labels(folder: Path, target: Path) -> Path:
    """A copy of a study whose images have no label."""
    shutil.copytree(folder, target)
    labels = target / "image_set" / "labels.csv"
    pd.read_csv(labels).iloc[:0].to_csv(labels, index=False)
    Study.from_yaml(target / "study.yaml").evaluate(target, target, changed_inputs=True)
    return target


def with_fingerprint(folder: Path, target: Path, fingerprint: str) -> Path:
    """A copy of a study with a record of its run."""
    shutil.copytree(folder, target)
    (target / "run.json").write_text(json.dumps({"detectors": {"mivolo": {"fingerprint": fingerprint}}}))
    return target


def test_a_study_without_a_label_is_estimated_from_another(studies: tuple[Path, Path], tmp_path: Path) -> None:
    there, here = studies
    actual = Results.open(here)
    found = Results.open(without_labels(here, tmp_path / "hidden")).estimate(validated_on=there)
    rows = found.numbers["rows"]
    rows = rows[(rows["variant"] == VALIDATED_ELSEWHERE) & (rows["t2i_model"] == "sd3")]
    of_model = rows[(rows["prompt_id"] == "all") & (rows["category"] == "all")].set_index("metric")
    for metric in ("label_share_male", "label_share_low_quality", "model_bias_score"):
        truth = actual.number(metric, detector="ground_truth", t2i_model="sd3").value
        assert of_model.loc[metric, "ci_low"] <= truth <= of_model.loc[metric, "ci_high"]
        assert of_model.loc[metric, "value"] == pytest.approx(truth, abs=0.06)
    notes = " ".join(found.notes)
    assert "600 labels of 30 prompts" in notes
    assert "No interval covers this being wrong" in notes
    assert "(p = " in notes
    differing = found.numbers["differences"]
    assert set(differing["what"]) == {"filter_rate", "error_rate", "agreement", "score"}
    filtered = differing[(differing["what"] == "filter_rate") & (differing["detector"] == "fairface")].iloc[0]
    for value, folder in (("value_there", there), ("value_here", here)):
        status = pd.read_parquet(folder / "predictions" / "fairface")["status"]
        assert filtered[value] == pytest.approx((status == "filtered").sum() / (status != "error").sum())
    assert list(found.tables) == ["bias_estimates", "prompt_estimates", "study_differences"]


def test_labels_that_there_are_make_their_own_estimate_and_test_the_assumption(studies: tuple[Path, Path]) -> None:
    there, here = studies
    found = Results.open(here).estimate(validated_on=there)
    variants = set(found.numbers["rows"]["variant"])
    assert {"prediction_powered", VALIDATED_ELSEWHERE, "detector_only"} <= variants
    assert any("600 labels here (p = " in note for note in found.notes)


def test_studies_that_teach_nothing_are_refused_in_one_line(studies: tuple[Path, Path], tmp_path: Path) -> None:
    there, here = studies
    results = Results.open(here)
    other = write_study(tmp_path / "other", detectors=DETECTORS[:1], t2i_models=["sdxl"], prompts=4)
    few = write_study(tmp_path / "few", detectors=THREE, t2i_models=["sdxl"], prompts=4, only="male")
    first = with_fingerprint(here, tmp_path / "first", "a" * 64)
    second = with_fingerprint(there, tmp_path / "second", "b" * 64)
    refused = (
        (results, here, "is the study itself"),
        (results, without_labels(there, tmp_path / "unlabelled"), "has a label of gender"),
        (results, other, r"has none of the detectors here \(mivolo, fairface, faceres-yunet\): it has clip"),
        (results, few, "too few images .* female 0 .accepted: 5 or more of each class"),
        (Results.open(first), second, "'mivolo' is not the same .* aaaaaaaaaaaa here, bbbbbbbbbbbb there"),
    )
    for asked, folder, message in refused:
        with pytest.raises(ConfigError, match=message) as error:
            asked.estimate(validated_on=folder)
        assert "\n" not in str(error.value)


def test_detectors_that_only_these_images_have_are_named_and_left_out(
    studies: tuple[Path, Path], tmp_path: Path
) -> None:
    there = write_study(tmp_path / "there", detectors=THREE[:2], t2i_models=["sdxl"], prompts=30, seed=1)
    found = Results.open(studies[1]).estimate(validated_on=there)
    assert any(note.startswith("faceres-yunet judged these images and not those of") for note in found.notes)
