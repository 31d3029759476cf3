"""A result folder made again and compared: an untouched one passes, every forgery is found and its file named."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench_next.errors import ConfigError
from detector_bench_next.figures import write_figures
from detector_bench_next.files import sha256_file
from detector_bench_next.registry import load_plugin
from detector_bench_next.results import Results
from detector_bench_next.study import Study
from detector_bench_next.verify import verify
from tests_next.studies import PLUGIN, write_image_set, write_study

FIGURES = ["confusion", "shares"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two detectors with two figures."""
    load_plugin(PLUGIN)
    folder = tmp_path_factory.mktemp("verify")
    image_set = write_image_set(
        folder / "set", t2i_models=("sd", "xl"), prompts=3, images=6, annotators=("a", "b")
    )
    study = write_study(folder, image_set, "shade", {"kind": "shade", "name": "high", "bright_above": 200.0})
    results = (
        Study.open(study).with_settings({"intervals": {"resamples": 50}}).run(folder / "out", use_cache=False)
    )
    write_figures(results, folder / "out/figures", figures=FIGURES, formats=("png",))
    return folder


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    """A copy of the folder and its image set, that a test may forge."""
    shutil.copytree(original, tmp_path / "all")
    return tmp_path / "all" / "out"


def checked(folder: Path, **options: int) -> tuple[bool, str]:
    outcome = verify(Results.open(folder, folder.parent / "set"), **options)
    return outcome.passed, outcome.text()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def record(folder: Path, name: str) -> None:
    """Make results.json say that a file is as it is now."""
    manifest = json.loads((folder / "results.json").read_text())
    for part in (
        manifest["files"],
        manifest["evidence"],
        *(own["files"] for own in manifest["predictions"].values()),
    ):
        for key in part:
            if name.endswith(key):
                part[key] = sha256_file(folder / name)
    (folder / "results.json").write_text(json.dumps(manifest))


def other_number(folder: Path) -> None:
    rows = list(csv.reader((folder / "metrics.csv").open()))
    at = rows[0].index("value")
    row = next(r for r in rows[1:] if r[at] not in ("", "0", "1"))
    row[at] = "0.999"
    with (folder / "metrics.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def other_prediction(folder: Path) -> None:
    path = next((folder / "predictions/shade").glob("*.parquet"))
    table = pq.read_table(path)
    labels = table["label"].to_pylist()
    at = next(i for i, label in enumerate(labels) if label)
    labels[at] = "male" if labels[at] == "female" else "female"
    column = pa.array(labels, table.schema.field("label").type)
    pq.write_table(table.set_column(table.column_names.index("label"), "label", column), path)


FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a number": (other_number, "metrics.csv"),
    "a number with its record": (lambda f: (other_number(f), record(f, "metrics.csv")), "metrics.csv"),
    "a table": (lambda f: edit(f / "tables/confusion.md", "shade", "shady"), "tables/confusion.md"),
    "a table with its record": (
        lambda f: (edit(f / "tables/confusion.md", "shade", "shady"), record(f, "tables/confusion.md")),
        "tables/confusion.md",
    ),
    "a setting": (lambda f: edit(f / "results.json", '"tolerance": 0.1', '"tolerance": 0.5'), "results.json"),
    "a count": (lambda f: edit(f / "results.json", '"images": 36', '"images": 360'), "results.json"),
    "a caption": (lambda f: edit(f / "figures/confusion.txt", "Predictions", "Right"), "figures/confusion.txt"),
    "another figure": (
        lambda f: shutil.copy(f / "figures/shares_double.png", f / "figures/confusion_double.png"),
        "figures/confusion_double.png",
    ),
    "a figure without its record": (
        lambda f: ((f / "figures/made.json").unlink(), edit(f / "figures/shares.txt", "Share", "Shares")),
        "figures/shares.txt",
    ),
    "an unknown verb": (lambda f: edit(f / "figures/made.json", '"figures"', '"evil"'), "figures/made.json"),
    "an added page": (lambda f: (f / "figures/fake.png").write_bytes(b"x"), "figures/fake.png"),
    "an added table": (lambda f: (f / "tables/fake.csv").write_text("a\n1\n"), "tables/fake.csv"),
    "an added file of numbers": (lambda f: (f / "best.csv").write_text("a\n1\n"), "best.csv"),
    "a removed table": (lambda f: (f / "tables/ranks.csv").unlink(), "tables/ranks.csv"),
    "a prediction": (other_prediction, "predictions/shade"),
    "a label": (lambda f: edit(f.parent / "set/labels.csv", ",female,", ",male,"), "metrics.csv"),
    "an image": (lambda f: (f.parent / "set/images/sd_p0_0.png").write_bytes(b"x"), "image sd_p0_0"),
    "the study": (lambda f: edit(f / "study.yaml", "bright_above: 200", "bright_above: 190"), "study.yaml"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_found_and_its_file_is_named(copy: Path, forgery: str) -> None:
    forge, name = FORGERIES[forgery]
    forge(copy)
    passed, text = checked(copy)
    assert not passed
    assert name in text


def test_an_untouched_folder_passes_and_predictions_come_out_again(copy: Path) -> None:
    passed, text = checked(copy, recompute=10)
    assert passed, text
    assert "proved predictions come out again (10 images)" in text


def test_a_forged_prediction_with_all_its_records_is_found_by_predicting_again(copy: Path) -> None:
    path = next((copy / "predictions/shade").glob("*.parquet"))
    facts = pq.read_schema(path).metadata
    other_prediction(copy)
    table = pq.read_table(path).replace_schema_metadata(facts)
    pq.write_table(table, path)
    study = Study.of(copy, copy.parent / "set")
    shutil.rmtree(copy / "figures")
    study.evaluate(copy)  # all numbers fit the forged prediction
    assert checked(copy)[0]
    passed, text = checked(copy, recompute=36)
    assert not passed
    assert "when predicted again" in text


def test_results_in_memory_cannot_be_verified() -> None:
    with pytest.raises(ConfigError, match="in memory alone"):
        verify(Results.of({}, {}, {}, {}))
