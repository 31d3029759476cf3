"""Mutated images.csv, prompts.csv and labels.csv, also as Parquet, through `check` and `run`.

python -m torture.tables --cases 500 --seed 1
"""

from __future__ import annotations

from functools import cache

from torture.cases import Case, main
from torture.recipes import Recipe, table_recipes
from torture.small_studies import MODULES, image_set


@cache
def recipes() -> list[Recipe]:
    """All of them, made once."""
    return table_recipes()


def run(case: Case) -> None:
    """One case, its recipe by its number."""
    recipes()[case.number % len(recipes())].run(case)


if __name__ == "__main__":
    image_set()
    recipes()
    main("image sets' tables", run, modules=MODULES, cases=500, about="Mutated tables of image sets.")
