"""What a pipeline's class can be asked for, found in the signature of its call; nothing is dropped in silence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.installation import require

EXTRA = "diffusers"

TEXT_TO_IMAGE, IMAGE_TO_IMAGE, INPAINTING = "text-to-image", "image-to-image", "inpainting"

_AUTOMATIC = {
    TEXT_TO_IMAGE: "AUTO_TEXT2IMAGE_PIPELINES_MAPPING",
    IMAGE_TO_IMAGE: "AUTO_IMAGE2IMAGE_PIPELINES_MAPPING",
    INPAINTING: "AUTO_INPAINT_PIPELINES_MAPPING",
}
"""By task, diffusers' list of the classes for it, by family."""

_OURS = {
    "prompt": "the recipe's prompts",
    "image": "the recipe's seed photos",
    "mask_image": "the key mask",
    "width": "the key width",
    "height": "the key height",
    "num_inference_steps": "the key steps",
    "negative_prompt": "the key negative_prompt",
    "generator": "the seeds",
    "num_images_per_prompt": "images_per_prompt",
    "output_type": "nothing",
    "return_dict": "nothing",
    "latents": "the seeds",
}
"""Parameters of a call that have a place of their own, and which."""

_EDITS = ("Img2Img", "Inpaint", "Pix2Pix", "Edit", "Kontext")


def edits_by_name(pipeline: str) -> bool:
    """Whether a class edits photos, as its name says; nothing is imported."""
    return any(part in pipeline for part in _EDITS)


def pipeline_class(name: str) -> Any:
    """A pipeline's class by its name.

    Raises:
        ConfigError: diffusers has no such class.
        MissingExtraError: diffusers is not installed.
    """
    diffusers = require("diffusers", extra=EXTRA)
    found = getattr(diffusers, name, None) if name in dir(diffusers) else None
    base = diffusers.DiffusionPipeline
    if not (inspect.isclass(found) and issubclass(found, base)) or found is base:
        known = [each for each in dir(diffusers) if each.endswith("Pipeline") and each != base.__name__]
        raise ConfigError(
            f"diffusers {diffusers.__version__} has no pipeline {name!r}: {_close(name, known)} (code of others, "
            "custom pipelines, is not run)"
        )
    return found


def _close(name: str, known: list[str]) -> str:
    hint = nearest_hint(name, known)
    return hint if hint.startswith("did you mean") else "accepted: the names of its pipelines"


def class_for_task(found: str, task: str | None) -> str:
    """The class for a task, of the family of the one that a checkpoint names.

    Raises:
        ConfigError: diffusers has none.
        MissingExtraError: diffusers is not installed.
    """
    if task is None:
        return found
    automatic = require("diffusers.pipelines.auto_pipeline", extra=EXTRA)
    own = pipeline_class(found)
    classes: Mapping[str, Any] = getattr(automatic, _AUTOMATIC[task])
    if own in classes.values() or (task == IMAGE_TO_IMAGE and "image" in CallForm.of(own).accepted):
        return found
    family = next(
        (name for each in _AUTOMATIC.values() for name, cls in getattr(automatic, each).items() if cls is own),
        None,
    )
    if family is None or family not in classes:
        raise ConfigError(
            f"diffusers has no pipeline for {task} beside {found} (accepted: `pipeline` by its name)"
        )
    return str(classes[family].__name__)


@dataclass(frozen=True)
class CallForm:
    """What a pipeline's class takes.

    Attributes:
        name: of the class.
        accepted: the parameters of its call with their defaults; None: it has none, or chooses itself.
        makes_from_text: it is one of diffusers' text-to-image pipelines.
        packs: two by two numbers of the latent image go into one token.
    """

    name: str
    accepted: Mapping[str, Any]
    makes_from_text: bool
    packs: bool

    @classmethod
    def of(cls, pipeline: Any) -> CallForm:
        """The form of a class."""
        automatic = require("diffusers.pipelines.auto_pipeline", extra=EXTRA)
        accepted = {
            name: None if each.default is inspect.Parameter.empty else each.default
            for name, each in inspect.signature(pipeline.__call__).parameters.items()
            if name != "self" and each.kind is not inspect.Parameter.VAR_KEYWORD
        }
        from_text = pipeline in getattr(automatic, _AUTOMATIC[TEXT_TO_IMAGE]).values()
        return cls(pipeline.__name__, accepted, from_text, hasattr(pipeline, "_pack_latents"))

    @property
    def takes_image(self) -> bool:
        """Whether it can be given a photo."""
        return "image" in self.accepted

    @property
    def batches_photos(self) -> bool:
        """Whether a list of photos is one for each prompt; for others it is several for one prompt."""
        return self.name.startswith(("StableDiffusion", "Kandinsky", "LatentConsistency"))

    @property
    def guidance_name(self) -> str | None:
        """The parameter that is the scale of classifier-free guidance."""
        if "true_cfg_scale" in self.accepted and self.accepted.get("guidance_scale") is None:
            return "true_cfg_scale"
        return "guidance_scale" if "guidance_scale" in self.accepted else None

    @property
    def steps(self) -> int | None:
        """Denoising steps unless the recipe says another number."""
        found = self.accepted.get("num_inference_steps")
        return found if isinstance(found, int) else None


@dataclass(frozen=True)
class Wishes:
    """What a recipe asks a pipeline for.

    Attributes:
        width: in pixels.
        height: in pixels.
        steps: of denoising.
        guidance: scale of classifier-free guidance.
        negative_prompt: what images shall not show.
        mask: whether there is one.
        edits: whether there are photos.
        call: further parameters of the call, by name.
    """

    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance: float | None = None
    negative_prompt: str | None = None
    mask: bool = False
    edits: bool = False
    call: Mapping[str, Any] = field(default_factory=dict)

    def mistakes(self, form: CallForm) -> Iterator[str]:
        """What the class cannot be asked for, a line each that says what is accepted."""
        if "prompt" not in form.accepted:
            yield f"{form.name} takes no prompt (accepted: pipelines that make images of a prompt)"
        if kind := next((each for each in ("num_frames", "audio_length_in_s") if each in form.accepted), None):
            yield f"{form.name} makes no images: its call has {kind}"
        yield from self._about_photos(form)
        yield from self._not_taken(form)
        yield from self._without_effect(form)
        for name in self.call:
            if name in _OURS or name == form.guidance_name:
                yield f"call: {name} has a place of its own: {_OURS.get(name, 'the key guidance')}"
            elif name not in form.accepted or "embeds" in name or name.startswith("callback"):
                known = {each for each, default in form.accepted.items() if default is not None} - set(_OURS)
                known = {each for each in known if "callback" not in each and not each.startswith("_")}
                known -= {form.guidance_name}
                yield f"call: {form.name} takes no {name!r}: {nearest_hint(name, known)}"

    def _about_photos(self, form: CallForm) -> Iterator[str]:
        if self.edits and not form.takes_image:
            yield f"{form.name} edits no photos (accepted: one that takes an image, or `task: image-to-image`)"
        if not self.edits and form.takes_image:
            both = f"`task: {TEXT_TO_IMAGE}` or " if form.makes_from_text else ""
            yield f"{form.name} takes photos: say so with {both}`task: {IMAGE_TO_IMAGE}`"
        if self.mask and "mask_image" not in form.accepted:
            yield f"{form.name} takes no mask (accepted: an inpainting pipeline, `task: {INPAINTING}`)"
        if not self.mask and "mask_image" in form.accepted and self.edits:
            yield f"{form.name} needs a `mask`: an image or a folder of them, white where photos are painted anew"

    def _not_taken(self, form: CallForm) -> Iterator[str]:
        taken = {"steps": "num_inference_steps", "negative_prompt": "negative_prompt"}
        # A photo is brought to the size where the class takes none.
        taken |= {} if self.edits else {"width": "width", "height": "height"}
        for key, name in taken.items():
            if getattr(self, key) is not None and name not in form.accepted:
                yield f"{form.name} takes no {key} (its call has no {name})"
        if self.guidance is not None and form.guidance_name is None:
            yield f"{form.name} takes no guidance (its call has neither guidance_scale nor true_cfg_scale)"
        came_to = self.came_to(form)
        strength, steps = came_to.get("strength"), came_to.get("steps")
        if isinstance(strength, int | float) and isinstance(steps, int) and steps * strength < 1:
            yield f"{form.name} takes {steps} steps x strength {strength} (accepted: a product of at least 1)"

    def _without_effect(self, form: CallForm) -> Iterator[str]:
        true_scale = "true_cfg_scale" in form.accepted
        name = "true_cfg_scale" if true_scale else form.guidance_name
        if name is None:
            return
        scale = self.guidance if name == form.guidance_name and self.guidance is not None else self.call.get(name)
        scale = form.accepted[name] if scale is None else scale
        if self.negative_prompt is not None and isinstance(scale, int | float) and scale <= 1:
            yield (
                f"negative_prompt has no effect in {form.name} where {name} is {scale} (accepted: above 1, or no "
                "negative_prompt)"
            )
        if (
            true_scale
            and name == form.guidance_name
            and self.guidance is not None
            and self.negative_prompt is None
        ):
            yield f"guidance has no effect in {form.name} without a negative_prompt (a space will do: ' ')"

    def arguments(self, form: CallForm) -> dict[str, Any]:
        """The parameters of a call that are the same for all requests; the class takes them all."""
        named = {"num_inference_steps": self.steps, "width": self.width, "height": self.height}
        if form.guidance_name is not None:
            named[form.guidance_name] = self.guidance  # type: ignore[assignment]
        if self.width is not None and self.height is not None:
            named["max_area"] = self.width * self.height  # else some bring the size to an area of their own
        found = {name: each for name, each in named.items() if each is not None and name in form.accepted}
        return {**found, **self.call}

    def came_to(self, form: CallForm) -> dict[str, str | int | float]:
        """All plain parameters of the call, with what the class has where the recipe is silent."""
        unseen = {"output_type", "return_dict", "num_images_per_prompt", "negative_prompt", "callback_steps"}
        both = {**form.accepted, **self.arguments(form)}
        names = {"num_inference_steps": "steps", str(form.guidance_name): "guidance"}
        return {
            names.get(name, name): each
            for name, each in both.items()
            if isinstance(each, str | int | float) and name not in unseen and not name.startswith("_")
        }
