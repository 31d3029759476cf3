"""Face boxes by MediaPipe: its own results in our form, and the real networks where they are at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from running import found_by, noise, plain, portraits

from detector_bench.errors import MissingExtraError, WeightsError
from detector_bench.perception.faces.small_networks import MediapipeFaces, boxes_of
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import MEDIAPIPE_FACES_FULL_RANGE, MEDIAPIPE_FACES_SHORT_RANGE

NOWHERE = WeightsLocator(cache=Path("nowhere"), allow_download=False)
NETWORKS = "DETECTOR_BENCH_MEDIAPIPE_NETWORKS"
"""A folder with BlazeFace files, any `*short_range*.tflite` and `*full_range*.tflite`: they cannot come with the
tests."""


def detection(left: int, top: int, width: int, height: int, score: float, *points: tuple[float, float]) -> Any:
    return SimpleNamespace(
        bounding_box=SimpleNamespace(origin_x=left, origin_y=top, width=width, height=height),
        categories=[SimpleNamespace(score=score)],
        keypoints=[SimpleNamespace(x=x, y=y) for x, y in points] or None,
    )


def mediapipes_own(found: Any) -> Any:
    """The same as an object of MediaPipe's own classes."""
    own = pytest.importorskip("mediapipe").tasks.components.containers
    keypoint = pytest.importorskip("mediapipe.tasks.python.components.containers.keypoint").NormalizedKeypoint
    box = found.bounding_box
    return own.Detection(
        bounding_box=own.BoundingBox(box.origin_x, box.origin_y, box.width, box.height),
        categories=[own.Category(index=0, score=found.categories[0].score)],
        keypoints=[keypoint(point.x, point.y) for point in found.keypoints or ()] or None,
    )


@pytest.mark.parametrize("made", [lambda found: found, mediapipes_own], ids=["alike", "its own"])
def test_detections_become_boxes(made: Any) -> None:
    points = [(0.25, 0.5), (0.75, 0.5), (0.5, 0.6), (0.5, 0.8), (0.1, 0.5), (0.9, 0.5)]
    image = plain(0, 0, 0, height=100, width=200)
    both = [made(detection(10, -5, 40, 30, 0.75, *points)), made(detection(60, 20, 8, 9, 0.5, *points[::-1]))]
    found = boxes_of(both, image)
    np.testing.assert_array_equal(found["corners"], [[10, -5, 50, 25], [60, 20, 68, 29]])
    np.testing.assert_array_equal(found["scores"], np.array([0.75, 0.5], np.float32))
    expected = [[50, 50], [150, 50], [100, 60], [100, 80], [20, 50], [180, 50]]
    np.testing.assert_allclose(found["landmarks"], [expected, expected[::-1]], rtol=1e-6)
    assert boxes_of([made(detection(1, 2, 3, 4, 0.5))], image)["landmarks"].shape == (1, 0, 2)


def test_no_detection_is_no_box() -> None:
    found = boxes_of([], plain(0, 0, 0))
    assert [found[name].shape for name in ("corners", "scores", "landmarks")] == [(0, 4), (0,), (0, 0, 2)]


def test_the_range_decides_about_the_network() -> None:
    assert MediapipeFaces().weights() == (MEDIAPIPE_FACES_SHORT_RANGE,)
    assert MediapipeFaces(range="full").weights() == (MEDIAPIPE_FACES_FULL_RANGE,)
    own = MediapipeFaces.model_validate({"network": "own.tflite"})
    assert own.weights()[0].path == "own.tflite"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mediapipe", None)
    with pytest.raises(MissingExtraError, match=r"'mediapipe'"):
        MediapipeFaces().load(NOWHERE)


def test_a_missing_network_can_be_fetched() -> None:
    pytest.importorskip("mediapipe")
    with pytest.raises(WeightsError, match=r"weights fetch blaze_face_short_range\.tflite"):
        MediapipeFaces().load(NOWHERE)


def test_another_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mediapipe")
    (tmp_path / "network.tflite").write_bytes(b"no network" * 100)
    stage = MediapipeFaces.model_validate({"network": str(tmp_path / "network.tflite")})
    with pytest.raises(WeightsError, match=r"MediaPipe cannot read .*network\.tflite"):
        stage.load(NOWHERE)


def real(stage_range: str) -> dict[str, Any]:
    pytest.importorskip("mediapipe")
    folder = Path(os.environ.get(NETWORKS) or "nowhere")
    found = sorted(folder.glob(f"*{stage_range}_range*.tflite"))
    if not found:
        pytest.skip(f"no BlazeFace network of {stage_range} range here (set {NETWORKS})")
    return {"range": stage_range, "network": {"path": str(found[0].resolve())}}


@pytest.mark.parametrize("stage_range", ["short", "full"])
def test_faces_of_portraits_are_those_of_a_plain_call(shared: Path, stage_range: str) -> None:
    fields = real(stage_range)
    import mediapipe  # type: ignore[import-not-found,import-untyped,unused-ignore]

    images = [*portraits(shared, 4), noise(90, 70), plain(9, 9, 9), noise(1, 1)]
    found = found_by(MediapipeFaces.model_validate(fields), images, weights=NOWHERE)
    plainly = mediapipe.tasks.vision.FaceDetector.create_from_model_path(fields["network"]["path"])
    for image, ours in zip(images, found, strict=True):
        theirs = plainly.detect(mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=image)).detections
        assert [float(score) for score in ours["scores"]] == [each.categories[0].score for each in theirs]
        widths = [each.bounding_box.width for each in theirs]
        assert (ours["corners"][:, 2] - ours["corners"][:, 0]).tolist() == widths
    plainly.close()
    for faces in found[:4]:
        right_eye, left_eye, nose, mouth = faces["landmarks"][0][:4]
        assert right_eye[0] < nose[0] < left_eye[0]
        assert right_eye[1] < nose[1] < mouth[1]
    assert all(len(faces["scores"]) == 0 for faces in found[4:])


def test_a_higher_confidence_keeps_fewer_faces(shared: Path) -> None:
    fields = real("short")
    images = portraits(shared, 8)
    counts = []
    for confidence in (0.1, 0.9, 1.0):
        stage = MediapipeFaces.model_validate({**fields, "min_confidence": confidence})
        scores = [score for faces in found_by(stage, images, weights=NOWHERE) for score in faces["scores"]]
        assert all(score >= confidence for score in scores)
        counts.append(len(scores))
    assert counts[0] > counts[1] > counts[2] == 0
