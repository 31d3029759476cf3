"""Answers that people gave about pairs in the labelling desk, as answers to the items of a validity sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem
from detector_bench.others.biaspainter.annotation_sheets import CANNOT_TELL, QUESTIONS, KeyEntry
from detector_bench.others.biaspainter.released_sheets import read_records

if TYPE_CHECKING:
    from detector_bench.labelling.label_table import GivenLabel

Answers = dict[str, dict[str, str]]
"""By annotator: the letter given to each answered item, or `CANNOT_TELL`."""

_ANSWER_COLUMNS = ("image_id", "annotator", "question", "answer", "label")
"""Those that are needed of what `labels export --task pairs` writes."""


class DeskAnswers(NamedTuple):
    """What people said, alone and after they had talked."""

    alone: Answers
    """Before any discussion."""
    final: Answers
    """As it counts now; `adjudicator` has what was decided together."""


def answers_in_store(path: Path, image_set: Path, key: Mapping[str, KeyEntry]) -> DeskAnswers:
    """Read the answers out of the desk's store of pairs.

    Answers to other pairs, and to questions that the sample did not draw a pair for, are left out.

    Args:
        path: the store, a SQLite file.
        image_set: the folder of its image set.
        key: what the items are.

    Raises:
        ConfigError: there is no such store, or it is not one of pairs.
    """
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import LabelStore, Task

    if not path.exists():
        raise ConfigError(
            f"there is no labelling store {str(path)!r}: `detector-bench label {image_set} --task pairs` makes one"
        )
    items = _items(key)
    with LabelStore.open(path, ImageSet.load(image_set, require_labels=False), read_only=True) as store:
        if store.settings.task is not Task.PAIRS:
            raise ConfigError(f"the store {str(path)!r} holds labels of single images, not of pairs")
        alone, final = (_of_labels(store.given(independent=each), items) for each in (True, False))
    return DeskAnswers(alone, final)


def answers_in_table(path: Path, key: Mapping[str, KeyEntry]) -> DeskAnswers:
    """Read the answers out of a table that `labels export --task pairs` wrote.

    Raises:
        DataError: with all mistakes at once.
    """
    findings = Findings()
    table = read_records(path, _ANSWER_COLUMNS, findings)
    items, found = _items(key), Answers()
    for record in range(len(table)):
        image, name, question, letter, label = (table.cell(column, record) for column in _ANSWER_COLUMNS)
        item = items.get((question, image))
        if item is None:
            continue
        letter = letter.strip().upper()
        if letter and letter not in QUESTIONS[question].meaning:
            place = (table.row(record), "answer", letter, ", ".join(QUESTIONS[question].meaning))
            findings.add(Problem(table.file, f"unknown answer about {image}", *place))
        if letter or label:
            found.setdefault(name, {})[item] = letter or CANNOT_TELL
    findings.raise_if_any()
    return DeskAnswers({name: given for name, given in found.items() if name != ADJUDICATOR}, found)


def is_answer_table(path: Path) -> bool:
    """Whether a file looks like what `labels export --task pairs` writes, and is no sheet."""
    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().strip().split(",")
    except (OSError, UnicodeDecodeError):
        return False
    return {"image_id", "annotator", "question"} <= set(header)


def _of_labels(labels: list[GivenLabel], items: Mapping[tuple[str, str], str]) -> Answers:
    from detector_bench.labelling.labels_csv import PAIR_LETTERS

    found: Answers = {}
    for given in labels:
        item = items.get((given.question.removesuffix("_change"), given.item.item_id))
        if item is not None:
            letter = PAIR_LETTERS[given.question].get(given.choice.label, CANNOT_TELL)
            found.setdefault(given.annotator, {})[item] = letter
    return found


def _items(key: Mapping[str, KeyEntry]) -> dict[tuple[str, str], str]:
    """By attribute and edited photo, the item."""
    return {(entry.attribute, entry.image_id): item for item, entry in key.items()}
