"""The kit for new detectors: files to begin with, every step on a picture, and the card."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_networks import mean_colour_classifier
from PIL import Image
from running import noise, plain

import detector_bench as db
from detector_bench.conformance.comparison import Pixels, Session
from detector_bench.detector_kit import described_detector
from detector_bench.detector_kit.annotated_picture import annotated, broken_lines, write_annotated
from detector_bench.detector_kit.new_files import write_new
from detector_bench.detector_kit.probes import CheckLine, CheckOutcome, Probes
from detector_bench.detector_kit.trial import TryOut
from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import boxes
from detector_bench.perception.stage import STAGES, Arrays, Frame, Stage, StageFunction
from detector_bench.runner.readiness import detector_readiness
from detector_bench.weights import WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
RED = plain(250, 20, 20, height=40, width=30)


class BrightBoxes(Stage):
    """A box around the right half of a picture that is not dark, and one around all of it that is half as wide."""

    kind = "kit_bright_boxes"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def run(frames: Any) -> list[Arrays]:
            return [self._boxes(frame) for frame in frames]

        return run

    @staticmethod
    def _boxes(frame: Frame) -> Arrays:
        height, width = frame.pixels.shape[:2]
        if frame.pixels.mean() < 20:
            return boxes([], [])
        found = [[width / 2, 0, width, height], [0, 0, width / 4, height / 4]]
        return boxes(found, [0.9, 0.25], np.array([[[width * 0.75, height / 2]]] * 2))


if "kit_bright_boxes" not in STAGES.names():
    STAGES.register("kit_bright_boxes", BrightBoxes)

PARAMETERS: dict[str, Any] = {
    "crop": {"boxes": "kit_bright_boxes"},
    "filters": [{"kind": "face", "faces": "kit_bright_boxes"}],
}


def colour_detector(folder: Path, **parameters: Any) -> Detector:
    """Red is male, blue is female, by how much more of the one there is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = mean_colour_classifier(folder / "net.onnx", [[8, -8], [0, 0], [-8, 8]], activation="Softmax")
    network = {"network": str(path), "input": {"scale": 1 / 255}, "outputs": {"gender": ["male", "female"]}}
    return build_detector("onnx", name="tried", parameters={**network, **PARAMETERS, **parameters})


# A trial


def test_every_step_is_there_with_its_result_and_its_time(tmp_path: Path) -> None:
    pixels = RED.copy()
    pixels[:, 15:] = (20, 20, 250)
    with TryOut(colour_detector(tmp_path), weights=ANYWHERE) as trying:
        first, second = trying.pixels(pixels), trying.pixels(plain(1, 1, 1))
    found, network = first.steps
    assert found.in_short == "2 boxes: 15 x 40 (0.9), 7 x 10 (0.25)" or found.in_short.startswith(
        "2 boxes: 15 x 40"
    )
    (seen,) = network.seen
    np.testing.assert_array_equal(seen, pixels[:, 15:])
    numbers = network.result["answers"]  # type: ignore[index]
    assert network.in_short == f"answers {numbers[0]:.4g}, {numbers[1]:.4g}"
    assert first.filters == (("face (kit_bright_boxes)", None),)
    (verdict,) = first.predictions
    assert (verdict.label, verdict.score) == ("female", pytest.approx(float(numbers[1])))
    assert set(first.loading) == {"kit_bright_boxes", "onnx_outputs"}
    assert second.loading == {}, "loaded once"
    assert all(step.milliseconds > 0 for step in first.steps)
    assert first.total_milliseconds == pytest.approx(
        sum(step.milliseconds for step in first.steps) + first.milliseconds
    )
    assert [step.in_short for step in second.steps] == ["no box", "nothing: there was no crop"]
    assert second.filters == (("face (kit_bright_boxes)", "no_face"),)
    assert [each.reason for each in second.predictions] == ["no_face"]


def test_a_picture_that_cannot_be_read_is_an_error_row(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nand no more")
    with TryOut(colour_detector(tmp_path), weights=ANYWHERE) as trying:
        for name in ("broken.png", "absent.png"):
            trial = trying.file(tmp_path / name)
            (verdict,) = trial.predictions
            assert verdict.status is db.Status.ERROR
            assert verdict.reason is not None
            assert str(tmp_path) not in verdict.reason
            assert annotated(trial).size[0] > 400


def test_no_size_is_broken_between_two_lines() -> None:
    assert broken_lines("onnx_outputs sees 28 x 37", 21) == ["onnx_outputs sees", "28 x 37"]


def test_the_picture_shows_boxes_in_their_places_and_what_the_network_saw(tmp_path: Path) -> None:
    pixels = plain(90, 90, 90, height=300, width=300)
    pixels[100:200, 200:250] = (0, 255, 0)
    with TryOut(colour_detector(tmp_path), weights=ANYWHERE) as trying:
        sheet = np.asarray(annotated(trying.pixels(pixels)))
    blue = (sheet == (0x00, 0x72, 0xB2)).all(axis=2)
    # The picture begins 16 points, of two pixels each, from the edges.
    columns = np.flatnonzero(blue[32 + 300])
    scale = 2
    assert any(abs(column - (32 + 150 * scale)) <= 6 for column in columns), "the left edge of the larger box"
    green = (sheet == (0, 255, 0)).all(axis=2)
    in_picture = green[:, : 32 + 300 * scale].sum()
    assert in_picture > 0
    assert green[:, 32 + 300 * scale + 10 :].sum() > 100, "the crop stands beside it, too"


def test_no_drawing_is_written_over_another(tmp_path: Path) -> None:
    with TryOut(colour_detector(tmp_path), weights=ANYWHERE) as trying:
        written = [
            write_annotated(trying.pixels(RED, name=f"{place}/one.png"), tmp_path / "out") for place in "ab"
        ]
    assert [path.name for path in written] == ["one_tried.png", "one_tried_2.png"]
    with Image.open(written[0]) as image:
        assert image.info["dpi"] == pytest.approx((144, 144), abs=0.1)


# Probes and the card


def probed(detector: Detector, *images: Pixels) -> dict[str, CheckLine]:
    with Session(detector, weights=ANYWHERE) as session:
        return {line.check: line for line in Probes(session, detector, images, tolerance=1e-4).lines()}


def test_a_sound_detector_passes_and_its_colours_count(tmp_path: Path) -> None:
    lines = probed(colour_detector(tmp_path), RED, plain(20, 20, 250, height=30, width=50))
    outcomes = {check: line.outcome for check, line in lines.items()}
    # It finds "faces" in everything that is not dark.
    told = {"a blank picture", "noise (seed 1)"}
    assert {check for check, outcome in outcomes.items() if outcome is CheckOutcome.TOLD} == told
    assert CheckOutcome.FAILED not in outcomes.values()
    assert all(lines[check].says.startswith("judged, though nobody is there: ") for check in told)


def test_one_that_is_surer_of_swapped_pictures_is_told_so(tmp_path: Path) -> None:
    # Warm pictures, as of skin; a network that was trained on them, given BGR for RGB.
    warm = [plain(200, 120, 100, height=30, width=30 + each) for each in range(3)]
    weights = [[8, -8], [0, 0], [2, -2]]
    path = mean_colour_classifier(tmp_path / "net.onnx", weights, activation="Softmax", bias=[-4, 4])
    parts = {"network": str(path), "outputs": {"gender": ["male", "female"]}}
    right, wrong = (
        build_detector("onnx", parameters={**parts, "input": {"scale": 1 / 255, "colour": colour}})
        for colour in ("RGB", "BGR")
    )
    assert probed(right, *warm)["red and blue swapped"].outcome is CheckOutcome.PASSED
    line = probed(wrong, *warm)["red and blue swapped"]
    assert line.outcome is CheckOutcome.TOLD
    assert "it may read BGR" in line.says
    grey = probed(right, plain(90, 90, 90))["red and blue swapped"]
    assert grey.says == "makes no difference on 0 pictures with colours"


@db.detector("test-fails-on-small", attributes=["gender"], needs_pixels=True)
class FailsOnSmall:
    """Divides by what is left of a small picture."""

    def predict(self, batch: db.Batch) -> list[db.Prediction]:
        return [
            db.Prediction.clear(each, "gender", "male", score=1 / (each.pixels.shape[1] // 10)) for each in batch
        ]


def test_a_detector_that_fails_on_one_pixel_is_told_where(tmp_path: Path) -> None:
    lines = probed(build_detector("test-fails-on-small"), RED)
    failed = {check for check, line in lines.items() if line.outcome is CheckOutcome.FAILED}
    assert failed == {"a picture of one pixel", "a picture of 8 x 2,000 pixels"}
    assert "ZeroDivisionError" in lines["a picture of one pixel"].says


@pytest.mark.slow
def test_the_card_holds_ways_probes_and_speed(tmp_path: Path) -> None:
    images = [noise(30, 20 + number, seed=number) for number in range(6)]
    card = db.check_card(colour_detector(tmp_path), images, weights=ANYWHERE)
    assert card.passed
    assert [line.check for line in card.lines[:6]][-1] == "in another process"
    assert card.speed is not None
    assert card.speed.images_per_second > 0
    page = card.as_markdown()
    assert page.startswith("# tried\n")
    assert all(f"| {line.check} | {line.outcome.value} |" in page for line in card.lines)


# A detector in a file of its own


def test_a_file_describes_one_detector(tmp_path: Path) -> None:
    colour_detector(tmp_path)
    file = tmp_path / "stranger.yaml"
    file.write_text("kind: onnx\nnetwork: net.onnx\ninput: {scale: 0.00392}\noutputs: {gender: [male, female]}\n")
    detector = described_detector(file)
    assert (detector.name, detector.attributes) == ("stranger", ("gender",))
    found = detector_readiness(detector, weights=WeightsLocator(beside=tmp_path))
    assert (found.ready, str(found)) == (True, "yes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image_set: x\ndetectors: [clip]\n", "is a study: give the name of one of its detectors"),
        ("network: net.onnx\n", "`kind` is missing"),
        ("kind: onnxx\n", "unknown detector 'onnxx': did you mean 'onnx'"),
        ("kind: onnx\nnetwork: net.onnx\noutputs: {gendr: [male]}\n", "file.yaml: detector 'file': outputs.gendr"),
    ],
)
def test_a_wrong_description_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        described_detector(tmp_path / "file.yaml")
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


# DetectorReadiness


def test_ready_is_said_only_of_what_judges_at_once(tmp_path: Path) -> None:
    nothing_here = WeightsLocator(cache=tmp_path)
    clip = detector_readiness(build_detector("clip_prob"), weights=nothing_here)
    if not clip.lacking:  # the packages are here
        assert not clip.ready
        assert str(clip).startswith("to fetch: ")
        assert "GB (openai/clip-vit-large-patch14)" in str(clip)
    offline = WeightsLocator(cache=tmp_path, allow_download=False)
    refused = detector_readiness(build_detector("clip_prob"), weights=offline)
    assert (refused.ready, refused.to_fetch) == (False, ())
    assert any("clip-vit-large-patch14" in line for line in refused.lacking)


# New files


@pytest.mark.parametrize("with_stage", [False, True])
def test_what_is_written_is_clean_python_under_any_name(tmp_path: Path, with_stage: bool) -> None:
    plugin, test = write_new("my-first_Detector", tmp_path / "new", with_stage=with_stage)
    assert (plugin.name, test.name) == ("my_first_detector.py", "test_my_first_detector.py")
    pytest.importorskip("ruff")
    for rules in (("check", "--select", "E,W,F,I,B,UP,N", "--line-length", "100"), ("format", "--check")):
        # Where it lies, as a stranger's: this package is a library there.
        line = [sys.executable, "-m", "ruff", *rules, "--isolated", "."]
        done = subprocess.run(line, cwd=plugin.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("with_stage", [False, True])
def test_what_is_written_runs_as_it_is(tmp_path: Path, with_stage: bool) -> None:
    for package in ("dlib", "skimage", "sklearn", "matplotlib"):
        pytest.importorskip(package)
    plugin, test = write_new("my-detector", tmp_path, with_stage=with_stage)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    if with_stage:  # once is enough: the test asks the same
        return
    checked = in_a_process("detectors", "check", "my-detector", "--plugin", plugin, "--json")
    assert checked.returncode == 0, checked.stderr
    rows = json.loads(checked.stdout)["rows"]
    assert {row["outcome"] for row in rows if row["table"] == "checks"} <= {"passed", "told"}


@pytest.mark.slow
def test_nothing_is_written_over(tmp_path: Path) -> None:
    plugin, test = write_new("mine", tmp_path)
    test.write_text("mine")
    plugin.unlink()
    refusals: dict[str, Callable[[], object]] = {
        "test_mine.py' is there already": lambda: write_new("mine", tmp_path),
        "'1st' is no name for a detector": lambda: write_new("1st", tmp_path),
        "there is a detector 'clip' already": lambda: write_new("clip", tmp_path, taken=["clip"]),
        "in the place of the module 'numpy'": lambda: write_new("Numpy", tmp_path),
        "in the place of the module 'json'": lambda: write_new("ours", tmp_path / "json.py"),
    }
    for message, refused in refusals.items():
        with pytest.raises(ConfigError, match=message):
            refused()
    assert test.read_text() == "mine"
    assert not plugin.exists()


# The commands


def in_a_process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "detector_bench", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_six_lines_of_yaml_and_one_command_to_a_verdict(tmp_path: Path) -> None:
    colour_detector(tmp_path)
    lines = "kind: onnx\nnetwork: net.onnx\ninput: {scale: 0.00392}\noutputs: {gender: [male, female]}\n"
    assert len(lines.splitlines()) <= 6
    (tmp_path / "stranger.yaml").write_text(lines)
    Image.fromarray(RED).save(tmp_path / "red.png")
    arguments = ["detectors", "try", tmp_path / "stranger.yaml", tmp_path / "red.png", tmp_path / "none.png"]
    done = in_a_process(*arguments, "--out", tmp_path / "tried")
    assert done.returncode == 0, done.stderr
    assert "  gender: male (1.00)\n" in done.stdout
    assert "  gender: error: missing_file" in done.stdout
    assert len(list((tmp_path / "tried").iterdir())) == 2
    alone = in_a_process("detectors", "try", tmp_path / "stranger.yaml", tmp_path / "none.png")
    assert alone.returncode == 1
