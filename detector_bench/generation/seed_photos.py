"""Photos that are edited: read, checked, put into the image set that is made of them, with their labels."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from detector_bench.atomic_files import replacing
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.image_set_tables import Tables, read_labels
from detector_bench.dataset.image_tree import find_seeds, slug
from detector_bench.dataset.importing import SEED_FOLDER
from detector_bench.dataset.many_files import each_file
from detector_bench.dataset.seed_balance import SeedBalance, photo_positions, seed_balance
from detector_bench.dataset.table_reading import SUFFIXES
from detector_bench.dataset.text_table import Findings, TextTable, text_columns
from detector_bench.dataset.validation import validate
from detector_bench.errors import ConfigError, DetectorBenchError, Problem
from detector_bench.generation.image_requests import SeedPhoto
from detector_bench.vocabulary import ATTRIBUTES, attributes_of, write_attributes
from detector_bench.vocabulary.columns import LABEL_COLUMNS, VALUE_COLUMN

_ID_PREFIX = "seed__"
_NOBODY = "photo"
"""In the place of T2I model and prompt, which photos have none of."""


@dataclass(frozen=True, eq=False)
class SeedPhotos:
    """The photos that a recipe edits.

    Attributes:
        place: the folder, or the image set.
        photos: in the order of their files' names, or of the image set.
        image_set: the image set that they stand in; None: a folder of files.
        rows: their positions among its images.
    """

    place: Path
    photos: tuple[SeedPhoto, ...]
    image_set: ImageSet | None = None
    rows: tuple[int, ...] = ()

    def labels(self) -> pd.DataFrame:
        """What people said about them: `image_id` (that of the seed photo), `annotator, attribute, label, reason,
        value`, with "" where a cell is empty; no rows where they have no labels."""
        columns = [*LABEL_COLUMNS, VALUE_COLUMN]
        if self.image_set is None:
            return pd.DataFrame(columns=columns, dtype="str")
        own = self.image_set.table("images").column("image_id").to_pylist()
        ids = {own[row]: photo.image_id for row, photo in zip(self.rows, self.photos, strict=True)}
        labels = self.image_set.labels
        labels = labels[labels["image_id"].isin(list(ids))][columns]
        return labels.assign(image_id=labels["image_id"].map(ids)).reset_index(drop=True)

    def balance(self) -> SeedBalance:
        """How many there are of each perceived group, as far as they have labels."""
        if self.image_set is None:
            return SeedBalance(len(self.photos), {}, {}, {})
        return seed_balance(self.image_set, self.rows)

    def notes(self) -> list[str]:
        """What is said of them before anything is made: the balance of their groups, and photos that are the same
        file, a line each."""
        uses = Counter(photo.sha256 for photo in self.photos)
        same = [photo.image_id for photo in self.photos if uses[photo.sha256] > 1]
        lines = [f"seed photos with the same content, each counts: {', '.join(same)}"] if same else []
        return [*self.balance().lines(), *lines]


def read_seed_photos(place: Path) -> SeedPhotos:
    """Read the photos that are to be edited: every file, and its header; `check_seed_photos` decodes them.

    Args:
        place: a folder of image files, side by side, and perhaps a `labels.csv` (or `.parquet`) whose `image_id`
            is a file's name without its suffix; or an image set: its images without a T2I model, or all of them
            where every image has one.

    Returns:
        Ids are `seed__` and the file's name or the image's id, made safe.

    Raises:
        ConfigError: no such folder.
        DataError: no photos, or files that are none; all of them at once.
    """
    if not place.exists():
        raise ConfigError(
            f"seed_photos: there is no folder {str(place)!r} (accepted: a folder of photos, or an image set)"
        )
    findings = Findings()
    if any((place / f"images{suffix}").exists() for suffix in SUFFIXES):
        found = _of_image_set(place, findings)
    else:
        found = _of_folder(place, findings)
    findings.raise_if_any()
    return found


def _of_folder(place: Path, findings: Findings) -> SeedPhotos:
    names = find_seeds(place, findings)
    stems = [Path(name).stem for name in names]
    photos = _photos(_ids(stems), names, place, findings)
    image_set = _labelled_folder(place, names, stems, findings)
    return SeedPhotos(place, photos, image_set, () if image_set is None else tuple(range(len(names))))


def _labelled_folder(
    place: Path, names: Sequence[str], stems: Sequence[str], findings: Findings
) -> ImageSet | None:
    """The photos as an image set, if there is a `labels.csv` beside them that names them without their suffix."""
    if not names or not any((place / f"labels{suffix}").exists() for suffix in SUFFIXES):
        return None
    root = place.resolve()
    labels = read_labels(root, findings)
    same = [_NOBODY] * len(names)
    images = {"image_id": [*stems], "path": [*names], "t2i_model": same, "prompt_id": same}
    prompts = {"prompt_id": [_NOBODY], "category": [_NOBODY], "word": [_NOBODY], "prompt": [""]}
    tables = Tables(
        images=TextTable("photos", text_columns(images)),
        prompts=TextTable("prompts", text_columns(prompts)),
        labels=labels,
        attributes={**ATTRIBUTES.only_built_in(), **attributes_of(root)},
    )
    codes = validate(tables, findings, require_labels=False)
    return None if findings else ImageSet.from_tables(root, tables, codes)


def _of_image_set(place: Path, findings: Findings) -> SeedPhotos:
    image_set = ImageSet.load(place)
    rows = photo_positions(image_set)
    images = image_set.table("images")
    own, paths = (images.column(name).to_pylist() for name in ("image_id", "path"))
    distant = np.array([row for row in rows if not is_file_below(paths[row])], dtype=np.intp)
    findings.add_rows(
        images, "path", distant, message="a seed photo is no file of this image set", accepted="a file below it"
    )
    if len(distant):
        return SeedPhotos(place, ())
    ids = _ids([own[row] for row in rows])
    photos = _photos(ids, [paths[row] for row in rows], image_set.root, findings)
    return SeedPhotos(place, photos, image_set, tuple(int(row) for row in rows))


def _ids(names: Sequence[str]) -> list[str]:
    """An id for each photo, which is part of file names: two never differ by upper and lower case alone, or by how
    many underscores they have."""
    plain = [_ID_PREFIX + (re.sub("_{2,}", "_", slug(name.removeprefix(_ID_PREFIX))) or "_") for name in names]
    uses = Counter(name.casefold() for name in plain)
    return [
        each if uses[each.casefold()] == 1 else f"{each}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        for each, name in zip(plain, names, strict=True)
    ]


def _photos(ids: Sequence[str], names: Sequence[str], folder: Path, findings: Findings) -> tuple[SeedPhoto, ...]:
    answers = each_file(partial(_sha256_or_fault, folder), names)
    photos, faults = [], []
    for image_id, name, (sha256, fault) in zip(ids, names, answers, strict=True):
        if fault is None:
            photos.append(SeedPhoto(image_id, folder / name, sha256))
        else:
            faults.append(Problem(f"{folder.name}/{name}", f"no seed photo: {fault}"))
    findings.add_kind(faults)
    return tuple(photos)


def _sha256_or_fault(folder: Path, name: str) -> tuple[str, str | None]:
    from detector_bench.dataset.decoding import ImageError, image_size, read_image_file  # a while to import

    try:
        content = read_image_file(folder / name)
        image_size(content)
    except ImageError as error:
        return "", str(error)
    return hashlib.sha256(content).hexdigest(), None


def check_seed_photos(photos: Sequence[SeedPhoto]) -> None:
    """Decode photos.

    Raises:
        DataError: some cannot be decoded; all of them.
    """
    faults = each_file(_fault, [str(photo.path) for photo in photos])
    findings = Findings()
    findings.add_kind(
        [
            Problem(str(photo.path), f"no seed photo: {fault}")
            for photo, fault in zip(photos, faults, strict=True)
            if fault is not None
        ]
    )
    findings.raise_if_any()


def _fault(path: str) -> str | None:
    from detector_bench.dataset.decoding import ImageError, decode_image, read_image_file  # a while to import

    try:
        decode_image(read_image_file(Path(path)))
    except ImageError as error:
        return str(error)
    return None


def copy_seed_photos(seeds: SeedPhotos, image_set: Path) -> dict[str, str]:
    """Put the photos into the image set that is made of them, each whole or not at all; what is there stays.

    Those that are not there yet are decoded first: nothing is begun with a photo that cannot be.

    Args:
        seeds: the photos.
        image_set: its folder.

    Returns:
        By id of the photo, its path in the image set.

    Raises:
        ConfigError: another photo lies there under the same id, from which images may have been edited; all such
            photos, a line each.
        DataError: photos that cannot be decoded, all of them.
        DetectorBenchError: a photo cannot be read or written.
    """
    paths = {photo.image_id: _path_in_set(photo) for photo in seeds.photos}
    missing, others = [], []
    for photo in seeds.photos:
        target = image_set / paths[photo.image_id]
        if not target.exists():
            missing.append((photo, target))
        elif _sha256(target) != photo.sha256:
            others.append(
                f"{target}: images of this set were edited from this photo, and {photo.path} is another one "
                "(accepted: the same photo, the new one under another name, or another image set)"
            )
    if others:
        raise ConfigError("\n".join(others))
    check_seed_photos([photo for photo, _ in missing])
    for photo, target in missing:
        _copy(photo, target)
    return paths


def _path_in_set(photo: SeedPhoto) -> str:
    return (PurePosixPath(SEED_FOLDER) / f"{photo.image_id}{photo.path.suffix.lower()}").as_posix()


def _copy(photo: SeedPhoto, target: Path) -> None:
    try:
        content = photo.path.read_bytes()
        if hashlib.sha256(content).hexdigest() != photo.sha256:
            raise DetectorBenchError(f"{photo.path} changed while the recipe ran; run it again")
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise DetectorBenchError(f"cannot copy {photo.path} to {target}: {error.strerror or error}") from error


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DetectorBenchError(f"{path}: cannot be read: {error.strerror or error}") from error


def add_seed_labels(seeds: SeedPhotos, image_set: Path, *, images: Collection[str]) -> int:
    """Add the photos' labels to `labels.csv`, which is made if it is missing.

    A photo that has a label there keeps what it has; so does a file that is none of ours, or in Parquet. Own
    attributes of their image set come along.

    Args:
        seeds: the photos.
        image_set: the folder of the image set that is made.
        images: ids of the photos that its `images.csv` lists.

    Returns:
        How many labels were added.
    """
    file = image_set / "labels.csv"
    if seeds.image_set is None or (image_set / "labels.parquet").exists():
        return 0
    labels, there = seeds.labels(), None
    if file.exists():
        there = _labels_in(file)
        if there is None:
            return 0
        images = set(images) - set(there["image_id"])
    labels = labels[labels["image_id"].isin(list(images))]
    if not len(labels):
        return 0
    known, own = attributes_of(image_set), attributes_of(seeds.image_set.root)
    write_attributes((each for name, each in own.items() if name not in known), image_set)
    whole = labels if there is None else pd.concat([there, labels]).fillna("")
    with replacing(file) as temporary:
        whole.to_csv(temporary, index=False, lineterminator="\n")
    return len(labels)


def _labels_in(file: Path) -> pd.DataFrame | None:
    """A label table as it is; None where it is none, which whoever reads the image set tells."""
    try:
        found = pd.read_csv(file, dtype="str", keep_default_na=False)
    except (OSError, ValueError):  # pandas' own errors are of the second sort
        return None
    is_one = "image_id" in found and set(found.columns) <= {*LABEL_COLUMNS, VALUE_COLUMN}
    return found if is_one else None
