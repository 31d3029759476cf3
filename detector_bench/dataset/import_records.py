"""The records of imported images: ids, names, and where each file goes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.text_table import TextTable, text_columns
from detector_bench.vocabulary.columns import IMAGE_COLUMNS


@dataclass(frozen=True, slots=True)
class ImportedImage:
    """An image of the new set. All of it is text: a million `Path`s take longer to make, and a gigabyte.

    Attributes:
        image_id: as in the table of images, like the next four.
        path: likewise.
        t2i_model: likewise.
        prompt_id: likewise.
        seed_image_id: likewise.
        origin: where its file lies now.
        source_path: what label files may call it.
    """

    image_id: str
    path: str
    t2i_model: str
    prompt_id: str
    seed_image_id: str
    origin: str
    source_path: str


def path_in_set(folder: Path, path: str, destination: Path, *, otherwise: str) -> str:
    """Where a file of a folder lies in the image set; under `otherwise` if the folder lies elsewhere."""
    inside = _place_in(folder, destination)
    if inside is not None:
        return f"{inside}{path}"
    return path if otherwise and path.startswith(otherwise) else f"{otherwise}{path}"


@lru_cache(maxsize=8)
def _place_in(folder: Path, destination: Path) -> str | None:
    """What stands before paths of a folder in the image set; None: it lies elsewhere."""
    if not folder.is_relative_to(destination):
        return None
    place = folder.relative_to(destination).as_posix()
    return "" if place == "." else f"{place}/"


def image_table(images: list[ImportedImage], *, has_seeds: bool) -> TextTable:
    """The table of images, which says of which photo an image was made where there are photos."""
    columns = (*IMAGE_COLUMNS, *([SEED_COLUMN] if has_seeds else []))
    cells = {name: [str(getattr(image, name)) for image in images] for name in columns}
    return TextTable("images.csv", text_columns(cells))


def names_too_like(t2i_models: Iterable[str]) -> list[str]:
    """A sentence for each group of T2I models whose names look alike: they may be one."""
    by_letters: dict[str, set[str]] = {}
    for name in set(t2i_models):
        by_letters.setdefault(unicodedata.normalize("NFKC", name).casefold(), set()).add(name)
    return [
        f"{', '.join(map(repr, sorted(names)))} are {len(names)} T2I models, though only upper and lower case, or "
        "the code of a letter, tells them apart"
        for names in by_letters.values()
        if len(names) > 1
    ]
