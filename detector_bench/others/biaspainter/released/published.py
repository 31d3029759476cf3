"""What BiasPainter's papers print, and the words of its released sheets; all of it ships with the package."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pandas as pd

from detector_bench.installation import resource
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES

PRINTED_NAMES = {"age": "age", "skin_tone": "race", "gender": "gender"}
"""By attribute, what the paper's tables call it."""

SEED_NAMES = tuple(
    f"{race}{gender}{age}"
    for race in ("Asian", "Black", "White")
    for gender in ("Female", "Male")
    for age in ("Elderly", "MiddleAged", "YoungAdult")
)
"""The seeds of the released sheets by their index: alphabetical."""


class PrintedScore(NamedTuple):
    """A model score that Table 3 prints."""

    t2i_model: str
    category: str
    attribute: str
    score: float


class PrintedWord(NamedTuple):
    """A word's score that a paper prints among the most biased ones of Stable Diffusion 1.5."""

    place: str
    category: str
    attribute: str
    word: str
    score: float


@cache
def printed_model_scores() -> tuple[PrintedScore, ...]:
    """Table 3 (ACM MM), whose race is our skin tone.

    Raises:
        DetectorBenchError: the installation lacks it.
    """
    table = _read("table3_model_scores")
    return tuple(
        PrintedScore(str(row["t2i_model"]), str(row["domain"]), name, float(row[PRINTED_NAMES[name]]))
        for row in table.to_dict("records")
        for name in BIASPAINTER_ATTRIBUTES
    )


@cache
def printed_words() -> tuple[PrintedWord, ...]:
    """Table 2 (ACM MM), and of activity and object Table 3 (arXiv), as far as its text can be read.

    Raises:
        DetectorBenchError: the installation lacks it.
    """
    columns = ("place", "category", "attribute", "word", "score")
    return tuple(
        PrintedWord(*row) for row in _read("table2_top_words_sd1_5")[list(columns)].itertuples(index=False)
    )


@cache
def released_words() -> dict[str, tuple[str, ...]]:
    """By domain, the words of the released sheets by their index; "" where it is not known which word it is.

    Raises:
        DetectorBenchError: the installation lacks them.
    """
    return dict(_words_by_category(_read("released_words")))


def seed_genders() -> dict[int, str]:
    """Whom each seed of the released sheets shows, by its index."""
    return {index: "female" if "Female" in name else "male" for index, name in enumerate(SEED_NAMES)}


def _words_by_category(table: pd.DataFrame) -> Iterator[tuple[str, tuple[str, ...]]]:
    for category, rows in table.groupby("category", sort=False):
        yield str(category), tuple(rows.sort_values("word_index")["word"])


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(resource(f"labels/biaspainter/{name}.csv"), keep_default_na=False)
