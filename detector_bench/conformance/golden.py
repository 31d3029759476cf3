"""Golden outputs: what a detector has to say of some images, by the program of its authors or by an earlier run.

They tell whether weights that were found are the ones that they seem to be, and whether they do here what they did
there. A golden file names images by their sha256 and holds no pictures.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import Field, ValidationError

from detector_bench.conformance.comparison import Pixels, Session
from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.dataset.image_folder import ImageFolder, LeavesFolderError
from detector_bench.dataset.image_tree import IMAGE_SUFFIXES
from detector_bench.declarations import Declaration, read_mapping
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import ConfigError, config_error_from
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import Sha256

MOST_IMAGES = 100
_DIGITS = 7

Number = Annotated[float, Field(allow_inf_nan=False)]


class GoldenVerdict(Declaration):
    """What is expected about one attribute of one image; what is left out is not compared."""

    status: Literal["clear", "filtered"] = "clear"
    label: str | None = None
    reason: str | None = None
    score: Number | None = None
    value: Number | None = None
    numbers: dict[str, Number] = Field(default_factory=dict)
    """Numbers in a `raw` that is JSON, by their keys with dots between: `probabilities.White`."""


class GoldenImage(Declaration):
    """One image and what is expected of it, by attribute."""

    file: str = Field(min_length=1, max_length=300)
    """Its name, without folders."""
    sha256: Sha256
    expected: dict[str, GoldenVerdict] = Field(min_length=1)


class GoldenOutputs(Declaration):
    """A golden file."""

    detector: str
    """The kind of detector that it is about."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Parameters that the detector gets for the check, in place of its own."""
    source: str
    """Whose program gave the numbers."""
    licence: str = "not stated"
    images_from: str = "not stated"
    """Where to get the images."""
    tolerance: float = Field(ge=0, allow_inf_nan=False)
    """How far a number may be off, as a share of the larger of 1 and the expected number."""
    images: tuple[GoldenImage, ...] = Field(min_length=1, max_length=MOST_IMAGES)

    @classmethod
    def read(cls, path: Path) -> GoldenOutputs:
        """Read a golden file.

        Raises:
            ConfigError: the file is missing or wrong.
        """
        content = read_mapping(path, keys="`detector`, `tolerance` and `images`")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise config_error_from(error, place=str(path), model=cls) from error

    def write(self, path: Path) -> None:
        """Write it as YAML.

        Raises:
            ConfigError: the system refuses.
        """
        content = self.model_dump(exclude_defaults=True)
        try:
            path.write_text(
                yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110), encoding="utf-8"
            )
        except OSError as error:
            raise ConfigError(f"cannot write {str(path)!r}: {error}") from error


class GoldenCheck(NamedTuple):
    """How far a detector is from its golden outputs.

    Attributes:
        images: how many were judged.
        numbers: how many numbers were compared.
        largest: the largest distance of a number, as a share of the larger of 1 and the expected one.
        where: that number, in words; empty without numbers.
        others: what else differs, a line each: verdicts, labels, reasons, numbers that are not there.
        tolerance: what was accepted.
    """

    images: int
    numbers: int
    largest: float
    where: str
    others: tuple[str, ...]
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether nothing differs by more than accepted."""
        return not self.others and self.largest <= self.tolerance


def check_golden(
    detector: Detector, golden: GoldenOutputs, folder: Path, *, weights: WeightsLocator
) -> GoldenCheck:
    """Judge the golden images and compare.

    Args:
        detector: with the golden file's parameters.
        golden: what is expected.
        folder: where the images lie, in it or below it.
        weights: where weights are found.

    Raises:
        ConfigError: an image is not there, is another one, or cannot be read.
    """
    pictures = {image.file: _golden_picture(image, folder, golden) for image in golden.images}
    found = _judged(detector, pictures, weights)
    distances: list[tuple[float, str]] = []
    others: list[str] = []
    for image in golden.images:
        for attribute, wanted in image.expected.items():
            place = f"{image.file}, {attribute}"
            given = found.get((image.file, attribute))
            if given is None:
                others.append(f"{place}: no verdict, expected {wanted.label or wanted.status}")
                continue
            if (other := _other_verdict(wanted, given)) is not None:
                others.append(f"{place}: {other}")
            for name, expected, number in _pairs(wanted, given):
                if number is None:
                    others.append(f"{place}: no {name}, expected {expected:g}")
                else:
                    distance = abs(number - expected) / max(1.0, abs(expected))
                    distances.append((distance, f"{place}, {name}: {number:.6g}, expected {expected:.6g}"))
    worst = max(distances, default=(0.0, ""), key=lambda each: math.inf if math.isnan(each[0]) else each[0])
    return GoldenCheck(len(pictures), len(distances), worst[0], worst[1], tuple(others), golden.tolerance)


def golden_of(detector: Detector, folder: Path, *, tolerance: float, weights: WeightsLocator) -> GoldenOutputs:
    """What a detector says of all images in a folder, at most 100, as golden outputs.

    Raises:
        ConfigError: no image, too many, two of one name, one that cannot be read, or one that the detector
            could not judge.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    names = [path.name for path in paths]
    if not 0 < len(paths) <= MOST_IMAGES or len(set(names)) < len(names):
        raise ConfigError(
            f"{str(folder)!r} holds {len(paths)} images with {len(set(names))} names (accepted: 1 to "
            f"{MOST_IMAGES}, each with a name of its own)"
        )
    contents = {path.name: _content(folder, path) for path in paths}
    pictures = {name: _decoded(folder / name, content) for name, content in contents.items()}
    verdicts: dict[str, dict[str, GoldenVerdict]] = {name: {} for name in names}
    for (name, attribute), given in _judged(detector, pictures, weights).items():
        if given.status is Status.ERROR:
            raise ConfigError(f"{name}, {attribute}: {given.reason}; an error is no golden output")
        verdicts[name][attribute] = GoldenVerdict(
            status="clear" if given.status is Status.CLEAR else "filtered",
            label=given.label,
            reason=given.reason,
            score=_rounded(given.score),
            value=_rounded(given.value),
            numbers={key: float(f"{number:.{_DIGITS}g}") for key, number in _numbers(given.raw).items()},
        )
    images = [
        GoldenImage(file=name, sha256=hashlib.sha256(contents[name]).hexdigest(), expected=verdicts[name])
        for name in names
    ]
    return GoldenOutputs(
        detector=detector.kind.name,
        source=f"detector {detector.name!r} as it ran here",
        images_from=folder.name,
        tolerance=tolerance,
        images=tuple(images),
    )


def _judged(
    detector: Detector, pictures: dict[str, Pixels], weights: WeightsLocator
) -> dict[tuple[str, str], Prediction]:
    with Session(detector, weights=weights) as session:
        return session.observe(pictures, [[name] for name in pictures]).predictions


def _golden_picture(image: GoldenImage, folder: Path, golden: GoldenOutputs) -> Pixels:
    places = sorted(path for path in folder.rglob("*") if path.name == image.file and path.is_file())
    if not places:
        raise ConfigError(f"image {image.file!r} is not in {str(folder)!r}; it comes from {golden.images_from}")
    for path in places:
        content = _content(folder, path)
        if hashlib.sha256(content).hexdigest() == image.sha256:
            return _decoded(path, content)
    raise ConfigError(
        f"image {str(places[0])!r} is another one than the golden file's: its sha256 is not {image.sha256}; it "
        f"comes from {golden.images_from}"
    )


def _content(folder: Path, path: Path) -> bytes:
    try:
        with ImageFolder(folder).open(path.relative_to(folder).as_posix()) as file:
            return file.read()
    except LeavesFolderError as error:
        raise ConfigError(f"{path}: {error}; it is read if --allow-root names where it leads") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error}") from error


def _decoded(path: Path, content: bytes) -> Pixels:
    try:
        return decode_image(content)
    except ImageError as error:
        raise ConfigError(f"{path}: {error}") from error


def _other_verdict(wanted: GoldenVerdict, given: Prediction) -> str | None:
    """What of a verdict is another one, apart from its numbers."""
    if given.status.value != wanted.status:
        return f"{given.status.value} ({given.label or given.reason}), expected {wanted.status}"
    for name in ("label", "reason"):
        expected, found = getattr(wanted, name), getattr(given, name)
        if expected is not None and found != expected:
            return f"{name} {found!r}, expected {expected!r}"
    return None


def _pairs(wanted: GoldenVerdict, given: Prediction) -> Iterator[tuple[str, float, float | None]]:
    """The expected numbers: name, number, and what was found in its place."""
    found: Mapping[str, float | None] = {**_numbers(given.raw), "score": given.score, "value": given.value}
    for name in ("score", "value"):
        expected = getattr(wanted, name)
        if expected is not None:
            yield name, expected, found[name]
    for name, expected in wanted.numbers.items():
        yield name, expected, found.get(name)


def _numbers(raw: str | None) -> dict[str, float]:
    try:
        return dict(_leaves(json.loads(raw or "null"), ()))
    except ValueError:
        return {}


def _leaves(value: Any, keys: Sequence[str]) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*keys, str(key)))
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and keys:
        yield ".".join(keys), float(value)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
