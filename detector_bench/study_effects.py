"""What a run of a study would read, send where, pay and execute on this machine; nothing of it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import entry_points
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from detector_bench.dataset import ImageSet
from detector_bench.detectors.base import Detector
from detector_bench.errors import DetectorBenchError, WeightsError
from detector_bench.perception.answers.chat_answers import ChatAnswers
from detector_bench.perception.answers.prices import (
    CallPrice,
    TokenPrices,
)
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Arrays, Stage, with_inputs
from detector_bench.plugins import plugin_files
from detector_bench.results.run_record import read_run_record
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_ledger import prices_of
from detector_bench.runner.stage_cache import StageCache, default_cache_folder
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_session import RunOrder, session_of
from detector_bench.trust import Origin, Sending, refusals, unset
from detector_bench.weights import Checkpoint, Weights, WeightsLocator, described

_GROUPS = ("detectors", "stages", "metrics", "tables", "score_systems")
_PLACE = r"^(?P<place>[A-Za-z][A-Za-z0-9+.-]+://[^/?#]*)"


@dataclass(frozen=True)
class FileRead:
    """A file or a folder that is read, or images that are fetched from elsewhere."""

    what: str
    """Its sort: image set, images, weights, checkpoint, score system's file, stage results."""
    place: str
    state: str
    """What is known of it: pinned, not here, to be downloaded, ..."""
    downloads: bool = False
    """Whether it is weights that are not here, and that the run would download."""


@dataclass(frozen=True)
class ImagesSent:
    """Images that a stage sends to a service."""

    stage: str
    detectors: tuple[str, ...]
    host: str
    images: int
    """At most: those without a verdict, but for what stage results keep of them."""
    kept: int
    """Of images without a verdict, those whose answers are kept: they are not sent again."""
    form: str
    keys: tuple[tuple[str, str], ...]
    """Names of environment variables, each with its state: may be sent, not set, or may not be sent."""
    refusals: tuple[str, ...]
    """What the user has not allowed, a line each, with the command that does."""
    cost: str


@dataclass(frozen=True)
class CodeRun:
    """Code that is executed and is not detector_bench's."""

    what: str
    """Its sort: plugin, code of a checkpoint, package with entry points."""
    name: str
    version: str
    allowed: str
    """By what; or the line that says how."""


@dataclass(frozen=True)
class StudyEffects:
    """All of it."""

    reads: tuple[FileRead, ...]
    sends: tuple[ImagesSent, ...]
    runs: tuple[CodeRun, ...]


def effects_of(study: StudyConfiguration, out: Path, order: RunOrder) -> StudyEffects:
    """Find out what a run would do; no stage is loaded, no image is read, nobody is asked.

    Args:
        study: what is judged by whom.
        out: the result folder; what is judged there already is not sent again.
        order: says where weights and stage results lie.

    Raises:
        DetectorBenchError: the study or its image set is wrong; not for what a run would lack.
    """
    detectors = study.build_detectors()
    locator = study.locator(weights_dir=order.weights_dir, out=out)
    stages = with_inputs([stage for detector in detectors for stage in detector.stages])
    try:
        _require_identities(stages, locator)
        image_set, session = session_of(study, out, order)
        left = _Left.of(session, order)
    except DetectorBenchError:  # weights that are missing, say: `reads` tells
        image_set = ImageSet.load(study.image_set)
        left = _Left({tuple(range(len(detectors))): len(image_set.table("images"))})
    return StudyEffects(
        reads=tuple(_reads(study, image_set, stages, locator, order)),
        sends=tuple(_sends(stages, detectors, left, _mapping(read_run_record(out).get("spending")), locator)),
        runs=tuple(_runs(stages, locator)),
    )


def _require_identities(stages: Sequence[Stage], locator: WeightsLocator) -> None:
    """Refuse weights whose content, a part of the detectors' versions, only a download would tell."""
    for file in (file for stage in stages for file in stage.weights()):
        if not file.pins and locator.find(file) is None:
            raise WeightsError(f"{file.name} is not here")


@dataclass(frozen=True)
class _Left:
    """What is left to judge, and what is known of it already."""

    images: Mapping[tuple[int, ...], int]
    """How many images lack a verdict, by the numbers of the detectors that they lack it of."""
    session: RunSession | None = None
    cache: Path | None = None

    @classmethod
    def of(cls, session: RunSession, order: RunOrder) -> _Left:
        folder = order.cache_dir or default_cache_folder()
        # A cache that is not there would be made by looking into it.
        known = order.use_cache and (folder / "stages.sqlite").is_file()
        images = {numbers: len(rows) for numbers, rows in session.left_to_judge().items()}
        return cls(images, session, folder if known else None)

    def kept(self, stage: str, users: set[int]) -> tuple[int, list[Arrays]]:
        """How many of the images that these detectors lack have results of a stage, and these results."""
        if self.session is None or self.cache is None:
            return 0, []
        places = [
            file.path
            for numbers, rows in self.session.left_to_judge().items()
            if users & {*numbers}
            for file in self.session.files(rows.tolist(), numbers)
        ]
        with closing(StageCache(self.cache)) as cache:
            contents = cache.known_sha256(places)
            results = cache.get(stage, list({each for each in contents if each is not None}))
        return sum(each in results for each in contents), list(results.values())


def _reads(
    study: StudyConfiguration,
    image_set: ImageSet,
    stages: Sequence[Stage],
    locator: WeightsLocator,
    order: RunOrder,
) -> Iterator[FileRead]:
    yield FileRead(
        "image set", str(study.image_set), f"{len(image_set.table('images')):,} images and their tables"
    )
    yield from _images_elsewhere(image_set)
    for system in study.scores:
        for path in (value for _, value in system if isinstance(value, Path)):
            yield FileRead("score system's file", str(path), "here" if path.exists() else "not here")
    for file in dict.fromkeys(file for stage in stages for file in stage.weights()):
        yield _weights(file, locator)
    if order.use_cache:
        folder = order.cache_dir or default_cache_folder()
        yield FileRead("stage results", str(folder), "read and written" if folder.is_dir() else "written")


def _images_elsewhere(image_set: ImageSet) -> Iterator[FileRead]:
    paths = image_set.table("images").data.column("path").cast(pa.string())
    places = pc.struct_field(pc.extract_regex(paths.combine_chunks(), pattern=_PLACE), "place")
    for found in pc.value_counts(places.drop_null()).to_pylist():
        state = f"{found['counts']:,} images, asked for with what this machine has for that place"
        yield FileRead("images", found["values"], state)


def _weights(file: Weights, locator: WeightsLocator) -> FileRead:
    what = "checkpoint" if isinstance(file, Checkpoint) else "weights"
    found = locator.find(file)
    pinned = "pinned by sha256" if file.sha256 else "not pinned"
    if found is not None:
        return FileRead(what, str(found), pinned)
    if not locator.downloadable(file):
        return FileRead(what, file.path, f"not here, {pinned}")
    if isinstance(file, Checkpoint):
        source = f"the Hugging Face hub, {file.name}"
    else:
        file = described(file)
        source = str(file.origin)
    size = "" if file.download_bytes is None else f", about {file.download_bytes / 1e6:,.0f} MB"
    return FileRead(what, file.path, f"to be downloaded from {source}{size}, {pinned}", downloads=True)


def _sends(
    stages: Sequence[Stage],
    detectors: Sequence[Detector],
    left: _Left,
    spent: Mapping[str, Any],
    locator: WeightsLocator,
) -> Iterator[ImagesSent]:
    for stage in stages:
        sent = stage.sends()
        if sent is None:
            continue
        users = {number for number, each in enumerate(detectors) if stage in with_inputs(each.stages)}
        own = fingerprint(stage, weights=locator)
        label = f"{stage.kind}-{own[:8]}"
        kept, results = left.kept(own, users)
        images = sum(count for numbers, count in left.images.items() if users & {*numbers}) - kept
        seen = _mapping(stage.spending(results) if results else spent.get(label))
        yield ImagesSent(
            stage=label,
            detectors=tuple(detectors[number].name for number in sorted(users)),
            host=str(Origin.of(sent.address)),
            images=images,
            kept=kept,
            form=sent.form,
            keys=tuple((variable, _key_state(variable, sent)) for variable in sent.variables),
            refusals=refusals(sent),
            cost=_cost(stage, images, seen),
        )


def _key_state(variable: str, sent: Sending) -> str:
    if unset(variable):
        return "not set"
    alone = sent._replace(variables=(variable,))
    return "may not be sent there" if any(variable in line for line in refusals(alone)) else "may be sent there"


def _cost(stage: Stage, images: int, spent: Mapping[str, Any]) -> str:
    """The most that answers about so many images may cost, in words, with what it rests on."""
    prices = prices_of(stage)
    if isinstance(prices, CallPrice):
        return f"at most {images * prices.call:,.2f} {prices.currency}: {prices.call:g} for every answer"
    if not isinstance(prices, TokenPrices) or not isinstance(stage, ChatAnswers):
        return "not known: the study gives no prices"
    most = stage.most_answer_tokens
    if most is None:
        return "not known: the study sets no limit to an answer (max_tokens)"
    answers = float(spent.get("answers", 0)) - float(spent.get("untold", 0))
    if answers > 0:
        asked, origin = (
            float(spent.get("prompt_tokens", 0)) / answers,
            f"the mean of {answers:,.0f} answers so far",
        )
    elif stage.longest_side is not None:
        asked = float(stage.most_prompt_tokens((stage.longest_side, stage.longest_side)))
        origin = "a bound, as none has been counted yet"
    else:
        return "not known: images are sent as they are (longest_side), and none has been counted yet"
    cost = images * prices.of_tokens(ceil(asked), most)
    return (
        f"about {cost:,.2f} {prices.currency} at most: {asked:,.0f} tokens for question and image, {origin}, and "
        f"{most:,} for the answer"
    )


def _runs(stages: Sequence[Stage], locator: WeightsLocator) -> Iterator[CodeRun]:
    for plugin in plugin_files():
        yield CodeRun("plugin", plugin.file, f"sha256 {plugin.sha256}", "by --plugin")
    for stage in stages:
        code = stage.foreign_code(locator)
        if code is None:
            continue
        yield CodeRun(code.kind, code.name, code.content, code.allowed)
    points = [point for group in _GROUPS for point in entry_points(group=f"detector_bench.{group}")]
    packages = {point.dist.name: point.dist.version for point in points if point.dist is not None}
    for name, version in packages.items():
        yield CodeRun("package with entry points", name, version, "by being installed")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
