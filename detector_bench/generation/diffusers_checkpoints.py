"""Checkpoints of diffusers pipelines: a folder with a `model_index.json` and a folder below it for each part."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from detector_bench.errors import ConfigError
from detector_bench.weights import Checkpoint

INDEX_FILE = "model_index.json"
"""Which class a pipeline is, and which classes its parts are."""
SAFETY_CHECKER = "safety_checker"

_SETTINGS = (".json", ".txt", ".jinja", ".model")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NO_NETWORKS = ("feature_extractor", "image_processor", "processor", "scheduler", "tokenizer")
_SHARD_INDEX = re.compile(
    r"(?:diffusion_pytorch_model|model)(?:\.(?P<before>[A-Za-z0-9_]+))?\.safetensors\.index"
    r"(?:\.(?P<after>[A-Za-z0-9_]+))?\.json"
)
_WEIGHTS = re.compile(
    r"(?P<base>diffusion_pytorch_model|model)(?:\.(?P<before>[A-Za-z0-9_]+))?(?:-\d+-of-\d+)?"
    r"(?:\.(?P<after>[A-Za-z0-9_]+))?\.safetensors"
)


@dataclass(frozen=True)
class PipelineIndex:
    """What a `model_index.json` says.

    Attributes:
        pipeline: the name of the pipeline's class.
        parts: library and class of each part that the checkpoint has, by the part's name.
    """

    pipeline: str
    parts: Mapping[str, tuple[str, str]]

    @classmethod
    def read(cls, path: Path) -> PipelineIndex:
        """Read a `model_index.json`.

        Raises:
            ConfigError: it cannot be read, or names program code of its own.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path.name} of {path.parent.name!r} cannot be read: {error}") from error
        found = content.get("_class_name") if isinstance(content, Mapping) else None
        if not isinstance(found, str):
            raise ConfigError(
                f"{path.name} of {path.parent.name!r}: _class_name is {str(found)[:80]!r} (accepted: the name of "
                "a class of diffusers; code that a checkpoint brings along is not run)"
            )
        parts = {
            name: (str(value[0]), str(value[1]))
            for name, value in content.items()
            if not name.startswith("_") and isinstance(value, list) and len(value) == 2 and value[0] is not None
        }
        for name in parts:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ConfigError(f"{path.name} of {path.parent.name!r}: {name[:80]!r} is no name of a part")
        return cls(found, parts)


class PipelineCheckpoint(Checkpoint):
    """A diffusers pipeline's folder, or its name on the Hugging Face hub.

    Of every part only the settings and one set of `.safetensors` count: those of `variant` where it has them.
    """

    files: tuple[str, ...] = (INDEX_FILE,)
    """What is downloaded: `diffusers_hub.located` takes what the index names; the index alone is enough to look
    into the hub's cache, and `complete_in` says whether the rest is there."""
    variant: str | None = None
    """Such as `fp16`: which of several sets of weights."""
    without: tuple[str, ...] = ()
    """Parts that are left out."""

    def found_in(self, folder: Path) -> list[Path]:
        """The files of a folder that the pipeline reads."""
        return [folder / name for name in self.counted_in(folder)]

    def counted_in(self, folder: Path) -> list[str]:
        """The files of a folder that the pipeline reads, as paths relative to it, sorted."""
        index = folder / INDEX_FILE
        if not index.is_file():
            return []
        try:
            parts = self._parts(index)
        except ConfigError:
            return [INDEX_FILE]
        return sorted(self.chosen(_below(folder, parts), parts))

    def complete_in(self, folder: Path) -> bool:
        """Whether a folder holds the index, and of every part its settings and weights."""
        return (folder / INDEX_FILE).is_file() and self.lacking_in(folder) is None

    def lacking_in(self, folder: Path) -> str | None:
        """What a folder with an index lacks, in words; None: nothing."""
        try:
            parts = self._parts(folder / INDEX_FILE)
        except ConfigError as error:
            return str(error)
        return next(filter(None, (self._part_lacks(folder / name) for name in parts)), None)

    def _parts(self, index: Path) -> list[str]:
        return [name for name in PipelineIndex.read(index).parts if name not in self.without]

    def _part_lacks(self, part: Path) -> str | None:
        names = {path.name for path in part.iterdir() if path.is_file()} if part.is_dir() else set()
        if (line := self.unusable_part(part.name, names)) is not None or not is_network(part):
            return line
        chosen = _of_variant((name for name in names if _WEIGHTS.fullmatch(name)), self.variant)
        missing = sorted(set(_shards(part, names, _variant_of(min(chosen)))) - names)
        return f"{part.name!r} lacks {missing[0]}" if missing else None

    def unusable_part(self, part: str, names: Collection[str]) -> str | None:
        """Why a part cannot be read, in words, as the names of its files tell; None: they do not."""
        if not names:
            return f"there is no folder {part!r}"
        if part.startswith(_NO_NETWORKS) or "config.json" not in names:
            return None
        weights = {name for name in names if _WEIGHTS.fullmatch(name)}
        chosen = _of_variant(weights, self.variant)
        if not chosen and weights:
            variants = ", ".join(sorted({str(_variant_of(name)) for name in weights}))
            return f"{part!r} has weights only as a variant: set `variant` (accepted: {variants})"
        if not chosen:
            pickles = sorted(name for name in names if name.endswith(_PICKLES))
            seen = f"; {pickles[0]} is a pickle, which can run code, and is not read" if pickles else ""
            return f"{part!r} has no .safetensors{seen}"
        return None

    def chosen(self, names: Iterable[str], parts: Iterable[str]) -> Iterator[str]:
        """Of paths relative to the checkpoint's folder, those that the pipeline reads.

        Args:
            names: of all files, with slashes.
            parts: names of the pipeline's parts.
        """
        of_part: dict[str, list[str]] = {part: [] for part in parts}
        for name in names:
            place = PurePosixPath(name)
            if name == INDEX_FILE:
                yield name
            elif len(place.parts) > 1 and place.parts[0] in of_part:
                of_part[place.parts[0]].append(name)
        for found in of_part.values():
            direct = {PurePosixPath(each).name: each for each in found if each.count("/") == 1}
            yield from (each for each in found if each.endswith(_SETTINGS))
            weights = {name for name in direct if _WEIGHTS.fullmatch(name)}
            yield from (direct[name] for name in _of_variant(weights, self.variant))


def is_network(part: Path) -> bool:
    """Whether a part's folder holds a network, not a scheduler, a tokenizer or the like."""
    return not part.name.startswith(_NO_NETWORKS) and (part / "config.json").is_file()


def _variant_of(name: str) -> str | None:
    found = _WEIGHTS.fullmatch(name)
    return None if found is None else found["before"] or found["after"]


def _of_variant(names: Iterable[str], variant: str | None) -> set[str]:
    """Those of the variant, or else those without one, as diffusers takes them."""
    by_variant: dict[str | None, set[str]] = {}
    for name in names:
        by_variant.setdefault(_variant_of(name), set()).add(name)
    return by_variant.get(variant) or by_variant.get(None, set())


def _shards(part: Path, names: Iterable[str], variant: str | None) -> set[str]:
    """The files that large weights are split into, as their index has them."""
    for name in names:
        index = _SHARD_INDEX.fullmatch(name)
        if index is not None and (index["before"] or index["after"]) == variant:
            try:
                found: dict[str, Any] = json.loads((part / name).read_text(encoding="utf-8"))["weight_map"]
                return {str(each) for each in found.values()}
            except (OSError, ValueError, KeyError, AttributeError):
                return {f"what {name} names, which cannot be read"}
    return set()


def _below(folder: Path, parts: Iterable[str]) -> Iterator[str]:
    yield INDEX_FILE
    for part in parts:
        for path in sorted((folder / part).rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix()
