"""Which images are thrown out before they are classified."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from detector_bench.detectors.filters import FaceFilter, Filter, SingleSubjectFilter, first_reason
from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.stage import Frame
from detector_bench.perception.yolo import YoloPersons

FACES, PERSONS = DlibHogFaces(), YoloPersons()


def frame(*, faces: list[list[float]] | None = None, persons: list[list[float]] | None = None) -> Frame:
    found = {FACES: faces or [], PERSONS: persons or []}
    return Frame("one", results={stage: boxes(each, [1.0] * len(each)) for stage, each in found.items()})


def box(width: float, height: float) -> list[float]:
    return [3, 4, 3 + width, 4 + height]


def test_face_filter_wants_a_face() -> None:
    filters = FaceFilter(faces=FACES)
    assert filters.reason(frame()) == "no_face"
    assert filters.reason(frame(persons=[box(9, 9)])) == "no_face"
    assert filters.reason(frame(faces=[box(1, 1)])) is None
    assert filters.stage() == FACES


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([(10, 10)], None),
        ([(10, 10), (5, 10)], None),  # exactly 50 %: only more than that is too much
        ([(5, 10), (10, 10)], None),
        ([(10, 10), (5.1, 10)], "several_people"),
        ([(10, 10), (10, 10)], "several_people"),
        ([(10, 10), (4, 10), (4, 10), (4, 10)], None),  # the second largest alone counts
        ([(4, 10), (6, 10), (10, 10)], "several_people"),
        ([(20, 5), (5, 10)], None),  # areas, not sides
    ],
)
def test_single_subject_filter_compares_the_two_largest_areas(
    sizes: list[tuple[float, float]], reason: str | None
) -> None:
    found = SingleSubjectFilter(boxes=PERSONS).reason(frame(persons=[box(*size) for size in sizes]))
    assert found == reason


def test_ratio_of_the_single_subject_filter() -> None:
    two = frame(persons=[box(10, 10), box(3, 10)])
    assert SingleSubjectFilter(boxes=PERSONS, max_area_ratio=0.25).reason(two) == "several_people"
    assert SingleSubjectFilter(boxes=PERSONS, max_area_ratio=0).reason(two) == "several_people"
    same = frame(persons=[box(10, 10), box(10, 10)])
    assert SingleSubjectFilter(boxes=PERSONS, max_area_ratio=1).reason(same) is None


def test_single_subject_filter_without_a_box() -> None:
    assert SingleSubjectFilter(boxes=PERSONS).reason(frame()) is None
    assert SingleSubjectFilter(boxes=PERSONS, without_box="filter").reason(frame()) == "no_person"


def test_first_filter_that_objects_gives_the_reason() -> None:
    face, single = FaceFilter(faces=FACES), SingleSubjectFilter(boxes=PERSONS)
    crowd = frame(persons=[box(9, 9), box(9, 9)])
    assert first_reason((face, single), crowd) == "no_face"
    assert first_reason((single, face), crowd) == "several_people"
    assert first_reason((), crowd) is None
    assert first_reason((face, single), frame(faces=[box(2, 2)], persons=[box(9, 9)])) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "single_subject", "boxes": "yolo_persons", "max_area_ratio": 1.5},
        {"kind": "single_subject", "boxes": "yolo_persons", "without_box": "guess"},
        {"kind": "single_subject"},
        {"kind": "face", "faces": 3},
        {"kind": "mood", "faces": "yunet_faces"},
        {"faces": "yunet_faces"},
    ],
)
def test_wrong_filters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Filter).validate_python(wrong)
