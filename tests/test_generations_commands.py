"""`generations list`, `show` and `remake`: what is recorded of a request is told, and its image is made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.image_requests import ImageRequest, Made, Outcome
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.stored_requests import requests_by_model
from detector_bench.generation.t2i_models import GenerationPlace, ModelRecord, T2IModel, t2i_model
from tests import drawing_model

assert drawing_model.Drawing.kind == "drawing"

NURSE = "one__nurse__0001"


@t2i_model("inverting")
class Inverting(T2IModel):
    """Edits photos: light becomes dark."""

    @property
    def edits(self) -> bool:
        return True

    def load(self, place: GenerationPlace) -> Inverted:
        return Inverted()


class Inverted:
    record = ModelRecord(model="inverting")

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        return [Made(content=_inverted(request), seconds=0.1) for request in requests]

    def close(self) -> None:
        pass


def _inverted(request: ImageRequest) -> Image.Image:
    assert request.seed_photo is not None
    with Image.open(request.seed_photo.path) as photo:
        return Image.fromarray(255 - np.asarray(photo))


def made_set(
    folder: Path, *, words: Sequence[str] = ("nurse", "refused pilot", "failing cook"), **more: Any
) -> Path:
    """An image set that a recipe made: two images of each word."""
    folder.mkdir()
    (folder / "words.csv").write_text("category,word\n" + "".join(f"things,{word}\n" for word in words))
    (folder / "templates.csv").write_text("category,template\nthings,a photo of [word]\n")
    recipe = {
        "name": "small",
        "prompts": "words.csv",
        "images_per_prompt": 2,
        "models": [{"name": "one", "kind": "drawing", "width": 16}],
        **more,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    out = folder / "set"
    ImageSetMaking(read_recipe(folder / "recipe.yaml"), out, GenerationOrder()).run(lambda _: None)
    return out


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return made_set(tmp_path / "recipe")


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["generations", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def remake(images: Path, image_id: str = NURSE, *options: object) -> Result:
    return run("remake", image_id, "--set", images, *options)


def said(result: Result) -> str:
    """What was printed, in one line."""
    return " ".join(result.output.split())


def rewritten(images: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the table anew, with a change to the nurse's row: as if it came from another machine or day."""
    path = images / "generations.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        if row["image_id"] == NURSE:
            change(row)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def state(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# What is recorded


def test_everything_that_is_recorded_of_a_request_is_shown(images: Path) -> None:
    row = next(
        row for row in pq.read_table(images / "generations.parquet").to_pylist() if row["image_id"] == NURSE
    )
    shown = said(run("show", NURSE, "--set", images))
    for text in ("made", "a photo of nurse", str(row["seed"]), "width 16", "kind drawing", "cpu", "drawing 1"):
        assert f" {text} " in shown
    assert " images/one/nurse/0001.png " in shown
    assert "oneoneoneoneoneoneoneone" in shown  # of the weights
    told = json.loads(run("show", NURSE, "--set", images, "--json").stdout)["rows"][0]
    assert set(row) < set(told)
    assert told["parameters"] == {"kind": "drawing", "width": 16}
    (images / told["path"]).write_bytes(b"another")
    assert "images/one/nurse/0001.png (its content has changed since)" in said(run("show", NURSE, "--set", images))


def test_a_request_that_the_recipe_was_changed_away_from_is_shown_behind_the_new_one(images: Path) -> None:
    recipe = images.parent / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("width: 16", "width: 24"))
    ImageSetMaking(read_recipe(recipe), images, GenerationOrder(remake_changed=True)).run(lambda _: None)
    new, old = json.loads(run("show", NURSE, "--set", images, "--json").stdout)["rows"]
    assert [new["parameters"]["width"], old["parameters"]["width"]] == [24, 16]
    assert (new["in_recipe"], old["in_recipe"]) == (True, False)
    assert old["path"].startswith("generation/replaced/nurse/")
    assert "(its content" not in said(run("show", NURSE, "--set", images))


def test_requests_are_counted_with_what_was_refused_and_what_it_cost(tmp_path: Path) -> None:
    priced = {"name": "two", "kind": "drawing", "price": 0.04}
    images = made_set(tmp_path / "recipe", models=[{"name": "one", "kind": "drawing"}, priced])
    told = said(run("list", images))
    assert "one: made 2, blocked 2, error 2; 0.50 s per image" in told
    assert "two: made 2, blocked 2, error 2; 0.50 s per image; cost 0.0800 USD" in told
    assert "one blocked 2 moderation_blocked moderation_blocked: no" in told
    assert "one error 2 no luck" in told
    rows = json.loads(run("list", images, "--json").stdout)["rows"]
    assert [row["requests"] for row in rows if row["table"] == "reasons"] == [2, 2, 2, 2]


def test_a_reason_that_begins_with_an_address_is_not_cut_within_it(images: Path) -> None:
    reason = "http://127.0.0.1:9/v1: Connection refused (after 2 attempts)"
    rewritten(images, lambda row: row.update(status="error", reason=reason))
    assert {each.t2i_model: dict(each.reasons) for each in requests_by_model(images)}["one"] == {
        ("error", "http://127.0.0.1:9/v1"): 1,
        ("error", "no luck"): 2,
        ("blocked", "moderation_blocked"): 2,
    }


def test_a_terminal_obeys_nothing_that_a_service_wrote(images: Path) -> None:
    rewritten(images, lambda row: row.update(revised_prompt="a \x1b[31mnurse\x07", reason="x\x1b]0;y: \x9b2J"))
    for told in (run("show", NURSE, "--set", images), run("list", images)):
        assert not {"\x1b", "\x07", "\x9b"} & set(told.stdout)
    assert r"a \x1b[31mnurse\x07" in said(run("show", NURSE, "--set", images))


def test_what_cannot_be_found_is_said(images: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no request for the image 'one__nurse__01': .*one__nurse__0001"):
        run("show", "one__nurse__01", "--set", images)
    with pytest.raises(ConfigError, match=r"for the image 'xyz'; there are such as (one\w+, ){4}one\w+$"):
        run("show", "xyz", "--set", images)
    with pytest.raises(
        ConfigError, match=r"there is no generations.parquet in .*that `detector-bench generate` made"
    ):
        run("list", tmp_path)
    (tmp_path / "generation").mkdir()
    with pytest.raises(ConfigError, match=r"not written yet in .*the same command goes on and writes it"):
        run("list", tmp_path)
    (images / "generations.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"generations.parquet: it cannot be read \("):
        run("list", images)


def test_only_what_can_be_made_again_is_offered(images: Path) -> None:
    for image_id in (NURSE, "one__refused_pilot__0000"):
        assert f"generations remake {image_id}" in run("show", image_id, "--set", images).stdout
    assert "remake" not in run("show", "one__failing_cook__0000", "--set", images).stdout


# Made again


def test_an_image_comes_out_the_same_three_times_and_the_set_stays_as_it_is(images: Path, tmp_path: Path) -> None:
    before = state(images)
    for number in range(3):
        out = tmp_path / f"{number}.png"
        found = remake(images, NURSE, "--out", out)
        assert found.exit_code == 0
        assert "Nothing that is recorded of the T2I model, its libraries and device differs." in found.stdout
        assert f"{NURSE}: the same bytes" in found.stdout
        assert out.read_bytes() == (images / "images/one/nurse/0001.png").read_bytes()
    assert state(images) == before
    with pytest.raises(ConfigError, match=r"0.png' exists"):
        remake(images, NURSE, "--out", tmp_path / "0.png")


def test_versions_and_device_that_differ_are_told(images: Path) -> None:
    def other(row: dict[str, Any]) -> None:
        row.update(versions=json.dumps({"drawing": "0.9", "ink": "3", "pillow": "1.0"}), device="cuda:0")

    rewritten(images, other)
    found = remake(images)
    facts = ("drawing: 0.9, now 1", "ink: 3, now not recorded", f"pillow: 1.0, now {PIL.__version__}")
    assert found.stdout == "\n".join((*facts, "device: cuda:0, now cpu", f"{NURSE}: the same bytes", ""))
    assert found.exit_code == 0


def test_other_bytes_are_told_by_their_pixels(images: Path) -> None:
    rewritten(images, lambda row: row.update(seed=row["seed"] + 1))
    with pytest.raises(ConfigError, match=r"the request is not the one that made 'one__nurse__0001' \(.*--anyway"):
        remake(images)
    found = json.loads(remake(images, NURSE, "--anyway", "--json").stdout)["rows"]
    last = found[-1]
    with Image.open(images / "images/one/nurse/0001.png") as stored:
        then = np.asarray(stored).astype(int)
    now = np.random.default_rng(_seed(images)).integers(0, 256, then.shape, dtype=np.uint8)
    assert last["largest_difference"] == np.abs(then - now).max()
    assert last["mean_difference"] == pytest.approx(np.abs(then - now).mean())
    assert last["share_of_pixels"] == pytest.approx((then != now).any(axis=-1).mean())
    assert not last["same"]
    assert remake(images, NURSE, "--anyway").exit_code == 1
    assert "% of its pixels differ, by at most" in said(remake(images, NURSE, "--anyway"))


def _seed(images: Path) -> int:
    return int(json.loads(run("show", NURSE, "--set", images, "--json").stdout)["rows"][0]["seed"])


def test_equal_pixels_in_another_file_are_no_difference_of_the_image(images: Path) -> None:
    path = images / "images/one/nurse/0001.png"
    with Image.open(path) as stored:
        stored.load()
        stored.save(path, compress_level=0)
    rewritten(images, lambda row: row.update(image_sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    found = remake(images)
    assert found.exit_code == 1
    assert "the same pixels in other bytes" in found.stdout
    path.unlink()
    lost = remake(images)
    assert "the same bytes" not in lost.stdout
    assert "0001.png cannot be read (No such file" in lost.output


def test_other_weights_are_refused_unless_they_are_meant(images: Path) -> None:
    own = images / "recipe.yaml"
    own.write_text(own.read_text().replace("kind: drawing", "kind: drawing\n  network: two"))
    with pytest.raises(
        ConfigError, match=r"the T2I model is not the one .*weights: oneoneoneone, now twotwotwotwo"
    ):
        remake(images)
    found = remake(images, NURSE, "--anyway")
    assert "sha256 of the weights: oneoneoneone, now twotwotwotwo" in found.stdout
    assert found.exit_code == 0
    own.write_text(own.read_text().replace("name: one", "name: ones"))
    with pytest.raises(ConfigError, match=r"recipe.yaml has no T2I model 'one'.*ones"):
        remake(images)


def test_a_parameter_that_was_changed_is_named(images: Path) -> None:
    own = images / "recipe.yaml"
    own.write_text(own.read_text().replace("width: 16", "width: 32"))
    with pytest.raises(ConfigError, match=r"the request is not the one that made .* \(width: 16, now 32\)"):
        remake(images)


def test_a_refusal_comes_again_and_what_failed_is_no_image(images: Path) -> None:
    found = remake(images, "one__refused_pilot__0000")
    assert (found.exit_code, "refused again (moderation_blocked: no)" in found.stdout) == (0, True)
    with pytest.raises(
        ConfigError, match=r"its status is error \(no luck\); `detector-bench generate` asks for it"
    ):
        remake(images, "one__failing_cook__0000")


def test_money_is_spent_only_when_it_is_meant(tmp_path: Path) -> None:
    log = tmp_path / "log"
    models = [{"name": "one", "kind": "drawing", "price": 0.04, "log": str(log)}]
    images = made_set(tmp_path / "recipe", models=models, words=("nurse",))
    drawn = log.read_text()
    with pytest.raises(ConfigError, match=r"one image of 'one' costs up to 0.0400 USD; --pay asks for it"):
        remake(images)
    assert log.read_text() == drawn
    assert "It cost 0.0400 USD, beside what the set has cost." in remake(images, NURSE, "--pay").stdout


def test_a_seed_photo_that_is_gone_or_another_is_said(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8), "navy").save(tmp_path / "photos" / "ann.png")
    models = [{"name": "one", "kind": "inverting"}]
    images = made_set(tmp_path / "recipe", words=("nurse",), models=models, seed_photos=str(tmp_path / "photos"))
    edited = "one__nurse__seed_ann__0000"
    assert remake(images, edited).exit_code == 0
    photo = next((images / "seeds").glob("*.png"))
    Image.new("RGB", (8, 8), "red").save(photo)
    with pytest.raises(ConfigError, match=r"the request is not the one .*, or the seed photo: "):
        remake(images, edited)
    assert "by at most 255" in said(remake(images, edited, "--anyway"))
    photo.unlink()
    with pytest.raises(ConfigError, match=r"the seed photo 'seed__ann' that was edited is gone .*put it back"):
        remake(images, edited)


@pytest.mark.slow
def test_a_diffusers_pipeline_makes_the_same_image_three_times(tmp_path: Path) -> None:
    tiny_pipelines = pytest.importorskip("tests.tiny_pipelines")
    pipeline = tiny_pipelines.stable_diffusion(tmp_path / "pipeline")
    models = [{"name": "one", "kind": "diffusers", "model": str(pipeline), "steps": 2, "images_at_once": 2}]
    images = made_set(tmp_path / "recipe", words=("nurse",), models=models)
    for _ in range(3):
        found = remake(images, NURSE, "--device", "cpu")
        assert (found.exit_code, f"{NURSE}: the same bytes" in found.stdout) == (0, True)
    rewritten(images, lambda row: row.update(versions=row["versions"].replace('"torch": "', '"torch": "0.')))
    assert "torch: 0." in remake(images, NURSE, "--device", "cpu").stdout
