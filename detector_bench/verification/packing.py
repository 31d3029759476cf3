"""A result folder as one file, with the labels behind it and, if wanted, the images, to be verified elsewhere."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from detector_bench.atomic_files import replacing
from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.sample_file import SAMPLE_FILE
from detector_bench.dataset.validation import FileInspector
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.results.inputs import content_sha256
from detector_bench.results.local_paths import LocalPaths, is_local, place_of
from detector_bench.results.manifest import Manifest
from detector_bench.runner.stored_predictions import sha256_of_file
from detector_bench.vocabulary.generations import GENERATIONS_FILE

RESULTS = "results"
IMAGE_SET = "image_set"
"""The two folders in a pack."""

_TABLES = ("images", "prompts", "labels")
_FURTHER = (SAMPLE_FILE, GENERATIONS_FILE, "attributes")
_LEFT_OUT = (".lock", ".tmp")
_STORED = frozenset({".parquet", ".png", ".jpg", ".jpeg", ".webp", ".gif"})
"""What is compressed already."""

_TIME = (1980, 1, 1, 0, 0, 0)
_MOST_BYTES = 2**40
_LARGEST_RATIO = 200


def pack_folder(
    folder: Path, out: Path, *, image_set: Path, with_tables: bool = True, with_images: bool = False
) -> dict[str, int]:
    """Write a result folder into one ZIP file; equal folders give equal bytes.

    Args:
        folder: the result folder.
        out: the file.
        image_set: of the study; it may lie in the result folder, or be gone.
        with_tables: its tables come along, so that numbers can be computed again.
        with_images: so do the images; those at addresses stay where they are.

    Returns:
        The number of files of each sort.

    Raises:
        ConfigError: no result folder, or half of one.
        DetectorBenchError: a file cannot be read or written.
    """
    manifest, local = Manifest.read(folder), LocalPaths.read(folder)
    results = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and _belongs(path, folder, out)
        and not path.resolve().is_relative_to(image_set.resolve())
    ]
    tables = sorted(_tables_of(image_set)) if with_tables else []
    for root, name in tables:
        if (fault := FileInspector(root).fault(name)) is not None:
            raise ConfigError(f"{root / name}: {fault}; it is packed if --allow-root names where it leads")
    images = sorted(_images_of(image_set)) if with_images else []
    # Without `local_paths.json` a name stands for what lies in the folder itself.
    further = [
        *_predictions_elsewhere(folder, manifest, local),
        *(_score_files(folder, manifest, local) if with_tables else ()),
    ]
    left_out = len(_paths_of(image_set)) - len(images) if with_images else 0
    try:
        with replacing(out) as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as pack:
            for path in results:
                _add(pack, path, f"{RESULTS}/{path.relative_to(folder).as_posix()}")
            for path, name in further:
                _add(pack, path, f"{RESULTS}/{name}")
            for root, name in [*tables, *images]:
                _add(pack, root / name, f"{IMAGE_SET}/{name}")
    except OSError as error:
        raise DetectorBenchError(f"cannot pack {str(folder)!r}: {error}") from error
    return {
        "results": len(results) + len(further),
        "tables of the image set": len(tables),
        "images": len(images),
        "images left out": left_out,
    }


def _predictions_elsewhere(folder: Path, manifest: Manifest, local: LocalPaths) -> Iterator[tuple[Path, str]]:
    """The files of another folder's predictions that the numbers were made of, and their paths in the pack.

    `local_paths.json` may be anybody's: a file that `results.json` does not know by its sha256 is not packed.
    """
    place = place_of(folder, manifest.predictions, local.predictions)
    if manifest.predictions not in local.predictions:
        return
    for name, judged in manifest.proof.predictions.items():
        for file, sha256 in judged.files.items():
            if sha256_of_file(place / name / file) == sha256:
                yield place / name / file, f"{manifest.predictions}/{name}/{file}"


def _score_files(folder: Path, manifest: Manifest, local: LocalPaths) -> Iterator[tuple[Path, str]]:
    """The files of score systems that lie elsewhere, and their paths in the pack; known by their sha256, too."""
    known = set(manifest.proof.inputs.values())
    for name in local.score_files:
        place = place_of(folder, name, local.score_files)
        if content_sha256(place) in known and not (folder / name).exists():
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if path.is_file():
                    yield path, (PurePosixPath(name) / path.relative_to(place).as_posix()).as_posix()


def _belongs(path: Path, folder: Path, out: Path) -> bool:
    """Whether a file of a result folder goes out: no lock, half, link or local file, nor the pack itself."""
    parts = path.relative_to(folder).parts
    if path.is_symlink() or any(part.startswith(".") for part in parts) or path.suffix in _LEFT_OUT:
        return False
    return not is_local("/".join(parts)) and path.resolve() != out.resolve()


def _tables_of(image_set: Path) -> Iterator[tuple[Path, str]]:
    for name in _TABLES:
        for path in [
            *image_set.glob(f"{name}.*"),
            *(image_set / name).glob("*.parquet"),
            *(image_set / name).glob("*.csv"),
        ]:
            if path.is_file() and path.suffix in (".csv", ".parquet"):
                yield image_set, path.relative_to(image_set).as_posix()
    for name in _FURTHER:
        path = image_set / name
        for each in [path] if path.is_file() else sorted(path.glob("*.yaml")):
            yield image_set, each.relative_to(image_set).as_posix()


def _images_of(image_set: Path) -> Iterator[tuple[Path, str]]:
    inspector = FileInspector(image_set)
    for path in _paths_of(image_set):
        if is_file_below(path) and inspector.fault(path) is None:
            yield image_set, PurePosixPath(path).as_posix()


def _paths_of(image_set: Path) -> list[str]:
    return list(dict.fromkeys(ImageSet.load(image_set).table("images").data.column("path").to_pylist()))


def _add(pack: zipfile.ZipFile, path: Path, name: str) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_STORED if path.suffix.lower() in _STORED else zipfile.ZIP_DEFLATED
    with path.open("rb") as source, pack.open(entry, "w", force_zip64=path.stat().st_size > 2**31) as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)


@contextmanager
def unpacked(pack: Path) -> Iterator[tuple[Path, Path | None]]:
    """Lay a pack out in a folder that goes when the block ends.

    Gives the result folder, and the folder of the image set if the pack has one.

    Raises:
        ConfigError: no pack, a damaged one, or one that would write outside its folder.
    """
    with TemporaryDirectory(prefix="detector-bench-") as temporary:
        root = Path(temporary)
        try:
            with zipfile.ZipFile(pack) as content:
                for entry in content.infolist():
                    _check(pack, entry)
                if sum(entry.file_size for entry in content.infolist()) > _MOST_BYTES:
                    raise ConfigError(f"{str(pack)!r} would take more than a terabyte")
                content.extractall(root)  # checks every file's CRC-32
        except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
            raise ConfigError(f"{str(pack)!r} is no pack of detector-bench, or a damaged one: {error}") from error
        if not (root / RESULTS).is_dir():
            raise ConfigError(f"{str(pack)!r} is no pack of detector-bench: it has no folder {RESULTS!r}")
        images = root / IMAGE_SET
        yield root / RESULTS, images if images.is_dir() else None


def _check(pack: Path, entry: zipfile.ZipInfo) -> None:
    path = PurePosixPath(entry.filename)
    is_link = (entry.external_attr >> 16) & 0o170000 == 0o120000
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or is_link or "\0" in entry.filename:
        raise ConfigError(f"{str(pack)!r} holds a file that would lie outside its folder: {entry.filename!r}")
    if entry.file_size > _LARGEST_RATIO * max(entry.compress_size, 1) + 2**20:
        sizes = f"{entry.file_size:,} bytes out of {entry.compress_size:,}"
        raise ConfigError(f"{str(pack)!r}: {entry.filename!r} would become {sizes}")
