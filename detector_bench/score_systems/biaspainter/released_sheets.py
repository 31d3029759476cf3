"""Reads the sheets that BiasPainter's authors released, in long form, and scores them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from detector_bench.dataset.findings import Findings
from detector_bench.dataset.table_reading import read_any_table
from detector_bench.dataset.text_table import TextTable
from detector_bench.errors import ConfigError, Problem, nearest_hint
from detector_bench.metrics import Scopes
from detector_bench.metrics.biaspainter import PairSums, Preset, model_score, share_undetected, word_score
from detector_bench.metrics.counts import FloatArray, Score
from detector_bench.schema import METRIC_COLUMNS
from detector_bench.score_systems.biaspainter.settings import (
    MODEL_SCORE,
    UNDETECTED,
    WORD_SCORE,
    BiasPainterScores,
)
from detector_bench.vocabulary import ALL

SHEET_COLUMNS = ("seed_index", "word_index", "measure", "value")
SEED_GENDER_COLUMNS = ("seed_index", "gender")

JUDGE = "released_sheet"
"""Stands in the column `detector` of the rows: the authors' own measurements."""

_NO_FACE = 255
"""Stands in some cells of skin tone where no face was found. It counts as undetected; published scores that took
it for a number came out too high."""


@dataclass(frozen=True, slots=True)
class _Measure:
    attribute: str
    lowest: float
    highest: float
    in_words: str
    whole: bool = False

    def accepts(self, number: float) -> bool:
        """Whether a cell may hold this number."""
        return self.lowest <= number <= self.highest and (not self.whole or number == int(number))


MEASURES: dict[str, _Measure] = {
    "gender_unchanged": _Measure("gender", 0, 1, "0 (flipped), 1 (unchanged) or nothing", whole=True),
    "age_delta_years": _Measure("age", -120, 120, "years from -120 to 120, or nothing"),
    "skin_tone_delta": _Measure("skin_tone", -255, 255, "grey values from -255 to 255, or nothing"),
}


@dataclass(frozen=True, eq=False)
class ReleasedSheet:
    """One domain's measurements by one T2I model."""

    domain: str
    """The file's name without its ending."""
    seeds: tuple[int, ...]
    words: tuple[int, ...]
    measured: Mapping[str, FloatArray]
    """By measure, `[seed, word]`; NaN where nothing was detected."""


def read_sheet(path: Path | str) -> ReleasedSheet:
    """Read a sheet: CSV or Parquet with the columns seed_index, word_index, measure and value.

    Measures are `age_delta_years`, `gender_unchanged` and `skin_tone_delta` (our name; grey values). An empty
    value means undetected, and so does a skin tone of 255.

    Raises:
        DataError: with all mistakes at once: unknown measures, values out of range, cells given twice or missing.
    """
    findings = Findings()
    path = Path(path)
    table = _read(path, SHEET_COLUMNS, findings)
    seed, word = _indices(table, "seed_index", findings), _indices(table, "word_index", findings)
    number = _values(table, findings)
    findings.raise_if_any()
    seeds, words = sorted(set(seed)), sorted(set(word))
    measure = [table.cell("measure", record) for record in range(len(table))]
    values: dict[str, FloatArray] = {}
    for name in (each for each in MEASURES if each in measure):
        records = [record for record, each in enumerate(measure) if each == name]
        places = [(seeds.index(seed[record]), words.index(word[record])) for record in records]
        _check_grid(table, name, dict(zip(records, places, strict=True)), (seeds, words), findings)
        grid: FloatArray = np.full((len(seeds), len(words)), np.nan)
        for record, place in zip(records, places, strict=True):
            grid[place] = number[record]
        values[name] = np.where(grid == _NO_FACE, np.nan, grid) if name == "skin_tone_delta" else grid
    findings.raise_if_any()
    return ReleasedSheet(path.stem, tuple(seeds), tuple(words), values)


def _check_grid(
    table: TextTable,
    measure: str,
    places: Mapping[int, tuple[int, int]],
    axes: tuple[Sequence[int], Sequence[int]],
    findings: Findings,
) -> None:
    """Report pairs of seed and word that have several rows of a measure, or none."""
    seeds, words = axes
    first: dict[tuple[int, int], int] = {}
    for record, place in places.items():
        if place in first:
            pair = f"seed {seeds[place[0]]} and word {words[place[1]]}"
            message = f"given twice for {pair}, first in row {table.row(first[place])}"
            findings.add(Problem(table.file, message, table.row(record), "measure", measure, "one row each"))
        first.setdefault(place, record)
    every = [(seed, word) for word in range(len(words)) for seed in range(len(seeds))]
    if lacking := [place for place in every if place not in first]:
        seed, word = seeds[lacking[0][0]], words[lacking[0][1]]
        pairs = f"{len(lacking)} of {len(every)} pairs"
        message = f"no {measure} of {pairs}, the first is seed {seed} and word {word}"
        findings.add(Problem(table.file, message, accepted="a row for every seed and word; undetected: empty"))


def read_seed_genders(path: Path | str) -> dict[int, str]:
    """Read which seed shows whom: the columns seed_index and gender (male or female).

    Raises:
        DataError: with all mistakes at once.
    """
    findings = Findings()
    table = _read(Path(path), SEED_GENDER_COLUMNS, findings)
    seeds = _indices(table, "seed_index", findings)
    genders = {}
    for record, seed in enumerate(seeds):
        gender = table.cell("gender", record)
        problem = "unknown gender" if gender not in _DIRECTIONS else "seed given twice" if seed in genders else ""
        if problem:
            accepted = ", ".join(_DIRECTIONS) if gender not in _DIRECTIONS else "one row for each seed"
            findings.add(Problem(table.file, problem, table.row(record), "gender", gender, accepted))
        genders[seed] = gender
    findings.raise_if_any()
    return genders


def sheet_rows(
    sheets: Sequence[ReleasedSheet],
    *,
    t2i_model: str,
    settings: BiasPainterScores,
    seed_genders: Mapping[int, str] | None = None,
) -> pd.DataFrame:
    """Word and model scores of released sheets as rows of a metric table; a sheet is a category.

    Args:
        sheets: of one T2I model.
        t2i_model: its name.
        settings: the definition.
        seed_genders: whom each seed shows. The sheets tell that a gender flipped, but not which way: without this
            there are no word scores of gender, and no model score of gender under `as_formula` (NaN).

    Raises:
        ConfigError: a seed without a gender, or two sheets of one name.
    """
    names = [sheet.domain for sheet in sheets]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two sheets are called {repeated[0]!r}: the name of the file is the domain")
    rows = []
    preset = settings.definition
    for sheet in sheets:
        scopes = Scopes.of_prompts([sheet.domain] * len(sheet.words))
        for measure in sheet.measured:
            attribute = MEASURES[measure].attribute
            sums = _sums(sheet, measure, preset, seed_genders)
            place = {"attribute": attribute, "t2i_model": t2i_model, "category": sheet.domain}
            score = word_score(sums, attribute=attribute, preset=preset)
            rows += [
                {**place, "prompt_id": str(word), "metric": WORD_SCORE, **_numbers(score, (0, column))}
                for column, word in enumerate(sheet.words)
            ]
            model = model_score(sums, attribute=attribute, preset=preset, scopes=scopes)
            undetected = share_undetected(sums, scopes=scopes)
            for name, whole in ((MODEL_SCORE, model), (UNDETECTED, undetected)):
                rows.append({**place, "prompt_id": ALL, "metric": name, **_numbers(whole, (1, 1))})
    common = {
        "detector": JUDGE,
        "n_clear": None,
        "variant": settings.variant,
        "ci_low": math.nan,
        "ci_high": math.nan,
    }
    return pd.DataFrame([{**common, **row} for row in rows], columns=list(METRIC_COLUMNS))


_DIRECTIONS = {"male": 1.0, "female": -1.0}
"""The image score of a seed of this gender that flips."""


def _sums(sheet: ReleasedSheet, measure: str, preset: Preset, seed_genders: Mapping[int, str] | None) -> PairSums:
    """`[1, word]`."""
    values, attribute = sheet.measured[measure], MEASURES[measure].attribute
    scores = 1 - values if attribute == "gender" else values / preset.threshold(attribute)
    sums = PairSums.of_scores(scores[:, np.newaxis], np.ones_like(scores[:, np.newaxis], dtype=bool), axis=0)
    if attribute != "gender":
        return sums
    if seed_genders is None:
        return sums._replace(change=np.full_like(sums.change, np.nan))
    if unknown := [seed for seed in sheet.seeds if seed not in seed_genders]:
        raise ConfigError(f"sheet {sheet.domain!r}: no gender is given for seed {unknown[0]}")
    direction = np.array([_DIRECTIONS[seed_genders[seed]] for seed in sheet.seeds])[:, np.newaxis]
    return sums._replace(change=np.nansum(scores * direction, axis=0)[np.newaxis])


def _numbers(score: Score, place: tuple[int, int]) -> dict[str, float]:
    counts = {name: int(getattr(score, name)[place]) for name in ("n", "n_left_out")}
    return {"value": float(score.value[place]), **counts}


def _read(path: Path, columns: tuple[str, ...], findings: Findings) -> TextTable:
    table = read_any_table(path, findings, wanted=columns, numbers=("value",))
    if table is not None:
        for name in (each for each in columns if not table.has(each)):
            hint = nearest_hint(name, [each for each in table.columns if each not in columns])
            accepted = ",".join(columns)
            findings.add(Problem(table.file, f"the column is missing; {hint}", 1, name, None, accepted))
        if len(table) == 0:
            findings.add(Problem(table.file, "there are no records", accepted="a row for every pair"))
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    return table


def _indices(table: TextTable, column: str, findings: Findings) -> list[int]:
    bad = table.records_with(column, lambda text: not (text.isascii() and text.isdigit()))
    findings.add_rows(table, column, bad, message="not an index", accepted="a whole number from 0")
    return [int(table.cell(column, record)) if not len(bad) else 0 for record in range(len(table))]


def _values(table: TextTable, findings: Findings) -> FloatArray:
    unknown = table.records_with("measure", lambda text: text not in MEASURES)
    findings.add_rows(table, "measure", unknown, message="unknown measure", accepted=", ".join(MEASURES))
    numbers = np.full(len(table), np.nan)
    for record in np.setdiff1d(np.arange(len(table)), unknown).tolist():
        text, measure = table.cell("value", record).strip(), MEASURES[table.cell("measure", record)]
        if not text:
            continue
        try:
            numbers[record] = float(text)
        except ValueError:
            numbers[record] = math.inf
        if not measure.accepts(numbers[record]):
            place = (table.row(record), "value", text, measure.in_words)
            findings.add(Problem(table.file, f"not a value of {table.cell('measure', record)}", *place))
    return numbers
