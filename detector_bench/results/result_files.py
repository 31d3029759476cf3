"""The files that a result folder stands on, each refused that is not the one its numbers were made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.image_index import ImageIndex
from detector_bench.results.inputs import refuse_other_image_set
from detector_bench.results.local_paths import LocalPaths, place_of
from detector_bench.results.long_tables import read_long_table
from detector_bench.results.manifest import STUDY_FILE, EvaluationSettings, Manifest, changed_file, changed_table
from detector_bench.results.proof import digests
from detector_bench.runner.prediction_store import prediction_files
from detector_bench.runner.stored_predictions import StoredPredictions, read_predictions, sha256_of_file
from detector_bench.vocabulary import attributes_of


@dataclass(frozen=True, eq=False)
class ResultFiles:
    """A result folder as files: each is refused that is not the one which the folder's numbers were made of.

    Attributes:
        path: the folder.
        manifest: its `results.json`.
        image_set_folder: where the labelled images are, or were.
        own_image_set: the folder of images that was named in place of the study's; None: none was.
        study: the content of its `study.yaml`.
        predictions_folder: where the predictions are, or were, that the numbers come from.
    """

    path: Path
    manifest: Manifest
    image_set_folder: Path
    own_image_set: Path | None = None
    study: Mapping[str, Any] = field(default_factory=dict)
    predictions_folder: Path = Path("predictions")

    @classmethod
    def open(cls, path: Path | str, *, image_set: Path | str | None = None) -> Self:
        """Read `results.json` and look at `study.yaml`; tables are read when they are asked for.

        Args:
            path: the result folder.
            image_set: takes the place of the study's.

        Raises:
            ConfigError: no result folder, half of one, one of an older or newer schema, or one whose study file
                says other settings now; one line says which, and what to do.
        """
        path = Path(path)
        manifest = Manifest.read(path)
        if not (path / STUDY_FILE).is_file():
            raise ConfigError(
                f"{str(path)!r} lacks {STUDY_FILE}, which says where the images are: run `detector-bench evaluate "
                f"{path} --study STUDY.yaml`"
            )
        study = read_mapping(path / STUDY_FILE)
        own = None if image_set is None else Path(image_set)
        local = LocalPaths.read(path)
        images = own or place_of(path, str(study.get("image_set", "")), local.image_set)
        attributes_of(images, path)
        manifest.check_study(study, path / STUDY_FILE)
        judged = place_of(path, manifest.predictions, local.predictions)
        return cls(path, manifest, images, own, study, judged)

    @property
    def settings(self) -> EvaluationSettings:
        """How the numbers were computed."""
        return self.manifest.settings

    @cached_property
    def image_set(self) -> ImageSet:
        """The labelled images behind the study.

        Raises:
            ConfigError: they are not there any more.
            DataError: they are wrong.
            ChangedInputsError: they are not those that the numbers were made of.
        """
        if self.own_image_set is None and not self.image_set_folder.is_dir():
            raise ConfigError(
                f"there is no image set {self.image_set_folder.name!r} any more: say with --image-set where it is"
            )
        image_set = ImageSet.load(self.image_set_folder)
        refuse_other_image_set(self.path, self.manifest, image_set)
        return image_set

    def predictions(
        self, columns: Sequence[str] = (), *, of_images: pa.Array | None = None
    ) -> dict[str, pa.Table]:
        """The stored predictions of the study's detectors, in the study's order.

        Args:
            columns: those of `vocabulary.columns.PREDICTIONS` to read beside image, attribute, status and label.
            of_images: ids of images; rows of others are left out. None: all.

        Raises:
            DetectorBenchError: they are not there.
        """
        stored = read_predictions(self.predictions_folder, also=columns, of_images=of_images)
        self._refuse_other_predictions()
        return {name: stored[name] for name in self.settings.detectors if name in stored}

    def coded_predictions(
        self, columns: Sequence[str] = (), *, detectors: Sequence[str] | None = None
    ) -> CodedPredictions:
        """The same as numbers, for what counts: little memory, also of millions of images.

        Args:
            columns: as in `predictions`, of the tables that are read when they are asked for.
            detectors: some of the study's; None: all.

        Raises:
            DetectorBenchError: they are not there, or the image set is not.
        """
        stored = StoredPredictions(self.predictions_folder, also=columns)
        wanted = self.settings.detectors if detectors is None else detectors
        coded = CodedPredictions(
            ImageIndex.of(self.image_set),
            stored,
            detectors=[name for name in wanted if name in stored],
            attributes=self.settings.attributes,
        )
        self._refuse_other_predictions()  # a damaged file has been named by then
        return coded

    def _refuse_other_predictions(self) -> None:
        """Numbers and what is shown beside them come from the same files."""
        for name, judged in self.manifest.proof.predictions.items():
            folder = self.predictions_folder / name
            if digests(folder, (path.name for path in prediction_files(folder))) != judged.files:
                raise ConfigError(
                    f"{str(self.path)!r}: the predictions of {name} are not those that its numbers were made of: "
                    f"run `detector-bench evaluate {self.path}`, or end the run that is judging anew"
                )

    def rows_of(self, file: str) -> pd.DataFrame:
        """The content of one of the folder's long tables, as it was written.

        Args:
            file: its name, one of `manifest.files`.

        Raises:
            ConfigError: it was changed or damaged.
        """
        path = self.path / file
        written = self.manifest.proof.files.get(file)
        if written is not None and sha256_of_file(path) != written:
            raise changed_file(path)
        try:
            rows = read_long_table(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ConfigError(
                f"{path}: cannot be read ({str(error).splitlines()[0]}): run `detector-bench evaluate {self.path}`"
            ) from error
        if len(rows) != self.manifest.files[file]:
            raise changed_table(path, rows=len(rows), listed=self.manifest.files[file])
        return rows
