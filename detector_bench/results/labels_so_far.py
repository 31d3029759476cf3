"""The labels that people have given by now, beside the verdicts of a result folder."""

from __future__ import annotations

from pathlib import Path

from detector_bench.dataset.sample_file import read_sample, sample_of
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.results.finished_study import ResultFolder


def labels_so_far(results: ResultFolder, attribute: str, sample: Path | None = None) -> LabelsOfSample:
    """Labels and sample of the image set, read anew, with the stored verdicts of all detectors.

    Args:
        results: the folder.
        attribute: which one.
        sample: of the labelled images; None: the one in the image set's folder, if there is one.

    Raises:
        ConfigError: the study does not have the attribute.
        DataError: the images are not there, or the sample does not belong to them.
    """
    if attribute not in results.settings.attributes:
        raise ConfigError(
            f"{results.path} says nothing of {attribute!r}: {nearest_hint(attribute, results.settings.attributes)}"
        )
    image_set = results.image_set
    drawn = sample_of(image_set) if sample is None else read_sample(sample, image_set)
    found = ImageVerdicts.read(image_set, results.predictions(), attribute=attribute, allow_incomplete=True)
    return LabelsOfSample.of(found, image_set, drawn)
