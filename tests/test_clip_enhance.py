"""CLIP-Enhance: each step and its absence on boxes made by hand, and the whole on real networks."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml
from clip_networks import GENDER, save_transformers_clip
from onnx_networks import mean_colour_classifier
from running import Pixels, judged, noise

import detector_bench.detectors.clip_enhance  # noqa: F401 - importing it registers it
from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import boxes
from detector_bench.perception.clip.stages import TransformersClip
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces
from detector_bench.perception.stage import STAGES, Arrays, Frame, Stage, StageFunction
from detector_bench.perception.yolo import YoloPersons
from detector_bench.study import Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
LEFT, RIGHT = (0, 0, 10, 20), (10, 0, 20, 20)
HALF, MORE_THAN_HALF = (10, 0, 15, 20), (10, 0, 16, 20)

faces: list[bool] = []
persons: list[Sequence[tuple[int, int, int, int]]] = []
"""What the stages below find in the images of a test, in their order."""


class ListedFaces(Stage):
    """The faces that a test lists."""

    kind: ClassVar[str] = "tried_faces"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def find(frame: Frame) -> Arrays:
            return boxes([LEFT], [1]) if faces[int(frame.image_id)] else boxes([], [])

        return lambda frames: [find(frame) for frame in frames]


class ListedPersons(Stage):
    """The persons that a test lists."""

    kind: ClassVar[str] = "tried_persons"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def find(frame: Frame) -> Arrays:
            corners = persons[int(frame.image_id)]
            return boxes(np.array(corners), [1] * len(corners))

        return lambda frames: [find(frame) for frame in frames]


for _stage in (ListedFaces, ListedPersons):
    if _stage.kind not in STAGES:
        STAGES.register(_stage.kind, _stage)


def red_and_green() -> Pixels:
    """Red on the left, green on the right; a little more green in the whole."""
    image = np.zeros((20, 20, 3), np.uint8)
    image[:, :10] = (204, 0, 0)
    image[:, 10:] = (0, 255, 0)
    return image


SCENES: dict[str, tuple[bool, Sequence[tuple[int, int, int, int]]]] = {
    "one person": (True, [LEFT]),
    "no face": (False, [LEFT]),
    "two people": (True, [LEFT, RIGHT]),
    "a second person of half the size": (True, [LEFT, HALF]),
    "a second person of more than half the size": (True, [MORE_THAN_HALF, LEFT]),
    "a face and no person": (True, []),
    "no face and two people": (False, [LEFT, RIGHT]),
}
AS_PUBLISHED = {
    "one person": "male",  # the crop is red
    "no face": "no_face",
    "two people": "several_people",
    "a second person of half the size": "male",
    "a second person of more than half the size": "several_people",
    "a face and no person": "female",  # the whole image, with more green than red
    "no face and two people": "no_face",
}


@pytest.fixture
def network(tmp_path: Path) -> dict[str, Any]:
    """A classifier for which red is male and green is female."""
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]])
    reading = {"read": "classes", "output": "numbers", "classes": ["male", "female"]}
    settings = {"size": [4, 4], "scale": 1 / 255}
    return {"kind": "onnx", "network": str(path), "input": settings, "outputs": {"gender": reading}}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Several threads make tiny networks wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _scenes() -> None:
    faces[:] = [face for face, _ in SCENES.values()]
    persons[:] = [found for _, found in SCENES.values()]


def enhance(classifier: dict[str, Any], **parameters: Any) -> Detector:
    stages = {"face_filter": "tried_faces", "persons": "tried_persons"}
    return build_detector("clip_enhance", parameters={**stages, "classifier": classifier, **parameters})


def answers(detector: Detector) -> dict[str, str | None]:
    found = judged(detector, [red_and_green()] * len(SCENES), weights=ANYWHERE)
    return {scene: each.label or each.reason for scene, each in zip(SCENES, found, strict=True)}


def test_steps_as_published(network: dict[str, Any]) -> None:
    assert answers(enhance(network)) == AS_PUBLISHED


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({"face_filter": None}, {"no face": "male", "no face and two people": "several_people"}),
        # Of equal boxes the first is cut out: the red half.
        (
            {"person_filter": None},
            {"two people": "male", "a second person of more than half the size": "male"},
        ),
        (
            {"person_filter": {"max_area_ratio": 0.6}},
            {"a second person of more than half the size": "male"},
        ),
        ({"person_filter": {"max_area_ratio": 0.4}}, {"a second person of half the size": "several_people"}),
        (
            {"crop_to_person": False},
            {"one person": "female", "a second person of half the size": "female"},
        ),
        ({"without_person": "filter"}, {"a face and no person": "no_person"}),
        ({"without_person": "filter", "crop_to_person": False, "person_filter": None}, None),
        (
            {"without_person": "filter", "crop_to_person": False},
            {
                "one person": "female",
                "a second person of half the size": "female",
                "a face and no person": "no_person",
            },
        ),
        ({"without_person": "filter", "person_filter": None}, None),
    ],
)
def test_each_step_can_be_changed_or_left_out(
    network: dict[str, Any], parameters: dict[str, Any], changes: dict[str, str] | None
) -> None:
    found = answers(enhance(network, **parameters))
    if changes is not None:
        assert found == {**AS_PUBLISHED, **changes}
    elif parameters.get("crop_to_person", True):
        assert found["a face and no person"] == "no_person"
        assert found["two people"] == "male"
    else:
        # Nothing asks for persons any more, so that none need be found.
        assert found == {scene: "female" if face else "no_face" for scene, (face, _) in SCENES.items()}
        assert "tried_persons" not in [stage.kind for stage in enhance(network, **parameters).stages]


@pytest.mark.usefixtures("one_thread")
def test_the_classifier_is_clip_on_the_largest_person(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = save_transformers_clip(tmp_path / "tiny")
    encoder = {"checkpoint": str(folder), "precision": "float32", "device": "cpu"}
    images = [noise(40, 50, seed=number) // (1 + number) for number in range(3)]
    faces[:] = [True] * 3
    persons[:] = [[(5, 3, 30, 38)], [(1, 2, 4, 6), (10, 0, 50, 40)], []]
    regions = [images[0][3:38, 5:30], images[1][0:40, 10:50], images[2]]

    found = judged(enhance({"kind": "clip", "encoder": encoder}), images, weights=ANYWHERE)

    network = TransformersClip(**encoder)  # type: ignore[arg-type]
    texts = network.embed_prompts(GENDER, ANYWHERE)
    logits = texts.scale * network.image_encoder(ANYWHERE)(regions) @ texts.vectors.T
    assert [each.label for each in found] == [("male", "female")[row.argmax()] for row in logits]
    expected = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).max(axis=1)
    assert [each.score for each in found] == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_person_boxes_are_found_once_and_shared_with_other_detectors(network: dict[str, Any]) -> None:
    detector = enhance(network)
    assert [stage.kind for stage in detector.stages].count("tried_persons") == 2
    assert len({stage for stage in detector.stages if stage.kind == "tried_persons"}) == 1


def test_defaults_are_the_papers() -> None:
    detector = build_detector("clip_enhance")
    settings: Any = detector.implementation
    assert settings.face_filter == DlibCnnOnnxFaces(longest_side=800, upsample=1)
    assert settings.persons == YoloPersons(overlap_threshold=0.5)
    assert settings.person_filter.max_area_ratio == 0.5
    assert tuple(settings.classifier.prompts.values()) == GENDER
    assert detector.attributes == ("gender",)


def test_a_classifier_of_two_attributes(network: dict[str, Any]) -> None:
    age = {"read": "classes", "output": "numbers", "classes": ["young", "elderly"]}
    detector = enhance({**network, "outputs": {**network["outputs"], "age": age}})
    assert detector.attributes == ("gender", "age")
    found = judged(detector, [red_and_green()] * len(SCENES), weights=ANYWHERE)
    assert [each.label or each.reason for each in found[:4]] == ["male", "young", "no_face", "no_face"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"face_filter": "yunet_face"}, "did you mean 'yunet_faces'"),
        ({"person_filter": {"max_area_ratio": 50}}, "less than or equal to 1"),
        ({"without_person": "keep"}, "'whole_image' or 'filter'"),
        ({"classifier": {"kind": "svm"}}, "'clip', 'onnx'"),
        ({"classifier": {"kind": "clip", "prompts": {"man": "a", "woman": "b"}}}, "'man', which is no class"),
        ({"classifier": {"kind": "onnx", "network": "a.onnx"}}, "is missing"),
        ({"crop": {}}, "unknown key 'crop'"),
    ],
)
def test_mistakes_in_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_detector("clip_enhance", parameters=parameters)
    assert message in str(error.value)


def test_unknown_class_of_an_onnx_classifier(network: dict[str, Any]) -> None:
    network["outputs"]["gender"]["classes"] = ["man", "woman"]
    with pytest.raises(ConfigError, match="unknown class 'man'"):
        enhance(network)


# On real networks


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def joined_image_set(shared: Path, folder: Path, *, portraits: int) -> Path:
    """All group scenes, and some of the portraits, as one image set."""
    folder.mkdir()
    tables: dict[str, list[dict[str, str]]] = {"images": [], "prompts": [], "labels": []}
    for name, limit in (("group_scenes", None), ("t2i_portraits", portraits)):
        source = shared / "data" / name
        images = list(rows_of(source / "images.csv"))
        step = 1 if limit is None else len(images) // limit
        images = images[::step][:limit]
        chosen = {row["image_id"] for row in images}
        for row in images:
            target = folder / row["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / row["path"], target)
        tables["images"] += images
        tables["prompts"] += rows_of(source / "prompts.csv")
        tables["labels"] += [
            row
            for row in rows_of(source / "labels.csv")
            if row["image_id"] in chosen and row["attribute"] == "gender"
        ]
    for name, columns in (("images", IMAGE_COLUMNS), ("prompts", PROMPT_COLUMNS), ("labels", LABEL_COLUMNS)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore", restval="")
            writer.writeheader()
            writer.writerows(tables[name])
    return folder


def composition_study(shared: Path, image_set: Path) -> dict[str, Any]:
    """FaceRes behind the filters of CLIP-Enhance, and behind the face filter alone."""
    faceres = yaml.safe_load((Path(__file__).parents[1] / "configs" / "detectors" / "faceres.yaml").read_text())
    classifier = {name: faceres[name] for name in ("kind", "network", "input", "outputs")}
    # At the default overlap of 0.7, YOLOv8n often boxes one person twice.
    persons = {"kind": "yolo_persons", "overlap_threshold": 0.5}
    whole = {"kind": "clip_enhance", "face_filter": "yunet_faces", "persons": persons, "classifier": classifier}
    return {
        "image_set": str(image_set),
        "attributes": ["gender"],
        "detectors": [
            {"name": "composition", **whole},
            {"name": "face-alone", **whole, "person_filter": None, "crop_to_person": False},
        ],
    }


def composition_rates(shared: Path, folder: Path, *, portraits: int) -> dict[tuple[str, str], float]:
    """Filter rate and recall of both, by detector and metric."""
    image_set = joined_image_set(shared, folder / "set", portraits=portraits)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(composition_study(shared, image_set)))
    result = Study.from_yaml(path).run(folder / "out", weights_dir=shared / "weights")
    metrics = result.metrics
    chosen = metrics[
        (metrics["t2i_model"] == "all") & (metrics["category"] == "all") & (metrics["prompt_id"] == "all")
    ]
    return {(row.detector, row.metric): row.value for row in chosen.itertuples()}


@pytest.mark.slow
def test_the_composition_filters_more_than_its_face_filter_alone(shared: Path, tmp_path: Path) -> None:
    rates = composition_rates(shared, tmp_path, portraits=6)
    assert rates["composition", "filter_rate"] > rates["face-alone", "filter_rate"] + 0.1


@pytest.mark.slow
def test_the_composition_keeps_clear_portraits(shared: Path, tmp_path: Path) -> None:
    rates = composition_rates(shared, tmp_path, portraits=384)
    assert rates["composition", "filter_rate"] > rates["face-alone", "filter_rate"] + 0.1
    assert rates["composition", "recall"] > 0.95
    assert rates["composition", "f1"] > rates["face-alone", "f1"]
    # FaceRes was made for faces; on the person it still sees more than on the whole image.
    assert rates["composition", "accuracy"] > rates["face-alone", "accuracy"]
