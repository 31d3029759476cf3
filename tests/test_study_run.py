"""A study from its file to its result folder, which can be run again, and says what it rests on."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import socket
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from onnx_networks import mean_colour_classifier
from small_parts import COLOURS, MeanColour, forget_calls, stages_loaded, write_csv, write_image_set, write_tables

from detector_bench.errors import (
    ConfigError,
    DetectorBenchError,
    IncompletePredictionsError,
    WeightsError,
)
from detector_bench.evaluation.intervals import Intervals
from detector_bench.figures import FinishedStudy
from detector_bench.results.run_record import environment, git_commit
from detector_bench.runner.run import RunProgress
from detector_bench.study import Results, Study
from detector_bench.study_file import DetectorEntry
from detector_bench.vocabulary.columns import LABEL_COLUMNS
from detector_bench.weights.files import sha256_of

COUNT = 12


def write_network(path: Path, *, red: float = 0.05) -> None:
    """Softmax over (red x mean red, red x mean blue) of an 8 x 8 image: the first class is the reddish one."""
    mean_colour_classifier(path, [[red, 0], [0, 0], [0, red]], activation="Softmax", size=(8, 8))


NET = """\
kind: onnx
network: nets/net.onnx
input: {size: [8, 8]}
outputs: {gender: {read: classes, output: answers, classes: [male, female]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An image set and a study file beside it."""
    forget_calls()
    write_image_set(tmp_path / "images", COUNT)
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [test-colour, test-brightness]\n")
    return tmp_path


def with_network(folder: Path, **options: Any) -> Study:
    """A study of the ONNX network, whose file lies beside the study, and of a detector without weights."""
    write_network(folder / "nets" / "net.onnx", **options)
    (folder / "net.yaml").write_text(NET)
    (folder / "study.yaml").write_text(
        "name: nets\nimage_set: images\ndetectors: [{name: net, extends: net.yaml}, test-colour]\n"
    )
    return Study.from_yaml(folder / "study.yaml")


def run_record(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((out / "run.json").read_text())
    return record


def manifest(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "results.json").read_text())
    return content


def test_a_result_folder_holds_everything(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    found = {str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*") if path.is_file()}
    tables = set(result.tables)
    assert tables >= {
        "bias_errors",
        "confusion",
        "filtering_and_accuracy",
        "label_shares",
        "model_bias_scores",
        "prompt_bias_score_difference",
        "prompt_bias_scores",
    }
    assert found == {
        *(
            f"{name}.csv"
            for name in ("accuracy_gaps", "agreement", "causes", "comparisons", "confusion", "filter_outcomes")
        ),
        "images_judged_rightly.csv",
        "metrics.csv",
        "metrics.parquet",
        "predictions/.lock",
        "predictions/test-brightness/predictions.parquet",
        "predictions/test-colour/predictions.parquet",
        "ranks.csv",
        "results.json",
        "run.json",
        "study.yaml",
        "sweep_choices.csv",
        "sweeps.csv",
        *(f"tables/{table}.{ending}" for table in tables for ending in ("csv", "md", "tex")),
    }
    assert result.out == folder / "out"
    assert len(pd.read_csv(folder / "out" / "metrics.csv")) == len(result.metrics)


def test_the_numbers_are_those_of_the_pictures(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    metrics = result.metrics
    overall = metrics[(metrics[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)]
    values = {(row.detector, row.metric): row.value for row in overall.itertuples()}

    # The colour decides label and verdict alike; brightness keeps all 12 images and calls them male: 4 are.
    for metric in ("precision", "recall", "recall_male", "recall_female", "f1", "filter_rate", "accuracy"):
        assert values["test-colour", metric] == 1.0
    assert values["test-brightness", "precision"] == pytest.approx(8 / 12)
    assert values["test-brightness", "filter_rate"] == 0.0
    assert values["test-brightness", "accuracy"] == 0.5


def test_the_result_shows_itself_in_a_notebook(folder: Path) -> None:
    shown = Study.from_yaml(folder / "study.yaml").run(folder / "out")._repr_html_()
    assert shown.count("<table") == 4
    assert "test-brightness" in shown


def test_the_result_shows_itself_in_one_line(folder: Path) -> None:
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    shown = repr(result)
    assert shown.startswith(f"Results({str(folder / 'out')!r}, metrics: {len(result.metrics):,} rows, tables: ")
    assert all(name in shown for name in result.tables)
    assert "\n" not in shown


def test_in_python_detectors_are_named_as_in_a_study_file(folder: Path) -> None:
    entries = ["test-colour", {"kind": "test-colour", "name": "greener", "green": 60.0}]
    study = Study(image_set=folder / "images", detectors=entries)
    assert study.detectors == (
        DetectorEntry(name="test-colour", kind="test-colour"),
        DetectorEntry(name="greener", kind="test-colour", parameters={"green": 60.0}),
    )
    assert Study.model_validate(study.model_dump()) == study
    for wrong, message in (
        (["test-color"], "unknown detector 'test-color': did you mean 'test-colour'"),
        ([3], "detectors.0: a detector is its name, or a mapping; got 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            Study(image_set=folder / "images", detectors=wrong).build_detectors()  # type: ignore[arg-type]


def test_the_public_name_runs_the_same_study(folder: Path) -> None:
    import detector_bench as db

    result = db.Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert isinstance(result, db.Results)
    assert result.counts["test-colour"] == {"gender": {"clear": 8, "filtered": 4, "error": 0}}


def test_a_study_may_be_made_in_python_with_stages_and_tuples_as_parameters(folder: Path) -> None:
    entry = DetectorEntry(name="net", kind="onnx", parameters={"network": str(folder / "net.onnx")})
    write_network(folder / "net.onnx")
    entry.parameters.update(
        input={"size": (8, 8)},
        filters=({"kind": "face", "faces": MeanColour()},),
        outputs={"gender": {"read": "classes", "output": "answers", "classes": ("male", "female")}},
    )
    study = Study(image_set=folder / "images", detectors=(entry,))
    study.write(folder / "out")
    written = yaml.safe_load((folder / "out" / "study.yaml").read_text())
    assert written["detectors"][0]["input"] == {"size": [8, 8]}
    assert written["detectors"][0]["filters"][0]["faces"]["kind"] == "test_mean_colour"


# --- the resolved study


@pytest.mark.parametrize("linked", [False, True])
def test_the_resolved_study_runs_again_from_the_result_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    out = folder / "results" / "deep" / "one"
    if linked:
        (folder / "elsewhere" / "far").mkdir(parents=True)
        (folder / "results").mkdir()
        (folder / "results" / "deep").symlink_to(folder / "elsewhere" / "far")
    first = with_network(folder).run(out)
    assert first.counts["net"]["gender"]["error"] == 0
    written = yaml.safe_load((out / "study.yaml").read_text())
    assert not Path(written["image_set"]).is_absolute()
    assert not Path(written["detectors"][0]["network"]).is_absolute()
    assert "extends" not in written["detectors"][0]
    assert written["name"] == "nets"

    monkeypatch.chdir(folder / "images")
    forget_calls()
    again = Study.from_yaml(out / "study.yaml").run(out)
    assert run_record(out)["sessions"][-1]["images_judged"] == 0
    assert not stages_loaded
    pd.testing.assert_frame_equal(again.metrics, first.metrics)
    assert yaml.safe_load((out / "study.yaml").read_text()) == written

    Study.from_yaml(out / "study.yaml").run(folder / "two")
    assert (folder / "two" / "metrics.csv").read_bytes() == (out / "metrics.csv").read_bytes()


def test_a_word_that_is_no_weights_path_is_left_as_it_is(folder: Path) -> None:
    study = with_network(folder)
    (folder / "classes").write_text("a file that happens to be called like a parameter's value")
    study.run(folder / "out")
    written = yaml.safe_load((folder / "out" / "study.yaml").read_text())
    assert written["detectors"][0]["outputs"]["gender"]["read"] == "classes"
    assert written["detectors"][0]["network"] == "../nets/net.onnx"


# --- resume through a study


def test_changed_weights_of_a_network_are_judged_again(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    before = run_record(folder / "out")
    write_network(folder / "nets" / "net.onnx", red=-0.05)
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
    after = run_record(folder / "out")

    assert after["sessions"][-1]["images_judged"] == COUNT
    assert before["detectors"]["net"]["fingerprint"] != after["detectors"]["net"]["fingerprint"]
    assert before["detectors"]["test-colour"] == after["detectors"]["test-colour"]
    table = pq.read_table(folder / "out" / "predictions" / "net" / "predictions.parquet").to_pandas()
    assert table["label"].tolist()[:2] == ["female", "male"], "the other way round"
    assert result.counts["net"]["gender"]["clear"] == COUNT


def test_a_study_without_its_weights_says_so_and_keeps_its_results(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    before = (folder / "out" / "metrics.csv").read_bytes()
    (folder / "nets" / "net.onnx").unlink()
    with pytest.raises(WeightsError, match=r"'nets/net\.onnx' not found"):
        Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert (folder / "out" / "metrics.csv").read_bytes() == before


def test_a_detector_that_left_the_study_leaves_the_numbers(folder: Path) -> None:
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-brightness]\n")
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")

    assert set(result.counts) == {"test-brightness"}
    assert "test-colour" not in (folder / "out" / "metrics.csv").read_text()
    assert (folder / "out" / "predictions" / "test-colour").is_dir(), "its predictions cost something"


def test_detectors_stand_in_the_studys_order(folder: Path) -> None:
    for names in (["test-colour", "test-brightness"], ["test-brightness", "test-colour"]):
        (folder / "study.yaml").write_text(f"image_set: images\ndetectors: [{', '.join(names)}]\n")
        result = Study.from_yaml(folder / "study.yaml").run(folder / "out")
        assert [name for name in dict.fromkeys(result.metrics["detector"]) if name in names] == names
        assert list(result.counts) == names


def test_without_a_cache_nothing_is_left_in_the_cache_folder(folder: Path) -> None:
    Study.from_yaml(folder / "study.yaml").run(folder / "out", cache_dir=folder / "cache", use_cache=False)
    assert not (folder / "cache").exists()


def test_the_cache_folder_is_the_one_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(folder / "from-environment"))
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert (folder / "from-environment" / "stages.sqlite").is_file()


def test_progress_is_told_before_and_after_every_batch(folder: Path) -> None:
    told: list[tuple[int, int, int, int]] = []

    class Listener:
        def update(self, progress: RunProgress) -> None:
            told.append((progress.total, progress.reused, progress.done, sum(map(len, progress.counts.values()))))

    (folder / "study.yaml").write_text("image_set: images\nbatch_size: 5\ndetectors: [test-colour]\n")
    write_tables(folder / "images", [0, 1, 2])
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    Study.from_yaml(folder / "study.yaml").run(folder / "out", progress=Listener())
    assert [entry[:3] for entry in told] == [(12, 3, 0), (12, 3, 5), (12, 3, 9)]
    assert [entry[3] > 0 for entry in told] == [False, True, True]


def test_what_comes_from_the_cache_is_told_apart(folder: Path) -> None:
    told: list[tuple[int, int]] = []

    class Listener:
        def update(self, progress: RunProgress) -> None:
            told.append((progress.done, progress.from_cache))

    (folder / "study.yaml").write_text("image_set: images\nbatch_size: 6\ndetectors: [test-colour]\n")
    write_tables(folder / "images", [0, 1, 2, 3])
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out", cache_dir=folder / "cache", progress=Listener())
    write_tables(folder / "images", range(COUNT))
    study.run(folder / "beside", cache_dir=folder / "cache", progress=Listener())
    assert told == [(0, 0), (4, 0), (0, 0), (6, 4), (12, 4)]


# --- run.json


def test_the_run_record_says_what_the_result_rests_on(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    record = run_record(folder / "out")

    evaluated = manifest(folder / "out")

    assert evaluated["study"] == "nets"
    assert record["environment"] == evaluated["environment"] == environment()
    assert record["environment"]["packages"]["onnxruntime"]
    assert record["environment"]["machine"]["cores"] == os.cpu_count()
    assert evaluated["image_set"]["name"] == "images"
    assert re.fullmatch("[0-9a-f]{64}", evaluated["image_set"]["fingerprint"])
    assert evaluated["image_set"]["images"] == COUNT
    # No fact stands in both files.
    assert set(record) & set(evaluated) == {"environment"}
    for name, rows in evaluated["files"].items():
        read = pd.read_parquet if name.endswith(".parquet") else pd.read_csv
        assert len(read(folder / "out" / name)) == rows
    assert record["weights"] == {
        "net.onnx": {
            "sha256": sha256_of(folder / "nets" / "net.onnx"),
            "licence": "not stated",
            "source": "not stated",
        }
    }
    assert record["detectors"]["net"]["identity"]["kind"] == "onnx"
    assert evaluated["counts"]["net"] == {"gender": {"clear": 12, "filtered": 0, "error": 0}}
    assert all(re.fullmatch("[0-9a-f]{64}", found["fingerprint"]) for found in record["detectors"].values())
    assert evaluated["seeds"] == {
        "intervals": {"method": "score", "level": 0.95, "unit": "image", "seed": 0, "resamples": 2000}
    }
    assert evaluated["settings"]["detectors"] == ["net", "test-colour"]
    assert (evaluated["settings"]["n_clear"], evaluated["settings"]["max_error_share"]) == ("detector", 0.1)
    [session] = record["sessions"]
    assert datetime.fromisoformat(session["began"]).tzinfo is not None
    stages = sorted(name.rsplit("-", 1)[0] for name in record["stages"])
    assert stages == ["onnx_outputs", "test_mean_colour"]
    assert set(session["images_per_stage"]) == set(record["stages"])
    assert set(session["device_per_stage"]) == set(record["stages"])
    of_kind = {name.rsplit("-", 1)[0]: found for name, found in record["stages"].items()}
    assert of_kind["onnx_outputs"]["precision"] == "as in the network's file"
    assert of_kind["onnx_outputs"]["devices"][0] in ("cpu", "cuda")
    assert (of_kind["test_mean_colour"]["precision"], of_kind["test_mean_colour"]["devices"]) == (
        "not stated",
        ["not stated"],
    )
    assert all(re.fullmatch("[0-9a-f]{64}", found["fingerprint"]) for found in record["stages"].values())
    assert set(session["seconds_per_stage"]) == {
        label for name in record["stages"] for label in (name, f"{name} (loading)")
    }
    assert session["seconds"] >= sum(session["seconds_per_stage"].values()) > 0
    assert session["peak_memory_mib"] > 10


def test_the_run_record_names_neither_user_nor_host_nor_folder(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    text = "".join((folder / "out" / name).read_text() for name in ("run.json", "results.json", "study.yaml"))
    private = [str(folder), str(Path.home()), socket.gethostname()]
    private += [getpass.getuser()] if getpass.getuser() != "root" else []
    assert [word for word in private if len(word) > 3 and word in text] == []


def test_every_session_is_kept(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    write_tables(folder / "images", [0, 1, 2])
    study.run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    study.run(folder / "out")
    study.run(folder / "out")
    record = run_record(folder / "out")
    assert [session["images_judged"] for session in record["sessions"]] == [3, 9, 0]
    assert manifest(folder / "out")["counts"]["test-colour"]["gender"]["clear"] == 8


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sessions": 3}'])
def test_a_damaged_run_record_is_replaced(folder: Path, content: str) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "run.json").write_text(content)
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert len(run_record(folder / "out")["sessions"]) == 1


def test_weights_of_one_name_and_two_contents_are_both_named(folder: Path) -> None:
    write_network(folder / "a" / "net.onnx", red=0.1)
    write_network(folder / "b" / "net.onnx", red=0.2)
    (folder / "net.yaml").write_text(NET)
    entries = ", ".join(f"{{name: {name}, extends: net.yaml, network: {name}/net.onnx}}" for name in "ab")
    (folder / "study.yaml").write_text(f"image_set: images\ndetectors: [{entries}]\n")
    Study.from_yaml(folder / "study.yaml").run(folder / "out")

    weights = run_record(folder / "out")["weights"]
    assert {entry["sha256"] for entry in weights.values()} == {
        sha256_of(folder / name / "net.onnx") for name in "ab"
    }
    assert all(name.startswith("net.onnx") for name in weights)


def test_the_commit_is_that_of_this_checkout() -> None:
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        assert git_commit() is None
        return
    head = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert (git_commit() or "").removesuffix("-dirty") == head.stdout.strip()


# --- evaluate


def test_evaluating_stored_predictions_gives_the_bytes_of_the_run(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    result = study.run(folder / "out")
    forget_calls()
    for predictions in (folder / "out", folder / "out" / "predictions"):
        again = study.evaluate(predictions, folder / "again")
        assert (folder / "again" / "metrics.csv").read_bytes() == (folder / "out" / "metrics.csv").read_bytes()
        assert again.counts == result.counts
    assert not stages_loaded
    assert not (folder / "again" / "predictions").exists()


def test_an_evaluation_records_its_predictions_versions_seed_and_settings(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    result = study.run(folder / "out")
    ran = run_record(folder / "out")
    intervals = Intervals(seed=7, resamples=400, unit="prompt")
    changed = study.with_detectors(only=["test-colour"]).model_copy(update={"intervals": intervals})
    changed.evaluate(folder / "out", folder / "again")
    record = manifest(folder / "again")

    assert record["environment"] == environment()
    assert record["predictions"] == "../out/predictions"
    assert record["seeds"]["intervals"] == {
        "method": "score",
        "level": 0.95,
        "unit": "prompt",
        "seed": 7,
        "resamples": 400,
    }
    assert record["settings"]["detectors"] == ["test-colour"]
    assert record["counts"] == {"test-colour": result.counts["test-colour"]}
    assert run_record(folder / "again") == ran
    # Evaluated in its own folder, a run's record keeps what was run.
    study.evaluate(folder / "out", folder / "out")
    assert run_record(folder / "out") == ran
    assert manifest(folder / "out")["predictions"] == "predictions"
    # The folder of an evaluation knows where its predictions are.
    assert list(Results.open(folder / "again").verdicts()["detector"].unique()) == ["test-colour"]


def test_without_resamples_no_seed_is_recorded(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.model_copy(update={"intervals": Intervals(method="none")}).run(folder / "out")
    assert manifest(folder / "out")["seeds"] == {}


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("n_clear: detector", "n_clear: human", "`n_clear` is 'human', .* computed with 'detector'"),
        ("level: 0.95", "level: 0.9", r"`intervals.level` is 0.9, .* computed with 0.95"),
        ("max_error_share: 0.1", "max_error_share: 0.5", "`max_error_share` is 0.5, .* computed with 0.1"),
        ("unit: image", "unit: prompt", "`intervals.unit` is 'prompt'"),
    ],
)
def test_a_study_that_was_changed_since_its_evaluation_is_noticed(
    folder: Path, was: str, now: str, message: str
) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    FinishedStudy.load(out)
    written = (out / "study.yaml").read_text()
    assert was in written
    (out / "study.yaml").write_text(written.replace(was, now))
    with pytest.raises(ConfigError, match=message) as caught:
        FinishedStudy.load(out)
    assert f"run `detector-bench evaluate {out}`, or set it back" in str(caught.value)
    Study.from_yaml(out / "study.yaml").evaluate(out, out)
    FinishedStudy.load(out)


BROKEN = {
    "no folder": (shutil.rmtree, "there is no folder"),
    "an empty folder": (lambda out: (shutil.rmtree(out), out.mkdir()), "is no result folder: expected one of"),
    "killed while it judged": (
        lambda out: [path.unlink() for path in out.iterdir() if path.is_file()],
        "half a result folder, with predictions and no numbers: run `detector-bench run STUDY.yaml --out {out}`",
    ),
    "killed while it evaluated": (
        lambda out: (out / "results.json").unlink(),
        "half a result folder, its evaluation was cut short: run `detector-bench evaluate {out}`",
    ),
    "an older version": (
        lambda out: ((out / "results.json").unlink(), (out / "run.json").write_text('{"evaluation": {}}')),
        "older version of detector_bench (schema 1, now 3): bring it up to date with `detector-bench "
        "evaluate {out}`",
    ),
    "an older schema": (
        lambda out: rewrite(out, "schema_version", 2),
        "older version of detector_bench (schema 2, now 3): bring it up to date with `detector-bench "
        "evaluate {out}`",
    ),
    "a newer schema": (
        lambda out: rewrite(out, "schema_version", 99),
        "newer version of detector_bench (schema 99; this version knows 3): update detector-bench",
    ),
    "no JSON": (lambda out: (out / "results.json").write_text("{"), "cannot be read"),
    "no schema": (lambda out: (out / "results.json").write_text("[]"), "the key schema_version is missing"),
    "a wrong setting": (lambda out: rewrite(out, "counts", 3), "counts: input should be a valid dictionary"),
    "a file missing": (lambda out: (out / "causes.csv").unlink(), "lacks causes.csv, which results.json lists"),
    "the study missing": (lambda out: (out / "study.yaml").unlink(), "lacks study.yaml, which says where"),
}


def rewrite(out: Path, key: str, value: object) -> None:
    (out / "results.json").write_text(json.dumps({**manifest(out), key: value}))


@pytest.mark.parametrize("broken", BROKEN)
def test_a_folder_that_cannot_be_opened_says_why_in_one_line(folder: Path, broken: str) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    spoil, message = BROKEN[broken]
    spoil(out)  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError) as caught:
        Results.open(out)
    assert message.format(out=out) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_with_other_rows_than_were_written_is_noticed(folder: Path) -> None:
    out = folder / "out"
    Study.from_yaml(folder / "study.yaml").run(out)
    lines = (out / "causes.csv").read_text().splitlines()
    for text, message in ((lines[:-1], "but results.json lists"), ([*lines, "x"], "cannot be read")):
        (out / "causes.csv").write_text("\n".join(text) + "\n")
        with pytest.raises(ConfigError, match=message):
            Results.open(out).causes()
    assert Results.open(out).numbers("ranks").shape[0] > 0


def test_an_older_folder_is_brought_up_to_date(folder: Path) -> None:
    out = folder / "out"
    study = Study.from_yaml(folder / "study.yaml")
    study.run(out)
    ran = run_record(out)
    old = {**ran, "evaluation": {}, "seeds": {}, "study": "x", "predictions": {"environment": ran["environment"]}}
    old["detectors"] = {name: {**each, "counts": {}} for name, each in ran["detectors"].items()}
    old["environment"] = {"of": "an evaluation"}
    (out / "run.json").write_text(json.dumps(old))
    (out / "results.json").unlink()
    Study.from_yaml(out / "study.yaml").evaluate(out, out)
    assert run_record(out) == ran
    assert Results.open(out).study.name == study.name


def test_another_denominator_changes_the_numbers(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out")
    human = study.with_n_clear("human").evaluate(folder / "out", folder / "human").metrics
    assert set(human["n_clear"].dropna()) - {""} >= {"human"}
    assert yaml.safe_load((folder / "human" / "study.yaml").read_text())["n_clear"] == "human"


def test_incomplete_predictions_are_refused_or_left_out_and_counted(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    write_tables(folder / "images", range(COUNT - 3))
    study.run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    with pytest.raises(IncompletePredictionsError, match="3 of 12 labelled images without a prediction") as caught:
        study.evaluate(folder / "out", folder / "again")
    assert "run `detector-bench run` again" in str(caught.value)
    assert not (folder / "again" / "metrics.csv").exists()

    metrics = study.evaluate(folder / "out", folder / "again", allow_incomplete=True).metrics
    everything = (metrics[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)
    row = metrics[everything & (metrics["detector"] == "test-colour") & (metrics["metric"] == "recall")].iloc[0]
    assert (row["n"], row["n_left_out"]) == (6, 2), "of the three images two are labelled male or female"


def test_missing_detectors_and_folders_are_named(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    with pytest.raises(DetectorBenchError, match=r"no predictions in .*nowhere"):
        study.evaluate(folder / "nowhere", folder / "again")
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-colour]\n")
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    message = r"holds no predictions of test-brightness \(it holds: test-colour\); run the study first"
    with pytest.raises(IncompletePredictionsError, match=message):
        study.evaluate(folder / "out", folder / "again")


def test_what_an_interrupted_run_left_is_evaluated_each_image_once(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / "out")
    store = folder / "out" / "predictions" / "test-colour"
    whole = pq.read_table(store / "predictions.parquet")
    pq.write_table(whole.slice(0, 5), store / "part-000001.parquet")  # the parts were not removed yet
    study.evaluate(folder / "out", folder / "again")
    assert (folder / "again" / "metrics.csv").read_bytes() == (folder / "out" / "metrics.csv").read_bytes()

    (store / "predictions.parquet").unlink()  # or not joined yet
    with pytest.raises(IncompletePredictionsError, match="7 of 12 labelled images without a prediction"):
        study.evaluate(folder / "out", folder / "again")
    study.run(folder / "out")
    assert run_record(folder / "out")["sessions"][-1]["images_judged"] == 7
    assert pq.read_table(store / "predictions.parquet").equals(whole)


def test_an_attribute_without_labels_is_refused_before_anything_runs(folder: Path) -> None:
    (folder / "study.yaml").write_text(
        "image_set: images\nattributes: [gender, age]\ndetectors: [test-age-and-gender]\n"
    )
    with pytest.raises(ConfigError, match=r"images: labels.csv has no labels for 'age' \(it has: gender\)"):
        Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert not (folder / "out").exists()


def test_two_attributes_have_numbers_and_tables_each(folder: Path) -> None:
    labels = [line.split(",") for line in (folder / "images" / "labels.csv").read_text().splitlines()[1:]]
    ages = [[image, annotator, "age", "young", ""] for image, annotator, *_ in labels]
    write_csv(folder / "images" / "labels.csv", LABEL_COLUMNS, [*labels, *ages])
    (folder / "study.yaml").write_text(
        "image_set: images\nattributes: [gender, age]\ndetectors: [test-age-and-gender, test-colour]\n"
    )
    result = Study.from_yaml(folder / "study.yaml").run(folder / "out")

    assert set(result.metrics["attribute"]) == {"gender", "age"}
    assert {"label_shares", "label_shares_age"} <= set(result.tables)
    assert result.counts["test-age-and-gender"]["age"] == {"clear": 12, "filtered": 0, "error": 0}
    assert "age" not in result.counts["test-colour"]


def test_the_colours_of_the_pictures_are_what_the_network_was_made_for() -> None:
    red, blue, green = COLOURS
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert green[0] == green[2]


def test_all_that_is_missing_is_named_at_once_also_where_a_file_has_no_pin(folder: Path) -> None:
    onnx = {"kind": "onnx", "input": {"size": [8, 8]}}
    reading = {"gender": {"read": "classes", "output": "out", "classes": ["male", "female"]}}
    entries = [
        {"name": name, **onnx, "network": f"{name}.onnx", "outputs": reading} for name in ("first", "second")
    ]
    text = yaml.safe_dump({"image_set": "images", "detectors": entries})
    (folder / "missing.yaml").write_text(text)
    with pytest.raises(WeightsError) as found:
        Study.from_yaml(folder / "missing.yaml").run(folder / "missing")
    assert [line.split("'")[1] for line in str(found.value).splitlines()] == ["first.onnx", "second.onnx"]
