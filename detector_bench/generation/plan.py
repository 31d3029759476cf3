"""Which images a recipe asks for: the same requests, ids and random seeds on every machine and in every run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from detector_bench.dataset.importing import IMAGE_FOLDER
from detector_bench.generation.file_names import name_part, prompt_names
from detector_bench.generation.image_requests import ImageRequest, SeedPhoto
from detector_bench.generation.scenes import Scene, prompt_table_of_scenes, scenes_of, scenes_table
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.sealed import digest_of

if TYPE_CHECKING:
    from detector_bench.generation.recipe import Recipe
    from detector_bench.generation.t2i_models import T2IModel

_SEED_BITS = 31
"""What all services and libraries take: a number below 2**31."""


class PlannedRequest(NamedTuple):
    """A request with its place.

    Attributes:
        request: what the T2I model is asked for.
        sha256: over all that decides the image: the T2I model's declaration, sentence, seed, photo.
        stem: the image's path in the image set, without its ending.
    """

    request: ImageRequest
    sha256: str
    stem: str


@dataclass(frozen=True)
class ModelPlan:
    """The requests to one T2I model, in their order: prompt by prompt, photo by photo, number by number.

    Iterating makes them anew each time: a plan of a million requests takes no more memory than one of ten.
    """

    t2i_model: T2IModel
    scenes: Sequence[Scene]
    photos: Sequence[SeedPhoto]
    images_per_prompt: int
    seeds_as: str
    random_seed: int
    names: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The T2I model's."""
        return self.t2i_model.name

    @property
    def file_name(self) -> str:
        """The T2I model's, as folders and files have it."""
        return name_part(self.name)

    @cached_property
    def sentences(self) -> list[str]:
        """All that are sent, each once."""
        return list(dict.fromkeys(wording for scene in self.scenes for wording in scene.wordings))

    @cached_property
    def identity(self) -> str:
        """The sha256 over what the declaration says that decides an image."""
        return digest_of(self.t2i_model.identity())

    @cached_property
    def digest(self) -> str:
        """The sha256 over all that decides the requests; equal plans ask for the same."""
        scenes = [[scene.prompt_id, list(scene.wordings)] for scene in self.scenes]
        photos = [[photo.image_id, photo.sha256] for photo in self._photos]
        return digest_of(
            [self.name, self.identity, scenes, photos, self.images_per_prompt, self.seeds_as, self.random_seed]
        )

    @property
    def _photos(self) -> Sequence[SeedPhoto]:
        return self.photos if self.t2i_model.edits else ()

    def __len__(self) -> int:
        return len(self.scenes) * (len(self._photos) or 1) * self.images_per_prompt

    def __iter__(self) -> Iterator[PlannedRequest]:
        model = self.file_name
        photos: Sequence[SeedPhoto | None] = self._photos or (None,)
        for scene in self.scenes:
            name = self.names[scene.prompt_id]
            for photo in photos:
                photo_id, photo_sha256 = ("", "") if photo is None else (photo.image_id, photo.sha256)
                edited = "" if photo is None else f"{name_part(photo_id)}__"
                start = [self.seeds_as, self.random_seed, self.name, scene.prompt_id, photo_id]
                for number in range(self.images_per_prompt):
                    prompt = scene.wordings[number % len(scene.wordings)]
                    seed = _seed([*start, number])
                    request = ImageRequest(
                        image_id=f"{model}__{name}__{edited}{number:04d}",
                        prompt_id=scene.prompt_id,
                        prompt=prompt,
                        number=number,
                        seed=seed,
                        seed_photo=photo,
                    )
                    sha256 = request_sha256(self.identity, prompt, seed, photo_sha256)
                    yield PlannedRequest(request, sha256, f"{IMAGE_FOLDER}/{model}/{name}/{edited}{number:04d}")

    @cached_property
    def asked(self) -> str:
        """What every request asks for besides its prompt, as JSON."""
        return json.dumps(asked_parameters(self.t2i_model))

    def requests(self) -> Iterator[ImageRequest]:
        """The requests alone."""
        return (planned.request for planned in self)


@dataclass(frozen=True)
class Plan:
    """All that a recipe asks for."""

    recipe: Recipe
    scenes: tuple[Scene, ...]
    photos: tuple[SeedPhoto, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> Plan:
        """Read the recipe's prompts and photos.

        Raises:
            ConfigError, DataError: they cannot be read.
        """
        return cls(recipe, tuple(scenes_of(recipe.prompt_list())), tuple(recipe.photos()))

    @cached_property
    def models(self) -> tuple[ModelPlan, ...]:
        """One plan for each T2I model, in the recipe's order."""
        names = prompt_names([scene.prompt_id for scene in self.scenes])
        return tuple(
            ModelPlan(
                t2i_model=t2i_model,
                scenes=self.scenes,
                photos=self.photos,
                images_per_prompt=self.recipe.images_per_prompt,
                seeds_as=self.recipe.seeds_as,
                random_seed=self.recipe.random_seed,
                names=names,
            )
            for t2i_model in self.recipe.models
        )

    def __len__(self) -> int:
        return sum(map(len, self.models))

    def prompt_table(self) -> str:
        """The prompt table of the image set, as the text of a CSV file."""
        return prompt_table_of_scenes(self.recipe.prompt_list()).to_csv(index=False, lineterminator="\n")

    def scenes_table(self) -> str | None:
        """Whose halves the pictures of two people are, as the text of a CSV file; None: there are no such."""
        if not any(scene.subjects for scene in self.scenes):
            return None
        return scenes_table(self.recipe.prompt_list()).to_csv(index=False, lineterminator="\n")


def asked_parameters(t2i_model: T2IModel) -> dict[str, object]:
    """All that a recipe asks of a T2I model besides the prompt, as plain data: what it leaves open is left out."""
    found: Mapping[str, object] = t2i_model.model_dump(
        mode="json", exclude_none=True, exclude=_descriptive(type(t2i_model))
    )
    return {"kind": t2i_model.kind, **found}


def request_sha256(identity: str, prompt: str, seed: int, photo_sha256: str) -> str:
    """The sha256 over all that decides an image.

    Args:
        identity: of the T2I model's declaration, see `ModelPlan.identity`.
        prompt: the sentence.
        seed: for the random numbers.
        photo_sha256: of the photo that is edited; "": none is.
    """
    return _sha256([identity, prompt, seed, photo_sha256]).hexdigest()


def _descriptive(kind: type[T2IModel]) -> set[str]:
    """The fields that decide no image."""
    return {name for name, field in kind.model_fields.items() if field.json_schema_extra == DESCRIPTIVE}


def in_parts(planned: Iterable[PlannedRequest], size: int) -> Iterator[list[PlannedRequest]]:
    """Requests in lists of at most `size`, in their order."""
    left = iter(planned)
    while part := list(islice(left, size)):
        yield part


def _sha256(content: list[Any]) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode())


def _seed(parts: list[Any]) -> int:
    return int.from_bytes(_sha256(parts).digest()[:4], "big") >> (32 - _SEED_BITS)
