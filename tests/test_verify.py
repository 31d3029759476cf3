"""`verify` and `pack`: every link from page to image is proved, left open, or contradicted by name."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_parts import image_name, picture
from study_files import COUNT, manifest, with_network, write_network, write_study_file

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.results.verification_record import Link, Outcome, Verification
from detector_bench.runner.shard_ledger import ShardLedger, file_sha256
from detector_bench.runner.shards import Shard
from detector_bench.sealed import read_sealed, seal_of, sealed_digest, write_sealed
from detector_bench.study import Study
from detector_bench.verification import VerificationOrder, unpacked, verify_folder

pytestmark = pytest.mark.slow

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_study_file(folder)
    with_network(folder).run(folder / "out", use_cache=False)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "here")
    return tmp_path / "here"


def links(folder: Path, **order: object) -> dict[str, Link]:
    found = verify_folder(folder / "out", VerificationOrder(**order))  # type: ignore[arg-type]
    return {link.name: link for link in found.links}


def everything(folder: Path) -> dict[str, object]:
    return {"image_set": folder / "images", "weights_dir": folder / "nets", "recompute": 5}


def sealed_again(folder: Path, name: str, file: str) -> None:
    """What somebody does who changes predictions and hides it: all records name the new sha256."""
    path = folder / "out" / "predictions" / name / file
    sha256 = file_sha256(path)
    for record in [folder / "out" / "results.json", *(folder / "out" / "predictions" / "shards").glob("0*.json")]:
        content = read_sealed(record)
        entry = (
            content["proof"]["predictions"][name]["files"] if "proof" in content else content["detectors"][name]
        )
        entry[file if "proof" in content else "sha256"] = sha256
        write_sealed(record, content)


def with_other_labels(folder: Path, name: str) -> None:
    path = folder / "out" / "predictions" / name / "predictions.parquet"
    table = pq.read_table(path)
    turned = ["female" if each == "male" else each for each in table["label"].to_pylist()]
    place = table.schema.get_field_index("label")
    labels = pa.array(turned, pa.string())
    pq.write_table(table.set_column(place, table.schema.field("label"), labels), path)
    sealed_again(folder, name, path.name)


def test_a_whole_folder_is_proved(folder: Path) -> None:
    found = links(folder, **everything(folder))
    assert {name: link.outcome for name, link in found.items()} == dict.fromkeys(
        ("results", "files", "predictions", "detectors", "numbers", "images", "weights", "judged again"),
        Outcome.PROVED,
    ) | {"detectors": Outcome.OPEN}, "weights without a pin are compared by their own link"
    assert found["images"].says == f"{COUNT} of {COUNT} images have the content that was judged"
    assert found["judged again"].says.startswith("10 of 10 verdicts on 5 images")


def test_what_is_not_there_is_left_open_and_never_proved(folder: Path) -> None:
    shutil.rmtree(folder / "images")
    found = links(folder)
    assert [name for name, link in found.items() if link.outcome is Outcome.PROVED] == [
        *("results", "files", "predictions")
    ]
    assert found["numbers"].says == "the image set is not here, so no number was computed again"


def test_a_changed_file_is_named(folder: Path) -> None:
    path = folder / "out" / "tables" / "filtering_and_accuracy.csv"
    path.write_text(path.read_text().replace("1", "2"))
    (folder / "out" / "confusion.csv").unlink()
    with pytest.raises(ConfigError, match=r"lacks confusion\.csv"):
        links(folder)
    (folder / "out" / "confusion.csv").write_text("")
    found = links(folder)["files"]
    assert found.outcome is Outcome.FALSE
    assert found.problems == (
        "confusion.csv: not as it was written",
        "tables/filtering_and_accuracy.csv: not as it was written",
    )


def test_predictions_that_somebody_changed_and_sealed_again_do_not_give_the_numbers(folder: Path) -> None:
    with_other_labels(folder, "net")
    found = links(folder, **everything(folder))
    assert found["predictions"].outcome is Outcome.PROVED
    assert found["numbers"].outcome is Outcome.FALSE
    assert any(line.startswith("metrics.csv: ") for line in found["numbers"].problems)
    assert found["judged again"].outcome is Outcome.FALSE
    assert any(line.startswith("net, image_") for line in found["judged again"].problems)


def test_numbers_that_somebody_changed_and_sealed_again_do_not_come_out(folder: Path) -> None:
    path = folder / "out" / "metrics.parquet"
    table = pq.read_table(path).to_pandas()
    row = int(table.index[table["metric"] == "accuracy"][0])
    table.loc[row, "value"] = 0.123
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None), path)
    content = read_sealed(folder / "out" / "results.json")
    content["proof"]["files"]["metrics.parquet"] = file_sha256(path)
    write_sealed(folder / "out" / "results.json", content)
    found = links(folder)["numbers"]
    assert found.outcome is Outcome.FALSE
    assert found.problems[0].startswith(
        f"metrics.parquet: 1 values of column value, the first in row {row + 2}: 0.123"
    )


def resealed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = read_sealed(folder / "out" / "results.json")
    change(content)
    write_sealed(folder / "out" / "results.json", content)


def test_a_rendered_table_that_somebody_changed_and_sealed_again_does_not_come_out(folder: Path) -> None:
    name = "tables/filtering_and_accuracy.csv"
    path = folder / "out" / name
    path.write_text(path.read_text().replace("1", "2"))
    resealed(folder, lambda content: content["proof"]["files"].update({name: file_sha256(path)}))
    found = links(folder)
    assert found["files"].outcome is Outcome.PROVED
    assert found["numbers"].problems == (f"{name}: it does not come out again",)


def test_tables_with_intervals_come_out_again(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    study.evaluate(folder / "out", folder / "out", tables_with_intervals=True)
    assert links(folder)["numbers"].outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("change", "link", "problem"),
    [
        (lambda content: content.update(counts={}), "numbers", "results.json: counts does not come out again"),
        (
            lambda content: content["settings"].update(max_error_share=0.9),
            "numbers",
            "results.json: max_error_share is 0.9, in the study 0.1",
        ),
        (
            lambda content: content["files"].pop("comparisons.csv"),
            "numbers",
            "comparisons.csv: not listed in results.json",
        ),
        (
            lambda content: content["proof"].update(predictions={}),
            "predictions",
            "net: results.json does not say which files its predictions are",
        ),
        (
            lambda content: content["proof"]["files"].pop("metrics.csv"),
            "files",
            "metrics.csv: results.json does not say what was written",
        ),
    ],
)
def test_a_record_that_somebody_changed_and_sealed_again_is_contradicted(
    folder: Path, change: Callable[[dict[str, Any]], object], link: str, problem: str
) -> None:
    resealed(folder, change)
    assert problem in links(folder, weights_dir=folder / "nets")[link].problems


def test_a_record_without_its_seal_is_refused(folder: Path) -> None:
    path = folder / "out" / "results.json"
    path.write_text(json.dumps(read_sealed(path)))
    with pytest.raises(ConfigError, match="it has no seal, as every evaluation writes it"):
        links(folder)


def test_predictions_beside_other_numbers_are_no_contradiction(folder: Path) -> None:
    shutil.copytree(folder / "images", folder / "corrected")
    labels = folder / "corrected" / "labels.csv"
    labels.write_text(labels.read_text().replace(",male", ",female", 1))
    study = Study.from_yaml(folder / "study.yaml", image_set=folder / "corrected")
    study.evaluate(folder / "out", folder / "again", changed_inputs=True)
    found = verify_folder(folder / "again", VerificationOrder(image_set=folder / "corrected"))
    assert {link.name: link.outcome for link in found.links}["numbers"] is Outcome.PROVED


def test_of_a_large_study_values_are_computed_again_and_the_rest_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detector_bench.verification.numbers.MOST_IMAGES", COUNT - 1)
    found = links(folder)
    assert found["numbers"].outcome is Outcome.PROVED
    assert found["intervals"].outcome is Outcome.OPEN
    assert "confidence intervals, 0 scores and estimates and " in found["intervals"].says
    assert "intervals" not in links(folder, all_numbers=True)
    with_other_labels(folder, "net")
    turned = links(folder)["numbers"]
    assert turned.outcome is Outcome.FALSE
    assert "values of column value, the first of " in turned.problems[0]


def test_other_images_and_weights_are_named(folder: Path) -> None:
    picture(3, seed=9).save(folder / "images" / "images" / f"{image_name(3)}.png")
    write_network(folder / "nets" / "net.onnx", red=0.4)
    found = links(folder, **everything(folder))
    assert found["images"].outcome is Outcome.FALSE
    assert found["images"].problems == (f"{image_name(3)}: not the image that was judged",)
    assert found["weights"].outcome is Outcome.FALSE
    assert found["weights"].problems[0].startswith("net: ")
    assert found["judged again"].outcome is Outcome.FALSE


def test_other_labels_leave_the_numbers_open(folder: Path) -> None:
    path = folder / "images" / "labels.csv"
    path.write_text(path.read_text().replace(",male", ",female", 1))
    found = links(folder)["numbers"]
    assert (found.outcome, found.problems) == (Outcome.OPEN, ("the image set",))


def test_figures_and_report_are_about_these_results(folder: Path, command: Command) -> None:
    out = folder / "out"
    figure = ("--only", "filter_plane", "--format", "png", "--width", "single")
    assert command("figures", out, *figure)[0] == 0
    assert command("report", out, "--images", "none", "--without-figures")[0] == 0
    found = links(folder)
    assert (found["figures"].outcome, found["report"].outcome) == (Outcome.PROVED, Outcome.PROVED)
    (out / "figures" / "filter_plane.txt").write_text("Another caption.")
    page = out / "report" / "index.html"
    page.write_text(page.read_text().replace("</h1>", "!</h1>"))
    found = links(folder)
    assert found["figures"].problems == ("filter_plane.txt: not as it was written",)
    assert found["report"].problems == ("index.html: not as it was written",)
    Study.from_yaml(folder / "study.yaml").with_n_clear("human").evaluate(out, out)
    assert links(folder)["report"].problems[0].startswith("report/ shows other results")


def test_the_command_writes_a_statement_and_the_report_shows_it(folder: Path, command: Command) -> None:
    out = folder / "out"
    status, said, _ = command("verify", out, "--images", folder / "images")
    record = Verification.read(out, results=seal_of(manifest(out)))
    assert status == 0
    assert record is not None
    assert record.statement in " ".join(said.split())
    assert "Not proved: " in record.statement
    assert command("report", out, "--images", "none", "--without-figures")[0] == 0
    assert record.statement.split(";")[0].replace("'", "&#39;") in (out / "report" / "index.html").read_text()
    (out / "tables" / "filtering_and_accuracy.csv").write_text("")
    status, said, _ = command("verify", out)
    assert status == 1
    assert "tables/filtering_and_accuracy.csv: not as it was written" in said
    command("report", out, "--images", "none", "--without-figures")
    assert "Verification found a contradiction" in (out / "report" / "index.html").read_text()


def test_a_cited_seal_is_compared(folder: Path) -> None:
    seal = sealed_digest(folder / "out" / "results.json")
    assert links(folder, cited=seal)["results"].outcome is Outcome.PROVED
    assert links(folder, cited="0" * 64)["results"].outcome is Outcome.FALSE


def test_a_pack_is_verified_elsewhere(folder: Path, tmp_path: Path, command: Command) -> None:
    for name in ("one", "two"):
        assert command("pack", folder / "out", "--images", "--file", tmp_path / f"{name}.zip")[0] == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    shutil.rmtree(folder)
    status, said, _ = command("verify", tmp_path / "one.zip")
    assert status == 0
    assert f"{COUNT} of {COUNT} images have the content that was judged" in said
    assert "tables come out again" in said


def test_a_pack_takes_another_folders_predictions_along(folder: Path, tmp_path: Path, command: Command) -> None:
    Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
    assert command("pack", folder / "again", "--file", tmp_path / "again.zip")[0] == 0
    shutil.rmtree(folder)
    status, said, _ = command("verify", tmp_path / "again.zip")
    assert status == 0
    assert f"{2 * COUNT} predictions in 2 files are those that were counted" in said
    assert "tables come out again" in said


def test_a_pack_takes_nothing_along_that_the_results_do_not_know(folder: Path, command: Command) -> None:
    Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
    (folder / "secret.txt").write_text("mine")
    local = folder / "again" / "local_paths.json"
    content = json.loads(local.read_text())
    local.write_text(json.dumps(content | {"score_files": {"secret.txt": "../secret.txt"}}))
    shutil.copy(folder / "secret.txt", folder / "out" / "predictions" / "net" / "secret.parquet")
    assert command("pack", folder / "again", "--file", folder / "again.zip")[0] == 0
    assert not [name for name in zipfile.ZipFile(folder / "again.zip").namelist() if "secret" in name]


def test_predictions_that_are_not_here_are_left_open(folder: Path) -> None:
    Study.from_yaml(folder / "study.yaml").evaluate(folder / "out", folder / "again")
    shutil.rmtree(folder / "out")
    found = {link.name: link for link in verify_folder(folder / "again", VerificationOrder()).links}
    assert found["predictions"].outcome is Outcome.OPEN


def test_a_run_that_is_judging_is_no_contradiction(folder: Path) -> None:
    with_other_labels(folder, "net")
    with (
        ShardLedger(folder / "out" / "predictions").running(Shard()),
        pytest.raises(DetectorBenchError, match="was written while it was verified"),
    ):
        links(folder)
    assert links(folder)["numbers"].outcome is Outcome.FALSE


def test_a_value_that_somebody_changed_is_judged_otherwise(folder: Path) -> None:
    path = folder / "out" / "predictions" / "net" / "predictions.parquet"
    table = pq.read_table(path)
    values = pa.array([30.0] * table.num_rows, pa.float64())
    place = table.schema.get_field_index("value")
    pq.write_table(table.set_column(place, table.schema.field("value"), values), path)
    sealed_again(folder, "net", path.name)
    found = links(folder, **everything(folder))
    assert found["numbers"].outcome is Outcome.PROVED, "no number of gender is made of values"
    assert found["judged again"].outcome is Outcome.FALSE
    assert "value 30.0000" in found["judged again"].problems[0]


def test_an_image_set_in_the_result_folder_is_packed_once_and_only_where_it_is_asked_for(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    shutil.move(folder / "images", folder / "out" / "images")
    study = Study.from_yaml(folder / "study.yaml", image_set=folder / "out" / "images")
    study.evaluate(folder / "out", folder / "out")
    packs = {"all": ["--images"], "tables": [], "nothing": ["--without-image-set"]}
    found = {}
    for name, options in packs.items():
        assert command("pack", folder / "out", *options, "--file", tmp_path / f"{name}.zip")[0] == 0
        names = zipfile.ZipFile(tmp_path / f"{name}.zip").namelist()
        found[name] = [sum(each.endswith(ending) for each in names) for ending in (".png", "labels.csv")]
    assert found == {"all": [COUNT, 1], "tables": [0, 1], "nothing": [0, 0]}
    assert command("verify", tmp_path / "all.zip")[0] == 0


def test_a_pack_without_the_image_set_holds_no_label(folder: Path, tmp_path: Path, command: Command) -> None:
    assert command("pack", folder / "out", "--without-image-set", "--file", tmp_path / "bare.zip")[0] == 0
    names = zipfile.ZipFile(tmp_path / "bare.zip").namelist()
    assert not [name for name in names if name.startswith("image_set/") or ".lock" in name]
    assert command("verify", tmp_path / "bare.zip")[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results/../../evil.txt", "x", "outside its folder"),
        ("/evil.txt", "x", "outside its folder"),
        ("results/zeros.bin", "0" * 50_000_000, "would become 50,000,000 bytes"),
        ("something.txt", "x", "it has no folder 'results'"),
    ],
)
def test_a_hostile_pack_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "hostile.zip", "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr(name, content)
    with pytest.raises(ConfigError, match=message), unpacked(tmp_path / "hostile.zip"):
        pass
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_file_that_is_no_pack_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 not really")
    with (
        pytest.raises(ConfigError, match="is no pack of detector-bench, or a damaged one"),
        unpacked(tmp_path / "no.zip"),
    ):
        pass
