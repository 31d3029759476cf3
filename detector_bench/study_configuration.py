"""A study on this machine: read from its file, its images and weights found, written into a result folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import PrivateAttr

from detector_bench.atomic_files import write_text
from detector_bench.dataset import ImageSet
from detector_bench.declarations import read_mapping
from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.evaluation.label_doubt import check_identified
from detector_bench.isolated.environments import published_place
from detector_bench.named_studies import NamedStudy, named_study, study_path
from detector_bench.perception.stage import with_inputs
from detector_bench.results.local_paths import LocalPaths, PublishedNames, place_of, published_predictions
from detector_bench.results.manifest import STUDY_FILE, EvaluationSettings
from detector_bench.study_declaration import PLACE, StudyDeclaration
from detector_bench.study_file import resolve_detector, texts_in, with_texts_replaced
from detector_bench.vocabulary import ATTRIBUTES, attributes_of, write_attributes
from detector_bench.weights import Checkpoint, WeightsLocator
from detector_bench.weights.revisions import RevisionLock, lock_beside, write_lock


class StudyConfiguration(StudyDeclaration):
    """What is judged, by whom, and how it is evaluated. The one configuration of command line, YAML and Python."""

    _file: Path | None = PrivateAttr(default=None)
    _named: NamedStudy | None = PrivateAttr(default=None)
    """The study that comes along, where it was asked for by name and no images with it."""
    _weights: dict[str, Path] = PrivateAttr(default_factory=dict)
    """Where weights lie that the study file of a result folder only names."""
    _revisions: RevisionLock | None = PrivateAttr(default=None)

    @classmethod
    def from_yaml(cls, path: Path | str, *, image_set: Path | str | None = None) -> Self:
        """Read a study file.

        Args:
            path: the YAML file, or the name of a study that comes along, such as "lyu2025"; of both, the file.
            image_set: takes the place of the file's `image_set`; relative to the working directory.

        Raises:
            ConfigError: the file is missing or wrong; all mistakes at once, with the nearest known names.
        """
        named = named_study(path) if image_set is None else None
        path = study_path(path)
        content = read_mapping(path)
        entries = content.get("detectors")
        if isinstance(entries, list):
            content["detectors"] = [
                resolve_detector(entry, folder=path.parent, place=f"{path}: detectors.{number}")
                for number, entry in enumerate(entries)
            ]
        # A user's own study file may have any name, and says where things are.
        local = LocalPaths.read(path.parent) if path.name == STUDY_FILE else LocalPaths()
        if image_set is not None:
            content["image_set"] = Path(image_set)
        elif isinstance(content.get("image_set"), str):
            content["image_set"] = place_of(path.parent, content["image_set"], local.image_set)
        content.setdefault("name", path.stem)
        if isinstance(folder := content.get("image_set"), str | Path):
            # A result folder has a copy, for when the image set is gone.
            attributes_of(Path(folder), path.parent)
        study = cls.model_validate(content, context={PLACE: str(path)})
        beside = tuple(
            system.with_files(lambda file: place_of(path.parent, file.as_posix(), local.score_files))
            for system in study.scores
        )
        study = study.model_copy(update={"scores": beside})
        study._file, study._named = path, named
        study._weights = {name: path.parent / place for name, place in local.weights.items()}
        return study

    def build_detectors(self) -> list[Detector]:
        """The study's detectors, checked.

        Raises:
            ConfigError: unknown kinds, wrong parameters, or none judges an attribute of the study; all at once.
        """
        detectors: list[Detector] = []
        mistakes: list[str] = []
        for entry in self.detectors:
            try:
                detectors.append(build_detector(entry.kind, name=entry.name, parameters=entry.parameters))
            except ConfigError as error:
                mistakes += str(error).splitlines()
        if not mistakes:
            judged = {attribute for detector in detectors for attribute in detector.attributes}
            mistakes = [
                f"no detector of this study judges the attribute {attribute!r}"
                for attribute in self.attributes
                if attribute not in judged
            ]
        if mistakes:
            place = "" if self._file is None else f"{self._file}: "
            raise ConfigError("\n".join(f"{place}{mistake}" for mistake in mistakes))
        return detectors

    def locator(
        self, *, weights_dir: Path | None = None, allow_download: bool = True, out: Path | None = None
    ) -> WeightsLocator:
        """Where this study's weights are looked for.

        Args:
            weights_dir: a folder with weights.
            allow_download: whether what is missing may be downloaded.
            out: the result folder, whose lock counts where the study has no file or its folder cannot be written.
        """
        return WeightsLocator.from_environment(
            weights_dir=weights_dir,
            beside=None if self._file is None else self._file.parent,
            named=self._weights,
            allow_download=allow_download,
            revisions=self._lock(out),
        )

    def _lock(self, out: Path | None) -> RevisionLock:
        places = [] if self._file is None else [lock_beside(self._file)]
        places += [] if out is None else [lock_beside(out / STUDY_FILE)]
        if self._revisions is None or self._revisions.places != tuple(places):
            self._revisions = RevisionLock(places)
        return self._revisions

    def evaluation_settings(self, folder: Path) -> EvaluationSettings:
        """All that decides the study's numbers besides images, labels and predictions.

        Args:
            folder: the result folder, below which files of score systems keep their paths.
        """
        return EvaluationSettings(
            detectors=tuple(entry.name for entry in self.detectors),
            attributes=self.attributes,
            n_clear=self.n_clear,
            max_error_share=self.max_error_share,
            intervals=self.intervals,
            estimated_labels=self.estimated_labels,
            estimates=self.estimates,
            scores=tuple(self.scores_from(folder)),
            classes={
                name: ATTRIBUTES[name].classes for name in self.attributes if name not in ATTRIBUTES.built_in
            },
        )

    def scores_from(self, folder: Path) -> list[dict[str, Any]]:
        """The score systems as plain data, with their files named as a result folder names them."""
        return self._named_scores(PublishedNames(folder))

    def _named_scores(self, names: PublishedNames) -> list[dict[str, Any]]:
        moved = [system.with_files(lambda file: Path(names.name(file))) for system in self.scores]
        return [system.model_dump(mode="json") for system in moved]

    def load_image_set(self) -> ImageSet:
        """Read the study's image set.

        Raises:
            ConfigError: there is no such folder.
            DataError: mistakes in it.
        """
        if self._file is not None and not self.image_set.is_dir():
            if self._named is not None:
                raise ConfigError(self._named.lacks_images)
            raise ConfigError(
                f"{self._file}: image_set: there is no folder {str(self.image_set)!r}; a study file that was "
                "copied out of a result folder only names its image set: say with --image-set DIR where it is (in "
                "Python: image_set=)"
            )
        return ImageSet.load(self.image_set)

    def score_files(self) -> list[Path]:
        """The files and folders that score systems read."""
        found: list[Path] = []
        for system in self.scores:
            found += [value for _, value in system if isinstance(value, Path)]
        return found

    def check_image_set(self, image_set: ImageSet) -> None:
        """Check that there are labels enough where true ones are to be estimated, and that names are known.

        Raises:
            ConfigError: one of them does not hold.
        """
        if self.estimated_labels != "none":
            check_identified(image_set, self.attributes)
        t2i_models = image_set.table("images").encoded("t2i_model").texts
        known = [*(entry.name for entry in self.detectors), *t2i_models]
        for name in self.display_names:
            if name not in known:
                raise ConfigError(
                    f"display_names: no detector or T2I model {name!r} in this study: {nearest_hint(name, known)}"
                )

    def _names_on_hub(self) -> list[str]:
        """Checkpoints that are named without a commit."""
        try:
            stages = with_inputs([stage for detector in self.build_detectors() for stage in detector.stages])
        except DetectorBenchError:  # evaluating needs no detectors, so their plugin may be absent
            return [text for entry in self.detectors for text in texts_in(entry.parameters)]
        weights = [file for stage in stages for file in stage.weights() if isinstance(file, Checkpoint)]
        return [file.path for file in weights if file.revision is None]

    def weights_elsewhere(self) -> Iterator[tuple[str, Path]]:
        """Weights that are named by a path of this machine, or relative to the study file; and where they lie."""
        try:
            detectors = self.build_detectors()
        except DetectorBenchError:  # evaluating needs no detectors, so their plugin may be absent
            yield from self._weights.items()
            texts = {text for entry in self.detectors for text in texts_in(entry.parameters)}
            files = {text: self._place_of_weights(text) for text in sorted(texts) if "/" in text}
            for text, found in files.items():
                if found is not None and os.path.exists(found):  # noqa: PTH110 - the text may be no path at all
                    yield text, found
            return
        for stage in with_inputs([stage for detector in detectors for stage in detector.stages]):
            for file in stage.weights():
                if (found := self._place_of_weights(file.path)) is not None:
                    yield file.path, found
            for program in stage.programs():
                if (found := self._place_of_weights(program)) is not None:
                    yield program, published_place(found)

    def _place_of_weights(self, text: str) -> Path | None:
        """Where the weights of a path lie if not in a folder of weights; None: there, or nowhere."""
        path = Path(os.path.expanduser(text))  # noqa: PTH111 - texts may begin with ~ and be no paths
        if text in self._weights or path.is_absolute():
            return self._weights.get(text, path)
        beside = None if self._file is None else self._file.parent / path
        return beside if beside is not None and os.path.exists(beside) else None  # noqa: PTH110 - as above

    def write(self, out: Path, *, predictions: Path | None = None) -> None:
        """Write `out/study.yaml`, which says all that this study says, `out/local_paths.json`, which says where on
        this machine is what the former only names, and `out/study.lock.yaml`, if names on the hub were settled.

        Args:
            out: the result folder.
            predictions: those that its numbers come from.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        content = self.model_dump(mode="json", by_alias=True, exclude=None if self.searched else {"searched"})
        image_set, weights, scores = (PublishedNames(out) for _ in range(3))
        content["image_set"] = image_set.name(self.image_set)
        named = {path: weights.name(found) for path, found in self.weights_elsewhere()}
        content["detectors"] = [
            {"name": entry["name"], "kind": entry["kind"], **with_texts_replaced(entry["parameters"], named)}
            for entry in content["detectors"]
        ]
        content["scores"] = self._named_scores(scores)
        write_text(out / STUDY_FILE, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        LocalPaths(
            image_set=image_set.elsewhere,
            predictions={} if predictions is None else published_predictions(out, predictions)[1],
            weights=weights.elsewhere,
            score_files=scores.elsewhere,
        ).write(out)
        if commits := (self._revisions or self._lock(out)).of(self._names_on_hub()):
            write_lock(lock_beside(out / STUDY_FILE), commits)
        beside_it = [] if self._file is None else [self._file.parent]
        write_attributes(attributes_of(self.image_set, *beside_it).values(), out)
