"""Makes the images of a recipe in one call, for Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.generation_run import GenerationProgress
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.vocabulary.generations import GENERATIONS_FILE


def generate(
    recipe: Path | str,
    out: Path | str,
    *,
    t2i_models: Sequence[str] = (),
    device: str | None = None,
    budget: float | None = None,
    most: int | None = None,
    ask_again: bool = False,
    remake_changed: bool = False,
    weights_dir: Path | str | None = None,
    listener: Callable[[GenerationProgress], None] = lambda progress: None,  # noqa: ARG005
    report: Callable[[str], None] = print,
) -> pd.DataFrame:
    """Make the images of a recipe, as the command `generate` does: what is there already stays as it is.

    Args:
        recipe: its file, or the name of one that comes along.
        out: folder of the image set; made if it is missing.
        t2i_models: see `GenerationOrder`, also for what follows.
        device: see there.
        budget: see there.
        most: see there.
        ask_again: see there.
        remake_changed: see there.
        weights_dir: see there.
        listener: hears how far it has come.
        report: takes lines for the user.

    Returns:
        The rows of `generations.parquet`: one for each request, whatever became of it. Requests that were refused
        or failed raise nothing.

    Raises:
        ConfigError, DataError: mistakes in the recipe, or something is missing on this machine; nothing was made.
        DetectorBenchError, KeyboardInterrupt: the run could not go on; what was made is kept, and the same call
            goes on from there.
    """
    order = GenerationOrder(
        t2i_models=tuple(t2i_models),
        device=device,
        budget=budget,
        most=most,
        ask_again=ask_again,
        remake_changed=remake_changed,
        weights_dir=None if weights_dir is None else Path(weights_dir),
    )
    making = ImageSetMaking(read_recipe(recipe), Path(out), order, report)
    if making.finished() is None:
        making.run(listener)
    return pd.read_parquet(making.folder / GENERATIONS_FILE)
