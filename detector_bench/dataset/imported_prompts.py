"""The prompts of imported images: from a file, from lists of known words, or from what names and tables say."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from detector_bench.dataset.foreign.table_files import read_foreign_table
from detector_bench.dataset.foreign.table_form import TableOptions
from detector_bench.dataset.image_listing import ListedImage
from detector_bench.dataset.image_tree import prompt_ids
from detector_bench.dataset.import_decisions import ImportNews
from detector_bench.dataset.known_prompts import KnownPrompt, KnownPrompts
from detector_bench.dataset.prompts import PromptFile, ids_of_folders, import_prompts
from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.errors import Problem
from detector_bench.vocabulary.columns import PROMPT_COLUMNS, optional_prompt_columns

_LONGEST_ID = 60


def read_prompt_file(path: Path, options: TableOptions, findings: Findings, news: ImportNews) -> PromptFile | None:
    """A table of prompts in any format; None: it cannot be read (then `findings` says why)."""
    table, form = read_foreign_table(path, findings, options)
    if table is None:
        return None
    news.recognised.append((f"prompts {path.name}", f"{form}; {len(table):,} rows"))
    return PromptFile.of(table, findings)


def whole_prompt_table(prompts: PromptFile, images: Sequence[ListedImage], findings: Findings) -> TextTable:
    """The table of an image set's own prompts as it is, also those that no image was made with."""
    table = prompts.table
    known = {name.strip() for name in table.column("prompt_id").to_pylist()}
    missing = sorted({image.tree.prompt for image in images} - known - {""})
    findings.add_kind([Problem(table.file, "no row for a prompt", None, "prompt_id", name) for name in missing])
    columns = (*PROMPT_COLUMNS, *optional_prompt_columns())
    return table.select(name for name in columns if table.has(name))


def prompts_of_file(
    images: Sequence[ListedImage], prompts: PromptFile, *, category: str, findings: Findings
) -> tuple[dict[str, str], TextTable]:
    """The id of each prompt by what the source calls it, and the rows of a file for them."""
    trees = [image.tree for image in images if image.tree.prompt]
    ids = ids_of_folders(trees, prompts)
    for name, prompt_id in ids.items():
        if len(prompt_id) > _LONGEST_ID and prompt_id not in prompts.by_id and " " in name:
            ids[name] = _short(prompt_id, name)
    return ids, import_prompts(ids, prompts, category=category, findings=findings)


def recognised_prompts(
    images: Sequence[ListedImage],
    known: KnownPrompts,
    *,
    category: str,
    findings: Findings,
    news: ImportNews,
) -> tuple[dict[str, str], TextTable]:
    """The same of what the source says alone, and of known words and sentences."""
    about = _what_is_said(images, findings)
    found: dict[str, KnownPrompt] = {}
    for name, image in about.items():
        prompt = known.find(name, image.prompt, image.word)
        if prompt is not None:
            found[name] = prompt
    ids = _ids(about, found)
    rows: dict[str, tuple[str, str, str, str]] = {}
    for name, image in about.items():
        prompt = found.get(name)
        own_category = image.category or (category if prompt is None else prompt.category)
        word = image.word or (image.prompt or _word_of(name) if prompt is None else prompt.word)
        sentence = image.prompt or ("" if prompt is None else prompt.prompt)
        rows.setdefault(ids[name], (ids[name], own_category, word, sentence))
    _say(rows, about, found, category, news)
    cells = zip(*rows.values(), strict=True) if rows else [()] * len(PROMPT_COLUMNS)
    return ids, TextTable("prompts.csv", text_columns(dict(zip(PROMPT_COLUMNS, map(list, cells), strict=True))))


def _what_is_said(images: Sequence[ListedImage], findings: Findings) -> dict[str, ListedImage]:
    """By what the source calls a prompt, the first image that has it; two sentences of one are reported."""
    about: dict[str, ListedImage] = {}
    twice: dict[str, Problem] = {}
    for image in images:
        name = image.tree.prompt
        if not name:
            continue
        first = about.setdefault(name, image)
        if image.prompt != first.prompt and name not in twice:
            message = "prompt with two sentences"
            accepted = f"one sentence for each prompt; another image says {first.prompt!r}"
            twice[name] = Problem(image.path, message, None, "prompt", image.prompt, accepted)
    findings.add_kind([*twice.values()])
    return {name: about[name] for name in sorted(about)}


def _ids(about: Mapping[str, ListedImage], found: Mapping[str, KnownPrompt]) -> dict[str, str]:
    plain = prompt_ids([image.tree for image in about.values()])
    own = {prompt.prompt_id for prompt in found.values()}
    ids: dict[str, str] = {}
    same: dict[str, str] = {}  # by its letters, whose marks some systems write apart
    for name in about:
        if (known := same.setdefault(unicodedata.normalize("NFC", name), name)) != name:
            ids[name] = ids[known]
            continue
        prompt_id = plain[name] if name not in found else found[name].prompt_id
        if name not in found:
            while prompt_id in own:
                prompt_id = f"{prompt_id}_"
            is_sentence = about[name].prompt != ""
            if is_sentence and len(prompt_id) > _LONGEST_ID:
                prompt_id = _short(prompt_id, name)
        ids[name] = prompt_id
    return ids


def _short(prompt_id: str, name: str) -> str:
    return f"{prompt_id[:_LONGEST_ID]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _word_of(name: str) -> str:
    return name.replace("_", " ").strip() or name


def _say(
    rows: Mapping[str, tuple[str, str, str, str]],
    about: Mapping[str, ListedImage],
    found: Mapping[str, KnownPrompt],
    category: str,
    news: ImportNews,
) -> None:
    lists = Counter(prompt.list_name for prompt in found.values())
    number = f"{len(about):,} prompt{'' if len(about) == 1 else 's'}"
    for name, count in lists.items():
        news.notes.append(
            f"{count:,} of {number} are known from {name!r}, which gives their category"
            + (" and text" if any(not about[each].prompt for each in found) else "")
        )
    bare = [row for row in rows.values() if row[1] == category and not row[3]]
    if bare:
        one = len(bare) == 1
        have = f"{len(bare):,} prompt{' has' if one else 's have'} the category {category!r} and no text"
        news.notes.append(f"{have}; a file of prompts (--prompts) names {'it' if one else 'them'}")
