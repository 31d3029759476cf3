"""A result folder: written whole, read again, and compared with what is made anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pandas as pd
import pytest

from detector_bench_next import results as R
from detector_bench_next.attributes import built_in
from detector_bench_next.cells import count
from detector_bench_next.errors import ConfigError
from detector_bench_next.evaluate import Settings
from detector_bench_next.results import Results, Verification, compare_folder, csv_text, read_csv
from detector_bench_next.study import Study
from detector_bench_next.tables import show, texts
from tests_next.counted import cells_of, counted_of, results_of, small_set, write_predictions
from tests_next.studies import write_image_set, write_study

NOBODY = {"level": 0.95, "resamples": 50, "seed": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two detectors over 60 images."""
    place = tmp_path_factory.mktemp("results")
    images = write_image_set(place / "set", prompts=3, images=20, annotators=("ann", "ben"))
    detectors = ("shade", {"name": "dim", "kind": "shade", "bright_above": 90})
    study = write_study(place, images, *detectors, intervals=NOBODY, display_names={"dim": "Dim one"})
    Study.open(study).run(place / "out", use_cache=False)
    return place / "out"


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder's numbers made anew."""
    place = tmp_path_factory.mktemp("made") / "again"
    Study.of(folder).evaluate(place, predictions=folder)
    return place


def test_what_is_written_is_read_again(folder: Path) -> None:
    results = Results.open(folder)
    made = Results.of(results.counted, {}, results.settings, {})
    assert results.detectors == ["shade", "dim"]
    assert results.settings["resamples"] == 50
    assert results.manifest["study"]["display_names"] == {"dim": "Dim one"}
    assert set(results.manifest["predictions"]) == {"shade", "dim"}
    for name in ("confusion", "comparisons", "ranks", "verdicts", "t2i_models"):
        pd.testing.assert_frame_equal(results.table(name), made.table(name), check_dtype=False)
    numbers = {c: [""] for c in ("value", "ci_low", "ci_high")}
    stored = pd.read_csv(folder / "metrics.csv", keep_default_na=False, na_values=numbers)
    pd.testing.assert_frame_equal(results.metrics, stored, check_dtype=False)
    for name in ("causes", "agreement", "sweeps"):
        assert len(results.table(name))
    assert "shade" in repr(results) or "2 detectors" in repr(results)


def test_a_number_is_found_by_words_and_a_wrong_word_is_told(folder: Path) -> None:
    results = Results.open(folder)
    score = results.number("f1", detector="shade")
    assert (score.value, score.left_out) == (1.0, 0)
    assert results.number("images").value == 60
    for where, told in (
        ({"metric": "f2"}, "did you mean 'f1'"), ({"metric": "f1", "detector": "shad"}, "did you mean 'shade'"),
        ({"metric": "f1", "model": "x"}, "no model 'x'"),
        ({"metric": "f1", "detector": "ground_truth"}, "no f1 of ground_truth"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=told):
            results.number(where.pop("metric"), **where)
    with pytest.raises(ConfigError, match="did you mean 'causes'"):
        results.table("cause")


def test_errors_are_the_images_that_a_detector_gets_wrong(folder: Path) -> None:
    rows = Results.open(folder).table("errors")
    assert set(rows["detector"]) == {"dim"}, "shade is right by construction"
    assert set(zip(rows["truth"], rows["predicted"], strict=True)) == {("male", "female")}
    wrong = Results.open(folder).number("accuracy", detector="dim")
    assert len(rows) == round((1 - wrong.value) * wrong.n)
    assert len(Results.open(folder).table("predictions")) == 120


def test_files_and_sessions_of_a_run_are_tables(folder: Path) -> None:
    results = Results.open(folder)
    assert results.table("shards")[["detector", "images", "errors", "joined"]].to_numpy().tolist() == [
        ["dim", 60, 0, True], ["shade", 60, 0, True],
    ]  # fmt: skip
    (row,) = results.table("sessions").to_dict("records")
    assert (row["images"], row["left"], row["from_cache"]) == (60, 0, 0)
    (shown,) = show(results, "sessions")
    assert [c.metric for c in shown.columns[:3]] == ["shard", "began", "device"]


def test_the_manifest_is_removed_first_and_written_last(
    folder: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tables" / "mine.txt").write_text("mine")
    results = Results.open(tmp_path)
    results.manifest["study"] = {}
    assert (tmp_path / "tables" / "filtering_and_accuracy.csv").exists()
    fewer = Results.of(results.counted, {"metrics": results.metrics}, results.settings, results.manifest)
    R.write_results(tmp_path, fewer, {})
    left = sorted(p.name for p in (tmp_path / "tables").iterdir())
    assert left == ["mine.txt"], "what is no more goes, others' files stay"
    assert not (tmp_path / "confusion.csv").exists()
    with monkeypatch.context() as broken:
        broken.setattr(R, "write_csv", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            Study.of(folder).evaluate(tmp_path, predictions=folder)
    with pytest.raises(ConfigError, match=r"results\.json"):
        Results.open(tmp_path)


NEWER = '{"schema": 9, "settings": {}}'
UNFINISHED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda p: None, "there is no folder"),
    "another folder": (lambda p: p.mkdir(), "no result folder"),
    "half a folder": (lambda p: (p / "predictions").mkdir(parents=True), "not finished, it has predictions"),
    "damaged": (lambda p: (p.mkdir(), (p / "results.json").write_text("{")), "is damaged"),
    "newer": (lambda p: (p.mkdir(), (p / "results.json").write_text(NEWER)), "schema 9, here 1"),
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_what_is_no_finished_folder_is_told(tmp_path: Path, what: str) -> None:
    prepare, told = UNFINISHED[what]
    prepare(tmp_path / "x")
    with pytest.raises(ConfigError, match=told) as caught:
        Results.open(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_words_of_long_tables_stay_words(tmp_path: Path) -> None:
    words, values = ["007", "NA", "", "a,b"], [0.1, float("nan"), 1.0, 1e-300]
    frame = pd.DataFrame({"detector": words, "value": values, "n": [1, 2, 3, 4]})
    (tmp_path / "x.csv").write_text(csv_text(frame))
    again = read_csv(tmp_path / "x.csv")
    assert again["detector"].tolist() == ["007", "NA", "", "a,b"]
    assert again["value"].iloc[[0, 3]].tolist() == [0.1, 1e-300]
    assert csv_text(frame.iloc[:3]) == "detector,value,n\n007,0.1,1\nNA,,2\n,1,3\n", "no word is quoted, or all"


def test_numbers_in_memory_say_what_they_lack() -> None:
    table = [[[3, 1, 0, 0, 0], [0, 2, 0, 0, 0], [0] * 5, [0] * 5, [0] * 5]]
    results = results_of({"gender": counted_of(cells_of(table))})
    assert results.number("accuracy", detector="d").value == pytest.approx(5 / 6)
    with pytest.raises(ConfigError, match="in memory alone"):
        results.table("errors")


def test_contents_that_changed_between_detectors_are_noted(tmp_path: Path) -> None:
    image_set = small_set(tmp_path, ["a,m,p", "b,m,p"], ["a,ann,male", "b,ann,female"])
    rows = [{"detector": d, "image_id": i, "label": "male"} for d in "de" for i in "ab"]
    rows = [row | {"image_sha256": (row["detector"] + row["image_id"]) * 32} for row in rows]
    predictions = write_predictions(tmp_path / "predictions", rows)
    counted = {"gender": count(image_set, predictions, built_in()["gender"], ["d", "e"])}
    about = R.manifest_of(image_set, predictions, counted, {})
    assert about["notes"] == ["gender: e read 2 images with another content than the first detector did"]
    by = {"missing": {"d": 0, "e": 0}, "changed": {"d": 0, "e": 2}}
    assert about["counts"]["gender"] == {"images": 2, "labelled": 2, **by}
    assert "/" not in json.dumps({k: v for k, v in about.items() if k != "plugins"}), "no path of this machine"


# comparing


def test_the_same_made_again_does_not_differ(folder: Path, made: Path) -> None:
    assert compare_folder(made, folder) == []


def edit(name: str, was: str, now: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert was in text
        (folder / name).write_text(text.replace(was, now, 1), encoding="utf-8")

    return change


def adds(name: str) -> Callable[[Path], object]:
    return lambda folder: ((folder / name).parent.mkdir(exist_ok=True), (folder / name).write_text("{}"))


TEXT = "tables/filtering_and_accuracy.md"
FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a value": (edit("metrics.csv", "0.", "0.9"), "metrics.csv: different ("),
    "a text": (edit(TEXT, "100.00", "99.00"), f"{TEXT}: different"),
    "a sentence": (edit(TEXT, "clear images", "all images"), f"{TEXT}: different"),
    "a setting": (
        edit("results.json", '"n_clear": "detector"', '"n_clear": "human"'),
        "results.json: different (",
    ),
    "a file that is gone": (lambda p: (p / "confusion.csv").unlink(), "confusion.csv: gone"),
    "a table of nobody": (adds("tables/fake.csv"), "tables/fake.csv: made by nobody"),
    "numbers of nobody at the top": (adds("better.csv"), "better.csv: made by nobody"),
    "a page of nobody": (adds("own/made.json"), "own/made.json: made by nobody"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_file_is_named(made: Path, tmp_path: Path, what: str) -> None:
    forge, told = FORGED[what]
    forge(copytree(made, tmp_path / "forged"))
    found = compare_folder(made, tmp_path / "forged")
    assert [str(d).startswith(told) for d in found] == [True]
    verification = Verification({"numbers": "proved"}, tuple(found), "abc")
    assert not verification.passed
    assert told.partition(":")[0] in verification.text()


def test_last_digits_files_of_other_people_and_pictures_are_no_forgery(made: Path, tmp_path: Path) -> None:
    mine, real = copytree(made, tmp_path / "made"), copytree(made, tmp_path / "real")
    rows = read_csv(real / "tables/verdicts.csv")
    rows["ci_low"] += 5e-5
    (real / "tables/verdicts.csv").write_text(csv_text(rows))
    (real / "notes.txt").write_text("mine")
    (real / "slides").mkdir()
    (real / "slides/one.csv").write_text("x\n")
    for place, byte in ((mine, b"a"), (real, b"b")):
        (place / "figures").mkdir()
        (place / "figures/one.png").write_bytes(byte)
    found = compare_folder(mine, real)
    assert [(d.file, d.kind) for d in found] == [("figures/one.png", "open")]
    assert Verification({}, tuple(found)).passed


def test_texts_of_tables_stand_in_the_folder(folder: Path) -> None:
    results = Results.open(folder)
    for name, text in texts(results).items():
        assert (folder / "tables" / name).read_text(encoding="utf-8") == text
    assert "Dim one" in (folder / "tables/filtering_and_accuracy.md").read_text()
    assert "dim," in (folder / "tables/filtering_and_accuracy.csv").read_text()
    assert Settings(**{k: results.settings[k] for k in Settings._fields}).resamples == 50


def in_folder_of_parquet(images: Path) -> Path:
    """Make the labels a folder of Parquet files."""
    (images / "labels.parquet").mkdir()
    path = images / "labels.parquet/one.parquet"
    pd.read_csv(images / "labels.csv", dtype=str, keep_default_na=False).to_parquet(path)
    (images / "labels.csv").unlink()
    return path


def relabelled(images: Path) -> None:
    rows = pd.read_csv(images / "labels.csv", dtype=str, keep_default_na=False)
    rows.assign(label="female", reason="").to_csv(images / "labels.csv", index=False)


def relabelled_in_parquet(images: Path) -> None:
    path = images / "labels.parquet/one.parquet"
    pd.read_parquet(path).assign(label="female", reason="").to_parquet(path)


def reworded(images: Path) -> None:
    path = images / "attributes/mood.yaml"
    path.write_text(path.read_text().replace("Serene", "Calm"))


@pytest.mark.parametrize(
    ("parquet", "change"),
    [(False, None), (False, relabelled), (True, None), (True, relabelled_in_parquet), (False, reworded)],
)
def test_a_run_keeps_its_results_only_where_nothing_has_changed(
    tmp_path: Path, parquet: bool, change: Callable[[Path], None] | None
) -> None:
    images = write_image_set(tmp_path / "images", images=6)
    (images / "attributes").mkdir()
    (images / "attributes/mood.yaml").write_text(
        "name: mood\nclasses: [{name: calm, text: Serene}, {name: tense}]\n"
    )
    if parquet:
        in_folder_of_parquet(images)
    study = Study.open(write_study(tmp_path, images)).with_settings({"intervals": {"resamples": 20}})
    clear = study.run(tmp_path / "out", use_cache=False).number("images_clear").value
    written = (tmp_path / "out/results.json").stat().st_mtime_ns
    if change is not None:
        change(images)
    again = study.run(tmp_path / "out", use_cache=False)
    assert ((tmp_path / "out/results.json").stat().st_mtime_ns == written) == (change is None)
    assert (again.number("images_clear").value == clear) == (change in (None, reworded))
