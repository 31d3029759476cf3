"""What the annotators agree on: one label per image and attribute, and the mean of the numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.text_table import Findings, TextTable, trimmed, true_indices
from detector_bench.vocabulary import LOW_QUALITY, Attribute, Unit
from detector_bench.vocabulary.columns import VALUE_COLUMN

ADJUDICATOR = "adjudicator"
"""The annotator who decides after a discussion; this row overrules the others."""

CONSENSUS = "consensus"
"""Reserved: consensus is derived and never stored."""

DISAGREEMENT = "disagreement"
"""Reason of a consensus `low_quality` that comes from annotators who did not agree."""

ALL_AGREE = "all_agree"
"""In place of an annotator: the images that at least two people labelled, all of them alike. Reserved."""

DAWID_SKENE = "dawid_skene"
"""In place of an annotator: the true labels as Dawid and Skene's model estimates them. Reserved."""

RESERVED_ANNOTATORS = (CONSENSUS, ALL_AGREE, DAWID_SKENE)
"""No annotator may bear these names: tables say with them which labels a number rests on."""

UNLABELLED = -1
UNRESOLVED = -2


class AgreedCodes(NamedTuple):
    """The outcome per group (an image and an attribute), as codes.

    Attributes:
        label: code of the agreed label, `UNLABELLED` (no row) or `UNRESOLVED` (disagreement); shape (groups,).
        reason_row: the row whose reason counts, or -1 for none; shape (groups,).
    """

    label: NDArray[np.integer[Any]]
    reason_row: NDArray[np.int64]


def consensus(labels: pd.DataFrame) -> pd.DataFrame:
    """Derive one label per image and attribute from all annotators' labels.

    An adjudicator's row (annotator `ADJUDICATOR`) decides. Otherwise a label on which all annotators agree is
    taken, and one annotator alone counts as agreement. Otherwise the label is `low_quality` and the reason
    `DISAGREEMENT`. `others` is a label like any other here. The reason is the adjudicator's own, else that of
    the first annotator, by name, who gave the agreed label and a reason. The order of the rows has no influence
    on labels and reasons.

    Source: Lyu 2025, section 3.3, step 3 (two annotators, discussion, unresolved cases are low-quality).

    Args:
        labels: columns `image_id, annotator, attribute, label, reason`; at most one row per image, annotator
            and attribute.

    Returns:
        Columns `image_id, attribute, label, reason`, in order of first appearance; reason is "" where none.
    """
    attribute_codes, attributes = pd.factorize(labels["attribute"])
    image_codes, images = pd.factorize(labels["image_id"])
    group, keys = pd.factorize(image_codes.astype(np.int64) * max(len(attributes), 1) + attribute_codes)
    decided = label_table(labels, group=group.astype(np.int64), n_groups=len(keys))
    decided.insert(0, "image_id", images[keys // max(len(attributes), 1)])
    decided.insert(1, "attribute", attributes[keys % max(len(attributes), 1)])
    return decided


def label_table(labels: pd.DataFrame, *, group: NDArray[np.int64], n_groups: int) -> pd.DataFrame:
    """Apply the consensus rule to rows that are already numbered by group.

    Args:
        labels: columns `annotator, label, reason`.
        group: for each row, the number of its group, 0 to n_groups - 1.
        n_groups: how many groups there are; some may have no row.

    Returns:
        Columns `label` (missing for a group without rows) and `reason` ("" where none); one row per group.
    """
    label_codes, values = pd.factorize(labels["label"])
    annotator_codes, annotators = pd.factorize(labels["annotator"])
    decision = decide(
        group,
        label_codes.astype(np.int64),
        rank=annotator_ranks(list(annotators))[annotator_codes],
        has_adjudicator=ADJUDICATOR in annotators,
        has_reason=(labels["reason"] != "").to_numpy(dtype=bool),
        n_groups=n_groups,
    )
    reason_codes, reasons = pd.factorize(labels["reason"])
    return agreed_in_words(decision, labels=list(values), reasons=list(reasons), reason_codes=reason_codes)


def annotator_ranks(annotators: Sequence[str]) -> NDArray[np.int32]:
    """The place of each annotator in the order in which reasons are looked for, 0 first.

    The adjudicator comes first, so that his or her own reason wins; then all others by name.
    """
    order = sorted(range(len(annotators)), key=lambda code: (annotators[code] != ADJUDICATOR, annotators[code]))
    return np.argsort(order).astype(np.int32)


def agreed_in_words(
    agreed: AgreedCodes, *, labels: Sequence[str], reasons: Sequence[str], reason_codes: NDArray[np.integer[Any]]
) -> pd.DataFrame:
    """What `decide` found, as text.

    Args:
        agreed: one entry per group.
        labels: the text of each code of a label.
        reasons: the text of each code of a reason.
        reason_codes: for each row that was decided on, the code of its reason; empty where no row has one.

    Returns:
        Columns `label` (missing for a group without rows) and `reason` ("" where none); one row per group.
    """
    # -1 and -2 count from the end: the last text where there is none, the one before for want of agreement.
    label_texts = pd.array([*labels, LOW_QUALITY, None], dtype="str")
    reason_texts = pd.array([*reasons, DISAGREEMENT, ""], dtype="str")
    reason = np.full(len(agreed.label), -1, dtype=np.int64)
    is_stated = agreed.reason_row >= 0
    reason[is_stated] = reason_codes[agreed.reason_row[is_stated]]
    reason[agreed.label == UNRESOLVED] = -2
    return pd.DataFrame({"label": label_texts[agreed.label], "reason": reason_texts[reason]})


def decide(
    group: NDArray[np.integer[Any]],
    label: NDArray[np.integer[Any]],
    *,
    rank: NDArray[np.integer[Any]],
    has_adjudicator: bool,
    has_reason: NDArray[np.bool_],
    n_groups: int,
) -> AgreedCodes:
    """Apply the consensus rule to codes; the arrays have one entry per row, in any order.

    Args:
        group: number of the row's group, 0 to n_groups - 1.
        label: code of the row's label, 0 or more; in a signed type.
        rank: the annotator's place in the order in which reasons are looked for, 0 first.
        has_adjudicator: whether the annotator of rank 0 is the adjudicator.
        has_reason: whether the row states a reason.
        n_groups: how many groups there are.
    """
    decided = np.full(n_groups, UNLABELLED, dtype=label.dtype)
    # Where an index repeats, the last assignment stays, so this keeps any one label of each group.
    decided[group] = label
    decided[group[label != decided[group]]] = UNRESOLVED
    if has_adjudicator:
        decided[group[rank == 0]] = label[rank == 0]
    stated = np.flatnonzero(has_reason & (label == decided[group]))
    last_rank_first = stated[np.argsort(-rank[stated], kind="stable")]
    reason_row = np.full(n_groups, -1, dtype=np.int64)
    reason_row[group[last_rank_first]] = last_rank_first
    return AgreedCodes(decided, reason_row)


_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def as_numbers(cells: Any) -> NDArray[np.float64]:
    """A chunked pyarrow column of text as numbers; NaN for an empty cell, and for one that is no number."""
    cells = trimmed(cells)
    texts = pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, pa.scalar(None, cells.type))
    numbers: NDArray[np.float64] = texts.cast(pa.float64()).to_numpy()
    return numbers


def check_values(labels: TextTable, findings: Findings, known: Mapping[str, Attribute]) -> None:
    """Report values that their attribute cannot have, and values that do not fit their label."""
    if not labels.has(VALUE_COLUMN, "attribute", "label"):
        return
    given = true_indices(pc.not_equal(trimmed(labels.column(VALUE_COLUMN)), ""))
    if len(given) == 0:
        return
    numbers = as_numbers(labels.column(VALUE_COLUMN).take(pa.array(given)))
    attributes = labels.encoded("attribute")
    for name, attribute in known.items():
        if name not in attributes.texts:
            continue
        of_attribute = attributes.codes[given] == attributes.texts.index(name)
        records = given[of_attribute]
        if attribute.unit is None:
            measured = ", ".join(each.name for each in known.values() if each.unit is not None)
            findings.add_rows(
                labels,
                VALUE_COLUMN,
                records,
                message=f"{name} has no measured value",
                accepted=f"an empty cell; a number may stand beside {measured}",
            )
        else:
            values = _Values(labels, records, numbers[of_attribute], findings)
            values.check(attribute, attribute.unit)


@dataclass(frozen=True, eq=False)
class _Values:
    """The values given for one attribute: which records of the labels they stand in, and the numbers."""

    labels: TextTable
    records: NDArray[np.intp]
    numbers: NDArray[np.float64]
    findings: Findings

    def check(self, attribute: Attribute, unit: Unit) -> None:
        """Report what is no number, out of range, beside no class, or beside the wrong one: the first of these."""
        in_range = f"a number from {unit.lowest:g} to {unit.highest:g} ({unit.name}), or an empty cell"
        is_number = ~np.isnan(self.numbers)
        is_inside = is_number & (unit.lowest <= self.numbers) & (self.numbers <= unit.highest)
        self._report(~is_number, f"{attribute.name} that is not a number", in_range)
        self._report(is_number & ~is_inside, f"{attribute.name} out of range", in_range)
        label = self._label_positions(attribute)
        for position in range(len(attribute.classes), len(attribute.labels)):
            self._report(
                is_inside & (label == position),
                f"value beside the label {attribute.labels[position]!r}",
                f"an empty cell, or a label among {', '.join(attribute.classes)}",
            )
        starts = np.array(attribute.starts)
        fitting = np.searchsorted(starts, self.numbers, side="right") - 1
        for position, start in enumerate(starts):
            is_last = position + 1 == len(starts)
            end = f"{unit.highest:g}" if is_last else f"below {starts[position + 1]:g}"
            self._report(
                is_inside & (label == position) & (fitting != position),
                f"value that contradicts the label {attribute.classes[position]!r}",
                f"{start:g} to {end} ({unit.name}), or the label of that value",
            )

    def _report(self, is_wrong: NDArray[np.bool_], message: str, accepted: str) -> None:
        self.findings.add_rows(
            self.labels, VALUE_COLUMN, self.records[is_wrong], message=message, accepted=accepted
        )

    def _label_positions(self, attribute: Attribute) -> NDArray[np.int64]:
        """Position of each record's label in `attribute.labels`, or -1 for an unknown one."""
        encoded = self.labels.encoded("label")
        known = {name: position for position, name in enumerate(attribute.labels)}
        positions = np.array([known.get(text, -1) for text in encoded.texts], dtype=np.int64)
        found: NDArray[np.int64] = positions[encoded.codes[self.records]]
        return found


def agreed_values(
    labels: pd.DataFrame, *, group: NDArray[np.integer[Any]], consensus: pd.Series[str]
) -> NDArray[np.float64]:
    """One value per group (an image): the adjudicator's, else the mean of those who gave the agreed label.

    Args:
        labels: columns `annotator`, `label` and `value`, the value as text or "".
        group: for each row, the number of its group.
        consensus: the agreed label of each group.

    Returns:
        One number per group; NaN where nobody who gave the agreed label gave a value too.
    """
    values = as_numbers(pa.chunked_array(pa.array(labels[VALUE_COLUMN], pa.large_string())))
    counts = ~np.isnan(values) & (labels["label"].to_numpy() == consensus.to_numpy()[group])
    by_adjudicator = counts & (labels["annotator"] == ADJUDICATOR).to_numpy(dtype=bool)
    decided = np.zeros(len(consensus), dtype=bool)
    decided[group[by_adjudicator]] = True
    counts &= by_adjudicator | ~decided[group]
    # In ascending order, so that the order of the rows has no influence, not even in the last digit.
    rows = np.flatnonzero(counts)
    rows = rows[np.argsort(values[rows], kind="stable")]
    n = np.bincount(group[rows], minlength=len(consensus))
    total = np.bincount(group[rows], weights=values[rows], minlength=len(consensus))
    mean: NDArray[np.float64] = np.divide(total, n, out=np.full(len(consensus), np.nan), where=n > 0)
    return mean
