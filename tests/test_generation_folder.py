"""The folder of a recipe's images after recipe or folder were changed: nothing vanishes or is paid twice."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.cli.generation_progress import GenerationDisplay
from detector_bench.dataset import ImageSet, check
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation import set_tables
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.generation_run import GenerationProgress
from detector_bench.generation.image_requests import Made, Outcome
from detector_bench.generation.journal import Journal
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.plan import Plan
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.t2i_models import ModelRecord
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.vocabulary.generations import GenerationStatus
from tests import drawing_model
from tests.test_generation import WORDS, make, rows, write_recipe


def refuse_to_load(*_: object) -> None:
    raise ConfigError("no key")


def test_a_prompt_in_the_place_of_another_is_still_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(write_recipe(tmp_path, {"nurse": "", "cook": ""}), tmp_path / "set")
    changed = write_recipe(tmp_path, {"nurse": "", "judge": ""})
    with monkeypatch.context() as patch:
        patch.setattr(drawing_model.Drawing, "load", refuse_to_load)
        with pytest.raises(ConfigError, match="no key"):
            make(changed, tmp_path / "set")
    making = ImageSetMaking(read_recipe(changed), tmp_path / "set")
    assert making.finished() is None, "as many images as the recipe asks for, but two are of another prompt"
    make(changed, tmp_path / "set")
    finished = making.finished()
    assert finished is not None
    assert finished[0].standings.no_longer == 2


def test_what_a_removed_t2i_model_made_stays_in_the_table(tmp_path: Path) -> None:
    paid = {"name": "two+", "kind": "drawing", "price": 1.0}
    one = {"name": "one", "kind": "drawing", "price": 1.0}
    make(write_recipe(tmp_path, WORDS, models=[one, paid]), tmp_path / "set")
    making = make(write_recipe(tmp_path, WORDS, models=[one], images=3), tmp_path / "set", budget=15.0)
    found = rows(tmp_path / "set")
    assert found.groupby(["t2i_model", "in_recipe"]).size().to_dict() == {("one", True): 9, ("two+", False): 6}
    assert set(ImageSet.load(tmp_path / "set", require_labels=False).images["t2i_model"]) == {"one"}
    assert making.left_out()[0].startswith("two+ is no longer in the recipe: its 6 requests stay")
    with pytest.raises(BudgetReachedError, match=r"15\.0000 USD spent"):
        make(write_recipe(tmp_path, WORDS, models=[one], images=4), tmp_path / "set", budget=15.0)


@pytest.mark.parametrize("content", [None, b"", b"no journal" * 1_000])
def test_a_journal_that_is_gone_is_asked_for(tmp_path: Path, content: bytes | None) -> None:
    log = tmp_path / "log"
    recipe = write_recipe(tmp_path, WORDS, models=[{"name": "one", "kind": "drawing", "log": str(log)}])
    make(recipe, tmp_path / "set")
    journal = tmp_path / "set/generation/one.sqlite"
    journal.unlink()
    if content is not None:
        journal.write_bytes(content)
    with pytest.raises(DetectorBenchError, match=r"one\.sqlite.*name another folder"):
        make(recipe, tmp_path / "set")
    assert len(log.read_text().split()) == 6


def test_a_finished_set_is_known_by_its_table_of_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_tables, "_ROWS_IN_A_GROUP", 2)
    models = [{"name": name, "kind": "drawing"} for name in ("one", "two")]
    making = make(write_recipe(tmp_path, {"nurse": "", "refused": ""}, images=3, models=models), tmp_path / "set")
    assert making.finished() is not None


def test_damaged_tables_are_written_anew(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS)
    make(recipe, tmp_path / "set")
    table = tmp_path / "set/generations.parquet"
    whole = table.read_bytes()
    (tmp_path / "set/.images.csv.1.tmp").write_text("of a process that died")
    for damaged in (b"", whole[: len(whole) // 2], whole[:100] + bytes(200) + whole[300:]):
        table.write_bytes(damaged)
        make(recipe, tmp_path / "set")
        assert table.read_bytes() == whole
    assert not list((tmp_path / "set").glob(".*.tmp"))


def test_images_of_another_network_may_take_the_place_of_all_that_the_recipe_still_has(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS), tmp_path / "set")
    other = {"name": "one", "kind": "drawing", "network": "two", "steps": 4}
    recipe = write_recipe(tmp_path, {"nurse": ""}, models=[other])
    make(recipe, tmp_path / "set", remake_changed=True)
    found = rows(tmp_path / "set")
    assert found[found["in_recipe"]]["model_sha256"].unique().tolist() == ["two" * 8]
    assert len(found) == 8


def test_images_are_set_aside_only_when_others_take_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(write_recipe(tmp_path, WORDS), tmp_path / "set")
    changed = write_recipe(tmp_path, WORDS, models=[{"name": "one", "kind": "drawing", "steps": 4}])
    with monkeypatch.context() as patch:
        patch.setattr(drawing_model.Drawing, "load", refuse_to_load)
        with pytest.raises(ConfigError, match="no key"):
            make(changed, tmp_path / "set", remake_changed=True)
    replaced = tmp_path / "set/generation/replaced"
    assert not replaced.exists()
    make(changed, tmp_path / "set", remake_changed=True, most=2)
    assert len(list(replaced.rglob("*.png"))) == 2
    assert len(list((tmp_path / "set/images").rglob("*.png"))) == 6


def test_an_image_that_was_set_aside_by_a_process_that_died_comes_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    recipe = write_recipe(tmp_path, WORDS, models=[{"name": "one", "kind": "drawing", "log": str(log)}])
    make(recipe, tmp_path / "set")
    image = tmp_path / "set/images/one/nurse/0000.png"
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    aside = tmp_path / f"set/generation/replaced/nurse/{sha256[:12]}_0000.png"
    aside.parent.mkdir(parents=True)
    image.rename(aside)
    make(recipe, tmp_path / "set")
    assert image.is_file()
    assert len(log.read_text().split()) == 6


def test_who_only_looks_on_leaves_a_file_alone_that_is_on_its_way(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS)
    making = make(recipe, tmp_path / "set")
    image = tmp_path / "set/images/one/nurse/0000.png"
    partial = image.with_name(".0000.png.partial")
    image.rename(partial)
    assert making.standing()[0].todo(GenerationOrder()) == 0
    assert partial.is_file()


def test_doubtful_attempts_stay_in_the_budget_when_they_are_repeated(tmp_path: Path) -> None:
    model = {"name": "one", "kind": "drawing", "price": 1.0}
    recipe = write_recipe(tmp_path, {"lost": ""}, images=1, models=[model])
    for _ in range(2):
        make(recipe, tmp_path / "set", ask_again=True)
    with pytest.raises(BudgetReachedError, match=r"2\.0000 USD in doubt"):
        make(recipe, tmp_path / "set", ask_again=True, budget=2.5)


def test_a_budget_covers_what_another_process_spends_meanwhile(tmp_path: Path) -> None:
    models = [{"name": name, "kind": "drawing", "price": 1.0, "pause": 0.02} for name in ("one", "two")]
    recipe = write_recipe(tmp_path, WORDS, images=4, models=models)
    making = make(recipe, tmp_path / "set", t2i_models=["one"], most=1, budget=8.0)
    with Journal(tmp_path / "set/generation/two.sqlite", t2i_model="two") as other:
        # On their way in another process: they may cost 5.
        record = other.add_record(ModelRecord(model="drawing"))
        other.send(list(making.plan.models[1])[:5], record=record, parameters="{}")
        with pytest.raises(BudgetReachedError, match=r"3\.0000 USD spent and 5\.0000 USD in doubt"):
            make(recipe, tmp_path / "set", t2i_models=["one"], budget=8.0)


def test_a_budget_in_two_currencies_is_refused(tmp_path: Path) -> None:
    models = [
        {"name": name, "kind": "drawing", "price": 1.0, "currency": currency}
        for name, currency in (("one", "USD"), ("two", "EUR"))
    ]
    recipe = write_recipe(tmp_path, WORDS, models=models)
    with pytest.raises(ConfigError, match="EUR and USD"):
        make(recipe, tmp_path / "set", budget=2.0)
    with pytest.raises(BudgetReachedError, match="EUR"):
        make(recipe, tmp_path / "set", budget=2.0, t2i_models=["two"])


def test_an_answer_is_kept_though_storing_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    model = {"name": "one", "kind": "drawing", "price": 1.0, "log": str(log)}
    recipe = write_recipe(tmp_path, WORDS, images=1, models=[model])
    settle, calls = Journal.settle, []

    def interrupted(*arguments: object, **named: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        settle(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Journal, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(recipe, tmp_path / "set")
    assert sorted(rows(tmp_path / "set")["status"]) == ["made", "made", "waiting"]
    make(recipe, tmp_path / "set")
    assert len(log.read_text().split()) == 3, "nothing is bought twice"


def test_what_was_recorded_and_not_sent_is_not_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"name": "one", "kind": "drawing", "price": 1.0}
    recipe = write_recipe(tmp_path, {"lost": "", "nurse": ""}, images=1, models=[model])
    make(recipe, tmp_path / "set", most=1)
    before = rows(tmp_path / "set")
    send = Journal.send

    def interrupted(*arguments: object, **named: object) -> None:
        send(*arguments, **named)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "send", interrupted)
    for order in ({}, {"ask_again": True}):
        with pytest.raises(KeyboardInterrupt):
            make(recipe, tmp_path / "set", **order)
        assert rows(tmp_path / "set").equals(before)


def test_two_names_that_would_be_one_in_paths_are_refused(tmp_path: Path) -> None:
    models = [{"name": name, "kind": "drawing"} for name in ("a__b", "a_b")]
    with pytest.raises(ConfigError, match="'a_b' is too like 'a__b'"):
        read_recipe(write_recipe(tmp_path, WORDS, models=models))


def test_odd_prompt_ids_become_paths_that_every_system_takes(tmp_path: Path) -> None:
    ids = ["con", "x" * 100, "看" * 100, "看护", "a_b", "A_b", "a__b"]
    table = pd.DataFrame({"prompt_id": ids, "category": "c", "word": [f"w{n}" for n in range(len(ids))]})
    table.assign(prompt="a photo of " + table["word"]).to_csv(tmp_path / "own.csv", index=False)
    recipe = write_recipe(tmp_path, WORDS, images=1, models=[{"name": "nul", "kind": "drawing"}])
    recipe.write_text(recipe.read_text().replace("words.csv", "own.csv"))
    make(recipe, tmp_path / "set")
    assert not check(tmp_path / "set").problems
    found = rows(tmp_path / "set")
    assert list(found["status"]) == ["made"] * len(ids)
    paths = [Path(each.stem) for each in Plan.of(read_recipe(recipe)).models[0]]
    assert len({str(path).casefold() for path in paths}) == len(ids)
    parts = [part for path in paths for part in path.parts]
    assert not {"con", "nul"} & set(parts)
    assert max(len(part.encode()) for part in parts) <= 120
    assert "images/nul_/a_b/0000" in map(str, paths), "an id that is written as ids are keeps its name"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "the T2I model gave nothing (accepted: Made, Blocked, Failed, Waiting)"),
        (Made(content=np.zeros((8, 8, 3)), seconds=0.1), "the T2I model gave a ndarray as an image"),  # type: ignore[arg-type]
        (Made(content=Image.new("RGB", (8, 8), "red"), seconds=0.1, parameters={"scale": np.float32(2)}), None),
    ],
)
def test_whatever_a_plugged_in_model_gives_becomes_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Outcome, reason: str | None
) -> None:
    monkeypatch.setattr(drawing_model.LoadedDrawing, "_drawn", lambda *_: given)
    make(write_recipe(tmp_path, {"nurse": ""}, images=1), tmp_path / "set")
    found = rows(tmp_path / "set").iloc[0]
    assert found["status"] == ("made" if reason is None else "error")
    assert reason is None or found["reason"].startswith(reason)


def test_the_bar_begins_again_with_every_t2i_model() -> None:
    with GenerationDisplay(Console(file=io.StringIO(), force_terminal=True)) as display:
        for name in ("one", "two"):
            for done in (0, 4, 10):
                display.update(GenerationProgress(name, 10, {GenerationStatus.MADE: done}))
                if done == 4:
                    assert [task.finished for task in display._bar.tasks] == [False], "there is time left"


# What people wrote


def test_a_folder_with_a_recipe_or_prompts_of_ones_own_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS)
    (tmp_path / "prompts.csv").write_text("prompt_id,category,word,prompt,mine\nnurse,work,nurse,a nurse,kept\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"that the image set would replace: recipe.yaml, prompts.csv; name an"):
        make(recipe, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_set_goes_on_by_its_own_recipe_and_where_a_first_run_had_only_begun(tmp_path: Path) -> None:
    making = make(write_recipe(tmp_path, WORDS), tmp_path / "set")
    own = (tmp_path / "set" / "recipe.yaml").read_bytes()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "recipe.yaml").write_bytes(own)
    make(tmp_path / "recipe.yaml", tmp_path / "begun")
    assert len(rows(tmp_path / "begun")) == len(making.plan)
    for name in ("words.csv", "templates.csv"):
        (tmp_path / "set" / name).write_bytes((tmp_path / name).read_bytes())
    assert ImageSetMaking(read_recipe(tmp_path / "set" / "recipe.yaml"), tmp_path / "set").finished() is not None


def test_no_image_is_made_anew_of_which_people_said_what_it_shows(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS), tmp_path / "set")
    before = (tmp_path / "set" / "images" / "one" / "cook" / "0000.png").read_bytes()
    labels = tmp_path / "set" / "labels.csv"
    labels.write_text("image_id,annotator,attribute,label,reason\none__cook__0000,ann,gender,male,\n")
    write_recipe(tmp_path, WORDS)
    (tmp_path / "templates.csv").write_text("category,template\nthings,a drawing of [word]\n")
    with pytest.raises(ConfigError, match=r"labels.csv has 1 labels of 1 images .*, such as one__cook__0000; "):
        make(tmp_path / "recipe.yaml", tmp_path / "set", remake_changed=True)
    assert (tmp_path / "set" / "images" / "one" / "cook" / "0000.png").read_bytes() == before
    labels.unlink()
    make(tmp_path / "recipe.yaml", tmp_path / "set", remake_changed=True)
    assert set(rows(tmp_path / "set").query("in_recipe")["prompt"].str[:9]) == {"a drawing"}


def test_prompts_that_stand_there_twice_are_told(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WORDS)
    recipe.write_text(recipe.read_text().replace("words.csv", "twice.csv"))
    (tmp_path / "twice.csv").write_text("category,word,prompt\nwork,nurse,a nurse\nwork,nurse,a nurse\n")
    assert ImageSetMaking(read_recipe(recipe), tmp_path / "set").warnings() == [
        "twice.csv: prompts that stand there before, each kept as one of its own: row 3 as row 2."
    ]


def test_images_that_are_left_to_be_made_anew_are_told(tmp_path: Path) -> None:
    make(write_recipe(tmp_path, WORDS), tmp_path / "set")
    (tmp_path / "templates.csv").write_text("category,template\nthings,a drawing of [word]\n")
    order = ["--remake-changed", "--limit", "2"]
    called = ["generate", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "set"), *order]
    told = " ".join(CliRunner().invoke(app, called).stdout.split())
    assert "4 images of the recipe as it was: not among the set's images until" in told
    assert len(ImageSet.load(tmp_path / "set", require_labels=False).images) == 2
