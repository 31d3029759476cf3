"""FairFace beside its authors' own program, and beside what their real network gave for their five images.

Their `predict.py` runs as it was released, in a process and a folder of its own, with random weights in the format
of the published files.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fairface_networks import saved_resnet
from numpy.typing import NDArray
from PIL import Image
from running import Pixels, found_by, portraits, read_image
from small_parts import small_run, write_tables

from detector_bench.detectors import build_detector
from detector_bench.detectors.fairface import AGE, GENDER, RACE4, RACE7, OutputPart, read_answer
from detector_bench.perception.faces.aligned_faces import AlignedFaces
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES, FACE_LANDMARKS_5

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
SIDE = 240  # of most images here: dlib's own detector takes 20 s for one of 800 pixels

ASKED = {
    "race": ("race", "race_scores_fair"),
    "gender": ("gender", "gender_scores_fair"),
    "age": ("age", "age_scores_fair"),
}
"""By attribute, the columns of the authors' table: the word, and the probabilities."""

SMALLER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("predict", sys.argv[1])
predict = importlib.util.module_from_spec(spec)
spec.loader.exec_module(predict)
predict.ensure_dir("detected_faces")
images = predict.pd.read_csv("images.csv")["img_path"]
predict.detect_face(images, "detected_faces", default_max_size=int(sys.argv[2]))
predict.predidct_age_gender_race("test_outputs.csv", "detected_faces")
"""
"""What the program's last lines do, with its own parameter for the images' size."""


class Program(NamedTuple):
    """The authors' program in a folder with all that it reads.

    Attributes:
        folder: where it runs.
        file: `predict.py`.
        race7: the weights of seven races, gender and age.
        race4: those of four races.
    """

    folder: Path
    file: Path
    race7: Path
    race4: Path

    def judges(self, images: list[Path], *, side: int | None = None) -> pd.DataFrame:
        """Its table, by the image's name; with `side`, of images that are resized to so many pixels."""
        pd.DataFrame({"img_path": [str(path) for path in images]}).to_csv(self.folder / "images.csv", index=False)
        as_released = [str(self.file), "--csv", "images.csv"]
        arguments = as_released if side is None else ["-c", SMALLER, str(self.file), str(side)]
        # Where torchvision looks for the network of ImageNet, which the program asks for and then overwrites.
        environment = {**os.environ, "TORCH_HOME": str(self.folder / "torch"), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        table = pd.read_csv(self.folder / "test_outputs.csv")
        names = table["face_name_align"].str.extract(r"([^/]+)_face0\.", expand=False)
        assert not names.isna().any(), "one face in each of these images"
        return table.set_index(names)


@pytest.fixture(scope="module")
def upstream(shared: Path) -> Path:
    folder = shared / "upstream" / "fairface"
    if not (folder / "predict.py").is_file():
        pytest.skip(f"FairFace's released program is not in {folder}")
    return folder


@pytest.fixture
def program(upstream: Path, tmp_path: Path) -> Program:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    if ANYWHERE.find(DLIB_CNN_FACES) is None:
        pytest.skip("the package face-recognition-models, which carries dlib's network, is not installed")
    folder = tmp_path / "authors"
    for name in ("dlib_models", "fair_face_models", "torch/hub/checkpoints"):
        (folder / name).mkdir(parents=True)
    for file in (DLIB_CNN_FACES, FACE_LANDMARKS_5):
        (folder / "dlib_models" / file.name).symlink_to(ANYWHERE.locate(file))
    models = folder / "fair_face_models"
    saved_resnet(torch, folder / "torch/hub/checkpoints/resnet34-b627a593.pth", seed=2, outputs=1000)
    return Program(
        folder,
        upstream / "predict.py",
        saved_resnet(torch, models / "fairface_alldata_20191111.pt", seed=0),
        saved_resnet(torch, models / "fairface_alldata_4race_20191111.pt", seed=1),
    )


def written(images: list[Pixels], folder: Path) -> list[Path]:
    """The images as PNG files of an image set."""
    (folder / "images").mkdir(parents=True)
    paths = [folder / "images" / f"image_{number:03d}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    write_tables(folder, range(len(images)))
    return paths


def our_rows(out: Path, detector: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What we say, by image and attribute."""
    rows = pq.read_table(out / detector).to_pylist()
    return {(row["image_id"], row["attribute"]): row for row in rows}


def numbers_in(printed: str) -> NDArray[np.float64]:
    """The numbers of numpy's way of printing an array."""
    return np.array(ast.literal_eval("[" + ",".join(printed.strip("[] ").split()) + "]"), np.float64)


def assert_equal(ours: dict[str, Any], theirs: pd.Series, *, word: str, scores: str) -> None:
    """The same word, and the same probabilities within 1e-4, of which our four digits take up half."""
    raw = json.loads(ours["raw"])
    assert raw["answer"] == theirs[word]
    np.testing.assert_allclose(list(raw["probabilities"].values()), numbers_in(theirs[scores]), atol=1e-4)


@pytest.mark.slow
def test_words_and_probabilities_are_the_programs(program: Program, shared: Path, tmp_path: Path) -> None:
    first, second, *others = portraits(shared, 5)
    images = written([first, np.ascontiguousarray(second[:, 60:430]), *others], tmp_path / "set")
    theirs = program.judges(images, side=SIDE)
    assert len(theirs) == len(images)

    small = {
        "faces": {"kind": "dlib_cnn_onnx_faces", "longest_side": SIDE, "upsample": 1},
        "longest_side": SIDE,
        "network": str(program.race7),
        "device": "cpu",
    }
    seven = build_detector("fairface", name="seven", parameters=small)
    four = build_detector(
        "fairface", name="four", parameters={**small, "races": 4, "race_network": str(program.race4)}
    )
    # Two images at a time: what was loaded for the first batch has to judge the others as well.
    small_run(tmp_path / "set", tmp_path / "out", seven, four, batch_size=2)

    ours = our_rows(tmp_path / "out", "seven")
    for name, row in theirs.iterrows():
        for attribute, (word, scores) in ASKED.items():
            assert_equal(ours[str(name), attribute], row, word=word, scores=scores)
    race4 = our_rows(tmp_path / "out", "four")
    for name, row in theirs.iterrows():
        assert_equal(race4[str(name), "race"], row, word="race4", scores="race_scores_fair_4")
        assert race4[str(name), "age"]["raw"] == ours[str(name), "age"]["raw"]
    assert theirs["age_scores_fair"].nunique() == len(images), "every image gets numbers of its own"


@pytest.mark.slow
def test_the_released_command_gives_the_same_at_its_own_size(
    program: Program, shared: Path, tmp_path: Path
) -> None:
    # Narrow, because dlib's own detector takes its time over every pixel of the 800 x 800.
    (portrait,) = portraits(shared, 1)
    images = written([np.ascontiguousarray(portrait[:, 130:350])], tmp_path / "set")
    theirs = program.judges(images)
    detector = build_detector("fairface", parameters={"network": str(program.race7), "device": "cpu"})
    small_run(tmp_path / "set", tmp_path / "out", detector)
    ours = our_rows(tmp_path / "out", "fairface")
    for attribute, (word, scores) in ASKED.items():
        assert_equal(ours["image_000", attribute], theirs.loc["image_000"], word=word, scores=scores)


# What the authors' real network gave


@pytest.mark.parametrize(
    ("answers", "word", "scores"),
    [
        (RACE7, "race", "race_scores_fair"),
        (RACE4["east_asian"], "race4", "race_scores_fair_4"),
        (GENDER, "gender", "gender_scores_fair"),
        (AGE, "age", "age_scores_fair"),
    ],
)
def test_the_real_networks_numbers_are_read_as_its_authors_read_them(
    upstream: Path, answers: OutputPart, word: str, scores: str
) -> None:
    table = pd.read_csv(upstream / "test_outputs.csv")
    assert len(table) == 5
    for printed, answer in zip(table[scores], table[word], strict=True):
        shares = numbers_in(printed)
        logits = np.full(18, 30.0, np.float32)  # what belongs to the other attributes is not looked at
        logits[answers.first : answers.first + len(shares)] = np.log(shares)
        raw = json.loads(read_answer(logits, answers).raw or "")
        assert raw["answer"] == answer
        np.testing.assert_allclose(list(raw["probabilities"].values()), shares, atol=1e-4)


@pytest.mark.slow
def test_chips_are_those_that_the_real_program_cut(upstream: Path) -> None:
    """Within what JPEG and dlib's releases since then change: dlib 20 itself is 4.8 and 6.7 grey levels from the
    published chips of race_Black and race_White, and its chips are ours."""
    images = sorted((upstream / "test").glob("*.jpg"))
    published = [read_image(upstream / "detected_faces" / f"{image.stem}_face0.jpg") for image in images]
    ours = found_by(AlignedFaces(), [read_image(path) for path in images], weights=ANYWHERE)
    apart = np.array([[np.abs(found["chip"].astype(float) - chip).mean() for chip in published] for found in ours])
    assert len(images) == 5
    assert np.diag(apart).max() < 7
    assert (apart + 100 * np.eye(5)).min() > 30
