"""How images are referred to: unique ids, labels of images that are there, and the rules of edited pairs.

An edited image names the photo that it was made from, its seed; a seed is by no T2I model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.image_ids import UNKNOWN_ID, ImageIds
from detector_bench.dataset.text_table import (
    Findings,
    TextTable,
    distinct_texts,
    in_circle,
    is_plain,
    single_array,
    trimmed,
    true_indices,
)
from detector_bench.errors import nearest_hint


@dataclass(frozen=True, eq=False)
class ImageCodes:
    """Image ids as integers; equal codes are equal ids, and the images' ids have the lowest codes.

    Attributes:
        images: code of each image; its own index as long as no id is used twice.
        labels: code of the image that each label is for, or None if the labels do not say.
        seeds: code of the image that each image was made from, -1 for none; None if the images do not say.
        ids: those of the images, where they were looked up: then nothing is wrong with any of them.
    """

    images: NDArray[np.int32]
    labels: NDArray[np.signedinteger[Any]] | None
    seeds: NDArray[np.int64] | None
    ids: ImageIds | None = None


def code_image_ids(
    images: TextTable | None, labels: TextTable | None, *, seeds: str, ids: ImageIds | None = None
) -> ImageCodes | None:
    """Number the image ids of both tables; None if the images have no ids.

    `seeds` is the column of the images that names the image each was made from, `ids` those of the images where
    they are known to be distinct.

    Blanks around an id are left out: they are one mistake, reported where they stand, not also an unknown id
    everywhere else.
    """
    if images is None or not images.has("image_id"):
        return None
    if (known := _codes_of_known(images, labels, seeds=seeds, ids=ids)) is not None:
        return known
    # The images come first, so that their codes are the lowest.
    columns = [trimmed(images.column("image_id"))]
    has_labels = labels is not None and labels.has("image_id")
    if labels is not None and has_labels:
        columns.append(trimmed(labels.column("image_id")))
    if images.has(seeds):
        columns.append(trimmed(images.column(seeds)))
    chunks = [chunk for column in columns for chunk in column.chunks]
    _, codes = distinct_texts(pa.chunked_array(chunks, type=pa.large_string()))
    parts = np.split(codes, np.cumsum([len(column) for column in columns])[:-1])
    of_seeds = None
    if images.has(seeds):
        of_seeds = parts[-1].astype(np.int64)
        of_seeds[true_indices(pc.equal(columns[-1], ""))] = -1
    return ImageCodes(parts[0], parts[1].astype(np.int64) if has_labels else None, of_seeds)


def _codes_of_known(
    images: TextTable, labels: TextTable | None, *, seeds: str, ids: ImageIds | None
) -> ImageCodes | None:
    """The codes where nothing is wrong with the ids, in a part of the memory; None where something is."""
    if ids is None or not is_plain(images.column("image_id")):
        ids = ImageIds(trimmed(images.column("image_id")))
        if not ids.are_distinct:
            return None
    of_labels = of_seeds = None
    if labels is not None and labels.has("image_id"):
        of_labels = _positions(labels.data.column("image_id"), ids)
        if (of_labels == UNKNOWN_ID).any():
            return None
    if images.has(seeds):
        named = trimmed(images.column(seeds))
        of_seeds = ids.positions(named)
        has_none = single_array(pc.equal(named, "")).to_numpy(zero_copy_only=False)
        if ((of_seeds == UNKNOWN_ID) & ~has_none).any():
            return None
        of_seeds[has_none] = UNKNOWN_ID
    return ImageCodes(np.arange(len(ids), dtype=np.int32), of_labels, of_seeds, ids)


def _positions(column: Any, ids: ImageIds) -> NDArray[np.int64]:
    if pa.types.is_dictionary(column.type):
        cells = single_array(column)
        if ids.is_dictionary_of(cells):
            found: NDArray[np.int64] = cells.indices.to_numpy()
            return found
        column = column.cast(pa.large_string())
    return ids.positions(trimmed(column))


def check_image_ids(
    images: TextTable, labels: TextTable | None, codes: ImageCodes, findings: Findings, *, require_labels: bool
) -> None:
    """Report duplicate images, labels for unknown images, duplicate labels, and images without any label."""
    report_repeats(images, "image_id", codes.images, findings)
    if labels is None or codes.labels is None:
        return
    n_known = int(codes.images.max(initial=-1)) + 1
    unknown = np.flatnonzero(codes.labels >= n_known)
    findings.add_rows(
        labels,
        "image_id",
        without(unknown, labels, "image_id", {"", *images.unreadable.get("image_id", ())}),
        message="label for an unknown image",
        accepted=f"an image_id that {images.file} lists",
    )
    _report_repeated_labels(labels, codes.labels, findings)
    if not require_labels or len(labels) == 0:
        return
    is_labelled = np.zeros(n_known, dtype=bool)
    is_labelled[codes.labels[codes.labels < n_known]] = True
    unlabelled = np.flatnonzero(~is_labelled[codes.images])
    findings.add_rows(
        images,
        "image_id",
        without(unlabelled, images, "image_id", {"", *labels.unreadable.get("image_id", ())}),
        message="image without any label",
        accepted=f"at least one row for it in {labels.file}",
    )


def report_repeats(table: TextTable, column: str, codes: NDArray[np.int32], findings: Findings) -> None:
    """Report every record whose id an earlier one has.

    `codes` are the column's, so that equal codes are equal ids. They count up from 0: all are distinct exactly
    if the largest is the number of records less one.
    """
    if len(codes) == 0 or codes.max() + 1 == len(codes):
        return
    repeated = np.flatnonzero(pd.Series(codes).duplicated())

    def first_use(index: int) -> str:
        first = int(np.flatnonzero(codes == codes[index])[0])
        return f"one that no other row has; {table.place(first, seen_from=index)} has it"

    findings.add_rows(
        table,
        column,
        without(repeated, table, column, {""}),
        message=f"duplicate {column}",
        accepted=first_use,
    )


def without(records: NDArray[np.intp], table: TextTable, column: str, texts: Collection[str]) -> NDArray[np.intp]:
    """Leave out the records whose cell, without blanks around it, is one of `texts`."""
    if len(records) == 0:
        return records
    cells = pc.utf8_trim_whitespace(table.column(column).take(pa.array(records)))
    left_out = true_indices(pc.is_in(cells, pa.array(sorted(texts), cells.type)))
    return np.delete(records, left_out)


def _report_repeated_labels(
    labels: TextTable, image_codes: NDArray[np.signedinteger[Any]], findings: Findings
) -> None:
    if not labels.has("annotator", "attribute", "label"):
        return
    annotators, attributes = labels.encoded("annotator"), labels.encoded("attribute")
    key = image_codes.astype(np.int64) * len(annotators.texts) + annotators.codes
    key = key * len(attributes.texts) + attributes.codes
    if len(key) > 0 and key.max() < 16 * len(key):  # cheaper than hashing, and it settles the usual case
        there = np.zeros(int(key.max()) + 1, dtype=np.bool_)
        there[key] = True
        if np.count_nonzero(there) == len(key):
            return
    is_repeated = pd.Series(key).duplicated().to_numpy()
    repeated = without(np.flatnonzero(is_repeated), labels, "image_id", {""})
    if len(repeated) == 0:
        return
    firsts = np.flatnonzero(~is_repeated)
    first_of = firsts[pd.Index(key[firsts]).get_indexer(pd.Index(key[repeated]))]
    answers = labels.encoded("label").codes
    contradicts = answers[repeated] != answers[first_of]
    origin = dict(zip(repeated.tolist(), first_of.tolist(), strict=True))

    def accepted(index: int) -> str:
        place = labels.place(origin[index], seen_from=index)
        label = labels.cell("label", origin[index])
        return f"one label per image, annotator and attribute; {place} says {label!r}"

    message = "duplicate label"
    findings.add_rows(labels, "label", repeated[~contradicts], message=message, accepted=accepted)
    message = "label that contradicts an earlier one of the same annotator"
    findings.add_rows(labels, "label", repeated[contradicts], message=message, accepted=accepted)


SEED_COLUMN = "seed_image_id"
"""Optional column of the images: for an edited image, the id of the image that it was made from (its seed).

A photo that was only edited has an empty `t2i_model` and an empty `prompt_id`, and must be the seed of an image.
"""

MADE_BY = ("t2i_model", "prompt_id")
"""Columns that are empty for such a photo, and for no other image."""

# Comparing names takes a while; more of them would also be no hint.
_MOST_NAMES_COMPARED = 1000


def check_seeds(images: TextTable, codes: ImageCodes, findings: Findings) -> None:
    """Report seeds that are no images of the set or have no pair, and empty cells that only a seed may have."""
    if codes.seeds is None:
        return
    n_known = int(codes.images.max(initial=-1)) + 1
    has_seed = codes.seeds >= 0
    is_known = has_seed & (codes.seeds < n_known)
    is_own = is_known & (codes.seeds == codes.images)
    _report_unknown(images, np.flatnonzero(has_seed & ~is_known), findings)
    findings.add_rows(
        images,
        SEED_COLUMN,
        np.flatnonzero(is_own),
        message="image that is its own seed",
        accepted="the id of another image, or an empty cell",
    )
    pairs = is_known & ~is_own
    parents = np.full(n_known, -1, dtype=np.int64)
    parents[codes.images[pairs]] = codes.seeds[pairs]
    findings.add_rows(
        images,
        SEED_COLUMN,
        np.flatnonzero(in_circle(parents)[codes.images]),
        message="image that is made from itself, by way of other images",
        accepted="an image that is not made from this one, or an empty cell",
    )
    if images.has(*MADE_BY):
        is_seed = np.zeros(n_known, dtype=bool)
        is_seed[codes.seeds[is_known]] = True
        _check_makers(images, findings, has_seed=has_seed, is_seed=is_seed[codes.images])


def _check_makers(
    images: TextTable, findings: Findings, *, has_seed: NDArray[np.bool_], is_seed: NDArray[np.bool_]
) -> None:
    no_model, no_prompt = (_is_empty(images, column) for column in MADE_BY)
    only = "only the seed of an edited image may have none"
    findings.add_rows(
        images,
        "t2i_model",
        np.flatnonzero(no_model & (has_seed | (~no_prompt & ~is_seed))),
        message="empty cell",
        accepted=f"the T2I model that made the image; {only}",
    )
    findings.add_rows(
        images,
        "prompt_id",
        np.flatnonzero(no_prompt & (has_seed | ~no_model)),
        message="empty cell",
        accepted=f"the prompt that the image was made with; {only}",
    )
    findings.add_rows(
        images,
        "prompt_id",
        np.flatnonzero(no_model & ~no_prompt & ~has_seed & is_seed),
        message="prompt of a seed that no T2I model made",
        accepted="an empty cell, or the T2I model too",
    )
    if images.unreadable:  # the other half of the pair may stand in a row that could not be read
        return
    alone = np.flatnonzero(no_model & no_prompt & ~has_seed & ~is_seed)
    findings.add_rows(
        images,
        "image_id",
        without(alone, images, "image_id", {""}),
        message="seed without its pair",
        accepted=f"an image whose {SEED_COLUMN} names it; or the T2I model and the prompt that it was made with",
    )


def _is_empty(images: TextTable, column: str) -> NDArray[np.bool_]:
    encoded = images.encoded(column)
    empty: NDArray[np.bool_] = np.array([not text.strip() for text in encoded.texts], dtype=bool)[encoded.codes]
    return empty


def _report_unknown(images: TextTable, records: NDArray[np.intp], findings: Findings) -> None:
    unknown = without(records, images, SEED_COLUMN, {"", *images.unreadable.get("image_id", ())})
    if len(unknown) == 0:
        return
    candidates = images.column("image_id")
    if images.has("t2i_model"):
        photos = np.flatnonzero(_is_empty(images, "t2i_model"))
        candidates = candidates.take(photos) if len(photos) else candidates
    names = candidates.to_pylist() if len(candidates) <= _MOST_NAMES_COMPARED else []

    def accepted(index: int) -> str:
        hint = nearest_hint(images.cell(SEED_COLUMN, index), names)
        return hint if hint.startswith("did you mean") else f"an image_id that {images.file} lists"

    findings.add_rows(
        images, SEED_COLUMN, unknown, message="seed that is not an image of the set", accepted=accepted
    )


def count_pairs(images: TextTable) -> tuple[int, int]:
    """How many different seeds there are, and how many images were made from them."""
    if not images.has(SEED_COLUMN):
        return 0, 0
    seeds = images.column(SEED_COLUMN)
    edited = seeds.filter(pc.not_equal(seeds, ""))
    return len(edited.unique()), len(edited)
