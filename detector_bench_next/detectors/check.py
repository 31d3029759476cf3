"""Kit for detectors: files to begin a new one with, every step on an image, and the check of one.

The check asks a detector about the same images in every way that a run may take, and expects the same predictions
and numbers. It shows it odd pictures, measures speed, compares with expected outputs, and counts accuracy by hand.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from statistics import median
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detector_bench_next import detector as contract
from detector_bench_next import registry
from detector_bench_next.attributes import Status, built_in
from detector_bench_next.cache import StageCache
from detector_bench_next.dataset import ImageSet
from detector_bench_next.detector import Detector, Failure, Frame, Pixels, Prediction, Stage, Stages
from detector_bench_next.detectors.boxes import Crop
from detector_bench_next.detectors.listing import as_yaml, entry_of, stages_of
from detector_bench_next.errors import ConfigError, DetectorBenchError, ImageError, config_error
from detector_bench_next.files import read_yaml, write_text
from detector_bench_next.images import IMAGE_SUFFIXES, decode
from detector_bench_next.quickstart import build_image_set
from detector_bench_next.weights import Where

Images = Path | Sequence[Path] | ImageSet | None
"""A folder of images or an image set, files, a loaded image set; None: seven pictures of the quickstart."""
Row = tuple[str, str, str]
_PICTURES = (
    "large_smiling_3 large_smiling_5 large_serious_1 large_glasses_5 large_hat_3 large_serious_4 small_smiling_2"
)
_TOLERANCE = 1e-4  # of the larger of 1 and the number: float32 adds up in another order in another batch
_ALL_WAYS, _LABELLED, _EXPECTED = 12, 200, 100  # images at most


# New files


def new(name: str, *, stage: bool = False, out: Path | None = None) -> list[Path]:
    """Write a plugin that runs as it is to `out` (by default NAME.py), and its test beside it, over nothing.

    Raises:
        ConfigError: the name cannot be one or is taken, or a file is there already or would hide a module.
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name):
        raise ConfigError(f"{name!r} is no name for a detector; accepted: a letter, then letters, digits, - and _")
    if name in registry.names("detector"):
        raise ConfigError(f"there is a detector {name!r} already: give yours a name of its own")
    words = [word for word in re.split("[-_]+", name) if word]
    file = out or Path(f"{'_'.join(words).lower()}.py")
    if file.stem in sys.stdlib_module_names or file.stem in packages_distributions():
        raise ConfigError(f"{file.name} would be imported in the place of the module {file.stem!r}: give --out")
    values = {"name": name, "file": file.name, "outputs": f"{'_'.join(words).lower()}_outputs"}
    values["Class"] = "".join(word[0].upper() + word[1:] for word in words)
    files = {file: "stage" if stage else "detector", file.with_name(f"test_{file.name}"): "test"}
    if there := next((path for path in files if path.exists()), None):
        raise ConfigError(f"{there} is there already: name another file by --out")
    for path, template in files.items():
        text = Path(__file__).with_name("templates").joinpath(f"{template}.py.txt").read_text(encoding="utf-8")
        write_text(path, Template(text).substitute(values))
    return list(files)


# Every step on an image


@dataclass(frozen=True)
class Trial:
    """A detector on some images, step by step.

    Attributes:
        rows: image, step (a stage, a filter, an attribute), milliseconds, result in words.
        files: drawings of the images that could be read.
    """

    rows: pd.DataFrame
    files: tuple[Path, ...]

    def text(self) -> str:
        """A paragraph for each image."""
        lines, width = [], self.rows["step"].str.len().max()
        for image, rows in self.rows.groupby("image", sort=False):
            lines.append(str(image))
            for step, spent, result in rows[["step", "milliseconds", "result"]].itertuples(index=False):
                lines.append(f"  {step:<{width}} {spent:8.1f} ms  {result}")
        return "\n".join([*lines, *(f"drawn: {file}" for file in self.files)])


def detector(kind: str, **fields: Any) -> Detector:
    """A detector by its kind and the fields that a study would give it.

    Raises:
        ConfigError: with the field and what is accepted.
    """
    built: Detector = contract.build("detector", {"name": kind, **fields, "kind": kind})
    return built


def predict(
    detector: Detector, images: Sequence[Path | str | Pixels], *, where: Where | None = None
) -> list[Prediction]:
    """Predictions for image files or RGB pixels [height, width, 3]: for each image one for each attribute.

    An image's id is its path, or its position among pixels.
    """
    frames = [
        _frame(str(own), Path(own).read_bytes) if isinstance(own, Path | str) else Frame(str(at), pixels=own)
        for at, own in enumerate(images)
    ]
    return Stages([detector], where or Where()).predict(frames)


def try_detector(
    detector: Detector, images: Sequence[Path], out: Path | None = None, *, where: Where | None = None
) -> Trial:
    """Run a detector on image files and show every step: boxes, numbers, filters, predictions, milliseconds.

    In the folder `out` it draws each image with its boxes and what the networks saw.
    """
    stages, files = stages_of(detector), []
    rows: list[tuple[str, str, float, str]] = []
    functions = {stage: stage.load(where or Where()) for stage in stages}
    for path in images:
        frame, ready = _frame(path.name, path.read_bytes), time.perf_counter()
        for step, result in _steps(detector, frame, stages, functions):
            rows.append((path.name, step, 1000 * (time.perf_counter() - ready), result))
            ready = time.perf_counter()
        if out is not None and frame.error is None:
            out.mkdir(parents=True, exist_ok=True)
            files.append(out / f"{path.stem}_{detector.name}.png")
            _drawing(frame, stages).save(files[-1])
    return Trial(pd.DataFrame(rows, columns=["image", "step", "milliseconds", "result"]), tuple(files))


def _steps(detector: Detector, frame: Frame, stages: Any, functions: Any) -> Iterator[tuple[str, str]]:
    for stage in stages if frame.error is None else ():
        contract.compute([frame], [stage], functions)
        yield stage.kind, _in_short(frame.results[stage], _seen(stage, frame))
    for own in getattr(detector, "filters", ()):
        if all(isinstance(frame.results.get(stage), dict) for stage in own.stages()):
            yield f"filter {own.kind}", own.reason(frame) or "keeps it"
    for row in contract.ask(detector, [frame]):
        yield row.attribute, said(row)


def said(row: Prediction) -> str:
    """A prediction in words: `male (0.93)`, `young (27.1)`, `filtered: no_face`, `error: ...`."""
    if row.status is not Status.CLEAR:
        return f"{row.status.value}: {row.reason}"
    facts = [f"{number:.3g}" for number in (row.score, row.value) if number is not None]
    return f"{row.label} ({', '.join(facts)})" if facts else str(row.label)


def _in_short(found: Any, seen: Sequence[Pixels] = ()) -> str:
    if isinstance(found, Failure):
        return f"failed: {found.reason}"
    if "corners" in found:
        sides = found["corners"][:, 2:] - found["corners"][:, :2]
        told = [f"{w:.0f} x {h:.0f} ({s:.3g})" for (w, h), s in zip(sides, found["scores"], strict=True)]
        return f"{len(told)} boxes: {', '.join(told[:4])}" if told else "no box"
    told = [f"sees {own.shape[1]} x {own.shape[0]}" for own in seen]
    for name, array in found.items():
        few = array.size <= 12
        told.append(f"{name} " + (", ".join(f"{v:.4g}" for v in array.flat) if few else f"{array.shape}"))
    return "; ".join(told) or "nothing: there was no crop"


def _seen(stage: Stage, frame: Frame) -> list[Pixels]:
    """What a stage shows its network of an image: views of its crop, an aligned face."""
    found, crop = frame.results[stage], getattr(stage, "crop", None)
    views = crop.seen(frame) if isinstance(crop, Crop) and not isinstance(found, Failure) else ()
    return [*views, *([found["chip"]] if isinstance(found, dict) and "chip" in found else [])]


def _drawing(frame: Frame, stages: Sequence[Stage]) -> Image.Image:
    """The image with boxes, a colour for each stage; beside it what networks saw, below it all results."""
    factor = max(1.0, 480 / max(frame.pixels.shape[:2]))
    height, width = (max(1, round(side * factor)) for side in frame.pixels.shape[:2])
    seen = [Image.fromarray(own).resize((200, 200)) for stage in stages for own in _seen(stage, frame)]
    sheet = Image.new("RGB", (width + 208 * bool(seen), max(height + 16 * len(stages), 208 * len(seen))), "white")
    sheet.paste(Image.fromarray(frame.pixels).resize((width, height)))
    draw, colours = ImageDraw.Draw(sheet), ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
    for number, stage in enumerate(stages):
        found, colour = frame.results[stage], colours[number % len(colours)]
        for corners in found["corners"] * factor if isinstance(found, dict) and "corners" in found else ():
            draw.rectangle([float(edge) for edge in corners], outline=colour, width=3)
        draw.text((4, height + 2 + 16 * number), f"{stage.kind}: {_in_short(found)[:90]}", fill=colour)
    for number, own in enumerate(seen):
        sheet.paste(own, (width + 8, 208 * number))
    return sheet


# The check


@dataclass(frozen=True)
class Check:
    """Outcomes of the check of a detector.

    Attributes:
        detector: its name.
        rows: check, outcome (passed, told, failed), says. What is `told` fails nothing.
    """

    detector: str
    rows: pd.DataFrame

    @property
    def passed(self) -> bool:
        """Nothing failed."""
        return not (self.rows["outcome"] == "failed").any()

    def text(self) -> str:
        """A line for each check, then the count of outcomes."""
        outcomes = self.rows["outcome"].tolist()
        counts = ", ".join(f"{outcomes.count(name)} {name}" for name in ("passed", "told", "failed"))
        lines = [f"{outcome:<7} {check}: {says}" for check, outcome, says in self.rows.itertuples(index=False)]
        return "\n".join([*lines, f"{self.detector}: {counts}"])


class ExpectedImage(BaseModel):
    """An image by its content, and by attribute what is expected; what is left out is not compared.

    Keys: status (default clear), label, reason, score, value; numbers, those in `raw`, by keys with dots between.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    file: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    expected: dict[str, dict[str, str | float | dict[str, float]]]


class Expectation(BaseModel):
    """Outputs that are expected of a detector; `parameters` go before its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    detector: str
    parameters: dict[str, Any] = {}
    source: str = ""
    licence: str = ""
    images_from: str = ""
    tolerance: float = Field(default=_TOLERANCE, ge=0)
    images: tuple[ExpectedImage, ...] = Field(min_length=1, max_length=_EXPECTED)


def check_detector(
    detector: Detector,
    images: Images = None,
    expect: Path | None = None,
    *,
    write: Path | None = None,
    where: Where | None = None,
) -> Check:
    """Check that a detector's predictions do not depend on how it is asked, and that they are the expected ones.

    Args:
        detector: built.
        images: such as it is meant for. Twelve go all ways; accuracy is counted on at most 200 labelled ones.
        expect: file of expected outputs; their images are found among `images` by content.
        write: file for the predictions on all images, at most 100, as expected outputs.
        where: places of weights.

    Raises:
        ConfigError: the detector cannot run here, there is no image, or an expected one is not among them.
    """
    where = where or Where()
    if lacks := detector.lacks(where):
        raise ConfigError("\n".join(f"detector {detector.name!r}: {line}" for line in lacks))
    with TemporaryDirectory(prefix="detector_bench_") as name:
        sources = _sources(images, Path(name))
        frames = [_frame(*source) for source in sources[:: -(-len(sources) // _ALL_WAYS)]]
        asked = _Asked(detector, where)
        rows = list(_ways(asked, frames, Path(name)))
        if detector.sends() is None:
            rows += [_speed(asked, frames), *_odd(asked, frames)]
        if isinstance(images, ImageSet):
            rows += _accuracy(asked, images, {source[0]: source for source in sources})
        if expect:
            rows.append(_expected(detector, sources, expect, where))
        if write:
            write_text(write, as_yaml(_written(asked, sources)) + "\n")
    return Check(detector.name, pd.DataFrame(rows, columns=["check", "outcome", "says"]))


Source = tuple[str, Callable[[], bytes], str]


def _sources(images: Images, folder: Path) -> list[Source]:
    """Name, content and region of each image."""
    if isinstance(images, ImageSet):
        table = images.images.reindex(columns=["image_id", "path", "region"], fill_value="").astype(str)
        return [(i, partial(images.store.read, p), r) for i, p, r in table.itertuples(index=False) if p]
    if images is None:
        made = build_image_set(folder / "quickstart") / "images"
        images = [made / f"{name}.png" for name in _PICTURES.split()]
    elif isinstance(images, Path):
        images = sorted(path for path in images.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    if not images:
        raise ConfigError("--images: there is no image; accepted: a folder of images, or an image set")
    return [(path.name, path.read_bytes, "") for path in images]


def _frame(name: str, read: Callable[[], bytes], region: str = "") -> Frame:
    frame = Frame(name)
    try:
        data = read()
        frame.sha256, frame.pixels = sha256(data).hexdigest(), decode(data, region)
        frame.pixels.flags.writeable = False  # other stages see them, too
    except (ImageError, OSError) as error:
        frame.error = str(error) if isinstance(error, ImageError) else f"unreadable: {error.strerror}"
    return frame


Found = dict[tuple[str, str], Prediction]
"""Predictions by image and attribute."""


class _Asked:
    """A detector whose stages are loaded once, and asked as often as wanted."""

    def __init__(self, detector: Detector, where: Where, cache: StageCache | None = None) -> None:
        self.detector, self.where, self.stages = detector, where, Stages([detector], where, cache)

    def __call__(self, *batches: Sequence[Frame]) -> Found:
        found: Found = {}
        for batch in batches:
            fresh = [Frame(own.image_id, pixels=own.pixels, sha256=own.sha256) for own in batch]
            for frame, own in zip(fresh, batch, strict=True):
                frame.error = own.error
            found |= {(row.image_id, row.attribute): row for row in self.stages.predict(fresh)}
        return found

    def one(self, pixels: Pixels) -> dict[str, Prediction]:
        """Predictions for pixels, by attribute."""
        found = self([Frame("picture", pixels=np.ascontiguousarray(pixels))])
        return {attribute: row for (_, attribute), row in found.items()}


def _said(row: Prediction) -> dict[str, Any]:
    """All that a prediction says: texts, numbers, and those in a `raw` that is JSON, by keys with dots between."""
    names = ("label", "reason", "score", "value")
    facts = {
        "status": row.status.value,
        **{name: own for name in names if (own := getattr(row, name)) is not None},
    }
    with suppress(ValueError):
        facts |= {"numbers": numbers} if (numbers := dict(_leaves(json.loads(row.raw or "{}")))) else {}
    return facts


def _leaves(raw: Any, path: str = "") -> Iterator[tuple[str, float]]:
    for name, value in raw.items() if isinstance(raw, dict) else ():
        yield from _leaves(value, f"{path}{name}.")
    if isinstance(raw, float | int):
        yield path.removesuffix("."), float(raw)


def _differences(wanted: Any, given: Any, tolerance: float = _TOLERANCE) -> list[str]:
    """What is given otherwise than wanted; what is not wanted is not compared."""
    found = []
    for name, value in wanted.items():
        own = given.get(name)
        if isinstance(value, dict):
            found += _differences(value, own or {}, tolerance)
        elif isinstance(value, float) and isinstance(own, float):
            if not math.isclose(value, own, rel_tol=0, abs_tol=tolerance * max(1.0, abs(value))):
                found.append(f"{name} {own:.6g}, expected {value:.6g}")
        elif own != value:
            found.append(f"{name} {own!r}, expected {value!r}")
    return found


def _row(check: str, problems: Sequence[str], says: str) -> Row:
    more = f"; and {len(problems) - 4} more" if len(problems) > 4 else ""
    return (check, "failed", "; ".join(problems[:4]) + more) if problems else (check, "passed", says)


def _ways(asked: _Asked, frames: list[Frame], folder: Path) -> Iterator[Row]:
    detector, where = asked.detector, asked.where
    reference = asked(*([frame] for frame in frames))
    rows = list(reference.values())
    problems = [f"{row.image_id}, {row.attribute}: {said(row)}" for row in rows if row.status is Status.ERROR]
    counts = ", ".join(f"{sum(row.status is status for row in rows)} {status.value}" for status in Status)
    yield _row("one by one", problems, f"{len(frames)} images: {counts}")

    def kept() -> Found:
        for _ in range(2):
            with closing(StageCache(folder / "cache")) as cache:
                found = _Asked(detector, where, cache)(frames)
        return found

    again = _Asked(detector, where)
    ways: dict[str, Callable[[], Found]] = {
        "in batches of 1, 2 and more": lambda: again(frames[:1], frames[1:3], frames[3:]),
        "in reverse, after them": lambda: again(frames[::-1]),
        "from kept stage results": kept,
        "in another process": lambda: _elsewhere(detector, frames, folder, where),
    }
    for way, observe in ways.items():
        try:
            found = observe()
        except DetectorBenchError as error:
            yield way, "failed", str(error)
            continue
        pairs = ((key, _differences(_said(row), _said(found[key]))) for key, row in reference.items())
        problems = [f"{', '.join(key)}: {text}" for key, texts in pairs for text in texts]
        yield _row(way, problems, "the same predictions")
    scores = [row.score for row in rows if row.status is Status.CLEAR and row.score is not None]
    if not any(row.status is Status.CLEAR for row in rows):
        yield "clear images", "told", "none: nothing was checked behind the filter; name others by --images"
    elif len(scores) > 4 and min(scores) > 0.99:
        yield "scores", "told", f"all {len(scores)} are above 0.99: is the pixel scale right?"


def _elsewhere(detector: Detector, frames: list[Frame], folder: Path, where: Where) -> Found:
    """Predictions by the detector built anew in another process, where texts have other hashes."""
    modules = sorted({type(own).__module__ for own in (detector, *stages_of(detector))})
    plugins = [plugin.path for plugin in registry.plugins()]
    known = {name: detector.attribute_of(name) for name in detector.attributes}
    images = [(frame.image_id, frame.pixels) for frame in frames]
    with (folder / "request").open("wb") as file:
        pickle.dump(sys.path, file)
        pickle.dump((plugins, modules, entry_of(detector), {**built_in(), **known}, where, images), file)
    program = "import pickle, sys; file = open(sys.argv[1] + '/request', 'rb'); sys.path[:] = pickle.load(file); "
    program += "from detector_bench_next.detectors.check import _answer; _answer(sys.argv[1], file)"
    seed = {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    line = [sys.executable, "-P", "-c", program, str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **seed}, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise DetectorBenchError(last.removeprefix("detector_bench_next.errors."))
    content, found = pickle.loads((folder / "answer").read_bytes())  # noqa: S301 - written by `_answer`
    if content != contract.fingerprint(detector, where):
        raise DetectorBenchError("it has another fingerprint there: is a field made of a set?")
    return dict(found)


def _answer(folder: str, file: Any) -> None:
    """The other process's part."""
    plugins, modules, entry, known, where, images = pickle.load(file)  # noqa: S301 - written by `_elsewhere`
    for plugin in plugins:
        registry.load_plugin(plugin)
    for module in modules:
        with suppress(ImportError):  # a plugin, or a notebook
            import_module(module)
    detector = contract.build("detector", entry, known)
    found = _Asked(detector, where)([Frame(image_id, pixels=pixels) for image_id, pixels in images])
    (Path(folder) / "answer").write_bytes(pickle.dumps((contract.fingerprint(detector, where), found)))


def _speed(asked: _Asked, frames: list[Frame]) -> Row:
    spent: list[float] = []
    for batch in (*([frame] for frame in frames), frames):
        began = time.perf_counter()
        asked(batch)
        spent.append(time.perf_counter() - began)
    says = f"{1000 * median(spent[:-1]):,.1f} ms alone, {len(frames) / spent[-1]:,.1f} images/s together"
    if sys.platform != "win32":  # Linux counts kilobytes, macOS bytes
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        says += f", {peak / 1e6:,.0f} MB at most"
    return "speed and memory", "told", says


def _odd(asked: _Asked, frames: list[Frame]) -> Iterator[Row]:
    """Pictures that detectors stumble over: swapped colours, odd sizes, nobody."""
    was, now = ([asked.one(own.pixels[..., ::order]) for own in frames] for order in (1, -1))

    def sure(found: Sequence[Mapping[str, Prediction]]) -> float:
        return sum(1 + (row.score or 0) for own in found for row in own.values() if row.status is Status.CLEAR)

    numbers = f"clear images and their scores add up to {sure(was):.3f}, swapped to {sure(now):.3f}"
    suspect = was == now or sure(now) > 1.01 * sure(was)
    told = "no difference, or surer then: does it read BGR where it gets RGB? " if suspect else ""
    yield "red and blue swapped", "told" if suspect else "passed", told + numbers
    clear = (at for at, own in enumerate(was) if any(row.status is Status.CLEAR for row in own.values()))
    subject = frames[next(clear, 0)].pixels  # one that is predicted shows more than one that is filtered
    noise = np.random.default_rng(1).integers(0, 256, (320, 320, 3), np.uint8)
    odd = {"one pixel": subject[:1, :1], "a blank picture": np.full_like(noise, 255), "noise": noise}
    for size in ((2000, 8), (8, 2000)):
        odd["{} x {} pixels".format(*size)] = np.asarray(Image.fromarray(subject).resize(size))
    odd["in grey"] = np.repeat(subject.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2)
    for name, pixels in odd.items():
        rows = asked.one(pixels).values()
        words = ", ".join(f"{row.attribute} {said(row)}" for row in rows)
        states, nobody = {row.status for row in rows}, name in ("a blank picture", "noise")
        outcome = "failed" if Status.ERROR in states else "told" if nobody and Status.CLEAR in states else "passed"
        yield name, outcome, f"predicted, though nobody is there: {words}" if outcome == "told" else words


def _accuracy(asked: _Asked, image_set: ImageSet, sources: Mapping[str, Source]) -> Iterator[Row]:
    """Share of labelled images whose class is predicted, among those that are clear, with Wilson's interval."""
    for attribute in (name for name in asked.detector.attributes if name in image_set.labelled):
        truth = image_set.truth(attribute).set_index("image_id")["label"]
        classes = asked.detector.attribute_of(attribute).class_names
        ids = [image_id for image_id in truth.index[truth.isin(classes)] if image_id in sources]
        frames = [_frame(*sources[image_id]) for image_id in ids[:: max(1, -(-len(ids) // _LABELLED))]]
        found = asked(*([frame] for frame in frames))
        clear = [row for row in found.values() if row.attribute == attribute and row.status is Status.CLEAR]
        if n := len(clear):
            right, z2 = sum(row.label == truth[row.image_id] for row in clear), 1.96**2
            half = 1.96 * math.sqrt(right * (n - right) / n + z2 / 4)
            low, high = ((right + z2 / 2 + side) / (n + z2) for side in (-half, half))
            swapped = ": worse than guessing; are its classes swapped?" if high < 1 / len(classes) else ""
            says = f"{right} of {n} right (95 % interval {low:.2f} to {high:.2f}), {len(frames) - n} not clear"
            yield f"accuracy, {attribute}", "told", says + swapped


def _expected(detector: Detector, sources: list[Source], path: Path, where: Where) -> Row:
    try:
        wanted = Expectation.model_validate(read_yaml(path))
    except ValidationError as error:
        raise config_error(error, str(path), Expectation) from None
    if wanted.detector != detector.kind:
        raise ConfigError(f"{path}: detector is {wanted.detector!r}, and {detector.kind!r} is checked")
    known = {**built_in(), **{name: detector.attribute_of(name) for name in detector.attributes}}
    asked = _Asked(contract.build("detector", {**entry_of(detector), **wanted.parameters}, known), where)
    by_content, problems = {sha256(source[1]()).hexdigest(): source for source in sources}, []
    for image in wanted.images:
        if image.sha256 not in by_content:
            raise ConfigError(f"{path}: {image.file} (sha256 {image.sha256[:12]}...) is not among --images")
        found = asked.one(_frame(*by_content[image.sha256]).pixels)
        for attribute, facts in image.expected.items():
            given = _said(found[attribute]) if attribute in found else {}
            texts = _differences({"status": "clear", **facts}, given, wanted.tolerance)
            problems += [f"{image.file}, {attribute}: {text}" for text in texts]
    says = f"those of {len(wanted.images)} images, numbers within {wanted.tolerance:g} of the larger of 1 and them"
    return _row("expected outputs", problems, says)


def _written(asked: _Asked, sources: list[Source]) -> dict[str, Any]:
    """The predictions on all images as expected outputs."""
    if len(sources) > _EXPECTED:
        raise ConfigError(f"--write: {len(sources)} images; accepted: at most {_EXPECTED}")
    images = []
    for frame in (_frame(*source) for source in sources):
        rows = asked.one(frame.pixels)
        if wrong := next((row for row in rows.values() if row.status is Status.ERROR), None):
            raise ConfigError(f"--write: {frame.image_id}: {wrong.reason}; no output can be expected")
        expected = {name: _said(row) for name, row in rows.items()}
        images.append({"file": frame.image_id, "sha256": frame.sha256, "expected": expected})
    told = {"detector": asked.detector.kind, "source": "an earlier run", "tolerance": _TOLERANCE}
    return {**told, "images": images}
