"""What an evaluation reads beside predictions, and whether that is still what an earlier one read.

Labels that come along are expected; labels, prompts or images that are others than before are not, unless somebody
says so. To tell the one from the other a result folder keeps a hash of every row, in `inputs.parquet`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from detector_bench.atomic_files import remove, replacing
from detector_bench.dataset import ImageSet
from detector_bench.dataset.calibration_file import CALIBRATION_FILE
from detector_bench.dataset.generations import answered_rows
from detector_bench.dataset.image_ids import hash_texts, one_array
from detector_bench.dataset.sample_file import SAMPLE_FILE
from detector_bench.errors import ChangedInputsError
from detector_bench.results.manifest import STUDY_FILE, Manifest, last_evaluation
from detector_bench.runner.stored_predictions import sha256_of_file
from detector_bench.vocabulary.generations import GENERATIONS_FILE

IMAGE_SET = "the image set"
"""Its name among `Proof.inputs`; `sample.csv`, `calibration.csv`, `generations.parquet` and files of score systems
stand there by their own names."""

_BESIDE = (SAMPLE_FILE, CALIBRATION_FILE, GENERATIONS_FILE)
"""Files of an image set that grow with it."""

ROWS_FILE = "inputs.parquet"

MOST_ROWS = 2_000_000
"""Of images, prompts and labels together: larger sets have no such file, and may not even grow unsaid."""

_Table = Literal["images", "prompts", "labels"]
_TABLES: tuple[_Table, ...] = ("images", "prompts", "labels")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def inputs_of(image_set: ImageSet, score_files: Iterable[Path]) -> dict[str, str]:
    """The sha256 of all that an evaluation reads beside predictions, by name.

    Args:
        image_set: its tables count as one.
        score_files: of score systems; a folder counts with all files in it.
    """
    found = {IMAGE_SET: image_set.fingerprint()}
    for path in (*(image_set.root / name for name in _BESIDE), *score_files):
        if (sha256 := content_sha256(path)) is not None:
            name = path.name if path.name not in found else str(len(found)) + " " + path.name
            found[name] = sha256
    return found


def refuse_changed_inputs(folder: Path, inputs: Mapping[str, str], image_set: ImageSet) -> None:
    """Refuse to make numbers for a folder that has some, of inputs that are not those of before.

    What comes along is none of this: an image set grows, its labels become more, a sample is drawn.

    Args:
        folder: with or without results.
        inputs: as they are now.
        image_set: the images, prompts and labels of now.

    Raises:
        ChangedInputsError: names what has changed.
    """
    earlier = last_evaluation(folder)
    if earlier is None:
        return
    changed = changed_inputs(earlier, inputs)
    if {IMAGE_SET, *_BESIDE} & set(changed) and _has_only_grown(folder, earlier, image_set):
        changed = [name for name in changed if name not in (IMAGE_SET, *_BESIDE)]
    if changed:
        raise ChangedInputsError(_refusal(folder, changed))


def refuse_other_image_set(folder: Path, manifest: Manifest, image_set: ImageSet) -> None:
    """Refuse to read an image set beside numbers that were made of another one, or of another sample of it.

    One that has only grown will do.

    Raises:
        ChangedInputsError: it has changed.
    """
    now = inputs_of(image_set, ())
    changed = [name for name in changed_inputs(manifest, now) if name in (IMAGE_SET, *_BESIDE)]
    if not changed or _has_only_grown(folder, manifest, image_set):
        return
    what = " and ".join(changed)
    are, they = ("are", "those") if len(changed) > 1 else ("is", "the one")
    raise ChangedInputsError(
        f"{what} {are} not {they} that the numbers in {str(folder)!r} were made of: put back what was there, "
        f"or make them anew with `detector-bench evaluate {folder} --changed-inputs`"
    )


def refuse_changed_study(folder: Path) -> None:
    """Refuse to evaluate a result folder by its own `study.yaml`, if that is not the one it was evaluated with.

    Raises:
        ChangedInputsError: it has been changed.
    """
    earlier = last_evaluation(folder)
    written = None if earlier is None else earlier.proof.files.get(STUDY_FILE)
    if written is not None and sha256_of_file(folder / STUDY_FILE) != written:
        raise ChangedInputsError(_refusal(folder, [STUDY_FILE]))


def changed_inputs(earlier: Manifest, inputs: Mapping[str, str]) -> list[str]:
    """Names of what was read by an earlier evaluation and is gone, or is something else now."""
    return [name for name, sha256 in earlier.proof.inputs.items() if inputs.get(name) != sha256]


def _refusal(folder: Path, changed: list[str]) -> str:
    what = " and ".join(changed)
    has = "have" if len(changed) > 1 else "has"
    return (
        f"{what} {has} changed since the numbers in {str(folder)!r} were made: put back what was there, name "
        "another folder with --out, or say --changed-inputs if that is meant"
    )


def write_row_hashes(image_set: ImageSet, folder: Path) -> dict[str, int]:
    """Write the hashes of all rows, for the next evaluation to compare with.

    Returns:
        The number of rows of the file, by its name; nothing for a set that is too large.
    """
    hashes = _hashes(image_set)
    if not hashes:
        remove(folder / ROWS_FILE)
        return {}
    names = pa.array([name for name, rows in hashes.items() for _ in range(len(rows))], pa.string())
    numbers = np.concatenate(list(hashes.values()))
    rows = pa.table({"table": names.dictionary_encode(), "row": numbers})
    with replacing(folder / ROWS_FILE) as temporary:
        pq.write_table(rows, temporary, compression="zstd", write_page_checksum=True)
    return {ROWS_FILE: rows.num_rows}


def _has_only_grown(folder: Path, earlier: Manifest, image_set: ImageSet) -> bool:
    """Whether every row of before is there still."""
    path = folder / ROWS_FILE
    written = earlier.proof.files.get(ROWS_FILE)
    if written is None or sha256_of_file(path) != written or not _is_small(image_set):
        return False
    rows = pq.read_table(path)
    tables, before = rows["table"].to_numpy(), rows["row"].to_numpy()
    return all(np.isin(before[tables == name], now).all() for name, now in _hashes(image_set).items())


def _is_small(image_set: ImageSet) -> bool:
    return sum(len(image_set.table(name)) for name in _TABLES) <= MOST_ROWS


def _hashes(image_set: ImageSet) -> dict[str, NDArray[np.uint64]]:
    """By table, the hashes of its rows; none of a set that is too large."""
    if not _is_small(image_set):
        return {}
    found = {str(name): _row_hashes(image_set, name) for name in _TABLES}
    for name in (SAMPLE_FILE, CALIBRATION_FILE):
        file = image_set.root / name
        lines = file.read_bytes().splitlines() if file.is_file() else []
        found[name] = hash_texts(pa.array([line.hex() for line in lines], pa.large_string()))
    found[GENERATIONS_FILE] = _answer_hashes(image_set.root / GENERATIONS_FILE)
    return found


def _answer_hashes(path: Path) -> NDArray[np.uint64]:
    """`[row]`: of each request that was answered, whose answer stays; what failed or waits may be answered yet."""
    pieces = answered_rows(path) if path.is_file() else ()
    hashes = [
        np.sum([_cell_hashes(name, one_array(rows[name])) for name in rows.column_names], axis=0, dtype=np.uint64)
        for rows in pieces
    ]
    return np.concatenate([np.empty(0, dtype=np.uint64), *hashes])


def _row_hashes(image_set: ImageSet, name: _Table) -> NDArray[np.uint64]:
    """`[row]`, sorted: a hash over all cells of each row that hold something."""
    table = image_set.table(name)
    found = np.zeros(len(table), dtype=np.uint64)
    for column in table.columns:
        # Columns that are empty may come and go; sums do not ask for the order of columns.
        found += _cell_hashes(column, one_array(table.column(column)))
    if name == "labels" and "image_id" not in table.columns:
        ids = _cell_hashes("image_id", one_array(image_set.table("images").column("image_id")))
        found += ids[image_set.image_of_label]
    found.sort()
    return found


def _cell_hashes(column: str, cells: pa.LargeStringArray) -> NDArray[np.uint64]:
    """`[row]`: of the text in a column of this name, 0 where there is none."""
    own = hash_texts(pa.array([column], pa.large_string()))[0]
    is_filled = pc.not_equal(cells, "").to_numpy(zero_copy_only=False)
    return np.where(is_filled, (hash_texts(cells) ^ own) * _FACTOR, np.uint64(0))


def content_sha256(path: Path) -> str | None:
    """The sha256 of a file, or of the names and contents of all files of a folder; None if there is neither."""
    if not path.is_dir():
        return sha256_of_file(path)
    parts = [
        f"{each.relative_to(path)} {sha256_of_file(each)}" for each in sorted(path.rglob("*")) if each.is_file()
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
