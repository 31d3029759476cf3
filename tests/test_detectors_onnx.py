"""`kind: onnx`: filter, crop, classify, read, with networks whose verdicts can be worked out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_networks import mean_colour_classifier, save
from running import frames_of, judged, plain, portraits

from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import Batch
from detector_bench.perception.yolo import YoloPersons
from detector_bench.study_file import resolve_detector
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
RED, GREEN, GREY = plain(255, 0, 0), plain(0, 255, 0), plain(51, 51, 51)
GENDER = {"read": "classes", "output": "numbers", "classes": ["male", "female"]}


def classifier(path: Path, outputs: dict[str, dict[str, Any]], **parameters: Any) -> Detector:
    settings = {
        "network": str(path),
        "input": {"size": [4, 4], "scale": 1 / 255, **parameters.pop("input", {})},
        "outputs": outputs,
        **parameters,
    }
    return build_detector("onnx", name="tried", parameters=settings)


def verdicts(detector: Detector, *images: np.ndarray) -> list[tuple[Any, ...]]:
    found = judged(detector, images, weights=ANYWHERE)
    assert [each.image_id for each in found] == [str(number) for number in range(len(images))]
    return [
        (each.status.value, each.label or each.reason, None if each.score is None else round(each.score, 5))
        for each in found
    ]


# Verdicts


def test_six_lines_describe_a_network(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]], activation="Softmax")
    short = {"network": str(path), "input": {"scale": 1 / 255}, "outputs": {"gender": ["male", "female"]}}
    spelt_out = classifier(path, {"gender": {**GENDER, "output": "answers"}})
    assert verdicts(build_detector("onnx", parameters=short), RED, GREEN) == verdicts(spelt_out, RED, GREEN)


def test_of_several_outputs_one_has_to_be_named(tmp_path: Path) -> None:
    two = helper.make_node("Identity", ["image"], ["again"]), helper.make_node("Identity", ["image"], ["twice"])
    shape = ["N", 3, 4, 4]
    path = save(tmp_path / "net.onnx", two, inputs={"image": shape}, outputs={"again": shape, "twice": shape})
    unnamed = build_detector("onnx", parameters={"network": str(path), "outputs": {"gender": ["male", "female"]}})
    with pytest.raises(ConfigError, match=r"has 2 outputs: say which one .* \(accepted: again, twice\)"):
        judged(unnamed, [RED], weights=ANYWHERE)
    both = {"gender": ["male", "female"], "age": {"read": "age", "output": "twice"}}
    with pytest.raises(ConfigError, match="gender has no `output`, which others name"):
        build_detector("onnx", parameters={"network": str(path), "outputs": both})


@pytest.mark.parametrize(("layout", "batch"), [("NCHW", "N"), ("NHWC", "N"), ("NCHW", 1), ("NHWC", 1)])
def test_probabilities_of_classes(tmp_path: Path, layout: str, batch: int | str) -> None:
    # The red share is the probability of male, the green share that of female.
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]], layout=layout, batch=batch)
    detector = classifier(path, {"gender": GENDER}, input={"layout": layout})
    assert verdicts(detector, RED, GREEN, plain(153, 204, 0), GREY) == [
        ("clear", "male", 1),
        ("clear", "female", 1),
        ("clear", "female", 0.8),
        ("clear", "male", 0.2),  # both 0.2: the first of equals
    ]


def test_softmax_in_the_network_or_outside_it(tmp_path: Path) -> None:
    matrix = [[1, 0], [0, 1], [0, 0]]
    inside = mean_colour_classifier(tmp_path / "inside.onnx", matrix, activation="Softmax")
    outside = mean_colour_classifier(tmp_path / "outside.onnx", matrix)
    # e / (e + 1) = 0.73106
    expected = [("clear", "male", 0.73106), ("clear", "female", 0.73106)]
    assert verdicts(classifier(inside, {"gender": {**GENDER, "output": "answers"}}), RED, GREEN) == expected
    assert verdicts(classifier(outside, {"gender": {**GENDER, "activation": "softmax"}}), RED, GREEN) == expected


def test_sigmoid_in_the_network_or_outside_it(tmp_path: Path) -> None:
    matrix, bias = [[2], [0], [0]], [-1]
    inside = mean_colour_classifier(tmp_path / "inside.onnx", matrix, bias=bias, activation="Sigmoid")
    outside = mean_colour_classifier(tmp_path / "outside.onnx", matrix, bias=bias)
    # 1 / (1 + 1/e) = 0.73106 for red; 1 / (1 + e) for green, so that the other class has 0.73106.
    expected = [("clear", "male", 0.73106), ("clear", "female", 0.73106)]
    reading = {"read": "binary", "classes": ["male", "female"]}
    assert verdicts(classifier(inside, {"gender": {**reading, "output": "answers"}}), RED, GREEN) == expected
    other = {"gender": {**reading, "output": "numbers", "activation": "sigmoid"}}
    assert verdicts(classifier(outside, other), RED, GREEN) == expected


def test_three_races(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", np.eye(3).tolist())
    reading = {"read": "classes", "output": "numbers", "classes": ["white", "black", "south_asian"]}
    detector = classifier(path, {"race": reading})
    assert detector.attributes == ("race",)
    assert verdicts(detector, plain(51, 102, 0), plain(0, 102, 204)) == [
        ("clear", "black", 0.4),
        ("clear", "south_asian", 0.8),
    ]


def test_class_uncertain_filters(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", np.eye(3).tolist())
    detector = classifier(path, {"gender": {**GENDER, "classes": ["male", "female", "uncertain"]}})
    assert verdicts(detector, RED, plain(0, 51, 102)) == [("clear", "male", 1), ("filtered", "uncertain", 0.4)]


def test_low_probability_filters(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]])
    detector = classifier(path, {"gender": {**GENDER, "min_score": 0.78}})
    assert verdicts(detector, plain(204, 51, 0), plain(102, 153, 0), plain(0, 255, 0)) == [
        ("clear", "male", 0.8),
        ("filtered", "uncertain", 0.6),
        ("clear", "female", 1),
    ]


def test_expected_age_and_gender_from_two_outputs(tmp_path: Path) -> None:
    # Ages 20, 21, 22 with the shares of red, green and blue; the gender is male from red + green.
    constants = {"matrix": np.float32([[1], [1], [0]])}
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["age"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["age", "matrix"], ["male"]),
    ]
    path = save(
        tmp_path / "net.onnx",
        nodes,
        inputs={"image": ["N", 3, 4, 4]},
        outputs={"age": ["N", 3], "male": ["N", 1]},
        constants=constants,
    )
    detector = classifier(
        path,
        {
            "age": {"read": "age", "output": "age", "first_age": 28.5},
            "gender": {"read": "binary", "output": "male", "classes": ["male", "female"]},
        },
    )
    assert detector.attributes == ("age", "gender")
    found = judged(detector, [plain(51, 102, 102), plain(0, 51, 204)], weights=ANYWHERE)
    ages = {each.image_id: each for each in found if each.attribute == "age"}
    # 28.5 x 0.2 + 29.5 x 0.4 + 30.5 x 0.4 = 29.7; 29.5 x 0.2 + 30.5 x 0.8 = 30.3
    assert ages["0"].value == pytest.approx(29.7, abs=1e-4)
    assert ages["1"].value == pytest.approx(30.3, abs=1e-4)
    assert (ages["0"].label, ages["1"].label) == ("young", "middle_aged")
    assert (ages["0"].score, ages["1"].score) == (None, None)
    genders = {each.image_id: (each.label, each.score) for each in found if each.attribute == "gender"}
    assert genders == {"0": ("male", pytest.approx(0.6)), "1": ("female", pytest.approx(0.8))}


def test_the_networks_own_words_and_bins(tmp_path: Path) -> None:
    # Red, green and blue are the words of both outputs.
    path = mean_colour_classifier(tmp_path / "net.onnx", np.eye(3).tolist())
    race = {"north": "white", "south": "black", "elsewhere": None}
    ages = {"minor": "young", "adult": "middle_aged", "pensioner": "elderly"}
    detector = classifier(
        path,
        {
            "race": {"read": "classes", "output": "numbers", "taxonomy": race},
            "age": {"read": "bins", "output": "numbers", "taxonomy": ages, "years": [10, 40, 70]},
        },
    )
    assert detector.classes == {"race": ("white", "black"), "age": ("young", "middle_aged", "elderly")}
    found = judged(detector, [plain(153, 51, 51), plain(0, 51, 204)], weights=ANYWHERE)
    first_race, first_age, second_race, second_age = found
    assert (first_race.status, first_race.label, first_race.score) == ("clear", "white", pytest.approx(0.6))
    assert first_race.raw == (
        '{"answer": "north", "probabilities": {"north": 0.6, "south": 0.2, "elsewhere": 0.2}}'
    )
    # 0.6 x 10 + 0.2 x 40 + 0.2 x 70
    assert (first_age.label, first_age.value) == ("young", pytest.approx(28, abs=1e-4))
    assert (second_race.status, second_race.reason, second_race.label) == ("filtered", "other_class", None)
    assert second_race.score is None
    assert json.loads(second_race.raw or "")["answer"] == "elsewhere"
    # 0.2 x 40 + 0.8 x 70
    assert (second_age.status, second_age.label) == ("clear", "elderly")
    assert second_age.value == pytest.approx(64, abs=1e-4)


CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "detectors"


def test_gear_and_faceres_give_age_and_race_beside_gender(shared: Path) -> None:
    images = portraits(shared, 6)
    weights = WeightsLocator(cache=Path("nowhere"), folders=[shared / "weights"])
    found = {}
    for name in ("gear", "faceres"):
        entry = resolve_detector(
            {"extends": f"{name}.yaml", "crop": {"boxes": "yunet_faces"}}, folder=CONFIGS, place=""
        )
        detector = build_detector("onnx", name=name, parameters=entry["parameters"])
        found[name] = judged(detector, images, weights=weights)
    assert [each.attribute for each in found["gear"]] == ["gender", "age", "race"] * 6
    assert [each.attribute for each in found["faceres"]] == ["gender", "age"] * 6
    years = [each.value for name in found for each in found[name] if each.attribute == "age"]
    assert all(year is not None and 15 <= year <= 60 for year in years), years
    # Of the first four, the one annotator says the same: the order of the words is that of the network's outputs.
    races = [each.label for each in found["gear"] if each.attribute == "race"]
    assert races[:4] == ["white", "east_asian", "east_asian", "black"]
    for each in found["gear"]:
        if each.attribute == "race":
            shares = json.loads(each.raw or "")["probabilities"]
            assert list(shares) == ["white", "black", "asian", "indian", "other"]
            assert sum(shares.values()) == pytest.approx(1, abs=3e-4)


# Filters and crop


def test_first_filter_that_objects_gives_the_reason_and_the_crop_the_last(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]])
    detector = classifier(
        path,
        {"gender": GENDER},
        filters=[
            {"kind": "face", "faces": "yunet_faces"},
            {"kind": "single_subject", "boxes": "yolo_persons", "max_area_ratio": 0.5},
        ],
        crop={"boxes": "yolo_persons"},
    )
    faces, persons, network = YuNetFaces(), YoloPersons(), detector.implementation.classifier
    assert set(detector.stages) == {faces, persons, network}
    assert network.inputs() == (persons,)
    # Red on the left half, green on the right half.
    image = np.concatenate([RED, GREEN], axis=1)
    left, right, half = [0, 0, 8, 8], [8, 0, 16, 8], [8, 0, 12, 8]
    cases = [
        ([left], [left], ("clear", "male")),
        ([left], [right], ("clear", "female")),
        ([left], [left, half], ("clear", "male")),  # exactly half as large
        ([left], [left, right], ("filtered", "several_people")),
        ([], [left, right], ("filtered", "no_face")),
        ([left], [], ("filtered", "no_person")),
        ([], [], ("filtered", "no_face")),
    ]
    frames = frames_of([image] * len(cases))
    for frame, (face, person, _) in zip(frames, cases, strict=True):
        frame.results[faces] = boxes(face, [1.0] * len(face))
        frame.results[persons] = boxes(person, [1.0] * len(person))
    for frame, result in zip(frames, network.load(ANYWHERE)(frames), strict=True):
        frame.results[network] = result
    found = [(each.status.value, each.label or each.reason) for each in detector.predict(Batch(frames))]
    assert found == [expected for *_, expected in cases]


def test_every_attribute_of_a_filtered_image_is_filtered(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", np.eye(3).tolist())
    readings = {"gender": {**GENDER, "classes": ["male", "female", "uncertain"]}}
    readings["race"] = {"read": "classes", "output": "numbers", "classes": ["white", "black", "south_asian"]}
    detector = classifier(path, readings, crop={"boxes": "yunet_faces", "reason": "nobody_looks"})
    (frame,) = frames_of([RED])
    frame.results = {YuNetFaces(): boxes([], []), detector.implementation.classifier: {}}
    found = detector.predict(Batch([frame]))
    assert {(each.attribute, each.status, each.reason) for each in found} == {
        ("gender", Status.FILTERED, "nobody_looks"),
        ("race", Status.FILTERED, "nobody_looks"),
    }


# Mistakes in the configuration stop the run with a message instead of failing on every image


def test_wrong_number_of_classes(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", np.eye(3).tolist())
    with pytest.raises(ConfigError, match="output 'numbers' has 3 numbers for 2 classes"):
        judged(classifier(path, {"gender": GENDER}), [RED], weights=ANYWHERE)
    binary = {"read": "binary", "output": "numbers", "classes": ["male", "female"]}
    with pytest.raises(ConfigError, match="output 'numbers' has 3 numbers where one is expected"):
        judged(classifier(path, {"gender": binary}), [RED], weights=ANYWHERE)


def test_raw_numbers_are_not_taken_for_probabilities(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[3], [0], [0]])
    binary = {"read": "binary", "output": "numbers", "classes": ["male", "female"]}
    with pytest.raises(ConfigError, match="holds 3, which is no probability: set its `activation`"):
        judged(classifier(path, {"gender": binary}), [RED], weights=ANYWHERE)
    with_sigmoid = classifier(path, {"gender": {**binary, "activation": "sigmoid"}})
    assert verdicts(with_sigmoid, RED) == [("clear", "male", round(1 / (1 + math.exp(-3)), 5))]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"outputs": {"gendr": GENDER}}, "unknown attribute 'gendr': did you mean 'gender'"),
        (
            {"outputs": {"gender": {**GENDER, "classes": ["man", "woman"]}}},
            "unknown class 'man' of 'gender' (accepted: male, female)",
        ),
        (
            {"outputs": {"gender": {"read": "age", "output": "numbers"}}},
            "unknown class 'young' of 'gender' (accepted: male, female)",
        ),
        (
            {"outputs": {"gender": {"output": "numbers"}}},
            "outputs.gender: the key 'read' is missing",
        ),
        (
            {"outputs": {"gender": {"read": "classes", "output": "numbers", "taxonomy": "gear_race5"}}},
            "unknown class 'white' of 'gender' (accepted: male, female)",
        ),
        (
            {"outputs": {"race": {"read": "classes", "output": "numbers", "taxonomy": "gear_race"}}},
            "outputs.race.classes.taxonomy: unknown taxonomy or mapping 'gear_race': did you mean 'gear_race5'",
        ),
        (
            {"outputs": {"race": {"read": "classes", "output": "numbers"}}},
            "outputs.race.classes: either `classes`, in our words, or `taxonomy`, in the network's; not both",
        ),
        ({"crop": {"boxes": "yunet_facs"}}, "crop.boxes: unknown stage 'yunet_facs': did you mean 'yunet_faces'"),
        (
            {"crop": {"boxes": {"kind": "yunet_faces", "score_treshold": 0.5}}},
            "crop.boxes: stage 'yunet_faces': score_treshold: "
            "unknown key 'score_treshold': did you mean 'score_threshold'",
        ),
        ({"crop": {"boxes": 3}}, "crop.boxes: a stage is its name, or a mapping with its name as `kind`; got 3"),
        ({"crop": {"marjin": 1.2}}, "crop.marjin: unknown key 'marjin': did you mean 'margin'?"),
        ({"filtrs": []}, "filtrs: unknown key 'filtrs': did you mean 'filters'"),
        ({"input": {"size": [4, 4], "scale": "much"}}, "input.scale: Input should be a valid number"),
        ({"network": {"path": "net.onnx", "sha": "0"}}, "network.sha: unknown key 'sha': did you mean 'sha256'?"),
    ],
)
def test_message_names_the_place_the_value_and_what_is_known(wrong: dict[str, Any], message: str) -> None:
    settings = {"network": "net.onnx", "input": {"size": [4, 4]}, "outputs": {"gender": GENDER}, **wrong}
    with pytest.raises(ConfigError) as raised:
        build_detector("onnx", name="tried", parameters=settings)
    assert str(raised.value).startswith(f"detector 'tried': {message}")


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        build_detector("onnx")
    assert str(raised.value).splitlines() == [
        "detector 'onnx': network: is missing",
        "detector 'onnx': outputs: is missing",
    ]
