"""FairFace on a network of its real class: equal to its authors' steps, done one image at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dlib
import numpy as np
import pytest
from fairface_networks import saved_resnet
from onnx import helper
from onnx_networks import save
from running import Pixels, frames_of, judged, noise, plain, portraits, run_stages

from detector_bench.detectors import Detector, build_detector
from detector_bench.detectors.fairface import AGE, GENDER, RACE7, read_answer
from detector_bench.errors import ConfigError, DetectorBenchError, MissingExtraError, WeightsError
from detector_bench.perception.faces.aligned_faces import AlignedFaces
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.faces.dlib_resizing import sides_for
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.networks.fairface_outputs import FairfaceOutputs, prepare
from detector_bench.perception.stage import Batch, Frame, StageFunction
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES, FACE_LANDMARKS_5
from detector_bench.weights.files import WeightsFile

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
MIDDLES = (1, 6, 14.5, 24.5, 34.5, 44.5, 54.5, 64.5, 75)  # of FairFace's nine bins of ages
SIDE = 240  # of images in most tests here: dlib's own detector takes 20 s for one of 800 pixels


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("torchvision")
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def network(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_resnet(torch, tmp_path_factory.mktemp("fairface") / "race7.pt", seed=0)


@pytest.fixture(scope="module")
def exported(torch: Any, network: Path) -> Path:
    import torchvision  # type: ignore[import-untyped,unused-ignore]

    model = torchvision.models.resnet34(weights=None, num_classes=18).eval()
    model.load_state_dict(torch.load(network, weights_only=True))
    path = network.with_suffix(".onnx")
    example = torch.zeros(1, 3, 224, 224)
    torch.onnx.export(
        model, (example,), path, dynamo=False, dynamic_axes={"input": {0: "images"}}, input_names=["input"]
    )
    return path


@pytest.fixture(scope="module")
def faces(shared: Path) -> list[Pixels]:
    """Three portraits of 480 pixels, one of them cut to be no square."""
    first, second, third = portraits(shared, 3)
    return [first, np.ascontiguousarray(second[:, 60:430]), third]


def fairface(network: Path, **parameters: Any) -> Detector:
    """The detector for images of `SIDE` pixels."""
    small = {"faces": {"kind": "dlib_cnn_onnx_faces", "longest_side": SIDE}, "longest_side": SIDE}
    return build_detector("fairface", parameters={**small, "network": str(network), **parameters})


Steps = Callable[..., list[list[float]]]


@pytest.fixture(scope="module")
def authors_steps(torch: Any, network: Path) -> Steps:
    """FairFace's program in our words: with the libraries that it uses, one image at a time."""
    import torchvision  # type: ignore[import-untyped,unused-ignore]

    if ANYWHERE.find(DLIB_CNN_FACES) is None:
        pytest.skip("the package face-recognition-models, which carries dlib's network, is not installed")
    detector = dlib.cnn_face_detection_model_v1(str(ANYWHERE.locate(DLIB_CNN_FACES)))
    predictor = dlib.shape_predictor(str(ANYWHERE.locate(FACE_LANDMARKS_5)))
    model = torchvision.models.resnet34(weights=None)
    model.fc = torch.nn.Linear(model.fc.in_features, 18)
    model.load_state_dict(torch.load(network, weights_only=True))
    model.eval()

    def steps(image: Pixels, *, side: int, upsample: int) -> list[list[float]]:
        """Gender, age and race of the largest face."""
        height, width = image.shape[:2]
        small = dlib.resize_image(image, *reversed(sides_for(width=width, height=height, longest_side=side)))
        rectangle = max((face.rect for face in detector(small, upsample)), key=lambda each: each.area())
        chip = dlib.get_face_chip(small, predictor(small, rectangle), size=300, padding=0.25)
        with torch.no_grad():
            numbers = model(torchvisions_input(chip)[None])[0]
        return [torch.softmax(numbers[part], 0).tolist() for part in (slice(7, 9), slice(9, 18), slice(7))]

    return steps


def torchvisions_input(chip: Pixels) -> Any:
    from torchvision import transforms  # type: ignore[import-untyped,unused-ignore]

    steps = [
        transforms.ToPILImage(),
        transforms.Resize((224, 224)),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
    return transforms.Compose(steps)(chip)


def probabilities(raw: str | None) -> list[float]:
    return list(json.loads(raw or "")["probabilities"].values())


# Against the authors' steps


@pytest.mark.slow
def test_probabilities_are_those_of_the_authors_steps(
    authors_steps: Steps, network: Path, faces: list[Pixels]
) -> None:
    predictions = judged(fairface(network), faces[:2], weights=ANYWHERE)
    assert [prediction.attribute for prediction in predictions] == ["gender", "age", "race"] * 2
    assert len({prediction.raw for prediction in predictions}) == 6
    for image, three in zip(faces, (predictions[:3], predictions[3:]), strict=False):
        expected = authors_steps(image, side=SIDE, upsample=0)
        for prediction, shares, answers in zip(three, expected, (GENDER, AGE, RACE7), strict=True):
            np.testing.assert_allclose(probabilities(prediction.raw), shares, atol=1e-4)
            assert prediction.label == answers.mapping.labels[int(np.argmax(shares))]
            years = np.dot(shares, MIDDLES) if prediction.attribute == "age" else None
            assert prediction.value == (None if years is None else pytest.approx(years, abs=1e-2))


@pytest.mark.slow
def test_probabilities_are_those_of_the_authors_steps_at_their_size(
    authors_steps: Steps, network: Path, faces: list[Pixels]
) -> None:
    detector = build_detector("fairface", parameters={"network": str(network)})
    predictions = judged(detector, faces[1:2], weights=ANYWHERE)
    expected = authors_steps(faces[1], side=800, upsample=1)
    for prediction, shares in zip(predictions, expected, strict=True):
        np.testing.assert_allclose(probabilities(prediction.raw), shares, atol=1e-4)


def test_the_input_is_torchvisions(torch: Any) -> None:
    for chip in (noise(300, 300), plain(3, 250, 77, height=300, width=300), noise(224, 224)):
        np.testing.assert_allclose(prepare(chip), torchvisions_input(chip).numpy(), atol=1e-6)


# The network


@pytest.mark.slow
def test_an_onnx_export_gives_the_same_numbers(network: Path, exported: Path, faces: list[Pixels]) -> None:
    frames = frames_of([*faces, plain(0, 0, 0, height=64, width=64)])
    chips = AlignedFaces(faces=DlibHogFaces(), longest_side=None)
    both = [FairfaceOutputs(chips=chips, network=WeightsFile(path=str(path))) for path in (network, exported)]
    assert [stage.extra for stage in both] == ["fairface", "onnx"]
    run_stages(both, frames, weights=ANYWHERE)
    assert frames[3][both[0]] == frames[3][both[1]] == {}
    for frame in frames[:3]:
        np.testing.assert_allclose(frame[both[0]]["logits"], frame[both[1]]["logits"], atol=1e-4)
    assert np.abs(frames[0][both[0]]["logits"] - frames[1][both[0]]["logits"]).max() > 1e-3


def logits_of(chips: list[Pixels], function: StageFunction, stage: FairfaceOutputs) -> list[Any]:
    frames = frames_of(chips)
    for frame, chip in zip(frames, chips, strict=True):
        frame.results[stage.chips] = {"chip": chip}
    return [found["logits"] for found in function(frames)]  # type: ignore[index]


@pytest.mark.parametrize("ending", ["pt", "onnx"])
def test_batch_after_batch_gives_the_same_numbers(network: Path, exported: Path, ending: str) -> None:
    """What is loaded once judges every batch of a run, whatever its size, and not the first alone."""
    stage = FairfaceOutputs(network=WeightsFile(path=str(network if ending == "pt" else exported)))
    function = stage.load(ANYWHERE)
    chips = [noise(300, 300, seed=seed) for seed in range(6)]
    together = logits_of(chips, function, stage)
    in_parts = [row for part in (chips[:1], chips[1:4], chips[4:]) for row in logits_of(part, function, stage)]
    np.testing.assert_allclose(in_parts, together, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 1e-3
    assert function([Frame("none", results={stage.chips: {}})]) == [{}]


@pytest.mark.slow
def test_bfloat16_gives_nearly_the_same_numbers(network: Path, faces: list[Pixels]) -> None:
    frames = frames_of(faces[:1])
    chips = AlignedFaces(faces=DlibHogFaces(), longest_side=None)
    file = WeightsFile(path=str(network))
    exact, short = (FairfaceOutputs(chips=chips, network=file, precision=each) for each in ("float32", "bfloat16"))
    run_stages([exact, short], frames, weights=ANYWHERE)
    one, other = frames[0][exact]["logits"], frames[0][short]["logits"]
    assert other.dtype == np.float32
    assert 0 < np.abs(one - other).max() < 0.1


def test_files_that_are_not_the_network_are_named(torch: Any, network: Path, tmp_path: Path) -> None:
    def state() -> Any:
        return torch.load(network, weights_only=True)

    def without_a_layer() -> Any:
        return {name: tensor for name, tensor in state().items() if name != "layer3.2.bn1.weight"}

    saved_resnet(torch, tmp_path / "thousand.pt", seed=0, outputs=1000)
    torch.save(without_a_layer(), tmp_path / "less.pt")
    torch.save({**state(), "head.weight": torch.zeros(3)}, tmp_path / "more.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save(SimpleNamespace(code="run"), tmp_path / "pickle.pt")
    (tmp_path / "page.pt").write_text("<html>Google Drive: sign in</html>")
    for name, message in {
        "thousand.pt": r"ResNet-34 with 18 outputs: 'fc.weight' is \[1000, 512\], expected \[18, 512\]",
        "less.pt": r"'layer3.2.bn1.weight' is missing, expected \[256\]",
        "more.pt": r"it also holds 'head.weight'",
        "list.pt": r"'conv1.weight' is missing",
        "pickle.pt": r"PyTorch cannot read .*pickle\.pt",
        "page.pt": r"PyTorch cannot read .*page\.pt",
    }.items():
        with pytest.raises(WeightsError, match=message) as caught:
            FairfaceOutputs(network=WeightsFile(path=str(tmp_path / name))).load(ANYWHERE)
        assert "\n" not in str(caught.value)


def tiny_onnx(
    path: Path, *, shape: tuple[Any, ...] = ("n", 3, 224, 224), outputs: int = 18, fill: float = 0.0
) -> Path:
    """Averages an image to three numbers, and makes of them `outputs` ones."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights", "bias"], ["out"]),
    ]
    constants = {
        "weights": np.linspace(-1, 1, 3 * outputs, dtype=np.float32).reshape(3, outputs),
        "bias": np.full(outputs, fill, np.float32),
    }
    return save(path, nodes, inputs={"image": shape}, outputs={"out": None}, constants=constants)


def outputs_of(path: Path, chips: list[Pixels]) -> Any:
    stage = FairfaceOutputs(network=WeightsFile(path=str(path)))
    frames = frames_of(chips)
    for frame, chip in zip(frames, chips, strict=True):
        frame.results[stage.chips] = {"chip": chip}
    return stage.load(ANYWHERE)(frames)


def test_onnx_files_that_are_not_the_network_are_named(tmp_path: Path) -> None:
    chips = [noise(300, 300), noise(300, 300, seed=1)]
    wrong_input = tiny_onnx(tmp_path / "input.onnx", shape=("n", 3, 112, 112))
    with pytest.raises(ConfigError, match=r"input\.onnx: the input has the shape .*112"):
        outputs_of(wrong_input, chips)
    with pytest.raises(ConfigError, match=r"shape \[2, 7\] for 2 images, expected \[2, 18\]"):
        outputs_of(tiny_onnx(tmp_path / "seven.onnx", outputs=7), chips)
    with pytest.raises(ValueError, match="not finite") as caught:
        outputs_of(tiny_onnx(tmp_path / "nan.onnx", fill=float("nan")), chips)
    assert not isinstance(caught.value, DetectorBenchError)


def test_an_onnx_network_for_one_image_runs_one_by_one(tmp_path: Path) -> None:
    chips = [noise(300, 300), plain(200, 10, 90, height=300, width=300)]
    free = outputs_of(tiny_onnx(tmp_path / "free.onnx"), chips)
    one = outputs_of(tiny_onnx(tmp_path / "one.onnx", shape=(1, 3, 224, 224)), chips)
    for first, second in zip(free, one, strict=True):
        np.testing.assert_allclose(first["logits"], second["logits"], atol=1e-6)


def test_a_missing_file_says_where_it_is() -> None:
    with pytest.raises(WeightsError, match=r"res34_fair_align_multi_7_20190809.pt.*github.com/dchen236/FairFace"):
        FairfaceOutputs().load(WeightsLocator(cache=Path("nowhere"), allow_download=False))


def test_a_missing_package_is_named(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"'torchvision'"):
        FairfaceOutputs(network=WeightsFile(path=str(network))).load(ANYWHERE)


# Reading the answers


def test_answers_worked_out_by_hand() -> None:
    logits = np.zeros(18, np.float32)
    logits[5] = np.log(6)  # Indian: 6 of 12
    logits[8] = np.log(3)  # Female: 3 of 4
    logits[9:18] = np.log([1, 1, 1, 3, 4, 1, 1, 2, 2])  # of 16: 6 young, 6 middle-aged, 4 elderly
    race, gender, age = (read_answer(logits, answers) for answers in (RACE7, GENDER, AGE))
    assert (race.label, round(race.score, 6)) == ("south_asian", 0.5)
    assert (gender.label, round(gender.score, 6)) == ("female", 0.75)
    # The likeliest bin is 30-39 with 4 of 16; its group is middle-aged with 4 + 1 + 1.
    assert (age.label, round(age.score, 6)) == ("middle_aged", 0.375)
    assert json.loads(age.raw or "")["answer"] == "30-39"
    # (1 + 6 + 14.5 + 3 x 24.5 + 4 x 34.5 + 44.5 + 54.5 + 2 x 64.5 + 2 x 75) / 16
    assert age.value == pytest.approx(611 / 16)
    assert (race.value, gender.value) == (None, None)
    assert json.loads(race.raw or "")["probabilities"] == {
        "White": 0.0833,
        "Black": 0.0833,
        "Latino_Hispanic": 0.0833,
        "East Asian": 0.0833,
        "Southeast Asian": 0.0833,
        "Indian": 0.5,
        "Middle Eastern": 0.0833,
    }


def test_words_bins_and_classes_belong_together() -> None:
    # The words' order is that of the network's outputs; what they mean is tested with the mappings.
    assert [each.mapping.source.name for each in (RACE7, GENDER, AGE)] == [
        "fairface_race7",
        "fairface_gender2",
        "fairface_age9",
    ]
    assert (GENDER.first, AGE.first, RACE7.first) == (7, 9, 0)


def test_large_numbers_do_not_overflow() -> None:
    logits = np.full(18, -1e4, np.float32)
    logits[7] = 1e4
    found = read_answer(logits, GENDER)
    assert (found.label, found.score) == ("male", 1.0)


# The detector


def verdicts(detector: Detector, logits: dict[Any, Any]) -> dict[str, Any]:
    frame = Frame("one", results={stage: {"logits": values} for stage, values in logits.items()})
    return {each.attribute: each for each in detector.predict(Batch([frame]))}


def test_four_races_come_from_their_own_network(tmp_path: Path) -> None:
    seven, four = tiny_onnx(tmp_path / "seven.onnx"), tiny_onnx(tmp_path / "four.onnx", fill=1.0)
    detector = fairface(seven, races=4, race_network=str(four))
    outputs, race_outputs = detector.stages
    assert (outputs.network.path, race_outputs.network.path) == (str(seven), str(four))  # type: ignore[attr-defined]
    logits = np.zeros(18, np.float32)
    logits[[8, 13]] = 5
    other = np.zeros(18, np.float32)
    other[2], other[4], other[7] = 5, 9, 9  # the fifth number is no race here
    found = verdicts(detector, {outputs: logits, race_outputs: other})
    assert (found["gender"].label, found["age"].label, found["race"].label) == (
        "female",
        "middle_aged",
        "east_asian",
    )
    assert found["race"].score == pytest.approx(np.e**5 / (np.e**5 + 3))
    assert json.loads(found["race"].raw)["answer"] == "Asian"
    southeast = fairface(seven, races=4, race_network=str(four), asian_as="southeast_asian")
    assert verdicts(southeast, {outputs: logits, race_outputs: other})["race"].label == "southeast_asian"


def test_one_file_for_both_is_one_pass(tmp_path: Path) -> None:
    file = tiny_onnx(tmp_path / "four.onnx")
    assert len(set(fairface(file, races=4, race_network=str(file)).stages)) == 1
    assert len(set(fairface(file, races=7).stages)) == 1


def test_seven_races_need_no_second_file(tmp_path: Path) -> None:
    detector = fairface(tiny_onnx(tmp_path / "seven.onnx"))
    nowhere = WeightsLocator(cache=tmp_path / "cache", allow_download=False)
    assert detector.identity(weights=nowhere)["kind"] == "fairface"
    assert fairface(Path("race7.pt"), races=4).stages[1].weights()[0].name == "fairface_alldata_4race_20191111.pt"


def test_no_face_is_filtered_for_every_attribute(tmp_path: Path) -> None:
    detector = fairface(tiny_onnx(tmp_path / "seven.onnx"))
    found = judged(detector, [plain(200, 200, 200, height=80, width=80)], weights=ANYWHERE)
    assert [(each.attribute, each.status, each.reason) for each in found] == [
        (attribute, "filtered", "no_face") for attribute in ("gender", "age", "race")
    ]


def test_a_filter_gives_its_reason(tmp_path: Path, shared: Path) -> None:
    first, _, third = portraits(shared, 3)
    faces = {"kind": "dlib_cnn_onnx_faces"}
    single = {"kind": "single_subject", "boxes": faces, "max_area_ratio": 0.1}
    detector = fairface(tiny_onnx(tmp_path / "seven.onnx"), faces=faces, longest_side=None, filters=[single])
    found = judged(detector, [np.hstack([first, third]), third], weights=ANYWHERE)
    assert [each.reason for each in found[:3]] == ["several_people"] * 3
    assert [each.status for each in found[3:]] == ["clear"] * 3


def test_the_device_is_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    file = WeightsFile(path=str(tiny_onnx(tmp_path / "seven.onnx")))
    prints = {
        fingerprint(FairfaceOutputs(network=file, **fields), weights=ANYWHERE)
        for fields in ({}, {"device": "cpu"}, {"device": "cuda"})
    }
    assert len(prints) == 1


def test_the_default_is_the_published_program() -> None:
    outputs, race_outputs = build_detector("fairface").stages
    assert outputs == race_outputs
    chips = outputs.inputs()[0]
    (faces,) = chips.inputs()
    assert faces == DlibCnnOnnxFaces(longest_side=800, upsample=1)
    assert (chips.longest_side, chips.size, chips.padding) == (800, 300, 0.25)  # type: ignore[attr-defined]
