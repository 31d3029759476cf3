"""Reads the sheets that BiasPainter's authors released, in long form; `score_system.sheet_rows` scores them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from detector_bench.dataset.consensus import as_numbers
from detector_bench.dataset.table_reading import read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem, nearest_hint
from detector_bench.metrics.counts import FloatArray

BRIGHTNESS = "face_brightness"
"""The skin tone of the edited photos themselves, as the released sheets of it hold, and not its change."""

SHEET_COLUMNS = ("seed_index", "word_index", "measure", "value")
SEED_GENDER_COLUMNS = ("seed_index", "gender")
SEED_BRIGHTNESS_COLUMNS = ("seed_index", BRIGHTNESS)

SEED_GENDERS = ("male", "female")

_NO_FACE = 255
"""Stands in some cells of skin tone where no face was found. It counts as undetected; published scores that took
it for a number came out too high."""

_YEARS_AS_PARTS_OF = 25
"""Years that the paper divides an age difference by."""

_DARKEST_FACE = 20
"""No face is darker than this grey value, and no sheet of changes has nothing but larger numbers: that would be an
edit that makes everybody far lighter."""

_ENOUGH_TO_TELL = 10
"""Of fewer pairs, all may well become lighter."""


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
    BRIGHTNESS: _Measure("skin_tone", 0, 255, "grey values from 0 to 255, or nothing"),
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
    unmeasured: Mapping[str, tuple[int, ...]]
    """By measure, words of which the sheet has no row: nothing is known of them, and no pair of theirs counts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the sheet lacks, in words."""
        return tuple(
            f"{self.domain}: the sheet has no {measure} of word {', '.join(map(str, words))} "
            f"({len(words)} of {len(self.words)} words): no score there"
            for measure, words in self.unmeasured.items()
            if words
        )


def read_sheet(path: Path | str) -> ReleasedSheet:
    """Read a sheet: CSV or Parquet with the columns seed_index, word_index, measure and value.

    Measures are `age_delta_years`, `gender_unchanged`, and for skin tone `skin_tone_delta` (our name; grey values)
    or `face_brightness`, which is that of the edited photo alone. An empty value means undetected, and so does a
    skin tone of 255. A measure may lack all rows of a word, as ages do in the released sheet of personality.

    Raises:
        DataError: with all mistakes at once: unknown measures, values out of range, cells given twice or missing,
            ages that were divided already, brightness in the place of its change.
    """
    findings = Findings()
    path = Path(path)
    return sheet_of_table(_read(path, SHEET_COLUMNS, findings), path.stem)


def sheet_of_table(table: TextTable, domain: str) -> ReleasedSheet:
    """A sheet out of a table with the columns of `read_sheet`, from whatever file it comes.

    Raises:
        DataError: as `read_sheet`.
    """
    findings = Findings()
    seed, word = _indices(table, "seed_index", findings), _indices(table, "word_index", findings)
    number = _values(table, findings)
    findings.raise_if_any()
    seeds, words = sorted(set(seed)), sorted(set(word))
    measure = [table.cell("measure", record) for record in range(len(table))]
    values: dict[str, FloatArray] = {}
    unmeasured: dict[str, tuple[int, ...]] = {}
    for name in (each for each in MEASURES if each in measure):
        records = [record for record, each in enumerate(measure) if each == name]
        places = [(seeds.index(seed[record]), words.index(word[record])) for record in records]
        unmeasured[name] = tuple(
            words[column] for column in sorted(set(range(len(words))) - {w for _, w in places})
        )
        _check_grid(table, name, dict(zip(records, places, strict=True)), (seeds, words), findings)
        grid: FloatArray = np.full((len(seeds), len(words)), np.nan)
        for record, place in zip(records, places, strict=True):
            grid[place] = number[record]
        values[name] = grid
    findings.raise_if_any()
    return checked_sheet(ReleasedSheet(domain, tuple(seeds), tuple(words), values, unmeasured), table.file)


def checked_sheet(sheet: ReleasedSheet, file: str) -> ReleasedSheet:
    """The sheet with nothing in the place of a skin tone of 255, which stands for no face.

    Args:
        sheet: as its file says.
        file: its name, for messages.

    Raises:
        DataError: numbers that are in range and yet cannot be what their measure says.
    """
    findings = Findings()
    measured = {
        name: np.where(grid == _NO_FACE, np.nan, grid) if MEASURES[name].attribute == "skin_tone" else grid
        for name, grid in sheet.measured.items()
    }
    _check_meaning(file, measured, findings)
    findings.raise_if_any()
    return replace(sheet, measured=measured)


def _check_meaning(file: str, values: Mapping[str, FloatArray], findings: Findings) -> None:
    """Report numbers that are in range and yet cannot be what their measure says."""
    ages = _known(values, "age_delta_years")
    if _are_divided(ages):
        message = f"these are years divided by {_YEARS_AS_PARTS_OF} already, not years (the largest is"
        accepted = f"years; multiply the column by {_YEARS_AS_PARTS_OF}"
        findings.add(Problem(file, f"{message} {np.abs(ages).max():g})", None, "age_delta_years", None, accepted))
    changes = _known(values, "skin_tone_delta")
    if len(changes) >= _ENOUGH_TO_TELL and changes.min() > _DARKEST_FACE:
        message = (
            f"these are the edited photos' own brightness, {changes.min():.0f} to {changes.max():.0f}, no change"
        )
        accepted = f"the measure {BRIGHTNESS}, with the seeds' brightness beside it, or differences"
        findings.add(Problem(file, message, None, "skin_tone_delta", None, accepted))
    if "skin_tone_delta" in values and BRIGHTNESS in values:
        message = "the change and the brightness itself are both there"
        findings.add(Problem(file, message, None, "measure", None, f"skin_tone_delta or {BRIGHTNESS}"))


def _known(values: Mapping[str, FloatArray], measure: str) -> FloatArray:
    grid = values.get(measure, np.empty(0))
    return grid[~np.isnan(grid)]


def _are_divided(ages: FloatArray) -> bool:
    """Whether all are whole years divided by 25, which differences in tenths of years are not."""
    if not len(ages) or np.abs(ages).max() > MEASURES["age_delta_years"].highest / _YEARS_AS_PARTS_OF:
        return False
    years, tenths = ages * _YEARS_AS_PARTS_OF, ages * 10
    return bool(
        np.allclose(years, years.round(), atol=1e-3) and not np.allclose(tenths, tenths.round(), atol=1e-3)
    )


def _check_grid(
    table: TextTable,
    measure: str,
    places: Mapping[int, tuple[int, int]],
    axes: tuple[Sequence[int], Sequence[int]],
    findings: Findings,
) -> None:
    """Report pairs of seed and word that have several rows of a measure, or none where the word has others."""
    seeds, words = axes
    first: dict[tuple[int, int], int] = {}
    for record, place in places.items():
        if place in first:
            pair = f"seed {seeds[place[0]]} and word {words[place[1]]}"
            message = f"given twice for {pair}, first in row {table.row(first[place])}"
            findings.add(Problem(table.file, message, table.row(record), "measure", measure, "one row each"))
        first.setdefault(place, record)
    measured = {word for _, word in first}
    every = [(seed, word) for word in range(len(words)) if word in measured for seed in range(len(seeds))]
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
        problem = "unknown gender" if gender not in SEED_GENDERS else "seed given twice" if seed in genders else ""
        if problem:
            accepted = ", ".join(SEED_GENDERS) if gender not in SEED_GENDERS else "one row for each seed"
            findings.add(Problem(table.file, problem, table.row(record), "gender", gender, accepted))
        genders[seed] = gender
    findings.raise_if_any()
    return genders


def read_seed_brightness(path: Path | str) -> dict[int, float]:
    """Read the skin tone of the seed photos: the columns seed_index and face_brightness (grey values, 0 to 255).

    Raises:
        DataError: with all mistakes at once.
    """
    findings = Findings()
    table = _read(Path(path), SEED_BRIGHTNESS_COLUMNS, findings)
    seeds = _indices(table, "seed_index", findings)
    brightness: dict[int, float] = {}
    for record, (seed, number) in enumerate(
        zip(seeds, as_numbers(table.column(BRIGHTNESS)).tolist(), strict=True)
    ):
        if not 0 <= number < _NO_FACE:
            accepted = f"a grey value from 0 to below {_NO_FACE}"
            problem = Problem(table.file, "no brightness of a face", table.row(record), BRIGHTNESS)
            findings.add(replace(problem, value=table.cell(BRIGHTNESS, record), accepted=accepted))
        elif seed in brightness:
            problem = Problem(table.file, "seed given twice", table.row(record), "seed_index", str(seed))
            findings.add(replace(problem, accepted="one row for each seed"))
        brightness[seed] = number
    findings.raise_if_any()
    return brightness


def read_records(
    path: Path, columns: tuple[str, ...], findings: Findings, *, numbers: tuple[str, ...] = ()
) -> TextTable:
    """Read a table that has these columns.

    Raises:
        DataError: with all mistakes so far: no such file, or columns that are missing.
    """
    table = read_any_table(path, findings, wanted=columns, numbers=numbers)
    if table is not None:
        for name in (each for each in columns if not table.has(each)):
            hint = nearest_hint(name, [each for each in table.columns if each not in columns])
            findings.add(Problem(table.file, f"the column is missing; {hint}", 1, name, None, ",".join(columns)))
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    return table


def _read(path: Path, columns: tuple[str, ...], findings: Findings) -> TextTable:
    table = read_records(path, columns, findings, numbers=("value", BRIGHTNESS))
    if len(table) == 0:
        findings.add(Problem(table.file, "there are no records", accepted="a row for every pair"))
    findings.raise_if_any()
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
