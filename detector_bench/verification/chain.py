"""Goes through all links of a result folder's proof, and puts what came of it into words that a paper can cite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from detector_bench import __version__
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.results.inputs import IMAGE_SET
from detector_bench.results.local_paths import LocalPaths, place_of
from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.results.manifest import STUDY_FILE, Manifest
from detector_bench.results.verification_record import Link, Outcome, Verification
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger
from detector_bench.runner.shards import Shard
from detector_bench.runner.stored_predictions import StoredPredictions
from detector_bench.sealed import DamagedRecordError, sealed_digest
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_proof import compare_with_study
from detector_bench.verification import evidence, files
from detector_bench.verification.numbers import numbers


@dataclass(frozen=True)
class VerificationOrder:
    """What is looked at besides the files of the result folder.

    Attributes:
        image_set: where the labelled images are; None: where the study says, and the images themselves are not
            read.
        weights_dir: where the weights are; None: they are not looked for.
        recompute: how many images are judged again.
        seed: which ones are drawn.
        report: a report outside the folder.
        cited: the seal that a paper names; None: none is known.
        all_numbers: also intervals and further tables of large studies are computed again.
    """

    image_set: Path | None = None
    weights_dir: Path | None = None
    recompute: int = 0
    seed: int = 0
    report: Path | None = None
    cited: str | None = None
    all_numbers: bool = False


Step = Callable[[str], None]

_SEAL = "results"
_SHOWN_DIGITS = 16


def verify_folder(folder: Path, order: VerificationOrder, *, step: Step | None = None) -> Verification:
    """Look at every link from image to page, and say what is proved.

    Args:
        folder: a result folder.
        order: what is there besides.
        step: is told what is looked at next.

    Raises:
        ConfigError: no result folder, or half of one; a damaged `results.json`.
        DetectorBenchError: a run was writing the folder meanwhile.
    """
    step = step or _say_nothing
    manifest = Manifest.read(folder)
    seal = sealed_digest(folder / RESULTS) or ""
    judged = place_of(folder, manifest.predictions, LocalPaths.read(folder).predictions)
    links = [_record(seal, order.cited)]
    step("files")
    links.append(files.files_of_results(folder, manifest))
    step("predictions")
    links.append(files.predictions(judged, manifest))
    links += _of_study(folder, judged, manifest, order, step)
    step("figures and report")
    links += [
        each
        for each in (
            files.figures(folder / "figures", seal),
            files.report(order.report or folder / "report", seal),
        )
        if each
    ]
    if any(each.outcome is Outcome.FALSE for each in links):
        _refuse_what_is_being_written(folder, judged, seal)
    date = datetime.now(UTC).date().isoformat()
    return Verification(
        study=manifest.study,
        results=seal,
        date=date,
        detector_bench=__version__,
        links=tuple(links),
        statement=statement(manifest, seal, links, date=date),
    )


def _refuse_what_is_being_written(folder: Path, judged: Path, seal: str) -> None:
    """A run that goes on is no contradiction.

    Raises:
        DetectorBenchError: the files were changing while they were compared.
    """
    try:
        now = sealed_digest(folder / RESULTS)
    except (OSError, DamagedRecordError):
        now = None
    ledger = ShardLedger(judged)
    running = False
    with suppress(DetectorBenchError):  # nobody writes into a folder that is read-only
        running = any(ledger.is_running(shard) for shard in Shard.all((ledger.layout() or ShardLayout()).shards))
    if running or now != seal:
        raise DetectorBenchError(f"{str(folder)!r} was written while it was verified: verify it after the run")


def _say_nothing(what: str) -> None:
    """Where nobody watches."""


def _record(seal: str, cited: str | None) -> Link:
    if cited is None:
        return files.link(_SEAL, Outcome.PROVED, f"{RESULTS} is sealed with {seal}")
    if cited.strip().lower() == seal:
        return files.link(_SEAL, Outcome.PROVED, f"{RESULTS} is the one that is cited, {seal}")
    return files.link(_SEAL, Outcome.FALSE, f"{RESULTS} is sealed with {seal}, cited is {cited}")


def _of_study(folder: Path, judged: Path, manifest: Manifest, order: VerificationOrder, step: Step) -> list[Link]:
    """The links that need the study, its image set and its weights."""
    try:
        study = StudyConfiguration.from_yaml(folder / STUDY_FILE, image_set=order.image_set)
        stored = StoredPredictions(judged)
        step("detectors")
        compared = compare_with_study(study, stored)
    except DetectorBenchError as error:
        return [files.link("detectors", Outcome.OPEN, "the study cannot be read here", str(error).splitlines())]
    names = [entry.name for entry in study.detectors]
    links = [evidence.detectors(compared.differences, compared.not_told, len(names))]
    image_set = _image_set(study, links)
    if image_set is not None:
        step("numbers")
        links += numbers(study, image_set, folder, judged, manifest, every=order.all_numbers)
    if order.image_set is None:
        says = "the images were not looked at (--images)"
        links.append(files.link("images", Outcome.OPEN, says))
    elif image_set is not None:
        step("images")
        links.append(evidence.images(image_set, stored, names))
    if order.weights_dir is None and not order.recompute:
        links.append(files.link("weights", Outcome.OPEN, "the weights were not looked at (--weights-dir)"))
        return links
    locator = study.locator(weights_dir=order.weights_dir, allow_download=False)
    try:
        step("weights")
        links.append(evidence.weights(study, manifest, locator))
        if order.recompute and image_set is not None:
            step(f"judging {order.recompute:,} images again")
            links.append(
                evidence.judged_again(
                    study, image_set, stored, locator, number=order.recompute, seed=order.seed, folder=folder
                )
            )
    except ConfigError as error:
        links.append(
            files.link("weights", Outcome.OPEN, "the detectors cannot be built here", str(error).splitlines())
        )
    return links


def _image_set(study: StudyConfiguration, links: list[Link]) -> ImageSet | None:
    try:
        return study.load_image_set()
    except DetectorBenchError as error:
        says = "the image set is not here, so no number was computed again"
        links.append(files.link("numbers", Outcome.OPEN, says, str(error).splitlines()[:1]))
        return None


def statement(manifest: Manifest, seal: str, links: list[Link], *, date: str) -> str:
    """What a paper can say of its results, and a reader can check with one command."""
    of = {outcome: [each for each in links if each.outcome is outcome] for outcome in Outcome}
    detectors = len(manifest.settings.detectors)
    judges = "1 detector" if detectors == 1 else f"{detectors} detectors"
    about = f"{int(manifest.image_set['images']):,} images, {judges}"
    image_set = manifest.proof.inputs.get(IMAGE_SET, "")[:_SHOWN_DIGITS]
    sentences = [
        f"The results of the study {manifest.study!r} ({about}; image set {image_set}; {RESULTS} sealed with "
        f"{seal}) were verified on {date} with detector_bench {__version__}."
    ]
    if proved := [each.says for each in of[Outcome.PROVED] if each.name != _SEAL]:
        sentences.append("Proved: " + "; ".join(proved) + ".")
    if of[Outcome.OPEN]:
        sentences.append("Not proved: " + "; ".join(each.says for each in of[Outcome.OPEN]) + ".")
    if of[Outcome.FALSE]:
        broken = "; ".join(f"{each.name}: {(each.problems or (each.says,))[0]}" for each in of[Outcome.FALSE])
        sentences.append(f"Contradicted, and to be mended before anybody cites this: {broken}.")
    if manifest.proof.differences:
        names = ", ".join(manifest.proof.differences)
        sentences.append(f"The numbers were made although the study does not fit the predictions of {names}.")
    return " ".join(sentences)
