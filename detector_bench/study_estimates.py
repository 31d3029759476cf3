"""What a result folder says of T2I models' bias over all images, with the labels that there are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from detector_bench.dataset.generations import read_generations
from detector_bench.dataset.sample_file import read_sample, sample_of
from detector_bench.errors import ConfigError
from detector_bench.evaluation.estimates import EstimateSettings, estimate_bias
from detector_bench.evaluation.validated_elsewhere import estimate_validated_elsewhere
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.judged_study import PREDICTION_COLUMNS as COLUMNS_OF_BOTH_STUDIES
from detector_bench.results.judged_study import attributes_of_both, judged_study, study_validated_on
from detector_bench.results.metric_lookup import no_labels
from detector_bench.study_questions import ResultTables
from detector_bench.tables import Table
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.estimate_tables import bias_estimates, prompt_estimates, study_differences
from detector_bench.tables.refusal_tables import refusal_notes
from detector_bench.tables.t2i_model_tables import t2i_model_comparisons


def estimate(
    results: ResultFolder,
    attributes: Sequence[str],
    *,
    about: Literal["images", "t2i_model"] | None,
    level: float | None,
    sample: Path | None,
    validated_on: Path | None = None,
) -> ResultTables:
    """Bias over all images from the labels of some; see `Results.estimate`.

    The labels are read anew, as people may still be labelling; predictions are those of the folder.

    Args:
        results: the folder.
        attributes: which ones.
        about, level: None: the study's.
        sample: of the labelled images; None: the one in the image set's folder, if there is one.
        validated_on: the folder of the study that says how the detectors err; None: these labels say all.
    """
    other = None if validated_on is None else study_validated_on(results, validated_on)
    if other is not None:
        attributes = attributes_of_both(attributes, other)
    given = {"about": about, "level": level}
    settings = EstimateSettings.model_validate(
        results.settings.estimates.model_dump()
        | {name: value for name, value in given.items() if value is not None}
    )
    image_set = results.image_set
    drawn = sample_of(image_set) if sample is None else read_sample(sample, image_set)
    predictions = results.predictions(() if other is None else COLUMNS_OF_BOTH_STUDIES)
    found = estimate_bias(
        image_set,
        predictions,
        attributes=attributes,
        sample=drawn,
        settings=settings,
        complete=True,
        detectors_alone=results.settings.intervals if other is None else None,
        generations=read_generations(image_set),
    )
    differences = None
    if other is not None:
        elsewhere = estimate_validated_elsewhere(
            judged_study(results, drawn, predictions),
            other,
            attributes=attributes,
            settings=settings,
            max_error_share=results.settings.max_error_share,
            detectors_alone=results.settings.intervals,
        )
        found, differences = found.beside(elsewhere.bias), elsewhere.differences
    if not found.notes:
        raise ConfigError(no_labels(attributes[0]))
    tables: list[Table] = []
    for position, attribute in enumerate(found.notes):
        numbers = TableNumbers.of_table(found.rows, attribute=attribute, prompts=image_set.prompts, intervals=True)
        suffix = f"_{attribute}" if position else ""
        compared = t2i_model_comparisons(
            found.tests.differences,
            attribute=attribute,
            level=settings.level,
            effects=found.tests.refusal_effects,
        )
        refused = refusal_notes(results.table("metrics"))
        made = (bias_estimates(numbers), compared, prompt_estimates(numbers))
        tables += [
            replace(table, name=table.name + suffix, notes=(*table.notes, *refused))
            for table in made
            if table is not None
        ]
    notes = tuple(
        f"{attribute}: {note}" if len(found.notes) > 1 else note
        for attribute, said in found.notes.items()
        for note in said
    )
    long = {
        "rows": found.rows,
        "t2i_model_biases": found.tests.biases,
        "t2i_model_comparisons": found.tests.differences,
    }
    if len(effects := found.tests.refusal_effects):
        long["refusal_effects"] = effects
    if differences is not None:
        tables.append(study_differences(differences))
        long["differences"] = differences
    return ResultTables.of(results.study, *tables, numbers=long, notes=notes)
