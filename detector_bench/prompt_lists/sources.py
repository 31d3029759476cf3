"""Where prompts come from: the lists that the project brings along, and the user's own files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from detector_bench.benchmark import Benchmark, BuiltinList, PromptFormat, benchmarks
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.installation import resource
from detector_bench.prompt_lists.prompt_list import Prompt, PromptList
from detector_bench.prompt_lists.prompt_tables import is_prompt_table, read_prompt_table, read_sentences
from detector_bench.prompt_lists.word_lists import read_word_prompts


def builtin_lists() -> dict[str, BuiltinList]:
    """The lists that benchmarks bring along, by the name that stands for them on the command line."""
    return {name: listed for each in benchmarks() for name, listed in each.prompt_lists.items()}


def read_prompts(
    *sources: str | Path,
    words: Path | None = None,
    templates: Path | None = None,
    input_file: Path | None = None,
    explicit: bool = False,
) -> PromptList:
    """Build the prompts of one or several lists, one after the other.

    Args:
        sources: names of built-in lists; or files: words with their category (CSV or Parquet), a prompt table
            (one that has a column `prompt`; its ids are kept), a text file with a sentence in each line, or of a
            benchmark's own format, such as ImageBiTe's templates (tab-separated), BIGbench's reference shares
            (JSON) or the folder of its prompts.
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


def with_weights(prompts: PromptList, path: Path) -> PromptList:
    """The same list with weights; a prompt that has none weighs as its base prompt does.

    Args:
        prompts: any list.
        path: a table with the columns `prompt_id` and `weight`; or the file of a benchmark that has weights.

    Raises:
        DataError: mistakes in the file, all of them at once.
    """
    weigh = next(each.load(each.prompt_weights) for each in benchmarks() if each.prompt_weights is not None)
    weighed: PromptList = weigh(prompts, path)
    return weighed


class _Reader(NamedTuple):
    """Of files that need no word and no template."""

    what: str
    read: Callable[[Path], tuple[list[Prompt], list[str]]]


@dataclass(frozen=True)
class _Files:
    """What one source stands for; without a benchmark and a reader they are words and their templates."""

    name: str
    content: Path
    templates: Path
    benchmark: Benchmark | None = None
    reader: _Reader | None = None

    @property
    def format(self) -> PromptFormat | None:
        return None if self.benchmark is None else self.benchmark.prompt_format


def _prompts_of(
    files: _Files, words: Path | None, templates: Path | None, input_file: Path | None, *, explicit: bool
) -> tuple[list[Prompt], list[str]]:
    known = files.format
    what, options = ("a list of words", ("words", "templates")) if known is None else (known.what, known.options)
    if files.reader is not None:
        what, options = files.reader.what, ()
    if explicit and "explicit" not in options:
        whose = " or ".join(each.what for each in _formats().values() if "explicit" in each.options)
        raise ConfigError(f"--explicit goes with {whose}; {files.name} is none of them")
    for option, value in {"words": words, "templates": templates, "input": input_file}.items():
        if value is not None and option not in options:
            raise ConfigError(f"--{option} does not go with {what}; got {str(value)!r}")
    if files.reader is not None:
        return files.reader.read(files.content)
    if files.benchmark is None or known is None:
        return read_word_prompts(words or files.content, templates or files.templates), []
    read = files.benchmark.load(known.read)
    found: tuple[list[Prompt], list[str]] = read(
        input_file or files.content, templates or files.templates, explicit=explicit
    )
    return found


def _formats() -> dict[str, PromptFormat]:
    """By benchmark."""
    return {each.name: each.prompt_format for each in benchmarks() if each.prompt_format is not None}


def _files(source: str | Path, input_file: Path | None) -> _Files:
    for each in benchmarks():
        listed = each.prompt_lists.get(str(source))
        if listed is not None:
            content, templates = (_place(file) for file in (listed.content, listed.templates))
            return _Files(str(source), content, templates, each if listed.own_format else None)
    path = Path(source)
    if not path.exists():
        hint = nearest_hint(str(source), builtin_lists())
        raise ConfigError(f"{str(source)!r} is neither a file nor a built-in prompt list: {hint}")
    for each in benchmarks():
        known = each.prompt_format
        if known is not None and _recognised(each, known, path):
            if known.input and input_file is None:
                raise ConfigError(f"{path.name} has {known.what}; --input must name {known.input}")
            return _Files(path.name, input_file or path, path, each)
    if path.is_dir():
        raise ConfigError(f"{path}: no prompts that a benchmark recognises lie in this folder; name their file")
    return _Files(path.name, path, path.with_name("templates.csv"), reader=_reader(path))


def _recognised(benchmark: Benchmark, known: PromptFormat, path: Path) -> bool:
    try:
        return bool(benchmark.load(known.recognises)(path))
    except OSError:  # a folder, where the format is one of files
        return False


def _reader(path: Path) -> _Reader | None:
    if path.suffix.lower() == ".txt":
        return _Reader("a text file of sentences", read_sentences)
    return _Reader("a prompt table", read_prompt_table) if is_prompt_table(path) else None


def _place(file: str | Path) -> Path:
    return file if isinstance(file, Path) else resource(file)
