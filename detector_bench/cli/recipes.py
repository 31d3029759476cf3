"""`recipes`: those that come along, one in full, and a copy of one to edit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli import options
from detector_bench.cli.completion import complete_recipes
from detector_bench.cli.console import command, output
from detector_bench.errors import DetectorBenchError

if TYPE_CHECKING:
    from detector_bench.generation.recipe import Recipe
    from detector_bench.prompt_lists import PromptList

_PREVIEWED = 10
"""Prompts that `show` shows."""


@command
def list_() -> None:
    """List the recipes that come along: what each is, its prompts, its T2I models, and how many images it makes.

    Their names stand in the place of a recipe's file: `generate lyu2025 --out sets/lyu2025`. A file of the same
    name wins. The word `list` may be left out.

    Examples: `detector-bench recipes`, `detector-bench recipes list --json`
    """
    from detector_bench.generation.named_recipes import named_recipes
    from detector_bench.generation.recipe import read_recipe

    for name, each in named_recipes().items():
        try:
            recipe = read_recipe(each.path, folder=Path(), ask_models=False)
        except DetectorBenchError as error:
            output.record(name, {"problem": str(error)}, table="recipes", summary=each.about, good=False)
            continue
        facts = {**_facts(recipe), "generate": f"detector-bench generate {name} --out sets/{name}"}
        output.record(name, facts, table="recipes", summary=each.about, good="needs" not in facts)


def _facts(recipe: Recipe) -> dict[str, str]:
    """What there is to know before it runs; what cannot be read is told and left out of the count."""
    from detector_bench.generation.scenes import scenes_of

    needs = []
    prompts = photos = None
    try:
        prompts = len(scenes_of(recipe.prompt_list()))
    except DetectorBenchError as error:
        needs.append(f"prompts: {_first_line(error)}")
    try:
        photos = len(recipe.photos())
    except DetectorBenchError as error:
        needs.append(f"seed photos: {_first_line(error)}")
    facts = {
        "prompts": "" if prompts is None else f"{prompts:,}",
        "seed photos": f"{photos:,}" if photos else "",
        "T2I models": ", ".join(model.name for model in recipe.models),
        "images": _images(recipe, prompts, photos),
        "needs": "\n".join(needs),
    }
    return {name: text for name, text in facts.items() if text}


def _images(recipe: Recipe, prompts: int | None, photos: int | None) -> str:
    count = f"{len(recipe.models)} T2I models x {{}} x {recipe.images_per_prompt:,}"
    if prompts is None:
        return f"{recipe.images_per_prompt:,} of each prompt by each T2I model"
    each = len(recipe.models) * prompts * recipe.images_per_prompt
    if photos is None:
        return count.format(f"{prompts:,} prompts") + f" = {each:,} of each seed photo"
    if photos:
        return count.format(f"{prompts:,} prompts x {photos:,} seed photos") + f" = {each * photos:,}"
    return count.format(f"{prompts:,} prompts") + f" = {each:,}"


def _first_line(error: DetectorBenchError) -> str:
    lines = str(error).splitlines()
    # A list of mistakes has a heading that counts them.
    return lines[1].strip() if len(lines) > 1 and lines[0].endswith(":") else lines[0]


@command
def show(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's file, or the name of one that comes along (`detector-bench recipes`).",
            autocompletion=complete_recipes,
        ),
    ],
    *,
    plugin: options.Plugins = None,
) -> None:
    """Show a recipe in full: every parameter of its T2I models, its first prompts, and what a reader should know.

    A parameter that is not there is left to the checkpoint or the service.

    Examples: `detector-bench recipes show lyu2025`, `detector-bench recipes show my_recipe.yaml`
    """
    from detector_bench.generation.recipe import read_recipe
    from detector_bench.plugins import load_plugins

    load_plugins(plugin or [])
    say_if_passed_over(recipe)
    found = read_recipe(recipe, ask_models=False)
    document = found.document()
    facts = {
        **_facts(found),
        "images per prompt": f"{found.images_per_prompt:,}",
        "random seed": str(found.random_seed),
        "seeds as": "" if found.seeds_as == found.name else found.seeds_as,
        "prompts of": _said(document["prompts"]),
        "photos of": document.get("seed_photos", ""),
        "file": str(found.path),
    }
    output.record(found.name, facts, table="recipe", good="needs" not in facts)
    built = {model.name: model for model in found.models}
    for entry in document["models"]:
        told = {key: _said(value) for key, value in entry.items() if key not in ("name", "kind")}
        problems = "\n".join(built[entry["name"]].mistakes())
        output.record(
            entry["name"],
            {"kind": entry["kind"], **told, "problem": problems},
            table="models",
            summary=built[entry["name"]].summary,
            good=not problems,
        )
    for note in found.notes:
        output.text(f"- {note}")
    if "needs" not in facts:
        _show_prompts(found.prompt_list())
        if found.seeds is not None:
            output.say("\n".join(found.seeds.notes()))


def say_if_passed_over(recipe: Path) -> None:
    """Say that a file was taken where a recipe of its name comes along, too."""
    from detector_bench.generation.named_recipes import is_passed_over

    if is_passed_over(recipe):
        output.warn(f"{str(recipe)!r} is a file here and a recipe that comes along: the file is taken", style="")


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_said(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show_prompts(prompts: PromptList) -> None:
    counts = ", ".join(f"{category} {count:,}" for category, count in prompts.counts().items())
    output.text(f"\nPrompts: {counts}")
    for prompt in list(prompts.prompts.values())[:_PREVIEWED]:
        output.text(f"  {prompt.text}")
    if len(prompts.prompts) > _PREVIEWED:
        output.text(f"  ... and {len(prompts.prompts) - _PREVIEWED:,} more")


@command
def copy(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A recipe that comes along.", autocompletion=complete_recipes),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.yaml", help="Where to; by default NAME.yaml, here.")
    ] = None,
) -> None:
    """Write a recipe that comes along, to edit it. Files that it names are seen from where the copy lies.

    Refuses to write over anything.

    Examples: `detector-bench recipes copy lyu2025`, `detector-bench recipes copy biaspainter mine/edits.yaml`
    """
    from detector_bench.generation.named_recipes import copy_recipe

    for each in copy_recipe(name, file):
        output.row(f"Wrote {each}", table="files", file=each)
