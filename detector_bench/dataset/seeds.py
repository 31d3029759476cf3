"""The rules of edited pairs: which image an edited one was made from, and which photo no T2I model made."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.circles import in_circle
from detector_bench.dataset.findings import Findings
from detector_bench.dataset.image_ids import ImageCodes, without
from detector_bench.dataset.text_table import TextTable
from detector_bench.errors import nearest_hint

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
    empty = np.array([not text.strip() for text in encoded.texts], dtype=bool)
    return empty[encoded.codes]


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
