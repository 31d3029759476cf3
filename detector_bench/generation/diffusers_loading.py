"""Opens a pipeline from its folder: whole, from `.safetensors` alone, without anybody's code, on its device."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.generation.diffusers_calls import EXTRA
from detector_bench.generation.diffusers_checkpoints import (
    SAFETY_CHECKER,
    PipelineCheckpoint,
    PipelineIndex,
    is_network,
)
from detector_bench.installation import require
from detector_bench.perception.transformers_checkpoints import require_whole, silenced

_LIBRARIES = ("diffusers", "transformers")
_UNSEEDED = {"DPMSolverSDEScheduler"}
_DENOISERS = ("transformer", "unet", "prior", "decoder")


@dataclass(frozen=True)
class Opening:
    """How a pipeline is opened.

    Attributes:
        pipeline: its class.
        precision: `float32`, `float16` or `bfloat16`.
        scheduler: the class of another one than the checkpoint's.
        scheduler_settings: of the scheduler, where they differ from the checkpoint's.
    """

    pipeline: Any
    precision: str
    scheduler: str | None = None
    scheduler_settings: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the progress bars of diffusers and transformers, and their reports; callers check for themselves."""
    log = require("diffusers.utils.logging", extra=EXTRA)
    transformers = require("transformers", extra=EXTRA)
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with silenced(transformers):
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def open_pipeline(folder: Path, checkpoint: PipelineCheckpoint, opening: Opening) -> Any:
    """A pipeline with all its weights, on the CPU.

    Raises:
        WeightsError: a part is missing, is not whole, is a pickle, or wants code of its own.
        ConfigError: the scheduler is not one that the pipeline can work with.
    """
    index = PipelineIndex.read(folder / "model_index.json")
    require_known_parts(index, folder)
    if getattr(opening.pipeline, "_load_connected_pipes", False) and (folder / "README.md").is_file():
        raise WeightsError(
            f"{opening.pipeline.__name__} puts several checkpoints together, those that the README.md in "
            f"{folder.name!r} names (accepted: a folder that holds all parts; take README.md out of it)"
        )
    with quietly():
        parts = {
            name: _network(folder / name, *names, checkpoint=checkpoint, precision=opening.precision)
            for name, names in index.parts.items()
            if name not in checkpoint.without and is_network(folder / name)
        }
        left_out = dict.fromkeys(checkpoint.without)
        if SAFETY_CHECKER in left_out:
            left_out["requires_safety_checker"] = False
        try:
            pipeline = opening.pipeline.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, **parts, **left_out
            )
        except Exception as error:  # diffusers raises many sorts
            raise WeightsError(_line(opening.pipeline.__name__, folder, error)) from error
    if opening.scheduler is not None or opening.scheduler_settings:
        pipeline.scheduler = scheduler_for(pipeline.scheduler, opening.scheduler, opening.scheduler_settings)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def require_known_parts(index: PipelineIndex, folder: Path) -> None:
    """Refuse parts that come from other libraries, which would run their code.

    Raises:
        WeightsError: a part of a library that is neither diffusers nor transformers.
    """
    pipelines = require("diffusers.pipelines", extra=EXTRA)
    for name, (library, kind) in index.parts.items():
        if library not in _LIBRARIES and not (library.isidentifier() and hasattr(pipelines, library)):
            raise WeightsError(
                f"{folder.name!r}: its part {name!r} is {library}.{kind}, code that the checkpoint brings along "
                f"or another library's, which is not run (accepted: {' and '.join(_LIBRARIES)})"
            )


def needed_parts(pipeline: Any) -> set[str]:
    """The parts without which a class cannot be."""
    expected, _ = pipeline._get_signature_keys(pipeline)
    return set(expected) - set(pipeline._optional_components)


def _class_of(library: str, kind: str) -> Any:
    if library in _LIBRARIES:
        return getattr(require(library, extra=EXTRA), kind, None)
    return getattr(require(f"diffusers.pipelines.{library}", extra=EXTRA), kind, None)


def _network(part: Path, library: str, kind: str, *, checkpoint: PipelineCheckpoint, precision: str) -> Any:
    torch = require("torch", extra=EXTRA)
    found: Any = _class_of(library, kind)
    if not (inspect.isclass(found) and issubclass(found, torch.nn.Module)):
        raise WeightsError(f"{part.parent.name!r}: {library} has no network {kind!r} (its part {part.name!r})")
    require_whole(part)
    of_transformers = issubclass(found, require("transformers", extra=EXTRA).PreTrainedModel)
    settings: dict[str, Any] = {"dtype" if of_transformers else "torch_dtype": getattr(torch, precision)}
    variant = checkpoint.variant
    if variant is not None and any(
        f".{variant}." in path.name or f".{variant}-" in path.name for path in part.iterdir()
    ):
        settings["variant"] = variant
    try:
        opened: Any = found
        network, told = opened.from_pretrained(
            part, local_files_only=True, use_safetensors=True, output_loading_info=True, **settings
        )
    except Exception as error:  # safetensors, diffusers and transformers raise many sorts
        raise WeightsError(_line(kind, part, error)) from error
    for key, problem in (("missing_keys", "it lacks"), ("mismatched_keys", "of another shape is")):
        if told.get(key):
            raise WeightsError(
                f"{part.parent.name!r}: its part {part.name!r} is no whole {kind}: {problem} "
                f"{sorted(map(str, told[key]))[0]!r}"
            )
    return network.eval()


def _line(what: str, folder: Path, error: Exception) -> str:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"diffusers cannot read {what} from {folder.name!r}: {first[:500]}"


def scheduler_for(present: Any, name: str | None, settings: Mapping[str, Any]) -> Any:
    """Another scheduler with the settings of the one that the checkpoint has.

    Raises:
        ConfigError: no scheduler of this name that goes with it, or a setting that it does not take.
    """
    cls = type(present) if name is None else scheduler_class(type(present), name)
    check_scheduler_settings(cls, settings)
    try:
        with quietly():
            return cls.from_config(present.config, **settings)
    except Exception as error:  # whatever its checks raise
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"scheduler {cls.__name__}: {line}") from error


def check_scheduler_settings(cls: Any, settings: Mapping[str, Any]) -> None:
    """Refuse settings that a scheduler's class does not take; it would drop them.

    Raises:
        ConfigError: there is one.
    """
    taken = scheduler_parameters(cls)
    for key in settings:
        if key not in taken:
            raise ConfigError(f"scheduler_settings: {cls.__name__} takes no {key!r}: {nearest_hint(key, taken)}")


def scheduler_parameters(cls: Any) -> set[str]:
    """The settings of a scheduler's class."""
    return set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs"}


def scheduler_class(present: Any, name: str) -> Any:
    """The class of a scheduler that can stand in the place of another class.

    Raises:
        ConfigError: there is none of this name, or it does not go with that one.
    """
    diffusers = require("diffusers", extra=EXTRA)
    names = [each for each in dir(diffusers) if each.endswith("Scheduler")]
    if name not in names:
        raise ConfigError(
            f"diffusers {diffusers.__version__} has no scheduler {name!r}: {nearest_hint(name, names)}"
        )
    if name in _UNSEEDED:
        raise ConfigError(
            f"scheduler {name} draws noise that no image's seed decides, so no image could be made again"
        )
    compatible = {each.__name__ for each in present._get_compatibles()} - _UNSEEDED
    cls = getattr(diffusers, name)
    # Those that remove noise along straight lines name nobody; others can do so where they take a setting for it.
    flows = compatible == {present.__name__} and (
        "FlowMatch" in name or "use_flow_sigmas" in scheduler_parameters(cls)
    )
    if name not in compatible and not flows:
        raise ConfigError(
            f"scheduler {name} does not go with this checkpoint's {present.__name__} (accepted: "
            f"{', '.join(sorted(compatible))})"
        )
    return cls


def stored_precision(folder: Path, parts: Mapping[str, tuple[str, str]], checkpoint: PipelineCheckpoint) -> str:
    """The number format that the denoising network is stored in; `float32` where it is none of the three."""
    part = denoiser_of(parts)
    counted = [name for name in checkpoint.counted_in(folder) if part and name.startswith(f"{part}/")]
    found = next((_first_format(folder / name) for name in counted if name.endswith(".safetensors")), None)
    return torch_format(str(found))


def torch_format(stored: str) -> str:
    """What PyTorch calls the number format of a `.safetensors` file; `float32` where it is none of the three."""
    return {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(stored, "float32")


def denoiser_of(parts: Mapping[str, tuple[str, str]]) -> str | None:
    """The part that takes out the noise."""
    return next((name for name in _DENOISERS if name in parts), None)


def _first_format(path: Path) -> str | None:
    for _name, facts in tensors_in(path):
        return str(facts.get("dtype"))
    return None


def tensors_in(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name, format and shape of the tensors of a `.safetensors` file, from its header alone.

    Raises:
        WeightsError: it is no such file.
    """
    import json

    most = 100_000_000
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length)) if length < most else None
    except (OSError, ValueError) as error:
        raise WeightsError(f"weights file {path.name!r} cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise WeightsError(f"weights file {path.name!r} is no .safetensors")
    yield from ((name, facts) for name, facts in header.items() if name != "__metadata__")
