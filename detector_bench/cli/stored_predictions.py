"""Opens a study with its stored predictions, for the commands that only look at them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from detector_bench.errors import ConfigError, IncompletePredictionsError, nearest_hint

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.dataset import ImageSet
    from detector_bench.study import Study

Predictions = Annotated[
    Path, typer.Option("--predictions", metavar="DIR", help="Result folder of a run, or its predictions/.")
]
AttributeOption = Annotated[
    str | None, typer.Option("--attribute", help="gender, age, race or skin_tone; by default the study's first.")
]
AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="Leave out images without a prediction, and count them.")
]


class OpenedStudy(NamedTuple):
    """A study, its image set, and its detectors' predictions in the order of the study."""

    study: Study
    image_set: ImageSet
    predictions: dict[str, pa.Table]
    attribute: str


def open_study(
    study_file: Path,
    predictions: Path,
    *,
    image_set: Path | None = None,
    n_clear: str | None = None,
    attribute: str | None = None,
    only: str | None = None,
    columns: Sequence[str] = (),
) -> OpenedStudy:
    """Read a study file, its image set and stored predictions.

    Args:
        study_file: the study.
        predictions: a result folder, or its folder `predictions`.
        image_set: takes the place of the study's.
        n_clear: takes the place of the study's.
        attribute: the one to look at; None for the study's first.
        only: the name of one detector; None for all.
        columns: further columns of the predictions to read.

    Raises:
        ConfigError: no such detector in the study.
        IncompletePredictionsError: a detector without stored predictions.
    """
    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation import read_predictions
    from detector_bench.study import Study

    study = Study.from_yaml(study_file, image_set=image_set)
    if n_clear is not None:
        study = study.with_n_clear(n_clear)
    names = [entry.name for entry in study.detectors]
    if only is not None:
        if only not in names:
            raise ConfigError(f"no detector {only!r} in {study_file}: {nearest_hint(only, names)}")
        names = [only]
    stored = read_predictions(predictions, also=columns)
    if missing := [name for name in names if name not in stored]:
        raise IncompletePredictionsError(
            f"{str(predictions)!r} holds no predictions of {', '.join(missing)} (it holds: {', '.join(stored)})"
        )
    return OpenedStudy(
        study,
        ImageSet.load(study.image_set),
        {name: stored[name] for name in names},
        attribute or study.attributes[0],
    )
