"""`results.json`: what was evaluated and how, and which files came of it.

It is written last, so that half a result folder is known as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench.errors import ConfigError
from detector_bench.evaluation.estimates import EstimateSettings
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.label_doubt import Estimate
from detector_bench.evaluation.more_labels import Tolerance
from detector_bench.metrics import METRICS
from detector_bench.plugins import PluginFile, plugin_files
from detector_bench.results.proof import Proof
from detector_bench.results.run_record import read_run_record
from detector_bench.sealed import DamagedRecordError, read_sealed, sealed_digest, write_sealed
from detector_bench.vocabulary import attribute_named

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet

NAME = "results.json"
STUDY_FILE = "study.yaml"

SCHEMA_VERSION = 3
"""Of the files in a result folder. 1: those of before there was a `results.json`; 2: those without sha256. It
grows with every change that a reader has to know of."""

Counts = dict[str, dict[str, dict[str, int]]]
"""Images by detector, attribute and status."""


class EvaluationSettings(BaseModel):
    """All that decides a study's numbers besides images, labels and predictions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    detectors: tuple[str, ...]
    """Names of the detectors, in the study's order."""
    attributes: tuple[str, ...]
    """What was evaluated, the main one first."""
    n_clear: Literal["detector", "human"]
    max_error_share: float
    intervals: Intervals
    estimated_labels: Estimate
    scores: tuple[dict[str, Any], ...]
    """Settings of the score systems, their files named as `local_paths` names them."""
    estimates: EstimateSettings = EstimateSettings()
    """Of bias over all images, where some have no label."""
    classes: dict[str, tuple[str, ...]] = {}
    """By attribute that is not built in, its classes."""

    def draws(self, image_set: ImageSet) -> dict[str, Any]:
        """What an evaluation draws at random, and how; most for the attribute with the fewest labels."""
        labels = image_set.table("labels").encoded("attribute")
        images = []
        for name in (name for name in self.attributes if name in labels.texts):
            is_labelled = np.zeros(len(image_set.image_ids), dtype=np.bool_)
            is_labelled[image_set.image_of_label[labels.is_text(name)]] = True
            images.append(int(is_labelled.sum()))
        # Without a label detectors' own scores are left, which are of all images.
        resamples = self.intervals.resamples_for(min([*images, len(image_set.image_ids)]))
        if resamples == 0:
            return {}
        drawn = self.intervals.model_dump(mode="json", include={"seed", "unit", "level", "method"})
        return {"intervals": {**drawn, "resamples": resamples}}


class Manifest(BaseModel):
    """The content of `results.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    study: str
    """The study's name."""
    settings: EvaluationSettings
    seeds: dict[str, Any]
    """What was drawn at random, each with its seed; empty where nothing was."""
    image_set: dict[str, str | int]
    """Name, fingerprint and number of images of the image set whose labels were counted."""
    predictions: str
    """The folder of the predictions, if it lies in the result folder; of another one its name (`local_paths`)."""
    counts: Counts
    not_comparable: dict[str, str]
    """By attribute, why its detectors are not compared; attributes whose detectors are have no entry."""
    tolerance: Tolerance
    """What `label_plans` plans for; a report may be asked for another one."""
    estimate_notes: dict[str, tuple[str, ...]] = {}
    """By attribute: what estimates over all images rest on and leave out; no attribute where none was made."""
    calibration_notes: tuple[str, ...] = ()
    """Of calibrated detectors: prompts that their calibration was fitted on, and calibrations of other stages."""
    score_notes: dict[str, tuple[str, ...]]
    """By definition of a score of another benchmark, what has to be said below its tables."""
    environment: dict[str, Any]
    """Versions of detector_bench, Python and packages, and the machine."""
    plugins: tuple[PluginFile, ...] = ()
    """The files that `--plugin` named, and what each of them added."""
    files: dict[str, int]
    """Rows of every long table, by file name. A table that is not here was without a row, or not computed: of
    studies with more than 200,000 images causes, ranks, agreement and sweeps are computed when they are asked
    for."""

    proof: Proof = Proof()
    """What the numbers stand on."""
    tables: tuple[str, ...] = ()
    """What stands in the folder `tables`; the next evaluation removes those that it has no more."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a result folder, and check that its files are there.

        Raises:
            ConfigError: no result folder, half of one, or one of an older or newer schema; one line says which,
                and what to do.
        """
        path = folder / NAME
        try:
            content = read_sealed(path)
            is_sealed = sealed_digest(path) is not None
        except FileNotFoundError:
            raise ConfigError(_why_not(folder)) from None
        except (OSError, DamagedRecordError) as error:
            raise ConfigError(f"{path}: cannot be read ({error}): run {_again(folder)}") from error
        version = content.get("schema_version")
        if not isinstance(version, int):
            raise ConfigError(f"{path}: the key schema_version is missing: run {_again(folder)}")
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{path}: written by a newer version of detector_bench (schema {version}; this version knows "
                f"{SCHEMA_VERSION}): update detector-bench"
            )
        if version < SCHEMA_VERSION:
            raise ConfigError(_older(folder, version))
        if not is_sealed:
            raise ConfigError(f"{path}: it has no seal, as every evaluation writes it: run {_again(folder)}")
        try:
            manifest = cls.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"{path}: {where}: {first['msg'].lower()}: run {_again(folder)}") from error
        for name in manifest.files:
            if not (folder / name).is_file():
                raise ConfigError(f"{str(folder)!r} lacks {name}, which {NAME} lists: run {_again(folder)}")
        return manifest

    def plugin_of(self, metric: str) -> str | None:
        """The name of the plugin file that declared a metric; None: the file of another name, or none, did."""
        return next((each.file for each in self.plugins if metric in each.adds.get("metric", ())), None)

    def plugins_left_out(self) -> list[str]:
        """What is lost as nobody names the plugin file that it came from: a line for each such file."""
        loaded = {each.file for each in plugin_files()}
        return [
            f"left out: {_added(each)} of {each.file}, which is not named: say --plugin {each.file}"
            for each in self.plugins
            if each.file not in loaded and any(name not in METRICS for name in each.adds.get("metric", ("",)))
            if _added(each)
        ]

    def plugins_changed(self) -> list[str]:
        """What was evaluated by another source of its plugin file than is loaded: a line for each such file."""
        loaded = {each.file: each.sha256 for each in plugin_files()}
        return [
            f"{each.file} has changed since the evaluation: stored numbers ({_added(each)}) are those of before"
            for each in self.plugins
            if loaded.get(each.file, each.sha256) != each.sha256 and _added(each)
        ]

    def write(self, folder: Path) -> None:
        """Write it, when all the files that it lists are there.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        write_sealed(folder / NAME, self.model_dump(mode="json"))

    def check_study(self, study: Mapping[str, Any], file: Path) -> None:
        """Check that the study file of the folder still says what the numbers were computed with.

        Args:
            study: its content.
            file: its path.

        Raises:
            ConfigError: a setting was changed since.
        """
        entries = study.get("detectors")
        names = [
            each if isinstance(each, str) else each.get("name", each.get("kind"))
            for each in (entries if isinstance(entries, list) else ())
        ]
        classes = {name: list(attribute_named(name).classes) for name in self.settings.classes}
        now = dict(study) | {"detectors": names, "classes": classes}
        for name, then in _flat(self.settings.model_dump(mode="json")):
            found: Any = now
            for part in name.split("."):
                found = found.get(part, then) if isinstance(found, Mapping) else then
            if found != then:
                raise ConfigError(
                    f"{file}: `{name}` is {found!r}, but the numbers of this folder were computed with {then!r}: "
                    f"run {_again(file.parent, '--changed-inputs')}, or set it back"
                )


def last_evaluation(folder: Path) -> Manifest | None:
    """The manifest of a result folder; None where there is none that can be read."""
    try:
        return Manifest.read(folder)
    except ConfigError:
        return None


def changed_file(path: Path) -> ConfigError:
    """What to say of a file with another sha256 than the manifest lists."""
    return ConfigError(f"{path}: not as the evaluation wrote it (sha256): run {_again(path.parent)}")


def changed_table(path: Path, *, rows: int, listed: int) -> ConfigError:
    """What to say of a long table with other rows than the manifest lists."""
    return ConfigError(f"{path}: {rows:,} rows, but {NAME} lists {listed:,}: run {_again(path.parent)}")


def _added(plugin: PluginFile) -> str:
    """What numbers and tables have from a plugin file; detectors' verdicts are stored."""
    return "; ".join(
        f"{what} {', '.join(plugin.adds[what])}"
        for what in ("metric", "table", "score system")
        if what in plugin.adds
    )


def _why_not(folder: Path) -> str:
    """Why there is no manifest."""
    if not folder.is_dir():
        return (
            f"there is no folder {str(folder)!r}: expected the result folder of `detector-bench run` or `evaluate`"
        )
    if "evaluation" in read_run_record(folder):
        return _older(folder, 1)
    if any((folder / name).exists() for name in ("metrics.csv", "metrics.parquet")):
        return f"{str(folder)!r} is half a result folder, its evaluation was cut short: run {_again(folder)}"
    if (folder / "predictions").is_dir():
        return (
            f"{str(folder)!r} is half a result folder, with predictions and no numbers: run `detector-bench run "
            f"STUDY.yaml --out {folder}` to its end"
        )
    return f"{str(folder)!r} is no result folder: expected one of `detector-bench run` or `evaluate`, with {NAME}"


def _older(folder: Path, version: int) -> str:
    return (
        f"{str(folder)!r} was written by an older version of detector_bench (schema {version}, now "
        f"{SCHEMA_VERSION}): bring it up to date with {_again(folder)}"
    )


def _again(folder: Path, *options: str) -> str:
    return f"`{' '.join(['detector-bench evaluate', str(folder), *options])}`"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in settings.items():
        flat += _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return flat


def tables_written(folder: Path) -> tuple[str, ...]:
    """The names of the tables that a result folder's manifest lists; none where no manifest can be read."""
    try:
        names = json.loads((folder / NAME).read_text(encoding="utf-8"))["tables"]
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    # The file may be anybody's: no name may lead out of the folder.
    return tuple(name for name in names if isinstance(name, str) and re.fullmatch(r"[\w-]+", name))
