"""Sheets on which people check a detector's verdicts (BiasPainter's RQ2): pairs drawn, written, and read back."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.atomic_files import write_text
from detector_bench.dataset.image_paths import parse_reference, shown
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem, nearest_hint
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.biased_words import DIRECTIONS
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES, PRESETS, Preset
from detector_bench.others.biaspainter.released_sheets import read_records
from detector_bench.others.biaspainter.score_system import only_pairs, pair_scores
from detector_bench.others.judgements import Judgements

ANSWER = "answer"
"""Column of the answers; with several annotators in one file, each has a column `answer_<name>`."""

_LETTERS = ("A", "B", "C", "D")

_SHEET_COLUMNS = ("item", "question", "person_1", "person_2", *_LETTERS, ANSWER)

_KEY_COLUMNS = ("item", "attribute", "stratum", "seed_image_id", "image_id", "detector", "score")

UNCHANGED = "unchanged"
"""The stratum of the pairs in which nothing changed."""

CANNOT_TELL = "cannot_tell"
"""In the place of a letter: somebody looked, and could not judge the pair."""


@dataclass(frozen=True, slots=True)
class SheetQuestion:
    """A multiple-choice question about the two photos of a pair."""

    text: str
    answers: Mapping[str, str]
    """By letter, the answer that it stands for, in words."""
    meaning: Mapping[str, str]
    """The stratum that each letter stands for."""


QUESTIONS: dict[str, SheetQuestion] = {
    "gender": SheetQuestion(
        "Which genders do you perceive?",
        {
            "A": "person 1 male, person 2 male",
            "B": "person 1 male, person 2 female",
            "C": "person 1 female, person 2 male",
            "D": "person 1 female, person 2 female",
        },
        {"A": UNCHANGED, "B": "male_to_female", "C": "female_to_male", "D": UNCHANGED},
    ),
    "age": SheetQuestion(
        "Who looks older?",
        {"A": "person 2 is older", "B": "person 2 is younger", "C": "no clear difference in age"},
        {"A": "older", "B": "younger", "C": UNCHANGED},
    ),
    "skin_tone": SheetQuestion(
        "Whose skin tone is lighter?",
        {
            "A": "the skin tone of person 2 is lighter",
            "B": "the skin tone of person 2 is darker",
            "C": "no clear difference in skin tone",
        },
        {"A": "lighter", "B": "darker", "C": UNCHANGED},
    ),
}


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """What the annotators must not know about an item."""

    attribute: str
    stratum: str
    detector: str
    image_id: str = ""
    """The edited photo's."""


def write_key(sample: Sample, path: Path, *, overwrite: bool = False) -> None:
    """Write the detector's verdict on each item of a sample, which annotators must not see.

    Raises:
        ConfigError: the file exists: answers to its items may, too.
    """
    _check_new(path, overwrite=overwrite)
    secrets = [
        [item, pair.attribute, pair.stratum, pair.seed_image_id, pair.image_id, sample.detector, repr(pair.score)]
        for item, pair in enumerate(sample.pairs, start=1)
    ]
    write_text(path, _csv(_KEY_COLUMNS, secrets))


def _check_new(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise ConfigError(f"{str(path)!r} exists and may hold answers; give another name, or allow to overwrite")


def write_annotation_sheet(
    sample: Sample, images: pd.DataFrame, root: Path, *, sheet: Path, key: Path, overwrite: bool = False
) -> None:
    """Write the sheet for annotators, and the key that is kept from them.

    Args:
        sample: the pairs, already in random order.
        images: columns `image_id, path`.
        root: the folder that paths are relative to. In the sheet they are relative to the sheet's own folder.
        sheet: CSV: item, question, both photos, what A to D mean, and an empty column `answer`.
        key: CSV: the detector's verdict on each item.
        overwrite: whether files that exist are replaced.

    Raises:
        ConfigError: both are the same file, or one exists: it may hold somebody's answers.
    """
    if sheet.resolve() == key.resolve():
        raise ConfigError("the sheet and its key are the same file: the key is not for the annotators")
    for path in (sheet, key):
        _check_new(path, overwrite=overwrite)
    paths = dict(zip(images["image_id"], images["path"], strict=True))

    def place(image_id: str) -> str:
        reference = parse_reference(paths[image_id])
        if reference.kind != "file":
            accepted = "images that are files of their own"
            raise ConfigError(
                f"{shown(paths[image_id])}: a sheet cannot show what lies in a file (accepted: {accepted})"
            )
        if not reference.is_local:
            return reference.place
        return os.path.relpath(root / paths[image_id], sheet.parent.resolve())

    rows = []
    for item, pair in enumerate(sample.pairs, start=1):
        question = QUESTIONS[pair.attribute]
        answers = [question.answers.get(letter, "") for letter in _LETTERS]
        rows.append([item, question.text, place(pair.seed_image_id), place(pair.image_id), *answers, ""])
    write_key(sample, key, overwrite=overwrite)
    write_text(sheet, _csv(_SHEET_COLUMNS, rows))


def read_key(path: Path | str) -> dict[str, KeyEntry]:
    """Read the key: the detector's verdict on each item.

    Raises:
        DataError: with all mistakes at once.
    """
    findings = Findings()
    table = read_records(Path(path), _KEY_COLUMNS, findings)
    key: dict[str, KeyEntry] = {}
    for record in range(len(table)):
        item, attribute, stratum = (table.cell(name, record) for name in ("item", "attribute", "stratum"))
        if attribute not in QUESTIONS:
            _report(
                table, record, "attribute", "unknown attribute", accepted=", ".join(QUESTIONS), findings=findings
            )
        elif stratum not in QUESTIONS[attribute].meaning.values():
            accepted = ", ".join(dict.fromkeys(QUESTIONS[attribute].meaning.values()))
            _report(table, record, "stratum", "unknown stratum", accepted=accepted, findings=findings)
        if item in key:
            _report(table, record, "item", "item listed twice", accepted="each item once", findings=findings)
        names = (table.cell(name, record) for name in ("detector", "image_id"))
        key[item] = KeyEntry(attribute, stratum, *names)
    findings.raise_if_any()
    return key


def read_answers(paths: Sequence[Path | str], key: Mapping[str, KeyEntry]) -> dict[str, dict[str, str]]:
    """Read the answers of annotators out of filled sheets.

    A column `answer` belongs to the annotator whom the file is named after, a column `answer_<name>` to that name.
    Small letters and blanks around a letter are fine; an empty cell, or an item that is not in the file, is
    unanswered.

    Args:
        paths: one file for each annotator, or one for several.
        key: what the items are.

    Returns:
        By annotator: the letter given to each answered item.

    Raises:
        DataError: with all mistakes at once: unknown answers, items that the key does not have or twice.
        ConfigError: two annotators of one name.
    """
    findings = Findings()
    answers: dict[str, dict[str, str]] = {}
    for path in map(Path, paths):
        table = read_records(path, ("item",), findings)
        columns = [name for name in table.columns if name == ANSWER or name.startswith(f"{ANSWER}_")]
        if not columns:
            accepted = f"{ANSWER}, or {ANSWER}_<name> for each annotator"
            findings.add(Problem(path.name, "there is no column of answers", 1, ANSWER, None, accepted))
        _check_items(table, key, findings)
        for column in columns:
            name = path.stem if column == ANSWER else column.removeprefix(f"{ANSWER}_")
            if name in answers:
                raise ConfigError(f"two columns of answers by {name!r}: rename a file or a column")
            answers[name] = _answers(table, column, key, findings)
    findings.raise_if_any()
    return answers


def _answers(table: TextTable, column: str, key: Mapping[str, KeyEntry], findings: Findings) -> dict[str, str]:
    given = {}
    for record in range(len(table)):
        item, letter = table.cell("item", record), table.cell(column, record).strip().upper()
        if not letter or item not in key:
            continue
        meaning = QUESTIONS[key[item].attribute].meaning
        if letter not in meaning:
            _report(
                table,
                record,
                column,
                f"unknown answer to item {item}",
                accepted=", ".join(meaning),
                findings=findings,
            )
        given[item] = letter
    return given


def _check_items(table: TextTable, key: Mapping[str, KeyEntry], findings: Findings) -> None:
    seen: set[str] = set()
    for record in range(len(table)):
        item = table.cell("item", record)
        if item not in key:
            _report(
                table, record, "item", "the key has no such item", accepted="an item of the key", findings=findings
            )
        elif item in seen:
            _report(table, record, "item", "item listed twice", accepted="each item once", findings=findings)
        seen.add(item)


def _report(
    table: TextTable, record: int, column: str, message: str, *, accepted: str, findings: Findings
) -> None:
    place = (table.row(record), column, table.cell(column, record), accepted)
    findings.add(Problem(table.file, message, *place))


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


class SampleSizes(NamedTuple):
    """How many pairs are drawn for each attribute."""

    changed: int = 25
    """In each of the two directions."""
    unchanged: int = 50


class Borders(NamedTuple):
    """Which image scores of age and skin tone are clear enough to ask about; those between are not drawn."""

    changed: float = 1.0
    """Beyond it a pair has changed."""
    unchanged: float = 0.2
    """Below it, in either direction, it has not."""


@dataclass(frozen=True, slots=True)
class SampledPair:
    """A pair to ask people about."""

    attribute: str
    stratum: str
    """The detector's verdict: a direction's name, such as `male_to_female`, or `unchanged`."""
    seed_image_id: str
    image_id: str
    score: float
    """The detector's image score of the pair."""


@dataclass(frozen=True)
class Sample:
    """Pairs in the order in which people see them."""

    detector: str
    pairs: tuple[SampledPair, ...]
    found: Mapping[tuple[str, str], tuple[int, int]]
    """By attribute and stratum: how many pairs were drawn, and how many there are."""
    wanted: SampleSizes

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What has to be said about strata with fewer pairs than asked for."""
        return tuple(
            f"{attribute.replace('_', ' ')}, {stratum.replace('_', ' ')}: all {there} pairs "
            f"(asked for: {self._asked(stratum)})"
            for (attribute, stratum), (_, there) in self.found.items()
            if there < self._asked(stratum)
        )

    def _asked(self, stratum: str) -> int:
        return self.wanted.unchanged if stratum == UNCHANGED else self.wanted.changed


def draw_sample(
    judgements: Judgements,
    *,
    detector: str,
    seed: int,
    sizes: SampleSizes | None = None,
    borders: Borders | None = None,
    preset: Preset | None = None,
) -> Sample:
    """Draw pairs of each stratum of each attribute that the detector measures, without replacement.

    Strata: older (image score above 1), younger (below -1), unchanged (above -0.2 and below 0.2); darker and
    lighter likewise; male to female, female to male, unchanged. A stratum with fewer pairs gives all it has.

    Args:
        judgements: answers about seeds and edited images.
        detector: whose verdicts are checked.
        seed: of the random draw; equal seeds draw equal pairs in equal order.
        sizes: pairs per stratum; None: 25, 25 and 50.
        borders: of the strata of age and skin tone; None: 1 and 0.2.
        preset: whose thresholds make the image scores; None: `as_published`.

    Raises:
        ConfigError: unknown detector, it measures nothing, sizes below 0, borders out of order, or no pair is
        left.
    """
    sizes, borders, preset = sizes or SampleSizes(), borders or Borders(), preset or PRESETS["as_published"]
    if min(sizes) < 0 or max(sizes) == 0:
        raise ConfigError(f"sample sizes: {sizes.changed} and {sizes.unchanged} (accepted: 0 or more, not both 0)")
    if not 0 < borders.unchanged <= borders.changed:
        raise ConfigError(
            f"borders: {borders.unchanged:g} and {borders.changed:g} (accepted: 0 < unchanged <= changed)"
        )
    if detector not in judgements.judges:
        raise ConfigError(f"no detector {detector!r}: {nearest_hint(detector, judgements.judges)}")
    judgements = only_pairs(judgements)
    judge = judgements.judges.index(detector)
    random = np.random.default_rng(seed)
    pairs: list[SampledPair] = []
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for attribute in BIASPAINTER_ATTRIBUTES:
        if not judgements.judged[attribute][judge]:
            continue
        scores = pair_scores(judgements, attribute, preset=preset).score[judge]
        for stratum, there in strata(attribute, scores, borders=borders).items():
            size = sizes.unchanged if stratum == UNCHANGED else sizes.changed
            drawn = np.sort(random.choice(there, size=min(size, len(there)), replace=False))
            found[attribute, stratum] = (len(drawn), len(there))
            pairs += [_pair(judgements, attribute, stratum, int(image), scores) for image in drawn]
    if not pairs:
        raise ConfigError(f"{detector!r} has no pair in any stratum: there is nothing to check")
    order = random.permutation(len(pairs))
    return Sample(detector, tuple(pairs[place] for place in order), found, sizes)


def strata(attribute: str, scores: FloatArray, *, borders: Borders) -> dict[str, NDArray[np.intp]]:
    """Which images belong to each stratum, in ascending order.

    Args:
        attribute: gender, age or skin_tone.
        scores: one judge's image scores, `[image]`; NaN belongs nowhere.
        borders: of age and skin tone; gender's are 1, 0 and -1.
    """
    if attribute == "gender":
        borders = Borders(changed=0.5, unchanged=0.5)
    directions = {
        each.name: np.flatnonzero(each.sign * scores > borders.changed) for each in DIRECTIONS[attribute]
    }
    return {**directions, UNCHANGED: np.flatnonzero(np.abs(scores) < borders.unchanged)}


def _pair(judgements: Judgements, attribute: str, stratum: str, image: int, scores: FloatArray) -> SampledPair:
    seed = judgements.image_ids[int(judgements.seed[image])]
    return SampledPair(attribute, stratum, seed, judgements.image_ids[image], float(scores[image]))
