"""BiasPainter's printed model and word scores beside the same from its released sheets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.formulas import MODEL_SCORE, WORD_SCORE
from detector_bench.others.biaspainter.released.folder import ModelSheet, ReleasedFolder
from detector_bench.others.biaspainter.released.published import (
    PrintedWord,
    printed_model_scores,
    printed_words,
    seed_genders,
)
from detector_bench.others.biaspainter.released_sheets import BRIGHTNESS
from detector_bench.others.biaspainter.score_system import BiasPainterScores, sheet_rows
from detector_bench.others.findings import Finding

_DECIMALS = 2
_OF_WORDS = "sd1_5"
"""The T2I model whose word scores ship with the package."""


class SheetScores(NamedTuple):
    """A sheet with its scores as rows of a metric table."""

    sheet: ModelSheet
    rows: pd.DataFrame

    def model_scores(self) -> dict[str, float]:
        """By attribute."""
        rows = self.rows[self.rows["metric"] == MODEL_SCORE]
        return dict(zip(rows["attribute"], rows["value"].astype(float), strict=True))

    def word_scores(self) -> Iterator[tuple[str, str, float]]:
        """Attribute, word and score; words without a name are left out."""
        names = {str(index): name for index, name in zip(self.sheet.sheet.words, self.sheet.words, strict=True)}
        rows = self.rows[self.rows["metric"] == WORD_SCORE]
        for attribute, index, value in zip(rows["attribute"], rows["prompt_id"], rows["value"], strict=True):
            if names[index]:
                yield str(attribute), names[index], float(value)


def scores_of(folder: ReleasedFolder, settings: BiasPainterScores, *, seeds: str | None) -> list[SheetScores]:
    """Score every sheet by itself.

    Args:
        folder: the sheets.
        settings: the definition.
        seeds: how the seeds' brightness was measured; None: sheets of brightness alone are left out.
    """
    brightness = None if seeds is None else dict(enumerate(folder.seeds[seeds].tolist()))
    found = []
    for each in folder.sheets:
        if brightness is None and BRIGHTNESS in each.sheet.measured:
            continue
        rows = sheet_rows(
            [each.sheet],
            t2i_model=each.t2i_model,
            settings=settings,
            seed_genders=seed_genders(),
            seed_brightness=brightness,
        )
        found.append(SheetScores(each, rows))
    return found


def score_findings(scores: Sequence[SheetScores]) -> list[Finding]:
    """Every printed score of what the sheets measure: Table 3, then the words of Stable Diffusion 1.5."""
    return [*_of_models(scores), *_of_words(scores)]


def not_compared(scores: Sequence[SheetScores]) -> list[str]:
    """Which printed scores have no sheet here, in sentences."""
    models = {(each.sheet.t2i_model, each.sheet.category, name) for each in scores for name in each.model_scores()}
    of_models = [each for each in printed_model_scores() if (each.t2i_model, each.category, each.attribute)]
    lacking = [each for each in of_models if (each.t2i_model, each.category, each.attribute) not in models]
    words = [each for each in printed_words() if (_OF_WORDS, each.category, each.attribute) not in models]
    sentences = []
    if lacking:
        sentences.append(
            f"Not compared, as no sheet of theirs is here: {len(lacking)} of the {len(of_models)} model scores of "
            f"Table 3 and {len(words)} of {len(printed_words())} printed word scores of Stable Diffusion 1.5."
        )
    return sentences


def _of_models(scores: Sequence[SheetScores]) -> Iterator[Finding]:
    found = {
        (each.sheet.t2i_model, each.sheet.category, attribute): value
        for each in scores
        for attribute, value in each.model_scores().items()
    }
    for each in printed_model_scores():
        place = (each.t2i_model, each.category, each.attribute)
        if place in found:
            statement = f"{each.t2i_model}, {each.category}: {_named(each.attribute)}"
            yield Finding("Table 3", statement, each.score, found[place], _DECIMALS)


def _of_words(scores: Sequence[SheetScores]) -> Iterator[Finding]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for each in scores:
        if each.sheet.t2i_model == _OF_WORDS:
            for attribute in each.model_scores():
                found.setdefault((each.sheet.category, attribute), {})
            for attribute, word, value in each.word_scores():
                found[each.sheet.category, attribute][word.casefold()] = value
    for printed in printed_words():
        known = found.get((printed.category, printed.attribute))
        if known is not None:
            yield _of_word(printed, known)


def _of_word(printed: PrintedWord, known: Mapping[str, float]) -> Finding:
    value = known.get(printed.word.casefold(), np.nan)
    note = "it is not known which column of the sheet this word is" if printed.word.casefold() not in known else ""
    statement = f"{printed.category}: {_named(printed.attribute)} of {printed.word}"
    return Finding(printed.place, statement, printed.score, value, _DECIMALS, note=note)


def _named(attribute: str) -> str:
    return "race (skin tone)" if attribute == "skin_tone" else attribute


def brightness_changes(folder: ReleasedFolder, seeds: FloatArray) -> list[tuple[ModelSheet, FloatArray]]:
    """By sheet of brightness: edited photo minus seed, `[seed, word]` in grey values; NaN where undetected."""
    return [
        (each, each.sheet.measured[BRIGHTNESS] - seeds[list(each.sheet.seeds), np.newaxis])
        for each in folder.sheets
        if BRIGHTNESS in each.sheet.measured
    ]
