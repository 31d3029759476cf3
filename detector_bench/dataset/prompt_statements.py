"""What prompts ask for, what they were made from, and what they count for: optional columns of the prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset.circles import in_circle
from detector_bench.dataset.findings import Findings
from detector_bench.dataset.label_values import as_numbers
from detector_bench.dataset.text_table import TextTable
from detector_bench.errors import Problem, nearest_hint
from detector_bench.results.schema import BASE_PROMPT_COLUMN, STATED_PREFIX, WEIGHT_COLUMN, stated_columns
from detector_bench.vocabulary import ATTRIBUTES, PARTLY, Attribute, attribute_named

_SEVERAL = re.compile(r"[;,|/+&]|\band\b|\bor\b")


def check_prompt_statements(
    prompts: TextTable, findings: Findings, attributes: Mapping[str, Attribute] = ATTRIBUTES
) -> None:
    """Report statements, base prompts and weights that a prompt table cannot have."""
    check_statements(prompts, findings, attributes)
    are_weights = check_weights(prompts, findings)
    if not prompts.has("prompt_id"):
        return
    bases = _bases(prompts)
    are_bases = not prompts.has(BASE_PROMPT_COLUMN) or _check_bases(prompts, bases, findings)
    if prompts.has(WEIGHT_COLUMN) and are_weights and are_bases:
        _check_completeness(prompts, bases, findings)


def check_statements(
    table: TextTable, findings: Findings, attributes: Mapping[str, Attribute] = ATTRIBUTES
) -> None:
    """Report what no prompt can state, in any table that has such columns."""
    for name, column in stated_columns(attributes).items():
        if table.has(column):
            _check_stated(table, column, attributes[name], findings)


def check_weights(table: TextTable, findings: Findings) -> bool:
    """Report weights that are no numbers above 0, in any table that has weights; True if there are none."""
    if not table.has(WEIGHT_COLUMN):
        return True
    numbers = as_numbers(table.column(WEIGHT_COLUMN))
    given = table.records_with(WEIGHT_COLUMN, lambda value: bool(value.strip()))
    wrong = given[~(np.isfinite(numbers[given]) & (numbers[given] > 0))]
    findings.add_rows(
        table, WEIGHT_COLUMN, wrong, message="weight that is not a number above 0", accepted="such as 1 or 0.5"
    )
    return len(wrong) == 0


def stated_by(prompts: pd.DataFrame, attribute: str) -> pd.Series[str] | None:
    """What each prompt states of an attribute, by `prompt_id`: a word of `Attribute.statements`, or "" (open).

    None: the table has no such column, so that nothing is known.
    """
    column = STATED_PREFIX + attribute_named(attribute).name
    return prompts.set_index("prompt_id")[column] if column in prompts else None


def bases_of(prompts: pd.DataFrame) -> dict[str, str]:
    """By `prompt_id`, the prompt that a prompt was made from; those without one are not there."""
    if BASE_PROMPT_COLUMN not in prompts:
        return {}
    pairs = zip(prompts["prompt_id"], prompts[BASE_PROMPT_COLUMN], strict=True)
    return {prompt_id: base for prompt_id, base in pairs if base}


def weights_of(prompts: pd.DataFrame) -> pd.Series[float] | None:
    """What each prompt counts for, by `prompt_id`: its weight, or else that of its base prompt.

    None: no prompt has a weight.
    """
    if WEIGHT_COLUMN not in prompts:
        return None
    own = prompts.set_index("prompt_id")[WEIGHT_COLUMN]
    weights = pd.Series(np.array([float(text) if text else np.nan for text in own]), index=own.index)
    if weights.isna().all():
        return None
    if BASE_PROMPT_COLUMN in prompts:
        bases = pd.Index(own.index).get_indexer(pd.Index(prompts[BASE_PROMPT_COLUMN]))
        weights[:] = _inherited(weights.to_numpy(), bases.astype(np.int64))
    return weights


def _check_stated(prompts: TextTable, column: str, attribute: Attribute, findings: Findings) -> None:
    accepted = f"{', '.join(attribute.statements)}, or an empty cell where the prompt leaves {attribute.name} open"
    wrong = prompts.records_with(column, lambda value: value not in ("", *attribute.statements))
    several = np.array([_names_several(prompts.cell(column, index), attribute) for index in wrong], dtype=bool)
    findings.add_rows(
        prompts,
        column,
        wrong[several],
        message=f"a prompt that states two classes of {attribute.name}",
        accepted=f"one of them; {PARTLY!r} where one person may be of either; a row each for two people",
    )
    findings.add_rows(
        prompts, column, wrong[~several], message=f"unknown {attribute.name} class", accepted=accepted
    )


def _names_several(value: str, attribute: Attribute) -> bool:
    parts = [part.strip() for part in _SEVERAL.split(value)]
    return len(parts) > 1 and all(part in attribute.statements for part in parts)


def _bases(prompts: TextTable) -> NDArray[np.int64]:
    """For each prompt the record of its base prompt, -1 where it has none or that is unknown."""
    if not prompts.has(BASE_PROMPT_COLUMN):
        return np.full(len(prompts), -1, dtype=np.int64)
    # Of a repeated id, which is a mistake of its own, the first record counts.
    ids = prompts.column("prompt_id").to_pylist()
    known = {name.strip(): record for record, name in reversed(list(enumerate(ids)))}
    known.pop("", None)
    bases = prompts.column(BASE_PROMPT_COLUMN).to_pylist()
    return np.array([known.get(name.strip(), -1) for name in bases], dtype=np.int64)


def _check_bases(prompts: TextTable, bases: NDArray[np.int64], findings: Findings) -> bool:
    """Report unknown bases and circles; True if there are no circles."""
    known = prompts.encoded("prompt_id").texts
    readable = {"", *prompts.unreadable.get("prompt_id", ())}
    named = prompts.records_with(BASE_PROMPT_COLUMN, lambda value: value.strip() not in readable)

    def accepted(index: int) -> str:
        hint = nearest_hint(prompts.cell(BASE_PROMPT_COLUMN, index), known)
        row = "a prompt_id of this file (a base prompt needs a row, but no images), or an empty cell"
        return f"{row}; {hint}" if hint.startswith("did you mean") else row

    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        named[bases[named] < 0],
        message="base prompt that the file does not list",
        accepted=accepted,
    )
    is_own = bases == np.arange(len(bases))
    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        np.flatnonzero(is_own),
        message="prompt that is its own base",
        accepted="the prompt without what this one states, or an empty cell",
    )
    circle = in_circle(np.where(is_own, -1, bases))
    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        np.flatnonzero(circle),
        message="prompt that is its own base, by way of other prompts",
        accepted="a prompt that is not made from this one, or an empty cell",
    )
    return not (is_own | circle).any()


def _check_completeness(prompts: TextTable, bases: NDArray[np.int64], findings: Findings) -> None:
    numbers = as_numbers(prompts.column(WEIGHT_COLUMN))
    without = np.flatnonzero(np.isnan(_inherited(numbers, bases)))
    if len(without) > 0 and not np.isnan(numbers).all():
        first = int(without[0])
        findings.add(
            Problem(
                prompts.file,
                f"{len(without):,} of {len(prompts):,} prompts have no weight, nor a base with one; the first",
                prompts.row(first),
                WEIGHT_COLUMN,
                prompts.cell("prompt_id", first),
                "a weight for all prompts, or for none",
            )
        )


def _inherited(weights: NDArray[np.float64], bases: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights, those of the base prompts where there are none of their own."""
    found = weights.copy()
    for _ in range(len(weights)):
        missing = np.flatnonzero(np.isnan(found) & (bases >= 0))
        taken = found[bases[missing]]
        if np.isnan(taken).all():
            break
        found[missing] = taken
    return found
