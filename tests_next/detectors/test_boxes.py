"""Boxes, crops and filters: hand-made geometry, and the old package's crops."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from detector_bench_next.detector import Arrays, Frame, Stage
from detector_bench_next.detectors.boxes import (
    Crop,
    FaceFilter,
    SingleSubjectFilter,
    areas,
    averaged,
    boxes,
    first_reason,
    largest,
    letterbox,
    mean_arrays,
)
from tests_next.detectors.conftest import framed


class Faces(Stage):
    kind: ClassVar[str] = "given_faces"


class Persons(Stage):
    kind: ClassVar[str] = "given_persons"


PICTURE = np.arange(10 * 20 * 3, dtype=np.uint8).reshape(10, 20, 3)


def seen(*corners: tuple[float, ...], stage: Stage = Faces(), pixels: Any = PICTURE) -> Frame:  # noqa: B008 - frozen
    frame = framed(pixels)
    frame.results[stage] = boxes(corners, [1.0] * len(corners))
    return frame


def cut(crop: Crop, frame: Frame) -> Any:
    return next(iter(crop.seen(frame)), None)


def test_boxes_have_one_form() -> None:
    none = boxes([], [])
    assert [none[name].shape for name in ("corners", "scores", "landmarks")] == [(0, 4), (0,), (0, 0, 2)]
    assert largest(none) is None
    two = boxes([(0, 0, 4, 4), (1, 1, 3, 9), (0, 0, 2, 8)], [0.5, 0.6, 0.7], np.zeros((3, 10)))
    assert areas(two).tolist() == [16, 16, 16]
    assert largest(two) == 0, "the first of equals"
    assert two["landmarks"].shape == (3, 5, 2)
    huge = boxes([(0, 0, 4097, 4097), (0, 0, 4098, 4096.5)], [1, 1])
    assert largest(huge) == int(np.argmax([4097.0 * 4097.0, 4098.0 * 4096.5])), "float32 cannot tell them apart"


CROPS = [  # corners, fields, rows and columns of the crop
    ((2, 1, 6, 5), {}, (slice(1, 5), slice(2, 6))),
    ((2, 1, 6, 5), {"margin": 1.5}, (slice(0, 6), slice(1, 7))),
    ((2.5, 1.5, 6.5, 4.5), {}, (slice(2, 4), slice(2, 6))),  # half to even
    ((2, 1, 6, 3), {"square": True}, (slice(0, 4), slice(2, 6))),
    ((16, 6, 24, 14), {}, (slice(6, 10), slice(16, 20))),
    ((5.2, 5.2, 5.3, 5.3), {}, (slice(5, 6), slice(5, 6))),  # at least a pixel
    ((30, 30, 40, 40), {}, None),
    ((30, 30, 40, 40), {"without_box": "whole_image"}, (slice(0, 10), slice(0, 20))),
    ((-9, -9, -1, -1), {"outside": "black"}, None),
]


@pytest.mark.parametrize(("corners", "fields", "where"), CROPS)
def test_a_crop_is_cut_as_its_fields_say(corners: Any, fields: dict[str, Any], where: Any) -> None:
    crop = Crop(boxes=Faces(), **fields)
    found = cut(crop, seen((0, 0, 0.1, 0.1), corners))
    if where is None:
        assert found is None
        assert crop.missing_reason == "no_face"
    else:
        assert np.array_equal(found, PICTURE[where])


def test_without_a_box_and_beyond_the_border() -> None:
    assert cut(Crop(boxes=Persons()), seen(stage=Persons())) is None
    assert Crop(boxes=Persons()).missing_reason == "no_person"
    assert Crop(boxes=Persons(), reason="nobody").missing_reason == "nobody"
    assert cut(Crop(), seen()) is not None
    black = cut(Crop(boxes=Faces(), outside="black"), seen((16, 6, 24, 14)))
    assert black.shape == (8, 8, 3)
    assert np.array_equal(black[:4, :4], PICTURE[6:, 16:])
    assert not black[4:].any()
    assert not black[:, 4:].any()


def test_squares_and_views() -> None:
    padded = cut(Crop(shape="padded", fill="mean"), seen())
    assert padded.shape == (20, 20, 3)
    assert np.array_equal(padded[5:15], PICTURE)
    assert padded[0, 0].tolist() == PICTURE.mean(axis=(0, 1)).round().tolist()
    edge = cut(Crop(shape="padded", fill="edge"), seen())
    assert np.array_equal(edge[0], PICTURE[0])
    large = cut(Crop(shape="squashed"), framed(np.zeros((30, 2000, 3), np.uint8)))
    assert large.shape == (1024, 1024, 3)
    with pytest.raises(ValueError, match="too narrow for a square"):
        cut(Crop(shape="padded"), framed(np.zeros((2, 500, 3), np.uint8)))
    one, two = Crop(views="as_is_and_mirrored").seen(seen())
    assert np.array_equal(two, one[:, ::-1])
    assert Crop(boxes=Faces()).seen(seen()) == ()


def test_views_are_averaged_in_their_own_type() -> None:
    found = averaged([[1], [], [2, 4]], lambda views: [{"x": np.float32([v])} for v in views], mean_arrays)
    assert [None if own is None else own["x"].tolist() for own in found] == [[1.0], None, [3.0]]
    with pytest.raises(ValueError, match="only floats"):
        mean_arrays([{"x": np.array([1])}, {"x": np.array([2])}])


FILTERED: list[tuple[list[tuple[float, ...]], dict[str, Any], str | None]] = [
    ([], {}, None),
    ([], {"without_box": "filter"}, "no_person"),
    ([(0, 0, 4, 4)], {}, None),
    ([(0, 0, 4, 4), (0, 0, 4, 2)], {}, None),  # exactly half: strict
    ([(0, 0, 4, 2.1), (0, 0, 4, 4), (0, 0, 1, 1)], {}, "several_people"),
    ([(0, 0, 4, 2.1), (0, 0, 4, 4)], {"max_area_ratio": 0.6}, None),
]


@pytest.mark.parametrize(("corners", "fields", "reason"), FILTERED)
def test_the_single_subject_filter(corners: Any, fields: dict[str, Any], reason: str | None) -> None:
    assert SingleSubjectFilter(boxes=Faces(), **fields).reason(seen(*corners)) == reason


def test_the_first_filter_that_objects_gives_the_reason() -> None:
    filters = (FaceFilter(faces=Faces()), SingleSubjectFilter(boxes=Faces(), without_box="filter"))
    assert first_reason(filters, seen()) == "no_face"
    assert first_reason(filters[::-1], seen()) == "no_person"
    assert first_reason(filters, seen((0, 0, 4, 4))) is None


def test_a_letterbox_keeps_proportions() -> None:
    cv2 = pytest.importorskip("cv2")
    square, scale, place = letterbox(cv2, np.full((10, 33, 3), 200, np.uint8), side=64)
    assert square.shape == (64, 64, 3)
    assert scale == (64 / 33, 19 / 10)
    assert place == (0, 22)
    assert (square[22:41] == 200).all()
    assert (square[:22] == 114).all()
    assert (square[41:] == 114).all()


def test_arrays_are_named_alike() -> None:
    given: Arrays = boxes([(0, 0, 1, 1)], [1])
    assert {name: array.dtype.name for name, array in given.items()} == dict.fromkeys(given, "float32")
