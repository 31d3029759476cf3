"""`labels export`, `labels import` and `labels agreement`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from labelling_sets import numbered, saying, write_image_set
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError
from detector_bench.labelling import DeskSettings, LabelStore, StoreError


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["labels", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Two annotators on ten images: 4 times both male, 4 times both female, and 2 disagreements."""
    image_set = write_image_set(tmp_path / "set", numbered(10))
    with LabelStore.open(image_set.root / "labelling.sqlite", image_set) as store:
        for name, letters in {"ann": "mmmmffffmf", "ben": "mmmmfffffm"}.items():
            for item, letter in zip(numbered(10), letters, strict=True):
                label = "male" if letter == "m" else "female"
                store.record(name, saying(item, label, answer_id=f"{name}{item}"))
    return image_set.root


def test_export_and_import_as_csv(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    assert f"{out}: 20 labels" in run("export", folder, "--out", out).stdout
    assert len(pd.read_csv(out)) == 20
    with pytest.raises(ConfigError, match="exists; name another folder"):
        run("export", folder, "--out", out)
    run("export", folder / "labelling.sqlite", "--out", out, "--overwrite")
    other = write_image_set(tmp_path / "other", numbered(10)).root
    assert "20 labels stored, 0 were there already" in run("import", out, other).stdout
    assert "0 labels stored, 20 were there already" in run("import", out, other).stdout
    run("export", other, "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == out.read_bytes()


def test_no_table_without_labels_and_no_arguments_the_other_way_round(folder: Path, tmp_path: Path) -> None:
    empty = write_image_set(tmp_path / "empty", numbered(2))
    with LabelStore.open(empty.root / "labelling.sqlite", empty):
        pass
    with pytest.raises(ConfigError, match="nobody has labelled yet"):
        run("export", empty.root, "--out", empty.root)
    assert not (empty.root / "labels.csv").exists()
    out = tmp_path / "labels.csv"
    run("export", folder, "--out", out)
    with pytest.raises(ConfigError, match=f"labels import {out} {folder}`"):
        run("import", folder, out)


def test_export_and_import_for_label_studio(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tasks.json"
    said = run("export", folder, "--format", "label-studio", "--out", out, "--email", "ann=ann@example.org")
    assert "without an address (see --email): ben; Label Studio" in said.output
    assert len(json.loads(out.read_text())) == 10
    assert '<Choices name="gender"' in (tmp_path / "tasks.xml").read_text()
    other = write_image_set(tmp_path / "other", numbered(10)).root
    assert "20 labels stored" in run("import", out, other, "--annotator", "ann@example.org=ann").stdout


def test_labels_on_changed_images_are_exported_only_when_told(folder: Path, tmp_path: Path) -> None:
    (folder / "images" / "i001.png").write_bytes(b"another picture")
    said = run("export", folder, "--out", tmp_path / "a.csv")
    assert "18 labels" in said.output
    assert "left out: 2 labels on images that have changed" in said.output
    assert "20 labels" in run("export", folder, "--out", tmp_path / "b.csv", "--include-changed").output


def test_agreement_shows_and_writes_what_the_command_on_finished_labels_does(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "agreement.csv"
    said = run("agreement", folder, "--out", out).stdout
    # 8 of 10 equal; each said male 5 times, so chance gives 0.5, and kappa is (0.8 - 0.5) / (1 - 0.5).
    row = pd.read_csv(out).query("t2i_model == 'all' and category == 'all' and statistic == 'cohen_kappa'").iloc[0]
    assert (round(row["value"], 12), row["n"]) == (0.6, 10)
    # Table 4, 1, 1, 4 of 10: Fleiss, Cohen and Everitt's variance is (1 - 0.6^2) / 10.
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.6 - 1.959964 * 0.064**0.5, 1))
    assert "80.00" in said
    run("export", folder, "--out", folder)
    finished = CliRunner().invoke(
        app, ["agreement", str(folder), "--min-shared", "1", "--out", str(tmp_path / "of_finished.csv")]
    )
    assert out.read_text() == (tmp_path / "of_finished.csv").read_text()
    *tables, last = finished.stdout.rstrip().split("\n\n")
    assert last == "Two raters have a row if they share an image."
    assert said.startswith("\n\n".join(tables))


def test_agreement_of_several_questions_has_tables_for_each(tmp_path: Path) -> None:
    image_set = write_image_set(tmp_path / "set", numbered(4))
    settings = DeskSettings(attributes=("gender", "age"))
    with LabelStore.open(image_set.root / "labelling.sqlite", image_set, settings=settings) as store:
        for name in ("ann", "ben"):
            for item in numbered(4):
                store.record(name, saying(item, "male", answer_id=f"{name}{item}"))
    out = tmp_path / "out"
    said = run("agreement", image_set.root, "--out", out).stdout
    assert "age: fewer than two annotators have labelled: there is nothing to compare" in said
    assert {path.name for path in (out / "tables").glob("*.csv")} == {
        "annotator_agreement_gender.csv",
        "pair_agreement_gender.csv",
    }
    assert set(pd.read_csv(out / "agreement.csv")["attribute"]) == {"gender"}


def test_the_store_must_be_there_and_whole(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no labelling store '.*labelling-pairs.sqlite'"):
        run("export", folder, "--task", "pairs", "--out", tmp_path / "a.csv")
    (folder / "labelling.sqlite").write_text("oh dear")
    with pytest.raises(StoreError, match="no SQLite file"):
        run("export", folder, "--out", tmp_path / "a.csv")
