"""From labels to a calibration file, and from there to detectors of another study: scores, promises, notes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from onnx_networks import mean_colour_classifier
from PIL import Image
from running import judged, plain
from small_parts import write_csv
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError, DetectorBenchError, WeightsError
from detector_bench.perception.calibration import CalibrationFile, ScoreCalibration
from detector_bench.perception.identity import fingerprint
from detector_bench.sealed import read_sealed, seal_of, write_sealed
from detector_bench.study import Results, Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.vocabulary.score_maps import Temperature
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
GAIN = 0.06
"""Of the network's logits: three times as large as the labels say they should be."""
READING = {"read": "classes", "output": "numbers", "classes": ["male", "female"], "activation": "softmax"}


def write_images(folder: Path, *, prompts: int, seed: int, first: int = 0) -> Path:
    """Six images of each prompt; the redder, the likelier a man."""
    random = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    images, labels = [], []
    for number in range(6 * prompts):
        name, prompt = f"i{number:03d}", f"p{first + number // 6:02d}"
        red = int(random.integers(0, 256))
        Image.fromarray(plain(red, 128, 255 - red)).save(folder / "images" / f"{name}.png")
        images.append((name, f"images/{name}.png", "sd", prompt))
        is_man = random.random() < 1 / (1 + np.exp(-GAIN / 3 * (2 * red - 255)))
        labels.append((name, "a", "gender", "male" if is_man else "female", ""))
    write_csv(folder / "images.csv", IMAGE_COLUMNS, images)
    write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)
    ids = [f"p{first + number:02d}" for number in range(prompts)]
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, [(each, "job", each, f"a photo of {each}") for each in ids])
    return folder


def network(folder: Path, *, gain: float = GAIN, name: str = "net.onnx") -> Path:
    return mean_colour_classifier(folder / name, [[gain, 0], [0, 0], [0, gain]])


def described(path: Path, **reading: Any) -> dict[str, Any]:
    """A detector of a study file."""
    settings = {"kind": "onnx", "network": str(path), "input": {"size": [4, 4]}}
    return {**settings, "outputs": {"gender": {**READING, **reading}}}


def detector(path: Path, **reading: Any) -> Detector:
    settings = described(path, **reading)
    return build_detector(settings.pop("kind"), name="tried", parameters=settings)


def run(folder: Path, image_set: Path, **detectors: dict[str, Any]) -> Results:
    entries = [{"name": name, **settings} for name, settings in detectors.items()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump({"image_set": str(image_set), "detectors": entries}))
    return Study.from_yaml(folder / "study.yaml").run(folder / "out", use_cache=False)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of 20 prompts, its results, and the calibration file of its detector."""
    folder = tmp_path_factory.mktemp("calibrated")
    images = write_images(folder / "images", prompts=20, seed=1)
    results = run(folder, images, sharp=described(network(folder)))
    results.calibrate("sharp", file=folder / "sharp.json")
    return folder


def verdicts(results: Results, name: str) -> pd.DataFrame:
    found = results.verdicts()
    return found[found["detector"] == name].set_index("image_id")


# The file


def test_the_temperature_is_found_and_lowers_the_losses_on_other_prompts(fitted: Path) -> None:
    file = CalibrationFile.read(fitted / "sharp.json")
    found = file.attributes["gender"]
    assert isinstance(found.score_map, Temperature)
    assert found.score_map.temperature == pytest.approx(3, rel=0.35)
    assert (found.images, found.confidence) == (120, 0.95)
    assert file.fitted_on.image_set == "images"
    assert [each.prompt for each in file.fitted_on.prompts][:2] == ["a photo of p00", "a photo of p01"]
    numbers = Results.open(fitted / "out").calibrate("sharp").numbers["calibration"]
    change = numbers[(numbers["metric"] == "log_loss") & (numbers["scores"] == "change")].iloc[0]
    assert change["ci_low"] < change["value"] < 0
    assert (change["n"], change["n_prompts"]) == (120, 20)
    told = numbers.set_index(["metric", "scores"])["value"]
    assert told["log_loss", "change"] == pytest.approx(
        told["log_loss", "out_of_sample"] - told["log_loss", "uncalibrated"]
    )
    assert told["log_loss", "in_sample"] < told["log_loss", "out_of_sample"] < told["log_loss", "uncalibrated"]


def test_the_command_writes_the_same_file_with_tables_and_numbers(fitted: Path, tmp_path: Path) -> None:
    def call(*arguments: object) -> Any:
        return CliRunner().invoke(
            app, ["calibrate", str(fitted / "out"), "--detector", "sharp", *map(str, arguments)]
        )

    assert call("--out", tmp_path / "there").exit_code == 0
    assert (tmp_path / "there" / "calibration_sharp.json").read_bytes() == (fitted / "sharp.json").read_bytes()
    assert {path.name for path in (tmp_path / "there").iterdir()} == {
        *("calibration_sharp.json", "calibration_sharp.csv", "promised_errors_sharp.csv", "tables"),
    }
    assert call("--out", tmp_path / "own.json", "--method", "isotonic").exit_code == 0
    assert read_sealed(tmp_path / "own.json")["attributes"]["gender"]["score_map"]["method"] == "isotonic"
    refused = call("--out", tmp_path / "none", "--method", "platt").exception
    assert str(refused).startswith("--method 'platt': ")
    assert not (tmp_path / "none").exists()


# Its use


def test_scores_are_calibrated_and_classes_stay(fitted: Path, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", prompts=4, seed=2, first=50)
    path, file = fitted / "net.onnx", str(fitted / "sharp.json")
    results = run(
        tmp_path, images, plain=described(path), calibrated=described(path, calibration=file, min_score=0.8)
    )
    before, after = verdicts(results, "plain"), verdicts(results, "calibrated")
    score_map = CalibrationFile.read(fitted / "sharp.json").attributes["gender"].score_map
    expected = score_map(before["score"].to_numpy(np.float64))
    np.testing.assert_allclose(after["score"].to_numpy(np.float64), expected, atol=1e-9)
    sure = expected >= 0.8
    assert 0 < sure.sum() < len(sure)
    assert (after["label"][sure] == before["label"][sure]).all()
    assert set(after["reason"][~sure]) == {"uncertain"}
    assert results.reader.manifest.calibration_notes == ()


@pytest.mark.parametrize("reading", ["classes", "binary", "taxonomy"])
def test_every_reading_with_a_score_abstains_where_the_promise_asks_it(
    fitted: Path, tmp_path: Path, reading: str
) -> None:
    promised = CalibrationFile.read(fitted / "sharp.json").attributes["gender"].promises
    [error, lowest] = next(
        (each.error, each.threshold) for each in promised if each.unit == "image" and (each.threshold or 0) > 0.5
    )
    told = {"calibration": str(fitted / "sharp.json"), "abstain": {"error": error, "unit": "image"}}
    shares = mean_colour_classifier(tmp_path / "shares.onnx", [[1 / 255, 0], [0, 0], [0, 1 / 255]])
    readings = {
        "classes": {"read": "classes", "output": "numbers", "classes": ["male", "female"]},
        "taxonomy": {"read": "classes", "output": "numbers", "taxonomy": {"man": "male", "woman": "female"}},
    }
    if reading == "binary":
        shares = mean_colour_classifier(tmp_path / "share.onnx", [[1 / 255], [0], [0]])
        readings["binary"] = {"read": "binary", "output": "numbers", "classes": ["male", "female"]}
    settings = described(shares)
    settings["outputs"] = {"gender": {**readings[reading], **told}}
    tried = build_detector(settings.pop("kind"), name="tried", parameters=settings)
    assert lowest is not None
    above, below = int(np.ceil(255 * lowest)), int(255 * lowest) - 1
    found = judged(tried, [plain(red, 0, 255 - red) for red in (above, below, 255 - above)], weights=ANYWHERE)
    assert [each.label or each.reason for each in found] == ["male", "uncertain", "female"]
    score_map = CalibrationFile.read(fitted / "sharp.json").attributes["gender"].score_map
    assert found[0].score == pytest.approx(float(score_map(np.array(above / 255))), abs=1e-5)


def test_the_files_content_decides_the_fingerprint_and_its_absence_changes_none(
    fitted: Path, tmp_path: Path
) -> None:
    def identity(**reading: Any) -> Any:
        return detector(fitted / "net.onnx", **reading).identity(weights=ANYWHERE)

    assert set(identity()["parameters"]["parameters"]["outputs"]["gender"]["parameters"]) == {
        *("read", "output", "classes", "taxonomy", "decide", "activation", "min_score"),
    }
    copy = tmp_path / "copy.json"
    copy.write_bytes((fitted / "sharp.json").read_bytes())
    one, other = (identity(calibration=str(path)) for path in (fitted / "sharp.json", copy))
    assert one == other != identity()
    content = read_sealed(copy)
    content["attributes"]["gender"]["score_map"]["temperature"] = 1.5
    write_sealed(copy, content)
    assert identity(calibration=str(copy)) != one
    stage = ScoreCalibration(file=str(copy), attribute="gender")  # type: ignore[arg-type]
    assert fingerprint(stage, weights=ANYWHERE)


def test_a_detector_that_does_not_apply_a_calibration_says_so(fitted: Path) -> None:
    reading = detector(fitted / "net.onnx", calibration=str(fitted / "sharp.json")).implementation.outputs[
        "gender"
    ]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="does not apply it"):
        reading.verdict(np.array([1.0, 2.0]))


# What is told


def test_prompts_that_fitted_the_calibration_and_another_network_are_told(fitted: Path, tmp_path: Path) -> None:
    file = str(fitted / "sharp.json")
    other = network(tmp_path, gain=0.01, name="other.onnx")
    results = run(
        tmp_path,
        fitted / "images",
        same=described(fitted / "net.onnx", calibration=file),
        other=described(other, calibration=file),
    )
    notes = results.reader.manifest.calibration_notes
    assert len(notes) == 3
    assert notes[0].startswith(
        "same: 20 of 20 prompts are among those that its calibration (sharp.json, fitted on"
    )
    assert notes[1].startswith("other: 20 of 20 prompts")
    assert notes[2].startswith("other: its calibration")
    assert "is that of 'sharp', whose stages are not those here" in notes[2]
    with pytest.raises(ConfigError, match="'same' is calibrated already"):
        results.calibrate("same")


@pytest.mark.slow
def test_nothing_can_be_told_of_a_file_that_is_gone(fitted: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes((fitted / "sharp.json").read_bytes())
    results = run(tmp_path, fitted / "images", lost=described(fitted / "net.onnx", calibration=str(copy)))
    copy.unlink()
    anew = results.study.evaluate(results.folder, results.folder)
    assert anew.reader.manifest.calibration_notes[0].startswith(
        "lost: whether its calibration was fitted on these"
    )


def tampered(content: dict[str, Any]) -> str:
    content["attributes"]["gender"]["score_map"]["temperature"] = 0.1
    return json.dumps(content)


def sealed(*keys: str, value: Any) -> Any:
    """What a stranger can seal as well as the command."""

    def change(content: dict[str, Any]) -> str:
        part = content
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        return json.dumps({**content, "seal": seal_of(content)})

    return change


NO_SHARES = {"method": "isotonic", "scores": [0.1, math.nan, 0.3], "shares": [0.1, math.nan, 0.3]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (sealed("attributes", "gender", "score_map", "temperature", value=math.inf), "temperature: "),
        (sealed("attributes", "gender", "score_map", value=NO_SHARES), "isotonic.scores.1: "),
        (sealed("attributes", "gender", "confidence", value=math.nan), "confidence: "),
        (tampered, "its seal does not fit"),
        (lambda _: "{}", "is no calibration file as `detector-bench calibrate` writes it: fitted_on"),
        (lambda _: "[1]", "it is no JSON object"),
        (lambda _: None, "broken.json"),
    ],
)
def test_a_file_that_is_none_is_one_line(fitted: Path, tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "broken.json"
    text = change(json.loads((fitted / "sharp.json").read_bytes()))
    if text is not None:
        path.write_text(text)
    with pytest.raises(WeightsError) as error:
        ScoreCalibration(file=str(path), attribute="gender").load(ANYWHERE)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attribute": "age"}, "sharp.json has no calibration of 'age' (it has: gender)"),
        ({"attribute": "gender", "abstain": {"error": 0.01}}, "cannot be promised from 120 images of gender"),
        ({"attribute": "gender", "abstain": {"error": 0.123}}, "(what can: 0.2"),
    ],
)
def test_what_a_file_cannot_give_is_one_line(fitted: Path, settings: dict[str, Any], message: str) -> None:
    stage = ScoreCalibration.model_validate({"file": str(fitted / "sharp.json"), **settings})
    with pytest.raises(ConfigError) as error:
        stage.load(ANYWHERE)
    assert message in str(error.value)
    assert stage.mistakes(ANYWHERE) == (str(error.value),), "also before any image is judged"
    assert ScoreCalibration(file="gone.json", attribute="age").mistakes(ANYWHERE) == ()  # type: ignore[arg-type]


def test_a_promise_without_a_file_is_a_mistake(fitted: Path) -> None:
    with pytest.raises(ConfigError, match="abstain needs `calibration`"):
        detector(fitted / "net.onnx", abstain={"error": 0.05})
    with pytest.raises(ConfigError, match="abstain needs `calibration`"):
        build_detector("clip", parameters={"abstain": {"error": 0.05}})


def test_clip_reads_the_file_in_all_its_forms(fitted: Path) -> None:
    told = {"calibration": str(fitted / "sharp.json"), "abstain": {"error": 0.2, "unit": "image"}}
    for kind in ("clip", "clip_prob", "clip_uncertain"):
        assert "score_calibration" in [stage.kind for stage in build_detector(kind, parameters=told).stages]
        assert "score_calibration" not in [stage.kind for stage in build_detector(kind).stages]
    whole = build_detector("clip_enhance", parameters={"classifier": {"kind": "clip", **told}})
    assert "score_calibration" in [stage.kind for stage in whole.stages]


# What cannot be fitted


def test_what_says_nothing_about_scores_is_counted(fitted: Path, tmp_path: Path) -> None:
    results = run(tmp_path, fitted / "images", unsure=described(fitted / "net.onnx", min_score=0.9))
    found = results.calibrate("unsure")
    kept = int((verdicts(results, "unsure")["status"] == "clear").sum())
    assert found.numbers["calibration"]["n"].unique().tolist() == [kept]
    assert any(f"{120 - kept} images of a class were filtered as uncertain" in note for note in found.notes)


def test_failures_and_scores_of_0_or_1_are_counted(fitted: Path, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", prompts=2, seed=3)
    (images / "images" / "i004.png").write_bytes(b"no picture")
    found = run(tmp_path, images, certain=described(network(tmp_path, gain=9))).calibrate("certain")
    assert any("left out of the fit are images 1 without a verdict" in note for note in found.notes)
    assert any("11 of 11 scores are 0 or 1, and count as 1e-07 away from it" in note for note in found.notes)
    assert not any("0 or 1" in note for note in Results.open(fitted / "out").calibrate("sharp").notes)


def test_a_temperature_of_more_than_two_classes_is_refused(fitted: Path, tmp_path: Path) -> None:
    ages = write_images(tmp_path / "images", prompts=2, seed=3)
    rows = pd.read_csv(ages / "labels.csv", keep_default_na=False)
    rows["attribute"], rows["label"] = "age", np.where(rows["label"] == "male", "young", "elderly")
    rows.to_csv(ages / "labels.csv", index=False)
    settings = described(fitted / "net.onnx")
    settings["outputs"] = {"age": {**READING, "classes": ["young", "elderly"]}}
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump(
            {"image_set": str(ages), "attributes": ["age"], "detectors": [{"name": "ages", **settings}]}
        )
    )
    results = Study.from_yaml(tmp_path / "study.yaml").run(tmp_path / "out", use_cache=False)
    with pytest.raises(DetectorBenchError, match="age has 3 classes, and only the winner"):
        results.calibrate("ages")
    assert set(results.calibrate("ages", method="isotonic").numbers["calibration"]["n"]) == {12}
    with pytest.raises(ConfigError, match="--confidence 1"):
        results.calibrate("ages", method="isotonic", confidence=1)
