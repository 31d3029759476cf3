"""Mutated files of score systems and prompt lists: BiasPainter's sheets, BIGbench's, ImageBiTe's, own tables.

python -m torture.score_files --cases 1000 --seed 1
"""

from __future__ import annotations

from functools import cache

from torture.cases import Case, main
from torture.recipes import Recipe, score_recipes
from torture.small_studies import MODULES, image_set

SCORE_MODULES = (
    *MODULES,
    "detector_bench.cli.prompts",
    "detector_bench.others.biaspainter.command",
    "detector_bench.others.biaspainter.released_sheets",
    "detector_bench.others.bigbench.command",
    "detector_bench.others.bigbench.entry",
    "detector_bench.others.imagebite.command",
    "detector_bench.others.imagebite.requirements",
)


@cache
def recipes() -> list[Recipe]:
    """All of them, made once."""
    return score_recipes()


def run(case: Case) -> None:
    """One case, its recipe by its number."""
    recipes()[case.number % len(recipes())].run(case)


if __name__ == "__main__":
    image_set()
    recipes()
    main("score systems' files", run, modules=SCORE_MODULES, cases=1000, about="Mutated files of score systems.")
