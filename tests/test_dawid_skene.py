"""Dawid and Skene's model: their own example, annotators whose errors are known, and when it has to refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from crowd_labels import write_crowd_labels
from stored_study import Picture, write_pictures

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation.image_index import ImageIndex, annotators_labels
from detector_bench.evaluation.label_doubt import check_identified, estimated_labels
from detector_bench.metrics.agreement import AnnotatorModel, dawid_skene
from detector_bench.vocabulary import ATTRIBUTES

GENDER = ATTRIBUTES["gender"]

# Dawid and Skene 1979, table 1: 45 patients, four grades of fitness for anaesthesia; the first of five observers
# judged every patient three times, so that there are seven rows of grades.
OBSERVERS = (0, 0, 0, 1, 2, 3, 4)
GRADES = (
    "131222132242121111222222112111131224223111212",
    "131222232342122111222222113111131223233112322",
    "132222232242121111222221112112131223123111212",
    "142333232243131211212232112111131234233112212",
    "131123142243121111232222112111121223224111212",
    "132222132244111111222222112112131234333111212",
    "142122133343121111122222112111131223232111212",
)


def of_rows(rows: tuple[str, ...], annotators: tuple[int, ...], *, labels: int) -> AnnotatorModel:
    """The model of labels 1, 2, ... row by row; a dot is a missing one."""
    given = [
        (annotator, image, int(label) - 1)
        for annotator, row in zip(annotators, rows, strict=True)
        for image, label in enumerate(row)
        if label != "."
    ]
    annotator, image, label = (np.array(column) for column in zip(*given, strict=True))
    return dawid_skene(annotator, image, label, annotators=max(annotators) + 1, images=len(rows[0]), labels=labels)


def simulated(
    confusion: np.ndarray, prevalence: np.ndarray, *, images: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """True labels `[image]`, and labels `[annotator, image]` by annotators with these confusion matrices."""
    random = np.random.default_rng(seed)
    truth = random.choice(prevalence.size, size=images, p=prevalence)
    drawn = random.random((len(confusion), images, 1))
    given = (drawn > confusion[:, truth].cumsum(axis=-1)[..., :-1]).sum(axis=-1)
    return truth, given


def fitted(given: np.ndarray, *, labels: int) -> AnnotatorModel:
    annotator, image = np.indices(given.shape).reshape(2, -1)
    return dawid_skene(
        annotator, image, given.ravel(), annotators=len(given), images=given.shape[1], labels=labels
    )


def test_the_authors_own_example() -> None:
    model = of_rows(GRADES, OBSERVERS, labels=4)
    # Dawid and Skene 1979, table 2: marginal probabilities, and the error rates of observer 1.
    assert model.prevalence.round(2).tolist() == [0.40, 0.42, 0.11, 0.07]
    assert model.confusion[0].round(2).tolist() == [
        [0.89, 0.11, 0, 0],
        [0.07, 0.88, 0.05, 0],
        [0, 0.34, 0.66, 0],
        [0, 0, 0.56, 0.44],
    ]
    assert model.converged
    # Patient 2 was called 3 by most, and is 4: observers 2 and 5 hardly ever say 4 wrongly.
    assert model.label[1] == 3
    assert model.confusion.sum(axis=-1) == pytest.approx(1)


def test_one_step_by_hand() -> None:
    # Two annotators say 1 1, 1 2 and 2 2, so the votes for 1 are 1, 1/2 and 0, and its prevalence 1/2. Of the 3/2
    # images that are a 1 the first calls all so, the second 1 of 3/2; of those that are a 2 it is the other way
    # round. The image between has 1/2 * 1 * 1/3 and 1/2 * 1/3 * 1, and stays undecided for ever.
    model = of_rows(("112", "122"), (0, 1), labels=2)
    assert model.posterior.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
    assert model.prevalence.tolist() == [0.5, 0.5]
    assert model.confusion[0] == pytest.approx(np.array([[1, 0], [1 / 3, 2 / 3]]))
    assert model.confusion[1] == pytest.approx(np.array([[2 / 3, 1 / 3], [0, 1]]))
    # 1/2 * 1 * 2/3 for the first image, 2 * 1/6 for the second, 1/2 * 2/3 * 1 for the third.
    assert model.log_likelihood == pytest.approx(3 * np.log(1 / 3))
    assert model.label.tolist() == [0, 0, 1]  # the first of equals


def test_images_without_labels_have_no_estimate() -> None:
    model = of_rows(("11.2", "12.2", "11.2"), (0, 1, 2), labels=2)
    assert np.isnan(model.posterior[2]).all()
    assert model.label.tolist() == [0, 0, -1, 1]
    assert model.prevalence == pytest.approx([2 / 3, 1 / 3], abs=1e-6)


def test_a_truth_that_no_image_has_leaves_equal_probabilities() -> None:
    model = of_rows(("11", "11", "11"), (0, 1, 2), labels=2)
    assert model.confusion[0].tolist() == [[1, 0], [0.5, 0.5]]
    assert model.posterior.tolist() == [[1, 0], [1, 0]]
    with pytest.raises(ValueError, match="no label"):
        dawid_skene(*(np.array([], dtype=int),) * 3, annotators=1, images=1, labels=2)


def test_known_confusion_matrices_are_found_again() -> None:
    confusion = np.array(
        [
            [[0.95, 0.03, 0.02], [0.05, 0.90, 0.05], [0.20, 0.20, 0.60]],
            [[0.80, 0.10, 0.10], [0.10, 0.85, 0.05], [0.05, 0.05, 0.90]],
            [[0.70, 0.10, 0.20], [0.02, 0.78, 0.20], [0.10, 0.10, 0.80]],
        ]
    )
    prevalence = np.array([0.5, 0.35, 0.15])
    truth, given = simulated(confusion, prevalence, images=20_000, seed=1)
    model = fitted(given, labels=3)
    assert model.converged
    assert model.confusion == pytest.approx(confusion, abs=0.03)
    assert model.prevalence == pytest.approx(prevalence, abs=0.02)
    # No rule of three such annotators can be right more often than the one that knows their errors.
    joint = prevalence * np.prod([confusion[each][:, given[each]].T for each in range(3)], axis=0)
    known_errors, majority = (joint.argmax(axis=1) == truth).mean(), _majority(given, labels=3)
    assert (model.label == truth).mean() == pytest.approx(known_errors, abs=0.005)
    assert (model.label == truth).mean() > (majority == truth).mean() + 0.005
    # Posteriors mean what they say: the mean of the largest is the share of right labels.
    assert model.posterior.max(axis=1).mean() == pytest.approx((model.label == truth).mean(), abs=0.01)


def test_annotators_who_err_on_the_same_images_make_the_model_too_sure() -> None:
    # What the docs warn of: 30 % of the images are hard; everybody errs on 35 % of those, on 2 % of the others.
    random, images = np.random.default_rng(4), 20_000
    truth, is_hard = random.integers(0, 2, images), random.random(images) < 0.3
    errs = random.random((3, images)) < np.where(is_hard, 0.35, 0.02)
    model = fitted(np.where(errs, 1 - truth, truth), labels=2)
    right, believed = (model.label == truth).mean(), model.posterior.max(axis=1).mean()
    assert right == pytest.approx(0.915, abs=0.01)
    assert believed - right == pytest.approx(0.06, abs=0.01)


def test_the_same_labels_give_the_same_result_and_more_iterations_never_less_likelihood() -> None:
    _, given = simulated(np.full((3, 2, 2), [[0.8, 0.2], [0.3, 0.7]]), np.array([0.6, 0.4]), images=300, seed=2)
    annotator, image = np.indices(given.shape).reshape(2, -1)
    arguments = {"annotators": 3, "images": 300, "labels": 2}
    runs = [
        dawid_skene(annotator, image, given.ravel(), max_iterations=number, **arguments)
        for number in (1, 2, 5, 20)
    ]
    assert np.all(np.diff([run.log_likelihood for run in runs]) > 0)
    assert not runs[0].converged
    assert (fitted(given, labels=2).posterior == fitted(given, labels=2).posterior).all()
    shuffled = np.random.default_rng(3).permutation(annotator.size)
    again = dawid_skene(annotator[shuffled], image[shuffled], given.ravel()[shuffled], **arguments)
    assert again.posterior == pytest.approx(fitted(given, labels=2).posterior, abs=1e-6)


def _majority(given: np.ndarray, *, labels: int) -> np.ndarray:
    return np.array([(given == label).sum(axis=0) for label in range(labels)]).argmax(axis=0)


def pictures(labels: list[tuple[str, ...]]) -> list[Picture]:
    return [Picture(f"i{number:03d}", "alpha", "nurse", each) for number, each in enumerate(labels)]


def labels_of(folder: Path) -> tuple[ImageIndex, dict[str, np.ndarray]]:
    image_set = ImageSet.load(folder)
    index = ImageIndex.of(image_set)
    return index, annotators_labels(image_set, index, GENDER)


def test_two_annotators_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "images", pictures([("male", "female")] * 30), {"nurse": "job"})
    index, given = labels_of(folder)
    assert estimated_labels(given, index, GENDER) is None
    with pytest.raises(ConfigError, match=r"gender: 0 such images, 2 people\); have a third person") as raised:
        check_identified(ImageSet.load(folder), ["gender"])
    assert "\n" not in str(raised.value)


def test_three_annotators_need_images_in_common(tmp_path: Path) -> None:
    three, two = [("male", "male", "female")], [("female", "female")]
    for name, common in (("few", 19), ("enough", 20)):
        folder = write_pictures(tmp_path / name, pictures(three * common + two * 10), {"nurse": "job"})
        index, given = labels_of(folder)
        assert (estimated_labels(given, index, GENDER) is None) == (common == 19)


def test_who_labelled_few_images_shares_a_matrix(shared: Path, tmp_path: Path) -> None:
    rated = write_crowd_labels(shared, tmp_path)
    index, given = labels_of(tmp_path)
    found = estimated_labels(given, index, GENDER)
    assert found is not None
    labelled = rated["annotator"].value_counts()
    assert found.annotators == tuple(sorted(labelled.index[labelled >= 20]))
    assert len(found.model.confusion) == len(found.annotators) + 1
    assert found.model.converged
    # Where all three workers agree, nobody's error rates say otherwise.
    votes = pd.crosstab(rated["image_id"], rated["label"])[["male", "female", "low_quality"]]
    unanimous = (votes.max(axis=1) == 3).to_numpy()
    assert unanimous.sum() > 400
    assert (found.model.label[unanimous] == votes.to_numpy()[unanimous].argmax(axis=1)).all()
    probability = found.model.posterior.max(axis=-1)
    assert (probability[unanimous] > probability[~unanimous].mean()).mean() > 0.95
