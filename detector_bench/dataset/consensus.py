"""What the annotators agree on: one label per image and attribute, out of every annotator's own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.vocabulary import LOW_QUALITY

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


class Decision(NamedTuple):
    """The outcome per group (an image and an attribute), as codes.

    Attributes:
        label: code of the agreed label, `UNLABELLED` (no row) or `UNRESOLVED` (disagreement); shape (groups,).
        reason_row: the row whose reason counts, or -1 for none; shape (groups,).
    """

    label: NDArray[np.int64]
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
    # The adjudicator comes first, so that his or her own reason wins.
    order = sorted(range(len(annotators)), key=lambda code: (annotators[code] != ADJUDICATOR, annotators[code]))
    rank_of = np.empty(len(annotators), dtype=np.int64)
    rank_of[order] = np.arange(len(annotators))
    decision = decide(
        group,
        label_codes.astype(np.int64),
        rank=rank_of[annotator_codes],
        has_adjudicator=ADJUDICATOR in annotators,
        has_reason=(labels["reason"] != "").to_numpy(dtype=bool),
        n_groups=n_groups,
    )
    label_texts = pd.array([*values, LOW_QUALITY, None], dtype="str")
    reason_codes, reasons = pd.factorize(labels["reason"])
    reason_texts = pd.array([*reasons, DISAGREEMENT, ""], dtype="str")
    # -1 and -2 count from the end: the last text where there is none, the one before for want of agreement.
    reason_of_group = np.full(n_groups, -1, dtype=np.int64)
    is_stated = decision.reason_row >= 0
    reason_of_group[is_stated] = reason_codes[decision.reason_row[is_stated]]
    reason_of_group[decision.label == UNRESOLVED] = -2
    return pd.DataFrame({"label": label_texts[decision.label], "reason": reason_texts[reason_of_group]})


def decide(
    group: NDArray[np.int64],
    label: NDArray[np.int64],
    *,
    rank: NDArray[np.int64],
    has_adjudicator: bool,
    has_reason: NDArray[np.bool_],
    n_groups: int,
) -> Decision:
    """Apply the consensus rule to codes; the arrays have one entry per row, in any order.

    Args:
        group: number of the row's group, 0 to n_groups - 1.
        label: code of the row's label, 0 or more.
        rank: the annotator's place in the order in which reasons are looked for, 0 first.
        has_adjudicator: whether the annotator of rank 0 is the adjudicator.
        has_reason: whether the row states a reason.
        n_groups: how many groups there are.
    """
    decided = np.full(n_groups, UNLABELLED, dtype=np.int64)
    # Where an index repeats, the last assignment stays, so this keeps any one label of each group.
    decided[group] = label
    decided[group[label != decided[group]]] = UNRESOLVED
    if has_adjudicator:
        decided[group[rank == 0]] = label[rank == 0]
    stated = np.flatnonzero(has_reason & (label == decided[group]))
    last_rank_first = stated[np.argsort(-rank[stated], kind="stable")]
    reason_row = np.full(n_groups, -1, dtype=np.int64)
    reason_row[group[last_rank_first]] = last_rank_first
    return Decision(decided, reason_row)
