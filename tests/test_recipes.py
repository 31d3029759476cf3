"""Recipes: what their files may say, those that come along, and all mistakes of one at once."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from recipe_parts import MAN, Painting, write_photos, write_recipe

from detector_bench.errors import ConfigError
from detector_bench.generation.diffusers_calls import class_for_task
from detector_bench.generation.diffusers_models import DiffusersModel
from detector_bench.generation.named_recipes import copy_recipe, named_recipes
from detector_bench.generation.plan import Plan
from detector_bench.generation.recipe import RecipeFile, RecipePrompts, read_recipe
from detector_bench.named_studies import named_studies
from detector_bench.prompt_lists import KEEP_ATTRIBUTES

PAINTER = {"name": "painter", "kind": "test-painting"}
EDITOR = {"name": "editor", "kind": "test-repainting"}


def test_parameters_stand_below_those_of_each_model_that_has_them(tmp_path: Path) -> None:
    path = write_recipe(
        tmp_path / "recipe.yaml",
        parameters={"steps": 30, "width": 64, "most_steps": 50},
        models=[{**PAINTER, "steps": 4, "colours": "colours.txt"}, {**PAINTER, "name": "second"}],
    )
    recipe = read_recipe(path)
    first, second = recipe.models
    assert (first.steps, first.width, second.steps) == (4, 64, 30)
    assert isinstance(first, Painting)
    assert first.colours == tmp_path / "colours.txt", "files are seen from the recipe's folder"
    assert (recipe.seeds_as, recipe.random_seed, recipe.photos()) == ("test", 0, ())


def test_the_document_is_the_recipe_again(tmp_path: Path) -> None:
    path = write_recipe(
        tmp_path / "recipe.yaml",
        prompts={"source": "lyu2025", "categories": "place", "suffix": "in the rain"},
        parameters={"steps": 9},
        models=[{**PAINTER, "colours": "colours.txt"}],
        notes=["Nothing is stated."],
    )
    recipe = read_recipe(path)
    again = tmp_path / "again" / "recipe.yaml"
    again.parent.mkdir()
    again.write_text(yaml.safe_dump(recipe.document()))
    read = read_recipe(again, folder=tmp_path)
    assert read.models == recipe.models
    assert read.prompt_list() == recipe.prompt_list()
    assert (read.seeds_as, read.notes, read.document()) == ("test", ("Nothing is stated.",), recipe.document())
    assert str(tmp_path) not in again.read_text()


@pytest.mark.parametrize(
    ("prompts", "count", "first"),
    [
        ("lyu2025", 100, "a photo of one real person who is a postman"),
        (["lyu2025", "biaspainter"], 328, "a photo of one real person who is a postman"),
        ("sentences.csv", 2, "a photo of one cook"),
        ({"source": "lyu2025", "categories": ["place"]}, 10, None),
        ({"source": "lyu2025", "words": "sentences.csv", "templates": "templates.csv"}, 2, "a photo of one cook"),
        ({"source": "lyu2025", "categories": "place", "keep_attributes": True}, 10, KEEP_ATTRIBUTES),
    ],
)
def test_prompts_in_every_form(tmp_path: Path, prompts: Any, count: int, first: str | None) -> None:
    (tmp_path / "sentences.csv").write_text("category,word\nwork,cook\nwork,judge\n")
    (tmp_path / "templates.csv").write_text("category,template\nwork,a photo of one [word]\n")
    found = read_recipe(write_recipe(tmp_path / "recipe.yaml", prompts=prompts)).prompt_list()
    assert len(found.prompts) == count
    if first is not None:
        assert first in next(iter(found.prompts.values())).text


def test_a_file_of_prompts_wins_over_a_list_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "lyu2025").write_text("")
    with pytest.raises(Exception, match="lyu2025: neither CSV nor Parquet"):
        read_recipe(write_recipe(tmp_path / "recipe.yaml")).prompt_list()


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"images_per_prompt": 0}, ["images_per_prompt: Input should be greater than or equal to 1; got 0"]),
        ({"images_per_prompt": True}, ["images_per_prompt: Input should be a valid integer; got True"]),
        (
            {"images_per_prompt": 100_001},
            ["images_per_prompt: Input should be less than or equal to 100000; got 100001"],
        ),
        ({"images_per_promt": 3}, ["images_per_promt: unknown key 'images_per_promt': did you mean "]),
        ({"prompts": None}, ["prompts: is missing"]),
        ({"prompts": {"source": "lyu2025", "sufix": "x"}}, ["prompts.sufix: unknown key 'sufix': did you mean "]),
        (
            {"prompts": {"source": "lyu2025", "suffix": "x", "keep_attributes": True}},
            ["prompts: keep_attributes is a suffix of its own"],
        ),
        (
            {"prompts": 5},
            ["prompts: a list's name, a file, a list of them, or a mapping with `source` is expected"],
        ),
        ({"prompts": {"source": "x" * 5_000}}, ["prompts.source: "]),
        ({"seed_photos": "x" * 5_000, "models": [EDITOR]}, ["seed_photos: "]),
        ({"models": []}, ["models: Tuple should have at least 1 item"]),
        ({"name": "two\nlines"}, ["name: one line of text"]),
        (
            {"parameters": {"stepz": 3}},
            ["parameters.stepz: no model of the recipe has it: did you mean 'steps'"],
        ),
        (
            {
                "images_per_prompt": "many",
                "models": [{"name": "a", "kind": "test-paintin"}, {"kind": "test-painting"}, 5],
            },
            [
                "images_per_prompt: Input should be a valid integer",
                "models.2: Input should be a valid dictionary; got 5",
                "models.0: unknown kind of T2I model 'test-paintin': did you mean 'test-painting'",
                "models.1: name: is missing",
            ],
        ),
        (
            {"models": [PAINTER, {**PAINTER, "name": "Painter"}, {**PAINTER, "name": "all", "steps": 101}]},
            [
                "models.2 (all): steps: 101 (accepted: at most 100)",
                "models.1.name: 'Painter' is too like 'painter', which another model is called",
                "models.2.name: 'all' is reserved",
            ],
        ),
        ({"models": [EDITOR]}, ["models.0 (editor): it edits photos: name their folder, or an image set"]),
        (
            {"models": [EDITOR, PAINTER], "seed_photos": "photos"},
            ["models.1 (painter): it makes images of prompts alone, and the recipe has `seed_photos`"],
        ),
    ],
)
def test_all_mistakes_are_told_at_once(tmp_path: Path, changes: dict[str, Any], lines: list[str]) -> None:
    path = write_recipe(tmp_path / "recipe.yaml", **changes)
    with pytest.raises(ConfigError) as raised:
        read_recipe(path)
    told = str(raised.value).splitlines()
    assert len(told) == len(lines), told
    for found, expected in zip(told, lines, strict=True):
        assert found.startswith(f"{path}: {expected}")


def test_neither_a_file_nor_a_name() -> None:
    with pytest.raises(ConfigError, match="no recipe of this name: did you mean 'lyu2025'"):
        read_recipe("lyu205")


COUNTS = {
    "biaspainter": (228, 1, 4),
    "biaspainter_mitigated": (228, 1, 4),
    "imagebite": (859, 10, 2),
    "lyu2025": (100, 20, 3),
}
"""Prompts, images of each, T2I models."""


def test_all_that_come_along_are_read_and_ask_for_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_photos(tmp_path / "seed_photos", {"a.png": MAN, "b.png": MAN}).parent)
    known = named_recipes()
    assert known.keys() == {"bigbench", *COUNTS}
    assert not known.keys() & (named_studies().keys() - {"lyu2025"})
    for name, (prompts, images, models) in COUNTS.items():
        recipe = read_recipe(name, ask_models=False)
        assert (recipe.name, recipe.images_per_prompt) == (name, images)
        assert known[name].about.endswith(".")
        assert recipe.notes, "what a paper leaves open is said"
        photos = 2 if name.startswith("biaspainter") else 1
        assert len(Plan.of(recipe)) == prompts * images * models * photos
    assert len(Plan.of(read_recipe("lyu2025"))) == 6_000


PIPELINES = {
    "black-forest-labs/FLUX.1-schnell": "FluxPipeline",
    "dreamlike-art/dreamlike-photoreal-2.0": "StableDiffusionPipeline",
    "stabilityai/stable-diffusion-2-1": "StableDiffusionPipeline",
    "stabilityai/stable-diffusion-3-medium-diffusers": "StableDiffusion3Pipeline",
    "stabilityai/stable-diffusion-xl-base-1.0": "StableDiffusionXLPipeline",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "StableDiffusionPipeline",
    "timbrooks/instruct-pix2pix": "StableDiffusionInstructPix2PixPipeline",
}
"""The class that each checkpoint's model_index.json names."""


@pytest.mark.slow  # diffusers takes long to import
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_checkpoints_pipelines_take_what_recipes_ask_for(name: str) -> None:
    pytest.importorskip("diffusers")
    for model in read_recipe(name).models:
        assert isinstance(model, DiffusersModel)
        pipeline = class_for_task(PIPELINES[model.model], model.task)
        assert list(model.model_copy(update={"pipeline": pipeline}).mistakes()) == []


def test_the_mitigation_differs_from_the_edits_by_its_sentence_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_photos(tmp_path / "seed_photos", {"a.png": MAN}).parent)
    plain, mitigated = (
        Plan.of(read_recipe(name, ask_models=False)) for name in ("biaspainter", "biaspainter_mitigated")
    )
    assert [each.t2i_model for each in plain.models] == [each.t2i_model for each in mitigated.models]
    for one, other in zip(plain.models[0], mitigated.models[0], strict=True):
        assert other.request.prompt == f"{one.request.prompt}. {KEEP_ATTRIBUTES}"
        assert (one.request.image_id, one.request.seed) == (other.request.image_id, other.request.seed)


def test_bigbench_says_which_files_it_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = read_recipe("bigbench", ask_models=False)
    assert [model.name for model in recipe.models] == [
        *("sdxl", "sdxl_lightning", "lcm_sdxl", "pixart_sigma", "stable_cascade")
    ]
    with pytest.raises(ConfigError, match=r"workflow: there is no file 'BIGbench/data/workflow/sdxl\.json'"):
        read_recipe("bigbench")


@pytest.mark.slow
def test_bigbench_asks_for_eight_images_of_each_released_line(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = shared / "upstream" / "bigbench"
    if not released.is_dir():
        pytest.skip("BIGbench's files are not here")
    (tmp_path / "BIGbench").symlink_to(released)
    monkeypatch.chdir(tmp_path)
    plan = Plan.of(read_recipe("bigbench"))
    assert [len(model) for model in plan.models] == [47_040 * 8] * 5
    first = list(islice(plan.models[0], 160))
    assert len({each.request.prompt_id for each in first}) == 1
    assert set(Counter(each.request.prompt for each in first).values()) == {8}


@pytest.mark.parametrize("name", sorted(named_recipes()))
def test_a_copy_is_the_same_recipe(tmp_path: Path, name: str) -> None:
    (copy,) = copy_recipe(name, tmp_path / "mine.yaml")
    original, copied = (read_recipe(each, ask_models=False) for each in (named_recipes()[name].path, copy))
    assert copied.document() == original.document()
    assert f"generate {name} " not in copy.read_text()
    with pytest.raises(ConfigError, match="is there already; name another place: recipes copy"):
        copy_recipe(name, copy)


def test_the_page_names_every_key_and_its_example_is_a_recipe(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")
    for model in (RecipeFile, RecipePrompts):
        assert [key for key in model.model_fields if f"`{key}`" not in page] == []
    path = tmp_path / "mine.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    recipe = read_recipe(path)
    assert [(model.name, model.steps) for model in recipe.models] == [("sdxl", 30), ("turbo", 1)]
    assert len(Plan.of(recipe)) == 2 * 40 * 20
