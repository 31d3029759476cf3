"""`sample.csv` and the command that draws it: same seed, same bytes; growing; every mistake in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from labelling_sets import numbered, write_image_set
from stored_study import FAILED, filtered, kept, write_predictions
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import drawn_from, read_sample
from detector_bench.errors import ConfigError, DataError

COUNT = 60  # 6 cells of 10 images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_image_set(tmp_path / "set", numbered(COUNT)).root


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["sample", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"image_id": str, "stratum": str}, keep_default_na=False)


def loaded(folder: Path) -> ImageSet:
    return ImageSet.load(folder, require_labels=False)


# The command


def test_the_sample_lies_in_the_image_set_and_says_how_it_was_drawn(folder: Path) -> None:
    said = run(folder, "--labels", 20).stdout
    assert "sdxl: 10 of 30 images, 3 to 4 of each of 3 prompts\n" in said
    assert f"Next: detector-bench label {folder} --annotator NAME" in said
    found = rows(folder / "sample.csv")
    images = loaded(folder).images.set_index("image_id").loc[found["image_id"]]
    of_cell = images.groupby(["t2i_model", "prompt_id"])["path"].transform("size").to_numpy()
    assert found["probability"].to_numpy() == pytest.approx(of_cell / 10)
    assert set(found["design"]) == {"equal"}
    assert set(found["drawn_from"]) == {drawn_from(loaded(folder))}
    assert read_sample(folder / "sample.csv", loaded(folder)).image_ids == found["image_id"].tolist()


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_images(folder: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        run(folder, "--labels", 20, "--seed", seed, "--out", tmp_path / name)
    one, two, three = ((tmp_path / name / "sample.csv").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three


def test_a_sample_is_replaced_only_when_told(folder: Path) -> None:
    run(folder, "--labels", 20)
    with pytest.raises(ConfigError, match=r"people may have labelled a part of it; add images with --add-to"):
        run(folder, "--labels", 30)
    run(folder, "--labels", 30, "--force")
    assert len(rows(folder / "sample.csv")) == 30


def test_a_sample_grows_and_keeps_its_images_first(folder: Path) -> None:
    file = folder / "sample.csv"
    run(folder, "--labels", 4)
    first = rows(file)
    assert first["cell_probability"].tolist() == pytest.approx([2 / 3] * 4)
    said = run(folder, "--labels", 14, "--add-to", file, "--seed", 9).stdout
    assert "18 images, 4 of them drawn before; design equal, seed 9" in said
    whole = rows(file)
    assert whole["image_id"].tolist()[:4] == first["image_id"].tolist()
    assert whole["seed"].tolist() == [0] * 4 + [9] * 14
    assert whole["probability"].tolist() == pytest.approx([0.3] * 18)
    assert whole["cell_probability"].tolist() == [1] * 18
    whole.drop(index=5).to_csv(file, index=False)
    with pytest.raises(ConfigError, match=r"not as it was drawn: image .* 2 of 10 images of its T2I model"):
        run(folder, "--labels", 1, "--add-to", file)


def test_labels_of_one_t2i_model_are_added(folder: Path) -> None:
    file = folder / "sample.csv"
    run(folder, "--labels", 12, "--t2i-model", "sd3")
    assert set(loaded(folder).images.set_index("image_id").loc[rows(file)["image_id"], "t2i_model"]) == {"sd3"}
    run(folder, "--labels", 3, "--t2i-model", "sdxl", "--add-to", file)
    assert sorted(rows(file)["probability"]) == pytest.approx([0.1] * 3 + [0.4] * 12)


def test_verdicts_name_the_stratum_and_errors_count_as_disagreement(folder: Path, tmp_path: Path) -> None:
    ids = numbered(COUNT)
    one = {image: kept("male") if number % 2 else filtered() for number, image in enumerate(ids)}
    other = {image: FAILED if number < 30 else one[image] for number, image in enumerate(ids)}
    results = write_predictions(tmp_path / "results", {"one": one, "other": other})
    with pytest.raises(ConfigError, match=r"'verdicts' needs detectors' verdicts on 'gender'.*--results"):
        run(folder, "--labels", 30, "--design", "verdicts")
    run(folder, "--labels", 30, "--design", "verdicts", "--results", results)
    found = rows(folder / "sample.csv")
    # T2I models alternate as verdicts do: all of sd3 are male, all of sdxl filtered.
    assert found["stratum"].value_counts().to_dict() == {"male": 15, "filtered": 15}
    run(folder, "--labels", 30, "--design", "disagreement", "--results", results, "--force")
    found = rows(folder / "sample.csv").set_index("image_id")
    # Each cell has 5 images of 60 on which one of two detectors fails: sizes 0.25 + 0.5 and 0.25, 5 labels of 10.
    failed = found.index < ids[30]
    assert found["probability"].to_numpy() == pytest.approx(np.where(failed, 0.75, 0.25))
    with pytest.raises(ConfigError, match=r"^a sample by disagreement cannot grow: an image's probability"):
        run(folder, "--labels", 5, "--add-to", folder / "sample.csv", "--results", results)


# Mistakes


def changed(column: str, value: object, row: int = 3) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(found: pd.DataFrame) -> pd.DataFrame:
        found = found.astype(object)
        found.loc[row, column] = value
        return found

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("image_id", "i999"), "row 5, column image_id: unknown image: 'i999' (accepted: an image_id"),
        (changed("probability", 0), "row 5, column probability: no probability: '0' (accepted: a number above 0"),
        (changed("probability", 1.5), "row 5, column probability: no probability: '1.5'"),
        (changed("probability", ""), "row 5, column probability: no probability: ''"),
        (changed("cell_probability", "x"), "row 5, column cell_probability: no probability: 'x'"),
        (changed("seed", -1), "row 5, column seed: no seed: '-1' (accepted: a whole number"),
        (changed("design", "odd"), "row 5, column design: unknown design: 'odd' (accepted: equal, verdicts, dis"),
        (changed("design", "verdicts"), "row 5, column design: a second design: 'verdicts' (accepted: equal"),
        (lambda found: pd.concat([found, found[:1]]), "row 22, column image_id: image listed twice: 'i0"),
        (lambda found: found.drop(columns="stratum"), "row 1, column stratum: the column is missing (accepted:"),
        (lambda found: found[:0], "sample.csv: no image is listed (accepted: a row for each image"),
    ],
)
def test_a_mistake_is_reported_in_its_place(
    folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    run(folder, "--labels", 20)
    file = folder / "sample.csv"
    change(rows(file)).to_csv(file, index=False)
    with pytest.raises(DataError) as caught:
        read_sample(file, loaded(folder))
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


def test_a_sample_of_another_version_says_how_to_draw_anew(folder: Path) -> None:
    run(folder, "--labels", 20)
    table = pd.read_csv(folder / "images.csv")
    before = drawn_from(loaded(folder))
    table[::-1].to_csv(folder / "images.csv", index=False)
    assert drawn_from(loaded(folder)) == before  # the order of the rows makes no other set
    table.assign(prompt_id=["p1", *table["prompt_id"][1:]]).to_csv(folder / "images.csv", index=False)
    with pytest.raises(
        DataError, match=r"row 2, column drawn_from: drawn from another version .*--labels 20 --ov"
    ):
        read_sample(folder / "sample.csv", loaded(folder))


def test_photos_that_no_t2i_model_made_are_not_drawn_and_not_accepted(tmp_path: Path) -> None:
    folder = write_image_set(tmp_path / "pairs", numbered(12), pairs=True).root
    table = pd.read_csv(folder / "images.csv", keep_default_na=False)
    table.loc[table["seed_image_id"] == "", ["t2i_model", "prompt_id"]] = ""
    table.to_csv(folder / "images.csv", index=False)
    run(folder, "--labels", 12)
    found = rows(folder / "sample.csv")
    assert not found["image_id"].str.startswith("seed").any()
    changed("image_id", "seed_i000")(found).to_csv(folder / "sample.csv", index=False)
    with pytest.raises(DataError, match="row 5, column image_id: no T2I model made this image: 'seed_i000'"):
        read_sample(folder / "sample.csv", loaded(folder))
    with pytest.raises(ConfigError, match=r"there is no sample '.*none.csv'; `detector-bench sample"):
        read_sample(tmp_path / "none.csv", loaded(folder))
