"""Images found by their ids, also where different ids have the same hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from detector_bench.dataset.image_ids import UNKNOWN_ID, ImageIds, hash_texts

STEPS = [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB]
TEXTS = ["", "a", "a\0", "ä", "image_1", "image_10", "eightlet", "eightlet9", "x" * 100, "x" * 101, "日本語の画像"]


def mixed(state: np.ndarray) -> np.ndarray:
    """One round of SplitMix64, written down a second time."""
    state = (state ^ (state >> np.uint64(32))) * np.uint64(STEPS[1])
    state = (state ^ (state >> np.uint64(29))) * np.uint64(STEPS[2])
    return state ^ (state >> np.uint64(32))


def after_first_word(words: np.ndarray) -> np.ndarray:
    """The state after the first eight bytes of a text of sixteen."""
    return mixed((np.uint64(16) * np.uint64(STEPS[0])) ^ words)


def of_one_hash(text: str, number: int) -> list[str]:
    """Other printable texts of sixteen letters with the hash of this one: where the first halves lead to different
    states, the second halves make up for it."""
    first, second = np.frombuffer(text.encode(), "<u8")
    letters = np.random.default_rng(1).integers(0x21, 0x7F, size=(40_000 * number, 8), dtype=np.uint8)
    firsts = letters.view("<u8")[:, 0]
    seconds = second ^ after_first_word(np.array([first])) ^ after_first_word(firsts)
    halves = seconds.view(np.uint8).reshape(-1, 8)
    printable = ((halves > 0x20) & (halves < 0x7F)).all(axis=1)
    found = [bytes([*one, *two]).decode() for one, two in zip(letters[printable], halves[printable], strict=True)]
    return found[:number]


@pytest.fixture(scope="module")
def alike() -> list[str]:
    """Four ids of one hash."""
    with np.errstate(over="ignore"):
        ids = ["image_0000000001", *of_one_hash("image_0000000001", 3)]
    assert len(set(ids)) == 4
    assert len(set(hash_texts(pa.array(ids, pa.large_string())).tolist())) == 1
    return ids


def test_a_text_has_one_hash_wherever_it_stands() -> None:
    whole = hash_texts(pa.array(TEXTS, pa.large_string()))
    assert len(set(whole.tolist())) == len(TEXTS)
    for begin in range(len(TEXTS)):
        part = pa.array(["before", *TEXTS, "after"], pa.large_string()).slice(1 + begin, 2)
        np.testing.assert_array_equal(hash_texts(part)[: len(TEXTS) - begin], whole[begin : begin + 2])
        np.testing.assert_array_equal(hash_texts(pa.array([TEXTS[begin]], pa.large_string())), whole[[begin]])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_every_id_is_found_in_any_order_and_no_other(kind: pa.DataType) -> None:
    ids = ImageIds(pa.chunked_array([TEXTS[:4], TEXTS[4:]], pa.string()))
    order = np.random.default_rng(1).permutation(len(TEXTS))
    wanted = [TEXTS[place] for place in order] + ["b", "image_11", TEXTS[0]]
    assert ids.positions(pa.array(wanted, pa.string()).cast(kind)).tolist() == [*order, UNKNOWN_ID, UNKNOWN_ID, 0]
    assert ids.positions(pa.array([], kind)).tolist() == []
    assert ids.are_distinct
    assert not ImageIds(pa.array([*TEXTS, "a"])).are_distinct


def test_ids_of_one_hash_are_told_apart(alike: list[str]) -> None:
    known, stranger = alike[:3], alike[3]
    ids = ImageIds(pa.array([known[0], "image_2", known[1], "image_3", known[2]]))
    assert ids.are_distinct
    wanted = [stranger, known[2], "image_3", known[0], "image_4", known[1], known[2]]
    assert ids.positions(pa.array(wanted)).tolist() == [UNKNOWN_ID, 4, 3, 0, UNKNOWN_ID, 2, 4]
    assert not ImageIds(pa.array([*known, known[1]])).are_distinct
