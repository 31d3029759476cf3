"""What runs on the nodes of a Ray cluster: actors that judge, and tasks that read images.

Nothing here imports Ray: `crew` makes actors and tasks of it.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from detector_bench import __version__
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.plugins import PluginSource, load_plugins, placed_plugins
from detector_bench.runner.chunk_judge import ChunkJudge
from detector_bench.runner.chunks import Chunk, Encoded, JudgedChunk, StageResults
from detector_bench.runner.image_reading import LoadedImage, MarkedFile, read_and_hash
from detector_bench.runner.judging import BatchJudge, Version
from detector_bench.runner.run_ledger import open_ledger
from detector_bench.runner.run_settings import RunSettings
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.trust import take_over


@dataclass(frozen=True)
class NodeJob:
    """All that a node has to know to judge as the process that asks for it would.

    Attributes:
        study: the content of the study's files, by their paths as seen from `folder`.
        folder: where they lay; paths in them are as seen from there.
        plugins: the files that were plugged in.
        weights_dir: a folder with weights files, if it is there on the node, too.
        settings: batch size and the like.
        versions: of the detectors, by name.
        environment: keys of services that stages ask; set in the node's process, and never shown.
        proof: what stands in the file `PROOF` of the folder of paid answers; None: no stage asks a service.
        allowed: what the user allows; see `trust.granted_as_text`.
        package: the version of detector-bench.
    """

    study: Mapping[str, str]
    folder: Path
    plugins: Sequence[PluginSource]
    weights_dir: Path | None
    settings: RunSettings
    versions: Mapping[str, Version]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    proof: str | None = None
    allowed: str = "{}"
    package: str = __version__


PROOF = ".same-folder"
"""A file by which a node sees that it writes into the same folder of paid answers."""


@dataclass(frozen=True)
class NodeProblem:
    """Something that the user has to mend, in one line that names the node; `is_budget`: more money."""

    message: str
    is_budget: bool = False


class NodeJudge:
    """Holds the whole execution of a study's stages and detectors in one process; becomes an actor."""

    def __init__(self) -> None:
        self._chunks: ChunkJudge | None = None

    def prepare(self, job: NodeJob) -> NodeProblem | None:
        """Build the detectors, and refuse if they are not those of the process that asks."""
        os.environ.update(job.environment)
        try:
            if job.package != __version__:
                raise ConfigError(f"detector-bench is {__version__} there and {job.package} here")
            take_over(job.allowed)
            judge = _judge(job)
            if differing := [name for name, own in judge_versions(judge).items() if own != job.versions.get(name)]:
                name = differing[0]
                raise ConfigError(_difference(name, judge_versions(judge)[name], job.versions[name]))
            judge.require_all_ready()
            _open_ledger(job, judge)
        except DetectorBenchError as error:
            return _problem(error)
        self._chunks = ChunkJudge(judge, job.settings)
        return None

    def judge(self, chunk: Chunk, *data: Sequence[Encoded]) -> JudgedChunk | NodeProblem:
        """Judge a chunk, whose bytes come in one or several lists."""
        assert self._chunks is not None  # noqa: S101 - `prepare` comes first
        try:
            return self._chunks.judge(chunk, [each for part in data for each in part])
        except DetectorBenchError as error:
            return _problem(error)

    def taken_results(self) -> StageResults:
        """Stage results of what is being judged, as far as there are some."""
        return {} if self._chunks is None else self._chunks.taken_results()

    def process(self) -> int:
        """The number of this process."""
        return os.getpid()


@dataclass(frozen=True)
class ReadImage:
    """How reading an image went; its bytes travel apart."""

    sha256: str | None
    error: str | None
    size: int


def read_files(files: Sequence[MarkedFile]) -> tuple[list[ReadImage], list[Encoded]]:
    """Read images; becomes a task. An image that cannot be read has no bytes: an empty array."""
    told, data = [], []
    for file, mark in files:
        image = LoadedImage(file, mark=mark)
        read_and_hash(image)
        told.append(ReadImage(image.sha256, image.error, len(image.data or b"")))
        data.append(np.frombuffer(image.data or b"", np.uint8))
    return told, data


def judge_versions(judge: BatchJudge) -> dict[str, Version]:
    """Of the detectors, by name."""
    return {detector.name: own for detector, own in zip(judge.detectors, judge.versions, strict=True)}


def study_files(folder: Path) -> dict[str, str]:
    """The content of the files that `StudyConfiguration.write` made, by their paths in the folder."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _judge(job: NodeJob) -> BatchJudge:
    load_plugins(placed_plugins(job.plugins))
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the place where the files were written: they name what lies elsewhere as seen from there.
    with tempfile.TemporaryDirectory(prefix="detector-bench-", dir=job.folder.parent) as name:
        for path, text in job.study.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text, encoding="utf-8")
        study = StudyConfiguration.from_yaml(Path(name) / "study.yaml")
        return BatchJudge(
            study.build_detectors(), weights=study.locator(weights_dir=job.weights_dir), threads=job.settings.cores
        )


def _open_ledger(job: NodeJob, judge: BatchJudge) -> None:
    """Record paid answers where the process that asks for them does.

    Raises:
        ConfigError: this node does not see that folder.
    """
    if job.proof is None:
        return
    try:
        found = (Path(job.settings.paid_folder or "") / PROOF).read_text(encoding="utf-8")
    except (OSError, ValueError):
        found = ""
    if found != job.proof:
        raise ConfigError(
            "paid answers are recorded in the result folder before they are asked for, and this node does not see "
            "it: put --out on a disk that all nodes share, or judge by paid services without --engine ray"
        )
    judge.execution.paid = open_ledger(job.settings, judge.fingerprints)


def _problem(error: DetectorBenchError) -> NodeProblem:
    if isinstance(error, BudgetReachedError):
        return NodeProblem(str(error), is_budget=True)
    lines = str(error).splitlines()
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return NodeProblem(f"node {socket.gethostname()!r}: {lines[0]}{more}")


def _difference(name: str, there: Version, here: Version | None) -> str:
    what = "" if here is None else next(_differences(there.identity, here.identity, ""), "")
    return (
        f"detector {name!r} is another version there{what and f' ({what})'}: install the same package and weights "
        "on every node"
    )


def _differences(there: Any, here: Any, place: str) -> Any:
    """Yield where two identities differ, in words."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in sorted({*there, *here}):
            yield from _differences(there.get(key), here.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _differences(one, other, f"{place}.{number}")
    elif there != here:
        yield f"{place} is {_short(there)} there and {_short(here)} here"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."
