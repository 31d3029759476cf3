"""Studies: what a file may say, every mistake in one line, and the same study by file, option and Python."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from detector_bench_next.detector import build
from detector_bench_next.errors import ConfigError, DataError, IncompleteError
from detector_bench_next.predictions import Shard
from detector_bench_next.registry import names
from detector_bench_next.study import Study, about, copy_study, named_studies, read_detector, read_places
from tests_next.studies import write_image_set
from tests_next.studies import write_study as write_whole_study

SET = "image_set: images\n"
write_study = partial(write_whole_study, intervals={"resamples": 0})  # what is drawn is tested elsewhere


def read(folder: Path, text: str) -> Study:
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return Study.open(folder / "mine.yaml")


def told(folder: Path, text: str) -> list[str]:
    """The lines about a study's mistakes, with the folder left out."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}{os.sep}", "").splitlines()


def test_a_minimal_study_has_the_documented_defaults(tmp_path: Path) -> None:
    study = read(tmp_path, SET + "detectors: [shade]\n")
    assert study.model_dump(mode="json") == {
        "name": "mine", "question": "", "author": "", "date": "", "display_names": {},
        "image_set": str(tmp_path / "images"), "attributes": ["gender"],
        "detectors": [{"name": "shade", "kind": "shade"}], "n_clear": "detector", "max_error_share": 0.1,
        "intervals": {"level": 0.95, "resamples": 1000, "seed": 0}, "primary": "prompt_bias_score_difference",
        "tolerance": 0.1, "scores": [], "search": {}, "batch_size": 32, "max_pixels": 50_000_000,
    }  # fmt: skip


def test_all_keys_are_read_and_what_is_written_is_read_again(tmp_path: Path) -> None:
    text = """
{name: Überprüfung, question: "Who can count?", author: A. Author, date: May 2026, display_names: {strict: One},
image_set: /elsewhere/images, attributes: [age, gender], n_clear: images, max_error_share: 0.5, tolerance: 0.2,
intervals: {level: 0.9, resamples: 500, seed: 3}, primary: f1, search: {repeats: 3}, batch_size: 7,
max_pixels: 1000,
detectors: [{name: ages, kind: table, file: mine.yaml, columns: {age: years}},
            {name: strict, kind: shade, bright_above: 90}]}"""
    study = read(tmp_path, text)
    said = yaml.safe_load(text)
    own = study.model_dump(mode="json")
    assert {key: own[key] for key in said if key != "detectors"} == {
        k: v for k, v in said.items() if k != "detectors"
    }
    assert own["detectors"] == [
        {**said["detectors"][0], "file": str(tmp_path / "mine.yaml")},
        said["detectors"][1],
    ]
    study.write(tmp_path / "out")
    written = yaml.safe_load((tmp_path / "out" / "study.yaml").read_text(encoding="utf-8"))
    assert written == {**said, "image_set": "images", "scores": []}, "names in place of paths"


MISTAKES = yaml.safe_load(Path(__file__).with_name("bad_studies.yaml").read_text(encoding="utf-8"))


def fits(line: str, wanted: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), line) is not None


@pytest.mark.parametrize("case", MISTAKES)
def test_every_mistake_is_one_line_with_place_value_and_what_is_accepted(tmp_path: Path, case: str) -> None:
    wanted, lines = MISTAKES[case]["told"], told(tmp_path, MISTAKES[case]["file"])
    assert len(lines) == len(wanted), lines
    assert all(map(fits, lines, wanted)), lines


def test_a_study_that_is_no_plain_file_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "latin.yaml").write_bytes("name: Prüfung\n".encode("latin-1"))
    for name in ("none.yaml", "", "pipe.yaml", "latin.yaml"):
        with pytest.raises(ConfigError) as caught:
            Study.open(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_byte_order_mark_anchors_and_merge_keys_do_no_harm(tmp_path: Path) -> None:
    text = SET + "detectors:\n  - &one {name: one, kind: shade, bright_above: 90}\n  - {<<: *one, name: two}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8-sig")
    study = Study.open(tmp_path / "mine.yaml")
    assert study.detectors[1] == {"name": "two", "kind": "shade", "bright_above": 90}


# extends


def test_a_chain_of_files_is_followed_each_relative_to_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "deeper" / "still").mkdir(parents=True)
    (tmp_path / "deeper" / "still" / "rows.csv").write_text("image_id,g\n")
    (tmp_path / "deeper" / "still" / "c.yaml").write_text(
        "kind: table\nfile: {path: rows.csv}\ncolumns: {gender: g, image: i}\n"
    )
    (tmp_path / "deeper" / "b.yaml").write_text("extends: still/c.yaml\nvalues: {a: male, b: female}\n")
    study = read(
        tmp_path,
        SET + "detectors: [{name: mine, extends: deeper/b.yaml, values: {b: male}, columns: {gender: h}}]",
    )
    assert study.detectors[0] == {
        "name": "mine",
        "kind": "table",
        "file": {"path": str(tmp_path / "deeper" / "still" / "rows.csv")},
        "columns": {"gender": "h", "image": "i"},
        "values": {"a": "male", "b": "male"},
    }


@pytest.mark.parametrize("files", [{"a.yaml": "a.yaml"}, {"a.yaml": "b.yaml", "b.yaml": "a.yaml"}])
def test_a_circle_of_files_is_told(tmp_path: Path, files: dict[str, str]) -> None:
    for name, target in files.items():
        (tmp_path / name).write_text(f"extends: {target}\nkind: shade\n")
    (line,) = told(tmp_path, SET + "detectors: [{extends: a.yaml}]\n")
    assert line == "mine.yaml: detectors.0: `extends` goes deeper than 5 files; is it a circle?"


def test_a_mistake_in_an_extended_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("kind: shade\nkind: table\n")
    (line,) = told(tmp_path, SET + "detectors: [{extends: base.yaml}]\n")
    assert line.startswith("mine.yaml: detectors.0: extends: base.yaml, line 2, column 1: ")


def test_own_attributes_of_the_image_set_are_known_before_the_study_is_checked(tmp_path: Path) -> None:
    (tmp_path / "images" / "attributes").mkdir(parents=True)
    (tmp_path / "images" / "attributes" / "hair.yaml").write_text("name: hair\nclasses: [long, short]\n")
    text = SET + "attributes: [hair]\ndetectors: [{name: t, kind: table, file: t.csv, columns: {hair: hair}}]\n"
    (tmp_path / "t.csv").write_text("image_id,hair\n")
    study = read(tmp_path, text)
    study.write(tmp_path / "out")
    assert "hair" in (tmp_path / "out" / "attributes" / "hair.yaml").read_text()
    (line,) = told(tmp_path, text.replace("[hair]", "[hear]"))
    assert line.startswith("mine.yaml: attributes: unknown attribute 'hear': did you mean 'hair'")


# other settings, fewer detectors


SETTINGS: list[tuple[dict[str, Any], str, Any]] = [
    ({"n_clear": "human"}, "n_clear", "human"),
    ({"attributes": ["gender"]}, "attributes", ("gender",)),
    ({"intervals.resamples": 0}, "intervals.resamples", 0),
    ({"display_names.two": "Two"}, "display_names", {"two": "Two"}),
    ({"detectors.v1.5.bright_above": 7}, "detectors", 7),
]


@pytest.mark.parametrize(("settings", "field", "value"), SETTINGS)
def test_every_field_can_be_set_also_below_others(tmp_path: Path, settings: Any, field: str, value: Any) -> None:
    study = read(tmp_path, SET + "detectors: [shade, {name: v1.5, kind: shade}]\n")
    changed: Any = study.with_settings(settings)
    for name in field.split("."):
        changed = getattr(changed, name)
    assert (changed[1]["bright_above"] if field == "detectors" else changed) == value
    assert study == read(tmp_path, SET + "detectors: [shade, {name: v1.5, kind: shade}]\n")


def test_a_study_with_some_of_its_detectors_keeps_its_order(tmp_path: Path) -> None:
    entries = ", ".join(f"{{name: {name}, kind: shade}}" for name in "abc")
    study = read(tmp_path, SET + f"detectors: [{entries}]\ndisplay_names: {{a: A, b: B, sd: SD}}\n")

    def left(**choice: list[str]) -> list[str]:
        return [entry["name"] for entry in study.with_detectors(**choice).detectors]

    assert left(only=["c", "a"]) == left(without=["b"]) == ["a", "c"]
    assert left(only=["a", "b"], without=["a"]) == ["b"]
    assert study.with_detectors(only=["b"]).display_names == {"b": "B", "sd": "SD"}
    with pytest.raises(ConfigError, match="no detector 'd' in this study"):
        study.with_detectors(without=["d"])
    with pytest.raises(ConfigError, match="no detector of this study is left"):
        study.with_detectors(only=["a"], without=["a"])


def test_a_built_detector_is_an_entry_in_python(tmp_path: Path) -> None:
    dim = build("detector", {"name": "dim", "kind": "shade", "bright_above": 200})
    study = Study(image_set=tmp_path, detectors=[dim, "shade"])  # type: ignore[arg-type, list-item]
    assert study.build_detectors() == [dim, build("detector", "shade")]


def test_mistakes_in_python_are_as_plain_as_in_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^Study: image_set: is missing$"):
        Study(detectors=["shade"])  # type: ignore[call-arg, list-item]
    with pytest.raises(ConfigError, match=r"^Study: searhc: unknown key 'searhc': did you mean 'search'"):
        Study(image_set="images", detectors=["shade"], searhc={})  # type: ignore[call-arg, list-item, arg-type]


# studies that come along


@pytest.mark.parametrize("name", named_studies())
def test_a_study_that_comes_along_opens_by_name_and_its_copy_says_the_same(tmp_path: Path, name: str) -> None:
    kinds = {entry.get("kind") for entry in yaml.safe_load(named_studies()[name].read_text())["detectors"]}
    if missing := kinds - {None, *names("detector")}:
        pytest.skip(f"no detector {missing} is installed")
    study = Study.open(name)
    assert about(named_studies()[name]).endswith(".")
    first, *beside = copy_study(name, tmp_path / "deep" / "mine.yaml")
    copy = Study.open(first)
    assert copy.image_set == tmp_path / "deep" / "images"
    tables = [entry for entry in copy.detectors if entry["kind"] == "table"]
    assert copy.detectors == study.detectors or tables, "a table's file does not come along"
    assert all(path.parent.parent == tmp_path / "deep" for path in beside)
    assert "detector-bench run mine.yaml" in first.read_text() or "run" not in about(first)


def test_a_copy_is_written_over_nothing(tmp_path: Path) -> None:
    copy_study("t2i_portraits", tmp_path / "one.yaml")
    copy_study("face_sources", tmp_path / "two.yaml")  # what both extend is the same
    (tmp_path / "detectors" / "gear.yaml").write_text("kind: onnx\n")
    for file, blamed in (("one.yaml", "one.yaml"), ("three.yaml", "gear.yaml")):
        with pytest.raises(ConfigError, match=f"{blamed}' is there already"):
            copy_study("t2i_portraits", tmp_path / file)
    assert not (tmp_path / "three.yaml").exists()
    assert (tmp_path / "detectors" / "gear.yaml").read_text() == "kind: onnx\n"
    with pytest.raises(ConfigError, match="no study 'lyu' comes along: did you mean 'lyu2025'"):
        copy_study("lyu", tmp_path / "x.yaml")


def test_a_file_wins_over_a_name_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lyu2025_authors_sd3").mkdir()
    assert len(Study.open("lyu2025_authors_sd3").detectors) == 8
    assert caplog.text == ""
    (tmp_path / "quickstart").write_text(SET + "detectors: [shade]\n")
    assert [entry["name"] for entry in Study.open("quickstart").detectors] == ["shade"]
    assert "the file is taken" in caplog.text


def test_a_detector_is_meant_by_its_kind_its_file_or_its_name_in_a_study(tmp_path: Path) -> None:
    (tmp_path / "bright.yaml").write_text("kind: shade\nbright_above: 9\n")
    path = write_study(tmp_path, tmp_path / "images", {"name": "dim", "kind": "shade", "bright_above": 200})
    found = [read_detector("shade"), read_detector(str(tmp_path / "bright.yaml")), read_detector("dim", str(path))]
    assert [(d.name, d.bright_above) for d, _ in found] == [("shade", 140), ("bright", 9), ("dim", 200)]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="unknown detector 'shad'"):
        read_detector("shad")


# run and evaluate


def test_a_run_writes_a_folder_that_says_where_things_lie_and_no_path_of_this_machine(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "images")
    rows = tmp_path / "theirs.csv"
    rows.write_text("image_id,g\n" + "".join(f"sd_p{p}_{n},male\n" for p in range(2) for n in range(4)))
    table = {"name": "theirs", "kind": "table", "file": "theirs.csv", "columns": {"gender": "g"}}
    study = Study.open(write_study(tmp_path, images, "shade", table))
    results = study.run(tmp_path / "out", use_cache=False)
    assert {"shade", "theirs"} < set(results.metrics["detector"])
    assert str(tmp_path) not in (tmp_path / "out" / "study.yaml").read_text()
    places = read_places(tmp_path / "out")
    assert places["image_set"] == str(images)
    assert places["files"] == {"theirs.csv": str(rows)}
    assert str(tmp_path) not in (tmp_path / "out" / ".local.json").read_text()
    assert Study.of(results).model_dump() == study.model_dump()


def test_the_numbers_of_another_folder_and_study_come_from_the_same_predictions(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", images=6)
    study = Study.open(
        write_study(tmp_path, tmp_path / "images", "shade", {"name": "log", "kind": "shade", "bright_above": 90})
    )
    first = study.run(tmp_path / "out", use_cache=False)
    other = Study.of(tmp_path / "out").with_detectors(["log"]).with_settings({"n_clear": "human"})
    again = other.evaluate(tmp_path / "again", predictions=tmp_path / "out")
    assert set(again.metrics["detector"]) == {"ground_truth", "log"}
    assert set(again.metrics["n_clear"]) == {"", "human"}
    assert read_places(tmp_path / "again")["predictions"] == str(tmp_path / "out")
    third = Study.of(tmp_path / "again").evaluate(tmp_path / "third", predictions=tmp_path / "again")
    assert third.metrics.equals(again.metrics)
    assert set(first.metrics["detector"]) == {"ground_truth", "shade", "log"}


def test_images_without_a_prediction_are_refused_unless_they_are_left_out(tmp_path: Path) -> None:
    write_image_set(tmp_path / "few", prompts=1)
    path = write_study(tmp_path, tmp_path / "few")
    Study.open(path).run(tmp_path / "out", use_cache=False)
    more = Study.open(path, write_image_set(tmp_path / "more", prompts=2))
    with pytest.raises(IncompleteError, match="shade: 4 of 8 images have no prediction"):
        more.evaluate(tmp_path / "out")
    rows = more.evaluate(tmp_path / "out", allow_incomplete=True).metrics
    assert "shade" in set(rows["detector"])


def test_a_detector_that_cannot_run_here_is_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_image_set(tmp_path / "images")
    net = {"name": "net", "kind": "image_classifier", "model": "nowhere.onnx", "input": {"size": [8, 8]}}
    outputs = {"gender": {"output": "p", "classes": ["male", "female"]}, "age": {"output": "a"}}
    path = write_study(
        tmp_path, tmp_path / "images", "shade", {**net, "outputs": outputs}, attributes=["gender", "age"]
    )
    results = Study.open(path).run(tmp_path / "out", use_cache=False)
    assert set(results.metrics["detector"]) == {"ground_truth", "shade"}
    assert set(results.metrics["attribute"]) == {"gender"}
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors[0].startswith("detector 'net' is left out: ")
    assert "nowhere.onnx" in errors[0]
    assert errors[1] == "attribute 'age' is left out: no other detector predicts it"


def test_the_process_that_ends_last_writes_the_results(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", images=8)
    study = Study.open(write_study(tmp_path, tmp_path / "images"))
    study.job(tmp_path / "out", shards=3)
    for number in (1, 2):
        with pytest.raises(IncompleteError, match="who ends last writes the results"):
            study.run(tmp_path / "out", shard=Shard(number, 3), use_cache=False)
        assert not (tmp_path / "out" / "results.json").exists()
    assert len(study.run(tmp_path / "out", shard=Shard(3, 3), use_cache=False).metrics)
    assert study.job(tmp_path / "out").shards == 3, "the folder's"
    with pytest.raises(ConfigError, match="3 shards, not 4"):
        study.job(tmp_path / "out", shards=4)


def test_a_job_holds_all_that_the_study_and_the_call_say(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images")
    study = Study.open(write_study(tmp_path, tmp_path / "images", batch_size=5, max_pixels=99))
    said = {"weights_dir": tmp_path, "allow": ("example.org",), "budget": 2.5, "cache_dir": tmp_path / "cache"}
    job = study.job(tmp_path / "out", **said, shards=2)
    assert {**job.model_dump(), **said} == job.model_dump()
    assert (job.batch_size, job.max_pixels, job.shards, job.beside) == (5, 99, 2, tmp_path)
    assert study.job(tmp_path / "out", use_cache=False).cache_dir is None
    with pytest.raises(DataError, match=r"there is no image set .* --image-set"):
        Study.open(write_study(tmp_path, tmp_path / "nowhere")).job(tmp_path / "out")


def test_an_image_set_of_the_call_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "work" / "mine")
    path = write_study(tmp_path, tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path / "work")
    study = Study.open(path, "mine")
    monkeypatch.chdir(tmp_path)
    assert len(study.run("out", use_cache=False).image_set.images) == 8
