"""The recipes that come along: a name in the place of a recipe's file, and a copy of one to edit."""

from __future__ import annotations

from pathlib import Path

from detector_bench.named_files import NamedFile, NamedFiles, copy_named

_RECIPES = NamedFiles("recipe", "configs/recipes", ("prompts", "models"))


def named_recipes() -> dict[str, NamedFile]:
    """By name, all recipes that come along."""
    return _RECIPES.all()


def recipe_place(given: Path | str) -> tuple[Path, Path]:
    """The recipe's file that is meant, and the folder from which the files that it names are seen.

    A file wins over a recipe that comes along; see `NamedFiles.path_of`. Files that one of these names are the
    user's own, and are seen from the working directory.

    Raises:
        ConfigError: there is neither.
    """
    path = _RECIPES.path_of(given)
    comes_along = not Path(given).is_file() and _RECIPES.of_name(given) is not None
    return path, Path() if comes_along else path.parent


def is_passed_over(given: Path | str) -> bool:
    """Whether a recipe comes along under the name of this file, which wins."""
    return Path(given).is_file() and _RECIPES.of_name(given) is not None


def copy_recipe(name: str, file: Path | None = None) -> list[Path]:
    """Write a recipe that comes along, to be edited; photos, prompts and workflows of your own are named in it.

    Args:
        name: of the recipe.
        file: where to; by default `NAME.yaml` in the working directory.

    Returns:
        What was written, the recipe first.

    Raises:
        ConfigError: no such recipe, or something of it is there already: then nothing is written.
    """
    return copy_named(_RECIPES.required(name), file, what="recipe", call="recipes copy")
