"""Numbers are made of what the study judged, and of nothing else: every mismatch is named."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_parts import image_name, picture, stages_loaded, write_csv
from study_files import COUNT, manifest, with_network, write_network, write_study_file

from detector_bench.errors import ChangedInputsError, ConfigError, DataError, DetectorBenchError
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.study import Results, Study
from detector_bench.study_proof import UnprovedError, judged_contents

pytestmark = pytest.mark.slow

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_study_file(tmp_path)
    Study.from_yaml(tmp_path / "study.yaml").run(tmp_path / "out")
    return tmp_path


def study_with(folder: Path, detectors: str) -> Study:
    (folder / "study.yaml").write_text(f"image_set: images\ndetectors: {detectors}\n")
    return Study.from_yaml(folder / "study.yaml")


def flip(path: Path, *, byte: int = -200, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


class TestTheStudyMadeThem:
    def test_another_parameter_is_refused_by_name(self, folder: Path) -> None:
        other = study_with(folder, "[{kind: test-colour, green: 0.9}, test-brightness]")
        with pytest.raises(UnprovedError, match=r"green is 0\.9 in the study, .* in what made them") as caught:
            other.evaluate(folder / "out", folder / "again")
        assert "test-colour: " in str(caught.value)
        assert "test-brightness" not in str(caught.value)
        assert not (folder / "again").exists()

    def test_a_default_of_a_function_counts(self, folder: Path) -> None:
        other = study_with(folder, "[test-colour, {kind: test-brightness, threshold: 101.0}]")
        with pytest.raises(UnprovedError, match=r"threshold is 101\.0 in the study, 100\.0 in what made them"):
            other.evaluate(folder / "out", folder / "again")

    def test_another_kind_under_the_same_name_is_refused(self, folder: Path) -> None:
        other = study_with(folder, "[{name: test-colour, kind: test-brightness}, test-brightness]")
        with pytest.raises(
            UnprovedError, match=r"kind is .*test-brightness.* in the study, .*test-colour.* in what"
        ):
            other.evaluate(folder / "out", folder / "again")

    def test_allowed_they_are_evaluated_and_the_results_say_so(self, folder: Path) -> None:
        other = study_with(folder, "[{kind: test-colour, green: 0.9}, test-brightness]")
        other.evaluate(folder / "out", folder / "again", allow_unproved=True)
        differences = manifest(folder / "again")["proof"]["differences"]
        assert list(differences) == ["test-colour"]
        assert "green is 0.9 in the study" in differences["test-colour"][0]

    def test_weights_that_are_gone_are_not_needed_and_named_as_not_compared(self, tmp_path: Path) -> None:
        write_study_file(tmp_path)
        study = with_network(tmp_path)
        study.run(tmp_path / "out")
        shutil.rmtree(tmp_path / "nets")
        study.evaluate(tmp_path / "out", tmp_path / "again")
        not_told = manifest(tmp_path / "again")["proof"]["not_told"]
        assert list(not_told) == ["net"]
        assert all("weights was not compared" in line for line in not_told["net"])

    def test_files_of_another_program_are_evaluated_and_said_to_be_of_unknown_make(self, folder: Path) -> None:
        shutil.copytree(folder / "out" / "predictions", folder / "theirs")
        shutil.rmtree(folder / "theirs" / "shards")
        for path in (folder / "theirs").rglob("*.parquet"):
            pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
        study = Study.from_yaml(folder / "study.yaml")
        before = study.evaluate(folder / "out", folder / "one").metrics
        assert study.evaluate(folder / "theirs", folder / "two").metrics.equals(before)
        proof = manifest(folder / "two")["proof"]
        assert proof["not_told"]["test-colour"] == ["its files do not say what made them"]
        assert proof["predictions"]["test-colour"]["fingerprint"] is None

    def test_invented_metadata_is_refused(self, folder: Path) -> None:
        path = folder / "out" / "predictions" / "test-colour" / "predictions.parquet"
        table = pq.read_table(path)
        invented = {**table.schema.metadata, b"detector_bench.identity": b'{"kind": "better"}'}
        pq.write_table(table.replace_schema_metadata(invented), path)
        shutil.rmtree(folder / "out" / "predictions" / "shards")
        with pytest.raises(UnprovedError, match="its fingerprint is not that of what it names as its maker"):
            Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")


class TestNumbersAndPredictionsBelongTogether:
    def test_predictions_that_were_made_anew_elsewhere_are_not_read_beside_older_numbers(
        self, folder: Path
    ) -> None:
        Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
        again = Results.open(folder / "again")
        assert len(again.reader.predictions()) == 2
        study_with(folder, "[{kind: test-colour, green: 0.9}, test-brightness]").run(folder / "out")
        for read in (again.reader.predictions, again.reader.coded_predictions):
            with pytest.raises(
                ConfigError, match=r"the predictions of test-colour are not those that its numbers"
            ):
                read()
        assert len(Results.open(folder / "out").reader.predictions()) == 2

    def test_numbers_of_another_folders_predictions_are_made_anew_by_the_command_that_is_named(
        self, folder: Path, command: Command
    ) -> None:
        assert command("evaluate", folder / "out", "--out", folder / "again")[0] == 0
        before = manifest(folder / "again")["counts"]
        flip(folder / "again" / "metrics.csv")
        assert command("evaluate", folder / "again")[0] == 0
        assert manifest(folder / "again")["counts"] == before
        assert command("verify", folder / "again")[0] == 0

    def test_a_detector_that_is_gone_is_not_left_out_in_silence(self, folder: Path) -> None:
        shutil.rmtree(folder / "out" / "predictions" / "test-colour")
        with pytest.raises(ConfigError, match="the predictions of test-colour are not those"):
            Results.open(folder / "out").reader.predictions()

    def test_another_sample_is_not_read_beside_older_numbers(self, folder: Path, command: Command) -> None:
        images = folder / "images"
        assert command("sample", images, "--labels", 6)[0] == 0
        Study.from_yaml(folder / "study.yaml").run(folder / "out")
        sample = (images / "sample.csv").read_text().splitlines()
        (images / "sample.csv").write_text("\n".join([*sample[:2], *sample[3:]]) + "\n")
        status, _, said = command("estimate", folder / "out")
        assert status == 1
        assert "sample.csv is not the one that the numbers in" in said


class TestTheImagesAreThose:
    def test_a_replaced_image_is_refused_and_judged_anew_by_a_run(self, folder: Path) -> None:
        picture(3, seed=9).save(folder / "images" / "images" / f"{image_name(3)}.png")
        study = Study.from_yaml(folder / "study.yaml")
        with pytest.raises(UnprovedError, match=r"1 image is not the one that was judged \('.*3'\)"):
            study.evaluate(folder / "out", folder / "again")
        study.evaluate(folder / "out", folder / "again", allow_unproved=True)
        found = manifest(folder / "again")["proof"]["images"]
        assert found == {"of": COUNT, "same": COUNT - 1, "changed": 1, "not_there": 0}
        with pytest.raises(ChangedInputsError, match=r"1 image is not the one that was judged.*--changed-inputs"):
            study.run(folder / "out")
        study.run(folder / "out", changed_inputs=True)
        study.evaluate(folder / "out", folder / "again", changed_inputs=True)

    def test_an_image_that_cannot_be_read_any_more_takes_no_verdict_out_of_the_numbers(self, folder: Path) -> None:
        before = (folder / "out" / "metrics.csv").read_bytes()
        (folder / "images" / "images" / f"{image_name(3)}.png").unlink()
        for options in ({}, {"use_cache": False}):
            with pytest.raises(DetectorBenchError, match="cannot be read any more"):
                Study.from_yaml(folder / "study.yaml").run(folder / "out", **options)  # type: ignore[arg-type]
            assert (folder / "out" / "metrics.csv").read_bytes() == before

    def test_of_many_images_some_are_drawn_and_not_the_first(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stored = StoredPredictions(folder / "out")
        drawn = judged_contents(stored, list(stored), most=4)
        assert len(drawn) == 4
        assert list(drawn) != list(judged_contents(stored, list(stored)))[:4]
        assert drawn == judged_contents(stored, list(stored), most=4)
        monkeypatch.setattr("detector_bench.study_proof.MOST_COMPARED", 4)
        Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
        assert manifest(folder / "again")["proof"]["images"]["same"] == 4

    def test_images_that_are_gone_are_counted(self, folder: Path) -> None:
        shutil.rmtree(folder / "images" / "images")
        Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
        found = manifest(folder / "again")["proof"]["images"]
        assert found == {"of": COUNT, "same": 0, "changed": 0, "not_there": COUNT}


class TestDamage:
    def test_one_other_bit_in_predictions_is_refused_and_a_run_judges_anew(self, folder: Path) -> None:
        study, path = Study.from_yaml(folder / "study.yaml"), folder / "out" / "predictions" / "test-colour"
        before, true = study.evaluate(folder / "out", folder / "one").metrics, path / "predictions.parquet"
        flip(true, byte=100)
        with pytest.raises(DataError, match=r"test-colour/predictions\.parquet, column sha256: not as the run"):
            study.evaluate(folder / "out", folder / "two")
        with pytest.raises(DataError, match="not as the run wrote it"):
            Results.open(folder / "out").reader.predictions()
        assert study.run(folder / "out").metrics.equals(before)

    @pytest.mark.parametrize("vouched", [True, False])
    def test_a_name_of_a_column_that_is_no_text_is_refused(self, folder: Path, vouched: bool) -> None:
        path = folder / "out" / "predictions" / "test-colour" / "predictions.parquet"
        path.write_bytes(path.read_bytes().replace(b"reason", b"re\xf2son"))
        if not vouched:
            shutil.rmtree(folder / "out" / "predictions" / "shards")
        with pytest.raises((DataError, UnprovedError), match=r"predictions\.parquet"):
            Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
        with pytest.raises(DetectorBenchError):
            Results.open(folder / "out").reader.predictions()

    def test_one_other_bit_in_a_table_is_refused(self, folder: Path) -> None:
        flip(folder / "out" / "metrics.parquet")
        with pytest.raises(DetectorBenchError, match=r"metrics\.parquet: not as the evaluation wrote it"):
            _ = Results.open(folder / "out").metrics

    def test_one_other_bit_in_the_record_of_results_is_refused_and_evaluated_anew(self, folder: Path) -> None:
        path = folder / "out" / "results.json"
        text = path.read_text()
        path.write_text(text.replace('"max_error_share": 0.1', '"max_error_share": 0.3'))
        assert path.read_text() != text
        with pytest.raises(DetectorBenchError, match="its seal does not fit"):
            Results.open(folder / "out")
        Study.from_yaml(folder / "out" / "study.yaml").evaluate(folder / "out", folder / "out")
        again = manifest(folder / "out")
        assert again["settings"] == json.loads(text)["settings"]
        assert again["proof"]["predictions"] == json.loads(text)["proof"]["predictions"]

    def test_a_damaged_record_of_the_run_is_refused(self, folder: Path) -> None:
        path = folder / "out" / "run.json"
        path.write_text(path.read_text().replace('"version": 1', '"version": 3'))
        with pytest.raises(DetectorBenchError, match=r"run\.json: it is not as it was written"):
            Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")

    def test_a_damaged_stage_result_is_computed_anew(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DETECTOR_BENCH_CACHE", str(folder / "cache"))
        study = Study.from_yaml(folder / "study.yaml")
        before = study.run(folder / "one").metrics
        with sqlite3.connect(folder / "cache" / "stages.sqlite") as connection:
            rows = connection.execute("SELECT stage, image, arrays FROM results").fetchall()
            assert rows
            for stage, image, arrays in rows:
                other = bytearray(arrays)
                other[-1] ^= 1
                connection.execute(
                    "UPDATE results SET arrays = ? WHERE stage = ? AND image = ?", (bytes(other), stage, image)
                )
        stages_loaded.clear()
        assert study.run(folder / "two").metrics.equals(before)
        assert stages_loaded


class TestInputs:
    def corrected(self, folder: Path) -> None:
        path = folder / "images" / "labels.csv"
        text = path.read_text()
        path.write_text(text.replace(",male", ",female", 1))
        assert path.read_text() != text

    def test_a_corrected_label_has_to_be_meant(self, folder: Path) -> None:
        study = Study.from_yaml(folder / "study.yaml")
        self.corrected(folder)
        for ask in (lambda: study.run(folder / "out"), lambda: study.evaluate(folder / "out", folder / "again")):
            with pytest.raises(ChangedInputsError, match=r"the image set has changed since .* --changed-inputs"):
                ask()
        with pytest.raises(ChangedInputsError, match="is not the one that the numbers"):
            _ = Results.open(folder / "out").image_set
        study.evaluate(folder / "out", folder / "out", changed_inputs=True)
        study.run(folder / "out")

    def test_more_labels_need_no_word(self, folder: Path) -> None:
        path = folder / "images" / "labels.csv"
        lines = path.read_text().splitlines()
        image = lines[1].split(",")[0]
        second = lines[1].replace(lines[1].split(",")[1], "another", 1)
        write_csv(path, lines[0].split(","), [line.split(",") for line in reversed([*lines[1:], second])])
        assert image in second
        Study.from_yaml(folder / "study.yaml").run(folder / "out")
        assert Results.open(folder / "out").image_set is not None

    def test_an_edited_study_of_the_folder_has_to_be_meant(self, folder: Path, command: Command) -> None:
        path = folder / "out" / "study.yaml"
        path.write_text(path.read_text().replace("n_clear: detector", "n_clear: human"))
        status, _, told = command("evaluate", folder / "out")
        assert status == 1
        assert "study.yaml has changed since the numbers" in told
        assert command("evaluate", folder / "out", "--changed-inputs")[0] == 0
        assert manifest(folder / "out")["settings"]["n_clear"] == "human"


def test_a_run_whose_images_all_fail_ends_with_a_mistake(tmp_path: Path, command: Command) -> None:
    write_study_file(tmp_path)
    for path in (tmp_path / "images" / "images").iterdir():
        path.write_bytes(b"no image")
    status, _, told = command("run", tmp_path / "study.yaml", "--out", tmp_path / "out")
    assert status == 1
    assert "test-colour has judged no image, each ended in an error: " in told
    assert (tmp_path / "out" / "metrics.csv").is_file()


def test_everything_that_is_written_is_listed_with_its_sha256(folder: Path) -> None:
    listed = manifest(folder / "out")["proof"]["files"]
    there = {path.relative_to(folder / "out").as_posix() for path in (folder / "out").rglob("*") if path.is_file()}
    others = {name for name in there if name.startswith("predictions/")} | {
        "results.json",
        "local_paths.json",
    }
    assert set(listed) == there - others - {"results.json"}


def test_a_network_under_the_same_name_is_not_the_one_that_judged(tmp_path: Path) -> None:
    write_study_file(tmp_path)
    study = with_network(tmp_path)
    study.run(tmp_path / "out")
    write_network(tmp_path / "nets" / "net.onnx", red=0.5)
    judged = manifest(tmp_path / "out")["proof"]["predictions"]["net"]
    study.run(tmp_path / "out")
    assert manifest(tmp_path / "out")["proof"]["predictions"]["net"] != judged
