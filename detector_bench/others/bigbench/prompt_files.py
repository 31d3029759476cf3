"""BIGbench's released prompts, and all files that prompts are read from: its text files, and its reference shares.

A text file has a line `--prompt "SENTENCE, SCENE"` for each image. What stands before the first comma is what
BIGbench scores by, so that all lines with the same beginning are one prompt here, and the lines are its wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import ConfigError, Problem
from detector_bench.limited_text import no_text_in
from detector_bench.others.bigbench.entry import with_weights
from detector_bench.others.bigbench.prompts import (
    SOCIAL_RELATION,
    UNKNOWN_CATEGORY,
    explicit_prompts,
    note_on_pairs,
    read_reference_prompts,
)
from detector_bench.others.bigbench.references import listing
from detector_bench.others.bigbench.released_files import WEIGHTS_FILE, truth_folder
from detector_bench.others.bigbench.sentences import Sentence, in_order, read_sentence
from detector_bench.prompt_lists import Prompt, PromptList
from detector_bench.prompt_lists.prompt_list import ONE_LINE
from detector_bench.prompt_lists.text_lines import TextLine, read_lines

_LINE = re.compile(r"""--prompt\s+(?:"(?P<plain>.*)"|'(?P<single>.*)')\s*""")
_OPTION = "--prompt"
_PROMPT_FOLDERS = ("data/prompt", "prompt")
_LINES_TRIED = 20
_NOTED = 3


def is_bigbench_source(path: Path) -> bool:
    """Whether prompts are read from it as BIGbench's: JSON, a text file with its lines, or a folder with such."""
    if path.is_dir():
        return any(_has_lines(file) for file in _text_files(path))
    return path.suffix.lower() == ".json" or (path.suffix.lower() == ".txt" and _has_lines(path))


def read_bigbench_prompts(
    content: Path,
    templates: Path,  # noqa: ARG001 - of other formats
    *,
    explicit: bool = False,
) -> tuple[list[Prompt], list[str]]:
    """The prompts of a file with reference shares, and after them, where asked for, their explicit ones; or those
    of its prompt files.

    Raises:
        ConfigError: explicit ones are asked for, and the prompt files have what they have.
        DataError: mistakes in the files, all of them at once.
    """
    if content.suffix.lower() == ".json":
        prompts, notes = read_reference_prompts(content)
        more, said = explicit_prompts(prompts) if explicit else ([], [])
        return [*prompts, *more], [*notes, *said]
    if explicit:
        raise ConfigError(
            f"--explicit goes with BIGbench's reference shares; {content.name} has its prompts themselves, and "
            "those that ask for somebody are among them"
        )
    return read_prompt_files(content)


class _Entry(NamedTuple):
    """The lines of one prompt."""

    sentence: Sentence
    first: TextLine
    wordings: list[str]


def read_prompt_files(source: Path) -> tuple[list[Prompt], list[str]]:
    """Read BIGbench's prompts from their files.

    Prompts that ask for nobody come first in each category, in the order of the files, and after them those that
    ask for somebody, in the order of `prompts.explicit_prompts`: so that prompts have the same ids here and there.
    Their weights are taken from the program's `data/truth/weight.json`, where that is beside them.

    Args:
        source: a text file; a folder with such in any depth; or that of the whole program, with `data/prompt`.

    Returns:
        The prompts, and notes for the reader: how many lines there are, and all that is odd in them.

    Raises:
        DataError: a file that cannot be read, or a line without a sentence; all mistakes at once.
    """
    findings = Findings()
    files = [source] if source.is_file() else [file for file in _text_files(source) if _has_lines(file)]
    entries: dict[str, _Entry] = {}
    seen: dict[str, TextLine] = {}
    odd: list[str] = []
    repeated: list[str] = []
    n_lines = 0
    for line in (each for file in files for each in read_lines(file, findings)):
        text = _sentence_of(line, findings, odd)
        if text is None:
            continue
        n_lines += 1
        if text in seen:
            repeated.append(f"{line.place} (as {seen[text].place})")
        seen.setdefault(text, line)
        sentence = read_sentence(text)
        entries.setdefault(sentence.text, _Entry(sentence, line, [])).wordings.append(text)
    if not entries and not findings:
        accepted = 'lines such as --prompt "a photo of one Dancer, on a stage"'
        findings.add(Problem(source.name, "no prompts", accepted=accepted))
    findings.raise_if_any()
    ordered = [entries[sentence.text] for sentence in in_order(entry.sentence for entry in entries.values())]
    prompts = [prompt for entry in ordered for prompt in entry.sentence.prompts(wordings=_several(entry))]
    notes = [*_notes(ordered, n_lines, n_files=len(files)), *_noted("line of another form, taken as it is", odd)]
    notes += _noted("line that another one repeats, kept", repeated)
    return _with_weights(source, prompts, notes)


def _text_files(folder: Path) -> Iterator[Path]:
    below = next((folder / name for name in _PROMPT_FOLDERS if (folder / name).is_dir()), folder)
    yield from sorted(path for path in below.rglob("*.txt") if path.is_file())


def _has_lines(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return any(line.lstrip().startswith(_OPTION) for line in islice(file, _LINES_TRIED))
    except OSError:
        return False


def _sentence_of(line: TextLine, findings: Findings, odd: list[str]) -> str | None:
    """The sentence of a line; None where there is none, which is a mistake."""
    found = _LINE.fullmatch(line.text)
    if found is not None:
        text = found.group("plain") if found.group("plain") is not None else found.group("single")
    else:
        text = line.text.removeprefix(_OPTION).strip().strip("\"'")
        odd.append(f"{line.place}: {shorten(line.text)!r}")
    if not text.partition(",")[0].strip():
        findings.add(
            line.problem("a prompt with nothing before its first comma", accepted='--prompt "SENTENCE, SCENE"')
        )
        return None
    if sign := no_text_in(text):
        findings.add(line.problem(f"control character {sign}", accepted=ONE_LINE))
        return None
    return text.strip()


def _several(entry: _Entry) -> tuple[str, ...]:
    return () if entry.wordings == [entry.sentence.text] else tuple(entry.wordings)


def _notes(entries: list[_Entry], n_lines: int, *, n_files: int) -> Iterator[str]:
    each = {len(entry.wordings) for entry in entries}
    wordings = f"{min(each):,}" if len(each) == 1 else f"{min(each):,} to {max(each):,}"
    yield (
        f"{n_lines:,} lines in {n_files:,} files are {len(entries):,} prompts with {wordings} wordings each: "
        "image number n of a prompt gets its wording n."
    )
    if n_pairs := sum(entry.sentence.category == SOCIAL_RELATION for entry in entries):
        yield note_on_pairs(n_pairs)
    unknown = [
        f"{each.first.place}: {each.sentence.text!r}"
        for each in entries
        if each.sentence.category == UNKNOWN_CATEGORY
    ]
    yield from _noted("prompt of no known form, which is taken to ask for nobody", unknown)
    nearly = [
        f"{each.first.place}: {each.sentence.text!r} ({meant}?)"
        for each in entries
        if (meant := each.sentence.nearly_asks())
    ]
    yield from _noted("prompt that may be misspelt, and is taken to ask for nobody", nearly)
    sentences = {entry.sentence.text for entry in entries}
    without = [
        entry.sentence.text for entry in entries if entry.sentence.asks and entry.sentence.base not in sentences
    ]
    yield from _noted("prompt whose base prompt is not among them", without)


def _noted(what: str, places: Iterable[str]) -> Iterator[str]:
    """One note on all places."""
    if known := list(places):
        head, comma, rest = what.partition(",")
        words = head.split(" ", 1)
        many = f"{words[0]}s {words[1]}{comma}{rest}" if len(known) > 1 else what
        yield f"{len(known):,} {many}: {listing(known, shown=_NOTED)}"


def _with_weights(source: Path, prompts: list[Prompt], notes: list[str]) -> tuple[list[Prompt], list[str]]:
    """The prompts with the weights that lie beside them, if there are any."""
    file = truth_folder(source) / WEIGHTS_FILE
    if not file.is_file():
        return prompts, notes
    weighed = with_weights(PromptList.of(source.name, prompts), file)
    known = list(weighed.prompts.values())
    if any(weighed.weight_of(prompt_id) is None for prompt_id in weighed.prompts):
        return prompts, [*notes, f"{file.name} has no weight for some prompts, so that none has one."]
    return known, [*notes, f"Weights: {file.name}.", *weighed.notes]
