"""How the shell completes names: of studies, recipes and detectors, and of what a study or a result folder has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from detector_bench.errors import DetectorBenchError

if TYPE_CHECKING:
    from detector_bench.study import Study


def _study_files() -> list[Path]:
    """Study files, and those of result folders, that stand in the line which the shell completes."""
    words = [Path(word) for word in _words()]
    files = [word for word in words if word.suffix in (".yaml", ".yml") and word.is_file()]
    names = {*complete_studies("")}
    files += [word for word in words if str(word) in names and word not in files]
    return [*files, *(word / "study.yaml" for word in words if (word / "study.yaml").is_file())]


def _words() -> list[str]:
    # Typer's parser gives up at an option whose value is still missing, and then knows nothing of the line.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return [word.strip("'\"") for word in line.split()]


def complete_studies(incomplete: str) -> list[str]:
    """Studies that come along."""
    from detector_bench.named_studies import named_studies

    return _beginning(named_studies(), incomplete)


def complete_recipes(incomplete: str) -> list[str]:
    """Recipes that come along."""
    from detector_bench.generation.named_recipes import named_recipes

    return _beginning(named_recipes(), incomplete)


def complete_recipe_models(incomplete: str) -> list[str]:
    """T2I models of the recipe that is named already."""
    from detector_bench.generation.named_recipes import named_recipes
    from detector_bench.generation.recipe import read_recipe

    named = named_recipes()
    for word in _words():
        if word in named or (word.endswith((".yaml", ".yml")) and Path(word).is_file()):
            with suppress(DetectorBenchError):
                recipe = read_recipe(word, ask_models=False)
                return _beginning((model.name for model in recipe.models), incomplete)
    return []


def _study() -> Study | None:
    from detector_bench.study import Study

    for file in _study_files():
        with suppress(DetectorBenchError):
            return Study.from_yaml(file)
    return None


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def complete_detectors(incomplete: str) -> list[str]:
    """Detectors of the study that is named already; without one, all that are registered."""
    study = _study()
    if study is not None:
        return _beginning((entry.name for entry in study.detectors), incomplete)
    from detector_bench.detectors import DETECTORS

    return _beginning(DETECTORS.names(), incomplete)


def complete_attributes(incomplete: str) -> list[str]:
    """Attributes of the study that is named already; without one, all that are known."""
    from detector_bench.vocabulary import ATTRIBUTES

    study = _study()
    return _beginning(ATTRIBUTES if study is None else study.attributes, incomplete)


def complete_metrics(incomplete: str) -> list[str]:
    """Metrics that detectors are ranked by."""
    from detector_bench.evaluation.comparison import COMPARED_METRICS

    return _beginning(COMPARED_METRICS, incomplete)


def complete_figures(incomplete: str) -> list[str]:
    """Names of all figures that there are."""
    from detector_bench.figures.figure_files import known_figures

    return _beginning(known_figures(), incomplete)


def complete_t2i_models(incomplete: str) -> list[str]:
    """T2I models whose images the result folder's metrics are about."""
    from detector_bench.study import Results

    for file in _study_files():
        with suppress(DetectorBenchError):
            return _beginning(Results.open(file.parent).t2i_models, incomplete)
    return []
