"""What MiVOLO sees: crops worked out by hand, and the network's input against the published preparation."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from mivolo_parts import NOBODY, SIDE, found, published_input, subject
from running import noise, plain

from detector_bench.perception.networks.mivolo_outputs import face_of, network_input

# Crops worked out by hand


def test_largest_person_and_the_face_in_it_are_cut_out_at_whole_pixels() -> None:
    image = noise(120, 200)
    persons = found((10, 10, 60, 70), (80.9, 20.2, 160.7, 110.9))
    faces = found((20, 15, 40, 35), (100.5, 30.5, 130.5, 60.5))
    body, face = subject(image, persons, faces, hide_others=False)
    np.testing.assert_array_equal(body, image[20:110, 80:160])
    np.testing.assert_array_equal(face, image[30:60, 100:130])


def test_boxes_end_before_the_last_row_and_column() -> None:
    image = noise(100, 100)
    body, face = subject(image, found((0, 0, 100, 100)), NOBODY)
    np.testing.assert_array_equal(body, image[:99, :99])
    assert face is None


def test_others_and_all_faces_are_blacked_out_in_the_body() -> None:
    image = plain(200, 200, 200, height=200, width=200)
    # The other person reaches over the right edge. 20 % are free above it, which is near enough to the edge to go,
    # too; 40 % below it and 75 % to its left, which is not.
    persons = found((0, 0, 100, 100), (75, 20, 130, 60))
    faces = found((10, 10, 30, 40))
    body, face = subject(image, persons, faces)
    expected = np.full((100, 100), 200)
    expected[:60, 75:] = 0
    expected[10:40, 10:30] = 0
    np.testing.assert_array_equal(body, np.repeat(expected[..., None], 3, axis=2))
    np.testing.assert_array_equal(face, image[10:40, 10:30])
    assert (image == 200).all()


@pytest.mark.parametrize(
    ("person", "other", "kept"),
    [
        ((0, 0, 50, 90), None, True),
        ((0, 0, 49, 90), None, False),
        ((0, 0, 90, 49), None, False),
        # 36 of 90 columns stay: 40 %. Then 35.
        ((0, 0, 90, 60), (36, 0, 200, 60), True),
        ((0, 0, 90, 60), (35, 0, 88, 60), False),
    ],
)
def test_small_or_mostly_hidden_bodies_are_missing(person: Any, other: Any, kept: bool) -> None:
    image = plain(9, 9, 9, height=100, width=300)
    others = [] if other is None else [(*other[:2], min(other[2], 90), other[3])]
    body = subject(image, found(person, *others), found((5, 5, 6, 6)) if not kept else NOBODY)
    assert (body is not None and body.body is not None) == kept


def test_face_in_two_persons_goes_to_the_one_without_another() -> None:
    persons = found((0, 0, 100, 100), (60, 0, 150, 100))
    between, alone = (65, 10, 85, 30), (20, 10, 40, 30)
    # It lies wholly in both, but is more of the smaller one: 400 / 9000, not 400 / 10000.
    assert (face_of(0, persons, found(between)), face_of(1, persons, found(between))) == (None, 0)
    assert face_of(1, persons, found(between, alone)) == 0
    assert face_of(0, persons, found(between, alone)) == 1
    assert face_of(0, persons, found((300, 300, 310, 310))) is None
    assert face_of(0, persons, NOBODY) is None


def test_nobody_to_judge() -> None:
    image, face = noise(100, 100), found((10, 10, 20, 20), (30, 30, 60, 50))
    assert subject(image, NOBODY, NOBODY) is None
    assert subject(image, NOBODY, NOBODY, without_person="face") is None
    assert subject(image, NOBODY, face) is None
    body, largest_face = subject(image, NOBODY, face, without_person="face")
    assert body is None
    np.testing.assert_array_equal(largest_face, image[30:50, 30:60])
    # A person too small for a body crop, and no face.
    assert subject(image, found((0, 0, 30, 30)), NOBODY) is None


@pytest.mark.parametrize("size", [(40, 40), (90, 41), (17, 100), None])
def test_networks_input(size: tuple[int, int] | None) -> None:
    crop = None if size is None else noise(*size)
    np.testing.assert_allclose(
        network_input(cv2, crop, side=SIDE), published_input(crop, SIDE)[0].numpy(), atol=1e-5
    )
