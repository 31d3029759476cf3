"""A recipe: which prompts go to which T2I models, how many images of each, with which parameters and seeds."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from detector_bench.declarations import Declaration, read_mapping
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.generation.file_names import name_part
from detector_bench.generation.image_requests import SeedPhoto
from detector_bench.generation.named_recipes import recipe_place
from detector_bench.generation.seed_photos import SeedPhotos, read_seed_photos
from detector_bench.generation.t2i_models import T2I_MODELS, T2IModel, build_t2i_model
from detector_bench.limited_text import check_path
from detector_bench.prompt_lists import KEEP_ATTRIBUTES, PromptList, builtin_lists, read_prompts, with_weights
from detector_bench.vocabulary import ALL

MOST_IMAGES_PER_PROMPT = 100_000
MOST_SEED = 2**63 - 1

_KEYS = "`name`, `prompts`, `images_per_prompt` and `models`"
_MOST_SHOWN = 10


class RecipePrompts(Declaration):
    """Which prompts: the same choices as the command `prompts` has.

    Files are seen from the recipe's folder, and win over a built-in list of the same name.
    """

    source: tuple[str, ...] = Field(min_length=1)
    """Built-in lists, or files of any format that `prompts` reads; one of them may stand there as a text."""
    words: str | None = None
    """A file of words in the place of the list's own."""
    templates: str | None = None
    """A file of templates in the place of the list's own."""
    input: str | None = None
    """ImageBiTe's JSON input."""
    explicit: bool = False
    """BIGbench: also the prompts that ask for a gender, a race or an age group."""
    weights: str | None = None
    """A file of weights."""
    categories: tuple[str, ...] = ()
    """Only these; none named: all."""
    concern: str | None = None
    """ImageBiTe: only prompts that leave this ethical concern open."""
    suffix: str | None = None
    """Text after every prompt."""
    keep_attributes: bool = False
    """A suffix that asks to leave gender, skin tone and age as they are: BiasPainter's mitigation."""

    @field_validator("source", "categories", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("source", "words", "templates", "input", "weights")
    @classmethod
    def _are_paths(cls, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else filter(None, [value]):
            check_path(each)
        return value

    @model_validator(mode="after")
    def _one_suffix(self) -> RecipePrompts:
        if self.keep_attributes and self.suffix is not None:
            raise ValueError("keep_attributes is a suffix of its own: give it or suffix, not both")
        return self

    def read(self, folder: Path) -> PromptList:
        """Build the list; files are seen from the folder.

        Raises:
            ConfigError, DataError: what `read_prompts` says.
        """
        found = read_prompts(
            *(_source(each, folder) for each in self.source),
            words=_below(self.words, folder),
            templates=_below(self.templates, folder),
            input_file=_below(self.input, folder),
            explicit=self.explicit,
        )
        if self.weights is not None:
            found = with_weights(found, folder / self.weights)
        found = found.restricted(categories=self.categories, concern=self.concern)
        suffix = KEEP_ATTRIBUTES if self.keep_attributes else self.suffix
        return found if suffix is None else found.with_suffix(suffix)


def _below(given: str | None, folder: Path) -> Path | None:
    return None if given is None else folder / given


def _source(given: str, folder: Path) -> str | Path:
    path = folder / given
    is_name = given in builtin_lists() or not (path.is_dir() or "/" in given or Path(given).suffix)
    return given if is_name and not path.is_file() else path


class RecipeFile(Declaration):
    """What a recipe's file says, before its T2I models are built."""

    name: str = Field(min_length=1, max_length=100)
    prompts: RecipePrompts
    images_per_prompt: int = Field(strict=True, ge=1, le=MOST_IMAGES_PER_PROMPT)
    parameters: dict[str, Any] = Field(default_factory=dict)
    random_seed: int = Field(default=0, strict=True, ge=0, le=MOST_SEED)
    seeds_as: str | None = Field(default=None, min_length=1, max_length=100)
    seed_photos: str | None = Field(default=None, min_length=1)
    models: tuple[dict[str, Any], ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()

    @field_validator("prompts", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str | list | tuple | Mapping | RecipePrompts):
            raise ValueError("a list's name, a file, a list of them, or a mapping with `source` is expected")
        return {"source": value} if isinstance(value, str | list | tuple) else value

    @field_validator("seed_photos")
    @classmethod
    def _is_a_path(cls, value: str | None) -> str | None:
        return None if value is None else check_path(value)

    @field_validator("name", "seeds_as")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and (not value.isprintable() or value != value.strip()):
            raise ValueError("one line of text without blanks around it is expected")
        return value


@dataclass(frozen=True, eq=False)
class Recipe:
    """A recipe whose file was read, with its T2I models.

    Attributes:
        path: of the file.
        folder: from which the files that it names are seen.
        file: what it says.
        models: its T2I models, in its order.
    """

    path: Path
    folder: Path
    file: RecipeFile
    models: tuple[T2IModel, ...]
    _entries: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.file.name

    @property
    def images_per_prompt(self) -> int:
        """How many images each T2I model makes of each prompt, and of each seed photo where there are any."""
        return self.file.images_per_prompt

    @property
    def random_seed(self) -> int:
        """What all seeds begin with."""
        return self.file.random_seed

    @property
    def seeds_as(self) -> str:
        """The name of the recipe that has the same seeds: its own, unless it says otherwise."""
        return self.file.seeds_as or self.file.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its images should know, such as what a paper leaves open."""
        return self.file.notes

    def prompt_list(self) -> PromptList:
        """Its prompts; read once.

        Raises:
            ConfigError, DataError: mistakes in them, such as a prompt with nothing in it.
        """
        return self._prompts

    @cached_property
    def _prompts(self) -> PromptList:
        found = self.file.prompts.read(self.folder)
        empty = [prompt_id for prompt_id, prompt in found.prompts.items() if not prompt.text.strip()]
        if empty:
            raise ConfigError(
                f"{self.path}: prompts: {len(empty):,} of {len(found.prompts):,} prompts have nothing in them: "
                f"{', '.join(empty[:_MOST_SHOWN])}{', ...' if len(empty) > _MOST_SHOWN else ''}"
            )
        return found

    @property
    def seed_photos_path(self) -> Path | None:
        """The folder or image set of photos that are edited; None: nothing is edited."""
        return _below(self.file.seed_photos, self.folder)

    def photos(self) -> tuple[SeedPhoto, ...]:
        """The photos that are edited; none: images are made of prompts alone. Read once.

        Raises:
            ConfigError, DataError: there is no such folder, or some of its files are no images.
        """
        return () if self.seeds is None else self.seeds.photos

    @cached_property
    def seeds(self) -> SeedPhotos | None:
        """The photos that are edited, with what is known of them; None: nothing is edited. See `photos`."""
        return None if self.seed_photos_path is None else read_seed_photos(self.seed_photos_path)

    def document(self) -> dict[str, Any]:
        """All that it says, as plain data that `read_recipe` reads again: `parameters` stand with every model that
        has them, and defaults of its own are written out. Files are named as the recipe names them."""
        said = self.file.model_dump(mode="json", exclude={"prompts", "parameters", "models", "notes"})
        prompts = self.file.prompts.model_dump(mode="json", exclude_defaults=True)
        said = {"name": self.name, "prompts": prompts, **said, "seeds_as": self.seeds_as}
        if self.file.seed_photos is None:
            del said["seed_photos"]
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {**said, "models": [dict(entry) for entry in self._entries], **notes}


def read_recipe(given: Path | str, *, folder: Path | None = None, ask_models: bool = True) -> Recipe:
    """Read a recipe, and build its T2I models; nothing is loaded.

    Args:
        given: a file, or the name of a recipe that comes along; the file wins.
        folder: from which the files that it names are seen; None: its own, and of a recipe that comes along the
            working directory.
        ask_models: whether T2I models say what is wrong with them, such as a workflow's file that is not there.

    Raises:
        ConfigError: no such file, or mistakes in it: all of them, a line each.
    """
    path, own_folder = recipe_place(given)
    content = read_mapping(path, keys=_KEYS)
    return recipe_of(content, path=path, folder=own_folder if folder is None else folder, ask_models=ask_models)


def recipe_of(content: Mapping[str, Any], *, path: Path, folder: Path, ask_models: bool = True) -> Recipe:
    """Build a recipe of what its file says.

    Args:
        content: as in the file.
        path: of the file, for messages.
        folder: from which the files that it names are seen.
        ask_models: see `read_recipe`.

    Raises:
        ConfigError: mistakes in it, all of them, a line each.
    """
    mistakes: list[str] = []
    try:
        file = RecipeFile.model_validate(dict(content))
    except ValidationError as error:
        raise _with_mistakes_of_models(error, content, path, folder) from error
    models, entries = _models(file.models, file.parameters, path, folder, mistakes)
    if ask_models:
        mistakes += _said_by_models(models, path)
    mistakes += _of_parameters(file, path)
    mistakes += _of_names(models, path)
    mistakes += _of_edits(models, path, file.seed_photos)
    if mistakes:
        raise ConfigError("\n".join(dict.fromkeys(mistakes)))
    return Recipe(path, folder, file, tuple(model for _, model in models), tuple(entries))


def _with_mistakes_of_models(
    error: ValidationError, content: Mapping[str, Any], path: Path, folder: Path
) -> ConfigError:
    """The mistakes of the file as a whole, and those within its models where these can be told."""
    lines = [str(config_error_from(error, place=str(path), model=RecipeFile))]
    parameters = content.get("parameters", {})
    models = content.get("models")
    if isinstance(parameters, dict) and isinstance(models, list):
        _models(models, parameters, path, folder, lines)
    return ConfigError("\n".join(dict.fromkeys(lines)))


def _models(
    given: Iterable[Any],
    parameters: Mapping[str, Any],
    path: Path,
    folder: Path,
    mistakes: list[str],
) -> tuple[list[tuple[int, T2IModel]], list[dict[str, Any]]]:
    """T2I models with their place in the file, and their entries with the parameters that all share."""
    models, entries = [], []
    for position, own in enumerate(given):
        if not isinstance(own, Mapping):
            continue  # told by the file's own form
        place = f"{path}: models.{position}"
        entry = {key: value for key, value in parameters.items() if key in _fields(own.get("kind"))} | dict(own)
        try:
            model = build_t2i_model(_with_paths(entry, folder), place=place)
        except ConfigError as error:
            mistakes += [line if line.startswith(place) else f"{place}: {line}" for line in str(error).split("\n")]
            continue
        models.append((position, model))
        entries.append(entry)
    return models, entries


def _said_by_models(models: Iterable[tuple[int, T2IModel]], path: Path) -> Iterator[str]:
    for position, model in models:
        for line in model.mistakes():
            yield f"{path}: models.{position} ({model.name}): {line}"


def _fields(kind: Any) -> Mapping[str, Any]:
    """What a kind of T2I model takes, by the key in a recipe; nothing where there is no such kind, which building
    it tells."""
    try:
        fields = T2I_MODELS.get(kind).factory.model_fields if isinstance(kind, str) else {}
    except ConfigError:
        return {}
    return {field.alias or name: field for name, field in fields.items()}


def _with_paths(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """An entry with its files as seen from the recipe's folder: those of fields that are declared as paths."""
    fields = _fields(entry.get("kind"))
    return {
        key: folder / value if isinstance(value, str) and key in fields and _is_path(fields[key]) else value
        for key, value in entry.items()
    }


def _is_path(declared: Any) -> bool:
    annotation = declared.annotation
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return Path in (typing.get_args(annotation) if is_union else (annotation,))


def _of_parameters(file: RecipeFile, path: Path) -> Iterator[str]:
    known = {name for entry in file.models for name in _fields(entry.get("kind"))} - {"name"}
    for key in file.parameters:
        if known and key not in known:
            yield f"{path}: parameters.{key}: no model of the recipe has it: {nearest_hint(key, known)}"


def _of_names(models: Iterable[tuple[int, T2IModel]], path: Path) -> Iterator[str]:
    first: dict[str, str] = {}
    for position, model in models:
        place = f"{path}: models.{position}.name"
        # Names of files and folders are made of them, and some file systems do not tell a from A.
        key = name_part(model.name).casefold()
        if key in first:
            yield f"{place}: {model.name!r} is too like {first[key]!r}, which another model is called"
        if model.name.casefold() == ALL:
            yield f"{place}: {model.name!r} is reserved"
        first.setdefault(key, model.name)


def _of_edits(models: Iterable[tuple[int, T2IModel]], path: Path, seed_photos: str | None) -> Iterator[str]:
    for position, model in models:
        place = f"{path}: models.{position} ({model.name})"
        if model.edits and seed_photos is None:
            yield f"{place}: it edits photos: name their folder, or an image set, as `seed_photos` of the recipe"
        if not model.edits and seed_photos is not None:
            yield (
                f"{place}: it makes images of prompts alone, and the recipe has `seed_photos` "
                "(accepted: models that edit photos, or a recipe of its own without `seed_photos`)"
            )
