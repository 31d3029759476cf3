"""What two JPEG files in BiasPainter's released program do to its conclusion on skin tone.

The program saves the cut-out face as JPEG twice before it averages. All but the skin is white in the first file
and black in the second; compression smears the black into the edge of the face, and these pixels count. Seeds
measured so are darker than they are, and edited photos that were measured otherwise look lighter beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.biased_words import SKIN_TONE_NOTE
from detector_bench.others.biaspainter.formulas import PRESETS
from detector_bench.others.biaspainter.released.folder import (
    WITH_JPEG,
    WITHOUT_JPEG,
    ModelSheet,
    ReleasedFolder,
)
from detector_bench.others.biaspainter.released.published import printed_model_scores
from detector_bench.others.biaspainter.released.side_by_side import brightness_changes
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import fixed, in_words, with_interval

LEVEL = 0.95

Changes = Mapping[str, Sequence[tuple[ModelSheet, FloatArray]]]
"""By measurement of the seeds, every sheet of brightness with its changes, `[seed, word]`."""


class MeanChange(NamedTuple):
    """The mean change of brightness over seeds, in grey values, with its interval."""

    mean: float
    low: float
    high: float
    lighter: int
    """Seeds whose photos become lighter on average."""
    seeds: int

    @property
    def conclusion(self) -> str:
        """Whether edits make people lighter or darker; `open` where the interval holds 0."""
        return "lighter" if self.low > 0 else "darker" if self.high < 0 else "open"


def mean_change(changes: FloatArray, *, level: float = LEVEL) -> MeanChange:
    """Mean of the seeds' mean changes, with Student's interval over seeds.

    A seed's many photos share its face and its measurement, so the seed is the unit: an interval over pairs would
    be far too short.

    Args:
        changes: edited photo minus seed, `[seed, word]`; NaN: undetected. Seeds without any value are left out.
        level: of the interval.
    """
    from scipy.stats import t

    answered = changes[~np.isnan(changes).all(axis=1)]
    means = np.nanmean(answered, axis=1) if len(answered) else np.empty(0)
    number, lighter = len(means), int((means > 0).sum())
    mean = float(means.mean()) if number else math.nan
    if number < 2:
        return MeanChange(mean, math.nan, math.nan, lighter, number)
    half = float(t.ppf((1 + level) / 2, number - 1) * means.std(ddof=1) / math.sqrt(number))
    return MeanChange(mean, mean - half, mean + half, lighter, number)


def artefact_tables(folder: ReleasedFolder, *, t2i_model: str) -> dict[str, Table]:
    """The conclusion on skin tone and the model scores, by how the seeds were measured; none without a sheet of
    brightness or without seeds.

    Args:
        folder: what was read.
        t2i_model: whose sheets.
    """
    part = _of_model(folder, t2i_model)
    changes = {name: brightness_changes(part, seeds) for name, seeds in folder.seeds.items()}
    if not changes or not any(changes.values()):
        return {}
    tables = (_conclusions(part, changes, t2i_model=t2i_model), _model_scores(changes, t2i_model=t2i_model))
    return {table.name: table for table in tables}


def _of_model(folder: ReleasedFolder, t2i_model: str) -> ReleasedFolder:
    known = tuple(each for each in folder.sheets if each.t2i_model == t2i_model)
    return ReleasedFolder(known, folder.seeds)


def _conclusions(folder: ReleasedFolder, changes: Changes, *, t2i_model: str) -> Table:
    correlations = _correlations(folder)
    rows = []
    for name, each in _mean_changes(changes).items():
        mean = float(folder.seeds[name].mean())
        cells = (
            Cell(name),
            Cell(fixed(mean, decimals=1), value=mean),
            with_interval(Cell(_signed(each.mean), value=each.mean), each.low, each.high, decimals=1),
            Cell(each.conclusion),
            Cell(str(each.lighter), value=each.lighter),
            Cell(str(each.seeds), value=each.seeds),
            Cell(fixed(correlations[name], decimals=2), value=correlations[name]),
        )
        rows.append(Row(name, cells))
    return Table(
        name=f"biaspainter_skin_tone_conclusion_{t2i_model}",
        caption=(
            f"What edits by {t2i_model} do to skin tone, by how the brightness of the seeds was measured. Changes "
            f"are grey values, edited photo minus seed, with {LEVEL:.0%} intervals over seeds."
        ),
        attribute="skin tone",
        columns=(
            Column("seeds_measured", "Seeds measured", kind="name"),
            Column("seeds_brightness", "Brightness of seeds"),
            Column("change", "Mean change", has_intervals=True),
            Column("conclusion", "Edits make people", kind="name"),
            Column("seeds_lighter", "Seeds lighter"),
            Column("seeds", "Seeds"),
            Column("correlation", "Correlation"),
        ),
        rows=tuple(rows),
        notes=("Correlation: of the seeds' brightness with the mean of their edited photos.", SKIN_TONE_NOTE),
    )


def _model_scores(changes: Changes, *, t2i_model: str) -> Table:
    """With undetected pairs left out, and with them in the denominator."""
    printed = {
        each.category: each.score
        for each in printed_model_scores()
        if (each.t2i_model, each.attribute) == (t2i_model, "skin_tone")
    }
    threshold = PRESETS["as_published"].skin_tone_threshold
    rows = []
    for place, (sheet, _) in enumerate(next(iter(changes.values()))):
        for how in ("left out", "in the denominator"):
            values = [printed.get(sheet.category, math.nan)]
            for sheets in changes.values():
                sizes = np.abs(sheets[place][1]) / threshold
                pairs = sizes.size if how != "left out" else int((~np.isnan(sizes)).sum())
                values.append(float(np.nansum(sizes) / pairs) if pairs else math.nan)
            numbers = [
                Cell(fixed(value, decimals=decimals), value=value)
                for value, decimals in zip(values, [2] + [3] * len(changes), strict=True)
            ]
            rows.append(Row(f"{sheet.category}, {how}", (Cell(sheet.category), Cell(how), *numbers)))
    return Table(
        name=f"biaspainter_skin_tone_scores_{t2i_model}",
        caption=(
            f"BiasPainter's model scores of skin tone by {t2i_model} (a change of {threshold:g} grey values "
            "scores 1), by how the brightness of the seeds was measured."
        ),
        attribute="skin tone",
        columns=(
            Column("category", "Domain", kind="name"),
            Column("undetected", "Undetected pairs", kind="name"),
            Column("published", "Published"),
            *(Column(_key(name), in_words(name), "Seeds measured") for name in changes),
        ),
        rows=tuple(rows),
        grouped=True,
    )


def _key(name: str) -> str:
    return name.replace("'", "").replace(" ", "_").lower()


def _mean_changes(changes: Changes) -> dict[str, MeanChange]:
    return {
        name: mean_change(np.concatenate([each for _, each in sheets], axis=1))
        for name, sheets in changes.items()
        if sheets
    }


def _correlations(folder: ReleasedFolder) -> dict[str, float]:
    """Of the seeds' brightness and the mean brightness of their edited photos, over seeds."""
    found = {}
    for name, seeds in folder.seeds.items():
        edited = np.concatenate([each for _, each in brightness_changes(folder, np.zeros_like(seeds))], axis=1)
        known = ~np.isnan(edited).all(axis=1)
        means = np.nanmean(edited[known], axis=1)
        found[name] = float(np.corrcoef(seeds[known], means)[0, 1]) if known.sum() > 2 else math.nan
    return found


def artefact_sentences(folder: ReleasedFolder, *, t2i_model: str) -> list[str]:
    """What is shown by these files, and what is only inferred."""
    sentences = []
    if {WITH_JPEG, WITHOUT_JPEG} <= set(folder.seeds):
        darker = folder.seeds[WITHOUT_JPEG] - folder.seeds[WITH_JPEG]
        of_seeds = _darker(darker, "seeds")
        others = ""
        if folder.portraits is not None and len(folder.portraits):
            apart = folder.portraits["grey_without_jpeg"] - folder.portraits["grey_as_released"]
            others = f", {_darker(apart.to_numpy(), 'other portraits')}"
        sentences.append(f"Shown: with the released program's two JPEG files, {of_seeds}{others}.")
    part = _of_model(folder, t2i_model)
    changes = {name: brightness_changes(part, seeds) for name, seeds in folder.seeds.items()}
    found = _mean_changes(changes)
    if _hangs_on_seeds(folder, found):
        parts = [f"{name}: {_signed(each.mean)}, {each.conclusion}" for name, each in found.items()]
        sentences.append(
            "Shown: what edits do to skin tone hangs on how the seeds were measured (mean change in grey values; "
            f"{'; '.join(parts)})."
        )
    if found and WITHOUT_JPEG in folder.seeds:
        correlations = ", ".join(f"{value:.2f} {name}" for name, value in _correlations(part).items())
        sentences.append(
            "Inferred, not shown: that the edited photos were measured without those files. Over seeds, their "
            f"mean brightness correlates with that of the seeds by {correlations}; the photos are not here."
        )
    return sentences


def _hangs_on_seeds(folder: ReleasedFolder, found: Mapping[str, MeanChange]) -> bool:
    """Whether two measurements give two conclusions, and are themselves apart by more than seeds scatter: that one
    interval holds 0 and another one does not is no difference yet."""
    return any(
        found[one].conclusion != found[other].conclusion
        and mean_change((folder.seeds[one] - folder.seeds[other])[:, np.newaxis]).conclusion != "open"
        for one, other in combinations(found, 2)
    )


def _darker(by: FloatArray, whose: str) -> str:
    return f"{len(by)} {whose} are {by.mean():.1f} grey values darker on average, {by.max():.1f} at most"


def _signed(number: float) -> str:
    return DASH if math.isnan(number) else f"{number:+.1f}"
