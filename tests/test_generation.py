"""The images of a recipe: what is asked for, what is kept of it, and how a run goes on after any stop."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import PIL
import pytest
import yaml
from PIL import Image

from detector_bench.cli import main
from detector_bench.dataset import ImageSet, check
from detector_bench.dataset.decoding import decode_image
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.image_files import checked, image_file
from detector_bench.generation.image_requests import Blocked, Made
from detector_bench.generation.journal import Journal
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.plan import Plan
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.standing import RequestStanding
from detector_bench.perception.answers.budget import BudgetReachedError
from tests import drawing_model

assert drawing_model.Drawing.kind == "drawing"


def write_recipe(
    folder: Path,
    prompts: Mapping[str, str],
    *,
    images: int = 2,
    models: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Path:
    """A recipe with a list of prompts, sentence by word."""
    folder.mkdir(parents=True, exist_ok=True)
    words = "".join(f"things,{word}\n" for word in prompts)
    (folder / "words.csv").write_text(f"category,word\n{words}", encoding="utf-8")
    (folder / "templates.csv").write_text("category,template\nthings,a photo of [word]\n", encoding="utf-8")
    path = folder / "recipe.yaml"
    content = {
        "name": "small",
        "prompts": "words.csv",
        "images_per_prompt": images,
        "models": models or [{"name": "one", "kind": "drawing"}],
        **more,
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def make(recipe: Path, folder: Path, **order: Any) -> ImageSetMaking:
    making = ImageSetMaking(read_recipe(recipe), folder, GenerationOrder(**order))
    making.run(lambda _progress: None)
    return making


def rows(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "generations.parquet").set_index("image_id", drop=False)


WORDS = dict.fromkeys(("nurse", "pilot", "cook"), "")


def test_the_same_recipe_asks_for_the_same_images_everywhere(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS, images=3, random_seed=7)
    first, second = Plan.of(read_recipe(recipe)).models[0], Plan.of(read_recipe(recipe)).models[0]
    assert list(first) == list(second)
    assert first.digest == second.digest
    planned = list(first)[4]
    said = json.dumps(["small", 7, "one", "pilot", "", 1], separators=(",", ":")).encode()
    assert planned.request.seed == int.from_bytes(hashlib.sha256(said).digest()[:4], "big") >> 1
    assert (planned.request.image_id, planned.stem) == ("one__pilot__0001", "images/one/pilot/0001")
    assert planned.request.prompt == "a photo of pilot"


def test_images_that_are_added_to_a_recipe_leave_the_others_as_they_are(tmp_path: Path) -> None:
    few = list(Plan.of(read_recipe(write_recipe(tmp_path / "few", WORDS, images=2))).models[0])
    more = write_recipe(tmp_path / "more", {**WORDS, "judge": ""}, images=5)
    assert set(few) <= set(Plan.of(read_recipe(more)).models[0])


def test_a_set_is_an_image_set_and_a_second_run_makes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    models = [
        {"name": "one", "kind": "drawing", "log": str(log), "images_at_once": 4},
        {"name": "two", "kind": "drawing", "log": str(log), "threads": 3},
    ]
    recipe = write_recipe(tmp_path, WORDS, images=3, models=models)
    folder = tmp_path / "set"
    for _ in range(3):
        making = make(recipe, folder)
    assert not check(folder).problems
    images = ImageSet.load(folder, require_labels=False).images
    assert len(images) == 18
    assert sorted(log.read_text().split()) == sorted(images["image_id"])
    found = rows(folder)
    assert list(found["status"]) == ["made"] * 18
    assert [hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in images["path"]] == list(
        found["image_sha256"][images["image_id"]]
    )
    assert json.loads(found["versions"].iloc[0]) == {"drawing": "1", "pillow": PIL.__version__}
    finished = making.finished()
    assert finished is not None
    assert [each.standings.of(RequestStanding.MADE) for each in finished] == [9, 9]


def test_every_request_has_a_row_whatever_became_of_it(tmp_path: Path) -> None:
    words = ("nurse", "refused", "failing", "black", "text", "gif", "crash", "later")
    model = {"name": "one", "kind": "drawing", "images_at_once": 8}
    recipe = write_recipe(tmp_path, dict.fromkeys(words, ""), images=1, models=[model])
    make(recipe, tmp_path / "set")
    found = rows(tmp_path / "set").set_index("prompt_id")
    assert found["status"].to_dict() == {
        "nurse": "made",
        "refused": "blocked",
        "failing": "error",
        "black": "blocked",
        "text": "error",
        "gif": "error",
        "crash": "error",
        "later": "waiting",
    }
    assert found["reason"]["crash"] == "ValueError: a photo of crash cannot be drawn"
    assert found["reason"]["black"].startswith("black_image")
    assert "not_an_image" in found["reason"]["text"]
    assert "GIF" in found["reason"]["gif"]
    assert list(ImageSet.load(tmp_path / "set", require_labels=False).images["prompt_id"]) == ["nurse"]


def test_errors_are_asked_for_again_and_refusals_are_not(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dict.fromkeys(("nurse", "refused", "failing"), ""), images=1)
    for _ in range(2):
        making = make(recipe, tmp_path / "set")
    assert making.standing()[0].standings.counts == {
        RequestStanding.MADE: 1,
        RequestStanding.BLOCKED: 1,
        RequestStanding.AGAIN: 1,
    }
    assert making.finished() is None


def test_what_may_have_been_charged_is_asked_for_again_only_on_demand(tmp_path: Path) -> None:
    log = tmp_path / "log"
    model = {"name": "one", "kind": "drawing", "price": 0.25, "log": str(log)}
    recipe = write_recipe(tmp_path, dict.fromkeys(("nurse", "lost"), ""), images=1, models=[model])
    folder = tmp_path / "set"
    making = make(recipe, folder, most=1)
    # What a process leaves behind that dies while a request is on its way.
    with Journal(folder / "generation/one.sqlite") as journal:
        journal.send(list(making.plan.models[0])[1:], record=1, parameters="{}")
    make(recipe, folder)
    assert rows(folder)["may_have_been_paid"].to_list() == [False, True]
    assert "on its way" in rows(folder)["reason"].iloc[1]
    (folder / "images/one/nurse/0000.png").unlink()
    make(recipe, folder)
    assert log.read_text().split() == ["one__nurse__0000"], (
        "an image that was paid for is not bought again unasked"
    )
    make(recipe, folder, ask_again=True)
    assert log.read_text().split() == ["one__nurse__0000"] * 2
    spent = making.standing()[0].spent
    assert spent == {"USD": pytest.approx(0.5)}, "what was paid before counts, too"


def test_a_budget_is_kept_to(tmp_path: Path) -> None:
    model = {"name": "one", "kind": "drawing", "price": 0.25, "threads": 2}
    recipe = write_recipe(tmp_path, WORDS, images=2, models=[model])
    with pytest.raises(BudgetReachedError, match=r"1\.0000 USD is reached"):
        make(recipe, tmp_path / "set", budget=1.0)
    assert len(ImageSet.load(tmp_path / "set", require_labels=False).images) == 4
    with pytest.raises(BudgetReachedError):
        make(recipe, tmp_path / "set", budget=1.2)
    make(recipe, tmp_path / "set", budget=1.5)
    assert len(ImageSet.load(tmp_path / "set", require_labels=False).images) == 6


def test_a_run_that_a_budget_ends_says_how_far_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path, WORDS, images=2, models=[{"name": "one", "kind": "drawing", "price": 0.1}])
    out = tmp_path / "set"
    monkeypatch.setattr(
        sys, "argv", ["detector-bench", "generate", str(recipe), "--out", str(out), "--budget", "0.3"]
    )
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert "one: made 3, waiting 3; spent 0.3000 USD" in said.out
    assert "0.3000 USD spent, and the next" in said.err
    assert Journal(out / "generation" / "one.sqlite", alone=False).spent() == {"USD": 0.3}


def test_a_changed_recipe_says_what_is_kept_and_what_would_be_made_anew(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS, images=2), tmp_path / "set")
    before = rows(tmp_path / "set")
    changed = write_recipe(
        tmp_path, dict.fromkeys(("nurse", "judge"), ""), models=[{"name": "one", "kind": "drawing", "steps": 4}]
    )
    with pytest.raises(ConfigError, match=r"models\.one\.steps.* since 2 images of one"):
        make(changed, tmp_path / "set")
    assert rows(tmp_path / "set").equals(before)
    make(changed, tmp_path / "set", remake_changed=True)
    found = pd.read_parquet(tmp_path / "set/generations.parquet")
    assert found[found["in_recipe"]]["prompt_id"].to_list() == ["nurse", "nurse", "judge", "judge"]
    old = found[~found["in_recipe"]]
    assert sorted(old["prompt_id"]) == ["cook", "cook", "nurse", "nurse", "pilot", "pilot"]
    assert len(list((tmp_path / "set/generation/replaced").rglob("*.png"))) == 2
    assert len(ImageSet.load(tmp_path / "set", require_labels=False).images) == 4


def test_an_image_that_is_gone_is_made_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS, images=1)
    make(recipe, tmp_path / "set")
    gone = tmp_path / "set/images/one/pilot/0000.png"
    content = gone.read_bytes()
    gone.unlink()
    make(recipe, tmp_path / "set")
    assert gone.read_bytes() == content


def test_images_of_two_networks_do_not_get_into_one_set(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS, images=1), tmp_path / "set")
    other = write_recipe(tmp_path, WORDS, models=[{"name": "one", "kind": "drawing", "network": "two"}])
    with pytest.raises(ConfigError, match="other weights"):
        make(other, tmp_path / "set")


def test_what_a_later_model_lacks_is_said_before_the_first_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        drawing_model.Drawing, "lacks", lambda self, place: [f"no {self.network}"] if self.network != "one" else []
    )
    models = [
        {"name": name, "kind": "drawing", "network": net} for name, net in (("a", "one"), ("b", "x"), ("c", "x"))
    ]
    recipe = write_recipe(tmp_path, WORDS, models=models)
    with pytest.raises(ConfigError, match=r"^b, c: no x$"):
        make(recipe, tmp_path / "set")
    assert not (tmp_path / "set").exists()
    # Of what this run does not come to, nothing is asked.
    make(recipe, tmp_path / "set", most=6)
    assert set(rows(tmp_path / "set")["status"]) == {"made", "waiting"}


@pytest.mark.parametrize(("word", "error"), [("hopeless", DetectorBenchError), ("stop", KeyboardInterrupt)])
def test_what_ends_a_run_leaves_a_set_behind(tmp_path: Path, word: str, error: type[BaseException]) -> None:
    recipe = write_recipe(tmp_path, dict.fromkeys(("nurse", word, "cook"), ""), images=1)
    with pytest.raises(error):
        make(recipe, tmp_path / "set")
    assert not check(tmp_path / "set").problems
    assert rows(tmp_path / "set")["status"].iloc[0] == "made"


def test_a_model_that_only_fails_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    models = [{"name": "one", "kind": "drawing", "log": str(log)}]
    words = dict.fromkeys([f"failing {number}" for number in range(30)] + ["nurse"], "")
    with pytest.raises(DetectorBenchError, match=r"the first 10 requests to 'one' failed.*no luck"):
        make(write_recipe(tmp_path, words, images=1, models=models), tmp_path / "set")
    assert not log.exists()


def test_what_no_t2i_model_should_give_is_the_error_of_its_request(tmp_path: Path) -> None:
    wrong = {
        "no outcome": "gave nothing (accepted: Made,",
        "no image": "gave a ndarray as an image",
        "odd parameter": "gave parameters that are no values by name: [1]",
        "odd cost": "gave cost that are no number from 0: nan",
        "odd reason": "gave a reason that is no text: 7",
    }
    make(write_recipe(tmp_path, dict.fromkeys(["nurse", *wrong, "half letter"], ""), images=1), tmp_path / "set")
    found = rows(tmp_path / "set").set_index("prompt_id")
    for prompt, reason in wrong.items():
        (row,) = [row for _, row in found.iterrows() if prompt in row["prompt"]]
        assert (row["status"], reason in row["reason"]) == ("error", True), row["reason"]
    assert found["status"].value_counts().to_dict() == {"error": len(wrong), "made": 2}
    assert "a ?" in set(found["revised_prompt"])


def test_pixels_are_kept_as_detectors_see_them() -> None:
    see_through = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    kept = checked(Made(content=see_through, seconds=0.0), may_cost=False)
    assert isinstance(kept, Made)
    assert (decode_image(image_file(kept).content) == 255).all(), "shown on white"
    for black in (
        Image.new("RGBA", (4, 4), (0, 0, 0, 255)),
        Image.new("1", (4, 4)),
        Image.new("CMYK", (4, 4), "black"),
    ):
        assert isinstance(checked(Made(content=black, seconds=0.0), may_cost=False), Blocked), black.mode


def test_another_recipe_s_folder_is_refused(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS, images=1), tmp_path / "set")
    with pytest.raises(ConfigError, match="holds the images of the recipe 'small'"):
        make(write_recipe(tmp_path, WORDS, name="other"), tmp_path / "set")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/images.csv").write_text("image_id,path,t2i_model,prompt_id\n")
    with pytest.raises(ConfigError, match="that no recipe made"):
        make(write_recipe(tmp_path, WORDS), tmp_path / "own")


def test_two_processes_do_not_make_images_of_one_model(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS, images=1)
    make(recipe, tmp_path / "set")
    with (
        Journal(tmp_path / "set/generation/one.sqlite"),
        pytest.raises(ConfigError, match="another process"),
    ):
        make(recipe, tmp_path / "set")
