"""Makes the images of requests with a pipeline that is open: batches, seeds, photos, and what a refusal is."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.dataset.decoding import ImageError, decode_image, read_image_file
from detector_bench.errors import ConfigError
from detector_bench.generation.diffusers_calls import EXTRA, CallForm, Wishes
from detector_bench.generation.diffusers_loading import quietly
from detector_bench.generation.diffusers_prompts import PromptCut, PromptReaders
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, Outcome, SeedPhoto
from detector_bench.generation.t2i_models import ModelRecord
from detector_bench.installation import require
from detector_bench.weights.files import sha256_of

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

REASON_SAFETY = "safety_checker"
REASON_BLACK = "black_image"


@dataclass(frozen=True)
class _Photos:
    """What a request edits: the photo and the mask, in the size that the pipeline gets."""

    photo: Picture | None = None
    mask: Picture | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int] | None:
        return None if self.photo is None else self.photo.size


class _Ready(NamedTuple):
    """A request that the pipeline can be asked for; `number` is its place in the batch."""

    number: int
    request: ImageRequest
    photos: _Photos


class Masks:
    """Where photos are painted anew: one image for all photos, or a folder with one for each.

    Args:
        place: the image, white where the photo is painted anew; or a folder of images named as the photos are.
    """

    def __init__(self, place: Path) -> None:
        self._place = place

    def of(self, photo: SeedPhoto) -> Path:
        """The mask of a photo.

        Raises:
            ConfigError: there is none.
        """
        if not self._place.is_dir():
            return self._place
        for stem in dict.fromkeys((photo.image_id, photo.path.stem)):
            for ending in (".png", ".jpg", ".jpeg", ".webp"):
                # An id may hold a folder of the image set, but leads nowhere else.
                found = self._place / f"{stem}{ending}"
                if ".." not in found.parts and found.is_file():
                    return found
        raise ConfigError(
            f"mask: the folder {self._place.name!r} has no mask of the photo {photo.image_id!r} (accepted: "
            f"{photo.path.stem}.png)"
        )


class LoadedDiffusers:
    """A pipeline that is ready to be asked; see `LoadedT2IModel`.

    Args:
        pipeline: of diffusers, on its device.
        form: what its class takes.
        wishes: what it is asked for.
        record: what is known of it.
        facts: for every image's parameters, beside those of the call.
        together: whether the images of a batch are computed together; else one after the other, each as it would
            be alone.
        checks_safety: whether the checkpoint's safety checker looks at the images.
        masks: of photos.
    """

    def __init__(
        self,
        pipeline: Any,
        *,
        form: CallForm,
        wishes: Wishes,
        record: ModelRecord,
        readers: PromptReaders,
        facts: Mapping[str, str | int | float],
        together: bool,
        checks_safety: bool,
        masks: Masks | None = None,
    ) -> None:
        self.record = record
        self._pipeline = pipeline
        self._form = form
        self._wishes = wishes
        self._readers = readers
        self._arguments = wishes.arguments(form)
        self._facts = {**wishes.came_to(form), **facts}
        self._together = together and (not wishes.edits or form.batches_photos)
        self._checks_safety = checks_safety
        self._masks = masks

    def cut_of(self, prompt: str) -> PromptCut:
        """What no text encoder, and what only some, read of a prompt."""
        return self._readers.cut_of(prompt)

    def make(self, requests: Sequence[ImageRequest]) -> list[Outcome]:
        """Make the images of a batch; see `LoadedT2IModel.make`.

        Raises:
            ConfigError: the pipeline makes no images, or others than it was asked for.
            RuntimeError: as PyTorch raises it, such as without memory for the batch.
        """
        found: dict[int, Outcome] = {}
        ready: list[_Ready] = []
        for number, request in enumerate(requests):
            began = time.perf_counter()
            try:
                ready.append(_Ready(number, request, self._checked(request)))
            except _UnusableRequestError as error:
                found[number] = Failed(reason=str(error), seconds=time.perf_counter() - began)
        for group in self._groups(ready):
            found |= zip((each.number for each in group), self._make_together(group), strict=True)
        return [found[number] for number in range(len(requests))]

    def close(self) -> None:
        """Give back the memory."""
        self._pipeline = None
        gc.collect()
        torch = require("torch", extra=EXTRA)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _checked(self, request: ImageRequest) -> _Photos:
        if not request.prompt.strip():
            raise _UnusableRequestError("empty_prompt: there is nothing in the prompt")
        if not self._wishes.edits:
            return _Photos()
        if request.seed_photo is None:
            raise ConfigError(
                f"{self._form.name} edits photos, and {request.image_id!r} has none: give seed_photos"
            )
        photo: Picture | None = _picture(request.seed_photo.path)
        mask: Picture | None = None
        facts: dict[str, str] = {}
        if self._masks is not None:
            path = self._masks.of(request.seed_photo)
            mask, facts = _picture(path).convert("L"), {"mask_sha256": sha256_of(path)}
            mask = mask if photo is None or mask.size == photo.size else mask.resize(photo.size)
        if self._wishes.width is not None and self._wishes.height is not None:
            photo, mask = (_brought_to(each, self._wishes.width, self._wishes.height) for each in (photo, mask))
        return _Photos(photo, mask, facts)

    def _groups(self, requests: Iterable[_Ready]) -> Iterator[list[_Ready]]:
        """Neighbours that the pipeline can make in one call."""
        group: list[_Ready] = []
        for each in requests:
            if group and (not self._together or each.photos.size != group[0].photos.size):
                yield group
                group = []
            group.append(each)
        if group:
            yield group

    def _make_together(self, group: Sequence[_Ready]) -> list[Outcome]:
        torch = require("torch", extra=EXTRA)
        began = time.perf_counter()
        try:
            with quietly():
                result = self._pipeline(**self._arguments, **self._of_requests(group))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # what is tried next, on fewer images, needs it
            raise
        images = getattr(result, "images", None)
        if images is None or len(images) != len(group):
            raise ConfigError(f"{self._form.name} gives no image for each prompt, so it cannot be used here")
        seconds = (time.perf_counter() - began) / len(group)
        flags = next(
            (
                found
                for name in ("nsfw_content_detected", "nsfw_detected")
                if (found := getattr(result, name, None))
            ),
            [None] * len(group),
        )
        return [
            self._outcome(request, photos, image, flag=flag, seconds=seconds)
            for (_, request, photos), image, flag in zip(group, images, flags, strict=True)
        ]

    def _of_requests(self, group: Sequence[_Ready]) -> dict[str, Any]:
        """The parameters of a call that belong to its requests, one of each for each image."""
        torch = require("torch", extra=EXTRA)
        # Of the CPU, so that the same seed is the same noise on every device.
        seeds = [torch.Generator("cpu").manual_seed(each.request.seed) for each in group]
        found: dict[str, list[Any]] = {"prompt": [each.request.prompt for each in group], "generator": seeds}
        if self._wishes.negative_prompt is not None:
            found["negative_prompt"] = [self._wishes.negative_prompt] * len(group)
        if self._wishes.edits:
            found["image"] = [each.photos.photo for each in group]
            if self._masks is not None:
                found["mask_image"] = [each.photos.mask for each in group]
            if not self._form.batches_photos:
                return {name: values[0] for name, values in found.items()}
        return found

    def _outcome(
        self, request: ImageRequest, photos: _Photos, image: Picture, *, flag: bool | None, seconds: float
    ) -> Outcome:
        if flag:
            return Blocked(reason=REASON_SAFETY, seconds=seconds)
        if image.convert("RGB").getextrema() == ((0, 0),) * 3:
            if self._checks_safety and flag is None:
                return Blocked(reason=REASON_SAFETY, seconds=seconds)
            return Failed(reason=self._why_black(), seconds=seconds)
        asked = (self._wishes.width, self._wishes.height)
        if None not in asked and image.size != asked and "width" in self._form.accepted:
            raise ConfigError(
                f"{self._form.name} made {image.width} x {image.height} pixels where {asked[0]} x {asked[1]} were "
                "asked for: set `width` and `height` to a size that it makes"
            )
        cut = self.cut_of(request.prompt)
        facts = {**self._facts, "width": image.width, "height": image.height, **photos.facts}
        if any(end != cut.unread for end in cut.partly.values()):
            facts["prompt_read_in_part"] = json.dumps(dict(cut.partly), ensure_ascii=False, sort_keys=True)
        return Made(content=image, seconds=seconds, prompt_cut=cut.unread, parameters=facts)

    def _why_black(self) -> str:
        checked = "the safety checker saw nothing" if self._checks_safety else "no safety checker looks at images"
        return (
            f"{REASON_BLACK}: every pixel is black, and {checked}; numbers that overflow in "
            f"{self._facts.get('precision')} look like this"
        )


class _UnusableRequestError(Exception):
    """One request cannot be made, whatever is done; the message says why."""


def _picture(path: Path) -> Picture:
    from PIL import Image

    try:
        return Image.fromarray(decode_image(read_image_file(path)))
    except ImageError as error:
        raise _UnusableRequestError(f"photo_unreadable: {path.name}: {error}") from error


def _brought_to(picture: Picture | None, width: int, height: int) -> Picture | None:
    """Scaled to a size; what sticks out over its shape is cut off on both sides alike."""
    from PIL import Image, ImageOps

    if picture is None or picture.size == (width, height):
        return picture
    return ImageOps.fit(picture, (width, height), Image.Resampling.LANCZOS)
