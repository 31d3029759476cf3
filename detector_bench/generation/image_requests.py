"""What a T2I model is asked for, and what may come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class SeedPhoto:
    """A photo that is to be edited.

    Attributes:
        image_id: in the image set that is made.
        path: of the file.
        sha256: of its content.
    """

    image_id: str
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image that a T2I model is to make.

    Attributes:
        image_id: the id that the image will have; no other request of the image set has it.
        prompt_id: of the prompt.
        prompt: the sentence.
        number: of the image among those of its prompt (and seed photo), from 0.
        seed: for the T2I model's random numbers, 0 to 2**31 - 1.
        seed_photo: what to edit; None: an image is made of the prompt alone.
    """

    image_id: str
    prompt_id: str
    prompt: str
    number: int
    seed: int
    seed_photo: SeedPhoto | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An image was made.

    Attributes:
        content: the bytes of the file as a service sent them, which are kept as they are, with all provenance
            that is in them; or pixels, which are written as PNG.
        revised_prompt: the sentence that the service made of the prompt, where it says so.
        prompt_cut: the end of the prompt that the text encoder did not read.
        seconds: the work or waiting that it took; of a batch, its share.
        cost: in the currency of the T2I model's prices; None: nothing is charged, or nobody says what.
        parameters: what the service says that it did, beside what it was asked for (such as the size it chose).
    """

    content: bytes | Image
    seconds: float
    revised_prompt: str | None = None
    prompt_cut: str | None = None
    cost: float | None = None
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The T2I model or its service refused: nothing is asked for again.

    Attributes:
        reason: why, in one line: a word in snake_case (`safety_checker`, `moderation_blocked`), after a colon what
            the service said.
        seconds: see `Made`.
        revised_prompt: see `Made`.
        cost: see `Made`.
    """

    reason: str
    seconds: float
    revised_prompt: str | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Something went wrong; the request is made again when the recipe is run again.

    Attributes:
        reason: why, in one line.
        seconds: see `Made`.
        may_have_been_paid: the service may charge for it all the same, as after a time-out: then it is made again
            only if the user says so.
        cost: what is known to be charged all the same; None: nothing is known.
    """

    reason: str
    seconds: float
    may_have_been_paid: bool = False
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nobody has answered yet, and this run does not wait for it: somebody else makes the image elsewhere."""


Outcome = Made | Blocked | Failed | Waiting
