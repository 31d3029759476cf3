"""Which of the photos that are to be edited show no face."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from detector_bench.errors import DetectorBenchError
from detector_bench.generation.image_requests import SeedPhoto
from detector_bench.generation.seed_photos import SeedPhotos, check_seed_photos
from detector_bench.perception.stage import STAGES, Frame, Stage
from detector_bench.runner.readiness import stages_lacking
from detector_bench.weights import WeightsLocator

_FACE_FINDERS = ("mediapipe_faces", "yunet_faces", "dlib_hog_faces")
"""Quick ones, the first that is installed is asked."""


@dataclass(frozen=True)
class FaceSearch:
    """Which seed photos show no face.

    Attributes:
        finder: the stage that looked for faces; None: none is installed, and nothing is known.
        without_face: ids of the photos in which it found none.
    """

    finder: str | None
    without_face: tuple[str, ...]

    def lines(self) -> list[str]:
        """What is said before anything is made, a line each; none where all is well."""
        if self.finder is None:
            return [
                "whether each seed photo shows a face was not looked at: no face finder is installed "
                "(pip install 'detector-bench[mediapipe]', [onnx] with YuNet's weights, or [dlib])"
            ]
        if not self.without_face:
            return []
        return [
            f"{self.finder} finds no face in {len(self.without_face):,} of the seed photos, so that detectors "
            f"which need one may say nothing of their edits: {', '.join(self.without_face)}"
        ]


def seed_photos_without_face(
    seeds: SeedPhotos, *, weights: WeightsLocator, report: Callable[[int, int], None] | None = None
) -> FaceSearch:
    """Look for a face in every seed photo, with a face finder that is there already; nothing is downloaded.

    A face finder misses faces, so that this is a warning and no mistake.

    Args:
        seeds: the photos.
        weights: where weights lie.
        report: called after each photo with how many are done and how many there are.

    Raises:
        DataError: photos that cannot be decoded, all of them.
    """
    check_seed_photos(seeds.photos)
    for stage in _finders(weights):
        try:
            found = stage.load(weights)
        except DetectorBenchError:
            continue  # another one may do
        without = []
        for done, photo in enumerate(seeds.photos, start=1):
            if not _has_face(found, photo):
                without.append(photo.image_id)
            if report is not None:
                report(done, len(seeds.photos))
        return FaceSearch(stage.kind, tuple(without))
    return FaceSearch(None, ())


def _finders(weights: WeightsLocator) -> list[Stage]:
    stages = [STAGES.get(name)() for name in _FACE_FINDERS]
    return [
        stage
        for stage in stages
        if not stages_lacking([stage], weights=weights) and all(weights.find(file) for file in stage.weights())
    ]


def _has_face(find: Callable[[Sequence[Frame]], Sequence[object]], photo: SeedPhoto) -> bool:
    from detector_bench.dataset.decoding import decode_image, read_image_file  # a while to import

    pixels = decode_image(read_image_file(photo.path))
    (result,) = find([Frame(photo.image_id, pixels=pixels)])
    return isinstance(result, Mapping) and len(result["scores"]) > 0
