"""T2I models on this machine: pipelines of diffusers, from the hub by a pinned commit or from a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.diffusers_calls import (
    EXTRA,
    CallForm,
    Wishes,
    class_for_task,
    edits_by_name,
    pipeline_class,
)
from detector_bench.generation.diffusers_checkpoints import (
    INDEX_FILE,
    SAFETY_CHECKER,
    PipelineCheckpoint,
    PipelineIndex,
)
from detector_bench.generation.diffusers_forecast import KnownCheckpoint
from detector_bench.generation.diffusers_hub import (
    bytes_lacking,
    closed_door,
    located,
)
from detector_bench.generation.diffusers_loading import (
    Opening,
    check_scheduler_settings,
    needed_parts,
    open_pipeline,
    scheduler_class,
    stored_precision,
)
from detector_bench.generation.diffusers_making import LoadedDiffusers, Masks
from detector_bench.generation.diffusers_prompts import PromptReaders, readers_in, readers_of
from detector_bench.generation.diffusers_sizes import (
    default_side,
    pixels_of_step,
    size_mistakes,
)
from detector_bench.generation.t2i_models import GenerationPlace, ModelRecord, T2IModel, t2i_model
from detector_bench.installation import is_installed, missing_message, require
from detector_bench.limited_text import check_path
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.perception.torch_settings import chosen_device, chosen_precision

_PACKAGES = ("diffusers", "torch", "transformers", "accelerate", "safetensors", "huggingface-hub")
_MODULES = ("diffusers", "torch", "transformers", "huggingface_hub")

_LONG = 10.0
"""Seconds of an image from which on a run without a GPU is told so."""

Plain = str | int | float | bool | None
"""A value that YAML can write."""


@t2i_model("diffusers")
class DiffusersModel(T2IModel):
    """A pipeline of diffusers, on this machine.

    What is None is left to the pipeline, and `generations.parquet` says what it came to. On a CPU an image does
    not depend on the batch it is made in; on a GPU the last bits of its numbers do.
    """

    summary = "a pipeline of diffusers on this machine: text to image, or edits of photos"
    extra = EXTRA

    model: str = Field(min_length=1)
    """`owner/name` on the Hugging Face hub, or a folder: absolute, or relative to the recipe."""
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """The commit on the hub. Without one, that of the main branch, which is written down beside the recipe."""
    variant: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_]+$")
    """Which of several sets of weights, such as `fp16`; parts that lack it are read without."""
    pipeline: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_]+$")
    """The pipeline's class in diffusers; None: the one that the checkpoint names, or its sister for `task`."""
    task: Literal["text-to-image", "image-to-image", "inpainting"] | None = None
    """What it is used for, where the pipeline does not say so by its name."""
    call: dict[str, Plain | list[Plain]] = Field(default_factory=dict)
    """Further parameters of the pipeline's call by their names in diffusers, such as `strength`."""
    scheduler_settings: dict[str, Plain | list[Plain]] = Field(default_factory=dict)
    """Settings of the scheduler where they differ from the checkpoint's, such as `use_karras_sigmas: true`."""
    safety_checker: Literal["keep", "off"] | None = None
    """`keep`: the checkpoint has to have one; `off`: it is left out; None: as the checkpoint has it."""
    mask: str | None = None
    """Of edits: an image that is white where photos are painted anew, or a folder with one for each photo."""
    images_at_once: int = Field(default=1, ge=1, le=1024, json_schema_extra=DESCRIPTIVE)
    """In one call; fewer are tried where memory does not suffice."""
    batch_on_cpu: bool = False
    """Compute images together on a CPU, too: the last bits of an image then depend on which others are made with
    it, and so may a few of its pixels."""
    offload: Literal["model", "sequential"] | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """Keep on the GPU only the part that computes (`model`) or its layer (`sequential`, slow)."""

    @field_validator("model", "mask")
    @classmethod
    def _is_a_path(cls, path: str | None) -> str | None:
        return None if path is None else check_path(path)

    @model_validator(mode="after")
    def _has_both_sides(self) -> DiffusersModel:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height belong together: give both, or neither")
        return self

    @property
    def edits(self) -> bool:
        """Whether it edits photos: as `task` says, or else the name of `pipeline`."""
        if self.task is not None:
            return self.task != "text-to-image"
        return self.pipeline is not None and edits_by_name(self.pipeline)

    @property
    def batch_size(self) -> int:
        """How many images are made in one call."""
        return self.images_at_once

    @property
    def checkpoint(self) -> PipelineCheckpoint:
        """Its weights, as they are searched and downloaded."""
        without = (SAFETY_CHECKER,) if self.safety_checker == "off" else ()
        return PipelineCheckpoint(path=self.model, revision=self.revision, variant=self.variant, without=without)

    @property
    def _wishes(self) -> Wishes:
        return Wishes(
            width=self.width,
            height=self.height,
            steps=self.steps,
            guidance=self.guidance,
            negative_prompt=self.negative_prompt,
            mask=self.mask is not None,
            edits=self.edits,
            call=self.call,
        )

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the declaration alone, or with it and a checkpoint that is given by a whole path."""
        if self.revision is not None and self.checkpoint.hub_name is None:
            yield f"revision: {self.model!r} is a folder, which has no commit (accepted: a name on the hub)"
        if not all(is_installed(module) for module in _MODULES):
            return
        path = Path(self.model).expanduser()
        if path.is_absolute() and (path / INDEX_FILE).is_file():
            yield from self._mistakes_with(path)
        elif self.pipeline is not None:
            yield from self._mistakes_with(None)

    def _mistakes_with(self, folder: Path | None) -> Iterator[str]:
        """What contradicts the pipeline's class and, where it is there, the checkpoint in a folder."""
        try:
            pipeline = self._class(folder)
            form = CallForm.of(pipeline)
            self._check_scheduler(folder)
        except DetectorBenchError as error:
            yield str(error)
            return
        yield from self._wishes.mistakes(form)
        if folder is None:
            return
        parts = PipelineIndex.read(folder / INDEX_FILE).parts
        if lacking := sorted(needed_parts(pipeline) - set(parts)):
            yield f"pipeline: {form.name} needs {', '.join(lacking)}, which {self.model!r} does not have"
        if self.safety_checker == "keep" and SAFETY_CHECKER not in parts:
            yield "safety_checker: the checkpoint has none to keep (accepted: leave the key out)"
        step = pixels_of_step(folder, form)
        yield from size_mistakes(self.width, self.height, step=step, name=self.model)

    def _class(self, folder: Path | None) -> Any:
        if self.pipeline is not None:
            return pipeline_class(self.pipeline)
        assert folder is not None  # noqa: S101 - without either there is no class
        return pipeline_class(class_for_task(PipelineIndex.read(folder / INDEX_FILE).pipeline, self.task))

    def _check_scheduler(self, folder: Path | None) -> None:
        found = None if folder is None else PipelineIndex.read(folder / INDEX_FILE).parts.get("scheduler")
        present = None if found is None else getattr(require("diffusers", extra=EXTRA), found[1], None)
        if present is None:
            return
        cls = present if self.scheduler is None else scheduler_class(present, self.scheduler)
        check_scheduler_settings(cls, self.scheduler_settings)

    def lacks(self, place: GenerationPlace) -> Iterator[str]:
        """Packages, weights that are not whole or may not be had, and what contradicts those that are here."""
        missing = next((module for module in _MODULES if not is_installed(module)), None)
        if missing is not None:
            yield missing_message(missing, extra=EXTRA)
            return
        if self.mask is not None and not self._mask_place(place).exists():
            yield f"mask: there is no file or folder {self.mask!r}"
        checkpoint = self.checkpoint
        try:
            folder = place.weights.find(checkpoint)
            if folder is None and not place.weights.downloadable(checkpoint):
                located(checkpoint, place.weights)
            if folder is not None:
                self._precision(folder, _device(place))
        except DetectorBenchError as error:
            yield str(error)
            return
        if folder is not None:
            yield from self._mistakes_with(folder)
        elif (line := closed_door(str(checkpoint.hub_name))) is not None:
            yield line
            return
        seconds = self.seconds_of_an_image(place) if _device(place) == "cpu" else None
        if seconds is not None and seconds > _LONG:
            yield line_about_time(seconds)

    def bytes_to_download(self, place: GenerationPlace) -> int | None:
        """Of what the pipeline reads and is not here; the hub is asked for sizes. None: it does not say."""
        if not is_installed("huggingface_hub"):
            return None
        return bytes_lacking(self.checkpoint, place.weights)

    def pixels_of_an_image(self, place: GenerationPlace) -> tuple[int, int] | None:
        """As the recipe says, or else the checkpoint's settings, here or on the hub. None: neither does, or the
        size is that of the photos that are edited."""
        if self.width is not None and self.height is not None:
            return self.width, self.height
        if self.edits or not all(is_installed(module) for module in _MODULES):
            return None
        with suppress(DetectorBenchError):
            side = default_side(KnownCheckpoint.of(self.checkpoint, place.weights).folder)
            return None if side is None else (side, side)
        return None

    def seconds_of_an_image(self, place: GenerationPlace) -> float | None:
        """About how long an image takes here, from the size of the network and what this machine computes in a
        moment; it may be half as long, or three times. None: neither this machine nor the hub has it."""
        if not all(is_installed(module) for module in _MODULES):
            return None
        with suppress(DetectorBenchError):
            known = KnownCheckpoint.of(self.checkpoint, place.weights)
            form = CallForm.of(self._class(known.folder))
            size = None if self.width is None or self.height is None else (self.width, self.height)
            return known.seconds_of_an_image(
                form, self._wishes.came_to(form), size=size, device=_device(place), precision=self.precision
            )
        return None

    def _precision(self, folder: Path, device: str) -> str:
        """What is computed with: unless the recipe says, on a CPU float32, elsewhere as it is stored."""
        if self.precision is not None:
            torch = require("torch", extra=EXTRA)
            chosen_precision(torch, self.precision, device=device.split(":", maxsplit=1)[0])  # type: ignore[arg-type]
            return self.precision
        if device == "cpu":
            return "float32"
        return stored_precision(folder, PipelineIndex.read(folder / INDEX_FILE).parts, self.checkpoint)

    def readers(self, place: GenerationPlace) -> PromptReaders | None:
        """What tells, without the networks, which prompts are cut; None: the checkpoint is not here yet.

        Raises:
            ConfigError, MissingExtraError, WeightsError: the checkpoint cannot be read.
        """
        folder = place.weights.find(self.checkpoint)
        if folder is None:
            return None
        longest = self._wishes.came_to(CallForm.of(self._class(folder))).get("max_sequence_length")
        return readers_in(
            folder,
            PipelineIndex.read(folder / INDEX_FILE).parts,
            max_sequence_length=None if longest is None else int(longest),
        )

    def prompts_cut(self, place: GenerationPlace, prompts: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Of those prompts whose end no text encoder reads, prompt and end; empty: the checkpoint is not here yet.

        Raises:
            ConfigError, MissingExtraError, WeightsError: the checkpoint cannot be read.
        """
        readers = self.readers(place)
        if readers is None:
            return
        for prompt in prompts:
            if (unread := readers.cut_of(prompt).unread) is not None:
                yield prompt, unread

    def _mask_place(self, place: GenerationPlace) -> Path:
        found = Path(str(self.mask)).expanduser()
        return found if found.is_absolute() or place.weights.beside is None else place.weights.beside / found

    def load(self, place: GenerationPlace) -> LoadedDiffusers:
        """Find or download the checkpoint, and open it on its device.

        Raises:
            ConfigError: the pipeline does not take what the recipe asks for; all of it is said.
            MissingExtraError: the extra `diffusers` is not installed.
            WeightsError: the checkpoint is not found, not whole, or may not be had.
        """
        torch = [require(module, extra=EXTRA) for module in _MODULES][_MODULES.index("torch")]
        checkpoint = self.checkpoint
        if place.weights.find(checkpoint) is None and place.weights.downloadable(checkpoint):
            place.report(f"{self.name}: downloads {self.model}")
        folder = located(checkpoint, place.weights)
        if mistakes := list(self._mistakes_with(folder)):
            raise ConfigError("\n".join(f"{self.name}: {line}" for line in mistakes))
        device = _device(place)
        if device == "cpu" and (seconds := self.seconds_of_an_image(place) or 0) > _LONG:
            place.report(f"{self.name}: {line_about_time(seconds)}")
        opening = Opening(
            pipeline=self._class(folder),
            precision=self._precision(folder, device),
            scheduler=self.scheduler,
            scheduler_settings=self.scheduler_settings,
        )
        pipeline = self._on_device(open_pipeline(folder, checkpoint, opening), device, place)
        record = ModelRecord(
            model=checkpoint.name,
            revision=folder.name if folder.parent.name == "snapshots" else None,
            sha256=place.weights.content_sha256(checkpoint),
            versions=_versions(),
            device=_device_told(torch, device),
        )
        return self._loaded(pipeline, opening, record, place, together=device != "cpu" or self.batch_on_cpu)

    def _loaded(
        self, pipeline: Any, opening: Opening, record: ModelRecord, place: GenerationPlace, *, together: bool
    ) -> LoadedDiffusers:
        form = CallForm.of(opening.pipeline)
        checks = pipeline.components.get(SAFETY_CHECKER) is not None
        switched_off = SAFETY_CHECKER in pipeline.components and self.safety_checker == "off"
        facts: dict[str, str | int | float] = {
            "pipeline": form.name,
            "precision": opening.precision,
            "safety_checker": "on" if checks else "off" if switched_off else "none",
        }
        if (scheduler := pipeline.components.get("scheduler")) is not None:
            facts["scheduler"] = type(scheduler).__name__
        longest = self._wishes.came_to(form).get("max_sequence_length")
        return LoadedDiffusers(
            pipeline,
            form=form,
            wishes=self._wishes,
            record=record,
            readers=readers_of(pipeline.components, max_sequence_length=None if longest is None else int(longest)),
            facts=facts,
            together=together,
            checks_safety=checks,
            masks=None if self.mask is None else Masks(self._mask_place(place)),
        )

    def _on_device(self, pipeline: Any, device: str, place: GenerationPlace) -> Any:
        if self.offload is not None and device == "cpu":
            place.report(f"{self.name}: offload does nothing on a CPU")
        elif self.offload is not None:
            require("accelerate", extra=EXTRA)
            move = {"model": "enable_model_cpu_offload", "sequential": "enable_sequential_cpu_offload"}
            getattr(pipeline, move[self.offload])(device=device)
            return pipeline
        return pipeline.to(device)


def _device(place: GenerationPlace) -> str:
    torch = require("torch", extra=EXTRA)
    if place.device is None:
        return chosen_device(torch, "auto")
    kind = place.device.split(":")[0]
    if kind in ("cuda", "mps"):
        chosen_device(torch, kind)  # type: ignore[arg-type]
    return place.device


def _device_told(torch: Any, device: str) -> str:
    """The device, with what the last bits of an image on it hang on."""
    if device.startswith("cuda"):
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if device != "cpu":
        return device
    # Sums are split among threads, and each way to split them rounds otherwise.
    return f"cpu ({torch.backends.cpu.get_cpu_capability()}, threads: {torch.get_num_threads()})"


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def line_about_time(seconds: float) -> str:
    """For who runs a pipeline without a GPU."""
    return f"no GPU is used, and an image takes about {seconds:,.0f} s here (half of it, or three times)"
