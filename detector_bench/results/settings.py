"""The settings that a study's numbers were computed with, and whether its file still says the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector_bench.errors import ConfigError
from detector_bench.results.run_record import EVALUATION, read_run_record
from detector_bench.vocabulary import ATTRIBUTES

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.study import Study


def evaluation_settings(study: Study, folder: Path) -> dict[str, Any]:
    """All that decides a study's numbers besides images, labels and predictions, as plain data.

    Args:
        study: what is evaluated, and how.
        folder: the result folder, from which files of score systems are named.
    """
    own = [name for name in study.attributes if name not in ATTRIBUTES.built_in]
    return {
        **({"classes": {name: list(ATTRIBUTES[name].classes) for name in own}} if own else {}),
        "detectors": [entry.name for entry in study.detectors],
        "attributes": list(study.attributes),
        "n_clear": study.n_clear,
        "max_error_share": study.max_error_share,
        "intervals": study.intervals.model_dump(mode="json"),
        "estimated_labels": study.estimated_labels,
        "scores": study.scores_from(folder),
    }


def draws(study: Study, image_set: ImageSet) -> dict[str, Any]:
    """What an evaluation draws at random, and how; most for the attribute with the fewest labels."""
    intervals = study.intervals
    labelled = image_set.labels[image_set.labels["attribute"].isin(study.attributes)]
    images = labelled.groupby("attribute")["image_id"].nunique()
    resamples = intervals.resamples_for(int(images.min()))
    if resamples == 0:
        return {}
    drawn = intervals.model_dump(mode="json", include={"seed", "unit", "level", "method"})
    return {"intervals": {**drawn, "resamples": resamples}}


def require_settings_of_evaluation(study: Study, folder: Path) -> None:
    """Check that a result folder's `study.yaml` says what its numbers were computed with.

    A folder without such a record (an older version wrote none) passes, and so does a setting that was not known
    when the record was written.

    Raises:
        ConfigError: a setting was changed since.
    """
    recorded = read_run_record(folder).get(EVALUATION)
    if not isinstance(recorded, Mapping):
        return
    now = dict(_flat(evaluation_settings(study, folder)))
    for name, then in _flat(recorded):
        if name in now and now[name] != then:
            place = folder / "study.yaml"
            predictions = folder if (folder / "predictions").is_dir() else "DIR"
            raise ConfigError(
                f"{place}: `{name}` is {now[name]!r}, but the numbers of this folder were computed with {then!r}: "
                f"run `detector-bench evaluate {place} --predictions {predictions} --out {folder}`, or set it back"
            )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
