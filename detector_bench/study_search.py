"""The search of a study: judge all that competes through the ordinary runner, choose, check the winner, write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pydantic import ValidationError

from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.declarations import read_mapping
from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import (
    ConfigError,
    DetectorBenchError,
    MissingExtraError,
    config_error_from,
    nearest_hint,
)
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.results.inputs import inputs_of
from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.runner.readiness import lacking
from detector_bench.runner.run_record import ProgressListener
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.search.choosing import ErrorEstimate, SearchContest
from detector_bench.search.compositions import Compositions
from detector_bench.search.figure import write_figure
from detector_bench.search.files import write_search
from detector_bench.search.findings import SearchFindings
from detector_bench.search.search import CompositionSearch, check_can_be_judged
from detector_bench.search.settings import SearchSettings
from detector_bench.search.verdicts import LabelledVerdicts
from detector_bench.study_calibration_notes import calibration_notes
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_file import DetectorEntry, with_texts_replaced
from detector_bench.study_run import write_record
from detector_bench.study_session import RunOrder, session_over
from detector_bench.vocabulary import ATTRIBUTES

CHECK = "check"
"""The folder in which the winner is judged once more, as its YAML says."""

COMPARED_KIND = "clip_enhance"
"""Detectors of this kind are what a search is compared with, if nobody says otherwise."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found, and where it stands."""

    folder: Path
    findings: SearchFindings
    winner: DetectorEntry
    """As a study file has it."""
    study: StudyConfiguration
    """That was searched."""

    @property
    def table(self) -> pd.DataFrame:
        """Every composition; columns as in `search.findings.SEARCH_COLUMNS`."""
        return self.findings.rows

    @property
    def sentences(self) -> list[str]:
        """What the search found, for people."""
        return self.findings.sentences()

    @property
    def expected(self) -> ErrorEstimate:
        """The error to expect of what is so chosen, on prompts that did not choose it; a mean square where
        `findings.is_squared`."""
        return self.findings.expected

    @property
    def contests(self) -> tuple[SearchContest, ...]:
        """Against the best single detector, and against each detector that was named."""
        return self.findings.contests

    @property
    def beats_single(self) -> bool:
        """Whether the search beats the best single detector on prompts that chose neither."""
        return self.findings.beats_single

    def write_winner(self, file: Path | str) -> None:
        """Write the winner as a study file that `run` takes.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        content = study_of(self.study, self.winner, Path(file).parent, attribute=self.findings.attribute)
        write_text(Path(file), yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def search_settings(study: StudyConfiguration, file: Path | None = None, **changed: Any) -> SearchSettings:
    """The settings of a search: a file's, or the study's, or the defaults; `changed` ones take their place.

    Raises:
        ConfigError: the file is missing or wrong, or a value is.
    """
    if file is not None:
        given = read_mapping(file, keys="`filters`, `crops`, `classifiers`")
        place = str(file)
        # A file of its own may hold the section by its name, or be it.
        inner = given.get("search")
        given = dict(inner) if len(given) == 1 and isinstance(inner, Mapping) else given
    else:
        given, place = ({} if study.searched is None else study.searched.model_dump(exclude_unset=True)), "search"
    given = dict(given) | {name: value for name, value in changed.items() if value is not None}
    try:
        return SearchSettings.model_validate(given)
    except ValidationError as error:
        raise config_error_from(error, place=place, model=SearchSettings) from error


def search_study(
    study: StudyConfiguration,
    out: Path,
    order: RunOrder,
    *,
    settings: SearchSettings | None = None,
    progress: ProgressListener | None = None,
) -> SearchResult:
    """Judge what is not judged yet, search, and write everything to `out`; see `Study.search`."""
    began = datetime.now(UTC)
    settings = settings or search_settings(study)
    if (out / RESULTS).exists():
        raise ConfigError(f"{str(out)!r} is the result folder of a run: give the search a folder of its own")
    attribute = _attribute(study, settings)
    compositions = Compositions.of(settings, study.detectors, attribute=attribute)
    _check_names(settings, compositions)
    image_set = study.load_image_set()
    study.check_image_set(image_set)
    if attribute not in image_set.attributes:
        raise ConfigError(
            f"search: no image has a label of {attribute!r}: what is best cannot be told; label some, or name "
            "another attribute (--attribute)"
        )
    _leave_out_what_cannot_run(study, compositions, out, order)
    compared = _compared(study, settings, compositions)
    check_can_be_judged(settings, compositions, clear_prompts=_clear_prompts(image_set, attribute))
    fingerprints = _judge(study, image_set, compositions.detectors, out, order, began=began, progress=progress)
    verdicts = labelled_verdicts(image_set, out, compositions)
    search = CompositionSearch(settings, compositions, verdicts, n_clear=study.n_clear, compare_with=compared)
    found = search.findings(
        not_built=[(each.name, each.reason) for each in compositions.not_built],
        notes=_notes(study, compositions, image_set, out),
    )
    entry, said = _winner(search, found)
    checked = _check(study, image_set, entry, said=said, out=out, order=order, attribute=attribute)
    write_search(
        found,
        out,
        winner=study_of(study, entry, out, attribute=attribute),
        figures=_figure(found, out),
        inputs=inputs_of(image_set, ()),
        judged=fingerprints,
        checked=checked,
        title=study.name,
    )
    return SearchResult(out, found, entry, study)


def _figure(found: SearchFindings, out: Path) -> list[str]:
    """The figure's files; without matplotlib there is none, which is no reason to lose a search."""
    try:
        return write_figure(found, out)
    except MissingExtraError:
        return []


def _attribute(study: StudyConfiguration, settings: SearchSettings) -> str:
    attribute = settings.attribute or study.attributes[0]
    if attribute not in ATTRIBUTES:
        raise ConfigError(f"search: unknown attribute {attribute!r}: {nearest_hint(attribute, ATTRIBUTES)}")
    return attribute


def _compared(study: StudyConfiguration, settings: SearchSettings, compositions: Compositions) -> tuple[str, ...]:
    singles = [compositions.listed[place].name for place in compositions.singles()]
    if settings.compare_with is None:
        kinds = {entry.name for entry in study.detectors if entry.kind == COMPARED_KIND}
        return tuple(name for name in singles if name in kinds)
    reasons = {each.name: each.reason for each in compositions.not_built}
    for name in settings.compare_with:
        if name not in singles:
            raise ConfigError(f"search: compare_with: {name} cannot run: {reasons.get(name, 'it is no detector')}")
    return settings.compare_with


def _check_names(settings: SearchSettings, compositions: Compositions) -> None:
    known = [compositions.listed[place].name for place in compositions.singles()]
    for name in settings.compare_with or ():
        if name not in known:
            raise ConfigError(
                f"search: compare_with: no detector {name!r} of this study judges {compositions.attribute!r}: "
                f"{nearest_hint(name, known)}"
            )


def _clear_prompts(image_set: ImageSet, attribute: str) -> int:
    """How many prompts have images that humans give a class."""
    index, kind = ImageIndex.of(image_set), ATTRIBUTES[attribute]
    truth = image_set.label_codes(kind)
    clear = (truth >= 0) & (truth < len(kind.classes)) & index.counted
    return len(np.unique(index.cells[clear] % len(index.prompt_ids)))


def _notes(study: StudyConfiguration, compositions: Compositions, image_set: ImageSet, out: Path) -> list[str]:
    """What has to be said of calibrated classifiers: one fitted on these prompts has seen their labels."""
    first = {each.classifier: each.entry for each in reversed(compositions.judged)}
    judged = study.model_copy(update={"detectors": tuple(first[name] for name in sorted(first))})
    return [f"{note}." for note in calibration_notes(judged, out / "predictions", image_set.prompts)]


def _leave_out_what_cannot_run(
    study: StudyConfiguration, compositions: Compositions, out: Path, order: RunOrder
) -> None:
    weights = study.locator(weights_dir=order.weights_dir, out=out)
    reasons = {
        place: "; ".join(missing)
        for place, detector in enumerate(compositions.detectors)
        if (missing := lacking(detector, weights=weights))
    }
    compositions.leave_out(reasons)
    if not compositions.listed:
        raise ConfigError(f"search: nothing can run: {next(iter(reasons.values()))}")


def _judge(
    study: StudyConfiguration,
    image_set: ImageSet,
    detectors: Sequence[Detector],
    out: Path,
    order: RunOrder,
    *,
    began: datetime,
    progress: ProgressListener | None,
) -> dict[str, str]:
    session = session_over(study, image_set, detectors, out, order)
    record = session.run_all(progress)
    with session.ledger.completing():
        write_record(out, session, record=record, began=began)
    return session.fingerprints


def labelled_verdicts(image_set: ImageSet, out: Path, compositions: Compositions) -> LabelledVerdicts:
    """What the detectors of a search said of the labelled images.

    Raises:
        DataError: predictions that are damaged, or about other images.
    """
    names = [detector.name for detector in compositions.detectors]
    fails = [getattr(each.implementation, "fails_without_score", False) for each in compositions.detectors]
    found = _read(image_set, out, names, compositions.attribute)
    return LabelledVerdicts.of(found, names, fails_without_score=fails)


def _read(image_set: ImageSet, out: Path, names: Sequence[str], attribute: str) -> ImageVerdicts:
    index = ImageIndex.of(image_set)
    stored = CodedPredictions(
        index, StoredPredictions(out / "predictions"), detectors=names, attributes=[attribute]
    )
    return ImageVerdicts.read(image_set, stored, attribute=attribute, index=index)


def _winner(search: CompositionSearch, found: SearchFindings) -> tuple[DetectorEntry, Codes]:
    """The winner as a study file has it, and what the search takes it to say of the labelled images."""
    compositions = search.compositions
    names = [each.name for each in compositions.listed]
    if found.winner in names:
        listed = compositions.listed[names.index(found.winner)]
        return compositions.entry(listed), search.verdicts.at(listed.judged, listed.threshold)
    learnt = search.learnt_on_all_prompts(found.winner)
    if learnt is None or search.ensembles is None:
        raise DetectorBenchError(f"search: {found.winner} is neither a composition nor an ensemble")
    members = [compositions.entry(compositions.listed[place]) for place in learnt.members]
    parameters = learnt.parameters(
        compositions.attribute, [{"kind": each.kind, **each.parameters} for each in members]
    )
    return DetectorEntry(name=found.winner, kind="ensemble", parameters=parameters), search.ensembles.apply(learnt)


def _check(
    study: StudyConfiguration,
    image_set: ImageSet,
    entry: DetectorEntry,
    *,
    said: Codes,
    out: Path,
    order: RunOrder,
    attribute: str,
) -> dict[str, str]:
    """Judge the winner as its YAML says, from cached stages, and compare: a threshold that was laid on stored
    scores has to give what a run with that threshold gives.

    Returns:
        The fingerprint of what judged, by name.

    Raises:
        DetectorBenchError: it does not.
    """
    detector = build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
    session = session_over(study, image_set, [detector], out / CHECK, order, of=out)
    session.run_all()
    names = [detector.name]
    found = LabelledVerdicts.of(_read(image_set, out / CHECK, names, attribute), names)
    different = int((found.verdicts[0] != said).sum())
    if different:
        raise DetectorBenchError(
            f"search: run as its YAML says, {entry.name} judges {different:,} of {len(said):,} labelled images "
            "otherwise than its stored scores say: its `min_score` is not a threshold on its scores; leave its "
            "thresholds out of the search"
        )
    return session.fingerprints


def study_of(study: StudyConfiguration, entry: DetectorEntry, folder: Path, *, attribute: str) -> dict[str, Any]:
    """A study file that runs one detector over the study's images; its paths are relative to `folder`."""
    alone = study.model_copy(update={"detectors": (entry,), "attributes": (attribute,)})
    places = {name: os.path.relpath(found, folder) for name, found in alone.weights_elsewhere()}
    parameters = json.loads(json.dumps(entry.parameters, default=str))
    return {
        "name": f"{study.name}: {entry.name}",
        "image_set": os.path.relpath(study.image_set, folder),
        "attributes": [attribute],
        "n_clear": study.n_clear,
        "detectors": [{"name": entry.name, "kind": entry.kind, **with_texts_replaced(parameters, places)}],
    }
