"""Where prompts come from: the lists that the project brings along, and the user's own files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.installation import resource
from detector_bench.prompt_lists.prompt_list import Prompt, PromptList
from detector_bench.prompt_lists.word_lists import read_word_prompts
from detector_bench.registry import Registry

_FORMATS: Registry[Callable[..., Any]] = Registry("prompt format")
"""What reads the files of other benchmarks; they stand above this room, so it knows their names only."""
_FORMATS.register("bigbench", "detector_bench.others.bigbench.prompts:read_reference_prompts")
_FORMATS.register("bigbench_explicit", "detector_bench.others.bigbench.explicit_prompts:explicit_prompts")
_FORMATS.register("imagebite", "detector_bench.others.imagebite.prompts:read_imagebite_prompts")


@dataclass(frozen=True)
class BuiltinList:
    """A list in `labels/`: what it is, and the two files that it is made of."""

    kind: Literal["words", "imagebite"]
    about: str
    content: str
    templates: str


BUILTIN_LISTS: dict[str, BuiltinList] = {
    "lyu2025": BuiltinList(
        "words",
        "the 100 words of Lyu 2025, one real person each",
        "labels/lyu2025/words.csv",
        "labels/lyu2025/templates.csv",
    ),
    "biaspainter": BuiltinList(
        "words",
        "228 words in BiasPainter's four domains, for editing a photo",
        "labels/biaspainter/words.csv",
        "labels/biaspainter/templates.csv",
    ),
    "imagebite": BuiltinList(
        "imagebite",
        "25 templates in ImageBiTe's format, filled with communities and dimensions",
        "labels/imagebite/input.json",
        "labels/imagebite/templates.csv",
    ),
}
"""By the name that stands for them on the command line."""


def read_prompts(
    *sources: str | Path,
    words: Path | None = None,
    templates: Path | None = None,
    input_file: Path | None = None,
    explicit: bool = False,
) -> PromptList:
    """Build the prompts of one or several lists, one after the other.

    Args:
        sources: names of built-in lists; or files: words with their category (CSV or Parquet), templates in
            ImageBiTe's format (tab-separated), or BIGbench's reference shares (JSON).
        words: words to use instead of the list's own.
        templates: templates to use instead of the list's own; for a file of words the default is
            `templates.csv` beside it.
        input_file: ImageBiTe's JSON input, with communities and dimensions.
        explicit: with BIGbench's prompts also those that ask for a gender, a race or an age group.

    Raises:
        ConfigError: no source, an unknown or repeated one, or an option that this kind of source does not have.
        DataError: mistakes in the files.
    """
    if not sources:
        raise ConfigError("name a file or a built-in prompt list")
    for position, source in enumerate(sources):
        if source in sources[:position]:
            raise ConfigError(f"{Path(source).name} stands there twice")
    prompts: list[Prompt] = []
    notes: list[str] = []
    all_files = [_files(source, input_file) for source in sources]
    for files in all_files:
        found, said = _prompts_of(files, words, templates, input_file, explicit=explicit)
        prompts += found
        notes += said
    return PromptList.of(", ".join(files.name for files in all_files), prompts, notes=notes)


def _prompts_of(
    files: _Files, words: Path | None, templates: Path | None, input_file: Path | None, *, explicit: bool
) -> tuple[list[Prompt], list[str]]:
    if files.kind == "bigbench":
        _refuse("BIGbench's reference shares", words=words, templates=templates, input=input_file)
        prompts, notes = _FORMATS.get("bigbench")(files.content)
        more, said = _FORMATS.get("bigbench_explicit")(prompts) if explicit else ([], [])
        return [*prompts, *more], [*notes, *said]
    if explicit:
        raise ConfigError(f"--explicit goes with BIGbench's reference shares; {files.name} is none of them")
    if files.kind == "imagebite":
        _refuse("ImageBiTe's templates", words=words)
        read: tuple[list[Prompt], list[str]] = _FORMATS.get("imagebite")(
            templates or files.templates, input_file or files.content
        )
        return read
    _refuse("a list of words", input=input_file)
    return read_word_prompts(words or files.content, templates or files.templates), []


@dataclass(frozen=True)
class _Files:
    name: str
    kind: Literal["words", "imagebite", "bigbench"]
    content: Path
    templates: Path


def _files(source: str | Path, input_file: Path | None) -> _Files:
    builtin = BUILTIN_LISTS.get(str(source))
    if builtin is not None:
        return _Files(str(source), builtin.kind, resource(builtin.content), resource(builtin.templates))
    path = Path(source)
    if not path.is_file():
        hint = nearest_hint(str(source), BUILTIN_LISTS)
        raise ConfigError(f"{str(source)!r} is neither a file nor a built-in prompt list: {hint}")
    if path.suffix.lower() == ".json":
        return _Files(path.name, "bigbench", path, path)
    if not _is_tab_separated(path):
        return _Files(path.name, "words", path, path.with_name("templates.csv"))
    if input_file is None:
        message = "has ImageBiTe's templates; --input must name the JSON file that they are filled from"
        raise ConfigError(f"{path.name} {message}")
    return _Files(path.name, "imagebite", input_file, path)


def _refuse(what: str, **options: Path | None) -> None:
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"--{option} does not go with {what}; got {str(value)!r}")


def _is_tab_separated(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix.lower() != ".parquet" and b"\t" in file.readline(1 << 16)
