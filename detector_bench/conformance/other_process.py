"""The same detector in a process of its own: with other hashes of text, and everything loaded anew."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from detector_bench.conformance.comparison import Observation, Session
from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import decode_image
from detector_bench.dataset.image_sources import read_image
from detector_bench.detectors.base import Detector, DetectorType, Prediction, build_detector
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.stage import Batch, Stage, with_inputs
from detector_bench.plugins import PLUGIN_PREFIX, load_plugins
from detector_bench.trust import granted_as_text, take_over
from detector_bench.vocabulary import ATTRIBUTES, write_attributes
from detector_bench.weights import WeightsLocator

_ATTRIBUTE = ATTRIBUTES.built_in[0]


class StageReader:
    """Gives the same verdict on every image: what counts is the stage's result."""

    def predict(self, batch: Batch) -> list[Prediction]:
        """Judge a batch: every image is filtered as `not_judged`; see `Predicts.predict`."""
        return [Prediction.filtered(image, _ATTRIBUTE, "not_judged") for image in batch]


_TYPE = DetectorType(name="stage_reader", factory=StageReader, attributes=(_ATTRIBUTE,))


def reader_of(stage: Stage) -> Detector:
    """The detector that reads a stage."""
    return Detector(
        name="stage_reader",
        kind=_TYPE,
        attributes=_TYPE.attributes,
        stages=(stage,),
        parameters={},
        implementation=StageReader(),
    )


_SEED_VARIABLE = "PYTHONHASHSEED"


class _Homes(NamedTuple):
    """Where the classes come from; they must be there before anything that is made of them is read."""

    search_path: list[str]
    plugin_files: list[Path]
    modules: list[str]
    allowed: str


class _Request(NamedTuple):
    """What is to be judged by what: a stage, or a detector by its kind, name and parameters."""

    image_set: Path
    weights: WeightsLocator
    stage: Stage | None
    detector: tuple[str, str, dict[str, Any]]


def observe_in_another_process(
    detector: Detector, image_set: ImageSet, folder: Path, *, weights: WeightsLocator
) -> Observation:
    """Build the detector anew in another process, judge all images in one batch, and bring back what came out.

    Raises:
        ConfigError: the detector stands in no file that could be loaded, or has parameters that cannot be sent.
        DetectorBenchError: the process failed; the message is the last line that it said.
    """
    folder.mkdir(parents=True)
    stage = detector.stages[0] if detector.kind.factory is StageReader else None
    own = [name for name in detector.attributes if name not in ATTRIBUTES.built_in]
    write_attributes((ATTRIBUTES[name] for name in own), image_set.root)
    described = (detector.kind.name, detector.name, _parameters(detector))
    request = _Request(image_set.root, replace(weights, progress=None), stage, described)
    try:
        (folder / "homes").write_bytes(pickle.dumps(_homes(detector)))
        (folder / "request").write_bytes(pickle.dumps(request))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(f"it cannot be sent there: {error}") from error
    seed = "1" if os.environ.get(_SEED_VARIABLE) != "1" else "2"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", "detector_bench.conformance.other_process", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, _SEED_VARIABLE: seed},
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise DetectorBenchError(said[-1])
    found: Observation = _read(folder / "answer")
    return found


def _homes(detector: Detector) -> _Homes:
    kinds = [each.kind.factory for each in (detector, *detector.parts.values())]
    classes = [*(type(stage) for stage in with_inputs(detector.stages)), *kinds]
    names = sorted({each.__module__ for each in classes})
    if "__main__" in names:
        raise ConfigError("what is defined in a notebook or a script cannot be loaded there: put it into a module")
    plugins = [name for name in names if name.startswith(PLUGIN_PREFIX)]
    files = [Path(str(sys.modules[name].__file__)).resolve() for name in plugins]
    modules = [name for name in names if name not in plugins]
    return _Homes(list(sys.path), files, modules, granted_as_text())


def _parameters(detector: Detector) -> dict[str, Any]:
    parameters = dict(detector.parameters)
    if not isinstance(detector.implementation, BaseModel):
        # Bound to the constructor's signature, its `**` is one of them.
        for name, each in inspect.signature(detector.kind.factory).parameters.items():
            if each.kind is each.VAR_KEYWORD:
                parameters.update(parameters.pop(name, {}))
    return parameters


def _answer(folder: Path) -> None:
    """What the other process does."""
    homes: _Homes = _read(folder / "homes")
    sys.path[:] = homes.search_path
    take_over(homes.allowed)
    load_plugins(homes.plugin_files)
    for name in homes.modules:
        import_module(name)
    request: _Request = _read(folder / "request")
    image_set = ImageSet.load(request.image_set, require_labels=False)
    if request.stage is not None:
        detector = reader_of(request.stage)
    else:
        kind, name, parameters = request.detector
        detector = build_detector(kind, name=name, parameters=parameters)
    rows = image_set.images[["image_id", "path"]].itertuples(index=False)
    images = {image_id: decode_image(read_image(image_set.image_place(path))) for image_id, path in rows}
    with Session(detector, weights=request.weights) as session:
        (folder / "answer").write_bytes(pickle.dumps(session.observe(images, [list(images)])))


def _read(path: Path) -> Any:
    return pickle.loads(path.read_bytes())  # noqa: S301 - written a moment ago, by this module


if __name__ == "__main__":
    # Not as `__main__`, whose classes are other ones than those that are sent.
    import_module("detector_bench.conformance.other_process")._answer(Path(sys.argv[1]))
