"""Mutated exports of Label Studio, both forms, imported into a store that is then exported again.

python -m torture.label_studio_files --cases 500 --seed 1
"""

from __future__ import annotations

from functools import cache

from torture.cases import Case, main
from torture.recipes import Recipe, label_studio_recipes
from torture.small_studies import MODULES, image_set

LABEL_MODULES = (
    *MODULES,
    "detector_bench.cli.labels",
    "detector_bench.labelling.label_studio_reading",
    "detector_bench.labelling.store",
)


@cache
def recipes() -> list[Recipe]:
    """All of them, made once."""
    return label_studio_recipes()


def run(case: Case) -> None:
    """One case, its recipe by its number."""
    recipes()[case.number % len(recipes())].run(case)


if __name__ == "__main__":
    image_set()
    recipes()
    main("Label Studio's files", run, modules=LABEL_MODULES, cases=500, about="Mutated exports of Label Studio.")
