"""BiasPainter's tables: the most biased words, model scores, and what a mitigation did to biased words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.biaspainter.biased_words import (
    DEFAULT_LEAST,
    DIRECTIONS,
    SKIN_TONE_NOTE,
    ByOneJudge,
    Direction,
    TopWords,
    WordScore,
    top_biased,
)
from detector_bench.others.biaspainter.formulas import MODEL_SCORE, WORD_SCORE
from detector_bench.others.failed_images import FailedImages
from detector_bench.others.study_scores import TableSources
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, attributes_in_words, in_words, score_cell
from detector_bench.vocabulary import ALL

_DOMAIN = Column("category", "Domain", kind="name")
_T2I_MODEL = Column("t2i_model", "T2I model", kind="name")
_SIGNS = "Positive: towards female, older, lighter."
_AVERAGE = "average"


def top_biased_words(
    metrics: pd.DataFrame,
    *,
    attribute: str = "gender",
    prompts: pd.DataFrame | None = None,
    judge: str | None = None,
    variant: str | None = None,
    top: int = 3,
    least: float = DEFAULT_LEAST,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> Table:
    """The words that change an attribute most, per domain and T2I model in both directions.

    A dash stands where no further word is biased; a note names words left out that tie with the last one shown.

    Source: BiasPainter, table 2 (ACM MM) and 3 (arXiv).

    Args:
        metrics: a metric table with BiasPainter's rows.
        attribute: gender, age or skin_tone.
        prompts: columns `prompt_id, word`.
        judge: whose scores; None: the ground truth if it has the attribute, else the first detector.
        variant: which definition; None: the table's first.
        top: words per direction.
        least: words with a smaller score are not biased.
        max_error_share: a detector that fails on a larger share of a T2I model's images has no scores there.

    Raises:
        ConfigError: no such scores in the table, or an option out of range.
    """
    failed = FailedImages.of_table(metrics, max_error_share=max_error_share)
    scored = failed.left_out(_rows_of_scores_and_words(metrics))
    chosen = ByOneJudge.of_table(scored, judge=judge, variant=variant, attribute=attribute)
    _need(chosen, attribute)
    directions = DIRECTIONS[attribute]
    scores = [each for each in chosen.word_scores(prompts=prompts) if each.attribute == attribute]
    rows = [
        row
        for (category, model), words in _by_place(scores).items()
        for row in _rows_of_words(
            category,
            model,
            words,
            directions,
            top=top,
            least=least,
            also_said=failed.notes([attribute], chosen.judge, model),
        )
    ]
    named = [Column(each.name, in_words(each.in_words), kind="name") for each in directions]
    numbers = [
        Column(f"{each.name}_score", in_words(each.in_words), "Score", f"Score, {each.in_words}")
        for each in directions
    ]
    return Table(
        name="biaspainter_top_words",
        caption=(
            f"The {top} words that change {attribute_in_words(attribute)} most when a photo is edited, "
            f"{chosen.in_words}. {_SIGNS} {DASH}: no further word with a score of {least:g} or more."
        ),
        attribute=attribute_in_words(attribute),
        columns=(_DOMAIN, _T2I_MODEL, *named, *numbers),
        rows=tuple(rows),
        notes=_skin_tone_notes([attribute]),
        grouped=True,
    )


def model_scores(
    metrics: pd.DataFrame,
    *,
    judge: str | None = None,
    variant: str | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
) -> Table:
    """Model scores of every T2I model and domain, with their averages.

    The average of a row is the mean of its attributes; a T2I model's last row has the means over its domains, and
    at its end the mean of all its numbers. An average over a number that is missing is a dash.

    Source: BiasPainter, table 3 (ACM MM) and 4 (arXiv), whose race is our skin tone.

    Args:
        metrics: a metric table with BiasPainter's rows.
        judge: whose scores; None: who scores most attributes, the ground truth first.
        variant: which definition; None: the table's first.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets dashes there.

    Raises:
        ConfigError: no such scores in the table, or `max_error_share` is no fraction.
    """
    failed = FailedImages.of_table(metrics, max_error_share=max_error_share)
    scored = failed.left_out(_rows_of_scores_and_words(metrics))
    chosen = ByOneJudge.of_table(scored, judge=judge, variant=variant)
    scores = _model_scores(chosen)
    attributes = chosen.attributes
    models = dict.fromkeys(model for model, _, _ in scores)
    lines = []
    for model in models:
        first, *others = _rows_of_scores(model, scores, attributes)
        said = failed.notes(attributes, chosen.judge, model)
        lines += [replace(first, notes=(*said, *first.notes)), *others]
    return Table(
        name="biaspainter_model_scores",
        caption=(
            f"BiasPainter's model scores {chosen.in_words}: how much an edit changes a person on average. 0: not "
            "at all."
        ),
        attribute=attributes_in_words(attributes),
        columns=(
            _T2I_MODEL,
            _DOMAIN,
            *(Column(name, in_words(name)) for name in attributes),
            *((Column(_AVERAGE, "Average"),) if len(attributes) > 1 else ()),
        ),
        rows=tuple(lines),
        notes=_skin_tone_notes(attributes),
        grouped=True,
    )


def mitigation(
    before: Sequence[WordScore],
    after: Sequence[WordScore],
    *,
    by: str,
    names: tuple[str, str] = ("before", "after"),
    top: int = 1,
    least: float = DEFAULT_LEAST,
) -> Table:
    """What became of the most biased words: their scores before and after something was done about bias.

    The words are chosen by their scores before. Words that merely had bad luck before look better after anyway
    (regression towards the mean): compare with words of a second run without the mitigation.

    Source: BiasPainter, table 4 (ACM MM) and 5 (arXiv).

    Args:
        before: word scores of one T2I model.
        after: those of the same words after it; found by domain and word.
        by: whose scores, for the caption (`ByOneJudge.in_words`).
        names: what the two are called.
        top: how many words per domain, attribute and direction.
        least: words with a smaller score before are not biased.

    Raises:
        ConfigError: no word is biased before, or none of them is there after.
    """
    later = {(each.attribute, each.category, each.word): each.score for each in after}
    rows, pairs = [], []
    for (category, attribute), words in _by_domain(before).items():
        for direction in DIRECTIONS[attribute]:
            for each in top_biased(words, direction, top=top, least=least).words:
                now = later.get((attribute, category, each.word), math.nan)
                rows.append(_mitigation_row(each, direction, now, there=(attribute, category, each.word) in later))
                pairs.append((each.score, now))
    if not pairs:
        raise ConfigError(f"no word has a score of {least:g} or more before: there is no bias to mitigate")
    known = [(one, other) for one, other in pairs if not math.isnan(other)]
    if not known:
        raise ConfigError(
            "none of the most biased words has a score after the mitigation: words are found by domain and word"
        )
    sizes = [math.fsum(abs(pair[place]) for pair in known) / len(known) for place in (0, 1)]
    label = "Mean size" if len(known) == len(pairs) else f"Mean size of the {len(known)} words with both"
    names_of_mean = (Cell(label), Cell(""), Cell(""), Cell(""))
    rows.append(Row(label, (*names_of_mean, *(score_cell(size, decimals=2) for size in sizes))))
    attributes = list(dict.fromkeys(each.attribute for each in before))
    return Table(
        name="biaspainter_mitigation",
        caption=f"Scores of the words most biased before, {names[0]} and {names[1]}, {by}. {_SIGNS}",
        attribute=attributes_in_words(attributes),
        columns=(
            _DOMAIN,
            Column("attribute", "Attribute", kind="name"),
            Column("direction", "Direction", kind="name"),
            Column("word", "Word", kind="name"),
            Column("before", in_words(names[0])),
            Column("after", in_words(names[1])),
        ),
        rows=tuple(rows),
        notes=_skin_tone_notes(attributes),
        grouped=True,
    )


def biaspainter_tables(sources: TableSources) -> dict[str, Table]:
    """Model scores, and the most biased words of every attribute, by name; none without BiasPainter's scores."""
    metrics = sources.metrics
    if not (metrics["metric"] == MODEL_SCORE).any():
        return {}
    words = metrics[metrics["metric"] == WORD_SCORE]
    tables = {"biaspainter_model_scores": model_scores(metrics, max_error_share=sources.max_error_share)}
    for attribute in dict.fromkeys(words["attribute"].astype(str)):
        table = top_biased_words(
            metrics, attribute=attribute, prompts=sources.prompts, max_error_share=sources.max_error_share
        )
        name = f"{table.name}_{attribute}"
        tables[name] = replace(table, name=name)
    return tables


def _rows_of_scores_and_words(metrics: pd.DataFrame) -> pd.DataFrame:
    return metrics[metrics["metric"].isin([MODEL_SCORE, WORD_SCORE])]


class _ModelScore(NamedTuple):
    value: float
    words: int
    left_out: int


def _rows_of_words(
    category: str,
    model: str,
    words: Sequence[WordScore],
    directions: tuple[Direction, Direction],
    *,
    top: int,
    least: float,
    also_said: Sequence[str],
) -> list[Row]:
    """One row per rank; a single one of dashes where no word is biased."""
    found = [top_biased(words, direction, top=top, least=least) for direction in directions]
    notes = (*also_said, *_notes(words, found, directions))
    pairs = list(zip_longest(*(each.words for each in found))) or [(None, None)]
    return [_words_row(category, model, pair, notes=notes if rank == 0 else ()) for rank, pair in enumerate(pairs)]


def _model_scores(chosen: ByOneJudge) -> dict[tuple[str, str, str], _ModelScore]:
    """By T2I model, domain and attribute, in the order of the metric table."""
    rows = chosen.rows
    rows = rows[(rows["metric"] == MODEL_SCORE) & (rows["t2i_model"] != ALL) & (rows["category"] != ALL)]
    places = zip(*(rows[name].astype(object) for name in ("t2i_model", "category", "attribute")), strict=True)
    numbers = zip(*(rows[name].astype(float) for name in ("value", "n", "n_left_out")), strict=True)
    return {
        place: _ModelScore(value, int(n + left_out), int(left_out))
        for place, (value, n, left_out) in zip(places, numbers, strict=True)
    }


def _rows_of_scores(
    model: str, scores: Mapping[tuple[str, str, str], _ModelScore], attributes: Sequence[str]
) -> list[Row]:
    """A T2I model's domains, then their averages."""
    nothing = _ModelScore(math.nan, 0, 0)
    categories = list(dict.fromkeys(category for each, category, _ in scores if each == model))
    rows, block = [], []
    for category in categories:
        numbers = {name: scores.get((model, category, name), nothing) for name in attributes}
        block.append([number.value for number in numbers.values()])
        rows.append(_scores_row(model, category, block[-1], notes=_without_answer(numbers)))
    if len(categories) > 1:
        rows.append(_scores_row(model, _AVERAGE, [_mean(column) for column in zip(*block, strict=True)]))
    return rows


def _words_row(category: str, model: str, pair: Sequence[WordScore | None], *, notes: Sequence[str]) -> Row:
    words = [Cell(DASH, key="") if each is None else Cell(each.word) for each in pair]
    numbers = [score_cell(math.nan if each is None else each.score, decimals=2) for each in pair]
    return Row(f"{category}, {model}", (Cell(category), Cell(model), *words, *numbers), tuple(notes))


def _notes(
    words: Sequence[WordScore], found: Sequence[TopWords], directions: Sequence[Direction]
) -> tuple[str, ...]:
    without = sum(math.isnan(each.score) for each in words)
    notes = [f"{without} of {len(words)} words have no score"] if without else []
    for direction, each in zip(directions, found, strict=True):
        if each.tied:
            tied = ", ".join(word.word for word in each.tied)
            notes.append(f"{direction.in_words}: as strong as the last ({each.words[-1].score:.2f}): {tied}")
    return tuple(notes)


def _scores_row(model: str, category: str, values: Sequence[float], *, notes: Sequence[str] = ()) -> Row:
    shown = [*values, _mean(values)] if len(values) > 1 else list(values)
    cells = (Cell(model), Cell(category), *(score_cell(value, decimals=2) for value in shown))
    return Row(f"{model}, {category}", cells, tuple(notes))


def _without_answer(numbers: Mapping[str, _ModelScore]) -> list[str]:
    parts = [
        f"{number.left_out} of {number.words} ({attribute_in_words(attribute)})"
        for attribute, number in numbers.items()
        if number.left_out
    ]
    return [f"words without a score, left out: {', '.join(parts)}"] if parts else []


def _mitigation_row(each: WordScore, direction: Direction, now: float, *, there: bool) -> Row:
    names = (
        Cell(each.category),
        Cell(attribute_in_words(each.attribute)),
        Cell(direction.in_words),
        Cell(each.word),
    )
    notes = ["no pair was detected after"] if there else ["not among the words after"]
    numbers = (score_cell(each.score, decimals=2), score_cell(now, decimals=2))
    return Row(
        f"{each.category}, {each.word} ({direction.in_words})",
        (*names, *numbers),
        tuple(notes) if math.isnan(now) else (),
    )


def _need(chosen: ByOneJudge, attribute: str) -> None:
    if attribute not in chosen.attributes:
        raise ConfigError(
            f"no BiasPainter scores of {attribute!r} {chosen.in_words} (there are: "
            f"{attributes_in_words(chosen.attributes)})"
        )


def _by_place(scores: Sequence[WordScore]) -> dict[tuple[str, str], list[WordScore]]:
    """By domain and T2I model, a domain's T2I models together."""
    categories = list(dict.fromkeys(each.category for each in scores))
    places = dict.fromkeys((each.category, each.t2i_model) for each in scores)
    found: dict[tuple[str, str], list[WordScore]] = {
        place: [] for place in sorted(places, key=lambda place: categories.index(place[0]))
    }
    for each in scores:
        found[each.category, each.t2i_model].append(each)
    return found


def _by_domain(scores: Sequence[WordScore]) -> dict[tuple[str, str], list[WordScore]]:
    found: dict[tuple[str, str], list[WordScore]] = {}
    categories = list(dict.fromkeys(each.category for each in scores))
    for each in sorted(scores, key=lambda each: categories.index(each.category)):
        found.setdefault((each.category, each.attribute), []).append(each)
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _skin_tone_notes(attributes: Sequence[str]) -> tuple[str, ...]:
    return (SKIN_TONE_NOTE,) if "skin_tone" in attributes else ()
