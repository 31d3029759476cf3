"""Finds BiasPainter's released sheets in folders, in each of the forms that they are handed on in.

| file | what it holds |
|---|---|
| `<domain>.csv`, `<domain>_face_brightness.csv` | long, as `released_sheets.read_sheet` takes it |
| `sd15_age_behavior.xlsx` and the like, or `.csv` | a row per seed, a column per word, no header: as released |
| `race_original.csv` | one brightness per seed, no header: as released |
| `seeds.csv` | `seed_index` with `face_brightness`, or `grey_as_released` and `grey_without_jpeg` |

A spreadsheet may also hold the long form. All other files are left out, and named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.errors import ConfigError, Problem
from detector_bench.installation import require
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.released.published import SEED_NAMES, released_words
from detector_bench.others.biaspainter.released_sheets import (
    BRIGHTNESS,
    MEASURES,
    SHEET_COLUMNS,
    ReleasedSheet,
    checked_sheet,
    read_sheet,
    sheet_of_table,
)

_MODELS = {
    "sd15": "sd1_5",
    "sd21": "sd2_1",
    "sdxl": "sdxl",
    "midj": "midjourney",
    "pix2pix": "instruct_pix2pix",
}
_DOMAINS = {"behavior": "activity", "item": "object", "personality": "personality", "profession": "profession"}
_MEASURES = {"age": "age_delta_years", "gender": "gender_unchanged", "race": BRIGHTNESS}
_WIDE = re.compile(rf"({'|'.join(_MODELS)})_({'|'.join(_MEASURES)})_({'|'.join(_DOMAINS)})")

AUTHORS_FILE, WITH_JPEG, WITHOUT_JPEG = "authors' file", "with JPEG", "without JPEG"
"""Ways in which the seeds' brightness was measured: by the authors, by their program, by it without its files."""

_SEED_COLUMNS = {BRIGHTNESS: AUTHORS_FILE, "grey_as_released": WITH_JPEG, "grey_without_jpeg": WITHOUT_JPEG}

_BOOLEANS = {"true": "1", "false": "0", "1": "1", "0": "0", "1.0": "1", "0.0": "0"}


class ModelSheet(NamedTuple):
    """A sheet of one T2I model, domain and measure, or of several measures."""

    t2i_model: str
    category: str
    sheet: ReleasedSheet

    @property
    def words(self) -> tuple[str, ...]:
        """The sheet's words by the place of their columns; "" for one that cannot be named."""
        known, indices = released_words().get(self.category, ()), self.sheet.words
        # Of fewer words that are merely numbered through, nobody knows which is missing.
        can_be_placed = len(indices) == len(known) or indices != tuple(range(len(indices)))
        return tuple(known[index] if can_be_placed and index < len(known) else "" for index in indices)


@dataclass(frozen=True, eq=False)
class ReleasedFolder:
    """All that was found in folders."""

    sheets: tuple[ModelSheet, ...]
    seeds: Mapping[str, FloatArray]
    """The seeds' brightness by how it was measured, in the order of its reliability for the published numbers."""
    portraits: pd.DataFrame | None = None
    """Columns `grey_as_released, grey_without_jpeg`, of other photos, a row for each with a face."""
    notes: tuple[str, ...] = ()
    """What was left out or is lacking."""


@dataclass
class _Found:
    sheets: list[ModelSheet] = field(default_factory=list)
    seeds: dict[str, FloatArray] = field(default_factory=dict)
    portraits: pd.DataFrame | None = None
    ignored: list[str] = field(default_factory=list)


def read_released_folders(folders: Sequence[Path], *, t2i_model: str = "sd1_5") -> ReleasedFolder:
    """Read every sheet in these folders.

    Args:
        folders: looked through without their subfolders.
        t2i_model: whose the long sheets are; the names of the others say it.

    Raises:
        ConfigError: a folder that is none, or no sheet in any of them.
        DataError: with all mistakes of a file: its name, row and column.
        MissingExtraError: a spreadsheet, and openpyxl is not installed.
    """
    found = _Found()
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{str(folder)!r} is no folder; name the one that holds the released sheets")
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in (".csv", ".parquet", ".xlsx") and not path.name.startswith((".", "~$")):
                _read(path, found, t2i_model=t2i_model)
    if not found.sheets:
        names = ", ".join(str(folder) for folder in folders)
        accepted = "activity.csv with the columns " + ",".join(SHEET_COLUMNS) + ", or sd15_age_behavior.xlsx"
        raise ConfigError(f"no released sheet in {names} (accepted: files such as {accepted})")
    _refuse_doubles(found.sheets)
    seeds = {name: found.seeds[name] for name in _SEED_COLUMNS.values() if name in found.seeds}
    notes = [
        f"{each.category}, {each.t2i_model}: {note.partition(': ')[2]}"
        for each in found.sheets
        for note in each.sheet.notes
    ]
    notes += [note for each in found.sheets if (note := _lacking(each))]
    if found.ignored:
        notes.append(f"Not read, as they are no sheets: {', '.join(found.ignored)}.")
    return ReleasedFolder(tuple(found.sheets), seeds, found.portraits, tuple(notes))


def _refuse_doubles(sheets: Sequence[ModelSheet]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for each in sheets:
        for measure in each.sheet.measured:
            place = (each.t2i_model, each.category, measure)
            if place in seen:
                raise ConfigError(
                    f"two sheets have the {measure} of {each.category} by {each.t2i_model}: leave one out, or say "
                    "with --t2i-model whose the long ones are"
                )
            seen.add(place)


def _lacking(each: ModelSheet) -> str:
    whole = len(released_words().get(each.category, ()))
    lacking = whole - len(each.sheet.words)
    if lacking <= 0:
        return ""
    measures = " and ".join(each.sheet.measured)
    return (
        f"{each.category}, {each.t2i_model}: {measures} of {lacking} of {whole} words is not in the sheet, which "
        "does not say of which: no word of it is named"
    )


def _read(path: Path, found: _Found, *, t2i_model: str) -> None:
    if path.stem == "race_original":
        found.seeds[AUTHORS_FILE] = _seed_numbers(_matrix(path), path.name)
    elif path.stem == "seeds":
        found.seeds |= _seed_columns(path)
    elif path.stem == "portraits":
        found.portraits = _portraits(path, found)
    elif match := _WIDE.fullmatch(path.stem):
        model, measure, domain = match.groups()
        sheet = _wide_sheet(_matrix(path), path.name, _DOMAINS[domain], _MEASURES[measure])
        found.sheets.append(ModelSheet(_MODELS[model], _DOMAINS[domain], sheet))
    elif (category := path.stem.removesuffix(f"_{BRIGHTNESS}")) in released_words():
        sheet = sheet_of_table(_long_table(path), category) if path.suffix == ".xlsx" else read_sheet(path)
        found.sheets.append(ModelSheet(t2i_model, category, sheet))
    else:
        found.ignored.append(path.name)


def _matrix(path: Path) -> pd.DataFrame:
    """The cells of a table without a header, as text."""
    try:
        if path.suffix.lower() == ".xlsx":
            require("openpyxl", extra="excel")
            cells = pd.read_excel(path, header=None, dtype=object)
        else:
            cells = pd.read_csv(path, header=None, dtype=object, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError, KeyError, BadZipFile, pd.errors.ParserError) as error:
        raise ConfigError(f"{path.name} cannot be read as a table: {str(error).splitlines()[0]}") from error
    texts = cells.map(lambda cell: "" if pd.isna(cell) else str(cell).strip())
    return texts if isinstance(texts, pd.DataFrame) else pd.DataFrame(texts)


def _long_table(path: Path) -> TextTable:
    """A spreadsheet in the long form: its first row names the columns."""
    cells = _matrix(path)
    header = [str(name) for name in cells.iloc[0]] if len(cells) else []
    columns = {name: cells.iloc[1:, place].tolist() for place, name in enumerate(header) if name}
    findings = Findings()
    for name in SHEET_COLUMNS:
        if name not in columns:
            findings.add(Problem(path.name, "the column is missing", 1, name, None, ",".join(SHEET_COLUMNS)))
    findings.raise_if_any()
    return TextTable(path.name, text_columns(columns))


def _wide_sheet(cells: pd.DataFrame, file: str, category: str, measure: str) -> ReleasedSheet:
    """A sheet as it was released: `[seed, word]` without names."""
    findings = Findings()
    known = len(released_words()[category])
    if len(cells) != len(SEED_NAMES):
        message, accepted = f"{len(cells)} rows", f"one for each of the {len(SEED_NAMES)} seeds, and no header"
        findings.add(Problem(file, message, accepted=accepted))
    if cells.shape[1] > known:
        message, accepted = f"{cells.shape[1]} columns", f"one for each of the {known} words of {category}"
        findings.add(Problem(file, message, accepted=accepted))
    findings.raise_if_any()
    grid: FloatArray = np.full(cells.shape, np.nan)
    for (row, column), text in np.ndenumerate(cells.to_numpy()):
        if str(text):
            grid[row, column] = _number(str(text), measure, Problem(file, "", row + 1, f"word {column}"), findings)
    findings.raise_if_any()
    whole = ReleasedSheet(
        category, tuple(range(len(cells))), tuple(range(cells.shape[1])), {measure: grid}, {measure: ()}
    )
    return checked_sheet(whole, file)


def _number(text: str, measure: str, place: Problem, findings: Findings) -> float:
    known = _BOOLEANS.get(text.lower(), text) if measure == "gender_unchanged" else text
    try:
        number = float(known)
    except ValueError:
        number = np.inf
    if not MEASURES[measure].accepts(number):
        accepted = MEASURES[measure].in_words
        findings.add(replace(place, message=f"not a value of {measure}", value=text, accepted=accepted))
        return np.nan
    return number


def _seed_numbers(cells: pd.DataFrame, file: str) -> FloatArray:
    findings = Findings()
    numbers = pd.to_numeric(cells[0], errors="coerce").to_numpy(dtype=np.float64)
    if len(numbers) != len(SEED_NAMES) or not ((numbers > 0) & (numbers < 255)).all():
        accepted = f"{len(SEED_NAMES)} rows with a grey value between 0 and 255, and no header"
        findings.add(Problem(file, f"no brightness of each seed in {len(numbers)} rows", accepted=accepted))
    findings.raise_if_any()
    return numbers


def _seed_columns(path: Path) -> dict[str, FloatArray]:
    table = _named_columns(path)
    columns = [name for name in _SEED_COLUMNS if name in table]
    if not columns or "seed_index" not in table:
        accepted = f"seed_index and {' or '.join(_SEED_COLUMNS)}"
        raise ConfigError(f"{path.name}: a column is missing (accepted: {accepted})")
    ordered = table.assign(seed_index=pd.to_numeric(table["seed_index"], errors="coerce")).sort_values(
        "seed_index"
    )
    if ordered["seed_index"].tolist() != list(range(len(SEED_NAMES))):
        raise ConfigError(f"{path.name}, column seed_index: not the {len(SEED_NAMES)} seeds, each once, from 0 on")
    return {
        _SEED_COLUMNS[name]: _seed_numbers(ordered[[name]].set_axis([0], axis=1), f"{path.name}, column {name}")
        for name in columns
    }


def _portraits(path: Path, found: _Found) -> pd.DataFrame | None:
    columns = ["grey_as_released", "grey_without_jpeg"]
    table = _named_columns(path)
    if not set(columns) <= set(table.columns):
        found.ignored.append(path.name)
        return None
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in columns}
    return pd.DataFrame(numbers).dropna().reset_index(drop=True)


def _named_columns(path: Path) -> pd.DataFrame:
    """A table whose first row names its columns, as text."""
    cells = _matrix(path)
    return cells.iloc[1:].set_axis([str(name) for name in cells.iloc[0]], axis=1)
