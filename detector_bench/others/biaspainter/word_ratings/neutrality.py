"""Which words are neutral: prompts rated by several people, as BiasPainter collects its words (section 3.2).

There, ten people rated how relevant a prompt is to race, gender or age, from 1 (strongly irrelevant) to 5
(strongly relevant), and words with a mean above 3 were left out.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from detector_bench.atomic_files import write_text
from detector_bench.dataset.table_reading import check_columns, read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.released_sheets import read_records
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import count_cell, score_cell, with_interval

SCALE = {
    1: "strongly irrelevant",
    2: "irrelevant",
    3: "neither",
    4: "relevant",
    5: "strongly relevant",
}
"""The paper names the ends."""

MOST_RELEVANT = 3.0
"""Words with a higher mean are left out."""

RATING = "rating"
_QUESTION = "Does this prompt call for people of one race, gender or age?"
_SHEET_COLUMNS = ("prompt_id", "question", "prompt", "scale", RATING)
_PROMPT_COLUMNS = ("prompt_id", "word", "prompt")


class RatedPrompt(NamedTuple):
    """What annotators said of one prompt."""

    prompt_id: str
    word: str
    mean: float
    """Mean rating, 1 to 5; NaN without a rating."""
    low: float
    """Limits of Student's interval of the mean; NaN with fewer than two ratings, or where all are equal."""
    high: float
    ratings: int
    most: float
    """The highest mean of a neutral word."""

    @property
    def verdict(self) -> str:
        """`neutral`, `dropped` or `not rated`."""
        if not self.ratings:
            return "not rated"
        return "dropped" if self.mean > self.most else "neutral"

    @property
    def is_open(self) -> bool:
        """Whether the mean's interval holds the border, so that other annotators might decide otherwise."""
        return self.low <= self.most <= self.high


def read_prompts(path: Path) -> TextTable:
    """Read a prompt table: at least prompt_id, word and prompt.

    Raises:
        DataError: with all mistakes at once.
    """
    findings = Findings()
    table = read_any_table(path, findings, wanted=_PROMPT_COLUMNS)
    if table is not None:
        check_columns(table, _PROMPT_COLUMNS, findings)
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    seen: set[str] = set()
    for record in range(len(table)):
        name = table.cell("prompt_id", record)
        if name in seen:
            place = (table.row(record), "prompt_id", name, "each prompt once")
            findings.add(Problem(table.file, "prompt listed twice", *place))
        seen.add(name)
    if not len(table):
        findings.add(Problem(table.file, "no prompt is listed", accepted="a row for each prompt"))
    findings.raise_if_any()
    return table


def write_rating_sheet(prompts: TextTable, path: Path, *, seed: int, overwrite: bool = False) -> None:
    """Write a sheet in which one annotator rates every prompt, in random order.

    Args:
        prompts: see `read_prompts`.
        path: CSV: prompt_id, question, prompt, what 1 to 5 mean, and an empty column `rating`.
        seed: of the order. Give each annotator another one, so that tiredness does not fall on the same words.
        overwrite: whether a file that exists is replaced.

    Raises:
        ConfigError: the file exists: it may hold somebody's ratings.
    """
    if path.exists() and not overwrite:
        raise ConfigError(f"{str(path)!r} exists and may hold ratings; give another name, or allow to overwrite")
    scale = "; ".join(f"{number}: {words}" for number, words in SCALE.items())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_SHEET_COLUMNS)
    for record in np.random.default_rng(seed).permutation(len(prompts)).tolist():
        name, prompt = (prompts.cell(column, record) for column in ("prompt_id", "prompt"))
        writer.writerow([name, _QUESTION, prompt, scale, ""])
    write_text(path, text.getvalue())


def read_ratings(paths: Sequence[Path], prompts: TextTable) -> dict[str, dict[str, int]]:
    """Read filled sheets: by annotator, who is called as the file is, the rating of each rated prompt.

    Raises:
        DataError: with all mistakes at once: ratings other than 1 to 5, unknown or repeated prompts.
        ConfigError: two files of one name.
    """
    findings = Findings()
    known = {prompts.cell("prompt_id", record) for record in range(len(prompts))}
    found: dict[str, dict[str, int]] = {}
    for path in paths:
        if path.stem in found:
            raise ConfigError(f"two sheets by {path.stem!r}: a sheet is named after its annotator")
        table = read_records(path, ("prompt_id", RATING), findings)
        found[path.stem] = {}
        for record in range(len(table)):
            name, text = table.cell("prompt_id", record), table.cell(RATING, record).strip()
            problem = _problem(name, text, known, found[path.stem])
            if problem is not None:
                message, column, value, accepted = problem
                findings.add(Problem(table.file, message, table.row(record), column, value, accepted))
            elif text:
                found[path.stem][name] = int(text)
    findings.raise_if_any()
    return found


def _problem(name: str, text: str, known: set[str], rated: Mapping[str, int]) -> tuple[str, str, str, str] | None:
    if name not in known:
        return "unknown prompt", "prompt_id", name, "a prompt_id of the prompt table"
    if name in rated:
        return "prompt rated twice", "prompt_id", name, "each prompt once"
    if text and text not in map(str, SCALE):
        return "no rating", RATING, text, "a whole number from 1 to 5, or nothing"
    return None


def rated_prompts(
    prompts: TextTable,
    ratings: Mapping[str, Mapping[str, int]],
    *,
    most: float = MOST_RELEVANT,
    level: float = 0.95,
) -> list[RatedPrompt]:
    """The mean rating of every prompt with Student's interval over annotators, in the order of the table.

    Args:
        prompts: see `read_prompts`.
        ratings: by annotator and prompt, 1 to 5.
        most: words with a higher mean are dropped.
        level: of the intervals.

    Raises:
        ConfigError: nobody rated anything, or `most` or `level` are out of range.
    """
    from scipy.stats import t

    if not 1 <= most < 5:
        raise ConfigError(f"most: {most:g} (accepted: a mean rating from 1 to below 5)")
    if not 0 < level < 1:
        raise ConfigError(f"level: {level} (accepted: between 0 and 1)")
    if not any(ratings.values()):
        raise ConfigError(f"no prompt is rated yet: fill the column `{RATING}` of the sheets with 1 to 5")
    found = []
    for record in range(len(prompts)):
        name = prompts.cell("prompt_id", record)
        given = np.array([each[name] for each in ratings.values() if name in each], dtype=np.float64)
        mean = float(given.mean()) if len(given) else math.nan
        low = high = math.nan
        if len(given) > 1 and given.std() > 0:
            half = float(t.ppf((1 + level) / 2, len(given) - 1) * given.std(ddof=1) / math.sqrt(len(given)))
            low, high = max(mean - half, 1.0), min(mean + half, 5.0)
        found.append(RatedPrompt(name, prompts.cell("word", record), mean, low, high, len(given), most))
    return found


def interval_alpha(ratings: FloatArray) -> float:
    """Krippendorff's alpha for numbers: 1 - observed / expected squared difference; 1: all agree, 0: as by chance.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section E (interval data).

    Args:
        ratings: `[annotator, item]`, NaN where there is none. Items with one rating count for nothing.

    Returns:
        NaN where no item has two ratings, or all ratings are equal.
    """
    kept = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    values = kept[~np.isnan(kept)]
    if not len(values):
        return math.nan
    counts = (~np.isnan(kept)).sum(axis=0)
    # Of m numbers, the sum over ordered pairs of squared differences is 2 m times their squared deviations' sum.
    within = np.nansum((kept - np.nanmean(kept, axis=0)) ** 2, axis=0)
    observed = float((2 * counts * within / (counts - 1)).sum() / len(values))
    expected = float(2 * len(values) * ((values - values.mean()) ** 2).sum() / (len(values) * (len(values) - 1)))
    return 1 - observed / expected if expected else math.nan


def agreement_of(ratings: Mapping[str, Mapping[str, int]]) -> float:
    """`interval_alpha` of what annotators gave; NaN with fewer than two."""
    names = list(dict.fromkeys(name for each in ratings.values() for name in each))
    table = pd.DataFrame(ratings, index=names, dtype=np.float64)
    return interval_alpha(table.to_numpy().T) if len(ratings) > 1 else math.nan


def neutrality_table(rated: Sequence[RatedPrompt], *, alpha: float, annotators: int) -> Table:
    """Every word with its mean rating, the least neutral first.

    Args:
        rated: as `rated_prompts` gives them.
        alpha: the annotators' agreement (`agreement_of`).
        annotators: how many they are.
    """
    most = rated[0].most
    ordered = sorted(rated, key=lambda each: (-each.mean if each.ratings else math.inf, each.word.casefold()))
    rows = []
    for each in ordered:
        mean = with_interval(score_cell(each.mean, decimals=2), each.low, each.high, decimals=2)
        notes = ("the interval holds the border: other annotators might decide otherwise",) if each.is_open else ()
        cells = (Cell(each.word), mean, count_cell(each.ratings), Cell(each.verdict))
        rows.append(Row(f"{each.word} ({each.prompt_id})", cells, notes))
    agreement = "-" if math.isnan(alpha) else f"{alpha:.2f}"
    return Table(
        name="biaspainter_neutrality",
        caption=(
            "How relevant prompts are to race, gender or age, rated from 1 (strongly irrelevant) to 5 (strongly "
            f"relevant) by {annotators} annotators. A word with a mean above {most:g} is dropped."
        ),
        attribute="gender, age and race",
        columns=(
            Column("word", "Word", kind="name"),
            Column("mean", "Mean rating", has_intervals=True),
            Column("ratings", "Ratings"),
            Column("verdict", "Verdict", kind="name"),
        ),
        rows=tuple(rows),
        notes=(f"Krippendorff's alpha of the ratings as numbers: {agreement}.",),
    )


def kept_prompts(prompts: TextTable, rated: Sequence[RatedPrompt]) -> pd.DataFrame:
    """The prompt table without the words that are dropped; words that nobody rated stay."""
    dropped = {each.prompt_id for each in rated if each.verdict == "dropped"}
    table = pd.DataFrame({name: prompts.column(name).to_pylist() for name in prompts.columns}, dtype="str")
    return table[~table["prompt_id"].isin(dropped)]
